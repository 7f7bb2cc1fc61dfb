//! Replaces the publishing of events in a program without the features `server` and `jetstream`.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::definition;
use crate::exit::{Failure, INVALID};

#[derive(Debug, Deserialize)]
struct File {
    events: Option<IgnoredAny>,
}

pub(crate) fn check(file: &Path) -> Result<(), Failure> {
    match definition::read_toml::<File>(file)?.events {
        Some(_) => {
            let why = "events are published by a server with NATS: build with the features `server` and `jetstream`";
            Err(Failure::new(INVALID, format!("{}: events: {why}", file.display())))
        }
        None => Ok(()),
    }
}
