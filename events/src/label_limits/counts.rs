//! The counts of each label, and whether more may begin.

use std::collections::{BTreeMap, VecDeque};

use super::rules::{LabelLimit, LabelLimitReached, LabelLimits, Settings, UNKNOWN_CALL_TOKENS, label};
use super::spent::Spent;
use crate::ids::{ThreadId, Time};
use crate::labels::{LabelError, Labels};

const MINUTE_US: u64 = 60_000_000;
const DAY_US: u64 = 86_400_000_000;
/// When to retry if threads have to end first: nothing says when they do.
const THREADS_RETRY_S: u64 = 5;
/// How many labels are counted before those that count nothing any more are dropped.
const DROP_AT: usize = 1_024;

/// The counts of the labels of a log. Asking and counting are one step ([`LabelCounts::begin`]), so two starts at once are
/// not both the last one that fits.
#[derive(Debug, Default)]
pub struct LabelCounts {
    settings: Settings,
    pub(super) counts: BTreeMap<(String, String), Counts>,
    n_counts_max: usize,
    series: BTreeMap<String, BTreeMap<String, Series>>,
    rest: BTreeMap<String, Series>,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Threads that have not ended, and those that are about to begin.
    threads: BTreeMap<ThreadId, Presence>,
    /// When starts of the last minute were requested.
    starts: VecDeque<Time>,
    /// The day of the tokens, in days since 1970.
    day: u64,
    tokens: u64,
}

#[derive(Debug, Default)]
struct Presence {
    is_open: bool,
    n_beginning: u32,
}

/// The counts for one value of a label since the process started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Series {
    n_starts: u64,
    spent: Spent,
}

/// The counts of one value of a label, for metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LabelSeries {
    /// The key of the label.
    pub key: String,
    /// Its value; `None` for all values together that have no series of their own.
    pub value: Option<String>,
    /// Threads that have not ended, branches not counted.
    pub live_threads: u64,
    /// Threads, forks and further runs that began since the process started.
    pub n_starts: u64,
    /// The usage of model calls since then.
    pub spent: Spent,
}

/// The value of the group for other values in metrics: a label with this value has no series of its own.
const REST: &str = "other";

impl LabelCounts {
    /// Creates counts for these limits, see [`super::check`], and for metrics of these keys, with at most this many
    /// values of each.
    ///
    /// # Errors
    /// If a limit is neither for a key nor for a label, or a key of metrics is none.
    pub fn new(
        limits: &BTreeMap<String, LabelLimits>,
        metrics: impl IntoIterator<Item = String>,
        values_max: usize,
    ) -> Result<Self, LabelError> {
        let mut settings = Settings { values_max, ..Settings::default() };
        for (of, limits) in limits {
            match label(of)? {
                (key, None) => settings.of_keys.insert(key, *limits),
                (key, Some(value)) => settings.of_labels.insert((key, value), *limits),
            };
        }
        for key in metrics {
            Labels::new().with(key.as_str(), "value")?;
            settings.metrics.insert(key);
        }
        Ok(Self { settings, n_counts_max: DROP_AT, ..Self::default() })
    }

    /// Returns whether nothing is counted.
    pub fn is_off(&self) -> bool {
        let Settings { of_keys, of_labels, metrics, .. } = &self.settings;
        of_keys.is_empty() && of_labels.is_empty() && metrics.is_empty()
    }

    /// Returns whether tokens are limited.
    pub fn limits_tokens(&self) -> bool {
        let Settings { of_keys, of_labels, .. } = &self.settings;
        of_keys.values().chain(of_labels.values()).any(|limits| limits.tokens_per_day.is_some())
    }

    /// Returns whether the tokens of these labels are limited.
    pub fn limits_tokens_of(&self, labels: &Labels) -> bool {
        labels.iter().any(|(key, value)| self.settings.limits(key, value).tokens_per_day.is_some())
    }

    /// The time from which on tokens count.
    pub fn day_began(now: Time) -> Time {
        Time::from_unix_us(now.unix_us() / DAY_US * DAY_US)
    }

    /// The time from which on starts count.
    pub fn minute_began(now: Time) -> Time {
        Time::from_unix_us(now.unix_us().saturating_sub(MINUTE_US))
    }

    /// Returns whether labels of one of these keys are counted.
    pub fn counts(&self, labels: &Labels) -> bool {
        self.counted(labels).next().is_some()
    }

    fn counted<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = (String, String)> + 'a {
        labels
            .iter()
            .filter(|(key, _)| self.settings.counts(key))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
    }

    /// Counts a start of a thread with these labels, or of a further run of it, if none of their limits is reached.
    /// [`LabelCounts::begun`] receives the result.
    ///
    /// # Errors
    /// The first limit that is reached, in the order of the keys. Nothing is counted then.
    pub fn begin(&mut self, thread: ThreadId, labels: &Labels, now: Time) -> Result<(), LabelLimitReached> {
        let counted: Vec<_> = self.counted(labels).collect();
        for of in &counted {
            let limits = self.settings.limits(&of.0, &of.1);
            self.counts.get_mut(of).map_or(Ok(()), |counts| counts.check(of, &limits, thread, now))?;
        }
        for of in counted {
            let limits = self.settings.limits(&of.0, &of.1);
            let counts = self.counts.entry(of).or_default();
            counts.threads.entry(thread).or_default().n_beginning += 1;
            if limits.starts_per_minute.is_some() {
                counts.starts.push_back(now);
            }
        }
        self.drop_empty(now);
        Ok(())
    }

    /// A start that [`LabelCounts::begin`] counted at `asked` is over: it was accepted, and the thread is counted by
    /// [`LabelCounts::set_open`], or it was not.
    pub fn begun(&mut self, thread: ThreadId, labels: &Labels, asked: Time, is_accepted: bool) {
        for of in self.counted(labels).collect::<Vec<_>>() {
            if let Some(counts) = self.counts.get_mut(&of) {
                counts.change(thread, |presence| presence.n_beginning = presence.n_beginning.saturating_sub(1));
                if !is_accepted && let Some(place) = counts.starts.iter().rposition(|at| *at == asked) {
                    counts.starts.remove(place);
                }
            }
            if is_accepted && let Some(series) = self.series(&of) {
                series.n_starts += 1;
            }
        }
    }

    /// Counts a start that the log has, from before the process began or of another process.
    pub fn began_before(&mut self, labels: &Labels, at: Time) {
        for of in self.counted(labels).collect::<Vec<_>>() {
            if self.settings.limits(&of.0, &of.1).starts_per_minute.is_some() {
                let starts = &mut self.counts.entry(of).or_default().starts;
                let place = starts.partition_point(|before| *before <= at);
                starts.insert(place, at);
            }
        }
    }

    /// Sets whether a thread that is no branch is open, according to the log.
    pub fn set_open(&mut self, thread: ThreadId, labels: &Labels, is_open: bool) {
        for of in self.counted(labels).collect::<Vec<_>>() {
            if is_open {
                // So that it has a series of its own in metrics, if there is room.
                self.series(&of);
                self.counts.entry(of).or_default().threads.entry(thread).or_default().is_open = true;
            } else if let Some(counts) = self.counts.get_mut(&of) {
                counts.change(thread, |presence| presence.is_open = false);
            }
        }
    }

    /// A thread was deleted: it is not open, whatever its labels were. Reads the counts of all labels.
    pub fn deleted(&mut self, thread: ThreadId) {
        self.counts.values_mut().for_each(|counts| counts.change(thread, |presence| presence.is_open = false));
    }

    /// Counts what model calls of a thread with these labels used, now.
    pub fn spend(&mut self, labels: &Labels, spent: &Spent, now: Time) {
        self.spent_before(labels, spent, now);
        for of in self.counted(labels).collect::<Vec<_>>() {
            if let Some(series) = self.series(&of) {
                series.spent.n_calls += spent.n_calls;
                series.spent.usage.add(&spent.usage);
                series.spent.n_unknown += spent.n_unknown;
                series.spent.n_counted += spent.n_counted;
                series.spent.cost_nanousd = series.spent.cost_nanousd.saturating_add(spent.cost_nanousd);
                series.spent.n_unpriced += spent.n_unpriced;
            }
        }
    }

    /// Counts what the log says was used in the day of `now`, from before the process began or by another process.
    pub fn spent_before(&mut self, labels: &Labels, spent: &Spent, now: Time) {
        for of in self.counted(labels).collect::<Vec<_>>() {
            let limits = self.settings.limits(&of.0, &of.1);
            if limits.tokens_per_day.is_some() {
                let counts = self.counts.entry(of).or_default();
                let tokens = spent.tokens(limits.unknown_call_tokens.unwrap_or(UNKNOWN_CALL_TOKENS));
                counts.tokens = counts.tokens_of(now).saturating_add(tokens);
                counts.day = counts.day.max(day(now));
            }
        }
    }

    /// Returns the limit of tokens that a label has reached. No model call begins then.
    pub fn tokens_reached(&self, labels: &Labels, now: Time) -> Option<LabelLimitReached> {
        self.counted(labels).find_map(|of| {
            let limits = self.settings.limits(&of.0, &of.1);
            self.counts.get(&of)?.check_tokens(&of, &limits, now).err()
        })
    }

    /// Returns the counts of the values that have a series of their own in metrics.
    pub fn metrics(&self) -> Vec<LabelSeries> {
        let mut all = Vec::new();
        for key in &self.settings.metrics {
            let own = self.series.get(key);
            let is_own = |value: &str| own.is_some_and(|own| own.contains_key(value));
            let (mut live, mut rest_live) = (BTreeMap::<&str, u64>::new(), 0);
            for ((_, value), counts) in
                self.counts.range((key.clone(), String::new())..).take_while(|((of, _), _)| of == key)
            {
                let n = counts.threads.values().filter(|presence| presence.is_open).count() as u64;
                if is_own(value) {
                    live.insert(value, n);
                } else {
                    rest_live += n;
                }
            }
            for (value, series) in own.into_iter().flatten() {
                let live_threads = live.get(value.as_str()).copied().unwrap_or(0);
                all.push(series.of(key, Some(value), live_threads));
            }
            let rest = self.rest.get(key);
            if rest.is_some() || rest_live > 0 {
                all.push(rest.cloned().unwrap_or_default().of(key, None, rest_live));
            }
        }
        all
    }

    /// Where a label is counted for metrics: its own series, while there is room for one more, or that of the rest.
    fn series(&mut self, (key, value): &(String, String)) -> Option<&mut Series> {
        if !self.settings.metrics.contains(key) {
            return None;
        }
        let own = self.series.entry(key.clone()).or_default();
        if value != REST && (own.contains_key(value) || own.len() < self.settings.values_max) {
            return Some(own.entry(value.clone()).or_default());
        }
        Some(self.rest.entry(key.clone()).or_default())
    }

    /// Values of labels come from callers: those with only zero counts are dropped.
    fn drop_empty(&mut self, now: Time) {
        if self.counts.len() < self.n_counts_max {
            return;
        }
        self.counts.retain(|_, counts| {
            counts.forget_starts(now);
            !counts.threads.is_empty() || !counts.starts.is_empty() || counts.tokens_of(now) > 0
        });
        self.n_counts_max = (self.counts.len() * 2).max(DROP_AT);
    }
}

fn day(at: Time) -> u64 {
    at.unix_us() / DAY_US
}

impl Series {
    fn of(&self, key: &str, value: Option<&str>, live_threads: u64) -> LabelSeries {
        let (key, value) = (key.to_owned(), value.map(str::to_owned));
        LabelSeries { key, value, live_threads, n_starts: self.n_starts, spent: self.spent }
    }
}

impl Counts {
    fn check(
        &mut self,
        of: &(String, String),
        limits: &LabelLimits,
        thread: ThreadId,
        now: Time,
    ) -> Result<(), LabelLimitReached> {
        let is_more = !self.threads.contains_key(&thread);
        let n = self.threads.len() as u64;
        if let Some(n_max) = limits.live_threads_max.filter(|n_max| is_more && n >= *n_max) {
            return Err(reached(of, LabelLimit::LiveThreadsMax, n_max, THREADS_RETRY_S));
        }
        self.forget_starts(now);
        let n = self.starts.len() as u64;
        if let Some(n_max) = limits.starts_per_minute.filter(|n_max| n >= *n_max) {
            // There is room when enough of them are dropped that fewer than the limit are left.
            let first = usize::try_from(n - n_max).ok().and_then(|place| self.starts.get(place));
            let until = first.map_or(0, |first| first.unix_us().saturating_add(MINUTE_US));
            let wait_us = until.saturating_sub(now.unix_us());
            return Err(reached(of, LabelLimit::StartsPerMinute, n_max, wait_us.div_ceil(1_000_000)));
        }
        self.check_tokens(of, limits, now)
    }

    /// Changes what is known of a thread; one that neither is open nor begins is not counted any more.
    fn change(&mut self, thread: ThreadId, change: impl FnOnce(&mut Presence)) {
        if let Some(presence) = self.threads.get_mut(&thread) {
            change(presence);
            if !presence.is_open && presence.n_beginning == 0 {
                self.threads.remove(&thread);
            }
        }
    }

    fn check_tokens(&self, of: &(String, String), limits: &LabelLimits, now: Time) -> Result<(), LabelLimitReached> {
        let tokens = self.tokens_of(now);
        let Some(n_max) = limits.tokens_per_day.filter(|n_max| tokens >= *n_max) else { return Ok(()) };
        let wait_us = (self.day.saturating_add(1)).saturating_mul(DAY_US).saturating_sub(now.unix_us());
        Err(reached(of, LabelLimit::TokensPerDay, n_max, wait_us.div_ceil(1_000_000)))
    }

    /// If the clock is set back, the day does not begin again.
    fn tokens_of(&self, now: Time) -> u64 {
        if day(now) > self.day { 0 } else { self.tokens }
    }

    fn forget_starts(&mut self, now: Time) {
        let before = LabelCounts::minute_began(now);
        while self.starts.pop_front_if(|at| *at <= before).is_some() {}
    }
}

fn reached(of: &(String, String), limit: LabelLimit, n_max: u64, retry_after_s: u64) -> LabelLimitReached {
    LabelLimitReached { label: format!("{}={}", of.0, of.1), limit, n_max, retry_after_s: retry_after_s.max(1) }
}
