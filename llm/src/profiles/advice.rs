//! What a person should know of a model before it is called.

use jiff::civil::Date;

use super::{ProfileError, Profiles};
use crate::models::{ChatCompletions, Known};
use crate::profile::Profile;
use crate::provider::Provider;
use crate::request::Request;
use crate::shape::{Field, Refused, refused};

/// A model that ends within so many days is warned of.
const ENDS_SOON_DAYS: i32 = 90;

impl Known {
    /// Returns when the model ends and what takes its place, if it has ended or does so within 90 days.
    pub fn ends_soon(&self, model: &str, today: Date) -> Option<String> {
        let ends: Date = self.facts.ends.as_deref()?.parse().ok()?;
        let days = today.until(ends).ok()?.get_days();
        if days > ENDS_SOON_DAYS {
            return None;
        }
        let word = if days < 0 { "ended" } else { "ends" };
        let successor = match &self.facts.successor {
            Some(successor) => format!("its provider names `{successor}` in its place"),
            None => "choose another one".to_owned(),
        };
        Some(format!("`{model}` {word} on {ends}: {successor}"))
    }

    /// Returns that the protocol does not have the model.
    pub fn is_absent(&self, provider: Provider, model: &str) -> Option<String> {
        let is_absent = provider == Provider::OpenaiChat && self.facts.chat_completions == Some(ChatCompletions::None);
        is_absent.then(|| format!("Chat Completions does not have `{model}`: use the provider `openai`"))
    }

    /// Returns that the model is unknown, if its provider's present models are taken for it.
    pub fn is_assumed(&self, model: &str) -> Option<String> {
        let is_assumed = !self.is_listed && self.facts.sampling.is_some();
        is_assumed.then(|| {
            format!(
                "`{model}` is not in the table of models: it is taken for a present model of its provider; say what it takes \
                 in `model_facts` of its profile"
            )
        })
    }
}

impl Profiles {
    /// Returns the warnings about a profile: a protocol that does not have its model, parameters that its model refuses and
    /// that are left out of requests, tools that it has elsewhere, its end.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`].
    pub fn advice(&self, name: &str, today: Date) -> Result<Vec<String>, ProfileError> {
        let profile = self.get(name)?;
        let resolved = self.resolved(profile);
        let known = self.known(profile).of("");
        let mut request = Request { tools: vec![sample_tool()].into(), ..Request::default() };
        resolved.apply(&mut request);
        let mut advice: Vec<String> = known.is_absent(resolved.provider, &resolved.model).into_iter().collect();
        let refused = refused(&known, resolved.provider, &request).into_iter();
        advice.extend(refused.map(|Refused { field, why, .. }| format!("`{field}` is left out of requests: {why}")));
        advice.extend(known.ends_soon(&resolved.model, today));
        advice.extend(known.is_assumed(&resolved.model));
        Ok(advice)
    }

    /// Returns the fields of a request that the model of a profile, or of a provider, refuses. The request has what a node
    /// says; what the profile says counts as well, and is not returned.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`].
    pub fn refused(
        &self,
        profile: Option<&str>,
        provider: Option<Provider>,
        request: &Request,
    ) -> Result<Vec<Refused>, ProfileError> {
        let profile = match (profile, provider) {
            (Some(name), _) => self.get(name)?.clone(),
            (None, Some(provider)) => Profile::new(provider, request.model.clone()),
            (None, None) => return Ok(Vec::new()),
        };
        let resolved = self.resolved(&profile);
        let mut whole = request.clone();
        resolved.apply(&mut whole);
        let known = self.known(&profile).of(&whole.model);
        // Tools are refused by the provider that the profile names.
        let of_node = |refused: &Refused| refused.field != Field::Tools && refused.field.is_in(request);
        Ok(refused(&known, resolved.provider, &whole).into_iter().filter(of_node).collect())
    }
}

/// A tool that takes nothing, for a request of which only that it has tools counts.
fn sample_tool() -> rethread_events::message::ToolSpec {
    rethread_events::message::ToolSpec { name: "sample".into(), description: None, parameters: Default::default() }
}
