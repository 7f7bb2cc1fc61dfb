//! The table of models: what each one takes, what it costs, and when it ends. Requests are shaped by it, and `validate`,
//! `doctor` and the counting of tokens ask it.
//!
//! The built-in table is made by `data/models.py` from the public list of LiteLLM, with documented facts that the list
//! lacks. A file of the same form can replace it, and a profile can override single facts.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::client::ModelInfo;
use crate::prices::ModelPrices;
use crate::provider::Provider;

mod known;

pub use known::{Address, Known, KnownModels};

/// The table that is built in. One model for each line, sorted.
const BUILT_IN: &str = include_str!("../data/models.json");
/// The largest table that is read, in bytes.
const TABLE_BYTES_MAX: u64 = 16 << 20;

macro_rules! facts {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)*) => {
        /// What is known of a model. An absent fact is unknown.
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct ModelFacts {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
        }

        impl ModelFacts {
            /// These facts, completed by `others` where they are absent.
            #[must_use]
            pub fn or(self, others: &Self) -> Self {
                Self { $($field: self.$field.or_else(|| others.$field.clone()),)* }
            }
        }
    };
}

facts! {
    /// The longest conversation, in tokens.
    context: u64,
    /// The longest answer, in tokens.
    output: u64,
    /// What of it Chat Completions offers.
    chat_completions: ChatCompletions,
    /// When it takes `temperature`, `top_p` and `top_k`.
    sampling: Sampling,
    /// Whether Chat Completions takes texts at which its answer stops.
    stop: bool,
    /// Whether a request may say how long its answers are.
    verbosity: bool,
    /// Whether a request may force the use of a tool.
    forced_tool_choice: bool,
    /// Whether a request may begin the answer.
    prefill: bool,
    /// Whether one answer may ask for several tools.
    parallel_tools: bool,
    /// Whether it calls tools.
    tools: bool,
    /// Whether the provider enforces a JSON Schema of the answer.
    json_schema: bool,
    /// Whether a request with tools may have a form of the answer, too.
    schema_with_tools: bool,
    /// Whether the provider enforces the schemas of tools.
    strict_tools: bool,
    /// Whether it reads images.
    images: bool,
    /// Whether it reads PDFs.
    pdfs: bool,
    /// Whether it hears sound.
    audio: bool,
    /// What it makes besides text.
    makes: Vec<String>,
    /// How it thinks.
    thinking: Thinking,
    /// How a request turns its thinking off, where that has a name of its own.
    thinking_off: String,
    /// Whether it thinks when a request does not say.
    thinks_by_default: bool,
    /// The words for the effort that it takes.
    efforts: Vec<String>,
    /// The effort when a request does not say.
    default_effort: String,
    /// Whether its thoughts are refused after anything but what they were written after.
    bound_thinking: bool,
    /// Where a request may have instructions.
    system_messages: SystemMessages,
    /// Whether tools may change in the middle of a conversation.
    tool_changes: bool,
    /// How its provider caches prompts.
    cache: PromptCache,
    /// The shortest prompt that is cached, in tokens.
    cache_tokens_min: u64,
    /// The times for which a prompt can be cached, the shortest first.
    cache_ttls: Vec<String>,
    /// The tiers of service besides the standard one.
    service_tiers: Vec<String>,
    /// Whether it writes its thoughts into the text, between `<think>` and `</think>`.
    think_tag: bool,
    /// The day on which it ends, `YYYY-MM-DD`.
    ends: String,
    /// The model that its provider names in its place.
    successor: String,
    /// What it costs.
    prices: ModelPrices,
}

/// What Chat Completions offers of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatCompletions {
    /// Everything.
    Full,
    /// Tools only without reasoning, with the effort `none`.
    ToolsWithoutReasoning,
    /// No tools.
    NoTools,
    /// The model is not there.
    None,
}

/// When a model takes parameters of sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Always.
    Always,
    /// Only without reasoning, with the effort `none`.
    WithoutReasoning,
    /// Never.
    Never,
}

/// How a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// It does not.
    None,
    /// As long as a budget of tokens says.
    Budget,
    /// As long as it finds right, unless that is turned off.
    Adaptive,
    /// As long as it finds right; that cannot be turned off.
    Always,
    /// By an effort in words.
    Effort,
}

/// Where a request may have instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemMessages {
    /// At any place of the conversation.
    Anywhere,
    /// Before the conversation only.
    First,
}

/// How a provider caches the beginning of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptCache {
    /// Where the request marks it.
    Explicit,
    /// By itself.
    Implicit,
    /// Not at all.
    None,
}

impl ModelFacts {
    /// Whether it reasons before it answers, as far as known.
    pub fn reasons(&self) -> Option<bool> {
        self.thinking.map(|thinking| thinking != Thinking::None)
    }

    /// Whether a budget of tokens limits its thoughts, as far as known. The first models that decided about it themselves
    /// took one as well; they are those that still took parameters of sampling.
    pub fn takes_budget(&self) -> bool {
        match self.thinking {
            Some(Thinking::Budget) | None => true,
            Some(Thinking::Adaptive) => self.sampling != Some(Sampling::Never),
            Some(Thinking::None | Thinking::Always | Thinking::Effort) => false,
        }
    }

    /// Whether it takes this word for the effort; unknown words are taken where the words are not known.
    pub fn takes_effort(&self, effort: &str) -> bool {
        self.efforts.as_ref().is_none_or(|efforts| efforts.iter().any(|known| known == effort))
    }

    /// Whether the prices of its tokens are known.
    pub(crate) fn has_prices(&self) -> bool {
        self.prices.as_ref().is_some_and(|prices| prices.unit(0, None).is_some())
    }

    /// The facts in the form that programs have for all models.
    pub fn info(&self, model: &str) -> ModelInfo {
        ModelInfo {
            model: model.to_owned(),
            context_tokens_max: self.context,
            output_tokens_max: self.output,
            tools: self.tools,
            vision: self.images,
            reasoning: self.reasons(),
            json_schema: self.json_schema,
            prices: self.prices.as_ref().and_then(|prices| prices.unit(0, None)),
        }
    }
}

/// The facts of many models.
#[derive(Debug)]
pub struct ModelTable {
    /// The source of the facts.
    pub source: String,
    /// The day they were taken, `YYYY-MM-DD`.
    pub date: String,
    models: Models,
}

#[derive(Debug)]
enum Models {
    /// The lines of the built-in table by name, read when they are asked for.
    Lines(HashMap<&'static str, &'static str>),
    Read(HashMap<String, ModelFacts>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    source: String,
    date: String,
    models: HashMap<String, ModelFacts>,
}

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file cannot be read.
    #[error("cannot read the table of models {path}")]
    File {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is not such a table.
    #[error("{path} is not a table of models: it has the form of what `rethread llm models --json` prints")]
    Syntax {
        /// Which file.
        path: String,
        /// The fault.
        #[source]
        source: serde_json::Error,
    },
}

impl ModelTable {
    /// The table that is built in. Each model is read when it is asked for.
    pub fn built_in() -> Arc<Self> {
        static TABLE: OnceLock<Arc<ModelTable>> = OnceLock::new();
        Arc::clone(TABLE.get_or_init(|| Arc::new(Self::of_lines(BUILT_IN))))
    }

    /// A table of one line for each model. A test reads all of them.
    fn of_lines(text: &'static str) -> Self {
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        let of = |key: &str| {
            let (_, rest) = head.split_once(&format!("\"{key}\": \""))?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        let entry = |line: &'static str| line.trim_end_matches(',').strip_prefix('"')?.split_once("\": ");
        Self {
            source: of("source").unwrap_or_default(),
            date: of("date").unwrap_or_default(),
            models: Models::Lines(lines.filter_map(entry).collect()),
        }
    }

    /// A table from a file of the same form.
    ///
    /// # Errors
    /// When the file cannot be read or is no such table.
    pub fn from_file(path: &Path) -> Result<Self, TableError> {
        use std::io::Read as _;
        let shown = path.display().to_string();
        let fail = |source| TableError::File { path: shown.clone(), source };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(fail)?;
        file.take(TABLE_BYTES_MAX).read_to_string(&mut text).map_err(fail)?;
        let read = serde_json::from_str(&text);
        let TableFile { source, date, models } = read.map_err(|source| TableError::Syntax { path: shown, source })?;
        Ok(Self { source, date, models: Models::Read(models) })
    }

    /// The names of the models, each with its list before it, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = match &self.models {
            Models::Lines(lines) => lines.keys().copied().collect(),
            Models::Read(models) => models.keys().map(String::as_str).collect(),
        };
        names.sort_unstable();
        names
    }

    /// The facts of a model by its list and name, such as `openai/gpt-6-sol`.
    pub fn entry(&self, name: &str) -> Option<Cow<'_, ModelFacts>> {
        match &self.models {
            Models::Lines(lines) => Some(Cow::Owned(serde_json::from_str(lines.get(name)?).ok()?)),
            Models::Read(models) => models.get(name).map(Cow::Borrowed),
        }
    }

    /// The facts of a model of a list. A dated name that is not listed (`NAME-2026-08-06`) has the facts of the name
    /// without the date, and a fine-tuned one those of its base.
    pub fn facts(&self, list: &str, model: &str) -> Option<ModelFacts> {
        let model = model.strip_prefix("models/").unwrap_or(model);
        // A fine-tuned model is named `ft:BASE:ORGANISATION:…`.
        let model = model.strip_prefix("ft:").map_or(model, |tuned| tuned.split(':').next().unwrap_or(tuned));
        let find = |name: &str| self.entry(&format!("{list}/{name}"));
        let found = find(model).or_else(|| find(without_date(model)?));
        found.map(Cow::into_owned)
    }

    /// Whether a model of OpenAI reasons before it answers, at any address: as the table says, and by the family of the
    /// name when the table does not list it.
    pub fn reasons(&self, model: &str) -> bool {
        let name = model.rsplit('/').next().unwrap_or(model);
        let name = name.strip_prefix("ft:").map_or(name, |tuned| tuned.split(':').next().unwrap_or(tuned));
        let known = |list: &str| self.facts(list, name)?.reasons();
        known("openai").or_else(|| known("azure")).unwrap_or_else(|| is_of_reasoning_family(name))
    }
}

/// Whether the name of an unlisted model belongs to a family of OpenAI that reasons: `o` and a number, `gpt-` and a
/// number from 5 on, `codex-`, `gpt-oss`.
pub(crate) fn is_of_reasoning_family(name: &str) -> bool {
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse::<u32>().ok());
    let o_series = name.strip_prefix('o').and_then(number).is_some();
    let gpt = name.strip_prefix("gpt-").and_then(number).is_some_and(|n| n >= 5);
    o_series || gpt || name.starts_with("codex-") || name.starts_with("gpt-oss")
}

/// The name without a date or `-latest` at its end.
fn without_date(model: &str) -> Option<&str> {
    if let Some(name) = model.strip_suffix("-latest") {
        return Some(name);
    }
    let bytes = model.as_bytes();
    let dated = |form: &[u8]| {
        let tail = bytes.get(bytes.len().checked_sub(form.len())?..)?;
        let fits = tail.iter().zip(form).all(|(b, f)| if *f == b'0' { b.is_ascii_digit() } else { b == f });
        fits.then(|| &model[..model.len() - form.len()])
    };
    dated(b"-0000-00-00").or_else(|| dated(b"-00000000"))
}

/// The list of a provider's own models.
pub(crate) const fn home_of(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::Anthropic => Some("anthropic"),
        Provider::Gemini | Provider::GeminiOpenai => Some("gemini"),
        Provider::Openai | Provider::OpenaiChat | Provider::OpenaiResponses => Some("openai"),
        Provider::Mock | Provider::Human => None,
    }
}

#[cfg(test)]
mod tests;
