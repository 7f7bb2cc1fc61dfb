//! Follows a run: what a door makes of its events, until the run ends or waits for a person.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use rethread::errors::{ControlError, ReadError};
use rethread::operate::LogAccess as _;
use rethread::runs::RunId;
use rethread::store::{Batch, Mapped, Records};
use rethread::{Event, Outcome, Position, RecordedEvent, Seq, State, ThreadHandle, Workflow};
use rethread_events::event::LlmExecutionRequest;
use rethread_events::thread::Work;

use crate::events::ends_run;
use crate::serve::problem::Problem;
use crate::serve::server::Shared;
use crate::serve::written::Entry;

/// How often, and how many times, a run is examined again that waits for a person and has no question.
const EMPTY_REST_PAUSE: Duration = Duration::from_millis(100);
const EMPTY_RESTS_MAX: u32 = 100;

/// A run that a client follows.
pub(super) struct Run {
    pub(super) thread: ThreadHandle,
    pub(super) id: RunId,
    /// The event that brought the message: a start, a run that starts or waits, or the answer to a question.
    pub(super) from: Seq,
    pub(super) inside: Inside,
    /// The definition that it runs on.
    pub(super) workflow: Arc<Workflow>,
}

/// What was open in the workflow before the event that brought the message.
#[derive(Debug, Clone, Default)]
pub(super) struct Inside {
    /// How many loops and sub-workflows.
    pub(super) depth: u32,
    /// The agent loop.
    pub(super) agent: Option<Arc<LlmExecutionRequest>>,
}

impl Inside {
    /// What is open in a state.
    pub(super) fn of(state: &State) -> Self {
        let agent = match state.node_run().map(|run| &run.work) {
            Some(Work::Llm(agent)) => Some(agent.request.clone()),
            _ => None,
        };
        Self { depth: u32::try_from(state.frames().len()).unwrap_or(u32::MAX), agent }
    }
}

/// Which events of a thread belong to a run: those from its begin to its end.
pub(super) struct RunSpan {
    run: RunId,
    has_begun: bool,
    is_over: bool,
}

impl RunSpan {
    /// `has_begun` says that the next event belongs to the run already.
    pub(super) fn new(run: RunId, has_begun: bool) -> Self {
        Self { run, has_begun, is_over: false }
    }

    /// Returns whether the next event belongs to the run. While the run waits for others, none does.
    pub(super) fn takes(&mut self, recorded: &RecordedEvent) -> bool {
        let event = &recorded.event;
        if let Event::RunStarted(e) = event {
            self.has_begun |= e.run_id == self.run;
        } else if let Event::ThreadStarted(_) = event {
            self.has_begun |= self.run == RunId(recorded.record.seq);
        } else if let Event::RunCancelled(e) = event {
            self.is_over |= e.run_id == self.run;
        }
        let takes = self.has_begun && !self.is_over;
        self.is_over |= takes && ends_run(event);
        takes
    }

    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether the last event of the run was taken, or the run was cancelled before it began.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

/// A fold of the events of a thread, from the event on that brought the message.
pub(super) trait Fold: Send + 'static {
    /// What a client receives.
    type Piece: Send + 'static;

    /// Returns what the next event leads to.
    fn take(&mut self, event: &RecordedEvent) -> Vec<Self::Piece>;

    /// Whether the run has ended.
    fn is_over(&self) -> bool;
}

/// What happens next.
pub(super) enum Happening<P> {
    Piece(P),
    /// The run has ended.
    Ended,
    /// The run waits for a person, or is paused.
    Rests(Box<Outcome>),
}

type FoldedBatch<P> = Result<Folded<P>, ReadError>;

/// What a batch of events leads to.
struct Folded<P> {
    pieces: Vec<P>,
    /// The last event that was examined.
    at: Option<Position>,
    is_over: bool,
}

/// The events of a thread, folded as they come.
pub(super) struct Folding<P> {
    folded: Mapped<FoldedBatch<P>>,
    at: Option<Position>,
    is_over: bool,
}

impl<P: Send + 'static> Folding<P> {
    /// Folds the events of a thread from a seq on.
    pub(super) fn begin(server: &Shared, thread: &ThreadHandle, from: Seq, mut fold: impl Fold<Piece = P>) -> Self {
        let follow = move |batch| take(&mut fold, batch);
        let folded = server.hub.follow_thread(server.runtime.store(), thread.id(), from, follow);
        Self { folded, at: None, is_over: false }
    }

    /// Folds the events that another one folds, which `opening` makes.
    pub(super) fn opened(opening: impl Future<Output = Result<Self, ReadError>> + Send + 'static) -> Self {
        let folded = opening.map(|opened| match opened {
            Ok(opened) => opened.folded,
            Err(error) => futures::stream::once(async { Ok(Err(error)) }).boxed(),
        });
        Self { folded: folded.flatten_stream().boxed(), at: None, is_over: false }
    }

    /// The last event that was examined.
    pub(super) fn at(&self) -> Option<Position> {
        self.at
    }

    /// Whether no more events are folded.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns what the next events lead to. Not to be called after the last one, or after an error.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<P>, Problem>> {
        self.folded.poll_next_unpin(cx).map(|folded| {
            let folded = folded.ok_or_else(Problem::stopping)?.map_err(Problem::from)?.map_err(Problem::from)?;
            self.at = self.at.max(folded.at);
            self.is_over = folded.is_over;
            Ok(folded.pieces)
        })
    }

    /// As [`Folding::poll_next`]. Nothing is lost if this is dropped before it is done.
    pub(super) async fn next(&mut self) -> Result<Vec<P>, Problem> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}

/// A run that is followed.
pub(super) struct Following<P> {
    server: Shared,
    thread: ThreadHandle,
    run: RunId,
    folding: Folding<P>,
    /// What was folded and not sent.
    pieces: std::vec::IntoIter<P>,
    at_rest: BoxFuture<'static, Result<Outcome, ReadError>>,
    /// The thread as it was when it waited for a person or was paused.
    rested: Option<Outcome>,
    n_empty_rests: u32,
    /// Whether it rested during a run of another request.
    rests_for_others: bool,
    /// Whether the client has all that it waits for, so that it is no longer needed.
    is_told: bool,
    cancels: bool,
}

impl<P: Send + 'static> Following<P> {
    /// Follows a run from the event on that brought the message. If `cancels` is set, the run is cancelled when this is
    /// dropped before its end was sent.
    pub(super) fn begin(server: &Shared, run: &Run, cancels: bool, fold: impl Fold<Piece = P>) -> Self {
        let thread = run.thread.clone();
        Self {
            server: server.clone(),
            run: run.id,
            folding: Folding::begin(server, &thread, run.from, fold),
            pieces: Vec::new().into_iter(),
            at_rest: at_rest(&thread),
            rested: None,
            n_empty_rests: 0,
            rests_for_others: false,
            is_told: false,
            cancels,
            thread,
        }
    }

    pub(super) fn server(&self) -> &Shared {
        &self.server
    }

    pub(super) fn thread(&self) -> &ThreadHandle {
        &self.thread
    }

    pub(super) fn run(&self) -> RunId {
        self.run
    }

    /// Nothing more is sent. The run continues although its client does not receive its end.
    pub(super) fn leave(&mut self) {
        self.is_told = true;
    }

    /// Waits a moment, after the run rested without an open question: its question was answered just now, or a branch
    /// goes on. Returns false if it has rested so for ten seconds without an event.
    pub(super) async fn may_go_on(&mut self) -> bool {
        if self.n_empty_rests == EMPTY_RESTS_MAX {
            return false;
        }
        self.n_empty_rests += 1;
        tokio::time::sleep(EMPTY_REST_PAUSE).await;
        true
    }

    /// The last event of the thread that was examined.
    pub(super) fn at(&self) -> Position {
        self.folding.at().unwrap_or_default()
    }

    /// Returns what happens next. After an end, a rest or an error, call [`Following::leave`]. Nothing is lost if this is
    /// dropped before it is done.
    pub(super) async fn next(&mut self) -> Result<Happening<P>, Problem> {
        loop {
            if let Some(piece) = self.pieces.next() {
                return Ok(Happening::Piece(piece));
            }
            if self.folding.is_over() {
                return Ok(Happening::Ended);
            }
            if let Some(rested) = self.rested.take_if(|rested| self.folding.at() >= Some(rested.last_position)) {
                return Ok(Happening::Rests(Box::new(rested)));
            }
            tokio::select! {
                biased;
                pieces = self.folding.next() => {
                    self.pieces = pieces?.into_iter();
                    self.n_empty_rests = 0;
                    if self.rests_for_others {
                        self.rests_for_others = false;
                        self.at_rest = at_rest(&self.thread);
                    }
                }
                rested = &mut self.at_rest, if self.rested.is_none() => {
                    let rested = rested.map_err(Problem::from)?;
                    if rested.status.is_ended() {
                        // The events say how the run ended.
                        self.at_rest = futures::future::pending().boxed();
                    } else if rested.state.run_id() != self.run {
                        // It is another run that waits for a person. After its next event it is asked again.
                        self.rests_for_others = true;
                        self.at_rest = futures::future::pending().boxed();
                    } else {
                        self.at_rest = at_rest(&self.thread);
                        self.rested = Some(rested);
                    }
                }
            }
        }
    }
}

/// Cancels the run of a client that has left, unless it has ended.
pub(super) async fn cancel(thread: &ThreadHandle, run: RunId, why: &str) -> Result<(), Problem> {
    match thread.cancel_run(run, Some(why.to_owned())).await {
        Ok(()) | Err(ControlError::Rejected { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl<P> Drop for Following<P> {
    fn drop(&mut self) {
        let has_left = !self.is_told && !self.server.stopping.is_cancelled();
        if has_left && self.cancels {
            let (thread, run) = (self.thread.clone(), self.run);
            tokio::spawn(async move {
                if let Err(problem) = cancel(&thread, run, "the client disconnected").await {
                    tracing::info!(%problem, "the run of a client that disconnected is not cancelled");
                }
            });
        }
    }
}

fn at_rest(thread: &ThreadHandle) -> BoxFuture<'static, Result<Outcome, ReadError>> {
    let thread = thread.clone();
    async move { thread.at_rest().await }.boxed()
}

/// Folds a batch. The stream ends with the run, and with an event that cannot be read.
fn take<F: Fold>(fold: &mut F, batch: Batch<Entry>) -> ControlFlow<FoldedBatch<F::Piece>, FoldedBatch<F::Piece>> {
    let mut folded = Folded { pieces: Vec::new(), at: batch.covered, is_over: false };
    let mut one = |event: &RecordedEvent| {
        if !fold.is_over() {
            folded.pieces.extend(fold.take(event));
            folded.at = folded.at.max(Some(event.record.position));
        }
    };
    let read = match batch.records {
        Records::Read(records) => records.into_iter().try_for_each(|record| {
            one(&RecordedEvent::decode(record)?);
            Ok(())
        }),
        Records::Shared(entries) => entries.iter().try_for_each(|entry| {
            one(entry.event.as_ref().map_err(ReadError::clone)?);
            Ok(())
        }),
    };
    folded.is_over = fold.is_over();
    match read {
        Err(error) => ControlFlow::Break(Err(error)),
        Ok(()) if folded.is_over => ControlFlow::Break(Ok(folded)),
        Ok(()) => ControlFlow::Continue(Ok(folded)),
    }
}
