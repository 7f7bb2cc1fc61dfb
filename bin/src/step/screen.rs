//! The screen for one event of a thread.

use rethread::{RecordedEvent, State};

use super::walk::Walk;
use crate::diff::changes::{self, Change};
use crate::{events, output, replay};

const KEYS: &str = "→ space next  ← back  n p node  g seq  Home End  q quit";

/// The lines of a screen of that size, none wider or more than it has.
pub(crate) fn of(walk: &Walk, typed: Option<&str>, width: usize, height: usize) -> Vec<String> {
    let changes: Vec<_> = changes::between(&walk.before, &walk.after).iter().map(Change::line).collect();
    let page = Page { event: &walk.event, changes, after: &walk.after, last: walk.last.0, typed };
    page.lines(width.max(20), height.max(8))
}

/// A place in a thread as it is to be shown.
pub(crate) struct Page<'a> {
    pub(crate) event: &'a RecordedEvent,
    pub(crate) changes: Vec<String>,
    pub(crate) after: &'a State,
    pub(crate) last: u64,
    pub(crate) typed: Option<&'a str>,
}

impl Page<'_> {
    pub(crate) fn lines(&self, width: usize, height: usize) -> Vec<String> {
        let record = &self.event.record;
        let state = self.after;
        let node = state.node_name().map(|node| format!(", node {node}")).unwrap_or_default();
        let mut lines = vec![
            format!("{}  {} of {}  {}", self.event.name(), record.seq, self.last, record.recorded_at),
            format!("thread {}: {}{node}", record.thread, state.status()),
            events::summary(&self.event.event),
            String::new(),
        ];
        let room = height - lines.len() - 1;
        // What changed has first call on the room, then the event's data, then what was said.
        let n_changes = self.changes.len().min((room * 3 / 5).max(3));
        if self.changes.is_empty() {
            lines.push("changes nothing in the state".into());
        } else {
            lines.extend(self.changes[..n_changes].iter().cloned());
            if self.changes.len() > n_changes {
                lines.push(format!("  and {} more", self.changes.len() - n_changes));
            }
        }
        lines.push(String::new());
        let data = self.event.event.data().unwrap_or_default();
        let data = format!("{data:#}");
        let data: Vec<_> = data.lines().collect();
        let said: Vec<_> = state
            .conversation()
            .entries
            .iter()
            .rev()
            .take(3)
            .map(|entry| {
                let (who, said) = replay::said(&entry.message);
                format!("{who:<10}{said}")
            })
            .collect();
        let left = (height - 1).saturating_sub(lines.len());
        let n_said = said.len().min(left / 3);
        let n_data = data.len().min(left.saturating_sub(n_said + usize::from(n_said > 0)));
        lines.extend(data[..n_data].iter().map(|line| (*line).to_owned()));
        if n_said > 0 {
            lines.push(String::new());
            lines.extend(said[..n_said].iter().rev().cloned());
        }
        lines.truncate(height - 1);
        lines.resize(height - 1, String::new());
        lines.push(match self.typed {
            Some(typed) => format!("go to seq: {typed}_   Enter goes, Esc stays"),
            None => KEYS.to_owned(),
        });
        lines.iter().map(|line| output::sanitize_indented(line, width - 1)).collect()
    }
}
