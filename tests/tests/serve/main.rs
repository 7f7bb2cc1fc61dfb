//! The server as its clients see it: the real program, real sockets.

// All of it is test code, its helpers included.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod a2a;
mod acp;
mod agui;
mod api;
mod api_clients;
mod conflicts;
mod documented;
mod doors;
mod embedded;
mod ends;
mod eventsource;
mod generated;
mod http;
mod idempotency;
mod incoming;
mod label_limits;
mod labels;
mod mcp;
mod memories;
mod messages;
mod migrate;
mod one_run;
mod openai;
mod otlp;
mod page;
mod place;
#[cfg(target_os = "linux")]
mod poison;
mod queues;
mod remote;
mod reruns;
mod runs;
mod schedules;
mod schemathesis;
mod search;
mod security;
mod signals;
mod stops;
mod streams;
mod waits;
mod webhooks;
