//! When threads are started by themselves: by a cron expression or at an interval, and what happens to a start whose time
//! has passed, or that finds the thread before it still running.
//!
//! A start belongs to a *tick*: the time that the schedule names. The tick gives the thread its id
//! ([`ScheduleState::thread_of`]), so it starts one thread however often it is tried.

use croner::Cron;
use croner::parser::{CronParser, Year};
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::ids::{ThreadId, Time};
use crate::json::Json;
use crate::labels::Labels;
use crate::workflow::{is_signal_name, time_zone};

/// The most schedules of a log.
pub const SCHEDULES_MAX: usize = 1_000;
/// The shortest interval, in milliseconds.
pub const EVERY_MS_MIN: u64 = 1_000;
/// The longest interval, in milliseconds: 10 years of 365 days.
pub const EVERY_MS_MAX: u64 = 10 * 365 * 24 * 60 * 60 * 1_000;
/// The most ticks that wait for the thread before them to end.
pub const WAITING_MAX: usize = 100;
/// The tolerance of a tick in milliseconds: a tick that is handled within it is on time, a later one is missed.
pub const LATE_MS: u64 = 60_000;
pub use crate::labels::SCHEDULE_LABEL;

/// The variable that each thread of a schedule has: its tick, as RFC 3339.
pub const SCHEDULED_AT: &str = "scheduled_at";

/// How many ticks are handled at a time.
const BATCH: usize = 64;
/// How many distances of ticks the jitter is compared with.
const GAPS_CHECKED: usize = 100;
const CRON_BYTES_MAX: usize = 200;

/// When threads of a workflow are started. Exactly one of `cron` and `every_ms` is given.
///
/// ```
/// use rethread_events::ids::Time;
/// use rethread_events::schedule::Schedule;
///
/// let schedule: Schedule = serde_json::from_str(
///     r#"{"workflow": "report", "cron": "0 7 * * MON-FRI", "zone": "Europe/Berlin"}"#,
/// )?;
/// let friday: Time = "2026-11-27T12:00:00Z".parse()?;
/// let times = schedule.times(friday)?;
/// assert_eq!(times.next(friday), Some("2026-11-30T06:00:00Z".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "utoipa", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The name of the workflow. Each start takes its newest definition.
    pub workflow: String,
    /// The input of each thread; null when absent.
    #[serde(default)]
    #[cfg_attr(feature = "utoipa", schema(value_type = serde_json::Value))]
    pub input: Json,
    /// A cron expression: minute, hour, day of the month, month, day of the week, with the second before them if there are
    /// six. `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`; `L` for the last day, `#2` for the second one of that day
    /// of the week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// An interval in milliseconds, counted from `from`, or from when the schedule was made; 1 000 at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// The time zone of `cron`, as IANA names it, such as `Europe/Berlin`; `UTC` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// No tick before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "utoipa", schema(value_type = Option<String>, format = DateTime))]
    pub from: Option<Time>,
    /// No tick after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "utoipa", schema(value_type = Option<String>, format = DateTime))]
    pub until: Option<Time>,
    /// What happens when the last thread of the schedule has not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// What happens to ticks that were missed by more than a minute, because nothing ran.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// Each start is later than its tick by 0 to so many milliseconds, the same for a tick each time; at most the shortest
    /// time between two ticks.
    #[serde(default)]
    pub jitter_ms: u64,
    /// The labels of each thread, besides `schedule` with the name of the schedule.
    #[serde(default)]
    #[cfg_attr(feature = "utoipa", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub labels: Labels,
}

/// What happens at a tick when the last thread of the schedule has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "utoipa", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Nothing is started.
    #[default]
    Skip,
    /// The start waits until that thread has ended. At most [`WAITING_MAX`] wait; further ones are skipped.
    Queue,
    /// That thread is cancelled, and the next one started.
    CancelOld,
    /// Both run.
    Allow,
}

/// What happens to ticks that were missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "utoipa", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// The last one is started, if no other tick is due.
    #[default]
    Last,
    /// Each is started, the oldest first.
    All,
    /// None is started.
    Skip,
}

/// The action at a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtTick {
    /// Start the thread.
    Start,
    /// Cancel the last thread, then start.
    CancelAndStart,
    /// Start when the last thread has ended.
    Wait,
    /// Start nothing.
    Skip,
}

/// A tick that could not be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "utoipa", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TickFailure {
    /// The tick.
    #[cfg_attr(feature = "utoipa", schema(value_type = String, format = DateTime))]
    pub tick: Time,
    /// Why.
    pub error: String,
}

/// A schedule of a log, and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "utoipa", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ScheduleState {
    /// Its name: 1 to 64 of a-z, A-Z, 0-9, `.`, `_` and `-`.
    pub name: String,
    /// When threads are started.
    pub schedule: Schedule,
    /// When it was made. A schedule that is removed and made again is another one.
    #[cfg_attr(feature = "utoipa", schema(value_type = String, format = DateTime))]
    pub created_at: Time,
    /// Whether it starts nothing at present. The ticks of a pause are not caught up.
    pub is_paused: bool,
    /// Ticks up to this time are done with.
    #[cfg_attr(feature = "utoipa", schema(value_type = String, format = DateTime))]
    pub done_until: Time,
    /// Ticks that wait for the thread before them to end.
    #[cfg_attr(feature = "utoipa", schema(value_type = Vec<String>))]
    pub waiting: Vec<Time>,
    /// The thread of the last tick that was started.
    #[cfg_attr(feature = "utoipa", schema(value_type = Option<String>))]
    pub last_thread: Option<ThreadId>,
    /// How many ticks were started.
    pub n_started: u64,
    /// How many ticks started nothing, because the last thread ran. Missed ones are not counted.
    pub n_skipped: u64,
    /// How many ticks failed, each for good.
    pub n_failed: u64,
    /// The last tick that failed.
    pub last_failure: Option<TickFailure>,
}

/// The ticks of a schedule.
#[derive(Debug, Clone)]
pub struct Times {
    rule: Rule,
    from: Time,
    until: Time,
}

#[derive(Debug, Clone)]
enum Rule {
    Cron(Box<Cron>, TimeZone),
    /// Microseconds.
    Every(u64),
}

impl Schedule {
    /// Its ticks, counted from when it was made.
    ///
    /// # Errors
    /// The fault, for a person.
    pub fn times(&self, created_at: Time) -> Result<Times, String> {
        let rule = match (&self.cron, self.every_ms) {
            (Some(cron), None) => Rule::Cron(Box::new(parse(cron)?), time_zone(self.zone.as_deref().unwrap_or("UTC"))?),
            (None, Some(ms)) if (EVERY_MS_MIN..=EVERY_MS_MAX).contains(&ms) => Rule::Every(ms * 1_000),
            (None, Some(ms)) => {
                return Err(format!("`every_ms` is {ms}: between {EVERY_MS_MIN} and {EVERY_MS_MAX} are possible"));
            }
            (None, None) => return Err("it says no time: give `cron` or `every_ms`".into()),
            (Some(_), Some(_)) => return Err("`cron` and `every_ms` exclude each other: give one".into()),
        };
        if self.every_ms.is_some() && self.zone.is_some() {
            return Err("`zone` belongs to `cron`: an interval is the same in every zone".into());
        }
        Ok(Times {
            rule,
            from: self.from.unwrap_or(created_at),
            until: self.until.unwrap_or(Time::from_unix_us(u64::MAX)),
        })
    }

    /// The fault, as far as it can be found without a log.
    fn check(&self, now: Time) -> Result<(), String> {
        let times = self.times(now)?;
        times.next(now).ok_or("it has no tick after now: see `cron`, `from` and `until`")?;
        if self.jitter_ms > 0 {
            let gaps = times.after(now).zip(times.after(now).skip(1)).take(GAPS_CHECKED);
            let shortest = gaps.map(|(tick, next)| next.ms_since(tick)).min();
            if let Some(gap_ms) = shortest.filter(|gap_ms| self.jitter_ms > *gap_ms) {
                return Err(format!(
                    "`jitter_ms` is {}, more than the {gap_ms} between two of its ticks",
                    self.jitter_ms
                ));
            }
        }
        if self.labels.get(SCHEDULE_LABEL).is_some() {
            return Err(format!("the label `{SCHEDULE_LABEL}` is given by the schedule: leave it out"));
        }
        self.labels.clone().with(SCHEDULE_LABEL, "name").map(drop).map_err(|error| error.to_string())
    }
}

fn parse(cron: &str) -> Result<Cron, String> {
    let wrong = |why: String| {
        let shown = crate::text::head(cron, 80);
        format!("`{shown}` is no cron expression such as `0 7 * * MON-FRI`: {why}")
    };
    if cron.len() > CRON_BYTES_MAX || !cron.is_ascii() {
        return Err(wrong(format!("it has more than {CRON_BYTES_MAX} characters, or others than ASCII")));
    }
    let parser = CronParser::builder().year(Year::Disallowed).build();
    parser.parse(cron).map_err(|error| wrong(error.to_string()))
}

impl Times {
    /// The first tick after this moment.
    pub fn next(&self, after: Time) -> Option<Time> {
        // `from` itself may be a tick.
        let after = after.max(Time::from_unix_us(self.from.unix_us().saturating_sub(1)));
        let next = match &self.rule {
            Rule::Every(us) => {
                let n = (after.unix_us() + 1).saturating_sub(self.from.unix_us()).div_ceil(*us);
                Time::from_unix_us(self.from.unix_us() + n * us)
            }
            Rule::Cron(cron, zone) => time(&cron.find_next_occurrence(&second(after, zone)?, false).ok()?)?,
        };
        // At the end of the calendar there is no next one.
        (next > after && next <= self.until).then_some(next)
    }

    /// The last tick up to this moment.
    pub fn last(&self, now: Time) -> Option<Time> {
        let now = now.min(self.until);
        let last = match &self.rule {
            Rule::Every(us) => {
                let since = now.unix_us().checked_sub(self.from.unix_us())?;
                Time::from_unix_us(self.from.unix_us() + since / us * us)
            }
            Rule::Cron(cron, zone) => time(&cron.find_previous_occurrence(&second(now, zone)?, true).ok()?)?,
        };
        (last >= self.from).then_some(last)
    }

    /// The ticks after this moment.
    pub fn after(&self, after: Time) -> impl Iterator<Item = Time> {
        std::iter::successors(self.next(after), |tick| self.next(*tick))
    }
}

/// The second that this moment is in: ticks of cron expressions are whole ones.
fn second(at: Time, zone: &TimeZone) -> Option<Zoned> {
    let seconds = i64::try_from(at.unix_us() / 1_000_000).ok()?;
    Some(jiff::Timestamp::from_second(seconds).ok()?.to_zoned(zone.clone()))
}

fn time(zoned: &Zoned) -> Option<Time> {
    Some(Time::from_unix_us(u64::try_from(zoned.timestamp().as_microsecond()).ok()?))
}

impl ScheduleState {
    /// A schedule that is made now.
    ///
    /// # Errors
    /// The fault, for a person.
    pub fn new(name: impl Into<String>, schedule: Schedule, now: Time) -> Result<Self, String> {
        let name = name.into();
        if !is_signal_name(&name) {
            return Err("the name of a schedule has 1 to 64 of a-z, A-Z, 0-9, `.`, `_` and `-`".into());
        }
        schedule.check(now)?;
        Ok(Self {
            name,
            schedule,
            created_at: now,
            is_paused: false,
            done_until: now,
            waiting: Vec::new(),
            last_thread: None,
            n_started: 0,
            n_skipped: 0,
            n_failed: 0,
            last_failure: None,
        })
    }

    /// From now on it is another schedule of the same name. What was started and what waits stays.
    ///
    /// # Errors
    /// The fault, for a person. Nothing changed then.
    pub fn change(&mut self, schedule: Schedule, now: Time) -> Result<(), String> {
        schedule.check(now)?;
        self.schedule = schedule;
        self.done_until = self.done_until.max(now);
        Ok(())
    }

    /// Begins or ends a pause.
    pub fn pause(&mut self, is_paused: bool, now: Time) {
        if self.is_paused && !is_paused {
            self.done_until = self.done_until.max(now);
        }
        self.is_paused = is_paused;
    }

    /// The labels of its threads.
    pub fn labels(&self) -> Labels {
        // Checked when it was made: there is room for the label.
        self.schedule.labels.clone().with(SCHEDULE_LABEL, &self.name).unwrap_or_else(|_| self.schedule.labels.clone())
    }

    /// The id of the thread of a tick: the milliseconds of the tick and 74 bits of the blake3 hash of the schedule and the
    /// tick.
    pub fn thread_of(&self, tick: Time) -> ThreadId {
        let mut random = [0; 10];
        random.copy_from_slice(&self.hash(tick)[..10]);
        ThreadId::new(tick.unix_us() / 1_000, random)
    }

    /// When the thread of a tick is started.
    fn due_at(&self, tick: Time) -> Time {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.hash(tick)[10..18]);
        tick.plus_ms(u64::from_be_bytes(bytes) % (self.schedule.jitter_ms.saturating_add(1)))
    }

    fn hash(&self, tick: Time) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"rethread schedule").update(self.name.as_bytes()).update(b"\0");
        hasher.update(&self.created_at.unix_us().to_be_bytes()).update(&tick.unix_us().to_be_bytes());
        *hasher.finalize().as_bytes()
    }

    /// Ticks whose time has come and that are not done with, the oldest first; not all of them if they are many.
    ///
    /// # Errors
    /// A fault of the schedule that it did not have when it was made: a time zone that this program does not know.
    pub fn due(&self, now: Time) -> Result<Vec<Time>, String> {
        let times = self.schedule.times(self.created_at)?;
        if self.is_paused {
            return Ok(Vec::new());
        }
        let has_come = |tick: &Time| self.due_at(*tick) <= now;
        if self.schedule.catch_up == CatchUp::All {
            return Ok(times.after(self.done_until).take_while(has_come).take(BATCH).collect());
        }
        // The ticks up to this moment are missed, with any jitter.
        let back_us = LATE_MS.saturating_add(self.schedule.jitter_ms).saturating_add(1).saturating_mul(1_000);
        let since = self.done_until.max(Time::from_unix_us(now.unix_us().saturating_sub(back_us)));
        let is_missed = |tick: &Time| now.ms_since(self.due_at(*tick)) > LATE_MS;
        let (missed, due): (Vec<_>, Vec<_>) = times.after(since).take_while(has_come).partition(is_missed);
        if !due.is_empty() || self.schedule.catch_up == CatchUp::Skip {
            return Ok(due);
        }
        let last = missed.last().copied().or_else(|| times.last(since));
        Ok(last.filter(|tick| *tick > self.done_until).into_iter().collect())
    }

    /// When the next tick that has not come is to be started.
    ///
    /// # Errors
    /// As [`ScheduleState::due`].
    pub fn next_due(&self, now: Time) -> Result<Option<Time>, String> {
        let times = self.schedule.times(self.created_at)?;
        let jitter_us = self.schedule.jitter_ms.saturating_mul(1_000);
        let since = self.done_until.max(Time::from_unix_us(now.unix_us().saturating_sub(jitter_us)));
        let next = times.after(since).map(|tick| self.due_at(tick)).find(|due| *due > now);
        Ok(next.filter(|_| !self.is_paused))
    }

    /// The next ticks, whether or not it is paused.
    ///
    /// # Errors
    /// As [`ScheduleState::due`].
    pub fn upcoming(&self, now: Time, n: usize) -> Result<Vec<Time>, String> {
        Ok(self.schedule.times(self.created_at)?.after(self.done_until.max(now)).take(n).collect())
    }

    /// Returns the action at a tick, depending on whether the last thread runs.
    pub fn at_tick(&self, last_runs: bool) -> AtTick {
        match self.schedule.overlap {
            Overlap::Allow => AtTick::Start,
            Overlap::Queue if self.waiting.len() >= WAITING_MAX => AtTick::Skip,
            // In the order of their times.
            Overlap::Queue if last_runs || !self.waiting.is_empty() => AtTick::Wait,
            Overlap::Skip if last_runs => AtTick::Skip,
            Overlap::CancelOld if last_runs => AtTick::CancelAndStart,
            Overlap::Queue | Overlap::Skip | Overlap::CancelOld => AtTick::Start,
        }
    }

    /// A tick was started.
    pub fn started(&mut self, tick: Time) {
        self.done_with(tick);
        self.last_thread = Some(self.thread_of(tick));
        self.n_started += 1;
    }

    /// A tick starts nothing.
    pub fn skipped(&mut self, tick: Time) {
        self.done_with(tick);
        self.n_skipped += 1;
    }

    /// A tick waits until the last thread has ended.
    pub fn waits(&mut self, tick: Time) {
        self.done_with(tick);
        self.waiting.push(tick);
    }

    /// A tick cannot be started, also not later.
    pub fn failed(&mut self, tick: Time, error: impl Into<String>) {
        self.done_with(tick);
        self.n_failed += 1;
        self.last_failure = Some(TickFailure { tick, error: error.into() });
    }

    fn done_with(&mut self, tick: Time) {
        self.done_until = self.done_until.max(tick);
        self.waiting.retain(|waiting| *waiting != tick);
    }
}

#[cfg(test)]
mod tests;
