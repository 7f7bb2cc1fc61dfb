//! The fields of a request that its model or its protocol refuses.

use rethread_events::message::ToolChoice;
use serde_json::Value;

use super::field::{Field, edit_reasoning};
use super::protocol::Protocol;
use crate::models::{ChatCompletions, Known, ModelFacts, Sampling, Thinking};
use crate::provider::Provider;
use crate::request::{Request, ResponseFormat};

#[cfg(test)]
mod tests;

/// A field of a request that its model refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The field, as nodes and profiles name it.
    pub field: Field,
    /// Why, and what to write.
    pub why: String,
    /// The effort that takes the place of the present one.
    effort: Option<&'static str>,
}

impl Refused {
    fn new(field: Field, why: impl Into<String>) -> Self {
        Self { field, why: why.into(), effort: None }
    }

    fn lacks(field: Field, provider: Provider) -> Self {
        Self::new(field, format!("the protocol of `{provider}` has no `{field}`: leave it out"))
    }

    pub(super) fn leave_out(&self, request: &mut Request) {
        self.field.leave_out(request);
        if let Some(effort) = self.effort {
            request.reasoning.get_or_insert_default().effort = Some(effort.to_owned());
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
        refused.push(Refused::new(Field::Effort, format!("`{model}` {why}")));
        effort = None;
    }
    refused.extend(budget(facts, provider, request));
    refused.extend(summary(facts, provider, request));
    if Protocol::of(provider).is_chat && request.has_tools() {
        match facts.chat_completions {
            Some(ChatCompletions::NoTools) => {
                let why = format!("`{model}` has no tools over Chat Completions: use the provider `openai`");
                refused.push(Refused::new(Field::Tools, why));
            }
            Some(ChatCompletions::ToolsWithoutReasoning) if request.has_usable_tools() && !is_off(facts, effort) => {
                let why = format!(
                    "`{model}` has tools over Chat Completions only with the effort `none`: use the provider `openai`"
                );
                refused.push(Refused { effort: Some("none"), ..Refused::new(Field::Effort, why) });
                effort = Some("none");
            }
            _ => {}
        }
    }
    if facts.tools == Some(false)
        && !request.tools.is_empty()
        && !refused.iter().any(|refused| refused.field == Field::Tools)
    {
        refused.push(Refused::new(Field::Tools, format!("`{model}` calls no tools: name another model")));
    }
    refused.extend(response_format(facts, provider, request));
    refused.extend(sampling(facts, effort, request));
    for parameter in parameters(known, provider, request) {
        if !refused.iter().any(|refused| refused.field == parameter.field) {
            refused.push(parameter);
        }
    }
    let forces = matches!(request.tool_choice, Some(ToolChoice::Required | ToolChoice::Tool(_)));
    if facts.forced_tool_choice == Some(false) && forces {
        let why = format!("`{model}` cannot be forced to use a tool: write `auto`, and say in the prompt what to use");
        refused.push(Refused::new(Field::ToolChoice, why));
    }
    if facts.parallel_tools == Some(false) && request.parallel_tool_calls == Some(true) {
        refused.push(Refused::new(Field::ParallelToolCalls, format!("`{model}` asks for one tool at a time")));
    }
    refused
}

/// The budget for thoughts, if the model or its protocol does not take it.
fn budget(facts: &ModelFacts, provider: Provider, request: &Request) -> Option<Refused> {
    let model = &request.model;
    let budget = request.reasoning.as_ref()?.budget_tokens.filter(|budget| *budget != 0)?;
    let fail = |why: String| Some(Refused::new(Field::BudgetTokens, why));
    if !facts.takes_budget() {
        return fail(match facts.thinking {
            Some(Thinking::None) => format!("`{model}` does not think: leave it out"),
            _ => format!("`{model}` takes no budget for its thoughts: write `effort`"),
        });
    }
    let least = Protocol::of(provider).budget_min?;
    if budget < least {
        return fail(format!("`{model}` thinks in {least} tokens or more: raise the budget, or leave it out"));
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
    if facts.thinking == Some(Thinking::None) {
        return Some(Refused::new(Field::Summary, format!("`{}` does not think: leave it out", request.model)));
    }
    Protocol::of(provider).lacks.contains(&Field::Summary).then(|| Refused::lacks(Field::Summary, provider))
}

/// The form of the answer, if the model or its protocol does not keep to it.
fn response_format(facts: &ModelFacts, provider: Provider, request: &Request) -> Option<Refused> {
    let model = &request.model;
    let format = request.response_format.as_ref().filter(|format| **format != ResponseFormat::Text)?;
    let is_schema = matches!(format, ResponseFormat::JsonSchema { .. });
    let why = if facts.json_schema == Some(false) && is_schema {
        format!("`{model}` keeps to no JSON Schema by itself: say in the prompt what to answer")
    } else if !is_schema && !Protocol::of(provider).has_free_json {
        format!("the protocol of `{provider}` has no JSON without a schema: write a schema")
    } else if facts.schema_with_tools == Some(false) && request.has_usable_tools() {
        format!("`{model}` takes no form of the answer together with tools: say in the prompt what to answer")
    } else {
        return None;
    };
    Some(Refused::new(Field::ResponseFormat, why))
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
        (Field::Temperature, request.temperature.is_some_and(|value| !is_default(value))),
        (Field::TopP, request.top_p.is_some_and(|value| !is_default(value))),
        (Field::TopK, request.top_k.is_some()),
    ];
    let set = fields.into_iter().filter(|(_, is_set)| *is_set);
    set.map(|(field, _)| Refused::new(field, format!("`{}` takes no `{field}`: {mend}", request.model))).collect()
}

/// The other parameters that the protocol does not have, or not for this model, each with why.
fn parameters(known: &Known, provider: Provider, request: &Request) -> Vec<Refused> {
    let (facts, model, protocol) = (&known.facts, &request.model, Protocol::of(provider));
    let is_set = |field: &&Field| match field {
        // The default, which a protocol without the field has as well.
        Field::ParallelToolCalls => request.parallel_tool_calls == Some(false),
        // The word `none` asks for no summary, see `summary`.
        Field::Summary => false,
        field => field.is_in(request),
    };
    let mut out: Vec<_> = protocol.lacks.iter().filter(is_set).map(|field| Refused::lacks(*field, provider)).collect();
    if protocol.is_chat && facts.stop == Some(false) && !request.stop.is_empty() {
        out.push(Refused::new(Field::Stop, format!("`{model}` takes no `stop`: leave it out")));
    }
    // The older models take the default alone.
    if facts.verbosity == Some(false) && request.verbosity.as_ref().is_some_and(|verbosity| verbosity != "medium") {
        out.push(Refused::new(Field::Verbosity, format!("`{model}` takes no `verbosity`: leave it out")));
    }
    if let Some(tier) = &request.service_tier
        && let Some(tiers) = protocol.tiers.filter(|_| protocol.is_known_at(known))
        && !tiers.contains(&tier.as_str())
    {
        let why = format!("the protocol of `{provider}` has no tier `{tier}`: it has {}", tiers.join(", "));
        out.push(Refused::new(Field::ServiceTier, why));
    }
    out
}

/// Why a model does not take a word for the effort.
fn effort_fault(known: &Known, provider: Provider, effort: &str) -> Option<String> {
    let facts = &known.facts;
    match facts.thinking {
        Some(Thinking::None) if effort != "none" => Some("does not think: leave it out".to_owned()),
        Some(Thinking::None) => None,
        _ if Protocol::of(provider).lacks_efforts.contains(&effort)
            && known.is_of_openai
            && facts.takes_effort(effort) =>
        {
            Some(format!("has no effort `{effort}` over Chat Completions: write `xhigh`, or use the provider `openai`"))
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
