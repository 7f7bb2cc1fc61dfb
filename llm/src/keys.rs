//! The source of a key, and when it is read again: files and commands return keys that expire.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use reqwest::header::HeaderValue;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::{ErrorKind, LlmError, excerpt};
use crate::secret::Key;

/// How long a key of a command is used if the profile does not say: tokens of clouds are valid for an hour.
const TTL: Duration = Duration::from_secs(45 * 60);
/// How long a command may take to print a key.
const COMMAND_MAX: Duration = Duration::from_secs(60);
/// The longest key, in bytes.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// The source of a client's key.
pub(crate) enum KeySource {
    /// The provider wants none.
    None,
    /// The key that holds as long as the process.
    Fixed(Key),
    /// A file, read again when it changed.
    File(KeyFile),
    /// A command, run again when its key is too old.
    Command(KeyCommand),
}

/// A file that holds a key and nothing else.
pub(crate) struct KeyFile {
    path: PathBuf,
    known: Mutex<Option<(Stamp, Key)>>,
}

/// What shows that a file changed: its time and its size.
type Stamp = (Option<SystemTime>, u64);

/// A command that prints a key and nothing else.
pub(crate) struct KeyCommand {
    /// Program and arguments.
    words: Vec<String>,
    ttl: Duration,
    /// Locked while the command runs: concurrent calls share its key.
    known: Mutex<Option<(Instant, Key)>>,
}

impl KeySource {
    pub(crate) fn file(path: PathBuf) -> Self {
        Self::File(KeyFile { path, known: Mutex::default() })
    }

    pub(crate) fn command(words: Vec<String>, ttl: Option<Duration>) -> Self {
        Self::Command(KeyCommand { words, ttl: ttl.unwrap_or(TTL), known: Mutex::default() })
    }

    /// The key for the next request.
    ///
    /// # Errors
    /// [`ErrorKind::Authentication`] if there is no key, with the reason.
    pub(crate) async fn current(&self, provider: &str) -> Result<Option<Key>, LlmError> {
        let read = match self {
            Self::None => return Ok(None),
            Self::Fixed(key) => return Ok(Some(key.clone())),
            Self::File(file) => file.current().await,
            Self::Command(command) => command.current(None).await,
        };
        read.map(Some).map_err(|why| LlmError::new(ErrorKind::Authentication, provider, why))
    }

    /// Returns another key than the one that the provider refused; `None` if there is no other.
    ///
    /// # Errors
    /// As [`KeySource::current`].
    pub(crate) async fn renewed(&self, provider: &str, refused: &Key) -> Result<Option<Key>, LlmError> {
        let read = match self {
            Self::None | Self::Fixed(_) => return Ok(None),
            Self::File(file) => file.read().await,
            Self::Command(command) => command.current(Some(refused)).await,
        };
        let key = read.map_err(|why| LlmError::new(ErrorKind::Authentication, provider, why))?;
        Ok(Some(key).filter(|key| key.expose() != refused.expose()))
    }
}

impl KeyFile {
    async fn current(&self) -> Result<Key, String> {
        let path = self.path.clone();
        let stamp = blocking(move || stamp_of(&path)).await?;
        if let Some((known, key)) = &*self.known.lock().await
            && *known == stamp
        {
            return Ok(key.clone());
        }
        self.read().await
    }

    async fn read(&self) -> Result<Key, String> {
        let mut known = self.known.lock().await;
        let path = self.path.clone();
        let (stamp, key) = blocking(move || {
            // The stamp is older than what is read, so that a change in between is seen the next time.
            let stamp = stamp_of(&path)?;
            let mut text = String::new();
            let file = std::fs::File::open(&path)?;
            file.take(KEY_BYTES_MAX).read_to_string(&mut text)?;
            Ok((stamp, text))
        })
        .await
        .map_err(|why| format!("{}: {why}", self.path.display()))
        .and_then(|(stamp, text)| Ok((stamp, key_of(&text, &self.path.display().to_string())?)))?;
        *known = Some((stamp, key.clone()));
        Ok(key)
    }
}

fn stamp_of(path: &std::path::Path) -> std::io::Result<Stamp> {
    let meta = std::fs::metadata(path)?;
    Ok((meta.modified().ok(), meta.len()))
}

async fn blocking<T: Send + 'static>(read: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<T, String> {
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(format!("the key cannot be read: {error}")),
        Err(error) => Err(format!("the key cannot be read: {error}")),
    }
}

impl KeyCommand {
    /// The key, from a new run of the command when it is too old or the refused one.
    async fn current(&self, refused: Option<&Key>) -> Result<Key, String> {
        let mut known = self.known.lock().await;
        if let Some((since, key)) = &*known
            && since.elapsed() < self.ttl
            && refused.is_none_or(|refused| refused.expose() != key.expose())
        {
            return Ok(key.clone());
        }
        let since = Instant::now();
        let key = self
            .run()
            .await
            .map_err(|why| format!("api_key_command `{}`: {why}", self.words.first().map_or("", String::as_str)))?;
        *known = Some((since, key.clone()));
        Ok(key)
    }

    async fn run(&self) -> Result<Key, String> {
        let (program, arguments) = self.words.split_first().ok_or("has no program")?;
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let output = match tokio::time::timeout(COMMAND_MAX, command.output()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Err(format!("cannot be run: {error}")),
            Err(_) => return Err(format!("printed no key within {} s", COMMAND_MAX.as_secs())),
        };
        if !output.status.success() {
            let said = excerpt(&String::from_utf8_lossy(&output.stderr), 300);
            return Err(format!("failed ({}): {said}", output.status));
        }
        key_of(&String::from_utf8_lossy(&output.stdout), "its output")
    }
}

/// The key that a text holds, without the byte order mark that some editors write before it.
pub(crate) fn key_of(text: &str, place: &str) -> Result<Key, String> {
    let key = Key::new(text.trim_start_matches('\u{feff}'));
    if key.expose().is_empty() {
        return Err(format!("{place} contains no key"));
    }
    if HeaderValue::from_str(key.expose()).is_err() {
        return Err(format!("the key in {place} cannot be used in a header"));
    }
    Ok(key)
}

#[cfg(test)]
mod tests;
