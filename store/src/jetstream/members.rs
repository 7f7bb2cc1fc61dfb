//! The processes that write the log: one alone, or several that joined. A change of them is a message of the stream, which
//! is published only if no other change came meanwhile.
//!
//! A process that joined reports to the bucket of the lease, see `nodes`. Once its reports have run out, another member takes
//! it out, and the rules divide its slots among those that are left.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use tokio::sync::watch;

use super::applier::{Members, Progress};
use super::connection::{Connection, last_sequence, patiently};
use super::lease::{self, Lease};
use super::message::{Change, ChangeKind};
use super::options::JetStreamOptions;
use super::subject::Subject;
use super::{PAUSE, STALLED_MAX, nodes, random_id};
use crate::disk::queue::Queue;
use crate::error::StoreError;
use crate::slots::{SLOTS, Share, Slot, Slots};

/// How long leaving may take: another member takes this one out if it does not succeed.
pub(super) const LEAVE_MAX: Duration = Duration::from_secs(2);

impl Share {
    pub(super) fn of(members: &Members, epoch: Option<u64>) -> Self {
        let slots = epoch.map(|epoch| members.slots_of(epoch)).unwrap_or_default();
        let fair = SLOTS.div_ceil(members.members.len().max(1));
        Self { slots, n_excess: slots.len().saturating_sub(fair) }
    }
}

impl Members {
    /// The slots of a member.
    fn slots_of(&self, epoch: u64) -> Slots {
        let of = (0..=u8::MAX).zip(&self.slots).filter(|(_, owner)| **owner == epoch);
        of.map(|(slot, _)| Slot(slot)).collect()
    }

    /// Divides slots of a member among the others, so that those with the fewest get the most.
    fn shares(&self, from: u64, slots: &Slots) -> Vec<(u64, Vec<u8>)> {
        let others = self.members.keys().filter(|epoch| **epoch != from);
        let mut others: Vec<_> = others.map(|epoch| (self.slots_of(*epoch).len(), *epoch, Vec::new())).collect();
        for slot in slots.iter() {
            if let Some((n, _, given)) = others.iter_mut().min_by_key(|(n, epoch, _)| (*n, *epoch)) {
                *n += 1;
                given.push(slot.0);
            }
        }
        others.into_iter().filter(|(_, _, given)| !given.is_empty()).map(|(_, epoch, given)| (epoch, given)).collect()
    }
}

/// What an opening of the log knows of its members.
#[derive(Clone)]
pub(super) struct Membership {
    pub(super) connection: Connection,
    /// The id of the opening.
    pub(super) opening: [u8; 16],
    pub(super) replica: [u8; 16],
    pub(super) queue: Arc<Queue>,
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) members: watch::Receiver<Members>,
}

impl Membership {
    /// Writes the log alone from here on. The caller has the lease.
    ///
    /// Errors: `Locked` if processes that joined still report after one and a half times a lease, or
    /// if another one took it over; `Closed`.
    pub(super) async fn take_over(&self, options: &JetStreamOptions) -> Result<(), StoreError> {
        let bucket = patiently(|| lease::open(&self.connection, options)).await?;
        let until = Instant::now() + lease::duration(&self.connection, &bucket).await?.mul_f32(1.5);
        let mut first = None;
        self.change(async |members| {
            if self.own(members).is_some() {
                return Ok(None);
            }
            for member in members.members.values().filter(|member| !member.is_alone && member.replica != self.replica) {
                while nodes::is_there(&self.connection, options, &member.replica).await? {
                    self.wait_for(&member.holder, until)?;
                    tokio::time::sleep(PAUSE).await;
                }
            }
            let begun = *first.get_or_insert(members.changed);
            if let Some((_, later)) = members.members.iter().find(|(epoch, member)| member.is_alone && **epoch > begun)
            {
                return Err(self.locked(later.holder.clone()));
            }
            Ok(Some(ChangeKind::TakeOver { holder: self.connection.name_of_process() }))
        })
        .await
    }

    /// Writes the log beside others from here on.
    ///
    /// Errors: `Locked` if a process has it alone.
    pub(super) async fn join(&self, options: &JetStreamOptions) -> Result<(), StoreError> {
        let mut lease = None;
        let joined = self.change(async |members| {
            if self.own(members).is_some() {
                return Ok(None);
            }
            let Some((epoch, _)) = members.members.iter().find(|(_, member)| member.is_alone) else {
                return Ok(Some(ChangeKind::Join { replica: self.replica, holder: self.connection.name_of_process() }));
            };
            if lease.is_none() {
                // That it can be had says that the process has ended.
                let check = || self.queue.check_open();
                lease = Some(Lease::take(&self.connection, options, &self.replica, check).await?);
            }
            Ok(Some(ChangeKind::Leave { epoch: *epoch }))
        });
        let joined = joined.await;
        if lease.is_some() {
            lease::release(&self.connection, &self.replica).await;
        }
        joined
    }

    /// Writes no more: the others get its slots.
    pub(super) async fn leave(&self) -> Result<(), StoreError> {
        self.change(async |members| Ok(self.own(members).map(|epoch| ChangeKind::Leave { epoch }))).await
    }

    /// Gives slots of this process to those with the fewest. The caller has seen to it that nothing of their threads runs.
    pub(super) async fn give(&self, slots: &Slots) -> Result<(), StoreError> {
        self.change(async |members| {
            let Some(from) = self.own(members) else { return Ok(None) };
            let left: Slots = slots.iter().filter(|slot| members.slots_of(from).has(*slot)).collect();
            let next = members.shares(from, &left).into_iter().next();
            Ok(next.map(|(to, slots)| ChangeKind::Give { from, to, slots }))
        })
        .await
    }

    /// Takes out members that report no more, until the task is aborted.
    pub(super) async fn watch(self, options: JetStreamOptions) {
        let bucket = patiently(|| lease::open(&self.connection, &options)).await;
        let lease = match bucket {
            Ok(bucket) => lease::duration(&self.connection, &bucket).await.unwrap_or(options.lease),
            Err(_) => options.lease,
        };
        // A server that lags may not have the last report yet: one look is not enough.
        let mut missed: Vec<u64> = Vec::new();
        loop {
            tokio::time::sleep(lease / 6).await;
            let members = self.members.borrow().clone();
            let own = self.own(&members);
            let mut missing = Vec::new();
            for (epoch, member) in members.members.iter().filter(|(epoch, _)| own.is_some_and(|own| own != **epoch)) {
                if let Ok(false) = nodes::is_there(&self.connection, &options, &member.replica).await {
                    missing.push(*epoch);
                }
            }
            for epoch in missing.iter().filter(|epoch| missed.contains(epoch)) {
                let name = members.members.get(epoch).map_or("", |member| &member.holder);
                match self.take_out(*epoch).await {
                    Ok(false) => {}
                    Ok(true) => {
                        self.connection.stats.taken_out.fetch_add(1, Ordering::Relaxed);
                        tracing::warn!("{name} does not report any more: its threads go on elsewhere");
                    }
                    Err(error) => tracing::warn!(%error, "{name} does not report any more, and still has its threads"),
                }
            }
            missed = missing;
        }
    }

    /// Takes another member out, unless it is out already. If another change came first, the next look says whether it is still there.
    async fn take_out(&self, epoch: u64) -> Result<bool, StoreError> {
        let (members, last) = self.latest().await?;
        if !members.members.contains_key(&epoch) || self.own(&members).is_none() {
            return Ok(false);
        }
        self.publish(&Change { id: random_id(), kind: ChangeKind::Leave { epoch } }, last).await?;
        Ok(true)
    }

    /// How many slots of threads this process has.
    pub(super) fn n_slots(&self) -> usize {
        let members = self.members.borrow();
        self.own(&members).map_or(0, |epoch| members.slots_of(epoch).len())
    }

    /// The slots of each other member.
    pub(super) fn others(&self) -> Vec<Slots> {
        let members = self.members.borrow();
        let own = self.own(&members);
        members.members.keys().filter(|epoch| own != Some(**epoch)).map(|epoch| members.slots_of(*epoch)).collect()
    }

    fn own(&self, members: &Members) -> Option<u64> {
        members.members.iter().find(|(_, member)| member.opening == self.opening).map(|(epoch, _)| *epoch)
    }

    /// Whether this process does what one member does for all.
    pub(super) fn is_oldest(&self) -> bool {
        self.members.borrow().members.values().next().is_some_and(|member| member.opening == self.opening)
    }

    /// Whether to wait longer for a process that has the log.
    fn wait_for(&self, holder: &str, until: Instant) -> Result<(), StoreError> {
        self.queue.check_open()?;
        if Instant::now() > until { Err(self.locked(holder.into())) } else { Ok(()) }
    }

    fn locked(&self, holder: String) -> StoreError {
        StoreError::Locked { path: self.connection.address.clone().into(), holder }
    }

    /// Publishes changes until there is none to publish. Each is decided on by the members as of the last change.
    async fn change(
        &self,
        mut decide: impl AsyncFnMut(&Members) -> Result<Option<ChangeKind>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut deadline = None;
        loop {
            let failed = match self.latest().await {
                Ok((members, last)) => {
                    let Some(kind) = decide(&members).await? else { return Ok(()) };
                    // That of a process is the id of its opening: so it finds its own change again.
                    let is_own = matches!(kind, ChangeKind::TakeOver { .. } | ChangeKind::Join { .. });
                    let id = if is_own { self.opening } else { random_id() };
                    // The members may be of a later change: then it is not published, and the next look decides.
                    self.publish(&Change { id, kind }, last).await
                }
                Err(error) if error.is_temporary() => Err(error),
                Err(error) => return Err(error),
            };
            match failed {
                Ok(()) => deadline = None,
                Err(error) => {
                    let until = *deadline.get_or_insert_with(|| tokio::time::Instant::now() + STALLED_MAX);
                    if tokio::time::Instant::now() > until {
                        return Err(error);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Waits until the replica has what the stream has by now.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        let last =
            async || last_sequence(&self.connection.stream).await.map_err(|error| self.connection.unavailable(&error));
        let last = patiently(last).await?;
        self.reach(|progress, _| progress.sequence >= last).await
    }

    /// The members as of the last change in the stream, once the replica has come to that, and the sequence of the last message
    /// on the subject of changes. That may be one of another program, which changes nothing.
    async fn latest(&self) -> Result<(Members, u64), StoreError> {
        let found = self.connection.last_of(Subject::TakeOver).await?;
        let is_change = found.as_ref().is_none_or(|(_, payload)| Change::decode(payload).is_ok());
        let last = found.map_or(0, |(sequence, _)| sequence);
        self.reach(|progress, members| if is_change { members.changed >= last } else { progress.sequence >= last })
            .await?;
        Ok((self.members.borrow().clone(), last))
    }

    /// Waits for the replica.
    async fn reach(&self, is_there: impl Fn(&Progress, &Members) -> bool) -> Result<(), StoreError> {
        let mut progress = self.progress.clone();
        loop {
            let found = *progress.borrow_and_update();
            if is_there(&found, &self.members.borrow()) {
                return Ok(());
            }
            let closed = || self.queue.check_open().err().unwrap_or(StoreError::Closed);
            if found.is_stopped {
                return Err(closed());
            }
            match tokio::time::timeout(STALLED_MAX, progress.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(closed()),
                Err(_) => {
                    let why = format!("the stream cannot be read after message {}", found.sequence);
                    return Err(StoreError::Unavailable { log: self.connection.address.clone(), why });
                }
            }
        }
    }

    /// Publishes a change, if the last one before it is still the last one. If not, or if the answer is lost, the next look at
    /// the members says what is left to do.
    async fn publish(&self, change: &Change, last: u64) -> Result<(), StoreError> {
        let connection = &self.connection;
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, last.to_string().as_str());
        let subject = Subject::TakeOver.name(&connection.name);
        let published = connection.context.publish_with_headers(subject, headers, change.encode()).await;
        let acknowledgement = published.map_err(|error| connection.unavailable(&error))?;
        acknowledgement.await.map(drop).map_err(|error| connection.unavailable(&error))
    }
}
