//! Why an event does not fit the state that it is applied to.

/// An event that does not fit the state that it is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransitionError(pub(super) &'static str);

pub(super) const NO_NODE: TransitionError = TransitionError("the thread is not in that node");
pub(super) const NOT_BEGUN: TransitionError = TransitionError("the thread has not begun");
pub(super) const ENDED: TransitionError = TransitionError("the thread has ended");
pub(super) const OPEN_CALL: TransitionError = TransitionError("a call is still open");
pub(super) const NO_CALL: TransitionError = TransitionError("no such call is open");
pub(super) const NO_MODEL_CALL: TransitionError = TransitionError("no such model call is open");
pub(super) const NO_WAIT: TransitionError = TransitionError("no such wait goes on");
pub(super) const NO_QUESTION: TransitionError = TransitionError("no such question is open");
pub(super) const UNCHECKED: TransitionError = TransitionError("a guardrail is to check the tool call first");
pub(super) const NOT_NEXT: TransitionError = TransitionError("it is not the next attempt of the call");
