//! What commands print as JSON and the server answers: one type for each.

mod interaction;
mod thread;
mod tool;
mod usage;

pub(crate) use interaction::Interaction;
#[cfg(feature = "server")]
pub(crate) use thread::{BranchOf, Moment, WaitingCall};
pub(crate) use thread::{Member, Thread};
pub(crate) use tool::Tool;
pub(crate) use usage::{By, Call, ModelSum, ToolSum, Usages};
