//! How services sign what they post, as pure functions over headers, body and time.

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use serde::Deserialize;
use serde_json::Value;

use super::super::signature::Secret;

/// How the deliveries of a webhook are signed, and what they say of themselves.
#[derive(Debug)]
pub(super) enum Scheme {
    /// The body, as [GitHub](https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries) does it. The
    /// id and the name of the event are headers that it does not sign.
    GitHub,
    /// Time and body, as [Stripe](https://docs.stripe.com/webhooks#verify-manually) does it.
    Stripe { tolerance_s: u64 },
    /// Id, time and body, as [Standard Webhooks](https://www.standardwebhooks.com) defines it.
    Standard { tolerance_s: u64 },
    /// The body: HMAC-SHA256 in a header.
    Hmac {
        header: String,
        encoding: Encoding,
        /// The prefix of the header's value.
        prefix: String,
        /// The header with the id of the delivery.
        id_header: Option<String>,
    },
}

/// How the bytes of a signature are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Encoding {
    #[default]
    Hex,
    Base64,
}

impl Encoding {
    fn decode(self, text: &str) -> Option<Vec<u8>> {
        let encoding = match self {
            Self::Hex => HEXLOWER_PERMISSIVE,
            Self::Base64 => BASE64,
        };
        encoding.decode(text.as_bytes()).ok()
    }
}

/// A request.
pub(super) struct Delivery<'a> {
    /// Returns the value of the header with this name, case-insensitively.
    pub(super) header: &'a dyn Fn(&str) -> Option<&'a str>,
    /// The bytes as they came.
    pub(super) body: &'a [u8],
    /// The present, in seconds since the epoch.
    pub(super) now_s: u64,
}

/// Why a delivery is refused. The reason is not sent to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("the header with the signature is missing or malformed")]
    NoSignature,
    #[error("the signature was not made with a secret of this webhook, or the body was changed")]
    WrongSignature,
    #[error("the time of the delivery differs from the clock of this machine by more than `tolerance_s`")]
    WrongTime,
}

/// The signature in the headers.
struct Signature {
    /// The bytes that are signed before the body.
    before: String,
    /// One of these must be right.
    codes: Vec<Vec<u8>>,
    /// The time of the delivery, and by how many seconds it may differ from the present.
    time_s: Option<(u64, u64)>,
}

impl Scheme {
    /// Checks that one of these secrets signed the delivery, and that it is not an old one sent again.
    pub(super) fn verify(&self, secrets: &[Secret], delivery: &Delivery<'_>) -> Result<(), Refused> {
        let Signature { before, codes, time_s } = self.signature(delivery).ok_or(Refused::NoSignature)?;
        if !secrets.iter().any(|secret| secret.has_signed(&before, delivery.body, &codes)) {
            return Err(Refused::WrongSignature);
        }
        match time_s {
            Some((time, tolerance)) if time.abs_diff(delivery.now_s) > tolerance => Err(Refused::WrongTime),
            _ => Ok(()),
        }
    }

    fn signature(&self, delivery: &Delivery<'_>) -> Option<Signature> {
        let header = delivery.header;
        let of_body = |code| Some(Signature { before: String::new(), codes: vec![code], time_s: None });
        match self {
            Self::GitHub => of_body(Encoding::Hex.decode(header("x-hub-signature-256")?.strip_prefix("sha256=")?)?),
            Self::Hmac { header: name, encoding, prefix, .. } => {
                of_body(encoding.decode(header(name)?.strip_prefix(prefix.as_str())?)?)
            }
            Self::Stripe { tolerance_s } => {
                let pairs = header("stripe-signature")?.split(',').filter_map(|pair| pair.trim().split_once('='));
                let (_, time) = pairs.clone().find(|(key, _)| *key == "t")?;
                let codes = pairs.filter(|(key, _)| *key == "v1").filter_map(|(_, code)| Encoding::Hex.decode(code));
                let time_s = Some((time.parse().ok()?, *tolerance_s));
                Some(Signature { before: format!("{time}."), codes: codes.collect(), time_s })
            }
            Self::Standard { tolerance_s } => {
                let (id, time) = (header("webhook-id")?, header("webhook-timestamp")?);
                let codes = header("webhook-signature")?.split(' ').filter_map(|word| word.strip_prefix("v1,"));
                let codes = codes.filter_map(|code| Encoding::Base64.decode(code)).collect();
                let time_s = Some((time.parse().ok()?, *tolerance_s));
                Some(Signature { before: format!("{id}.{time}."), codes, time_s })
            }
        }
    }

    /// Whether the service only tries whether deliveries arrive.
    pub(super) fn is_test(&self, delivery: &Delivery<'_>) -> bool {
        matches!(self, Self::GitHub) && (delivery.header)("x-github-event") == Some("ping")
    }

    /// The id of the delivery, which is the same when it is sent again.
    pub(super) fn id<'a>(&self, delivery: &Delivery<'a>, payload: &'a Value) -> Option<&'a str> {
        let id = match self {
            Self::GitHub => (delivery.header)("x-github-delivery"),
            Self::Stripe { .. } => payload["id"].as_str(),
            Self::Standard { .. } => (delivery.header)("webhook-id"),
            Self::Hmac { id_header, .. } => id_header.as_deref().and_then(delivery.header),
        };
        id.filter(|id| !id.is_empty())
    }

    /// The name of the event.
    pub(super) fn event<'a>(&self, delivery: &Delivery<'a>, payload: &'a Value) -> Option<&'a str> {
        match self {
            Self::GitHub => (delivery.header)("x-github-event"),
            Self::Stripe { .. } | Self::Standard { .. } => payload["type"].as_str(),
            Self::Hmac { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
