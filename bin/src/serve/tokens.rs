//! Tokens: who may do what over HTTP. Only their hashes are kept, in a file beside the log.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use rethread::Time;
use serde::{Deserialize, Serialize};

/// The name of the file.
const NAME: &str = "tokens.json";
/// The name of the file beside it that is locked by whoever changes it.
const LOCK: &str = "tokens.lock";
/// What every token begins with, so that one that was lost is recognised.
const PREFIX: &str = "rethread_";
/// The most tokens there can be.
const TOKENS_MAX: usize = 1_000;
/// The random part, in bytes: nobody guesses it, so a fast hash is enough.
const RANDOM_BYTES: usize = 32;

/// What a token allows; each allows what those before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// Look at everything
    Read,
    /// Start threads, answer questions, pause, resume, fork and cancel
    Operate,
    /// Delete threads, import them, and choose the folder that tools work in
    Admin,
}

impl Scope {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

/// A token, as far as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// What it is called when it is revoked.
    pub(crate) id: String,
    pub(crate) scope: Scope,
    /// What it is for, in its owner's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    pub(crate) created_at: String,
    /// blake3 of the whole token, in hexadecimal.
    pub(crate) hash: String,
}

/// What is remembered of a token that somebody sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenHash(blake3::Hash);

pub(crate) fn hash(token: &str) -> TokenHash {
    TokenHash(blake3::hash(token.as_bytes()))
}

/// Why the tokens cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("{file}: {source}", file = file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{file} is not a list of tokens ({source}): repair it, or remove it and create the tokens anew", file = file.display())]
    Malformed { file: PathBuf, source: serde_json::Error },
    #[error("there are {TOKENS_MAX} tokens, which is the limit: revoke some")]
    TooMany,
    #[error("the system gives no random numbers")]
    Random,
}

/// The file with the tokens of a log, read again when it changes.
#[derive(Debug)]
pub(crate) struct Tokens {
    file: PathBuf,
    read: Mutex<Option<Read>>,
}

/// What was read, and the file it was read from: each change makes a new one.
#[derive(Debug)]
struct Read {
    file: (u64, SystemTime),
    known: Vec<(blake3::Hash, Scope)>,
}

impl Tokens {
    pub(crate) fn beside(data_dir: &Path) -> Self {
        Self { file: data_dir.join(NAME), read: Mutex::new(None) }
    }

    /// Makes a token and keeps its hash. Gives the token itself, which nobody can get again.
    pub(crate) fn create(&self, scope: Scope, note: Option<String>, now: Time) -> Result<(String, Kept), TokenError> {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random).map_err(|_| TokenError::Random)?;
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        let hash = blake3::hash(token.as_bytes()).to_hex().to_string();
        let id = hash.chars().take(12).collect();
        let kept = Kept { id, scope, note, created_at: now.to_string(), hash };
        let _alone = self.alone()?;
        let mut all = self.list()?;
        if all.len() >= TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        all.push(kept.clone());
        self.write(&all)?;
        Ok((token, kept))
    }

    pub(crate) fn list(&self) -> Result<Vec<Kept>, TokenError> {
        let text = match fs::read(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(TokenError::Io { file: self.file.clone(), source }),
        };
        serde_json::from_slice(&text).map_err(|source| TokenError::Malformed { file: self.file.clone(), source })
    }

    /// Takes a token away; a running server refuses it from then on. False when there is none with this id.
    pub(crate) fn revoke(&self, id: &str) -> Result<bool, TokenError> {
        let _alone = self.alone()?;
        let mut all = self.list()?;
        let n = all.len();
        all.retain(|kept| kept.id != id);
        if all.len() < n {
            self.write(&all)?;
        }
        Ok(all.len() < n)
    }

    /// Waits until nobody else changes the tokens. Until what this gives is dropped nobody does.
    fn alone(&self) -> Result<fs::File, TokenError> {
        let lock = self.file.with_file_name(LOCK);
        let failed = |source| TokenError::Io { file: lock.clone(), source };
        if let Some(folder) = lock.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut open = fs::OpenOptions::new();
        let file = open.write(true).create(true).truncate(false).mode(0o600).open(&lock).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(file)
    }

    /// What a token allows; `None` when nobody knows it.
    pub(crate) fn scope_of(&self, token: &str) -> Result<Option<Scope>, TokenError> {
        self.scope_of_hash(hash(token))
    }

    /// The same for one that was heard of before. Costs a look at the file's date.
    pub(crate) fn scope_of_hash(&self, hash: TokenHash) -> Result<Option<Scope>, TokenError> {
        let file = fs::metadata(&self.file).and_then(|found| Ok((found.ino(), found.modified()?))).ok();
        let mut read = self.read.lock();
        if read.as_ref().map(|read| read.file) != file {
            let all = self.list()?;
            let known = all.iter().filter_map(|kept| Some((blake3::Hash::from_hex(&kept.hash).ok()?, kept.scope)));
            let known = known.collect();
            *read = file.map(|file| Read { file, known });
        }
        // Hashes compare in constant time.
        let mut known = read.iter().flat_map(|read| &read.known);
        Ok(known.find(|(kept, _)| *kept == hash.0).map(|(_, scope)| *scope))
    }

    /// Written beside and moved into place, so that a running server never reads half of it.
    fn write(&self, all: &[Kept]) -> Result<(), TokenError> {
        let failed = |source| TokenError::Io { file: self.file.clone(), source };
        let beside = self.file.with_extension(format!("{}.new", std::process::id()));
        let text = serde_json::to_vec_pretty(all).unwrap_or_default();
        let mut open = fs::OpenOptions::new();
        let written = open.write(true).create(true).truncate(true).mode(0o600).open(&beside).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&beside, &self.file)).map_err(|source| {
            let _ = fs::remove_file(&beside);
            failed(source)
        })
    }
}

#[cfg(test)]
mod tests;
