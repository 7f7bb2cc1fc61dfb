//! Prices as a profile has them: in dollars per million tokens.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ModelPrices, Rates};

/// Nano-dollars of a dollar.
const NANO: f64 = 1e9;
/// The highest price, in dollars.
const DOLLARS_MAX: f64 = 1e10;

/// The price of a profile's model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfilePrices(pub ModelPrices);

/// An amount in dollars, of which nano-dollars are kept.
struct Dollars(u64);

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        if !(0.0..=DOLLARS_MAX).contains(&dollars) {
            return Err(D::Error::custom("a price is a number of dollars from 0"));
        }
        // The number is not negative, and far below the limit of the type.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(Self((dollars * NANO).round() as u64))
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Tier {
    input: Option<Dollars>,
    output: Option<Dollars>,
    cached_input: Option<Dollars>,
    cache_write: Option<Dollars>,
    cache_write_long: Option<Dollars>,
    reasoning: Option<Dollars>,
    audio_input: Option<Dollars>,
    audio_output: Option<Dollars>,
    image_output: Option<Dollars>,
}

impl From<Tier> for Rates {
    fn from(tier: Tier) -> Self {
        let nano = |dollars: Option<Dollars>| dollars.map(|Dollars(nano)| nano);
        Self {
            input: nano(tier.input),
            output: nano(tier.output),
            cached_input: nano(tier.cached_input),
            cache_write: nano(tier.cache_write),
            cache_write_long: nano(tier.cache_write_long),
            reasoning: nano(tier.reasoning),
            audio_input: nano(tier.audio_input),
            audio_output: nano(tier.audio_output),
            image_output: nano(tier.image_output),
        }
    }
}

/// The prices as written: those of the standard tier stand beside the other tiers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    above: Option<u64>,
    input: Dollars,
    output: Dollars,
    cached_input: Option<Dollars>,
    cache_write: Option<Dollars>,
    cache_write_long: Option<Dollars>,
    reasoning: Option<Dollars>,
    audio_input: Option<Dollars>,
    audio_output: Option<Dollars>,
    image_output: Option<Dollars>,
    priority: Option<Tier>,
    flex: Option<Tier>,
    batch: Option<Tier>,
    ultrafast: Option<Tier>,
    #[serde(default)]
    long: Vec<Written>,
    search: Option<Dollars>,
    image: Option<Dollars>,
}

impl Written {
    fn prices(self) -> ModelPrices {
        let standard = Tier {
            input: Some(self.input),
            output: Some(self.output),
            cached_input: self.cached_input,
            cache_write: self.cache_write,
            cache_write_long: self.cache_write_long,
            reasoning: self.reasoning,
            audio_input: self.audio_input,
            audio_output: self.audio_output,
            image_output: self.image_output,
        };
        let mut long: Vec<_> = self.long.into_iter().map(Self::prices).collect();
        long.sort_by_key(|long| long.above);
        ModelPrices {
            above: self.above.unwrap_or(0),
            standard: standard.into(),
            priority: self.priority.map(Rates::from),
            flex: self.flex.map(Rates::from),
            batch: self.batch.map(Rates::from),
            ultrafast: self.ultrafast.map(Rates::from),
            long,
            // What a profile says holds for every region, speed and hour.
            surcharges: None,
            off_peak: None,
            search: self.search.map(|Dollars(nano)| nano),
            image: self.image.map(|Dollars(nano)| nano),
        }
    }
}

impl<'de> Deserialize<'de> for ProfilePrices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        if written.above.is_some() {
            return Err(D::Error::custom("`above` belongs into an entry of `long`"));
        }
        if written.long.iter().any(|long| long.above.is_none()) {
            return Err(D::Error::custom("an entry of `long` says with `above` for how many tokens it holds"));
        }
        Ok(Self(written.prices()))
    }
}

impl Serialize for ProfilePrices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
