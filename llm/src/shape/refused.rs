//! The fields of a request that its model or its protocol refuses.

use std::sync::Arc;

use rethread_events::event::ReasoningOptions;
use rethread_events::message::ToolChoice;
use serde_json::Value;

use crate::models::{ChatCompletions, Known, ModelFacts, Sampling, Thinking};
use crate::provider::Provider;
use crate::request::{Request, ResponseFormat};

#[cfg(test)]
mod tests;

/// The fewest tokens in which a model of Anthropic thinks.
/// <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>
const BUDGET_MIN: i64 = 1_024;

/// A field of a request that its model refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The field, as nodes and profiles name it.
    pub field: &'static str,
    /// Why, and what to write.
    pub why: String,
    /// The effort that takes the place of the present one.
    effort: Option<&'static str>,
}

impl Refused {
    fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into(), effort: None }
    }

    pub(super) fn leave_out(&self, request: &mut Request) {
        match self.field {
            "temperature" => request.temperature = None,
            "top_p" => request.top_p = None,
            "top_k" => request.top_k = None,
            "seed" => request.seed = None,
            "stop" => request.stop = Vec::new(),
            "verbosity" => request.verbosity = None,
            "service_tier" => request.service_tier = None,
            "response_format" => request.response_format = None,
            "tool_choice" => request.tool_choice = Some(ToolChoice::Auto),
            "parallel_tool_calls" => request.parallel_tool_calls = None,
            "tools" => {
                request.tools = Arc::new([]);
                request.tool_additions = Vec::new();
                (request.usable_tools, request.tool_choice, request.parallel_tool_calls) = (None, None, None);
            }
            "reasoning.budget_tokens" => edit_reasoning(request, |reasoning| reasoning.budget_tokens = None),
            "reasoning.summary" => edit_reasoning(request, |reasoning| reasoning.summary = None),
            "reasoning.effort" => {
                let effort = self.effort.map(str::to_owned);
                request.reasoning.get_or_insert_default();
                edit_reasoning(request, |reasoning| reasoning.effort = effort);
            }
            _ => {}
        }
    }

    /// Whether a request has the field.
    pub(crate) fn is_in(&self, request: &Request) -> bool {
        match self.field {
            "temperature" => request.temperature.is_some(),
            "top_p" => request.top_p.is_some(),
            "top_k" => request.top_k.is_some(),
            "seed" => request.seed.is_some(),
            "stop" => !request.stop.is_empty(),
            "verbosity" => request.verbosity.is_some(),
            "service_tier" => request.service_tier.is_some(),
            "response_format" => request.response_format.is_some(),
            "tool_choice" => request.tool_choice.is_some(),
            "parallel_tool_calls" => request.parallel_tool_calls.is_some(),
            "tools" => request.has_tools(),
            _ => request.reasoning.is_some(),
        }
    }
}

pub(super) fn edit_reasoning(request: &mut Request, edit: impl FnOnce(&mut ReasoningOptions)) {
    if let Some(reasoning) = &mut request.reasoning {
        edit(reasoning);
        if *reasoning == ReasoningOptions::default() {
            request.reasoning = None;
        }
    }
}

/// Leaves out what asks for no more than the model does anyway: a model without the ability refuses the field, whatever it
/// says.
pub(super) fn leave_out_needless(known: &Known, request: &mut Request) {
    if known.facts.thinking == Some(Thinking::None) {
        edit_reasoning(request, |reasoning| {
            reasoning.effort.take_if(|effort| effort == "none");
            reasoning.summary.take_if(|summary| summary == "none");
            reasoning.budget_tokens.take_if(|budget| *budget == 0);
        });
    }
    // `Unsupported parameter: 'parallel_tool_calls' is not supported with this model.`
    if known.is_of_openai && known.facts.parallel_tools == Some(false) {
        request.parallel_tool_calls.take_if(|parallel| !*parallel);
    }
}

/// The fields of a request that its model refuses, each with what to write.
pub fn refused(known: &Known, provider: Provider, request: &Request) -> Vec<Refused> {
    let (facts, model) = (&known.facts, &request.model);
    let mut refused = Vec::new();
    let mut effort = request.reasoning.as_ref().and_then(|reasoning| reasoning.effort.as_deref());
    if let Some(word) = effort
        && let Some(why) = effort_fault(known, provider, word)
    {
        refused.push(Refused::new("reasoning.effort", format!("`{model}` {why}")));
        effort = None;
    }
    refused.extend(budget(facts, provider, request));
    refused.extend(summary(facts, provider, request));
    if provider == Provider::OpenaiChat && request.has_tools() {
        match facts.chat_completions {
            Some(ChatCompletions::NoTools) => {
                let why = format!("`{model}` has no tools over Chat Completions: use the provider `openai`");
                refused.push(Refused::new("tools", why));
            }
            Some(ChatCompletions::ToolsWithoutReasoning) if request.has_usable_tools() && !is_off(facts, effort) => {
                let why = format!(
                    "`{model}` has tools over Chat Completions only with the effort `none`: use the provider `openai`"
                );
                refused.push(Refused { effort: Some("none"), ..Refused::new("reasoning.effort", why) });
                effort = Some("none");
            }
            _ => {}
        }
    }
    if facts.tools == Some(false)
        && !request.tools.is_empty()
        && !refused.iter().any(|refused| refused.field == "tools")
    {
        refused.push(Refused::new("tools", format!("`{model}` calls no tools: name another model")));
    }
    refused.extend(response_format(facts, provider, request));
    refused.extend(sampling(facts, effort, request));
    for (field, why) in parameters(known, provider, request) {
        if !refused.iter().any(|refused| refused.field == field) {
            refused.push(Refused::new(field, why));
        }
    }
    let forces = matches!(request.tool_choice, Some(ToolChoice::Required | ToolChoice::Tool(_)));
    if facts.forced_tool_choice == Some(false) && forces {
        let why = format!("`{model}` cannot be forced to use a tool: write `auto`, and say in the prompt what to use");
        refused.push(Refused::new("tool_choice", why));
    }
    if facts.parallel_tools == Some(false) && request.parallel_tool_calls == Some(true) {
        refused.push(Refused::new("parallel_tool_calls", format!("`{model}` asks for one tool at a time")));
    }
    refused
}

/// The budget for thoughts, if the model or its protocol does not take it.
fn budget(facts: &ModelFacts, provider: Provider, request: &Request) -> Option<Refused> {
    let model = &request.model;
    let budget = request.reasoning.as_ref()?.budget_tokens.filter(|budget| *budget != 0)?;
    let fail = |why: String| Some(Refused::new("reasoning.budget_tokens", why));
    if !facts.takes_budget() {
        return fail(match facts.thinking {
            Some(Thinking::None) => format!("`{model}` does not think: leave it out"),
            _ => format!("`{model}` takes no budget for its thoughts: write `effort`"),
        });
    }
    if provider != Provider::Anthropic {
        return None;
    }
    if budget < BUDGET_MIN {
        return fail(format!("`{model}` thinks in {BUDGET_MIN} tokens or more: raise the budget, or leave it out"));
    }
    // The thoughts are part of the answer.
    let asked = request.extra.get("max_tokens").and_then(Value::as_u64).or(request.max_tokens);
    let longest = [asked, facts.output].into_iter().flatten().min()?;
    if u64::try_from(budget).is_ok_and(|budget| budget < longest) {
        return None;
    }
    fail(format!(
        "the budget is part of the answer, which has at most {longest} tokens: write less, or raise `max_tokens`"
    ))
}

/// The summary of the thoughts, if there is none to be had.
fn summary(facts: &ModelFacts, provider: Provider, request: &Request) -> Option<Refused> {
    request.reasoning.as_ref()?.summary.as_ref().filter(|summary| *summary != "none")?;
    let why = match provider {
        _ if facts.thinking == Some(Thinking::None) => format!("`{}` does not think: leave it out", request.model),
        Provider::OpenaiChat | Provider::GeminiOpenai => {
            format!("the protocol of `{provider}` has no `reasoning.summary`: leave it out")
        }
        _ => return None,
    };
    Some(Refused::new("reasoning.summary", why))
}

/// The form of the answer, if the model or its protocol does not keep to it.
fn response_format(facts: &ModelFacts, provider: Provider, request: &Request) -> Option<Refused> {
    let model = &request.model;
    let format = request.response_format.as_ref().filter(|format| **format != ResponseFormat::Text)?;
    let is_schema = matches!(format, ResponseFormat::JsonSchema { .. });
    let why = match provider {
        _ if facts.json_schema == Some(false) && is_schema => {
            format!("`{model}` keeps to no JSON Schema by itself: say in the prompt what to answer")
        }
        Provider::Anthropic if !is_schema => {
            format!("the protocol of `{provider}` has no JSON without a schema: write a schema")
        }
        _ if facts.schema_with_tools == Some(false) && request.has_usable_tools() => {
            format!("`{model}` takes no form of the answer together with tools: say in the prompt what to answer")
        }
        _ => return None,
    };
    Some(Refused::new("response_format", why))
}

/// The parameters of sampling, if the model takes none.
fn sampling(facts: &ModelFacts, effort: Option<&str>, request: &Request) -> Vec<Refused> {
    let mend = match facts.sampling {
        Some(Sampling::Never) => "leave it out",
        Some(Sampling::WithoutReasoning) if !is_off(facts, effort) => "leave it out, or write `effort: none`",
        _ => return Vec::new(),
    };
    let is_default = |value: f64| (value - 1.0).abs() < f64::EPSILON;
    let fields = [
        ("temperature", request.temperature.is_some_and(|value| !is_default(value))),
        ("top_p", request.top_p.is_some_and(|value| !is_default(value))),
        ("top_k", request.top_k.is_some()),
    ];
    let set = fields.into_iter().filter(|(_, is_set)| *is_set);
    set.map(|(field, _)| Refused::new(field, format!("`{}` takes no `{field}`: {mend}", request.model))).collect()
}

/// The other parameters that the protocol does not have, or not for this model, each with why.
fn parameters(known: &Known, provider: Provider, request: &Request) -> Vec<(&'static str, String)> {
    let (facts, model) = (&known.facts, &request.model);
    let set = [
        ("top_k", request.top_k.is_some()),
        ("seed", request.seed.is_some()),
        ("stop", !request.stop.is_empty()),
        ("verbosity", request.verbosity.is_some()),
        ("parallel_tool_calls", request.parallel_tool_calls == Some(false)),
    ];
    let missing = set.into_iter().filter(|(field, is_set)| *is_set && unknown_to(provider).contains(field));
    let mut out: Vec<(&'static str, String)> = missing
        .map(|(field, _)| (field, format!("the protocol of `{provider}` has no `{field}`: leave it out")))
        .collect();
    if provider == Provider::OpenaiChat && facts.stop == Some(false) && !request.stop.is_empty() {
        out.push(("stop", format!("`{model}` takes no `stop`: leave it out")));
    }
    // The older models take the default alone.
    if facts.verbosity == Some(false) && request.verbosity.as_ref().is_some_and(|verbosity| verbosity != "medium") {
        out.push(("verbosity", format!("`{model}` takes no `verbosity`: leave it out")));
    }
    if let Some(tier) = &request.service_tier
        && let Some(tiers) = tiers_of(known, provider)
        && !tiers.contains(&tier.as_str())
    {
        let tiers = tiers.join(", ");
        out.push(("service_tier", format!("the protocol of `{provider}` has no tier `{tier}`: it has {tiers}")));
    }
    out
}

/// The parameters that a protocol does not have.
const fn unknown_to(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::Openai | Provider::OpenaiResponses => &["top_k", "seed", "stop"],
        Provider::Anthropic => &["seed", "verbosity"],
        Provider::Gemini => &["verbosity", "parallel_tool_calls"],
        Provider::OpenaiChat | Provider::GeminiOpenai | Provider::Mock | Provider::Human => &[],
    }
}

/// The tiers of service that a protocol has; none where that is not known, as with servers that imitate OpenAI.
fn tiers_of(known: &Known, provider: Provider) -> Option<&'static [&'static str]> {
    match provider {
        // <https://platform.claude.com/docs/en/api/service-tiers>
        Provider::Anthropic => Some(&["auto", "standard_only"]),
        // <https://ai.google.dev/gemini-api/docs/optimization>
        Provider::Gemini => Some(&["standard", "flex", "priority"]),
        // <https://developers.openai.com/api/reference/resources/responses/methods/create>
        Provider::Openai | Provider::OpenaiResponses | Provider::OpenaiChat if known.is_of_openai => {
            Some(&["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"])
        }
        _ => None,
    }
}

/// Why a model does not take a word for the effort.
fn effort_fault(known: &Known, provider: Provider, effort: &str) -> Option<String> {
    let facts = &known.facts;
    match facts.thinking {
        Some(Thinking::None) if effort != "none" => Some("does not think: leave it out".to_owned()),
        Some(Thinking::None) => None,
        // LiteLLM 1.110.2, `ROUTE_SPECIFIC_REASONING_EFFORTS`: models of OpenAI take it over Responses alone.
        _ if effort == "max" && provider == Provider::OpenaiChat && known.is_of_openai && facts.takes_effort("max") => {
            Some("has no effort `max` over Chat Completions: write `xhigh`, or use the provider `openai`".to_owned())
        }
        _ if facts.takes_effort(effort) || is_near(facts, effort) => None,
        Some(Thinking::Always) if effort == "none" && facts.efforts.is_none() => {
            Some("always thinks: leave it out".to_owned())
        }
        _ => {
            let known = facts.efforts.as_deref().unwrap_or_default();
            Some(format!("does not take the effort `{effort}`: it takes {}", known.join(", ")))
        }
    }
}

/// Models without `minimal` are sent `low`.
fn is_near(facts: &ModelFacts, effort: &str) -> bool {
    effort == "minimal" && facts.takes_effort("low")
}

/// Whether a model does not reason with this effort.
fn is_off(facts: &ModelFacts, effort: Option<&str>) -> bool {
    effort.or(facts.default_effort.as_deref()) == Some("none") || facts.thinking == Some(Thinking::None)
}
