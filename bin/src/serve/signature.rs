//! The secrets of webhooks, and signatures with them: HMAC-SHA256. Events are signed as Standard Webhooks defines, over
//! id, time and body, so that a receiver knows who sent them and that they are not old ones sent again.

use std::path::Path;

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretSlice};
use sha2::Sha256;

/// The prefix of a secret.
const PREFIX: &str = "whsec_";
/// How many bytes a secret has, by the specification.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The fewest bytes of a secret of another form. Shorter ones can be found by trying.
const TEXT_BYTES_MIN: usize = 16;

/// The text that holds a secret, from the variable or the file that a configuration names.
///
/// # Errors
/// What is missing, and not the text.
pub(crate) fn secret_text(variable: Option<&str>, file: Option<&Path>) -> Result<String, String> {
    match (variable, file) {
        (Some(variable), None) => std::env::var(variable)
            .map_err(|_| format!("the variable {variable}, which is to hold the secret, is not set")),
        (None, Some(file)) => std::fs::read_to_string(file)
            .map_err(|error| format!("the secret cannot be read from {}: {error}", file.display())),
        _ => Err("name the secret: `secret_env` or `secret_file`".into()),
    }
}

/// The secret that signs the requests of a webhook. It does not print.
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

    /// A secret whose key is its text.
    pub(crate) fn of_text(text: &str) -> Result<Self, String> {
        if text.len() < TEXT_BYTES_MIN {
            return Err(format!(
                "the secret must have at least {TEXT_BYTES_MIN} bytes: openssl rand -hex 32 makes one"
            ));
        }
        Ok(Self(SecretSlice::from(text.as_bytes().to_vec())))
    }

    /// The value of the header `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, seconds: u64, body: &[u8]) -> String {
        let code = self.mac(&format!("{id}.{seconds}."), body).map(|mac| mac.finalize().into_bytes());
        code.map(|code| format!("v1,{}", BASE64.encode(&code))).unwrap_or_default()
    }

    /// Whether one of these codes is that of the body with this text before it. The codes are compared in constant time,
    /// and the body is hashed once, however many there are.
    pub(crate) fn has_signed(&self, before: &str, body: &[u8], codes: &[Vec<u8>]) -> bool {
        let mac = self.mac(before, body);
        mac.is_some_and(|mac| codes.iter().any(|code| mac.clone().verify_slice(code).is_ok()))
    }

    /// HMAC takes keys of every length, so there always is one.
    fn mac(&self, before: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::new_from_slice(self.0.expose_secret()).ok()?;
        mac.update(before.as_bytes());
        mac.update(body);
        Some(mac)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests;
