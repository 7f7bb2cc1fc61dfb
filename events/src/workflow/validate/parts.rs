//! Checks of names, ranges and expressions.

use crate::expression;
use crate::ids::{NodeId, ProfileId};
use crate::json::Json;
use crate::schema::{Compiled, Mismatch, unfit_examples};
use crate::workflow::fault::Fault;
use crate::workflow::models::Summary;
use crate::workflow::names::{NAME_BYTES_MAX, is_variable_name};

pub(super) fn check_name(path: &str, what: &str, name: &str, faults: &mut Vec<Fault>) {
    if name.trim().is_empty() {
        faults.push(Fault::new(path, format!("the {what} is empty")));
    } else if name.len() > NAME_BYTES_MAX {
        faults.push(Fault::new(path, format!("the {what} is longer than {NAME_BYTES_MAX} bytes")));
    } else if name.chars().any(char::is_control) {
        faults.push(Fault::new(path, format!("the {what} holds a control character")));
    }
}

pub(super) fn check_variable(path: &str, name: &str, faults: &mut Vec<Fault>) {
    if !is_variable_name(name) {
        faults.push(
            Fault::new(path, format!("`{name}` cannot be a variable"))
                .hint("letters, digits and _, not beginning with a digit"),
        );
    }
}

pub(super) fn check_range(path: &str, n: u64, min: u64, max: u64, faults: &mut Vec<Fault>) {
    if n < min || n > max {
        faults.push(Fault::new(path, format!("{n} is not between {min} and {max}")));
    }
}

/// Thirty days: a longer wait is a slip of the finger.
pub(super) const WAIT_MS_MAX: u64 = 30 * 24 * 3600 * 1000;

pub(super) fn check_timeout(path: &str, timeout_ms: Option<u64>, faults: &mut Vec<Fault>) {
    if let Some(ms) = timeout_ms {
        check_range(path, ms, 1, WAIT_MS_MAX, faults);
    }
}

pub(super) fn check_depth(path: &str, value: &Json, faults: &mut Vec<Fault>) {
    if value.is_too_deep() {
        faults.push(Fault::new(path, format!("nested deeper than {} levels", Json::DEPTH_MAX)));
    }
}

/// A value whose texts are templates.
pub(super) fn check_value(path: &str, value: &Json, faults: &mut Vec<Fault>) {
    check_depth(path, value, faults);
    if let Err(e) = expression::check_value(&value.0) {
        faults.push(Fault::new(path, e.to_string()));
    }
}

pub(super) fn check_template(path: &str, template: &str, faults: &mut Vec<Fault>) {
    if let Err(e) = expression::check_template(template) {
        faults.push(Fault::new(path, e.to_string()));
    }
}

/// An expression that is allowed in `{{ }}`.
pub(super) fn check_text(path: &str, text: &str, faults: &mut Vec<Fault>) {
    if let Err(e) = expression::check_text(text) {
        faults.push(Fault::new(path, e.to_string()));
    }
}

/// The model of a node: a profile, or provider and model.
pub(super) fn check_model(
    path: &str,
    profile: Option<&ProfileId>,
    provider: Option<&String>,
    model: Option<&String>,
    faults: &mut Vec<Fault>,
) {
    match (profile, provider, model) {
        (Some(_), None, None) | (None, Some(_), Some(_)) => {}
        (Some(_), _, _) => faults.push(
            Fault::new(format!("{path}.profile_id"), "a profile replaces provider and model")
                .hint("keep the profile, or provider and model"),
        ),
        (None, None, _) => {
            faults.push(Fault::new(path, "no provider").hint("give provider and model, or profile_id"));
        }
        (None, Some(_), None) => faults.push(Fault::new(path, "no model").hint("give the model's name")),
    }
}

/// When a conversation is summarised, and by which model.
pub(super) fn check_summary(path: &str, summary: Option<&Summary>, faults: &mut Vec<Fault>) {
    let Some(summary) = summary else {
        return;
    };
    let (profile, provider, model) = (summary.profile_id.as_ref(), summary.provider.as_ref(), summary.model.as_ref());
    if profile.is_some() || provider.is_some() || model.is_some() {
        check_model(path, profile, provider, model, faults);
    }
    check_timeout(&format!("{path}.timeout_ms"), summary.timeout_ms, faults);
    if summary.extra.as_ref().is_some_and(|extra| !extra.0.is_object()) {
        faults.push(Fault::new(format!("{path}.extra"), "not an object"));
    }
}

/// A condition: an expression, or one in natural language, or none.
pub(super) fn check_condition(path: &str, when: Option<&String>, judge: Option<&String>, faults: &mut Vec<Fault>) {
    if let Some(when) = when
        && let Err(e) = expression::check(when)
    {
        faults.push(Fault::new(format!("{path}.when"), e.to_string()));
    }
    if let Some(judge) = judge {
        if judge.trim().is_empty() {
            faults.push(Fault::new(format!("{path}.judge"), "the condition is empty"));
        }
        check_template(&format!("{path}.judge"), judge, faults);
    }
    if when.is_some() && judge.is_some() {
        faults.push(Fault::new(format!("{path}.judge"), "a condition is an expression or is judged, not both"));
    }
}

/// A schema can be used, and its examples fit it.
pub(super) fn check_schema(path: &str, schema: &Json, compiled: &Compiled, faults: &mut Vec<Fault>) {
    let place = |found: &Mismatch| format!("{path}{}", found.pointer.replace('/', "."));
    match compiled.fault() {
        Some(found) => faults.push(Fault::new(place(found), &*found.message)),
        None => faults.extend(
            unfit_examples(&schema.0)
                .iter()
                .map(|found| Fault::new(place(found), format!("does not fit the schema: {}", found.message))),
        ),
    }
}

/// The path of something inside `path`, which is empty at the top.
pub(super) fn at(path: &str, what: &str) -> String {
    if path.is_empty() { what.to_owned() } else { format!("{path}.{what}") }
}

pub(super) fn no_node(path: impl Into<String>, id: &NodeId) -> Fault {
    Fault::new(path, format!("there is no node `{id}`"))
}
