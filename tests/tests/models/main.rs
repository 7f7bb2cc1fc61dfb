//! The program against providers that refuse what today's providers document as refused (`tests/src/fake_providers.py`).

// All of it is test code, its helpers included.
#![allow(clippy::unwrap_used, clippy::panic)]

mod answers;
mod calls;
mod doctor;
mod fakes;
mod growth;
mod guide;
// Not all of it is used here.
#[allow(dead_code)]
#[path = "../serve/http.rs"]
mod http;
mod money;
mod nodes;
mod openai;
mod parameters;
mod prefixes;
mod refused;
mod shown;
mod switches;
