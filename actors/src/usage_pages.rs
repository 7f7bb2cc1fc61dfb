//! The usage of the calls of a thread, of a family or of the whole log, page by page.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use rethread_events::event::{Event, event_type_named};
use rethread_events::ids::{CallId, Hash, Position, RunId, Seq, ThreadId, Time};
use rethread_events::labels::Labels;
use rethread_events::usage::{
    CallUsage, Callee, EVENTS, Ended, GroupSums, MODEL_EVENTS, ModelName, ModelUsage, UsageFold,
};
use rethread_store::{Kind, Record, StoreError};

use crate::error::{ReadError, RunError, RuntimeError};
use crate::family;
use crate::labels::labels_of;
use crate::load;
use crate::recorded::RecordedEvent;
use crate::runtime::Runtime;
use crate::services::Services;
use crate::thread_handle::ThreadHandle;

/// The most records that are read for one page.
const SCANNED_MAX: usize = 50_000;
/// The most calls of a page.
const CALLS_MAX: usize = 5_000;

/// Which calls a page contains. `P` is a position: of the whole log a [`Position`], of threads a thread and a seq of
/// it.
#[derive(Debug, Clone)]
pub struct UsageQuery<P> {
    /// Only calls that ended after this event: where the page before ended.
    pub after: Option<P>,
    /// Only calls that ended at this time or later, by the clock of the process that recorded it.
    pub since: Option<Time>,
    /// Only calls of threads with these labels.
    pub labels: Labels,
    /// The key of a label: [`UsagePage::label_values`] has its values.
    pub label_key: Option<String>,
    /// The most calls; at least 1, at most 5 000.
    pub limit: usize,
}

impl<P> Default for UsageQuery<P> {
    fn default() -> Self {
        Self { after: None, since: None, labels: Labels::new(), label_key: None, limit: CALLS_MAX }
    }
}

/// A page of calls.
#[derive(Debug, Clone, PartialEq)]
pub struct UsagePage<P> {
    /// Calls of models and tools that ended, in the order in which they are recorded. A page may have fewer than its
    /// limit, or none, although more follow, because at most 50 000 events are read for it.
    pub calls: Vec<CallUsage>,
    /// If [`UsageQuery::label_key`] is given: the value of that label of each thread that made one of the calls, or that
    /// it has no such label.
    pub label_values: BTreeMap<ThreadId, Option<String>>,
    /// Where the next page begins; `None` if this is the last.
    pub next: Option<P>,
}

impl<P> UsagePage<P> {
    /// Adds the calls to the totals of each value of the label of [`UsageQuery::label_key`]. `None` is the group of the
    /// threads without that label.
    pub fn add_by_label(&self, sums: &mut BTreeMap<Option<String>, GroupSums>) {
        for call in &self.calls {
            let value = self.label_values.get(&call.thread).cloned().flatten();
            sums.entry(value).or_default().add(call);
        }
    }
}

impl Runtime {
    /// Returns the calls of all threads, in the order in which they ended. Each counts once: a fork does not repeat
    /// what it inherits. Reads the events of the log from `after` on, and for a call that was requested earlier the
    /// events of that call.
    pub async fn usage(&self, query: UsageQuery<Position>) -> Result<UsagePage<Position>, ReadError> {
        let services = self.services().clone();
        self.blocking(move || of_log(&services, &query)).await?
    }
}

impl ThreadHandle {
    /// Returns the calls of the thread, without those that it inherits and those of its branches. Reads its events from
    /// `after` on.
    ///
    /// # Errors
    /// `NoThread`, or when the log cannot be read.
    pub async fn usage(&self, query: UsageQuery<(ThreadId, Seq)>) -> Result<UsagePage<(ThreadId, Seq)>, ReadError> {
        let (services, id) = (self.runtime().services().clone(), self.id());
        self.runtime().blocking(move || of_threads(&services, &[(id, EVERY)], &query)).await?
    }

    /// As `usage`, with the calls of all branches that it and they ever had, thread by thread in the order of their
    /// ids. Also reads one event of each of them.
    ///
    /// # Errors
    /// `NoThread`, or when the log cannot be read.
    pub async fn family_usage(
        &self,
        query: UsageQuery<(ThreadId, Seq)>,
    ) -> Result<UsagePage<(ThreadId, Seq)>, ReadError> {
        let (services, id) = (self.runtime().services().clone(), self.id());
        let read = move || {
            let members: Vec<_> = family::members(&*services.store, id)?.into_iter().map(|it| (it, EVERY)).collect();
            of_threads(&services, &members, &query)
        };
        self.runtime().blocking(read).await?
    }

    /// Returns the calls of one run of the thread, and those of the branches that began in it.
    ///
    /// # Errors
    /// As [`ThreadHandle::run_summary`] and [`ThreadHandle::family_usage`].
    pub async fn run_usage(
        &self,
        run: RunId,
        query: UsageQuery<(ThreadId, Seq)>,
    ) -> Result<UsagePage<(ThreadId, Seq)>, RunError> {
        let found = self.run_summary(run).await?;
        let seqs = found.started..=found.ended.unwrap_or(*EVERY.end());
        let (services, id) = (self.runtime().services().clone(), self.id());
        let read = move || {
            let mut members = Vec::new();
            for member in family::members(&*services.store, id)? {
                if member == id {
                    members.push((member, seqs.clone()));
                } else if began_in(&services, member, id, &seqs)? {
                    members.push((member, EVERY));
                }
            }
            of_threads(&services, &members, &query)
        };
        Ok(self.runtime().blocking(read).await??)
    }
}

const EVERY: RangeInclusive<Seq> = Seq(0)..=Seq(u64::MAX);

/// Returns whether a branch, or an ancestor of it that is a branch, began at one of these events of `of`.
fn began_in(
    services: &Services,
    mut branch: ThreadId,
    of: ThreadId,
    seqs: &RangeInclusive<Seq>,
) -> Result<bool, ReadError> {
    loop {
        let info = match load::stream(services.reader(), branch) {
            // It was deleted meanwhile, with its family.
            Err(ReadError::NoThread(_)) => return Ok(false),
            info => info?,
        };
        match info.fork_of {
            Some(point) if point.parent == of => return Ok(seqs.contains(&point.seq)),
            Some(point) => branch = point.parent,
            None => return Ok(false),
        }
    }
}

fn of_log(services: &Services, query: &UsageQuery<Position>) -> Result<UsagePage<Position>, ReadError> {
    let end = services.reader().next_position();
    let from = query.after.map_or(Position(0), Position::next);
    let mut reader = Reader::new(services, query);
    for record in services.reader().log(from..end) {
        let record = record?;
        let position = record.position;
        reader.take(record)?;
        if reader.is_full() {
            return Ok(reader.page(Some(position).filter(|last| last.next() < end)));
        }
    }
    Ok(reader.page(None))
}

/// Returns the calls of these threads, which are sorted, that ended at these events.
fn of_threads(
    services: &Services,
    threads: &[(ThreadId, RangeInclusive<Seq>)],
    query: &UsageQuery<(ThreadId, Seq)>,
) -> Result<UsagePage<(ThreadId, Seq)>, ReadError> {
    let mut reader = Reader::new(services, query);
    let store = services.reader();
    for (n_before, (thread, seqs)) in threads.iter().enumerate() {
        let thread = *thread;
        let info = match load::stream(store, thread) {
            // A branch that was deleted meanwhile, with its family.
            Err(ReadError::NoThread(_)) if threads.len() > 1 => continue,
            info => info?,
        };
        let mut from = info.fork_of.map_or(Seq(0), |point| point.seq.next()).max(*seqs.start());
        let last = info.last_seq.min(*seqs.end());
        match query.after {
            Some((before, _)) if thread < before => continue,
            Some((before, seq)) if thread == before => from = from.max(seq.next()),
            _ => {}
        }
        for record in store.records(thread, from..last.next()) {
            let record = record?;
            let seq = record.seq;
            reader.take(record)?;
            if reader.is_full() {
                let is_last = seq == last && n_before + 1 == threads.len();
                return Ok(reader.page((!is_last).then_some((thread, seq))));
            }
        }
    }
    Ok(reader.page(None))
}

/// Reads records in order and gathers the calls that they end.
struct Reader<'a> {
    services: &'a Services,
    kinds: Vec<Kind>,
    since: Option<Time>,
    labels: Labels,
    label_key: Option<String>,
    /// Whether each thread read so far has the labels.
    labelled: BTreeMap<ThreadId, bool>,
    label_values: BTreeMap<ThreadId, Option<String>>,
    limit: usize,
    n_scanned: usize,
    fold: UsageFold,
    profiles: BTreeMap<Hash, Option<ModelName>>,
    calls: Vec<CallUsage>,
}

impl<'a> Reader<'a> {
    fn new<P>(services: &'a Services, query: &UsageQuery<P>) -> Self {
        Self {
            services,
            kinds: kinds(&EVENTS),
            since: query.since,
            labels: query.labels.clone(),
            label_key: query.label_key.clone(),
            labelled: BTreeMap::new(),
            label_values: BTreeMap::new(),
            limit: query.limit.clamp(1, CALLS_MAX),
            n_scanned: 0,
            fold: UsageFold::default(),
            profiles: BTreeMap::new(),
            calls: Vec::new(),
        }
    }

    fn page<P>(self, next: Option<P>) -> UsagePage<P> {
        let mut label_values = self.label_values;
        let threads: BTreeSet<_> = self.calls.iter().map(|call| call.thread).collect();
        label_values.retain(|thread, _| threads.contains(thread));
        UsagePage { calls: self.calls, label_values, next }
    }

    fn is_full(&self) -> bool {
        self.calls.len() >= self.limit || self.n_scanned >= SCANNED_MAX
    }

    fn take(&mut self, record: Record) -> Result<(), ReadError> {
        self.n_scanned += 1;
        if !self.kinds.contains(&record.kind) {
            return Ok(());
        }
        let (thread, seq, at) = (record.thread, record.seq, record.recorded_at);
        if !self.has_labels(thread)? {
            return Ok(());
        }
        let event = RecordedEvent::decode(record)?.event;
        learn_models(self.services, &mut self.fold, (thread, seq), &event)?;
        let mut call = match self.fold.apply(thread, seq, at, &event) {
            _ if self.since.is_some_and(|since| at < since) => return Ok(()),
            None => return Ok(()),
            Some(Ended::Call(call)) => *call,
            Some(Ended::BeganBefore(call)) => self.whole_call(thread, call, seq)?,
        };
        if let Callee::Model(model) = &call.callee {
            let profile = match model.recorded {
                Some(hash) => self.profile(hash)?,
                None => self.configured(model),
            };
            call.name_model(profile);
        }
        self.calls.push(call);
        Ok(())
    }

    /// Returns whether the thread has the requested labels.
    fn has_labels(&mut self, thread: ThreadId) -> Result<bool, ReadError> {
        if self.labels.is_empty() && self.label_key.is_none() {
            return Ok(true);
        }
        if let Some(has) = self.labelled.get(&thread) {
            return Ok(*has);
        }
        let has = match labels_of(self.services.reader(), thread) {
            Ok(labels) => {
                if let Some(key) = &self.label_key {
                    self.label_values.insert(thread, labels.get(key).map(str::to_owned));
                }
                labels.include(&self.labels)
            }
            // It was deleted meanwhile.
            Err(ReadError::NoThread(_)) => false,
            Err(error) => return Err(error),
        };
        self.labelled.insert(thread, has);
        Ok(has)
    }

    /// Returns a call that was requested before the first record that was read.
    fn whole_call(&self, thread: ThreadId, call: CallId, last: Seq) -> Result<CallUsage, ReadError> {
        let mut fold = UsageFold::default();
        for record in self.services.reader().records(thread, call.0..last.next()) {
            let record = record?;
            if !self.kinds.contains(&record.kind) {
                continue;
            }
            let RecordedEvent { record, event } = RecordedEvent::decode(record)?;
            learn_models(self.services, &mut fold, (thread, record.seq), &event)?;
            if let Some(Ended::Call(ended)) = fold.apply(thread, record.seq, record.recorded_at, &event)
                && ended.call == call
            {
                return Ok(*ended);
            }
        }
        Err(ReadError::NoSeq { thread, seq: call.0, last })
    }

    /// Returns the model of a profile that is not recorded, because nothing is sent over HTTP, as it is configured now;
    /// `None` if another model answered.
    fn configured(&self, model: &ModelUsage) -> Option<ModelName> {
        let name = model.name.profile.clone().filter(|_| model.name.model.is_none())?;
        let profile = self.services.models.all().get(&name).ok()?;
        let answered_by = model.answered_by.as_ref();
        answered_by.is_none_or(|answered_by| *answered_by == profile.model).then(|| ModelName {
            profile: Some(name),
            provider: Some(profile.provider.name().to_owned()),
            model: Some(profile.model.clone()),
        })
    }

    /// Returns the model of a recorded profile; `None` if the profile is not in the log.
    fn profile(&mut self, hash: Hash) -> Result<Option<ModelName>, ReadError> {
        if let Some(name) = self.profiles.get(&hash) {
            return Ok(name.clone());
        }
        let name = match self.services.definitions.profile(hash) {
            Ok(profile) => Some(ModelName {
                profile: profile.name,
                provider: profile.fallback.is_empty().then(|| profile.provider.name().to_owned()),
                model: Some(profile.model),
            }),
            Err(RuntimeError::Store(StoreError::NotFound { .. })) => None,
            Err(error) => return Err(error.into()),
        };
        self.profiles.insert(hash, name.clone());
        Ok(name)
    }
}

fn kinds(names: &[&str]) -> Vec<Kind> {
    names.iter().filter_map(|name| event_type_named(name)).map(|event| Kind(event.code)).collect()
}

/// How many records before a call are read first to find the request of its agent loop.
const LOOKED_BACK: u64 = 64;

/// Adds to the fold what the thread recorded before this event about the models of its agent loop, if the event is a call
/// whose profile is not recorded and the fold does not know them.
fn learn_models(
    services: &Services,
    fold: &mut UsageFold,
    (thread, seq): (ThreadId, Seq),
    event: &Event,
) -> Result<(), ReadError> {
    let is_unnamed = matches!(event, Event::LlmCallRequested(e) if e.model_profile.is_none());
    if !is_unnamed || fold.knows_models_of(thread) {
        return Ok(());
    }
    let (kinds, request) = (kinds(&MODEL_EVENTS), kinds(&["LLM_EXECUTION_REQUEST"]));
    let mut n = LOOKED_BACK;
    loop {
        let from = Seq(seq.0.saturating_sub(n));
        let mut found: Vec<Record> = Vec::new();
        for record in services.reader().records(thread, from..seq) {
            let record = record?;
            if request.contains(&record.kind) {
                found.clear();
            }
            if kinds.contains(&record.kind) && (request.contains(&record.kind) || !found.is_empty()) {
                found.push(record);
            }
        }
        if found.is_empty() && from > Seq(0) {
            n = n.saturating_mul(8);
            continue;
        }
        for record in found {
            let RecordedEvent { record, event } = RecordedEvent::decode(record)?;
            fold.apply(thread, record.seq, record.recorded_at, &event);
        }
        return Ok(());
    }
}
