//! Where the time of a thread went.

use serde::Serialize;

/// The time of a thread, in microseconds, by what it waited for. Each moment counts once: where several calls run, as
/// the first of model, tool, context processor, branches, people and timers that is among them. The time of branches is the
/// time in which their owner did nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Spent {
    /// A model was called.
    pub model_us: u64,
    /// A tool was run, or was to be tried again.
    pub tool_us: u64,
    /// A context processor of the application was run.
    pub processor_us: u64,
    /// Branches ran.
    pub branches_us: u64,
    /// A person was asked.
    pub people_us: u64,
    /// A node waited for a time or a signal.
    pub timer_us: u64,
    /// It waited in a queue for its turn.
    pub queued_us: u64,
    /// It was paused.
    pub paused_us: u64,
    /// A node was to be tried again later.
    pub retry_us: u64,
    /// No runtime ran it: from the last event before a crash or a stop to the recovery of the calls that were cut off.
    pub down_us: u64,
    /// None of these: rethread itself, the disk included.
    pub itself_us: u64,
}

/// The use of a period of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpentOn {
    /// A model.
    Model,
    /// A tool.
    Tool,
    /// A context processor.
    Processor,
    /// Branches.
    Branches,
    /// A person.
    People,
    /// A time.
    Timer,
    /// The wait in a queue.
    Queued,
    /// A pause.
    Paused,
    /// The wait before another try.
    Retry,
    /// Nothing: no runtime ran it.
    Down,
    /// rethread itself.
    Itself,
}

impl SpentOn {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Model,
        Self::Tool,
        Self::Processor,
        Self::Branches,
        Self::People,
        Self::Timer,
        Self::Queued,
        Self::Paused,
        Self::Retry,
        Self::Down,
        Self::Itself,
    ];
}

impl Spent {
    /// The microseconds that were spent so.
    pub const fn on(&self, what: SpentOn) -> u64 {
        match what {
            SpentOn::Model => self.model_us,
            SpentOn::Tool => self.tool_us,
            SpentOn::Processor => self.processor_us,
            SpentOn::Branches => self.branches_us,
            SpentOn::People => self.people_us,
            SpentOn::Timer => self.timer_us,
            SpentOn::Queued => self.queued_us,
            SpentOn::Paused => self.paused_us,
            SpentOn::Retry => self.retry_us,
            SpentOn::Down => self.down_us,
            SpentOn::Itself => self.itself_us,
        }
    }

    /// All of it.
    pub fn total_us(&self) -> u64 {
        SpentOn::ALL.iter().map(|what| self.on(*what)).sum()
    }

    pub(super) fn add(&mut self, what: SpentOn, us: u64) {
        *match what {
            SpentOn::Model => &mut self.model_us,
            SpentOn::Tool => &mut self.tool_us,
            SpentOn::Processor => &mut self.processor_us,
            SpentOn::Branches => &mut self.branches_us,
            SpentOn::People => &mut self.people_us,
            SpentOn::Timer => &mut self.timer_us,
            SpentOn::Queued => &mut self.queued_us,
            SpentOn::Paused => &mut self.paused_us,
            SpentOn::Retry => &mut self.retry_us,
            SpentOn::Down => &mut self.down_us,
            SpentOn::Itself => &mut self.itself_us,
        } += us;
    }
}
