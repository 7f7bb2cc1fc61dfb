//! What decides the body of a request, without keys: kept beside a call, the body can be built again later, whatever the
//! configuration says by then.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::{ProfileError, Profiles, make};
use crate::prices::PriceTable;
use crate::profile::{Auth, Params, Profile};
use crate::provider::Provider;
use crate::request::Request;
use crate::secret::without_secrets;
use crate::wire::openai_chat::Reasoning;

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
    auth: Auth,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning_field: Option<String>,
    /// Whether the model was known to reason. Absent in what was kept before this was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning_model: Option<bool>,
    params: Params,
    /// The profiles that are turned to when it stays down, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<RecordedProfile>,
}

impl RecordedProfile {
    /// The body that is sent for a request when this profile is asked first.
    ///
    /// # Errors
    /// [`ProfileError::Request`] when it cannot be put into the provider's words; nothing was sent then either.
    pub fn body(&self, request: &Request) -> Result<Value, ProfileError> {
        let profile = Profile {
            auth: self.auth,
            api_version: self.api_version.clone(),
            reasoning_field: self.reasoning_field.clone(),
            // What was known holds for the profile's own model.
            reasoning_model: self.reasoning_model.filter(|_| request.model.is_empty() || request.model == self.model),
            params: self.params.clone(),
            ..Profile::new(self.provider, self.model.clone())
        };
        let mut request = request.clone();
        profile.apply(&mut request);
        let body = make::body(&profile, &self.base_url, &PriceTable::built_in(), &request)?;
        body.ok_or_else(|| ProfileError::Value {
            profile: self.name.clone().unwrap_or_default(),
            field: "base_url",
            why: format!("`{}` is no address", self.base_url),
        })
    }

    /// The same when it is asked in the place of another profile, whose model is not its own.
    ///
    /// # Errors
    /// As [`RecordedProfile::body`].
    pub fn body_as_fallback(&self, request: &Request) -> Result<Value, ProfileError> {
        self.body(&Request { model: self.model.clone(), ..request.clone() })
    }
}

impl Profiles {
    /// What is to be kept of a profile; nothing where nothing is sent over HTTP.
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

    /// The same for a provider and model without a profile.
    pub fn recorded_for(&self, provider: Provider, model: &str) -> Option<RecordedProfile> {
        self.record(None, &Profile::new(provider, model))
    }

    fn record(&self, name: Option<&str>, profile: &Profile) -> Option<RecordedProfile> {
        let reasoning_model = match profile.provider {
            Provider::Mock | Provider::Human => return None,
            Provider::OpenaiChat | Provider::OpenaiResponses | Provider::GeminiOpenai => {
                let table = Arc::clone(&self.table);
                Reasoning { said: profile.reasoning_model, table }.settled(&profile.model)
            }
            Provider::Anthropic | Provider::Gemini => None,
        };
        Some(RecordedProfile {
            name: name.map(str::to_owned),
            provider: profile.provider,
            model: profile.model.clone(),
            base_url: Url::parse(&self.base_url(profile)).map(without_secrets).unwrap_or_default(),
            auth: profile.auth,
            api_version: profile.api_version.clone(),
            reasoning_field: profile.reasoning_field.clone(),
            reasoning_model,
            params: profile.params.clone(),
            fallback: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests;
