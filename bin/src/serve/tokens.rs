//! Tokens: who may do what over HTTP. Only their hashes are kept, in a file beside the log.

use rethread_events::text;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use data_encoding::BASE64URL_NOPAD;
use parking_lot::Mutex;
use rethread::operate::Labels;
use rethread::{Principal, Time};
use serde::{Deserialize, Serialize};

/// The name of the file.
const NAME: &str = "tokens.json";
/// The name of the file beside it that a process locks while it changes the tokens.
const LOCK: &str = "tokens.lock";
/// The prefix of every token, so that a leaked one is recognised.
pub(crate) const PREFIX: &str = "rethread_";
/// The id of the token that a server makes for itself.
const ID_OF_PROCESS: &str = "start";
/// The most tokens there can be.
const TOKENS_MAX: usize = 1_000;
/// The random part, in bytes: it cannot be guessed, so a fast hash is enough.
const RANDOM_BYTES: usize = 32;

/// The scope of a token. Each includes those above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// Read everything
    Read,
    /// Start threads, answer questions, pause, resume, fork and cancel
    Operate,
    /// Delete and import threads, and choose the folder in which tools work
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
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    /// Its id, for revoking it.
    pub(crate) id: String,
    pub(crate) scope: Scope,
    /// Its purpose, in its owner's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// Who uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// The labels of the threads that it is for; empty for a token that is for all threads.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub(crate) labels: Labels,
    pub(crate) created_at: String,
    /// From when on it is refused; none for a token that is valid until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<Time>,
    /// blake3 of the whole token, in hexadecimal.
    pub(crate) hash: String,
}

/// The hash of a token that a client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    #[error("the system provides no random numbers")]
    Random,
    #[error("unknown token: it was revoked, or belongs to another server")]
    Unknown,
    #[error(
        "unknown token: it was revoked, belongs to another server, or was created after this server started. \
         Commands or MCP servers of this server could create one, so create tokens before it starts"
    )]
    UnknownSinceStart,
    #[error("this token expired at {0}: create another with `rethread token create`")]
    Expired(Time),
}

impl TokenError {
    /// Whether the token that was sent is refused, and nothing failed.
    pub(crate) const fn is_refusal(&self) -> bool {
        match self {
            Self::Unknown | Self::UnknownSinceStart | Self::Expired(_) => true,
            Self::Io { .. } | Self::Malformed { .. } | Self::TooMany | Self::Random => false,
        }
    }
}

/// The file with the tokens of a log, read again when it changes.
#[derive(Debug)]
pub(crate) struct Tokens {
    file: PathBuf,
    read: Mutex<Option<Read>>,
    /// Set where a tool could write the file: the tokens that may be in it.
    trusted: Option<HashMap<blake3::Hash, Kept>>,
    /// The token that was made for this process alone, which allows everything.
    of_process: Option<blake3::Hash>,
}

/// The tokens of a file, and the identity of the file: each change creates a new one.
#[derive(Debug)]
struct Read {
    file: (u64, SystemTime),
    known: Vec<(blake3::Hash, Kept)>,
}

impl Tokens {
    pub(crate) fn beside(data_dir: &Path) -> Self {
        Self { file: data_dir.join(NAME), read: Mutex::new(None), trusted: None, of_process: None }
    }

    /// Accepts from now on only the tokens that exist now, as they are now. A token can still be revoked.
    pub(crate) fn trust_present(&mut self) -> Result<(), TokenError> {
        self.trusted = Some(by_hash(self.list()?).collect());
        Ok(())
    }

    /// Makes a token for this process alone. It allows everything, is kept in memory only and ends with the process.
    pub(crate) fn make_for_process(&mut self) -> Result<String, TokenError> {
        let token = random_token()?;
        self.of_process = Some(blake3::hash(token.as_bytes()));
        Ok(token)
    }

    /// Creates a token and stores its hash. Returns the token itself, which cannot be read again.
    pub(crate) fn create(
        &self,
        scope: Scope,
        note: Option<String>,
        owner: Option<String>,
        labels: Labels,
        expires_at: Option<Time>,
        now: Time,
    ) -> Result<(String, Kept), TokenError> {
        let token = random_token()?;
        let hash = blake3::hash(token.as_bytes()).to_hex().to_string();
        let id = text::head(&hash, 12).to_owned();
        let kept = Kept { id, scope, note, owner, labels, created_at: now.to_string(), expires_at, hash };
        let _alone = self.lock()?;
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

    /// Revokes a token; a running server refuses it from then on. Returns false if there is none with this id.
    pub(crate) fn revoke(&self, id: &str) -> Result<bool, TokenError> {
        let _alone = self.lock()?;
        let mut all = self.list()?;
        let n = all.len();
        all.retain(|kept| kept.id != id);
        if all.len() < n {
            self.write(&all)?;
        }
        Ok(all.len() < n)
    }

    /// Locks the tokens against changes by other processes until the returned file is dropped.
    fn lock(&self) -> Result<fs::File, TokenError> {
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

    /// Returns what a token allows. Costs a check of the file's date.
    ///
    /// # Errors
    /// One that [is a refusal](TokenError::is_refusal) for a token that is unknown or has expired.
    pub(crate) fn scope_of(&self, hash: TokenHash, now: Time) -> Result<Scope, TokenError> {
        if self.of_process == Some(hash.0) {
            return Ok(Scope::Admin);
        }
        let unknown = || if self.trusted.is_some() { TokenError::UnknownSinceStart } else { TokenError::Unknown };
        let kept = self.find(hash)?.ok_or_else(unknown)?;
        match kept.expires_at {
            Some(at) if at <= now => Err(TokenError::Expired(at)),
            _ => Ok(kept.scope),
        }
    }

    /// The labels that a token is bound to; none for a token that is for all threads.
    ///
    /// # Errors
    /// `Unknown` for a token that was revoked meanwhile.
    pub(crate) fn labels_of(&self, hash: TokenHash) -> Result<Labels, TokenError> {
        if self.of_process == Some(hash.0) {
            return Ok(Labels::new());
        }
        self.find(hash)?.map(|kept| kept.labels).ok_or(TokenError::Unknown)
    }

    /// The principal of a token; `None` if the token is unknown.
    pub(crate) fn principal_of(&self, hash: TokenHash) -> Option<Principal> {
        if self.of_process == Some(hash.0) {
            return Some(Principal::token(ID_OF_PROCESS, None));
        }
        let kept = self.find(hash).ok().flatten()?;
        Some(Principal::token(&kept.id, kept.note.as_deref().or(kept.owner.as_deref())))
    }

    fn find(&self, hash: TokenHash) -> Result<Option<Kept>, TokenError> {
        let file = fs::metadata(&self.file).and_then(|found| Ok((found.ino(), found.modified()?))).ok();
        let mut read = self.read.lock();
        if read.as_ref().map(|read| read.file) != file {
            let known = by_hash(self.list()?).filter_map(|(hash, kept)| match &self.trusted {
                None => Some((hash, kept)),
                Some(trusted) => Some((hash, trusted.get(&hash)?.clone())),
            });
            let known = known.collect();
            *read = file.map(|file| Read { file, known });
        }
        // Hashes compare in constant time.
        let mut known = read.iter().flat_map(|read| &read.known);
        Ok(known.find(|(kept, _)| *kept == hash.0).map(|(_, kept)| kept.clone()))
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

fn by_hash(all: Vec<Kept>) -> impl Iterator<Item = (blake3::Hash, Kept)> {
    all.into_iter().filter_map(|kept| Some((blake3::Hash::from_hex(&kept.hash).ok()?, kept)))
}

fn random_token() -> Result<String, TokenError> {
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(|_| TokenError::Random)?;
    Ok(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&random)))
}

#[cfg(test)]
mod tests;
