//! Applies events of children and of waits for the end of a thread.

use super::super::calls::{AwaitedRun, CallKind, CallStage, ChildRun, OpenCall};
use super::super::state::{State, Work};
use super::super::transition::{NO_CALL, NO_WAIT, TransitionError};
use crate::event::{
    AwaitedThreadEnded, ChildStartFailed, ChildStartRequested, ChildStarted, OnParentEnd, StartedByParent,
    ThreadAwaited,
};
use crate::ids::{CallId, Seq, Time};

impl State {
    pub(super) fn start_child(&mut self, seq: Seq, at: Time, e: &ChildStartRequested) -> Result<(), TransitionError> {
        *self.ready(&e.node_id)? = Work::Waiting(CallId(seq));
        let run = ChildRun::new(CallId(seq), at, e);
        self.calls.insert(OpenCall::new(CallKind::Child(Box::new(run)), CallStage::Wanted));
        self.children.n_in_run = self.children.n_in_run.saturating_add(1);
        self.children.follow |= e.on_parent_end != OnParentEnd::Leave;
        Ok(())
    }

    pub(super) fn child_started(&mut self, e: &ChildStarted) -> Result<(), TransitionError> {
        let run = self.close_child(e.call_id)?;
        if run.child != e.child {
            return Err(TransitionError("it is not the thread that was to be started"));
        }
        let output = run.output();
        if let Some(into) = &run.into {
            self.set_here(into, output.clone());
        }
        *self.work()? = Work::Done { output };
        Ok(())
    }

    pub(super) fn child_start_failed(&mut self, e: &ChildStartFailed) -> Result<(), TransitionError> {
        self.close_child(e.call_id)?;
        *self.work()? = Work::Failed(e.error.clone());
        Ok(())
    }

    fn close_child(&mut self, call: CallId) -> Result<ChildRun, TransitionError> {
        self.calls.get(call).and_then(OpenCall::child).ok_or(NO_CALL)?;
        match self.calls.close(call)?.kind {
            CallKind::Child(run) => Ok(*run),
            _ => Err(NO_CALL),
        }
    }

    pub(super) fn started_by_parent(&mut self, seq: Seq, e: &StartedByParent) -> Result<(), TransitionError> {
        if seq != Seq(1) || self.forked_from().is_some() {
            return Err(TransitionError("it is not the second event of a thread"));
        }
        self.children.parent = Some(*e);
        self.children.depth = e.depth;
        Ok(())
    }

    pub(super) fn begin_thread_wait(&mut self, seq: Seq, at: Time, e: &ThreadAwaited) -> Result<(), TransitionError> {
        *self.ready(&e.node_id)? = Work::Waiting(CallId(seq));
        let run = AwaitedRun { id: CallId(seq), thread: e.thread, requested_at: at };
        self.calls.insert(OpenCall::new(CallKind::Awaited(run), CallStage::Wanted));
        Ok(())
    }

    pub(super) fn end_thread_wait(&mut self, e: &AwaitedThreadEnded) -> Result<(), TransitionError> {
        let run = self.calls.get(e.wait_id).and_then(OpenCall::thread_wait).ok_or(NO_WAIT)?;
        if run.thread != e.thread {
            return Err(NO_WAIT);
        }
        self.calls.close(e.wait_id)?;
        *self.work()? = Work::Done { output: e.output.clone().unwrap_or_default() };
        Ok(())
    }
}
