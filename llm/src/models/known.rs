//! What is known of the models that a profile can reach.

use std::sync::Arc;

use parking_lot::Mutex;
use std::collections::HashMap;

use super::{
    ChatCompletions, ModelFacts, ModelTable, PromptCache, Sampling, SystemMessages, Thinking, home_of,
    is_of_reasoning_family,
};
use crate::profile::Profile;
use crate::provider::Provider;

/// The most models of one profile whose facts are kept: more than any workflow names beside the profile's own.
const MODELS_MAX: usize = 64;

/// Where a profile's requests go, as far as it says which models are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// The provider of this list.
    Provider(&'static str),
    /// Any other server: a gateway, or one of one's own.
    Other,
}

impl Address {
    /// The address of a provider at this host.
    pub(crate) fn of(provider: Provider, host: Option<&str>) -> Self {
        crate::prices::list_of(provider, host).map_or(Self::Other, Self::Provider)
    }
}

/// The facts of the models of one profile: what the profile overrides, what the table says, and what holds for the
/// provider's present models where the table does not list a name.
#[derive(Debug)]
pub struct KnownModels {
    provider: Provider,
    address: Address,
    table: Arc<ModelTable>,
    /// The model of the profile, and what the profile says of it.
    own: (String, ModelFacts),
    known: Mutex<HashMap<String, Arc<Known>>>,
}

/// What is known of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The facts.
    pub facts: ModelFacts,
    /// Whether the table lists the model. Otherwise the facts are those of the provider's present models.
    pub is_listed: bool,
    /// Whether it is a model of OpenAI, whose requests may name their conversation for its cache of prompts.
    pub takes_cache_key: bool,
    /// Whether OpenAI or Azure serves it.
    pub is_of_openai: bool,
}

impl KnownModels {
    /// The models of a profile at this address.
    pub fn new(profile: &Profile, address: Address, table: Arc<ModelTable>) -> Self {
        let own = (profile.model.clone(), profile.facts());
        Self { provider: profile.provider, address, table, own, known: Mutex::default() }
    }

    /// What is known of a model. An empty name is the profile's own.
    pub fn of(&self, model: &str) -> Arc<Known> {
        let model = if model.is_empty() { &self.own.0 } else { model };
        let mut known = self.known.lock();
        if let Some(known) = known.get(model) {
            return Arc::clone(known);
        }
        if known.len() >= MODELS_MAX {
            known.clear();
        }
        let made = Arc::new(self.look_up(model));
        known.insert(model.to_owned(), Arc::clone(&made));
        made
    }

    fn look_up(&self, model: &str) -> Known {
        let listed = self.listed(model);
        let is_listed = listed.is_some();
        let present = present_default(self.provider, self.address, model);
        // A listed model without words for the effort takes none.
        let efforts = listed.as_ref().map_or_else(|| present.efforts.clone(), |listed| listed.efforts.clone());
        let facts = ModelFacts { efforts, ..listed.unwrap_or_default().or(&present) };
        // What a profile says holds for its own model, such as a deployment.
        let facts = if model == self.own.0 { self.own.1.clone().or(&facts) } else { facts };
        let is_of_openai = match self.address {
            Address::Provider(list) => matches!(list, "openai" | "azure"),
            Address::Other => is_listed,
        };
        let is_of_openai = is_of_openai
            && matches!(self.provider, Provider::Openai | Provider::OpenaiChat | Provider::OpenaiResponses);
        let takes_cache_key = is_of_openai && facts.cache == Some(PromptCache::Implicit);
        Known { facts, is_listed, takes_cache_key, is_of_openai }
    }

    /// The facts of the table. Abilities are those of the model wherever it is reached; its prices are those of the
    /// address.
    fn listed(&self, model: &str) -> Option<ModelFacts> {
        let here = match self.address {
            Address::Provider(list) => self.table.facts(list, model),
            Address::Other => None,
        };
        let elsewhere = || {
            let home = home_of(self.provider)?;
            // Gateways put the name of the vendor before that of the model.
            let bare = model.rsplit('/').next().unwrap_or(model);
            let found = self.table.facts(home, bare);
            let found = found.or_else(|| self.table.facts("azure", bare).filter(|_| home == "openai"));
            found.map(|facts| ModelFacts { prices: None, ..facts })
        };
        here.or_else(elsewhere)
    }
}

/// The facts of a provider's present models, for a name that the table does not list. A server of somebody else that
/// speaks the protocol is taken to accept what it is sent.
fn present_default(provider: Provider, address: Address, model: &str) -> ModelFacts {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_at = |list: &str| matches!(address, Address::Provider(own) if own == list);
    match provider {
        // Those before generation 4.6, which the table no longer lists.
        Provider::Anthropic if generation(name).is_some_and(|generation| generation < (4, 6)) => ModelFacts {
            sampling: Some(Sampling::Always),
            thinking: Some(Thinking::Budget),
            system_messages: Some(SystemMessages::First),
            cache: Some(PromptCache::Explicit),
            ..ModelFacts::default()
        },
        Provider::Anthropic if is_at("anthropic") || name.contains("claude") => ModelFacts {
            sampling: Some(Sampling::Never),
            forced_tool_choice: Some(false),
            prefill: Some(false),
            thinking: Some(Thinking::Adaptive),
            thinks_by_default: Some(true),
            bound_thinking: Some(true),
            system_messages: Some(SystemMessages::First),
            cache: Some(PromptCache::Explicit),
            json_schema: Some(true),
            efforts: Some(["none", "low", "medium", "high"].map(str::to_owned).to_vec()),
            output: Some(64_000),
            ..ModelFacts::default()
        },
        Provider::Openai | Provider::OpenaiChat | Provider::OpenaiResponses
            if is_at("openai") || is_at("azure") || is_of_reasoning_family(name) =>
        {
            // A deployment has any name. Over Chat Completions a model that reasons would lose its tools.
            let is_any = provider != Provider::OpenaiChat && address != Address::Other && !is_of_older_family(name);
            let reasons = is_any || is_of_reasoning_family(name);
            let compatible = matches!(address, Address::Other) && name.starts_with("gpt-oss");
            ModelFacts {
                sampling: Some(if reasons && !compatible { Sampling::Never } else { Sampling::Always }),
                thinking: Some(if reasons { Thinking::Effort } else { Thinking::None }),
                stop: (reasons && !compatible).then_some(false),
                verbosity: is_of_older_family(name).then_some(false),
                // A gateway may know how to ask the model.
                chat_completions: Some(if reasons && address != Address::Other {
                    ChatCompletions::NoTools
                } else {
                    ChatCompletions::Full
                }),
                efforts: (reasons && !compatible)
                    .then(|| ["low", "medium", "high", "xhigh", "max"].map(str::to_owned).to_vec()),
                system_messages: Some(if compatible { SystemMessages::First } else { SystemMessages::Anywhere }),
                tool_changes: Some(reasons && !compatible),
                cache: Some(if compatible { PromptCache::None } else { PromptCache::Implicit }),
                ..ModelFacts::default()
            }
        }
        Provider::Gemini | Provider::GeminiOpenai
            if (is_at("gemini") || name.starts_with("gemini-"))
                && !["gemini-1", "gemini-2", "gemma", "learnlm"].iter().any(|old| name.starts_with(old)) =>
        {
            ModelFacts {
                sampling: Some(Sampling::Never),
                thinking: Some(Thinking::Effort),
                thinks_by_default: Some(true),
                forced_tool_choice: Some(true),
                json_schema: Some(true),
                efforts: Some(["low", "medium", "high"].map(str::to_owned).to_vec()),
                system_messages: Some(SystemMessages::First),
                cache: Some(PromptCache::Implicit),
                ..ModelFacts::default()
            }
        }
        Provider::Gemini | Provider::GeminiOpenai => ModelFacts {
            schema_with_tools: ["gemini-1", "gemini-2"].iter().any(|old| name.starts_with(old)).then_some(false),
            system_messages: Some(SystemMessages::First),
            cache: Some(PromptCache::Implicit),
            ..ModelFacts::default()
        },
        Provider::Anthropic
        | Provider::Openai
        | Provider::OpenaiChat
        | Provider::OpenaiResponses
        | Provider::Mock
        | Provider::Human => ModelFacts {
            system_messages: Some(SystemMessages::First),
            cache: Some(PromptCache::None),
            ..ModelFacts::default()
        },
    }
}

/// Whether the name of an unlisted model belongs to a family of OpenAI that does not reason.
fn is_of_older_family(name: &str) -> bool {
    let name = name.strip_prefix("ft:").unwrap_or(name);
    ["gpt-3", "gpt-4", "chatgpt", "davinci", "babbage"].iter().any(|family| name.starts_with(family))
}

/// The generation of a model of Anthropic, by the first two numbers of its name; a date is none.
fn generation(name: &str) -> Option<(u32, u32)> {
    let mut numbers = name.strip_prefix("claude")?.split(['-', '.']).filter_map(|word| word.parse::<u32>().ok());
    let (major, minor) = (numbers.next()?, numbers.next());
    Some((major, minor.filter(|minor| *minor < 100).unwrap_or(0)))
}
