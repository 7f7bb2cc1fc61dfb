//! The settings that decide the body of a request, without keys: stored with a call, so that the body can be rebuilt
//! later, even if the configuration has changed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ProfileError, Profiles, remote};
use crate::error::{ErrorKind, LlmError};
use crate::models::{Address, KnownModels, ModelFacts, ModelTable};
use crate::profile::{Auth, Params, Profile};
use crate::provider::Provider;
use crate::request::{CacheMode, Request};

/// A profile as far as it decides what is sent. Holds no key, no header, no script, and of the address only what is no
/// secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedProfile {
    /// Its name; absent where a node names provider and model itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whose model it is.
    pub provider: Provider,
    /// The model.
    pub model: String,
    /// Where it is found, without user, password and query.
    pub base_url: String,
    pub(super) auth: Auth,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) api_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_field: Option<String>,
    /// What was known of the model, without its prices.
    pub(super) facts: ModelFacts,
    pub(super) params: Params,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cache: Option<CacheMode>,
    /// The profiles that are turned to when it stays down, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<RecordedProfile>,
}

impl RecordedProfile {
    /// Returns the body of a request if this profile is called first.
    ///
    /// # Errors
    /// [`ProfileError::Request`] if the provider's protocol cannot express it; nothing was sent then either.
    pub fn body(&self, request: &Request) -> Result<Value, ProfileError> {
        read_body(self.provider, &self.body_bytes(request)?)
    }

    /// Returns the same body as JSON.
    ///
    /// # Errors
    /// As [`RecordedProfile::body`].
    pub fn body_bytes(&self, request: &Request) -> Result<Vec<u8>, ProfileError> {
        let profile = Profile {
            auth: self.auth,
            api_version: self.api_version.clone(),
            reasoning_field: self.reasoning_field.clone(),
            model_facts: self.facts.clone(),
            params: self.params.clone(),
            cache: self.cache,
            ..Profile::new(self.provider, self.model.clone())
        };
        // What was known then holds, not what is known now.
        let known = KnownModels::new(&profile, Address::Other, ModelTable::built_in());
        let body = remote::body(&profile, &self.base_url, &known.into(), request)?;
        body.ok_or_else(|| ProfileError::Value {
            profile: self.name.clone().unwrap_or_default(),
            field: "base_url",
            why: format!("`{}` is no address", self.base_url),
        })
    }

    /// Returns the host and the port to which its requests go.
    pub fn server(&self) -> Option<(String, u16)> {
        remote::server_of(&self.base_url)
    }

    /// Returns the body if this profile is called as the fallback of another, whose model is not its own.
    ///
    /// # Errors
    /// As [`RecordedProfile::body`].
    pub fn body_as_fallback(&self, request: &Request) -> Result<Value, ProfileError> {
        self.body(&Request { model: self.model.clone(), ..request.clone() })
    }
}

impl Profiles {
    /// Returns the recorded part of a profile; `None` if nothing is sent over HTTP.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`].
    pub fn recorded(&self, name: &str) -> Result<Option<RecordedProfile>, ProfileError> {
        let profile = self.get(name)?;
        let Some(mut recorded) = self.record(Some(name), profile) else { return Ok(None) };
        for other in &profile.fallback {
            recorded.fallback.extend(self.record(Some(other), self.get(other)?));
        }
        Ok(Some(recorded))
    }

    /// As above, for a provider and model without a profile.
    pub fn recorded_for(&self, provider: Provider, model: &str) -> Option<RecordedProfile> {
        self.record(None, &Profile::new(provider, model))
    }
}

/// Reads a body that was made here.
pub(super) fn read_body(provider: Provider, body: &[u8]) -> Result<Value, ProfileError> {
    serde_json::from_slice(body).map_err(|error| {
        let fault = LlmError::new(ErrorKind::InvalidRequest, provider.name(), error.to_string());
        ProfileError::Request(Box::new(fault))
    })
}

#[cfg(test)]
mod tests;
