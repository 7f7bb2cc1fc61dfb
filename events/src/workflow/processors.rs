//! The built-in context processors as a definition names them: truncate, filter, extract, inject, summarize.

use std::sync::Arc;

use serde_json::Value;

use super::models::Summary;
use super::names::is_variable_name;
use crate::codec::OrderedMap;
use crate::fault::{ErrorKind, ExecutionError};
use crate::json::Json;
use crate::message::{Message, Role};

/// Their names, and the keys that each of them reads.
const BUILT_IN: [(&str, &[&str]); 5] = [
    ("truncate", &["head", "tail"]),
    ("filter", &["keep", "drop"]),
    ("extract", &["variable", "expression", "role"]),
    ("inject", &["content", "role", "at"]),
    (SUMMARIZE, &["profile_id", "provider", "model", "timeout_ms", "extra"]),
];

/// The one that calls a model: it consists of events of its own, see `summaries`.
pub(crate) const SUMMARIZE: &str = "summarize";

/// Whether the machine has this processor itself.
pub fn is_built_in_processor(processor: &str) -> bool {
    BUILT_IN.iter().any(|(name, _)| *name == processor)
}

/// The names of the processors that the machine has itself.
pub fn built_in_processors() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// The parsed settings of a processor.
pub(crate) enum ProcessorTask {
    Truncate { head: usize, tail: usize },
    Filter { stays: Vec<Role> },
    Extract { variable: String, value: Option<Json>, role: Option<Role> },
    Inject { message: Arc<Message>, at_start: bool },
}

fn at_key(processor: &str, key: &str, what: String) -> String {
    if key.is_empty() { format!("{processor}: {what}") } else { format!("{processor}: {key}: {what}") }
}

/// Returns the faults in the configuration of a processor, as the key and the fault. Values with expressions are
/// checked when they are evaluated.
pub(crate) fn check_processor_config(processor: &str, config: &OrderedMap<Json>) -> Result<(), (String, String)> {
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
pub(crate) fn summary_of(config: &OrderedMap<Json>) -> Result<Summary, ExecutionError> {
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

fn read(processor: &str, config: &OrderedMap<Json>) -> Option<Read<ProcessorTask>> {
    Some(match processor {
        "truncate" => read_truncate(config),
        "filter" => read_filter(config),
        "extract" => read_extract(config),
        "inject" => read_inject(config),
        _ => return None,
    })
}

fn read_truncate(config: &OrderedMap<Json>) -> Read<ProcessorTask> {
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
    Ok(ProcessorTask::Truncate { head, tail })
}

fn read_filter(config: &OrderedMap<Json>) -> Read<ProcessorTask> {
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
        (Some(keep), None) => Ok(ProcessorTask::Filter { stays: keep }),
        (None, Some(drop)) => {
            Ok(ProcessorTask::Filter { stays: all.into_iter().filter(|role| !drop.contains(role)).collect() })
        }
        (None, None) => Err(("", "give the roles to `keep` or to `drop`".into())),
        (Some(_), Some(_)) => Err(("drop", "roles to keep are given already".into())),
    }
}

fn read_extract(config: &OrderedMap<Json>) -> Read<ProcessorTask> {
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
    Ok(ProcessorTask::Extract { variable, value, role })
}

fn read_inject(config: &OrderedMap<Json>) -> Read<ProcessorTask> {
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
    Ok(ProcessorTask::Inject { message: Arc::new(Message::text(role, content)), at_start })
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

/// The task that the configuration of a built-in processor names; `None` if there is none with this name.
pub(crate) fn processor_task(
    processor: &str,
    config: &OrderedMap<Json>,
) -> Option<Result<ProcessorTask, ExecutionError>> {
    let fault = |(key, what)| ExecutionError::new(ErrorKind::Configuration, at_key(processor, key, what));
    Some(read(processor, config)?.map_err(fault))
}
