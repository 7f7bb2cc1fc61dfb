//! The processors of the machine itself: truncate, filter, extract, inject.

use std::sync::Arc;

use serde_json::Value;

use super::Processed;
use crate::codec::OrderedMap;
use crate::event::ContextItem;
use crate::fault::{ErrorKind, ExecutionError};
use crate::json::Json;
use crate::message::{Message, Part, Role};
use crate::thread::conversation::Entry;
use crate::workflow::{Summary, is_variable_name};

/// Their names, and the keys that each of them reads.
const BUILT_IN: [(&str, &[&str]); 5] = [
    ("truncate", &["head", "tail"]),
    ("filter", &["keep", "drop"]),
    ("extract", &["variable", "expression", "role"]),
    ("inject", &["content", "role", "at"]),
    (SUMMARIZE, &["profile_id", "provider", "model", "timeout_ms", "extra"]),
];

/// The one that asks a model: it is made of events of its own, see `summaries`.
pub(in crate::thread) const SUMMARIZE: &str = "summarize";

/// Whether the machine has this processor itself.
pub fn is_built_in(processor: &str) -> bool {
    BUILT_IN.iter().any(|(name, _)| *name == processor)
}

/// The names of the processors that the machine has itself.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// The parsed settings of a processor.
enum Task {
    Truncate { head: usize, tail: usize },
    Filter { stays: Vec<Role> },
    Extract { variable: String, value: Option<Json>, role: Option<Role> },
    Inject { message: Arc<Message>, at_start: bool },
}

/// Runs a built-in processor over a conversation; `None` when there is none with this name.
pub(super) fn run(
    processor: &str,
    config: &OrderedMap<Json>,
    shown: &[Entry],
) -> Option<Result<Processed, ExecutionError>> {
    let fault = |(key, what)| ExecutionError::new(ErrorKind::Configuration, at_key(processor, key, what));
    let task = read(processor, config)?.map_err(fault);
    Some(task.and_then(|task| match task {
        Task::Truncate { head, tail } => Ok(truncate(shown, head, tail)),
        Task::Filter { stays } => Ok(filter(shown, &stays)),
        Task::Extract { variable, value, role } => extract(shown, variable, value, role),
        Task::Inject { message, at_start } => Ok(inject(shown, message, at_start)),
    }))
}

fn at_key(processor: &str, key: &str, what: String) -> String {
    if key.is_empty() { format!("{processor}: {what}") } else { format!("{processor}: {key}: {what}") }
}

/// What is wrong with the configuration of a processor, as the key and the fault. Values that hold expressions are
/// read when they are filled in.
pub(crate) fn check_config(processor: &str, config: &OrderedMap<Json>) -> Result<(), (String, String)> {
    let Some((_, keys)) = BUILT_IN.iter().find(|(name, _)| *name == processor) else {
        return Ok(());
    };
    if let Some(key) = config.keys().find(|key| !keys.contains(&key.as_str())) {
        return Err((key.clone(), format!("`{processor}` does not know it: it reads {}", keys.join(", "))));
    }
    if processor == SUMMARIZE {
        return read_summary(config).map(drop).map_err(|what| (String::new(), what));
    }
    if let Some(Value::String(expression)) = config.get("expression").map(|value| &*value.0) {
        crate::expression::check_text(expression).map_err(|e| ("expression".to_owned(), e.to_string()))?;
    }
    let is_open = |value: &Value| value.as_str().is_some_and(|text| text.contains("{{") || text.contains("{%"));
    if config.iter().any(|(key, value)| key != "content" && key != "expression" && is_open(&value.0)) {
        return Ok(());
    }
    match read(processor, config) {
        Some(Err((key, what))) => Err((key.to_owned(), what)),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Which model `summarize` asks.
pub(in crate::thread) fn summary_of(config: &OrderedMap<Json>) -> Result<Summary, ExecutionError> {
    let fault = |what| ExecutionError::new(ErrorKind::Configuration, at_key(SUMMARIZE, "", what));
    read_summary(config).map_err(fault)
}

fn read_summary(config: &OrderedMap<Json>) -> Result<Summary, String> {
    let config = serde_json::to_value(config).map_err(|e| e.to_string())?;
    let summary: Summary = serde_json::from_value(config).map_err(|e| e.to_string())?;
    match (&summary.profile_id, &summary.provider, &summary.model) {
        (Some(_), None, None) | (None, Some(_), Some(_)) | (None, None, None) => Ok(summary),
        _ => Err("give profile_id, or provider and model".into()),
    }
}

type Read<T> = Result<T, (&'static str, String)>;

fn read(processor: &str, config: &OrderedMap<Json>) -> Option<Read<Task>> {
    Some(match processor {
        "truncate" => read_truncate(config),
        "filter" => read_filter(config),
        "extract" => read_extract(config),
        "inject" => read_inject(config),
        _ => return None,
    })
}

fn read_truncate(config: &OrderedMap<Json>) -> Read<Task> {
    let count = |key: &'static str| match config.get(key).map(|value| &*value.0) {
        None => Ok(0),
        Some(value) => value
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .ok_or_else(|| (key, format!("a number of messages is expected, not {value}"))),
    };
    let (head, tail) = (count("head")?, count("tail")?);
    if head == 0 && tail == 0 {
        return Err(("", "nothing would be left: give `head` or `tail`".into()));
    }
    Ok(Task::Truncate { head, tail })
}

fn read_filter(config: &OrderedMap<Json>) -> Read<Task> {
    let roles = |key: &'static str| {
        let Some(value) = config.get(key).map(|value| &*value.0) else {
            return Ok(None);
        };
        let roles = value.as_array().map(|roles| roles.iter().map(role_of).collect::<Option<Vec<_>>>());
        match roles.flatten() {
            Some(roles) => Ok(Some(roles)),
            None => Err((key, format!("a list of user, assistant, tool, system is expected, not {value}"))),
        }
    };
    let all = [Role::System, Role::User, Role::Assistant, Role::Tool];
    match (roles("keep")?, roles("drop")?) {
        (Some(keep), None) => Ok(Task::Filter { stays: keep }),
        (None, Some(drop)) => Ok(Task::Filter { stays: all.into_iter().filter(|role| !drop.contains(role)).collect() }),
        (None, None) => Err(("", "give the roles to `keep` or to `drop`".into())),
        (Some(_), Some(_)) => Err(("drop", "roles to keep are given already".into())),
    }
}

fn read_extract(config: &OrderedMap<Json>) -> Read<Task> {
    let variable = match config.get("variable").and_then(|value| value.0.as_str()) {
        Some(name) if is_variable_name(name) => name.to_owned(),
        Some(name) => return Err(("variable", format!("`{name}` cannot be a variable"))),
        None => return Err(("variable", "the name of the variable is missing".into())),
    };
    let value = config.get("expression").cloned();
    let role = read_role(config)?;
    if value.is_some() && role.is_some() {
        return Err(("role", "an expression is given already".into()));
    }
    Ok(Task::Extract { variable, value, role })
}

fn read_inject(config: &OrderedMap<Json>) -> Read<Task> {
    let content = match config.get("content").map(|value| &*value.0) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => return Err(("content", "the text of the message is missing".into())),
    };
    let role = match read_role(config)? {
        None => Role::User,
        Some(role @ (Role::User | Role::Assistant)) => role,
        Some(_) => return Err(("role", "user or assistant is expected".into())),
    };
    let at_start = match config.get("at").map(|value| value.0.as_str()) {
        None | Some(Some("end")) => false,
        Some(Some("start")) => true,
        Some(_) => return Err(("at", "start or end is expected".into())),
    };
    Ok(Task::Inject { message: Arc::new(Message::text(role, content)), at_start })
}

fn read_role(config: &OrderedMap<Json>) -> Read<Option<Role>> {
    match config.get("role") {
        None => Ok(None),
        Some(value) => match role_of(&value.0) {
            Some(role) => Ok(Some(role)),
            None => Err(("role", "user, assistant, tool or system is expected".into())),
        },
    }
}

fn role_of(value: &Value) -> Option<Role> {
    match value.as_str()? {
        "system" => Some(Role::System),
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        "tool" => Some(Role::Tool),
        _ => None,
    }
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

/// Retains at most so many messages of the beginning and of the end. Instructions stay and do not count; an answer and
/// the results of the tools it asked for stay or go together.
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
