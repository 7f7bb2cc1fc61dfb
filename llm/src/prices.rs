//! What a call costs.
//!
//! Everything is integers: nano-dollars, and prices in nano-dollars per million tokens. A model whose price is not known
//! has an unknown cost, never 0. Where a price depends on something that an answer does not say, the higher one counts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rethread_events::message::Usage;
use serde::{Deserialize, Serialize};

use crate::response::{Cost, UnitPrices};

mod dollars;
mod off_peak;

pub use dollars::ProfilePrices;
pub use off_peak::OffPeak;

/// The terms of a call that its price depends on, in words of the provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms<'a> {
    /// The tier of service.
    pub tier: Option<&'a str>,
    /// The speed, such as `fast`.
    pub speed: Option<&'a str>,
    /// Where the model runs, such as `us`.
    pub region: Option<&'a str>,
    /// When the call began and ended, for prices by the hour; the standard prices if absent.
    pub time: Option<[Timestamp; 2]>,
}

/// The words for a speed and a region that cost nothing extra. `not_available`: the model has no choice of regions.
/// <https://platform.claude.com/docs/en/manage-claude/data-residency>
const USUAL: [&str; 3] = ["standard", "global", "not_available"];

macro_rules! rates {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Prices of tokens in nano-dollars per million. An absent one is that of the standard tier, or as
        /// [`UnitPrices`] says.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Rates {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<u64>,)*
        }

        impl Rates {
            /// These rates, completed by others where they are absent.
            #[must_use]
            fn or(self, others: Self) -> Self {
                // Reasoning without a price of its own costs what the answer costs in the same tier.
                let own = self.reasoning.or(self.output.filter(|_| others.reasoning.is_some()));
                Self { reasoning: own.or(others.reasoning), ..Self { $($field: self.$field.or(others.$field),)* } }
            }

            /// The higher of two rates each.
            #[must_use]
            fn max(self, others: Self) -> Self {
                let has_reasoning = self.reasoning.or(others.reasoning).is_some();
                let of = |rates: Self| rates.reasoning.or(rates.output).filter(|_| has_reasoning);
                Self { reasoning: of(self).max(of(others)), ..Self { $($field: self.$field.max(others.$field),)* } }
            }
        }
    };
}

rates! {
    /// Tokens of the prompt.
    input,
    /// Tokens of the answer.
    output,
    /// Tokens of the prompt that came from the provider's cache.
    cached_input,
    /// Tokens of the prompt that were written to the provider's cache.
    cache_write,
    /// Tokens that were written to it for the longer of its two times.
    cache_write_long,
    /// Tokens of reasoning.
    reasoning,
    /// Tokens of sound in the prompt.
    audio_input,
    /// Tokens of sound in the answer.
    audio_output,
    /// Tokens of images in the answer.
    image_output,
}

/// What a model costs, in every tier of service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelPrices {
    /// The prices hold for prompts of more than so many tokens.
    #[serde(skip_serializing_if = "is_zero")]
    above: u64,
    standard: Rates,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Rates>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flex: Option<Rates>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<Rates>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ultrafast: Option<Rates>,
    /// The prices of longer prompts, the shortest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    long: Vec<ModelPrices>,
    /// The price of tokens in a region or at a speed, in percent of the usual price. If absent, the prices hold for every
    /// region and speed. Otherwise the price of one that is missing is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    surcharges: Option<BTreeMap<String, u64>>,
    /// The standard prices at some hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    off_peak: Option<OffPeak>,
    /// One search of the web by the provider, in nano-dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<u64>,
    /// One image that is made, in nano-dollars, where images are billed by number.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<u64>,
}

// Serde gives a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl ModelPrices {
    /// Prices of the standard tier alone.
    pub fn of_rates(standard: Rates) -> Self {
        Self { standard, ..Self::default() }
    }

    fn tier(&self, tier: Option<&str>) -> Option<Rates> {
        match tier {
            // Two words for one tier: <https://developers.openai.com/api/docs/guides/fast-mode>
            Some("priority" | "fast") => self.priority,
            Some("flex") => self.flex,
            Some("batch") => self.batch,
            Some("ultrafast") => self.ultrafast,
            _ => None,
        }
    }

    /// The product of all surcharges of these terms, as a fraction of whole numbers. `None` if one of them is unknown.
    fn surcharge(&self, terms: Terms<'_>) -> Option<(u128, u128)> {
        let Some(surcharges) = &self.surcharges else { return Some((1, 1)) };
        // Faster tiers always cost more.
        let dearer = terms.tier.filter(|tier| matches!(*tier, "fast" | "ultrafast") && self.tier(Some(tier)).is_none());
        let words = [dearer, terms.speed, terms.region].into_iter().flatten().filter(|word| !USUAL.contains(word));
        words
            .map(|word| surcharges.get(word))
            .try_fold((1, 1), |(percent, whole), found| Some((percent * u128::from(*found?), whole * 100)))
    }

    /// The unit prices of a call with a prompt of this length in this tier of service, at the usual speed in no particular
    /// region. `None` if the price of tokens is not known.
    pub fn unit(&self, input_tokens: u64, tier: Option<&str>) -> Option<UnitPrices> {
        self.unit_on(input_tokens, Terms { tier, ..Terms::default() })
    }

    /// As [`Self::unit`], on these terms. `None` also if they cost extra, and how much is not known.
    pub fn unit_on(&self, input_tokens: u64, terms: Terms<'_>) -> Option<UnitPrices> {
        let (percent, whole) = self.surcharge(terms)?;
        let with = |rate: u64| u64::try_from((u128::from(rate) * percent).div_ceil(whole)).unwrap_or(u64::MAX);
        let tier = terms.tier;
        let off_peak =
            self.off_peak.as_ref().filter(|off_peak| off_peak.holds(terms.time)).map(|off_peak| off_peak.rates);
        let usual = self.tier(tier).or(off_peak).unwrap_or_default().or(self.standard);
        let long = self.long.iter().rfind(|long| input_tokens > long.above);
        let rates = match long {
            None => usual,
            Some(long) => {
                let standard = long.standard.or(self.standard);
                long.tier(tier).unwrap_or_default().or(usual.max(standard))
            }
        };
        Some(UnitPrices {
            input: with(rates.input?),
            output: with(rates.output?),
            cached_input: rates.cached_input.map(with),
            cache_write: rates.cache_write.map(with),
            reasoning: rates.reasoning.map(with),
            cache_write_long: rates.cache_write_long.map(with),
            audio_input: rates.audio_input.map(with),
            audio_output: rates.audio_output.map(with),
            image_output: rates.image_output.map(with),
            search: self.search,
            image: self.image,
        })
    }

    /// Returns the cost of calls on these terms, each by the length of its own prompt, with the unit prices of the first.
    /// `None` as in [`cost`], or if the price of tokens is not known.
    pub fn cost(&self, calls: &[Usage], terms: Terms<'_>) -> Option<Cost> {
        let of = |call: &Usage| cost(self.unit_on(call.input_tokens.unwrap_or(0), terms)?, call);
        let costs: Vec<Cost> = calls.iter().map(of).collect::<Option<_>>()?;
        let nanousd = costs.iter().map(|cost| cost.nanousd).fold(0, u64::saturating_add);
        Some(Cost { nanousd, ..*costs.first()? })
    }
}

/// Returns the cost of a call at these prices; `None` if the number of tokens is not known, or if the provider bills
/// something whose price is not known. The input includes tokens read from and written to the provider's cache, the
/// output includes reasoning.
pub fn cost(prices: UnitPrices, usage: &Usage) -> Option<Cost> {
    let parts = parts(prices, usage)?;
    let tokens: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum();
    let fees = [(usage.n_searches, prices.search), (usage.n_images, prices.image)];
    let mut sum = tokens.div_ceil(1_000_000);
    for (n, price) in fees {
        match (n.unwrap_or(0), price) {
            (0, _) => {}
            (n, Some(price)) => sum += u128::from(n) * u128::from(price),
            (_, None) => return None,
        }
    }
    Some(Cost { nanousd: u64::try_from(sum).unwrap_or(u64::MAX), prices: Some(prices) })
}

/// Each part of a usage with its price.
fn parts(prices: UnitPrices, usage: &Usage) -> Option<[(u64, u64); 10]> {
    let (input, output) = (usage.input_tokens?, usage.output_tokens?);
    let of = |part: Option<u64>, whole: u64| part.unwrap_or(0).min(whole);
    let cached = of(usage.cached_input_tokens, input);
    let written = of(usage.cache_write_tokens, input - cached);
    let written_long = of(usage.cache_write_long_tokens, written);
    let heard = of(usage.audio_input_tokens.filter(|_| prices.audio_input.is_some()), input - cached - written);
    let thought = of(usage.reasoning_tokens.filter(|_| prices.reasoning.is_some()), output);
    let spoken = of(usage.audio_output_tokens.filter(|_| prices.audio_output.is_some()), output - thought);
    let drawn = of(usage.image_output_tokens.filter(|_| prices.image_output.is_some()), output - thought - spoken);
    let write = prices.cache_write.unwrap_or(prices.input);
    Some([
        (input - cached - written - heard, prices.input),
        (usage.tool_input_tokens.unwrap_or(0), prices.input),
        (cached, prices.cached_input.unwrap_or(prices.input)),
        (written - written_long, write),
        (written_long, prices.cache_write_long.unwrap_or(write)),
        (heard, prices.audio_input.unwrap_or(prices.input)),
        (output - thought - spoken - drawn, prices.output),
        (thought, prices.reasoning.unwrap_or(prices.output)),
        (spoken, prices.audio_output.unwrap_or(prices.output)),
        (drawn, prices.image_output.unwrap_or(prices.output)),
    ])
}

/// The price list that holds for a provider at this address; none for a server of one's own.
pub(crate) fn list_of(provider: crate::Provider, host: Option<&str>) -> Option<&'static str> {
    use crate::Provider;
    let host = host?;
    match provider {
        Provider::Anthropic => host.ends_with("anthropic.com").then_some("anthropic"),
        Provider::Gemini | Provider::GeminiOpenai => host.ends_with("googleapis.com").then_some("gemini"),
        Provider::Openai | Provider::OpenaiChat | Provider::OpenaiResponses => LISTS
            .iter()
            .find(|(known, _)| host == *known || host.strip_suffix(known).is_some_and(|h| h.ends_with('.')))
            .map(|(_, list)| *list),
        Provider::Mock | Provider::Human => None,
    }
}

/// The region of an address of OpenAI, whose price differs: `fedramp` for agencies of the United States, `regional` for all
/// others that process data in one region.
/// <https://developers.openai.com/api/docs/guides/data-residency>
pub(crate) fn region_of(host: Option<&str>) -> Option<&'static str> {
    match host?.strip_suffix(".api.openai.com")? {
        "gov" => Some("fedramp"),
        _ => Some("regional"),
    }
}

/// The lists of the table that are found by a host.
const LISTS: &[(&str, &str)] = &[
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
];

/// The list of this name; `None` if the table has no such list.
pub(crate) fn list_named(name: &str) -> Option<&'static str> {
    LISTS.iter().map(|(_, list)| *list).chain(["anthropic", "gemini"]).find(|list| *list == name)
}

#[cfg(test)]
mod tests;
