//! What the protocol of each provider has: one row each.

use rethread_events::message::Media;

use super::field::Field;
use crate::models::Known;
use crate::provider::Provider;

/// What a protocol has, whatever the model.
pub(super) struct Protocol {
    /// The fields that it does not have.
    pub(super) lacks: &'static [Field],
    /// The words for the effort that models take over another protocol only.
    pub(super) lacks_efforts: &'static [&'static str],
    /// Its tiers of service; none where they are not known.
    pub(super) tiers: Option<&'static [&'static str]>,
    /// Whether other servers imitate it. What it refuses by a value is then known of OpenAI itself alone.
    pub(super) is_imitated: bool,
    /// Whether the facts about Chat Completions hold.
    pub(super) is_chat: bool,
    /// Whether it has JSON without a schema.
    pub(super) has_free_json: bool,
    /// Whether it has a budget for thoughts.
    pub(super) has_budgets: bool,
    /// The least budget for thoughts, where the budget is part of the answer.
    pub(super) budget_min: Option<i64>,
    /// The lowest limit for an answer, in tokens.
    pub(super) max_tokens_min: u64,
    pub(super) images: Files,
    pub(super) documents: Files,
    pub(super) audio: Files,
}

/// The files of one kind that a protocol takes: inside the request, and by their address. None: there is no place for them.
#[derive(Clone, Copy)]
pub(super) struct Files {
    inline: Option<Types>,
    linked: Option<Types>,
}

/// Media types, each whole, or all that begin with a word before a slash, or all (an empty text). Those of `takes` are taken, others unless `refuses` has them.
#[derive(Clone, Copy)]
struct Types {
    takes: &'static [&'static str],
    refuses: &'static [&'static str],
}

impl Types {
    const ALL: Self = Self { takes: &[], refuses: &[] };

    const fn only(takes: &'static [&'static str]) -> Self {
        Self { takes, refuses: &[""] }
    }

    fn has(self, kind: &str) -> bool {
        let is = |own: &&str| kind == *own || (own.is_empty() || own.ends_with('/')) && kind.starts_with(*own);
        self.takes.iter().any(is) || !self.refuses.iter().any(is)
    }
}

impl Files {
    const ALL: Self = Self::of(Types::ALL);
    const NONE: Self = Self { inline: None, linked: None };

    const fn of(types: Types) -> Self {
        Self { inline: Some(types), linked: Some(types) }
    }

    /// Returns whether there is a place for a file of this type. A file of no known type is sent, as are all types to a
    /// server of which they are not known.
    pub(super) fn takes(self, media: &Media, kind: Option<&str>, is_known: bool) -> bool {
        let types = if media.data.is_some() { self.inline } else { self.linked };
        types.is_some_and(|types| !is_known || kind.is_none_or(|kind| types.has(kind)))
    }
}

pub(super) const PDF: &str = "application/pdf";
/// The images that all providers take.
const IMAGES: Types = Types::only(&["image/png", "image/jpeg", "image/gif", "image/webp"]);

/// The row of a protocol that refuses nothing.
const OPEN: Protocol = Protocol {
    lacks: &[],
    lacks_efforts: &[],
    tiers: None,
    is_imitated: false,
    is_chat: false,
    has_free_json: true,
    has_budgets: true,
    budget_min: None,
    max_tokens_min: 0,
    images: Files::ALL,
    documents: Files::ALL,
    audio: Files::ALL,
};

/// <https://developers.openai.com/api/reference/resources/responses/methods/create>
const OPENAI_TIERS: &[&str] = &["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"];

const RESPONSES: Protocol = Protocol {
    lacks: &[Field::TopK, Field::Seed, Field::Stop],
    tiers: Some(OPENAI_TIERS),
    is_imitated: true,
    has_budgets: false,
    // <https://platform.openai.com/docs/api-reference/responses/create#responses_create-max_output_tokens>
    max_tokens_min: 16,
    // <https://developers.openai.com/api/docs/guides/images-vision>
    images: Files::of(IMAGES),
    // Text and the files of office programs: <https://developers.openai.com/api/docs/guides/file-inputs>
    documents: Files::of(Types { takes: &[], refuses: &["image/", "audio/", "video/"] }),
    audio: Files::NONE,
    ..OPEN
};

const CHAT: Protocol = Protocol {
    lacks: &[Field::Summary],
    // LiteLLM 1.110.2, `ROUTE_SPECIFIC_REASONING_EFFORTS`: models of OpenAI take it over Responses alone.
    lacks_efforts: &["max"],
    tiers: Some(OPENAI_TIERS),
    is_imitated: true,
    is_chat: true,
    has_budgets: false,
    images: Files::of(IMAGES),
    // The same page: PDF alone. Of a document elsewhere, the model gets the address.
    documents: Files { inline: Some(Types::only(&[PDF])), linked: Some(Types::ALL) },
    // A recording is part of the request, never fetched.
    audio: Files { inline: Some(Types::only(AUDIO)), linked: None },
    ..OPEN
};

/// The recordings that Chat Completions has a word for.
const AUDIO: &[&str] = &["audio/wav", "audio/wave", "audio/x-wav", "audio/vnd.wave", "audio/mpeg", "audio/mp3"];

const ANTHROPIC: Protocol = Protocol {
    lacks: &[Field::Seed, Field::Verbosity],
    // <https://platform.claude.com/docs/en/api/service-tiers>
    tiers: Some(&["auto", "standard_only"]),
    has_free_json: false,
    // <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>
    budget_min: Some(1_024),
    // <https://platform.claude.com/docs/en/build-with-claude/vision>
    images: Files::of(IMAGES),
    // Only a PDF is fetched: <https://platform.claude.com/docs/en/build-with-claude/pdf-support>
    documents: Files { inline: Some(Types::only(&[PDF, "text/"])), linked: Some(Types::only(&[PDF])) },
    audio: Files::NONE,
    ..OPEN
};

const GEMINI: Protocol = Protocol {
    lacks: &[Field::Verbosity, Field::ParallelToolCalls],
    // <https://ai.google.dev/gemini-api/docs/optimization>
    tiers: Some(&["standard", "flex", "priority"]),
    // <https://ai.google.dev/gemini-api/docs/image-understanding>, and google/adk-python#5694 for GIF and AVIF.
    images: Files::of(Types::only(&[
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/heic",
        "image/heif",
        "image/avif",
        "image/bmp",
    ])),
    // `Unsupported MIME type: application/vnd.openxmlformats-officedocument…`
    documents: Files::of(Types { takes: &[PDF, "application/json"], refuses: &["image/svg+xml", "application/"] }),
    ..OPEN
};

const GEMINI_OPENAI: Protocol = Protocol {
    lacks: &[Field::Summary],
    has_budgets: false,
    audio: Files { inline: Some(Types::ALL), linked: None },
    ..OPEN
};

impl Protocol {
    pub(super) const fn of(provider: Provider) -> &'static Self {
        match provider {
            Provider::Openai | Provider::OpenaiResponses => &RESPONSES,
            Provider::OpenaiChat => &CHAT,
            Provider::Anthropic => &ANTHROPIC,
            Provider::Gemini => &GEMINI,
            Provider::GeminiOpenai => &GEMINI_OPENAI,
            Provider::Mock | Provider::Human => &OPEN,
        }
    }

    /// Returns whether the values that it refuses are known at the server of this model.
    pub(super) fn is_known_at(&self, known: &Known) -> bool {
        !self.is_imitated || known.is_of_openai
    }
}

#[cfg(test)]
mod tests;
