//! Where the time and the money went.

use rethread::steps::{Call, CallKind, NodeResult, Spent, SpentOn};
use rethread::{State, ThreadId};

use super::lines::{count, money, part_of, short};
use super::tree::ExplainedThread;
use crate::{output, views};

/// How many of the longest and dearest calls are named.
const TOP: usize = 5;

/// A call that took long or cost much.
pub(crate) struct Top<'a> {
    thread: ThreadId,
    node: &'a NodeResult,
    call: &'a Call,
    took_ms: u64,
}

fn calls(explained: &ExplainedThread) -> Vec<Top<'_>> {
    let mut all = Vec::new();
    for explained in explained.family() {
        for node in explained.steps.results() {
            for call in node.calls().filter(|call| call.kind != CallKind::Branch) {
                let took_ms = call.ended.unwrap_or(explained.steps.last_at).ms_since(call.began);
                all.push(Top { thread: explained.thread, node, call, took_ms });
            }
        }
    }
    all
}

/// The calls that took longest, in all of the family.
pub(crate) fn longest(explained: &ExplainedThread) -> Vec<Top<'_>> {
    let mut all = calls(explained);
    all.retain(|top| top.took_ms > 0);
    all.sort_by_key(|top| std::cmp::Reverse(top.took_ms));
    all.truncate(TOP);
    all
}

/// The calls that cost most; where prices are not known, those with the most tokens.
pub(crate) fn most_expensive(explained: &ExplainedThread) -> Vec<Top<'_>> {
    let mut all = calls(explained);
    let weight = |call: &Call| {
        let usage = &call.usage;
        (call.cost_nanousd.unwrap_or(0), usage.input_tokens.unwrap_or(0) + usage.output_tokens.unwrap_or(0))
    };
    all.retain(|top| weight(top.call) > (0, 0));
    all.sort_by_key(|top| std::cmp::Reverse(weight(top.call)));
    all.truncate(TOP);
    all
}

impl Top<'_> {
    pub(crate) fn view(&self) -> views::Top {
        let call = self.call;
        views::Top {
            thread_id: self.thread,
            node: self.node.node.clone(),
            call: call.id,
            kind: call.kind,
            name: call.name.clone(),
            took_ms: self.took_ms,
            cost_nanousd: call.cost_nanousd,
            usage: call.usage,
        }
    }
}

const fn name(what: SpentOn) -> &'static str {
    match what {
        SpentOn::Model => "models",
        SpentOn::Tool => "tools",
        SpentOn::Processor => "context processors",
        SpentOn::Branches => "branches",
        SpentOn::Timer => "waiting for a time",
        SpentOn::People => "waiting for people",
        SpentOn::Queued => "waiting in a queue",
        SpentOn::Paused => "paused",
        SpentOn::Retry => "waiting to try again",
        SpentOn::Down => "not running",
        SpentOn::Itself => "rethread itself",
    }
}

fn shares(spent: &Spent) -> String {
    let total = spent.total_us().max(1);
    let mut parts: Vec<_> = SpentOn::ALL.into_iter().map(|what| (spent.on(what), what)).collect();
    parts.retain(|(us, what)| *us > 0 || *what == SpentOn::Itself);
    parts.sort_by_key(|(us, _)| std::cmp::Reverse(*us));
    let of = |(us, what): &(u64, SpentOn)| {
        // Rounded half up; a part that is there is not shown as nothing.
        let percent = (us * 100 + total / 2) / total;
        let percent = if *us > 0 && percent == 0 { "<1".to_owned() } else { percent.to_string() };
        format!("  {percent:>3} %  {:<22}{}", name(*what), micros(*us))
    };
    parts.iter().map(of).collect::<Vec<_>>().join("\n")
}

fn micros(us: u64) -> String {
    if us < 10_000 { format!("{}.{} ms", us / 1000, us / 100 % 10) } else { output::duration(us / 1000) }
}

pub(crate) fn in_words(state: &State, explained: &ExplainedThread, width: usize) -> String {
    let mut text = format!("time    {}\n{}", micros(explained.steps.spent.total_us()), shares(&explained.steps.spent));
    let family = explained.family();
    if family.len() > 1 {
        let mut inside = [0; SpentOn::ALL.len()];
        for explained in &family[1..] {
            for (sum, what) in inside.iter_mut().zip(SpentOn::ALL) {
                *sum += explained.steps.spent.on(what);
            }
        }
        let mut parts: Vec<_> = inside.into_iter().zip(SpentOn::ALL).filter(|(us, _)| *us > 0).collect();
        parts.sort_by_key(|(us, _)| std::cmp::Reverse(*us));
        let parts: Vec<_> = parts.iter().map(|(us, what)| format!("{} {}", name(*what), micros(*us))).collect();
        text.push_str(&format!(
            "\n  in {}, added up: {}",
            output::count(family.len() - 1, "branch", "branches"),
            parts.join(", ")
        ));
    }
    if explained.n_left_out > 0 {
        text.push_str(&format!("\n  {} more branches were not read", explained.n_left_out));
    }
    let totals = if explained.run.is_some() { state.run_totals() } else { *state.totals() };
    let tokens = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), count);
    text.push_str(&format!(
        "\ncost    {} in {}, {} tokens in, {} out; {}",
        totals.cost_nanousd.map_or_else(|| "not known".to_owned(), money),
        output::count(totals.n_llm_calls, "model call", "model calls"),
        tokens(totals.usage.input_tokens.or((totals.n_llm_calls == 0).then_some(0))),
        tokens(totals.usage.output_tokens.or((totals.n_llm_calls == 0).then_some(0))),
        output::count(totals.n_tool_calls, "tool call", "tool calls"),
    ));
    let cached = totals.usage.cached_input_tokens.unwrap_or(0);
    let saved = family.iter().flat_map(|explained| explained.steps.results()).flat_map(NodeResult::calls);
    let saved: i64 = saved.filter_map(|call| call.cache_saved_nanousd).fold(0, i64::saturating_add);
    if cached > 0 || saved != 0 {
        let word = if saved < 0 { "cost" } else { "saved" };
        text.push_str(&format!(
            "\ncache   {} tokens in came from the provider's cache, which {word} {}",
            count(cached),
            money(saved.unsigned_abs())
        ));
    }
    if totals.cost_nanousd.is_some() && totals.n_unpriced > 0 {
        text.push_str(&format!("\n        {} of them have no known price and are not in it", totals.n_unpriced));
    }
    let longest = longest(explained);
    if longest.len() > 1 {
        text.push_str("\nwhat took longest");
        for top in &longest {
            text.push_str(&format!("\n{:>10}  {}", short(top.took_ms), place(explained, top, width)));
        }
    }
    let most_expensive = most_expensive(explained);
    if most_expensive.len() > 1 {
        text.push_str("\nwhat cost most");
        for top in &most_expensive {
            let usage = &top.call.usage;
            let tokens = usage.input_tokens.unwrap_or(0) + usage.output_tokens.unwrap_or(0);
            let cost =
                top.call.cost_nanousd.filter(|cost| *cost > 0).map_or_else(|| format!("{} tok", count(tokens)), money);
            text.push_str(&format!("\n{cost:>10}  {}", place(explained, top, width)));
        }
    }
    text
}

fn place(explained: &ExplainedThread, top: &Top<'_>, width: usize) -> String {
    let what = match top.call.kind {
        CallKind::Model => "model",
        CallKind::Summary => "summary by",
        CallKind::Condition => "condition, judged by",
        CallKind::Tool => "tool",
        CallKind::Interaction => "person,",
        CallKind::Timer => "wait",
        CallKind::Processor => "processor",
        CallKind::Strategy => "strategy",
        CallKind::Guardrail => "guardrail",
        CallKind::Branch => "branch",
        CallKind::Start => "start of",
    };
    let thread =
        if top.thread == explained.thread { String::new() } else { format!(" of branch {}", part_of(top.thread)) };
    let text =
        format!("{}, {what} {}, seq {}{thread}", top.node.node, top.call.name.as_deref().unwrap_or("?"), top.call.id);
    output::sanitize(&text, width.saturating_sub(14))
}
