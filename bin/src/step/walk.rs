//! The position of the walk: an event, and the states before and after it.

use rethread::operate::LogAccess as _;
use rethread::store::{Record, StoreError};
use rethread::{Event, RecordedEvent, Seq, State, ThreadHandle};

use crate::exit::Failure;

/// A place in a thread. Holds two states, independent of the thread's length.
pub(crate) struct Walk {
    thread: ThreadHandle,
    pub(crate) last: Seq,
    pub(crate) event: RecordedEvent,
    /// The state before the event; that of nothing before the first.
    pub(crate) before: State,
    pub(crate) after: State,
}

impl Walk {
    pub(crate) async fn begin(thread: &ThreadHandle, at: Seq) -> Result<Self, Failure> {
        let last = thread.summary().await?.last_seq;
        let at = at.min(last);
        let (event, before, after) = at_seq(thread, at).await?;
        Ok(Self { thread: thread.clone(), last, event, before, after })
    }

    pub(crate) fn seq(&self) -> Seq {
        self.event.record.seq
    }

    /// Moves one event forward; the state after this one is already loaded.
    pub(crate) async fn next(&mut self) -> Result<(), Failure> {
        if self.seq() >= self.last {
            return Ok(());
        }
        self.event = read(&self.thread, self.seq().next()).await?;
        self.before = self.after.clone();
        self.after
            .apply(self.event.record.recorded_at, &self.event.event)
            .map_err(rethread::errors::ReadError::from)?;
        Ok(())
    }

    /// Moves one event back, with a new fold.
    pub(crate) async fn back(&mut self) -> Result<(), Failure> {
        match self.seq().0.checked_sub(1) {
            Some(seq) => self.go(Seq(seq)).await,
            None => Ok(()),
        }
    }

    /// Moves to an event; to the last one if there are fewer.
    pub(crate) async fn go(&mut self, seq: Seq) -> Result<(), Failure> {
        let (event, before, after) = at_seq(&self.thread, seq.min(self.last)).await?;
        (self.event, self.before, self.after) = (event, before, after);
        Ok(())
    }

    /// Moves to the next event with which a node begins, or to the previous one; does nothing if there is none.
    pub(crate) async fn node(&mut self, on: bool) -> Result<(), Failure> {
        let (thread, here, last) = (self.thread.clone(), self.seq(), self.last);
        let found = tokio::task::spawn_blocking(move || node_from(&thread, here, last, on));
        match found.await.map_err(Failure::other)?? {
            Some(seq) => self.go(seq).await,
            None => Ok(()),
        }
    }
}

async fn at_seq(thread: &ThreadHandle, seq: Seq) -> Result<(RecordedEvent, State, State), Failure> {
    let event = read(thread, seq).await?;
    let before = match seq.0.checked_sub(1) {
        Some(before) => thread.state_at(Seq(before)).await?,
        None => State::new(thread.id()),
    };
    let mut after = before.clone();
    after.apply(event.record.recorded_at, &event.event).map_err(rethread::errors::ReadError::from)?;
    Ok((event, before, after))
}

async fn read(thread: &ThreadHandle, seq: Seq) -> Result<RecordedEvent, Failure> {
    let (store, id) = (thread.runtime().store(), thread.id());
    let read = tokio::task::spawn_blocking(move || store.record(id, seq));
    let record = read.await.map_err(Failure::other)?.map_err(rethread::errors::ReadError::from)?;
    let record = record.ok_or_else(|| Failure::new(crate::exit::NOT_FOUND, format!("the thread has no seq {seq}")))?;
    Ok(RecordedEvent::decode(record)?)
}

fn node_from(thread: &ThreadHandle, here: Seq, last: Seq, on: bool) -> Result<Option<Seq>, Failure> {
    let (store, id) = (thread.runtime().store(), thread.id());
    match on {
        true => first_node(store.records(id, here.next()..last.next())),
        false => first_node(store.records_back(id, Seq(0)..here)),
    }
}

fn first_node(records: impl Iterator<Item = Result<Record, StoreError>>) -> Result<Option<Seq>, Failure> {
    for record in records {
        let recorded = RecordedEvent::decode(record.map_err(rethread::errors::ReadError::from)?)?;
        if matches!(recorded.event, Event::NodeStarted(_)) {
            return Ok(Some(recorded.record.seq));
        }
    }
    Ok(None)
}
