//! Prices and abilities of models, from a dated table; a newer one can be loaded at run time.
//!
//! Everything is integers: nano-dollars, and prices in nano-dollars per million tokens. A model that is not in the
//! table has an unknown cost, never 0.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rethread_events::message::Usage;
use serde::Deserialize;

use crate::client::ModelInfo;
use crate::response::{Cost, UnitPrices};

/// The table that is built in: LiteLLM's public list, trimmed by `data/trim_prices.py`.
const BUILT_IN: &str = include_str!("../data/prices.json");
/// The largest table that is read, in bytes.
const TABLE_BYTES_MAX: u64 = 16 << 20;
/// Some models cost more when the prompt is longer than this.
const LONG_PROMPT_TOKENS: u64 = 200_000;

/// Prices and abilities of models.
#[derive(Debug, Deserialize)]
pub struct PriceTable {
    /// The source of the figures.
    pub source: String,
    /// The day they were taken, `YYYY-MM-DD`.
    pub date: String,
    models: HashMap<String, Entry>,
}

#[derive(Debug, Clone, Deserialize)]
struct Entry {
    prices: UnitPrices,
    #[serde(default)]
    above_200k: Option<UnitPrices>,
    #[serde(default)]
    context: Option<u64>,
    #[serde(default)]
    answer: Option<u64>,
    #[serde(default)]
    can: Vec<String>,
}

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file cannot be read.
    #[error("cannot read the price table {path}")]
    File {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is not such a table.
    #[error("{path} is not a price table")]
    Syntax {
        /// Which file.
        path: String,
        /// The fault.
        #[source]
        source: serde_json::Error,
    },
}

impl PriceTable {
    /// The table that is built in. Read once per process, in a few milliseconds.
    pub fn built_in() -> Arc<Self> {
        static TABLE: OnceLock<Arc<PriceTable>> = OnceLock::new();
        let read = || {
            let empty = || PriceTable { source: String::new(), date: String::new(), models: HashMap::new() };
            // A test reads the table; should it be damaged all the same, every cost is unknown.
            Arc::new(serde_json::from_str(BUILT_IN).unwrap_or_else(|_| empty()))
        };
        Arc::clone(TABLE.get_or_init(read))
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
        serde_json::from_str(&text).map_err(|source| TableError::Syntax { path: shown, source })
    }

    /// The number of models in it.
    pub fn n_models(&self) -> usize {
        self.models.len()
    }

    /// The entry of a model of a price list, such as `openai` or `openrouter`. A dated name that is not listed
    /// (`gpt-4o-2024-08-06`) has the entry of the name without the date.
    fn entry(&self, list: &str, model: &str) -> Option<&Entry> {
        let model = model.strip_prefix("models/").unwrap_or(model);
        let find = |name: &str| self.models.get(&format!("{list}/{name}"));
        find(model).or_else(|| find(without_date(model)?))
    }

    /// The unit prices of a call with a prompt of this length.
    pub fn unit_prices(&self, list: &str, model: &str, input_tokens: u64) -> Option<UnitPrices> {
        let entry = self.entry(list, model)?;
        Some(match entry.above_200k {
            Some(above) if input_tokens > LONG_PROMPT_TOKENS => above,
            _ => entry.prices,
        })
    }

    /// Whether a model of OpenAI reasons before it answers, at any address: by the flag of the
    /// table, and by the name's family when the table does not list the name.
    pub fn reasons(&self, model: &str) -> bool {
        let name = model.rsplit('/').next().unwrap_or(model);
        // A fine-tuned model is named `ft:BASE:ORGANISATION:…`.
        let name = name.strip_prefix("ft:").map_or(name, |tuned| tuned.split(':').next().unwrap_or(tuned));
        let flagged = |list: &str| Some(self.entry(list, name)?.can.iter().any(|known| known == "reasoning"));
        flagged("openai").or_else(|| flagged("azure")).unwrap_or_else(|| is_of_reasoning_family(name))
    }

    /// Returns the known properties of a model.
    pub fn model_info(&self, list: &str, model: &str) -> Option<ModelInfo> {
        let entry = self.entry(list, model)?;
        let can = |ability: &str| Some(entry.can.iter().any(|known| known == ability));
        Some(ModelInfo {
            model: model.to_owned(),
            context_tokens_max: entry.context,
            output_tokens_max: entry.answer,
            tools: can("tools"),
            vision: can("vision"),
            reasoning: can("reasoning"),
            json_schema: can("json_schema"),
            prices: Some(entry.prices),
        })
    }
}

/// Whether the name of an unlisted model belongs to a family of OpenAI that reasons: `o` and a number, `gpt-` and a
/// number from 5 on, `codex-`, `gpt-oss`.
fn is_of_reasoning_family(name: &str) -> bool {
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

/// Returns the cost of a call at these prices; `None` if the number of tokens is not known. The input includes tokens
/// read from and written to the provider's cache, the output includes reasoning.
pub fn cost(prices: UnitPrices, usage: &Usage) -> Option<Cost> {
    let input = usage.input_tokens?;
    let output = usage.output_tokens?;
    let cached = usage.cached_input_tokens.unwrap_or(0);
    let written = usage.cache_write_tokens.unwrap_or(0);
    let plain = input.saturating_sub(cached).saturating_sub(written);
    let thought = usage.reasoning_tokens.filter(|_| prices.reasoning.is_some()).unwrap_or(0).min(output);
    let sum: u128 = [
        (plain, prices.input),
        (cached, prices.cached_input.unwrap_or(prices.input)),
        (written, prices.cache_write.unwrap_or(prices.input)),
        (output - thought, prices.output),
        (thought, prices.reasoning.unwrap_or(prices.output)),
    ]
    .iter()
    .map(|(tokens, price)| u128::from(*tokens) * u128::from(*price))
    .sum();
    let nanousd = u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX);
    Some(Cost { nanousd, prices })
}

/// The price list that holds for a provider at this address; none for a server of one's own.
pub(crate) fn list_of(provider: crate::Provider, host: Option<&str>) -> Option<&'static str> {
    use crate::Provider;
    let host = host?;
    match provider {
        Provider::Anthropic => host.ends_with("anthropic.com").then_some("anthropic"),
        Provider::Gemini | Provider::GeminiOpenai => host.ends_with("googleapis.com").then_some("gemini"),
        Provider::OpenaiChat | Provider::OpenaiResponses => [
            ("openai.com", "openai"),
            ("azure.com", "azure"),
            ("openrouter.ai", "openrouter"),
            ("deepseek.com", "deepseek"),
            ("mistral.ai", "mistral"),
            ("groq.com", "groq"),
            ("x.ai", "xai"),
            ("together.xyz", "together_ai"),
            ("fireworks.ai", "fireworks_ai"),
            ("moonshot.ai", "moonshot"),
            ("minimax.io", "minimax"),
            ("cerebras.ai", "cerebras"),
        ]
        .iter()
        .find(|(known, _)| host == *known || host.strip_suffix(known).is_some_and(|h| h.ends_with('.')))
        .map(|(_, list)| *list),
        Provider::Mock | Provider::Human => None,
    }
}

#[cfg(test)]
mod tests;
