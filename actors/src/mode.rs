//! What a runtime does with the threads of its log.

/// What a runtime does with the threads of its log, see [`RuntimeBuilder::mode`](crate::RuntimeBuilder::mode).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Runs them. Those that have not ended resume when the runtime starts.
    #[default]
    Run,
    /// Runs those that a caller starts or uses. The others stay as they are until then.
    RunOnDemand,
    /// Runs none. Threads can be read and take inputs (pause, cancel, an answer), but no call is made and no node is
    /// entered until a runtime that runs them opens the log.
    Observe,
    /// As `Observe`, for a damaged log: opens it to read what can still be read, see
    /// [`SledStore::salvage`](rethread_store::SledStore::salvage). Threads take no inputs. As `Observe` where the store is
    /// given.
    Salvage,
    /// As `Observe`, to delete threads: the log also opens on a full disk, in the room that is reserved there for this.
    Delete,
    /// As `Observe`, for a log whose threads another process runs. The questions of running tools are listed as open;
    /// their answers go to that process.
    RunElsewhere,
}

impl Mode {
    /// Returns whether the runtime runs threads.
    pub fn runs(self) -> bool {
        match self {
            Self::Run | Self::RunOnDemand => true,
            Self::Observe | Self::Salvage | Self::Delete | Self::RunElsewhere => false,
        }
    }
}
