//! The usage of calls: one by one, and in totals by model, by tool and by label.

use std::collections::BTreeMap;

use rethread::usage::{CallSums, CallUsage, Callee, GroupSums, ModelName, ModelSums, Purpose, UsageSums};
use rethread::{CallId, ErrorKind, NodeId, Seq, ThreadId, Time};
use rethread_events::ids::ToolName;
use rethread_events::message::{FinishReason, Usage, UsageSource};
use serde::Serialize;

/// Tokens; null where a figure is not known.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Tokens {
    pub(crate) input_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    pub(crate) cached_input_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

/// A call that ended. What only one kind of call has is null for the other kind.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) thread_id: ThreadId,
    /// The node that the call belongs to.
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    pub(crate) node_id: Option<NodeId>,
    /// The seq of its request.
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    pub(crate) call_id: CallId,
    /// The event that ended it.
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    last_seq: Seq,
    /// `model` or `tool`.
    kind: &'static str,
    /// The tool.
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    pub(crate) tool: Option<ToolName>,
    /// What the model was asked for: `answer`, `verdict` or `summary`.
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    purpose: Option<Purpose>,
    /// The profile of the model; null where the node names provider and model itself.
    profile: Option<String>,
    /// The provider; null where it is not known.
    provider: Option<String>,
    /// The model that was asked; null where it is not known.
    pub(crate) model: Option<String>,
    /// The model that answered, as the provider names it.
    answered_by: Option<String>,
    /// The number of its last attempt, from 1.
    attempt: u32,
    /// How often it was tried again: attempts after the first one, and tries of the client inside of an attempt.
    pub(crate) retries: u32,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    requested_at: Time,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    ended_at: Time,
    pub(crate) duration_ms: u64,
    /// The kind of its error; null if it completed.
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    pub(crate) error: Option<ErrorKind>,
    /// Tokens of the answer, and those that the provider reported of attempts that failed.
    pub(crate) usage: Option<Tokens>,
    /// Who counted the tokens: `provider` or `counted`; null where the provider reported nothing of the last attempt.
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    usage_source: Option<UsageSource>,
    /// In billionths of a US dollar; null where it is not known.
    pub(crate) cost_nanousd: Option<u64>,
    /// What the provider's cache of prompts saved, in billionths of a US dollar, negative for a call that only wrote to it;
    /// null where it had no part in the call, or the prices are not known.
    cache_saved_nanousd: Option<i64>,
    /// Whether the answer came from the cache of answers.
    pub(crate) cached: Option<bool>,
    /// Why the model stopped.
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    pub(crate) finish_reason: Option<FinishReason>,
}

/// Sums over the calls of a tool.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolSum {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) tool: ToolName,
    /// Calls that ended.
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    pub(crate) retries: u64,
    pub(crate) total_ms: u64,
    pub(crate) mean_ms: Option<u64>,
    pub(crate) max_ms: u64,
}

/// Sums over the calls of a model.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelSum {
    /// The profile; null where nodes name provider and model themselves.
    pub(crate) profile: Option<String>,
    /// The provider; null where it is not known.
    pub(crate) provider: Option<String>,
    /// The model that was asked; null where it is not known.
    pub(crate) model: Option<String>,
    /// Calls that ended.
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    pub(crate) retries: u64,
    pub(crate) total_ms: u64,
    pub(crate) mean_ms: Option<u64>,
    pub(crate) max_ms: u64,
    /// Calls whose answer came from the cache of answers.
    cached: u64,
    /// Tokens of the calls that have figures.
    pub(crate) usage: Tokens,
    /// Calls whose tokens are not known, or not all of them: they are not in `usage`. Failed calls of which the
    /// provider reported nothing are among them.
    pub(crate) n_usage_unknown: u64,
    /// Calls whose tokens were counted here, because the provider did not report them.
    n_usage_counted: u64,
    /// In billionths of a US dollar, of the calls whose cost is known; null where none is.
    pub(crate) cost_nanousd: Option<u64>,
    /// What the provider's cache of prompts saved, in billionths of a US dollar, where the prices are known; null where it had
    /// no part in a call.
    pub(crate) cache_saved_nanousd: Option<i64>,
    /// Calls whose cost is not known: they are not in `cost_nanousd`. Failed calls of which the provider reported nothing
    /// are among them.
    pub(crate) n_unpriced: u64,
}

/// Sums over the calls of the threads with one value of a label.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct LabelSum {
    /// The key of the label.
    pub(crate) label_key: String,
    /// Its value; null for the threads without that label.
    pub(crate) label_value: Option<String>,
    /// Calls of models that ended.
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    pub(crate) retries: u64,
    pub(crate) total_ms: u64,
    pub(crate) mean_ms: Option<u64>,
    pub(crate) max_ms: u64,
    /// Calls whose answer came from the cache of answers.
    cached: u64,
    /// Tokens of the calls that have figures.
    pub(crate) usage: Tokens,
    /// Calls whose tokens are not known, or not all of them: they are not in `usage`.
    pub(crate) n_usage_unknown: u64,
    /// Calls whose tokens were counted here, because the provider did not report them.
    n_usage_counted: u64,
    /// In billionths of a US dollar, of the calls whose cost is known; null where none is.
    pub(crate) cost_nanousd: Option<u64>,
    /// What the provider's cache of prompts saved, in billionths of a US dollar, where the prices are known; null where it had
    /// no part in a call.
    pub(crate) cache_saved_nanousd: Option<i64>,
    /// Calls whose cost is not known: they are not in `cost_nanousd`.
    pub(crate) n_unpriced: u64,
    /// Calls of tools that ended.
    pub(crate) tool_calls: u64,
    pub(crate) tool_calls_failed: u64,
    pub(crate) tool_calls_cancelled: u64,
}

/// The usage of calls.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Usages {
    /// Totals by model, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) models: Option<Vec<ModelSum>>,
    /// Totals by tool, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<ToolSum>>,
    /// Totals by the value of a label, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) labels: Option<Vec<LabelSum>>,
    /// The calls, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) calls: Option<Vec<Call>>,
    /// Of a page: the `after` of the next one; null on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    pub(crate) next: Option<Option<String>>,
}

/// What is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    /// Sums by model
    Model,
    /// Sums by tool
    Tool,
    /// Every call
    Call,
}

impl By {
    /// What is asked for of the calls of a page; sums by model and by tool unless it is said.
    #[cfg(feature = "server")]
    pub(crate) fn page(by: Option<Self>, calls: &[CallUsage], next: Option<String>) -> Usages {
        let next = Some(next);
        if by == Some(Self::Call) {
            return Usages { calls: Some(calls.iter().map(Call::from).collect()), next, ..Usages::default() };
        }
        let mut sums = UsageSums::default();
        calls.iter().for_each(|call| sums.add(call));
        Usages { next, ..Self::sums(by, &sums) }
    }

    /// The sums that are asked for; both unless it is said.
    pub(crate) fn sums(by: Option<Self>, sums: &UsageSums) -> Usages {
        let models = (by != Some(Self::Tool)).then(|| sums.models.iter().map(ModelSum::from).collect());
        let tools = (by != Some(Self::Model)).then(|| sums.tools.iter().map(ToolSum::from).collect());
        Usages { models, tools, ..Usages::default() }
    }
}

impl Usages {
    /// The sums of each value of the label with this key.
    pub(crate) fn by_label(key: &str, sums: &BTreeMap<Option<String>, GroupSums>) -> Self {
        let sums = sums.iter().map(|(value, sums)| LabelSum::of(key, value.as_deref(), sums));
        Self { labels: Some(sums.collect()), ..Self::default() }
    }
}

impl LabelSum {
    fn of(key: &str, value: Option<&str>, sums: &GroupSums) -> Self {
        let GroupSums { models, tools } = sums;
        let calls = &models.calls;
        Self {
            label_key: key.to_owned(),
            label_value: value.map(str::to_owned),
            calls: calls.n,
            failed: calls.n_failed,
            cancelled: calls.n_cancelled,
            retries: calls.n_retries,
            total_ms: calls.total_ms,
            mean_ms: calls.mean_ms(),
            max_ms: calls.max_ms,
            cached: models.n_cached,
            usage: Tokens::from(&models.usage),
            n_usage_unknown: models.n_usage_unknown,
            n_usage_counted: models.n_usage_counted,
            cost_nanousd: models.cost_nanousd,
            cache_saved_nanousd: models.cache_saved_nanousd,
            n_unpriced: models.n_unpriced,
            tool_calls: tools.n,
            tool_calls_failed: tools.n_failed,
            tool_calls_cancelled: tools.n_cancelled,
        }
    }
}

impl From<&Usage> for Tokens {
    fn from(usage: &Usage) -> Self {
        let Usage {
            input_tokens,
            output_tokens,
            total_tokens,
            cached_input_tokens,
            cache_write_tokens,
            reasoning_tokens,
            ..
        } = *usage;
        Self { input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens }
    }
}

impl From<&CallUsage> for Call {
    fn from(call: &CallUsage) -> Self {
        let (tool, model) = match &call.callee {
            Callee::Tool(tool) => (Some(tool.clone()), None),
            Callee::Model(model) => (None, Some(model)),
        };
        let name = model.map(|model| model.name.clone()).unwrap_or_default();
        Self {
            thread_id: call.thread,
            node_id: call.node.clone(),
            call_id: call.call,
            last_seq: call.last_seq,
            kind: if tool.is_some() { "tool" } else { "model" },
            tool,
            purpose: model.map(|model| model.purpose),
            profile: name.profile,
            provider: name.provider,
            model: name.model,
            answered_by: model.and_then(|model| model.answered_by.clone()),
            attempt: call.attempt,
            retries: call.n_retries,
            requested_at: call.requested_at,
            ended_at: call.ended_at,
            duration_ms: call.duration_ms,
            error: call.error,
            usage: model.map(|model| Tokens::from(&model.usage)),
            usage_source: model.and_then(|model| model.usage_source),
            cost_nanousd: model.and_then(|model| model.cost_nanousd),
            cache_saved_nanousd: model.and_then(|model| model.cache_saved_nanousd),
            cached: model.map(|model| model.cached),
            finish_reason: model.and_then(|model| model.finish_reason),
        }
    }
}

impl From<(&ToolName, &CallSums)> for ToolSum {
    fn from((tool, sums): (&ToolName, &CallSums)) -> Self {
        Self {
            tool: tool.clone(),
            calls: sums.n,
            failed: sums.n_failed,
            cancelled: sums.n_cancelled,
            retries: sums.n_retries,
            total_ms: sums.total_ms,
            mean_ms: sums.mean_ms(),
            max_ms: sums.max_ms,
        }
    }
}

impl From<(&ModelName, &ModelSums)> for ModelSum {
    fn from((name, sums): (&ModelName, &ModelSums)) -> Self {
        let calls = &sums.calls;
        Self {
            profile: name.profile.clone(),
            provider: name.provider.clone(),
            model: name.model.clone(),
            calls: calls.n,
            failed: calls.n_failed,
            cancelled: calls.n_cancelled,
            retries: calls.n_retries,
            total_ms: calls.total_ms,
            mean_ms: calls.mean_ms(),
            max_ms: calls.max_ms,
            cached: sums.n_cached,
            usage: Tokens::from(&sums.usage),
            n_usage_unknown: sums.n_usage_unknown,
            n_usage_counted: sums.n_usage_counted,
            cost_nanousd: sums.cost_nanousd,
            cache_saved_nanousd: sums.cache_saved_nanousd,
            n_unpriced: sums.n_unpriced,
        }
    }
}
