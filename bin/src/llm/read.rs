//! Input: a file, or text that a person types.

use std::io::Read as _;
use std::path::Path;

use futures::future::BoxFuture;
use rethread_llm::relay::Relay;
use rethread_llm::{ErrorKind, LlmError};

use super::print::note;

/// The largest request file, in bytes.
const REQUEST_BYTES_MAX: u64 = 64 << 20;

pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().take(REQUEST_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(REQUEST_BYTES_MAX + 1).read_to_string(&mut text))
    };
    read.map_err(|e| format!("cannot read {shown}: {e}"))?;
    if text.len() as u64 > REQUEST_BYTES_MAX {
        return Err(format!("{shown} is larger than {REQUEST_BYTES_MAX} bytes"));
    }
    Ok(text)
}

/// Prints the prompt and reads the answer up to the end of the input.
pub(crate) struct Terminal;

impl Relay for Terminal {
    fn ask<'a>(&'a self, _: &'a str, prompt: String) -> BoxFuture<'a, Result<String, LlmError>> {
        Box::pin(async move {
            note(&prompt);
            note("--- paste the answer here; end it with Ctrl-D ---");
            let read = tokio::task::spawn_blocking(|| {
                let mut text = String::new();
                std::io::stdin().take(REQUEST_BYTES_MAX).read_to_string(&mut text).map(|_| text)
            });
            match read.await {
                Ok(Ok(text)) => Ok(text),
                Ok(Err(e)) => Err(LlmError::new(ErrorKind::Connection, "human", e.to_string())),
                Err(e) => Err(LlmError::new(ErrorKind::Cancelled, "human", e.to_string())),
            }
        })
    }
}
