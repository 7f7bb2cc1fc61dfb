//! The OpenAI-compatible door: workflows as models, and threads for chat completions and responses.
//! docs/doors/openai.md says what it does and what is different.

mod answer;
mod begin;
pub(crate) mod chat;
mod error;
mod input;
pub(crate) mod models;
pub(crate) mod responses;
mod results;

pub(crate) use self::error::Error;

/// The routes of the door.
pub(crate) const PATHS: [&str; 7] = [
    "/v1/models",
    "/v1/models/{model}",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/responses/{response}",
    "/v1/responses/{response}/cancel",
    "/v1/responses/{response}/input_items",
];

/// The header of a response that names the thread.
const THREAD: &str = "x-rethread-thread";
/// What the ids of responses and conversations begin with.
const RESPONSE: &str = "resp_";
const CONVERSATION: &str = "conv_";
