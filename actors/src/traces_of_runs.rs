//! The spans of runs, for OpenTelemetry: read from the log, those of branches too.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rethread_events::event::{Event, ThreadForked};
use rethread_events::ids::{Hash, RunId, Seq, ThreadId};
use rethread_events::trace_context::SpanId;
use rethread_events::traces::{Attribute, Key, Known, Link, Options, RunPlace, RunTrace, Span, TracedModel, Value};
use rethread_events::usage::ModelName;
use rethread_store::LogReader;

use crate::error::{ReadError, RunError};
use crate::load;
use crate::recorded::{RecordedEvent, event};
use crate::run::RunSummary;
use crate::services::Services;
use crate::thread_handle::ThreadHandle;
use crate::trace_contexts;

/// The most spans of a run, after which those of further branches are left out.
const SPANS_MAX: usize = 20_000;

/// The spans of a run and of its branches.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpans {
    /// The spans; the first one is that of the run.
    pub spans: Vec<Span>,
    /// Whether something in it failed.
    pub has_failed: bool,
    /// Whether the caller of the run records its trace; `None` without a caller.
    pub is_sampled_by_caller: Option<bool>,
}

impl ThreadHandle {
    /// Returns the spans of a run, and of the branches that began in it. Those of a run that goes on end with its last
    /// event. `None` if the thread is a branch, whose spans are those of its parent, and if it inherits the run and did
    /// none of it.
    ///
    /// Reads the events of the run and of its branches.
    ///
    /// # Errors
    /// As [`ThreadHandle::run_summary`].
    pub async fn run_spans(&self, run: RunId, options: Options) -> Result<Option<RunSpans>, RunError> {
        let (services, id) = (self.runtime().services().clone(), self.id());
        let of_log = services.clone();
        if self.runtime().blocking(move || is_branch(of_log.reader(), id)).await?? {
            return Ok(None);
        }
        let found = self.run_summary(run).await?;
        Ok(self.runtime().blocking(move || of_run(&services, id, &found, options)).await??)
    }
}

fn of_run(
    services: &Services,
    thread: ThreadId,
    run: &RunSummary,
    options: Options,
) -> Result<Option<RunSpans>, ReadError> {
    let store = services.reader();
    let Some(place) = place(store, thread, run)? else { return Ok(None) };
    let profiles = RefCell::new(BTreeMap::new());
    let model_of = |hash: Hash| profiles.borrow_mut().entry(hash).or_insert_with(|| model(services, hash)).clone();
    // The log does not say whose tools they are.
    let mcp_of = |tool: &str| services.tools.get(tool)?.mcp().cloned();
    let known = Known { model_of: &model_of, mcp_of: &mcp_of };
    let mut trace = RunTrace::new(options);
    read(store, thread, run.started, run.until(), &mut trace)?;
    let traced = trace.finish(&place, known);
    let is_sampled_by_caller = trace_contexts::is_sampled(store, thread, run.run_id)?;
    let mut spans = RunSpans { spans: traced.spans, has_failed: traced.has_failed, is_sampled_by_caller };
    let mut branches = traced.branches;
    let mut n_left_out: u64 = 0;
    while let Some((branch, ended)) = branches.pop() {
        if spans.spans.len() >= SPANS_MAX {
            n_left_out += 1;
            continue;
        }
        let Some((from, last, own_from)) = branch_events(store, branch, run.started)? else { continue };
        let mut trace = RunTrace::new(options);
        read(store, branch, from, last, &mut trace)?;
        let place = RunPlace {
            thread: branch,
            parent: None,
            own_from,
            is_branch: true,
            ended: Some(ended),
            links: Vec::new(),
            ..place.clone()
        };
        let traced = trace.finish(&place, known);
        spans.spans.extend(traced.spans);
        spans.has_failed |= traced.has_failed;
        branches.extend(traced.branches);
    }
    if n_left_out > 0
        && let Some(root) = spans.spans.first_mut()
    {
        root.attributes.push(Attribute { key: Key::Dropped, value: Value::from(n_left_out) });
    }
    Ok(Some(spans))
}

/// Applies these events of a thread, inherited ones included.
fn read(store: &dyn LogReader, thread: ThreadId, from: Seq, last: Seq, trace: &mut RunTrace) -> Result<(), ReadError> {
    for record in store.records(thread, from..last.next()) {
        let RecordedEvent { record, event } = RecordedEvent::decode(record?)?;
        trace.apply(record.seq, record.recorded_at, &event);
    }
    Ok(())
}

/// Returns where the spans of a run belong; `None` if they are those of another thread.
fn place(store: &dyn LogReader, thread: ThreadId, run: &RunSummary) -> Result<Option<RunPlace>, ReadError> {
    let info = load::stream(store, thread)?;
    let own_from = info.fork_of.map_or(Seq(0), |point| point.seq.next());
    if run.until() < own_from {
        return Ok(None);
    }
    let context = trace_contexts::of_run(store, thread, run.run_id)?;
    let mut place = RunPlace {
        own_from,
        parent: context.caller.map(|caller| caller.span),
        ..RunPlace::new(thread, run.run_id, context.trace)
    };
    match info.fork_of {
        // It goes on with a run of the thread that it was forked off.
        Some(point) if run.started < own_from => match trace_contexts::of_run(store, point.parent, run.run_id) {
            Ok(parent) => {
                place.links.push(Link { trace: parent.trace, span: SpanId::of_run(point.parent, run.run_id) });
            }
            // It was deleted.
            Err(ReadError::NoThread(_)) => {}
            Err(error) => return Err(error),
        },
        _ => {
            let next = event(store, thread, run.started.next())?.map(|next| next.event);
            if let Some(Event::StartedByParent(by)) = next {
                place.parent = Some(SpanId::of_call(by.parent, by.call_id));
            }
        }
    }
    Ok(Some(place))
}

fn is_branch(store: &dyn LogReader, thread: ThreadId) -> Result<bool, ReadError> {
    let Some(point) = load::stream(store, thread)?.fork_of else { return Ok(false) };
    Ok(forked(store, thread, point.seq.next())?.is_some_and(|forked| forked.branch.is_some()))
}

/// Returns the event with which a fork began.
fn forked(store: &dyn LogReader, thread: ThreadId, own_from: Seq) -> Result<Option<ThreadForked>, ReadError> {
    let first = event(store, thread, own_from)?.map(|first| first.event);
    Ok(if let Some(Event::ThreadForked(forked)) = first { Some(*forked) } else { None })
}

/// Returns the first and the last event of a branch that say what it did, and its first own one.
fn branch_events(
    store: &dyn LogReader,
    branch: ThreadId,
    run_started: Seq,
) -> Result<Option<(Seq, Seq, Seq)>, ReadError> {
    let info = match load::stream(store, branch) {
        // It never began, or was deleted.
        Err(ReadError::NoThread(_)) => return Ok(None),
        info => info?,
    };
    let own_from = info.fork_of.map_or(Seq(0), |point| point.seq.next());
    let replaces = forked(store, branch, own_from)?
        .is_some_and(|forked| forked.branch.is_some_and(|of| of.owner != forked.parent));
    // One in the place of another goes on with what that did.
    let from = if replaces { run_started } else { own_from };
    Ok(Some((from, info.last_seq, own_from)))
}

/// Returns the model of a recorded profile; `None` if it is not in the log.
fn model(services: &Services, hash: Hash) -> Option<TracedModel> {
    let profile = services.definitions.profile(hash).ok()?;
    let is_alone = profile.fallback.is_empty();
    let server = profile.server();
    let name = ModelName {
        profile: profile.name,
        provider: is_alone.then(|| profile.provider.name().to_owned()),
        model: Some(profile.model),
    };
    Some(TracedModel { name, server: server.filter(|_| is_alone) })
}
