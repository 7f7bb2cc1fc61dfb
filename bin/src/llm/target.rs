//! Which model is meant.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rethread_llm::profiles::ProfileError;
use rethread_llm::{Client, Profile, Profiles, Provider};

use super::read::Terminal;
use crate::open::config_file;

/// The options that choose a model.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// A profile of the configuration
    #[arg(long)]
    profile: Option<String>,
    /// The configuration file (default: `rethread.toml` in this folder, else in `rethread` in your configuration folder)
    #[arg(long, env = "RETHREAD_CONFIG")]
    config: Option<PathBuf>,
    /// The provider: openai, openai_chat, openai_responses, anthropic, gemini, gemini_openai, mock or human
    #[arg(long)]
    provider: Option<Provider>,
    /// The address of the provider, as in its official client libraries
    #[arg(long)]
    base_url: Option<String>,
    /// The provider's name of the model
    #[arg(long)]
    pub(super) model: Option<String>,
    /// The timeout of the whole call, in seconds. Without it, a call ends at once if its provider asks for a longer wait
    /// than `retry.wait_max_ms`
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|seconds| !seconds.is_zero())
        .ok_or_else(|| "expected a number of seconds above 0, such as 2.5".into())
}

#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    #[command(flatten)]
    pub(super) target: Target,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Target {
    /// Whether a profile or a provider is named.
    pub(super) const fn names_provider(&self) -> bool {
        self.profile.is_some() || self.provider.is_some() || self.base_url.is_some()
    }
}

/// The profiles of the configuration.
pub(super) fn profiles(target: &Target) -> Result<Profiles, ProfileError> {
    let file = config_file(target.config.as_deref());
    file.map_or_else(|| Ok(Profiles::empty()), Profiles::from_file)
}

pub(super) fn client(target: &Target) -> Result<Arc<dyn Client>, ProfileError> {
    let mut profiles = profiles(target)?.with_relay(Arc::new(Terminal));
    let named = match (&target.profile, target.provider) {
        (Some(name), _) => Some(name.clone()),
        (None, None) if target.model.is_none() => profiles.default_name().map(str::to_owned),
        _ => None,
    };
    let of_profile = named.clone();
    let mut profile = match (named, target.provider, &target.model) {
        (Some(name), ..) => profiles.get(&name)?.clone(),
        (None, Some(provider), model) => Profile::new(provider, model.clone().unwrap_or_default()),
        (None, None, Some(model)) => match Provider::of_model(model) {
            Some(provider) => Profile::new(provider, model.clone()),
            None => return profiles.client_for_model(model),
        },
        (None, None, None) => {
            return Err(ProfileError::Syntax("say --profile, --provider or --model".into()));
        }
    };
    if let Some(url) = &target.base_url {
        profile.base_url = Some(url.clone());
    }
    if let Some(model) = &target.model {
        profile.model.clone_from(model);
    }
    if let Some(timeout) = target.timeout {
        let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        profile.retry.total_ms = profile.retry.total_ms.min(ms.max(1));
        profile.limits.wait_max_ms = profile.limits.wait_max_ms.min(ms.max(1));
    } else {
        // A person waits for this one call.
        profile.retry.asked_wait_max_ms.get_or_insert(profile.retry.wait_max_ms);
    }
    // Without a profile, a name that no configuration file can hold, so that it is unique.
    let name = of_profile.unwrap_or_else(|| "\0command line".to_owned());
    profiles.insert(&name, profile);
    profiles.client(&name)
}
