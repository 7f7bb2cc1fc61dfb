//! The profiles of a configuration, and the clients made from them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::answers::{self, AnswerStore, StoreError};
use crate::client::Client;
use crate::error::LlmError;
use crate::mock::ScriptError;
use crate::models::{Address, KnownModels, ModelTable, TableError};
use crate::prices;
use crate::profile::Profile;
use crate::provider::Provider;
use crate::relay::Relay;
use crate::request::Request;
use crate::retry::{RetryStats, Retrying};
use rethread_events::text;

mod advice;
pub(crate) mod check;
#[cfg(feature = "toml")]
mod file;
mod layered;
mod make;
mod recorded;
#[cfg(feature = "http")]
mod remote;
// Without any provider that is reached over HTTP.
#[cfg(not(feature = "http"))]
#[path = "profiles/absent.rs"]
mod remote;

#[cfg(feature = "toml")]
pub use file::{ProfilesConfig, config_fault};
pub use layered::Totals;
pub use recorded::RecordedProfile;

/// The largest configuration file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The configuration is not what it should be: correct it.
    #[error("the configuration is wrong: {0}")]
    Syntax(String),
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// No profile of that name.
    #[error("no profile is named `{name}`; there are: {known}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A model name without a known provider.
    #[error("the provider of the model `{0}` is unknown: name the provider or a profile")]
    WhoseModel(String),
    /// There is no key.
    #[error("{}{provider} needs a key: set {variables}", profile.as_ref().map(|name| format!("profile `{name}`: ")).unwrap_or_default())]
    NoKey {
        /// The profile, unless a node names the provider itself.
        profile: Option<String>,
        /// The provider.
        provider: Provider,
        /// Where a key is looked for.
        variables: String,
    },
    /// The provider is not in this program.
    #[error("provider `{provider}` is not compiled in: enable the feature `{feature}`")]
    NotCompiled {
        /// The provider.
        provider: Provider,
        /// The feature of this crate, and of `rethread`, that it needs.
        feature: &'static str,
    },
    /// A value that cannot be used.
    #[error("profile `{profile}`: {field} {why}")]
    Value {
        /// Which profile.
        profile: String,
        /// Which of its fields.
        field: &'static str,
        /// The fault.
        why: String,
    },
    /// The script of a mock cannot be followed.
    #[error("profile `{profile}`: the mock script is invalid")]
    Script {
        /// Which profile.
        profile: String,
        /// Why.
        #[source]
        source: ScriptError,
    },
    /// The file with the script of a mock cannot be read.
    #[error("profile `{profile}`: script_file")]
    NoScript {
        /// Which profile.
        profile: String,
        /// Why.
        #[source]
        source: Box<ProfileError>,
    },
    /// The answer cache cannot be opened.
    #[error("profile `{profile}`: the answer cache cannot be opened")]
    Cache {
        /// Which profile.
        profile: String,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The table of models cannot be used.
    #[error("[models] table")]
    Table(#[from] TableError),
    /// A request that this provider's protocol cannot express.
    #[error("the provider's protocol cannot express the request")]
    Request(#[source] Box<LlmError>),
    /// The shared HTTP client cannot be made.
    #[error("the HTTP client cannot be made")]
    Http(#[source] Box<LlmError>),
}

impl ProfileError {
    fn not_compiled(provider: Provider) -> Self {
        Self::NotCompiled { provider, feature: provider.feature().unwrap_or("http") }
    }
}

/// Reads a variable of the environment.
type Env = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The profiles of a configuration. It makes one client per profile and one HTTP client for all, both on first use;
/// everything that calls through one profile shares its limits. Cheap to share in an [`Arc`].
pub struct Profiles {
    profiles: BTreeMap<String, Profile>,
    default: Option<String>,
    env: Box<Env>,
    http: remote::Connections,
    clients: Mutex<HashMap<String, Arc<dyn Client>>>,
    /// The clients without their fallbacks.
    without_fallbacks: Mutex<HashMap<String, Arc<dyn Client>>>,
    retrying: Mutex<HashMap<String, Arc<Retrying>>>,
    priced: Mutex<HashMap<String, Arc<layered::Priced>>>,
    stores: Mutex<HashMap<PathBuf, Arc<AnswerStore>>>,
    data_dir: Option<PathBuf>,
    relay: Option<Arc<dyn Relay>>,
    table: Arc<ModelTable>,
}

impl Profiles {
    /// No profiles: clients come from provider, model and environment alone.
    pub fn empty() -> Self {
        Self::new(BTreeMap::new(), None)
    }

    /// These profiles.
    pub fn new(profiles: BTreeMap<String, Profile>, default: Option<String>) -> Self {
        Self {
            profiles,
            default,
            env: Box::new(|name| std::env::var(name).ok()),
            http: remote::Connections::default(),
            clients: Mutex::default(),
            without_fallbacks: Mutex::default(),
            retrying: Mutex::default(),
            priced: Mutex::default(),
            stores: Mutex::default(),
            data_dir: None,
            relay: None,
            table: ModelTable::built_in(),
        }
    }

    /// Reads variables from `env` instead of the environment of the process.
    #[must_use]
    pub fn with_env(mut self, env: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.env = Box::new(env);
        self
    }

    /// Stores answers in this folder, beside the log: in `answers`, for profiles that ask for a cache and name no folder. A
    /// relative folder of a profile is in it as well. Without it, a relative one is in the current folder.
    #[must_use]
    pub fn with_data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(folder.into());
        self
    }

    /// Removes all answers that profiles have stored: in the folder for those that name none, and in each folder that a
    /// profile names. An answer does not say whose it is, so none of them stays when something is erased. Returns how many
    /// there were. Blocks.
    ///
    /// # Errors
    /// If a folder cannot be listed or a file cannot be removed. The answers of the folders after it are left, too.
    pub fn clear_answers(&self) -> Result<u64, StoreError> {
        let named = self.profiles.values().filter_map(|profile| profile.answer_cache.as_ref()?.folder.as_deref());
        let folders: BTreeSet<PathBuf> =
            named.map(Some).chain([None]).filter_map(|named| self.answers_folder(named)).collect();
        folders.into_iter().try_fold(0, |n, folder| {
            let open = self.stores.lock().get(&folder).cloned();
            let removed = match open {
                Some(store) => store.clear()?,
                None => answers::clear(&folder)?,
            };
            Ok(n + removed)
        })
    }

    /// Asks people through `relay`, for profiles whose provider is `human`. For programs that call models without a
    /// runtime: a runtime puts such calls to people as interactions, and no client is made for them.
    #[must_use]
    pub fn with_relay(mut self, relay: Arc<dyn Relay>) -> Self {
        self.relay = Some(relay);
        self
    }

    /// Takes the facts of models from this table instead of the built-in one.
    #[must_use]
    pub fn with_models(mut self, table: Arc<ModelTable>) -> Self {
        self.table = table;
        self
    }

    /// The table of models.
    pub fn models(&self) -> &Arc<ModelTable> {
        &self.table
    }

    /// What is known of the models that a profile can reach.
    pub(crate) fn known(&self, profile: &Profile) -> Arc<KnownModels> {
        let host = remote::host_of(&self.base_url(profile));
        let named = profile.price_list.as_deref().and_then(prices::list_named);
        let address = named.map_or_else(|| Address::of(profile.provider, host.as_deref()), Address::Provider);
        Arc::new(KnownModels::new(profile, address, Arc::clone(&self.table)))
    }

    /// The profile with the provider whose protocol is spoken at its address.
    pub(crate) fn resolved(&self, profile: &Profile) -> Profile {
        let host = remote::host_of(&self.base_url(profile));
        Profile { provider: profile.provider.at(host.as_deref()), ..profile.clone() }
    }

    /// The exact body that a profile's provider is sent for a request, without sending it; none for a provider that
    /// is not reached over HTTP. The same request gives the same body.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], and [`ProfileError::Request`] if the provider's protocol cannot express it.
    pub fn body(&self, name: &str, request: &Request) -> Result<Option<Value>, ProfileError> {
        let profile = self.get(name)?;
        let known = self.known(profile);
        let profile = self.resolved(profile);
        let body = remote::body(&profile, &self.base_url(&profile), &known, request)?;
        body.map(|body| recorded::read_body(profile.provider, &body)).transpose()
    }

    /// Returns the statistics of the attempts of a profile; `None` if it was never used.
    pub fn retry_stats(&self, name: &str) -> Option<RetryStats> {
        self.retrying.lock().get(name).map(|client| client.stats())
    }

    /// Returns the usage of the answers of a profile, in tokens and money; `None` if it was never used.
    pub fn totals(&self, name: &str) -> Option<Totals> {
        self.priced.lock().get(name).map(|client| client.totals())
    }

    /// Whether the prices of a profile and of those it turns to are known; `model` takes the place of the profile's own.
    /// A mock costs nothing. True for a profile that does not exist.
    pub fn is_priced(&self, name: &str, model: Option<&str>) -> bool {
        let Some(profile) = self.profiles.get(name) else { return true };
        let others = profile.fallback.iter().filter_map(|other| self.profiles.get(other));
        self.has_price(profile, model) && others.into_iter().all(|other| self.has_price(other, None))
    }

    /// As above, for a provider and model without a profile.
    pub fn is_priced_for(&self, provider: Provider, model: &str) -> bool {
        self.has_price(&Profile::new(provider, model), None)
    }

    fn has_price(&self, profile: &Profile, model: Option<&str>) -> bool {
        let known = || self.known(profile).of(model.unwrap_or_default());
        let has_own = profile.prices.is_some() && model.is_none_or(|model| model == profile.model);
        let is_priced = || known().facts.prices.as_ref().is_some_and(|prices| prices.unit(0, None).is_some());
        profile.provider == Provider::Mock || has_own || is_priced()
    }

    /// Adds a profile, or replaces the one of that name along with its client and those that may turn to it.
    pub fn insert(&mut self, name: impl Into<String>, profile: Profile) {
        let name = name.into();
        self.without_fallbacks.lock().remove(&name);
        let profiles = &self.profiles;
        let turns_to_it = |other: &String| profiles.get(other).is_some_and(|other| other.fallback.contains(&name));
        self.clients.lock().retain(|other, _| *other != name && !turns_to_it(other));
        self.profiles.insert(name, profile);
    }

    /// The names of the profiles, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(String::as_str)
    }

    /// The profile that is meant when none is named.
    pub fn default_name(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// A profile by name.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`].
    pub fn get(&self, name: &str) -> Result<&Profile, ProfileError> {
        self.profiles.get(name).ok_or_else(|| ProfileError::Unknown {
            name: text::head(name, 80).to_owned(),
            known: if self.profiles.is_empty() { "none".into() } else { self.names().collect::<Vec<_>>().join(", ") },
        })
    }

    /// The client of a profile, made on first use.
    ///
    /// # Errors
    /// When the profile does not exist or is contradictory.
    pub fn client(&self, name: &str) -> Result<Arc<dyn Client>, ProfileError> {
        if let Some(client) = self.clients.lock().get(name) {
            return Ok(Arc::clone(client));
        }
        let client = self.make(name, self.get(name)?)?;
        // Two callers may have made one at the same time: both get the first, so that they share its limits.
        Ok(Arc::clone(self.clients.lock().entry(name.to_owned()).or_insert(client)))
    }

    /// The client for a provider and model, without a profile; key and base URL come from the environment.
    ///
    /// # Errors
    /// [`ProfileError::NoKey`] and what else [`Profiles::client`] may say.
    pub fn client_for(&self, provider: Provider, model: &str) -> Result<Arc<dyn Client>, ProfileError> {
        let name = format!("{provider}/{model}");
        if let Some(client) = self.clients.lock().get(&name) {
            return Ok(Arc::clone(client));
        }
        let client = self.make(&name, &Profile::new(provider, model))?;
        Ok(Arc::clone(self.clients.lock().entry(name).or_insert(client)))
    }

    /// The client for a bare model name: the profile of that name, the first profile with that model, or the
    /// provider whose models are named so.
    ///
    /// # Errors
    /// [`ProfileError::WhoseModel`], and what else [`Profiles::client`] may say.
    pub fn client_for_model(&self, model: &str) -> Result<Arc<dyn Client>, ProfileError> {
        if self.profiles.contains_key(model) {
            return self.client(model);
        }
        if let Some((name, _)) = self.profiles.iter().find(|(_, p)| p.model == model) {
            return self.client(name);
        }
        let (provider, model) = match model.split_once('/').map(|(p, m)| (p.parse(), m)) {
            Some((Ok(provider), model)) => (provider, model),
            _ => match Provider::of_model(model) {
                Some(provider) => (provider, model),
                None => return Err(ProfileError::WhoseModel(text::head(model, 80).to_owned())),
            },
        };
        self.client_for(provider, model)
    }

    /// The clients of every profile.
    ///
    /// # Errors
    /// The first profile that has none.
    pub fn all(&self) -> Result<BTreeMap<String, Arc<dyn Client>>, ProfileError> {
        self.profiles.keys().map(|name| Ok((name.clone(), self.client(name)?))).collect()
    }
}

fn read_small(path: &Path) -> Result<String, ProfileError> {
    use std::io::Read as _;
    let fail = |source| ProfileError::File { path: path.display().to_string(), source };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(fail)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(fail)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(fail(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            format!("larger than {FILE_BYTES_MAX} bytes"),
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
