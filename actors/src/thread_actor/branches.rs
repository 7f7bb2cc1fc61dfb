//! What the actor of a thread does for its branches, and as a branch for its parent.

use actix::prelude::*;
use futures_util::FutureExt;
use futures_util::future::join_all;
use rethread_events::event::Event;
use rethread_events::ids::{Position, Seq, ThreadId};
use rethread_events::thread::{Input, Totals};

use super::ThreadActor;
use super::live::{Live, Phase};
use super::messages::{BranchChanged, PAUSED_WITH_PARENT, Pauses, Settle, SyncBudget, SyncPause, Tell};
use crate::branch_states::{BranchBudget, BranchState, Watch, news_of};
use crate::branches::{self, End, Wanted};
use crate::port::Reply;

/// The parent of a branch, the number of the branch there, and what it has spent.
pub(super) type Spending = (ThreadId, u32, Totals);

/// Commands to branches that follow from events of a thread, once these are durable.
#[derive(Default)]
pub(super) struct ForBranches {
    /// Branches that are not needed any more, and whether they were to begin.
    not_needed: Vec<(ThreadId, bool)>,
    paused: Option<bool>,
    /// The branches whose limits may be others now.
    budget: Limited,
}

/// Branches that are to learn what is left of the budget.
#[derive(Default, Clone, Copy, PartialEq)]
enum Limited {
    #[default]
    None,
    /// This one.
    One(ThreadId),
    /// Those in memory: the others ask when they are activated.
    Live,
    All,
}

impl ForBranches {
    /// `was_spent` and `is_spent` say whether the budget was spent before and after these events, `watch` which branches
    /// were to begin before them.
    pub(super) fn of(events: &[Event], was_spent: bool, is_spent: bool, watch: Option<&Watch>) -> Self {
        let budget = if is_spent && !was_spent { Limited::Live } else { Limited::None };
        let mut found = Self { budget, ..Self::default() };
        for event in events {
            if matches!(event, Event::LimitRaised(_)) {
                found.budget = Limited::All;
            } else if let Event::BranchSpent(e) = event
                && is_spent
                && found.budget == Limited::None
            {
                // It spends all the same: it has not received its limit.
                found.budget = Limited::One(e.child);
            }
            if let Event::BranchEnded(e) = event
                && e.error.is_some()
            {
                found.not_needed.push((e.child, watch.is_some_and(|watch| watch.has(e.child))));
            } else if matches!(event, Event::ThreadPaused(_) | Event::ThreadResumed(_)) {
                found.paused = Some(matches!(event, Event::ThreadPaused(_)));
            }
        }
        found
    }
}

impl ThreadActor {
    /// Ensures, once for each, that the branches that the thread wants run.
    pub(super) fn run_branches(&mut self) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let state = live.thread.state();
        if !state.has_branches() {
            live.branches = None;
            return;
        }
        let parent = state.branch().and_then(|branch| branch.owner).map(|(parent, _)| parent);
        let watch = live.branches.get_or_insert_with(|| self.registry.branch_states.watch(self.id, parent));
        watch.keep(|| state.running_branches().map(|run| run.child));
        let Some(watch) = &live.branches else {
            return;
        };
        for open in state.open_calls().iter().filter(|open| open.is_wanted()) {
            if let Some(run) = open.branch()
                && live.has_in_log(run.call)
                && watch.add(run.child)
            {
                let (changes, workflow) = (state.changes().clone(), live.thread.workflow().clone());
                let left = state.left_for(run);
                let wanted = Wanted { parent: self.id, run: run.clone(), changes, workflow, left };
                actix_rt::spawn(branches::ensure(self.registry.clone(), wanted));
            }
        }
    }

    pub(super) fn branches_follow(&mut self, follows: ForBranches) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let registry = &self.registry;
        let uncounted = live.thread.state().uncounted_branches();
        let mut follow = Vec::new();
        for (child, is_asked_for) in follows.not_needed {
            match uncounted.get(&child) {
                // No task begins it any more: what it spent is known once the log shows that it never began. The report of
                // that to this thread waits for what follows here, so it is no part of it.
                Some(of) if !is_asked_for && !registry.is_live(child) => {
                    let counted = branches::count_late(registry.clone(), self.id, (child, of.clone()), false);
                    actix_rt::spawn(registry.telling.track_future(counted));
                }
                _ => follow.push(branches::cancel(registry.clone(), child).boxed()),
            }
        }
        if follows.paused.is_some() || follows.budget != Limited::None {
            if let Some(paused) = follows.paused {
                live.branches.iter().for_each(|watch| watch.set_paused(paused));
            }
            let state = live.thread.state();
            let pauses: Vec<_> = state
                .running_branches()
                .map(|run| {
                    let is_limited = match follows.budget {
                        Limited::None => false,
                        Limited::One(branch) => branch == run.child,
                        Limited::Live => registry.is_live(run.child),
                        Limited::All => true,
                    };
                    let left = state.left_for(run).filter(|_| is_limited);
                    branches::follow(registry.clone(), run.child, left, follows.paused)
                })
                .collect();
            let earlier = live.follow.take();
            // A resume must not overtake the pause before it.
            let pauses = async move {
                if let Some(earlier) = earlier {
                    earlier.await;
                }
                join_all(pauses).await;
            };
            follow.push(pauses.boxed());
        }
        if follow.is_empty() {
            return;
        }
        follow.extend(live.follow.take().map(FutureExt::boxed));
        let all = join_all(follow).map(drop).boxed().shared();
        live.follow = Some(all.clone());
        actix_rt::spawn(registry.telling.track_future(all));
    }

    /// Reports what a branch has spent to its parent, once for each sum. All of it is in the log.
    pub(super) fn report_spending(&mut self, spending: Option<Spending>, at: Position) {
        if let Phase::Live(live) = &mut self.phase
            && let Some((parent, index, totals)) = spending.filter(|(.., totals)| totals.is_beyond(&live.reported))
        {
            live.reported = totals;
            actix_rt::spawn(branches::report_spending(self.registry.clone(), parent, (index, self.id), totals, at));
        }
    }

    /// Compares the limits of this branch with what its parent has left, and what it has spent with what the parent has
    /// counted: either may have missed the news of the other. What pending appends have spent is reported with them.
    pub(super) fn sync_budget(&self) {
        if let Phase::Live(live) = &self.phase
            && let state = live.thread.state()
            && let Some((parent, index, totals)) = state.spending_for_parent()
        {
            let spent = (live.durable == live.thread.next_seq()).then_some((totals, live.last_position));
            let branch = BranchBudget { index, branch: self.id, spent, state: state.clone() };
            actix_rt::spawn(branches::sync_budget(self.registry.clone(), parent, branch));
        }
    }

    /// Applies the pause, the budget and the end of the parent to a branch that was activated.
    pub(super) fn reconcile_parent(&mut self, ctx: &mut Context<Self>) {
        self.sync_budget();
        let Phase::Live(live) = &self.phase else {
            return;
        };
        let state = live.thread.state();
        let Some((parent, index)) = state.branch().and_then(|branch| branch.owner).filter(|_| !state.is_ended()) else {
            return;
        };
        match self.registry.branch_states.is_parent_paused(parent, self.id) {
            Some(is_paused) => self.sync_pause(is_paused, ctx),
            None => {
                let pauses = Pauses::of(state);
                actix_rt::spawn(branches::reconcile_parent(self.registry.clone(), parent, index, self.id, pauses));
            }
        }
    }

    /// Reads from the log what branches spent that have ended before they reported it. Those in memory report it themselves.
    pub(super) fn count_late_branches(&self) {
        if let Phase::Live(live) = &self.phase {
            let uncounted = live.thread.state().uncounted_branches().iter();
            for (child, of) in uncounted.filter(|(child, _)| !self.registry.is_live(**child)) {
                let registry = self.registry.clone();
                let counted = branches::count_late(registry.clone(), self.id, (*child, of.clone()), true);
                actix_rt::spawn(registry.telling.track_future(counted));
            }
        }
    }

    fn sync_pause(&mut self, parent_is_paused: bool, ctx: &mut Context<Self>) {
        let Phase::Live(live) = &self.phase else {
            return;
        };
        if Pauses::of(live.thread.state()).differ_from(parent_is_paused) {
            let reason = Some(PAUSED_WITH_PARENT.into());
            let input = if parent_is_paused { Input::Pause { reason } } else { Input::Resume };
            self.step(Tell::unasked(input), ctx);
        }
    }

    /// Called when a caller waits for its status. Branches that were returned to the log are tried again.
    pub(super) fn check_branches(&mut self, ctx: &mut Context<Self>) {
        if let Phase::Live(live) = &self.phase
            && live.thread.state().has_branches()
            && self.goes_on()
        {
            self.run_branches();
        }
        self.rest(ctx);
    }

    /// Returns what the branches wait for, if the thread only waits for branches and none of them runs.
    pub(super) fn branches_rest(&self) -> Option<BranchState> {
        let Phase::Live(live) = &self.phase else {
            return None;
        };
        let state = live.thread.state();
        // A model that called agents may have called tools as well, some of which run or ask people.
        let (mut asks, mut runs) = (false, false);
        for open in state.open_calls().iter().filter(|open| open.branch().is_none()) {
            (asks, runs) = (asks || open.question().is_some(), runs || open.question().is_none());
        }
        if runs {
            return None;
        }
        let rest = live.branches.as_ref()?.rest(state.running_branches().map(|run| run.child))?;
        Some(if asks { BranchState::Rests } else { rest })
    }

    /// Notifies the parent, if there is one, of the end or rest of this branch.
    pub(super) fn tell_parent(&self, rest: Option<BranchState>) {
        let Phase::Live(live) = &self.phase else {
            return;
        };
        let state = live.thread.state();
        if let Some((parent, index)) = state.branch().and_then(|branch| branch.owner)
            && let Some(outcome) = state.branch_outcome()
        {
            let end = End { index, child: self.id, outcome: Box::new(outcome), at: live.last_position };
            let told = branches::tell_end(self.registry.clone(), parent, end);
            actix_rt::spawn(self.registry.telling.track_future(told));
        } else if rest.is_some() && state.pause_reason() == Some(PAUSED_WITH_PARENT) {
            self.notify_parent(BranchState::PausedWithParent);
        } else {
            self.notify_parent(rest.unwrap_or(BranchState::Runs));
        }
    }

    /// Writes the state of this branch for its parent, if there is one. A branch that begins to run writes this before
    /// the caller that resumed it is notified.
    pub(super) fn notify_parent(&self, branch_state: BranchState) {
        let Phase::Live(live) = &self.phase else {
            return;
        };
        if let Some((parent, _)) = live.thread.state().branch().and_then(|branch| branch.owner) {
            branches::notify(&self.registry, parent, self.registry.branch_states.set(parent, self.id, branch_state));
        }
    }
}

impl Handler<BranchChanged> for ThreadActor {
    type Result = ();

    fn handle(&mut self, _message: BranchChanged, ctx: &mut Context<Self>) {
        self.rest(ctx);
    }
}

impl Live {
    /// Sends replies about durable inputs, after the branches have recorded what follows for them: a command to a
    /// thread completes when its whole family has recorded it.
    pub(super) fn reply(&self, replies: Vec<Reply>, first: Option<Seq>) {
        let send = move || replies.into_iter().for_each(|reply| reply.send(Ok(first)));
        match &self.follow {
            Some(follow) if self.branches_are_to_record() => drop(actix_rt::spawn(follow.clone().map(|()| send()))),
            _ => send(),
        }
    }

    /// Whether branches have not recorded yet what follows for them.
    pub(super) fn branches_are_to_record(&self) -> bool {
        self.follow.as_ref().is_some_and(|follow| follow.peek().is_none())
    }

    /// Replies when all events so far are durable.
    pub(super) fn reply_when_durable(&mut self, reply: Reply) {
        match self.under_way.back_mut() {
            Some(last) => last.later.push(reply),
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

impl Handler<SyncBudget> for ThreadActor {
    type Result = ();

    /// Does nothing before the thread is loaded: it makes its branches compare again then.
    fn handle(&mut self, SyncBudget(of): SyncBudget, ctx: &mut Context<Self>) {
        let Phase::Live(live) = &self.phase else {
            return;
        };
        let Some(news) = news_of(live.thread.state(), &of) else {
            return;
        };
        if let Some((totals, at)) = news.spent {
            self.step(Tell::of_branch(Input::BranchSpent { index: of.index, child: of.branch, totals }, at), ctx);
        }
        if news.left.is_some() {
            // In its place among what other events mean for the branch.
            self.branches_follow(ForBranches { budget: Limited::One(of.branch), ..ForBranches::default() });
        }
        self.pump(ctx);
    }
}

impl Handler<SyncPause> for ThreadActor {
    type Result = ();

    fn handle(&mut self, message: SyncPause, ctx: &mut Context<Self>) {
        self.sync_pause(message.parent_is_paused, ctx);
        self.pump(ctx);
    }
}
