//! The formats that outlive a version: stored bytes, and the documented JSON.
// The core does no IO; its tests read the files that they compare with.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

mod catalogue;
mod golden;
mod samples;
