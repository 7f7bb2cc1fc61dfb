//! The shapes of answers that the library writes as JSON, for the OpenAPI document. A test compares
//! real answers with them.
#![allow(dead_code, reason = "shapes, for the document")]

mod event;
mod explain;
mod graph;
mod interaction;
mod moment;
mod server;
mod thread;

pub(crate) use event::{Event, Events, ThreadEvents};
pub(crate) use explain::{Explanation, RerunReport, Runs};
pub(crate) use graph::Graph;
pub(crate) use interaction::{Answered, Interactions};
pub(crate) use moment::{Checkpoint, Checkpoints, Family, State};
pub(crate) use server::{Health, Info, Profiles, Session, Tools};
pub(crate) use thread::{Collected, Compacted, Deleted, Imported, Kin, Outcome, Thread, Threads};
