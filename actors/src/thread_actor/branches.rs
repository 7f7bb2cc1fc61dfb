//! What the actor of a thread does about the branches that it owns, and about the thread whose branch it is.

use actix::prelude::*;
use futures_util::FutureExt;
use futures_util::future::join_all;
use rethread_events::event::Event;
use rethread_events::ids::{Position, ThreadId};
use rethread_events::thread::{Effect, Input};

use super::ThreadActor;
use super::live::{Live, Phase};
use super::messages::PAUSED_WITH_OWNER;
use super::messages::{BranchReport, CheckOwnership, Pauses, ReportStatus, Settle, Standing, SyncPause};
use super::pending_inputs::Waiting;
use crate::branches::{self, End, Wanted};
use crate::error::RuntimeError;
use crate::port::Reply;

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
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let state = live.thread.state();
        let fork = state.fan().map(|fan| fan.planned_at);
        if fork != live.fork {
            live.fork = fork;
            live.branches.clear();
            live.resting.clear();
        }
        if fork.is_none() {
            return;
        }
        if live.branches.len() > state.running_branches().count() {
            live.branches.retain(|index| state.branch_run(*index).is_some());
            live.resting.retain(|index| state.branch_run(*index).is_some());
        }
        for effect in effects {
            if let Effect::RunBranch(run) = effect
                && live.has_in_log(run.call)
                && live.branches.insert(run.index)
            {
                let (changes, workflow) = (live.thread.state().changes().clone(), live.thread.workflow().clone());
                let wanted = Wanted { owner: self.id, run: run.clone(), changes, workflow };
                actix_rt::spawn(branches::ensure(self.registry.clone(), wanted));
            }
        }
    }

    pub(super) fn branches_follow(&mut self, follows: ForBranches, ctx: &mut Context<Self>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let registry = &self.registry;
        let cancelled = follows.not_needed.into_iter().map(|child| branches::cancel(registry.clone(), child).boxed());
        let mut follow: Vec<_> = cancelled.collect();
        if let Some(paused) = follows.paused {
            let running = live.thread.state().running_branches();
            follow.extend(running.map(|run| branches::pause(registry.clone(), run.child, paused).boxed()));
        }
        if follow.is_empty() {
            return;
        }
        follow.extend(live.follow.take().map(FutureExt::boxed));
        let all = join_all(follow).map(drop).boxed().shared();
        live.follow = Some(all.clone());
        actix_rt::spawn(registry.telling.track_future(all.clone()));
        if follows.paused.is_some() {
            live.n_pause_changes += 1;
            let life = self.life;
            // The actor handles its mailbox first: what these branches reported before they replied is known then.
            ctx.spawn(all.into_actor(self).map(move |(), actor, ctx| {
                let changed = move |actor: &mut Self, ctx: &mut Context<Self>| {
                    if let Phase::Live(live) = &mut actor.phase
                        && actor.life == life
                    {
                        live.n_pause_changes -= 1;
                        actor.rest(ctx);
                    }
                };
                actor.when_here(changed, ctx);
            }));
        }
    }

    /// A branch that has come back asks whether it is wanted.
    pub(super) fn ask_owner(&self) {
        let Phase::Live(live) = &self.phase else {
            return;
        };
        let state = live.thread.state();
        if let Some((owner, index)) = state.branch().and_then(|branch| branch.owner)
            && !state.is_ended()
        {
            let pauses = Pauses::of(state);
            actix_rt::spawn(branches::reconcile_parent(self.registry.clone(), owner, index, self.id, pauses));
        }
    }

    /// A caller waits for its status. Branches that were returned to the log are tried again.
    pub(super) fn look(&mut self, ctx: &mut Context<Self>) {
        if let Phase::Live(live) = &self.phase
            && live.thread.state().fan().is_some()
            && self.goes_on()
        {
            let effects = live.thread.effects();
            self.run_branches(&effects);
        }
        self.rest(ctx);
    }

    /// A branch was returned to the log: waiters of this thread are notified. It is tried again for the next caller.
    fn put_back(&mut self, index: u32, error: RuntimeError) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        if live.branches.remove(&index) && live.thread.state().branch_run(index).is_some() {
            live.resting.remove(&index);
            self.registry.waiters.failed(self.id, &error);
            actix_rt::spawn(branches::put_back(self.registry.clone(), self.id, error));
        }
    }

    /// Whether all there is to wait for are branches that rest themselves.
    pub(super) fn all_branches_rest(&self) -> bool {
        let Phase::Live(live) = &self.phase else {
            return false;
        };
        if live.n_pause_changes != 0 {
            return false;
        }
        let mut running = live.thread.state().running_branches().peekable();
        running.peek().is_some() && running.all(|run| live.resting.contains(&run.index))
    }

    /// Tells the owner, if there is one, what has become of this branch.
    pub(super) fn tell_owner(&mut self, rests: bool) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let state = live.thread.state();
        let Some((owner, index)) = state.branch().and_then(|branch| branch.owner) else {
            return;
        };
        if let Some(outcome) = state.branch_outcome() {
            let end = End { index, child: self.id, outcome: Box::new(outcome), at: live.last_position };
            actix_rt::spawn(branches::tell_end(self.registry.clone(), owner, end));
        } else if live.told_rests != Some(rests) {
            live.told_rests = Some(rests);
            branches::report(&self.registry, owner, BranchReport::Rests { index, rests });
        }
    }

    /// Tells the owner, if there is one, that this branch moves: before anybody who moved it hears that it does, so that
    /// the parent is never taken for one whose branches all rest.
    pub(super) fn notify_running(&mut self) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        if live.told_rests != Some(false)
            && let Some((owner, index)) = live.thread.state().branch().and_then(|branch| branch.owner)
        {
            live.told_rests = Some(false);
            branches::report(&self.registry, owner, BranchReport::Rests { index, rests: false });
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
                let Phase::Live(live) = &mut self.phase else {
                    return;
                };
                let Some(run) = live.thread.state().branch_run(index) else {
                    return;
                };
                let child = run.child;
                if self.registry.is_live(child) {
                    // It may have moved since.
                    actix_rt::spawn(branches::have_live_say(self.registry.clone(), self.id, index, child));
                } else if live.resting.insert(index) {
                    self.rest(ctx);
                }
            }
            BranchReport::PutBack { index, error } => self.put_back(index, error),
            BranchReport::Rests { index, rests } => {
                let Phase::Live(live) = &mut self.phase else {
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

impl Handler<CheckOwnership> for ThreadActor {
    type Result = Option<Standing>;

    fn handle(&mut self, CheckOwnership { index, child }: CheckOwnership, ctx: &mut Context<Self>) -> Option<Standing> {
        let Phase::Live(live) = &self.phase else {
            return None;
        };
        let state = live.thread.state();
        let answer = match Standing::of(state, index, child) {
            // What is not durable may never be so, and a no cannot be revoked. When it is durable, the branch is
            // notified.
            Standing::NotOwned if !live.under_way.is_empty() => Standing::Owned { is_paused: state.is_paused() },
            answer => answer,
        };
        self.rest(ctx);
        Some(answer)
    }
}

impl Live {
    /// Sends replies about what is durable, after the branches have recorded what follows for them: a command about a
    /// thread ends when its whole family has recorded it.
    pub(super) fn reply(&self, replies: Vec<Reply>, position: Option<Position>) {
        let send = move || replies.into_iter().for_each(|reply| drop(reply.send(Ok(position))));
        match &self.follow {
            Some(follow) if follow.peek().is_none() => drop(actix_rt::spawn(follow.clone().map(|()| send()))),
            _ => send(),
        }
    }

    /// Replies when everything so far is durable.
    pub(super) fn reply_when_durable(&mut self, reply: Reply) {
        match self.under_way.back_mut() {
            Some(last) => last.replies.push(reply),
            None => self.reply(vec![reply], None),
        }
    }
}

impl Handler<Settle> for ThreadActor {
    type Result = ();

    fn handle(&mut self, Settle(reply): Settle, ctx: &mut Context<Self>) {
        if let Phase::Live(live) = &mut self.phase {
            live.reply_when_durable(reply);
        }
        self.rest(ctx);
    }
}

impl Handler<ReportStatus> for ThreadActor {
    type Result = ();

    fn handle(&mut self, _message: ReportStatus, ctx: &mut Context<Self>) {
        if let Phase::Live(live) = &mut self.phase {
            live.told_rests = None;
        }
        self.look(ctx);
    }
}

impl Handler<SyncPause> for ThreadActor {
    type Result = ();

    fn handle(&mut self, message: SyncPause, ctx: &mut Context<Self>) {
        let Phase::Live(live) = &self.phase else {
            return;
        };
        let pauses = Pauses::of(live.thread.state());
        if pauses.differ_from(message.owner_is_paused) {
            let reason = Some(PAUSED_WITH_OWNER.into());
            let input = if message.owner_is_paused { Input::Pause { reason } } else { Input::Resume };
            self.hear(Waiting { input, reply: None, place: None, cause: None }, false, ctx);
        }
    }
}
