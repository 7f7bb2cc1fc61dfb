//! Messages of a conversation. The JSON form is the neutral one that `rethread llm call` reads and prints; the stored
//! form is bincode's, from the same types.

mod stored;

use std::fmt;
use std::sync::Arc;

use bincode::{Decode, Encode};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::Hash;
use crate::json::Json;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The instructions of the application.
    System,
    /// A person, or the input of the thread.
    User,
    /// The model.
    Assistant,
    /// The results of tool calls.
    Tool,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The content, in order. In JSON a bare string is one text part.
    #[serde(default, deserialize_with = "string_or_parts")]
    pub content: Vec<Part>,
}

impl Message {
    /// A message of one text part.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, content: vec![Part::text(text)] }
    }

    /// The text parts joined, nothing between them.
    pub fn joined_text(&self) -> String {
        self.content.iter().filter_map(Part::as_text).collect()
    }

    /// All text of it: what was said, what tools answered, and why a model refused.
    pub fn whole_text(&self) -> String {
        let of = |part: &Part| match part {
            Part::ToolResult(result) => result.content.iter().filter_map(Part::as_text).collect(),
            Part::Refusal { text } => text.clone(),
            part => part.as_text().unwrap_or_default().to_owned(),
        };
        self.content.iter().map(of).collect()
    }

    /// The tool calls in it, in the order the model asked.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
        /// The provider's signature over it, to be returned unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// The sources of the text, in the order in which the provider names them.
        #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
        annotations: Vec<Annotation>,
    },
    /// A picture.
    Image(Media),
    /// A document, such as a PDF.
    Document(Media),
    /// The reasoning of the model before its answer.
    Reasoning(Reasoning),
    /// The model asks for a tool.
    ToolCall(ToolCall),
    /// The answer of a tool.
    ToolResult(ToolResult),
    /// The model refuses.
    Refusal {
        /// Why, in the model's words.
        text: String,
    },
    /// An item of one provider that has no neutral meaning; it goes back unchanged to that provider and nowhere else.
    Opaque {
        /// The provider it came from.
        provider: String,
        /// The item.
        data: Json,
    },
    /// A recording.
    Audio(Media),
    /// A tool that the provider ran itself: its call, its result, or both.
    ProviderTool(ProviderTool),
}

impl Part {
    /// A text part without a signature.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), signature: None, annotations: Vec::new() }
    }

    /// The text of a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// A source of a text.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotation {
    /// What the source is.
    pub kind: SourceKind,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The document or the file: its id, or its index among the documents of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// Its title or file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where the annotated text begins, in characters of the part. Absent if the annotation is about the whole part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Where it ends, in characters of the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// The quoted text of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// The provider that wrote `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The annotation as it came, for providers that require it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

impl Annotation {
    /// An annotation of this kind, everything else absent.
    pub fn new(kind: SourceKind) -> Self {
        Self {
            kind,
            url: None,
            document: None,
            title: None,
            start: None,
            end: None,
            quote: None,
            provider: None,
            data: None,
        }
    }
}

/// What a source of a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// A page of the web.
    Url,
    /// A document of the conversation.
    Document,
    /// A file that is stored at the provider.
    File,
    /// A result of a search that the application gave.
    SearchResult,
    /// A place on a map.
    Map,
}

/// A call of a tool that the provider runs, its result, or both in one item.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderTool {
    /// The provider.
    pub provider: String,
    /// What of the call it is.
    pub step: ProviderToolStep,
    /// The provider's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool, as the provider names it.
    pub name: String,
    /// The item as it came; it goes back unchanged to that provider and nowhere else.
    pub data: Json,
}

/// What of a call of a provider's tool an item holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderToolStep {
    /// The call.
    Call,
    /// The result.
    Result,
    /// Both.
    Both,
}

/// An image, a document or a recording: either inline or by reference.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Media {
    /// For example `image/png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The bytes, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Arc<str>>,
    /// Where the provider can fetch it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its file name, or its id at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Media {
    /// Bytes in base64, of this media type.
    pub fn inline(media_type: Option<&str>, data: impl Into<Arc<str>>) -> Self {
        Self { media_type: media_type.map(str::to_owned), data: Some(data.into()), url: None, name: None }
    }

    /// The address from which the provider fetches it.
    pub fn at(url: impl Into<String>) -> Self {
        Self { media_type: None, data: None, url: Some(url.into()), name: None }
    }
}

/// Reasoning of a model, with the data that its provider requires in the next request.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reasoning {
    /// The text, where the provider shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The provider's signature, to be returned unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Opaque text the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<String>,
    /// The provider's id of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whether the provider withheld the text.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// The provider it came from. Signatures and encrypted text go back to that provider only; without a name they
    /// are taken to be the called provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The hash of what the provider was sent before the answer. A model that binds its reasoning to that refuses it after
    /// anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Hash>,
}

/// A model's wish to use a tool.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The provider's id, or one made up that is unique in the conversation.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, an object; null when the provider cut them off in the middle or they are not JSON.
    #[serde(default)]
    pub arguments: Json,
    /// The arguments as they arrived, if `arguments` is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_raw: Option<String>,
    /// The provider's signature, to be returned unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// The result of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// The id of the call that is answered.
    pub tool_call_id: String,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Text and image parts. In JSON a bare string is one text part.
    #[serde(default, deserialize_with = "string_or_parts")]
    pub content: Vec<Part>,
    /// Whether the tool failed.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// Tokens, as the provider reported them; absent where it gave no figure. The same definition for every provider: the
/// input is the whole prompt, what came from or went to the provider's cache included; the output includes reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: Option<u64>,
    /// Tokens of the answer.
    pub output_tokens: Option<u64>,
    /// Both, as the provider adds them up.
    pub total_tokens: Option<u64>,
    /// Tokens of the prompt that came from the provider's cache.
    pub cached_input_tokens: Option<u64>,
    /// Tokens of the prompt that were written to the provider's cache.
    pub cache_write_tokens: Option<u64>,
    /// Tokens of the answer that were reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Of `cache_write_tokens`, those that the provider keeps for the longer of its two times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long_tokens: Option<u64>,
    /// Tokens of what the provider's own tools brought, which are billed as a prompt and are not part of `input_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_input_tokens: Option<u64>,
    /// Tokens of the prompt that are sound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio_input_tokens: Option<u64>,
    /// Tokens of the answer that are sound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio_output_tokens: Option<u64>,
    /// Tokens of the answer that are images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_output_tokens: Option<u64>,
    /// How often the provider searched the web, which it bills for each search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_searches: Option<u64>,
    /// How many images were made, where the provider bills for each image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_images: Option<u64>,
}

impl Usage {
    /// Every figure of two usages, for what is done with each.
    fn each(&mut self, other: &Self, mut of: impl FnMut(&mut Option<u64>, Option<u64>)) {
        of(&mut self.input_tokens, other.input_tokens);
        of(&mut self.output_tokens, other.output_tokens);
        of(&mut self.total_tokens, other.total_tokens);
        of(&mut self.cached_input_tokens, other.cached_input_tokens);
        of(&mut self.cache_write_tokens, other.cache_write_tokens);
        of(&mut self.reasoning_tokens, other.reasoning_tokens);
        of(&mut self.cache_write_long_tokens, other.cache_write_long_tokens);
        of(&mut self.tool_input_tokens, other.tool_input_tokens);
        of(&mut self.audio_input_tokens, other.audio_input_tokens);
        of(&mut self.audio_output_tokens, other.audio_output_tokens);
        of(&mut self.image_output_tokens, other.image_output_tokens);
        of(&mut self.n_searches, other.n_searches);
        of(&mut self.n_images, other.n_images);
    }

    /// Returns the usage since `before`. A figure that did not change is absent.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = *self;
        since.each(before, |sum, before| *sum = grown(*sum, before));
        since
    }

    /// Tokens of prompt and answer; a figure that is not known counts as 0.
    pub fn tokens(&self) -> u64 {
        let parts = self.input_tokens.unwrap_or(0).saturating_add(self.output_tokens.unwrap_or(0));
        self.total_tokens.map_or(parts, |total| total.max(parts))
    }

    /// Adds the figures of another call; a figure that one side lacks counts as 0 there.
    pub fn add(&mut self, other: &Self) {
        self.each(other, |sum, more| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        });
    }
}

/// Adds to a sum what is known; `None` while nothing is.
pub(crate) fn sum_of<T>(sum: Option<T>, more: Option<T>, add: fn(T, T) -> T) -> Option<T> {
    match (sum, more) {
        (Some(sum), Some(more)) => Some(add(sum, more)),
        (sum, more) => sum.or(more),
    }
}

/// Returns by how much a sum grew; `None` if it did not.
pub(crate) fn grown(sum: Option<u64>, before: Option<u64>) -> Option<u64> {
    if sum == before { None } else { sum.map(|sum| sum.saturating_sub(before.unwrap_or(0))) }
}

/// Who counted the tokens of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The provider reported them.
    #[default]
    Provider,
    /// The provider reported none, or not all: what it left out was counted here.
    Counted,
}

/// Prices in nano-dollars per million tokens, so that every published price is an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct UnitPrices {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Tokens of the prompt that came from the provider's cache; as `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<u64>,
    /// Tokens of the prompt that were written to the provider's cache; as `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Tokens of reasoning; as `output` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// Tokens written to the provider's cache for the longer of its two times; as `cache_write` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<u64>,
    /// Tokens of sound in the prompt; as `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio_input: Option<u64>,
    /// Tokens of sound in the answer; as `output` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio_output: Option<u64>,
    /// Tokens of images in the answer; as `output` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_output: Option<u64>,
    /// One search of the web, in nano-dollars; absent where the price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<u64>,
    /// One image, in nano-dollars, where images are billed by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<u64>,
}

impl UnitPrices {
    /// Returns what the provider's cache saved of a call, in nano-dollars: what its tokens would have cost as a prompt, less
    /// what they cost. Less than nothing if more was paid for writing than reading saved. `None` if it had no part in the
    /// call.
    pub fn cache_saved_nanousd(&self, usage: &Usage) -> Option<i64> {
        let (cached, written) = (usage.cached_input_tokens.unwrap_or(0), usage.cache_write_tokens.unwrap_or(0));
        if cached == 0 && written == 0 {
            return None;
        }
        let written_long = usage.cache_write_long_tokens.unwrap_or(0).min(written);
        let write = self.cache_write.unwrap_or(self.input);
        let parts = [
            (cached, self.cached_input.unwrap_or(self.input)),
            (written - written_long, write),
            (written_long, self.cache_write_long.unwrap_or(write)),
        ];
        let saved: i128 = parts
            .iter()
            .map(|(tokens, price)| i128::from(*tokens) * (i128::from(self.input) - i128::from(*price)))
            .sum();
        i64::try_from(saved.div_euclid(1_000_000)).ok()
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It had said all.
    Stop,
    /// It asks for tools.
    ToolCalls,
    /// It reached the output limit.
    Length,
    /// The provider's filter cut in.
    ContentFilter,
    /// The model refused.
    Refusal,
    /// The provider paused a long turn; another request continues it.
    Pause,
    /// The provider reports a fault of the answer.
    Error,
    /// Anything else.
    Other,
}

/// How the model may use the tools it is offered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// Not at all.
    None,
    /// At least one.
    Required,
    /// This one.
    Tool(String),
}

impl Serialize for ToolChoice {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::None => serializer.serialize_str("none"),
            Self::Required => serializer.serialize_str("required"),
            Self::Tool(name) => serde_json::json!({ "name": name }).serialize(serializer),
        }
    }
}

impl schemars::JsonSchema for ToolChoice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ToolChoice".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "How the model may use its tools.",
            "oneOf": [
                { "enum": ["auto", "none", "required"] },
                {
                    "type": "object",
                    "properties": { "name": { "type": "string", "description": "The tool that it must use." } },
                    "required": ["name"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

impl<'de> Deserialize<'de> for ToolChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Named {
            name: String,
        }

        struct Choice;

        impl<'de> Visitor<'de> for Choice {
            type Value = ToolChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`auto`, `none`, `required` or `{\"name\": …}`")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<ToolChoice, E> {
                match word {
                    "auto" => Ok(ToolChoice::Auto),
                    "none" => Ok(ToolChoice::None),
                    "required" => Ok(ToolChoice::Required),
                    _ => Err(E::unknown_variant(word, &["auto", "none", "required", "{\"name\": …}"])),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolChoice, A::Error> {
                Named::deserialize(MapAccessDeserializer::new(map)).map(|named| ToolChoice::Tool(named.name))
            }
        }

        deserializer.deserialize_any(Choice)
    }
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does, for the model to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments, an object; null means that it takes none.
    #[serde(default)]
    pub parameters: Json,
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a content: a bare string, a list of parts, or null. Written by hand so that an error names the key that does
/// not fit.
fn string_or_parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Part>, D::Error> {
    struct Content;

    impl<'de> Visitor<'de> for Content {
        type Value = Vec<Part>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text or a list of parts")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<Part>, E> {
            Ok(vec![Part::text(text)])
        }

        fn visit_unit<E: serde::de::Error>(self) -> Result<Vec<Part>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Vec<Part>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(parts))
        }
    }

    deserializer.deserialize_any(Content)
}
