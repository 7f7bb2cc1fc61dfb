//! What the server answers, for the OpenAPI document: types that handlers make, and the shapes of what the library writes
//! as JSON. A test compares real answers with them.
#![allow(dead_code, reason = "shapes, for the document")]

mod event;
mod graph;
mod interaction;
mod moment;
mod server;
mod thread;

pub(crate) use event::{Events, ThreadEvents};
pub(crate) use graph::{Graph, GraphArrow, GraphNode, GraphPart, Visit};
pub(crate) use interaction::{Answered, Interactions, Unreadable};
pub(crate) use moment::{Checkpoint, Checkpoints, Family};
pub(crate) use server::{CallsWaiting, Health, Info, Profile, Profiles, Session, Tools};
pub(crate) use thread::{Compacted, Deleted, Threads};
