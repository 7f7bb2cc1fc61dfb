//! From a profile to its client, layer by layer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{ProfileError, Profiles, check, layered, read_small};
use crate::answers::{AnswerStore, Cached};
use crate::client::Client;
use crate::fallback::Fallback;
use crate::limit::Limited;
use crate::mock::{Mock, MockScript, ScriptError};
use crate::models::{KnownModels, ModelFacts};
use crate::prices::region_of;
use crate::profile::{CacheProfile, Profile};
use crate::provider::Provider;
use crate::relay::HumanRelay;
use crate::retry::Retrying;
use rethread_events::text;

/// The folder of answers, in that of the data.
const ANSWERS: &str = "answers";

impl Profiles {
    pub(super) fn make(&self, name: &str, profile: &Profile) -> Result<Arc<dyn Client>, ProfileError> {
        let first = self.without_fallbacks(name, profile)?;
        if profile.fallback.is_empty() {
            return Ok(first);
        }
        // One step only: the fallbacks of a fallback are not followed, so that no list can go in circles.
        let mut others = Vec::with_capacity(profile.fallback.len());
        for other in &profile.fallback {
            let profile = self.get(other)?;
            others.push((self.without_fallbacks(other, profile)?, profile.model.clone()));
        }
        Ok(Arc::new(Fallback::new(first, others)))
    }

    /// The client of a profile without its fallbacks. There is one per profile, so that all callers share its
    /// limits.
    fn without_fallbacks(&self, name: &str, profile: &Profile) -> Result<Arc<dyn Client>, ProfileError> {
        // Locked while it is created: two callers must not create two. Nothing waits under the lock.
        let mut without_fallbacks = self.without_fallbacks.lock();
        if let Some(client) = without_fallbacks.get(name) {
            return Ok(Arc::clone(client));
        }
        let client = self.layers(name, profile)?;
        without_fallbacks.insert(name.to_owned(), Arc::clone(&client));
        Ok(client)
    }

    /// From the inside out: one attempt, its limits, attempts again, what the profile says and what it costs, answers
    /// known already.
    fn layers(&self, name: &str, profile: &Profile) -> Result<Arc<dyn Client>, ProfileError> {
        check::features(name, profile)?;
        let known = self.known(profile);
        let profile = &self.resolved(profile);
        let mut client = self.single_attempt(name, profile, &known)?;
        if profile.limits.limits_anything() {
            client = Arc::new(Limited::new(client, profile.limits.clone(), &profile.model));
        }
        // A person is asked once and may take days.
        if profile.provider != Provider::Human {
            let retrying = Retrying::new(client, profile.retry.clone()).with_fallback(!profile.fallback.is_empty());
            let retrying = Arc::new(retrying);
            self.retrying.lock().insert(name.to_owned(), Arc::clone(&retrying));
            client = retrying;
        }
        let region = region_of(super::remote::host_of(&self.base_url(profile)).as_deref());
        let priced = Arc::new(layered::Priced::new(client, profile, Arc::clone(&known), region));
        self.priced.lock().insert(name.to_owned(), Arc::clone(&priced));
        client = priced;
        if let Some(cache) = &profile.answer_cache {
            let store = self.store(name, cache)?;
            client = Arc::new(Cached::new(client, store, origin(profile, &self.base_url(profile))));
        }
        Ok(Arc::new(layered::Profiled::new(profile.clone(), client, known)))
    }

    /// The cache of a profile; profiles with the same folder share it.
    fn store(&self, name: &str, cache: &CacheProfile) -> Result<Arc<AnswerStore>, ProfileError> {
        let Some(folder) = self.answers_folder(cache.folder.as_deref()) else {
            return Err(ProfileError::Value {
                profile: name.into(),
                field: "answer_cache.folder",
                why: "is missing, and there is no default folder for answers".into(),
            });
        };
        let mut stores = self.stores.lock();
        if let Some(store) = stores.get(&folder) {
            return Ok(Arc::clone(store));
        }
        let store = AnswerStore::open(&folder, cache.bounds)
            .map_err(|source| ProfileError::Cache { profile: name.into(), source })?;
        let store = Arc::new(store);
        stores.insert(folder, Arc::clone(&store));
        Ok(store)
    }

    /// The folder of a cache, with the name that a profile gives it.
    pub(super) fn answers_folder(&self, named: Option<&Path>) -> Option<PathBuf> {
        match &self.data_dir {
            Some(data_dir) => Some(data_dir.join(named.unwrap_or(Path::new(ANSWERS)))),
            None => named.map(Path::to_owned),
        }
    }

    /// Returns why a model of a profile that follows a script, its own or that of a fallback, cannot answer. `None` if it
    /// can.
    pub fn script_fault(&self, name: &str) -> Option<String> {
        let profile = self.profiles.get(name)?;
        let all = std::iter::once(name).chain(profile.fallback.iter().map(String::as_str));
        let mocks = all.filter_map(|name| Some((name, self.profiles.get(name)?)));
        let mut mocks = mocks.filter(|(_, profile)| profile.provider == Provider::Mock);
        mocks.find_map(|(name, profile)| mock(name, profile).err()).map(|error| text::with_sources(&error))
    }

    /// The client that makes one attempt.
    fn single_attempt(
        &self,
        name: &str,
        profile: &Profile,
        known: &Arc<KnownModels>,
    ) -> Result<Arc<dyn Client>, ProfileError> {
        match profile.provider {
            Provider::Mock => Ok(Arc::new(mock(name, profile)?)),
            Provider::Human => match &self.relay {
                Some(relay) => Ok(Arc::new(HumanRelay::new(Arc::clone(relay)))),
                None => Err(ProfileError::Value {
                    profile: name.into(),
                    field: "provider",
                    why: "is human, but this program cannot ask a person".into(),
                }),
            },
            Provider::Openai
            | Provider::OpenaiChat
            | Provider::OpenaiResponses
            | Provider::Anthropic
            | Provider::Gemini
            | Provider::GeminiOpenai => self.remote(name, profile, known),
        }
    }

    pub(super) fn base_url(&self, profile: &Profile) -> String {
        if let Some(url) = &profile.base_url {
            return url.clone();
        }
        let own = || profile.provider.base_url().unwrap_or_default().to_owned();
        self.first_set(profile.provider.base_url_env()).unwrap_or_else(own)
    }

    pub(super) fn first_set(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| (self.env)(name).filter(|v| !v.trim().is_empty()))
    }
}

/// Where the answers of a profile come from: all that it sends beside the request, in one line. Only its hash is kept.
fn origin(profile: &Profile, base: &str) -> String {
    let Profile { provider, headers, api_version, reasoning_field, model_facts, .. } = profile;
    let mut origin = format!("{provider} {base}");
    if !headers.is_empty() || api_version.is_some() || reasoning_field.is_some() {
        origin += &format!(" {headers:?} {api_version:?} {reasoning_field:?}");
    }
    if *model_facts != ModelFacts::default() {
        origin += &format!(" {model_facts:?}");
    }
    origin
}

/// The mock of a profile, which follows its script.
fn mock(name: &str, profile: &Profile) -> Result<Mock, ProfileError> {
    let fault = |source| ProfileError::Script { profile: name.into(), source };
    let script = match (&profile.script, &profile.script_file) {
        (Some(script), _) => script.clone(),
        (None, Some(path)) => {
            let text = read_small(path)
                .map_err(|error| ProfileError::NoScript { profile: name.into(), source: Box::new(error) })?;
            let of_file = |error| fault(ScriptError { file: Some(path.display().to_string()), ..error });
            MockScript::parse(&text).map_err(of_file)?
        }
        (None, None) => return Ok(Mock::saying("This is the mock model: give it a script.")),
    };
    Mock::new(script).map_err(fault)
}
