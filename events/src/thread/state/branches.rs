//! The branches of the fork that a thread is in: which run, which have ended, and whether enough have. And the branch
//! that a thread is.

use std::sync::Arc;

use bincode::{Decode, Encode};

use crate::codec::OrderedMap;
use crate::event::{BranchEnded, BranchStarted, Branches, ForkStarted, JoinCompleted, OnFailed};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, NodeId, Seq, ThreadId};
use crate::json::Json;
use crate::thread::calls::{BranchRun, CallKind, CallStage, OpenCall};
use crate::thread::conversation::Conversation;
use crate::thread::totals::Totals;
use crate::thread::transition::TransitionError;

/// Why a branch is cancelled when the join is decided.
pub(in crate::thread) const NOT_NEEDED: &str = "its result is not needed any more";
/// How many branches an error names.
const NAMES_SHOWN_MAX: usize = 20;

/// The branch that a thread is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Branch {
    /// The thread whose branch it is and its number there; absent in a fork of a branch, which has no parent that
    /// waits.
    pub owner: Option<(ThreadId, u32)>,
    /// The node at which it ends. Absent for an agent, which ends with its workflow.
    pub join: Option<NodeId>,
    /// How many scopes it inherited, with that of an agent: the join is in the graph of the innermost.
    pub(in crate::thread) n_frames: u64,
}

/// A branch that has ended here, and has not reported its final sums.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Uncounted {
    /// Its number.
    pub index: u32,
    /// Its name, for people.
    pub(in crate::thread) name: String,
    /// The run of this thread that it belongs to: the number of the run.
    pub(in crate::thread) run: u64,
    /// What is counted of its sums.
    pub counted: Totals,
}

/// The branches of the fork that a thread is in.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ForkState {
    /// The plan.
    pub plan: Arc<ForkStarted>,
    /// The event that planned it: branches are forked after it.
    pub planned_at: Seq,
    /// The branches that were started, in order.
    slots: Vec<Slot>,
    n_completed: u32,
    n_failed: u32,
    /// The first failure, by the time it happened.
    first_failed: Option<(u32, ExecutionError)>,
    /// Variables of scope `global` that the branches set which have ended.
    globals: Arc<OrderedMap<Json>>,
}

/// How far a branch is.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
enum Slot {
    /// Running.
    Open(CallId),
    /// Ended with this output.
    Completed(Json),
    /// Failed, or not needed any more.
    Failed(ExecutionError),
}

/// Whether enough branches have ended.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::thread) enum Verdict {
    /// Not yet, and it is possible still.
    Open,
    /// Yes.
    Enough,
    /// It is not possible any more.
    Failed(ExecutionError),
}

/// How a branch ended.
#[derive(Debug, Clone, PartialEq)]
pub struct BranchOutcome {
    /// Its output, or its error.
    pub output: Result<Json, ExecutionError>,
    /// Variables of scope `global` that it set.
    pub globals: OrderedMap<Json>,
    /// Its sums.
    pub totals: Totals,
    /// Whether those are final: all of its own branches have reported theirs.
    pub is_final: bool,
    /// The conversation of an agent that completed, if it has a name.
    pub conversation: Option<Arc<Conversation>>,
}

impl BranchOutcome {
    /// That of a branch that never began.
    pub fn failed(error: ExecutionError) -> Self {
        let (globals, totals) = (OrderedMap::default(), Totals::default());
        Self { output: Err(error), globals, totals, is_final: true, conversation: None }
    }
}

impl ForkState {
    pub(in crate::thread) fn new(plan: &ForkStarted, planned_at: Seq) -> Self {
        Self {
            plan: Arc::new(plan.clone()),
            planned_at,
            slots: Vec::new(),
            n_completed: 0,
            n_failed: 0,
            first_failed: None,
            globals: Arc::default(),
        }
    }

    /// The call of the branch with this number, if it runs.
    pub(in crate::thread) fn call(&self, index: u32) -> Option<CallId> {
        match self.slots.get(index as usize)? {
            Slot::Open(call) => Some(*call),
            Slot::Completed(_) | Slot::Failed(_) => None,
        }
    }

    /// How many run.
    fn n_open(&self) -> u32 {
        self.n_started() - self.n_completed - self.n_failed
    }

    /// Whether enough have ended.
    pub(in crate::thread) fn verdict(&self) -> Verdict {
        let n = self.n();
        let n_left = n - self.n_completed - self.n_failed;
        let is_quorum = self.plan.quorum;
        let needed = if is_quorum { self.plan.n_needed } else { self.plan.n_needed.min(n) };
        let counts_failed = self.plan.on_failed == OnFailed::Collect && !is_quorum;
        let n_counted = self.n_completed + if counts_failed { self.n_failed } else { 0 };
        if n_counted >= needed {
            return Verdict::Enough;
        }
        match self.plan.on_failed {
            _ if is_quorum || self.plan.on_failed == OnFailed::Fail => {
                if self.n_completed + n_left < needed {
                    Verdict::Failed(self.failure())
                } else {
                    Verdict::Open
                }
            }
            _ if n_left == 0 => Verdict::Enough,
            _ => Verdict::Open,
        }
    }

    /// Why the fork fails: the error of the branch that failed first. Of a quorum, with the names of all that failed.
    fn failure(&self) -> ExecutionError {
        let failed = self.failed();
        let message = match &self.first_failed {
            Some((index, error)) if !self.plan.quorum => {
                format!("branch `{}` failed: {}", self.plan.branches.name(*index), error.message)
            }
            _ => format!("{}; failed: {failed}", self.wanted()),
        };
        match &self.first_failed {
            Some((_, error)) => ExecutionError { message, ..error.clone() },
            None => ExecutionError::new(ErrorKind::Internal, message),
        }
    }

    /// The error of the fork when the branches' time is up.
    pub(in crate::thread) fn late(&self, error: &ExecutionError) -> ExecutionError {
        let running = self.listed(|slot| matches!(slot, Slot::Open(_)).then(String::new));
        let failed = self.failed();
        let n_waiting = self.n() - self.n_started();
        let parts = [("running", running), ("failed", failed), ("not begun", n_waiting.to_string())];
        let parts = parts.into_iter().filter(|(_, what)| !what.is_empty() && what != "0");
        let parts: Vec<_> = parts.map(|(how, what)| format!("{how}: {what}")).collect();
        let message = format!("{}: {}; {}", error.message, self.wanted(), parts.join("; "));
        ExecutionError { message, ..error.clone() }
    }

    /// The branches that failed by themselves, each with its error.
    fn failed(&self) -> String {
        self.listed(|slot| match slot {
            Slot::Failed(error) if error.message != NOT_NEEDED => Some(format!(": {}", error.message)),
            Slot::Failed(_) | Slot::Open(_) | Slot::Completed(_) => None,
        })
    }

    fn wanted(&self) -> String {
        if !self.plan.quorum && self.plan.on_failed != OnFailed::Fail {
            return format!("all {} branches must end and {} did", self.n(), self.n_completed + self.n_failed);
        }
        format!("{} of {} branches must succeed and {} did", self.plan.n_needed, self.n(), self.n_completed)
    }

    /// Lists the names of branches with a note about each, up to a readable number.
    fn listed(&self, about: impl Fn(&Slot) -> Option<String>) -> String {
        let said = (0..).zip(&self.slots).filter_map(|(index, slot)| about(slot).map(|about| (index, about)));
        let mut said = said.map(|(index, about)| format!("`{}`{about}", self.plan.branches.name(index)));
        let shown: Vec<_> = said.by_ref().take(NAMES_SHOWN_MAX).collect();
        match said.count() {
            0 => shown.join(", "),
            more => format!("{} and {more} more", shown.join(", ")),
        }
    }

    pub(in crate::thread) fn n(&self) -> u32 {
        self.plan.branches.len() as u32
    }

    /// How many were started.
    pub(in crate::thread) fn n_started(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(in crate::thread) fn has_room(&self) -> bool {
        self.n_open() < self.plan.concurrency_max
    }

    pub(in crate::thread) fn joined(&self) -> JoinCompleted {
        JoinCompleted {
            node_id: self.plan.node_id.clone(),
            n_completed: self.n_completed,
            n_failed: self.n_failed + self.n_open(),
        }
    }

    /// A branch begins: the call.
    pub(in crate::thread) fn start(
        &mut self,
        seq: Seq,
        owner: ThreadId,
        event: &BranchStarted,
    ) -> Result<OpenCall, TransitionError> {
        if event.index != self.n_started() || event.index >= self.n() {
            return Err(TransitionError("it is not the next branch"));
        }
        let from = (owner, self.planned_at);
        let (index, child) = (event.index, event.child);
        let (call, inherits, globals) = (CallId(seq), Vec::new(), self.globals.clone());
        self.slots.push(Slot::Open(call));
        let run =
            Box::new(BranchRun { call, index, child, from, inherits, globals, agent: None, spent: Totals::default() });
        Ok(OpenCall { place: index, ..OpenCall::new(CallKind::Branch(run), CallStage::Wanted) })
    }

    /// A branch ended: its call.
    pub(in crate::thread) fn end(&mut self, event: &BranchEnded) -> Result<CallId, TransitionError> {
        match self.slots.get_mut(event.index as usize) {
            Some(slot @ &mut Slot::Open(call)) => {
                *slot = match (&event.error, &event.output) {
                    (Some(error), _) => {
                        self.n_failed += 1;
                        self.first_failed.get_or_insert_with(|| (event.index, error.clone()));
                        Slot::Failed(error.clone())
                    }
                    (None, output) => {
                        self.n_completed += 1;
                        Slot::Completed(output.clone().unwrap_or_default())
                    }
                };
                for (name, value) in event.globals.iter() {
                    Arc::make_mut(&mut self.globals).insert(name.clone(), value.clone());
                }
                Ok(call)
            }
            _ => Err(TransitionError("no such branch is running")),
        }
    }

    /// Ends a pause: the remaining time continues.
    pub(in crate::thread) fn shift(&mut self, ms: u64) {
        if self.plan.deadline.is_some() {
            let plan = Arc::make_mut(&mut self.plan);
            plan.deadline = plan.deadline.map(|deadline| deadline.plus_ms(ms));
        }
    }

    /// Returns the results of the branches: the variables by name, and all of it as one value.
    pub(in crate::thread) fn results(&self) -> (Vec<(String, Json)>, Json) {
        let of = |slot: &Slot| match slot {
            Slot::Completed(output) => output.clone(),
            Slot::Failed(error) if self.plan.on_failed == OnFailed::Collect => {
                serde_json::json!({ "error": error }).into()
            }
            Slot::Failed(_) | Slot::Open(_) => Json::null(),
        };
        match &self.plan.branches {
            Branches::Named(branches) => {
                let slots = self.slots.iter().map(of).chain(std::iter::repeat(Json::null()));
                let named: Vec<_> = branches.iter().map(|branch| branch.name.clone()).zip(slots).collect();
                let all: serde_json::Map<_, _> =
                    named.iter().map(|(name, value)| (name.clone(), value.clone().into_value())).collect();
                (named, serde_json::Value::Object(all).into())
            }
            Branches::Each { .. } => {
                let slots = self.slots.iter().map(of).chain(std::iter::repeat(Json::null()));
                let all: Vec<_> = slots.take(self.plan.branches.len()).map(Json::into_value).collect();
                (Vec::new(), serde_json::Value::Array(all).into())
            }
        }
    }
}
