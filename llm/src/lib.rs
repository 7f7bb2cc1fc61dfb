//! One request in, one reply or stream out: the language models of rethread.
//!
//! A [`Request`] and a [`Response`] are neutral; a [`Client`] sends the one to a model and returns the other.
//! [`Profiles`] makes clients from `rethread.toml` or from the environment. Nothing here knows of threads.
//!
//! [`Provider::feature`] names the feature that each provider needs. A profile of a provider that is not compiled in is an
//! error. Without the feature `tokens`, a token is counted for each byte, see [`tokens`].

// Without all features, some shared code is unused. With all features, nothing is.
#![cfg_attr(
    not(all(feature = "anthropic", feature = "gemini", feature = "openai", feature = "tokens")),
    allow(dead_code)
)]

pub mod answers;
pub mod client;
pub mod conversation;
pub mod error;
pub mod fallback;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
mod keys;
pub mod limit;
pub mod mock;
pub mod models;
pub mod prices;
pub mod profile;
pub mod profiles;
pub mod provider;
pub mod relay;
pub mod request;
pub mod response;
pub mod retry;
#[cfg(feature = "http")]
pub mod secret;
mod shape;
#[cfg(feature = "http")]
pub mod sse;
pub mod tokens;
mod wire;

pub use client::{CallContext, Client, Delta, Listener, TryEvent};
pub use conversation::{ConversationError, ConversationFormat, read_conversation};
pub use error::{ErrorKind, LlmError};
pub use profile::Profile;
pub use profiles::Profiles;
pub use provider::Provider;
pub use request::{CacheMode, Instructions, ReasoningOptions, Request, ResponseFormat, ToolAddition};
pub use response::{Cost, Response, UnitPrices};
pub use rethread_events::message;
pub use rethread_events::thread::Messages;
pub use shape::{Field, Refused, refused};

/// The example of the README is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
