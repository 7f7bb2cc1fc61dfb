//! What the actor of a thread does about the branches that it owns, and about the thread whose branch it is.

use actix::prelude::*;
use rethread_events::event::Event;
use rethread_events::ids::{Position, ThreadId};
use rethread_events::thread::{BranchOutcome, Effect, Fan, Input};

use super::kept::Waiting;
use super::live::Mode;
use super::{Tell, ThreadActor};
use crate::branches::{self, Wanted};

/// What the owner of a branch is told of it.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) enum BranchReport {
    /// It ended, with this event of the log.
    Ended { index: u32, child: ThreadId, outcome: Box<BranchOutcome>, at: Position },
    /// It came to rest, or moves again.
    Rests { index: u32, rests: bool },
    /// The log has it at rest, and says nothing of what it does since.
    LiesAtRest { index: u32 },
}

/// Asks a thread whether a branch is its own still, and whether it is paused.
#[derive(Message)]
#[rtype(result = "Option<bool>")]
pub(crate) struct Owns {
    pub(crate) index: u32,
    pub(crate) child: ThreadId,
}

/// Brings the pause of a branch in line with its owner's.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PauseLike {
    pub(crate) owner_is_paused: bool,
}

/// What events of a thread mean for its branches, once they are durable.
#[derive(Default)]
pub(super) struct ForBranches {
    not_needed: Vec<ThreadId>,
    paused: Option<bool>,
}

impl ForBranches {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut found = Self::default();
        for event in events {
            match event {
                Event::BranchEnded(e) if e.error.is_some() => found.not_needed.push(e.child),
                Event::ThreadPaused(_) => found.paused = Some(true),
                Event::ThreadResumed(_) => found.paused = Some(false),
                _ => {}
            }
        }
        found
    }
}

impl ThreadActor {
    /// Sees, once for each, that the branches that it owes run.
    pub(super) fn run_branches(&mut self, effects: &[Effect]) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        let Some(fan) = live.thread.state().fan() else {
            live.branches.clear();
            live.resting.clear();
            return;
        };
        if live.branches.len() > fan.running().count() {
            live.branches.retain(|index| fan.run(*index).is_some());
            live.resting.retain(|index| fan.run(*index).is_some());
        }
        for effect in effects {
            if let Effect::RunBranch(run) = effect
                && live.has_in_log(run.call)
                && live.branches.insert(run.index)
            {
                let (changes, workflow) = (live.thread.state().changes().clone(), live.thread.workflow().clone());
                let wanted = Wanted { owner: self.id, run: run.clone(), changes, workflow };
                actix_rt::spawn(branches::ensure(self.inner.clone(), wanted));
            }
        }
    }

    pub(super) fn branches_follow(&self, follows: ForBranches) {
        let Mode::Live(live) = &self.mode else {
            return;
        };
        for child in follows.not_needed {
            actix_rt::spawn(branches::cancel(self.inner.clone(), child));
        }
        if let Some(paused) = follows.paused {
            for run in live.thread.state().fan().into_iter().flat_map(Fan::running) {
                actix_rt::spawn(branches::pause(self.inner.clone(), run.child, paused));
            }
        }
    }

    /// A branch that has come back asks whether it is wanted.
    pub(super) fn ask_owner(&self) {
        let Mode::Live(live) = &self.mode else {
            return;
        };
        let state = live.thread.state();
        if let Some((owner, index)) = state.branch().and_then(|branch| branch.owner)
            && !state.is_ended()
        {
            actix_rt::spawn(branches::cancel_unless_owned(self.inner.clone(), owner, index, self.id));
        }
    }

    /// Whether all there is to wait for are branches that rest themselves.
    pub(super) fn all_branches_rest(&self) -> bool {
        let Mode::Live(live) = &self.mode else {
            return false;
        };
        let Some(fan) = live.thread.state().fan() else {
            return false;
        };
        let mut running = fan.running().peekable();
        running.peek().is_some() && running.all(|run| live.resting.contains(&run.index))
    }

    /// Tells the owner, if there is one, what has become of this branch.
    pub(super) fn tell_owner(&mut self, rests: bool) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        let state = live.thread.state();
        let Some((owner, index)) = state.branch().and_then(|branch| branch.owner) else {
            return;
        };
        let report = match state.branch_outcome() {
            Some(outcome) => {
                let (outcome, at) = (Box::new(outcome), live.last_position);
                BranchReport::Ended { index, child: self.id, outcome, at }
            }
            None if live.told_rests == Some(rests) => return,
            None => BranchReport::Rests { index, rests },
        };
        live.told_rests = Some(rests);
        branches::report(&self.inner, owner, report);
    }

    /// Tells the owner, if there is one, that this branch moves: before anybody who moved it hears that it does, so that
    /// nobody takes the owner for one whose branches all rest.
    pub(super) fn stirs(&mut self) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        if live.told_rests != Some(false)
            && let Some((owner, index)) = live.thread.state().branch().and_then(|branch| branch.owner)
        {
            live.told_rests = Some(false);
            branches::report(&self.inner, owner, BranchReport::Rests { index, rests: false });
        }
    }
}

impl Handler<BranchReport> for ThreadActor {
    type Result = ();

    fn handle(&mut self, message: BranchReport, ctx: &mut Context<Self>) {
        match message {
            BranchReport::Ended { index, child, outcome, at } => {
                let input = Input::BranchEnded { index, child, outcome: *outcome };
                self.hear(Waiting { input, reply: None, place: None, cause: Some(at) }, false, ctx);
            }
            BranchReport::LiesAtRest { index } => {
                let Mode::Live(live) = &mut self.mode else {
                    return;
                };
                // One that has an actor tells what it does itself.
                let run = live.thread.state().fan().and_then(|fan| fan.run(index));
                if run.is_some_and(|run| !self.inner.is_live(run.child)) && live.resting.insert(index) {
                    self.rest(ctx);
                }
            }
            BranchReport::Rests { index, rests } => {
                let Mode::Live(live) = &mut self.mode else {
                    return;
                };
                let changed = if rests { live.resting.insert(index) } else { live.resting.remove(&index) };
                if changed {
                    self.rest(ctx);
                }
            }
        }
    }
}

impl Handler<Owns> for ThreadActor {
    type Result = Option<bool>;

    fn handle(&mut self, Owns { index, child }: Owns, ctx: &mut Context<Self>) -> Option<bool> {
        let Mode::Live(live) = &self.mode else {
            // On its way out: not to be taken for a no.
            return Some(false);
        };
        let state = live.thread.state();
        let owns = state.fan().and_then(|fan| fan.run(index)).is_some_and(|run| run.child == child);
        // What is not durable may never be so, and a no cannot be taken back. When it is, the branch is told.
        let is_durable = live.under_way.is_empty();
        let answer = (owns || !is_durable).then(|| state.is_paused());
        self.rest(ctx);
        answer
    }
}

impl Handler<PauseLike> for ThreadActor {
    type Result = ();

    fn handle(&mut self, message: PauseLike, ctx: &mut Context<Self>) {
        let Mode::Live(live) = &self.mode else {
            return;
        };
        let state = live.thread.state();
        let with_owner = state.pause_reason() == Some(branches::PAUSED_WITH_OWNER);
        match (message.owner_is_paused, state.is_paused()) {
            (true, false) => {
                let reason = Some(branches::PAUSED_WITH_OWNER.into());
                self.tell(Tell::unasked(Input::Pause { reason }), ctx);
            }
            (false, true) if with_owner => self.tell(Tell::unasked(Input::Resume), ctx),
            _ => {}
        }
    }
}
