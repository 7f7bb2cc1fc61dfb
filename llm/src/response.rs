//! One answer of a model, in the form that is the same for every provider.

use rethread_events::json::Json;
pub use rethread_events::message::UnitPrices;
use rethread_events::message::{FinishReason, Message, Part, Reasoning, ToolCall, Usage, UsageSource};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::request::Request;
use crate::tokens::{self, Counter};

/// One answer. Its JSON form is what `rethread llm call --json` prints; text, refusal, reasoning and tool calls in
/// it are views of `message`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Response {
    /// The whole answer as an assistant message, ready to be put back into a request.
    pub message: Message,
    /// Why the model stopped.
    pub finish_reason: FinishReason,
    /// The provider's word for it.
    pub finish_reason_raw: Option<String>,
    /// The provider's own figures.
    pub usage: Usage,
    /// The figures that are billed, where they are not those of `usage`: of each call of a model that the answer took, if it
    /// took several, each billed by itself; or with tokens that the provider states in the sum alone.
    #[serde(skip)]
    pub calls: Vec<Usage>,
    /// The speed at which the model answered, in the provider's words, such as `fast`; the price depends on it.
    #[serde(skip)]
    pub speed: Option<String>,
    /// Where the model ran, in the provider's words, such as `us`; the price depends on it.
    #[serde(skip)]
    pub inference_geo: Option<String>,
    /// The provider that answered, by its name in profiles.
    #[serde(default)]
    pub provider: String,
    /// The model that answered, as the provider says.
    pub model: Option<String>,
    /// The provider's name for the answer.
    pub response_id: Option<String>,
    /// The provider's name for the request.
    pub request_id: Option<String>,
    /// Its cost, if the prices of the model are known.
    #[serde(default)]
    pub cost: Option<Cost>,
    /// Whether the answer came from the answer cache; then it cost nothing this time.
    #[serde(default)]
    pub cached: bool,
    /// The tier of service in which the provider answered, in its words.
    #[serde(default)]
    pub service_tier: Option<String>,
    /// What else the provider says of the answer, by name: `refusal`, `safety_ratings`, `logprobs`, `grounding`, … An
    /// object; absent if it says nothing.
    #[serde(default)]
    pub details: Option<Json>,
    /// The figures completed by counting, where the provider gave none or not all.
    #[serde(default)]
    pub usage_counted: Option<Usage>,
    /// The model that failed before, as `PROVIDER/MODEL`, if this is the answer of a fallback.
    #[serde(default)]
    pub fallback_from: Option<String>,
}

/// The cost of a call, and the prices for it. No prices if the provider reported the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Thousand-millionths of a US dollar, rounded up.
    pub nanousd: u64,
    /// The prices used, so that a later table changes nothing about this call.
    #[serde(default)]
    pub prices: Option<UnitPrices>,
}

impl Response {
    /// Returns an answer that is this message and ended by itself. Nothing of its provider, usage and cost is known.
    pub fn of(message: Message) -> Self {
        Self {
            message,
            finish_reason: FinishReason::Stop,
            finish_reason_raw: None,
            usage: Usage::default(),
            calls: Vec::new(),
            speed: None,
            inference_geo: None,
            provider: String::new(),
            model: None,
            response_id: None,
            request_id: None,
            cost: None,
            cached: false,
            service_tier: None,
            details: None,
            usage_counted: None,
            fallback_from: None,
        }
    }

    /// Counts what the provider did not report. Doing it twice changes nothing more.
    pub fn complete_usage(&mut self, counter: &Counter, request: &Request) {
        let (usage, source) = tokens::usage_or_count(counter, request, self);
        self.usage_counted = (source == UsageSource::Counted).then_some(usage);
    }

    /// The tokens of the call, and who counted them. The total is at least the sum of input and output.
    pub fn figures(&self) -> (Usage, UsageSource) {
        if let Some(counted) = self.usage_counted {
            return (counted, UsageSource::Counted);
        }
        let Usage { input_tokens, output_tokens, total_tokens, .. } = self.usage;
        let parts = input_tokens.zip(output_tokens).map(|(input, output)| input.saturating_add(output));
        (Usage { total_tokens: total_tokens.max(parts), ..self.usage }, UsageSource::Provider)
    }

    /// The text parts joined.
    pub fn text(&self) -> String {
        self.message.joined_text()
    }

    /// The refusal, when there is one.
    pub fn refusal(&self) -> Option<String> {
        let mut texts = self.message.content.iter().filter_map(|part| match part {
            Part::Refusal { text } => Some(text.as_str()),
            _ => None,
        });
        let mut refusal = texts.next()?.to_owned();
        refusal.extend(texts);
        Some(refusal)
    }

    /// The reasoning parts, in order.
    pub fn reasoning(&self) -> impl Iterator<Item = &Reasoning> {
        self.message.content.iter().filter_map(|part| match part {
            Part::Reasoning(reasoning) => Some(reasoning),
            _ => None,
        })
    }

    /// The tool calls, in the order the model asked.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.message.tool_calls()
    }
}

/// A tool call as it is printed: without the signature, with `arguments_raw` always there.
#[derive(Serialize)]
struct PrintedCall<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a Json,
    arguments_raw: Option<&'a str>,
}

impl Serialize for Response {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let calls: Vec<_> = self
            .tool_calls()
            .map(|call| PrintedCall {
                id: &call.id,
                name: &call.name,
                arguments: &call.arguments,
                arguments_raw: call.arguments_raw.as_deref(),
            })
            .collect();
        let mut out = serializer.serialize_struct("Response", 20)?;
        out.serialize_field("text", &self.text())?;
        out.serialize_field("refusal", &self.refusal())?;
        out.serialize_field("reasoning", &self.reasoning().collect::<Vec<_>>())?;
        out.serialize_field("tool_calls", &calls)?;
        out.serialize_field("finish_reason", &self.finish_reason)?;
        out.serialize_field("finish_reason_raw", &self.finish_reason_raw)?;
        out.serialize_field("usage", &self.usage)?;
        out.serialize_field("usage_source", &self.figures().1)?;
        out.serialize_field("usage_counted", &self.usage_counted)?;
        out.serialize_field("provider", &self.provider)?;
        out.serialize_field("model", &self.model)?;
        out.serialize_field("response_id", &self.response_id)?;
        out.serialize_field("request_id", &self.request_id)?;
        out.serialize_field("message", &self.message)?;
        out.serialize_field("cost_nanousd", &self.cost.map(|cost| cost.nanousd))?;
        out.serialize_field("cost", &self.cost)?;
        out.serialize_field("cached", &self.cached)?;
        out.serialize_field("service_tier", &self.service_tier)?;
        out.serialize_field("details", &self.details)?;
        out.serialize_field("fallback_from", &self.fallback_from)?;
        out.end()
    }
}
