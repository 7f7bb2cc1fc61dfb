//! The JSON that commands print and the server returns: one type for each.

mod archive;
mod explanation;
mod interaction;
mod memory;
mod migrated;
mod rerun;
mod run;
mod thread;
mod tool;
mod usage;

pub(crate) use archive::{Collected, Imported};
pub(crate) use explanation::{BranchSteps, Explanation, Top};
pub(crate) use interaction::Interaction;
pub(crate) use memory::{MemoryView, NamespaceView};
pub(crate) use migrated::MigratedView;
pub(crate) use rerun::RerunReport;
pub(crate) use run::Runs;
#[cfg(feature = "server")]
pub(crate) use thread::WaitingCall;
pub(crate) use thread::{Member, Thread};
pub(crate) use tool::Tool;
pub(crate) use usage::{By, Call, LabelSum, ModelSum, ToolSum, Usages};
