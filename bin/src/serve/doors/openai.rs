//! The OpenAI-compatible door: workflows as models, threads behind chat completions. docs/doors/openai.md says what it
//! does and what is different.

mod answer;
pub(crate) mod chat;
mod error;
mod input;
pub(crate) mod models;
mod speech;

pub(crate) use self::error::Error;

/// The routes of the door.
pub(crate) const PATHS: [&str; 3] = ["/v1/models", "/v1/models/{model}", "/v1/chat/completions"];

/// The header of a response that names the thread.
const THREAD: &str = "x-rethread-thread";
