//! The built-in processors: truncate, filter, extract, inject.

use std::sync::Arc;

use serde_json::Value;

use super::super::processed::Processed;
use crate::codec::OrderedMap;
use crate::event::ContextItem;
use crate::fault::{ErrorKind, ExecutionError};
use crate::json::Json;
use crate::message::{Message, Part, Role};
use crate::thread::conversation::Entry;
use crate::workflow::{ProcessorTask, processor_task};

/// Runs a built-in processor over a conversation; `None` if there is none with this name.
pub(super) fn run(
    processor: &str,
    config: &OrderedMap<Json>,
    shown: &[Entry],
) -> Option<Result<Processed, ExecutionError>> {
    Some(processor_task(processor, config)?.and_then(|task| match task {
        ProcessorTask::Truncate { head, tail } => Ok(truncate(shown, head, tail)),
        ProcessorTask::Filter { stays } => Ok(filter(shown, &stays)),
        ProcessorTask::Extract { variable, value, role } => extract(shown, variable, value, role),
        ProcessorTask::Inject { message, at_start } => Ok(inject(shown, message, at_start)),
    }))
}

/// Messages that belong together: a message by itself, or an answer that asks for tools and their results.
fn blocks(shown: &[Entry]) -> Vec<std::ops::Range<usize>> {
    let mut blocks: Vec<std::ops::Range<usize>> = Vec::new();
    for (i, entry) in shown.iter().enumerate() {
        match blocks.last_mut() {
            Some(last) if entry.message.role == Role::Tool => last.end = i + 1,
            _ => blocks.push(i..i + 1),
        }
    }
    blocks
}

/// The places of the messages that stay, as few ranges as possible.
fn kept(stays: impl IntoIterator<Item = usize>) -> Vec<ContextItem> {
    let mut items: Vec<ContextItem> = Vec::new();
    for i in stays {
        let i = i as u64;
        match items.last_mut() {
            Some(ContextItem::Kept { to, .. }) if *to == i => *to += 1,
            _ => items.push(ContextItem::Kept { from: i, to: i + 1 }),
        }
    }
    items
}

/// Retains at most this many messages of the beginning and of the end. Instructions are retained and do not count. An
/// answer and the results of its tool calls are retained or dropped together.
fn truncate(shown: &[Entry], head: usize, tail: usize) -> Processed {
    let blocks = blocks(shown);
    let is_system = |block: &std::ops::Range<usize>| shown[block.start].message.role == Role::System;
    let take = |blocks: &mut dyn Iterator<Item = (usize, &std::ops::Range<usize>)>, most: usize| {
        let mut n = 0;
        let mut taken = Vec::new();
        for (i, block) in blocks.filter(|(_, block)| !is_system(block)) {
            n += block.len();
            if n > most {
                break;
            }
            taken.push(i);
        }
        taken
    };
    let mut stays = vec![false; blocks.len()];
    for i in take(&mut blocks.iter().enumerate(), head) {
        stays[i] = true;
    }
    for i in take(&mut blocks.iter().enumerate().rev(), tail) {
        stays[i] = true;
    }
    let staying = blocks.iter().enumerate().filter(|(i, block)| stays[*i] || is_system(block));
    let messages = kept(staying.flat_map(|(_, block)| block.clone()));
    let n_kept = count(&messages);
    Processed { messages, output: Some(Value::from(n_kept).into()), ..Processed::default() }
}

fn count(items: &[ContextItem]) -> u64 {
    items.iter().map(|item| if let ContextItem::Kept { from, to } = item { to - from } else { 1 }).sum()
}

/// Retains messages of these roles. Results of tools go with the answer that asked for them; where only the results go,
/// of the answer its text stays.
fn filter(shown: &[Entry], stays: &[Role]) -> Processed {
    let mut messages = Vec::new();
    let keep = |messages: &mut Vec<ContextItem>, at: u64| match messages.last_mut() {
        Some(ContextItem::Kept { to, .. }) if *to == at => *to += 1,
        _ => messages.push(ContextItem::Kept { from: at, to: at + 1 }),
    };
    for (i, entry) in shown.iter().enumerate() {
        let message = &entry.message;
        let stays_whole = match message.role {
            Role::Tool => stays.contains(&Role::Tool) && stays.contains(&Role::Assistant),
            role => stays.contains(&role),
        };
        if !stays_whole {
            continue;
        }
        if message.tool_calls().next().is_none() || stays.contains(&Role::Tool) {
            keep(&mut messages, i as u64);
        } else {
            let said = message.content.iter().filter(|part| matches!(part, Part::Text { .. } | Part::Refusal { .. }));
            let content: Vec<_> = said.cloned().collect();
            if !content.is_empty() {
                messages.push(ContextItem::New(Arc::new(Message { role: message.role, content })));
            }
        }
    }
    let n_kept = count(&messages);
    Processed { messages, output: Some(Value::from(n_kept).into()), ..Processed::default() }
}

/// Sets a variable: to a value, or to the text of the last message, of any role or of one.
fn extract(
    shown: &[Entry],
    variable: String,
    value: Option<Json>,
    role: Option<Role>,
) -> Result<Processed, ExecutionError> {
    let value = match value {
        Some(value) => value,
        None => {
            let fits = |entry: &&Entry| match role {
                Some(role) => entry.message.role == role,
                None => entry.message.role != Role::System,
            };
            match shown.iter().rev().find(fits) {
                Some(entry) => Json::from(entry.message.joined_text()),
                None => return Err(ExecutionError::new(ErrorKind::NotFound, "extract: there is no such message")),
            }
        }
    };
    let messages = kept(0..shown.len());
    let variables = std::iter::once((variable, value.clone())).collect();
    Ok(Processed { messages, variables, output: Some(value) })
}

/// Adds a message, at the end or at the start.
fn inject(shown: &[Entry], message: Arc<Message>, at_start: bool) -> Processed {
    let output = Some(Json::from(message.joined_text()));
    let mut messages = kept(0..shown.len());
    let place = if at_start { 0 } else { messages.len() };
    messages.insert(place, ContextItem::New(message));
    Processed { messages, output, ..Processed::default() }
}
