//! Replaces bubblewrap in a program without the feature `sandbox`, and on other systems than Linux.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::process::Child;

use super::{Isolation, Launch};
use crate::Workspace;
use crate::process::Group;

/// Isolation is not available.
pub(crate) struct Sandbox(Infallible);

impl Sandbox {
    pub(crate) fn terminate(&self) {
        match self.0 {}
    }

    pub(crate) fn kill(&self) {
        match self.0 {}
    }

    pub(crate) fn is_gone(&self) -> bool {
        match self.0 {}
    }
}

pub(super) fn fault() -> Option<&'static str> {
    Some(match cfg!(feature = "sandbox") {
        true => "bubblewrap runs on Linux only",
        false => "isolation is not compiled in: enable the feature `sandbox`, or turn it off (`IsolationMode::Off`)",
    })
}

/// Not called: commands are refused, or run without isolation.
pub(super) async fn spawn(_: &Isolation, _: Launch, _: &Arc<Workspace>) -> Result<(Child, Group), String> {
    Err(fault().unwrap_or_default().to_owned())
}
