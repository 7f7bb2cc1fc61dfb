//! The server that holds a log on this machine, found by what it wrote into the log's lock.

use std::fs::{File, TryLockError};
use std::io::Read as _;
use std::path::Path;

use super::client::Client;
use super::socket::Socket;
use crate::exit::Failure;

/// How much of the lock is read.
const LOCK_BYTES_MAX: u64 = 200;

/// The server that holds the log in this folder now, when one does.
///
/// The content of the lock may be from a server that ended, or from an attacker who prepared the folder. So it is
/// trusted only while the lock is held. The server at that address must also prove that it is the process that wrote
/// the content, before the token is sent to it.
pub(crate) async fn find(data_dir: &Path) -> Result<Option<Client>, Failure> {
    let Some((address, pid)) = named(data_dir) else { return Ok(None) };
    let client = Client::new(&address)?;
    match client.without_token().get("/health/live").await {
        Ok(health) if health["pid"].as_u64() == Some(pid) => Ok(Some(client)),
        _ => Ok(None),
    }
}

/// The command that holds the log in this folder now and answers on a socket, when one does. What answers there must be
/// the process that wrote the lock.
pub(crate) async fn find_command(data_dir: &Path) -> Result<Option<Client>, Failure> {
    let Some((file, text)) = lock(data_dir) else { return Ok(None) };
    let Some((name, pid)) = text.lines().next().and_then(|line| line.split_once(", pid ")) else { return Ok(None) };
    let (Ok(pid), Some(socket)) = (pid.trim().parse::<u64>(), Socket::find(data_dir)) else { return Ok(None) };
    if !is_held(&file) {
        return Ok(None);
    }
    let client = Client::at_socket(socket, format!("{name}, pid {pid}"))?;
    match client.get("/health/live").await {
        Ok(health) if health["pid"].as_u64() == Some(pid) => Ok(Some(client)),
        _ => Ok(None),
    }
}

/// The name and the process of who holds the log in this folder now.
pub(crate) fn holder_of(data_dir: &Path) -> Option<String> {
    let (file, text) = lock(data_dir)?;
    text.lines().next().filter(|_| is_held(&file)).map(str::to_owned)
}

/// The content of the lock while it is held: the address, and the process.
fn named(data_dir: &Path) -> Option<(String, u64)> {
    let (file, text) = lock(data_dir)?;
    // Others that are not named here need not be asked whether they hold it.
    parse(&text).filter(|_| is_held(&file))
}

fn lock(data_dir: &Path) -> Option<(File, String)> {
    let file = File::open(data_dir.join("lock")).ok()?;
    let mut text = String::new();
    (&file).take(LOCK_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some((file, text))
}

/// Whether another process holds the lock. If none does, it is locked for an instant, shared with other readers: a
/// process that wants it for the log in that instant waits, because the process that is named in it has ended.
fn is_held(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

fn parse(text: &str) -> Option<(String, u64)> {
    let (address, pid) = text.lines().next()?.strip_prefix("rethread serve at ")?.split_once(", pid ")?;
    let mut url = url::Url::parse(address).ok()?;
    // One that listens on all addresses is reached on this one, too.
    if ["0.0.0.0", "[::]"].contains(&url.host_str()?) {
        let own = if url.host_str()? == "0.0.0.0" { "127.0.0.1" } else { "[::1]" };
        url.set_host(Some(own)).ok()?;
    }
    Some((url.to_string(), pid.trim().parse().ok()?))
}

#[cfg(test)]
mod tests;
