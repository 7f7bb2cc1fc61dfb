//! Signatures as Standard Webhooks has them: HMAC-SHA256 over id, time and body, so that a receiver knows who sent it and
//! that it is not an old one sent again.

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretSlice};
use sha2::Sha256;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// How many bytes a secret has, by the specification.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// What a webhook is signed with. It does not print.
pub(crate) struct Secret(SecretSlice<u8>);

impl Secret {
    /// Parses a secret: `whsec_`, then base64.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "the secret must be `{PREFIX}` and the base64 of {} to {} random bytes: \
                 echo \"{PREFIX}$(head -c 32 /dev/urandom | base64)\" makes one",
                BYTES.start(),
                BYTES.end()
            )
        };
        let encoded = text.trim().strip_prefix(PREFIX).ok_or_else(wrong)?;
        let bytes = BASE64.decode(encoded.as_bytes()).map_err(|_| wrong())?;
        if !BYTES.contains(&bytes.len()) {
            return Err(wrong());
        }
        Ok(Self(SecretSlice::from(bytes)))
    }

    /// The value of the header `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, seconds: u64, body: &[u8]) -> String {
        // HMAC takes keys of every length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.0.expose_secret()) else {
            return String::new();
        };
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests;
