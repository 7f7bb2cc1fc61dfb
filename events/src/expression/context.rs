//! Evaluating expressions and templates over variables.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use indexmap::IndexMap;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Enumerator, Object, ValueKind as Kind};
use minijinja::{Environment, ErrorKind, UndefinedBehavior};

use super::allowance::{charge, metered};
use super::limits::{self, Limited, RESULT_BYTES_MAX};
use super::meter::{self, Program};
use super::{folding, nesting};
use crate::fault::ExecutionError;
use crate::json::Json;
use crate::text;

/// How many instructions one evaluation may take. A prompt takes some tens.
const FUEL: u64 = 300_000;
/// The longest expression or template, in bytes.
const SOURCE_BYTES_MAX: usize = 1 << 20;
/// The characters of a line in which there may be code: minijinja counts columns in 16 bits.
const LINE_CHARS_MAX: usize = 65_000;
/// The words that are no variables in an expression, though a thread may have variables of these names.
const KEYWORDS: [&str; 10] = ["true", "false", "none", "True", "False", "None", "not", "loop", "self", "super"];
/// How many statements, loops that go round in themselves and the like may be open at once.
const RECURSION_MAX: usize = 64;

/// An expression or template that cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", in_source(.source_text))]
pub struct ExpressionError {
    /// The fault.
    pub message: String,
    /// The expression, cut to 120 characters.
    pub source_text: String,
}

impl From<ExpressionError> for ExecutionError {
    fn from(error: ExpressionError) -> Self {
        Self::new(crate::fault::ErrorKind::Expression, error.to_string())
    }
}

fn in_source(source: &str) -> String {
    format!(" in `{source}`")
}

impl ExpressionError {
    pub(super) fn new(error: &minijinja::Error, source: &str) -> Self {
        let message = match (error.kind(), error.detail()) {
            (ErrorKind::OutOfFuel, _) => format!("takes more than {FUEL} steps"),
            (kind, Some(detail)) => format!("{kind}: {detail}"),
            (kind, None) => kind.to_string(),
        };
        Self::of(message, source)
    }

    pub(super) fn of(message: impl Into<String>, source: &str) -> Self {
        Self { message: message.into(), source_text: text::head(source, 120).to_owned() }
    }

    fn too_large(source: &str) -> Self {
        Self::of(format!("makes more than {RESULT_BYTES_MAX} bytes"), source)
    }
}

/// Where an expression finds its variables. Values are made when they are used, so a long conversation costs
/// nothing in a prompt that does not mention it.
pub trait Variables: fmt::Debug + Send + Sync + 'static {
    /// The variable with this name.
    fn variable(&self, name: &str) -> Option<minijinja::Value>;
    /// The names there are.
    fn names(&self) -> Vec<String>;
}

/// The variables, and the values converted from them: a variable that a template uses in a loop is converted once.
#[derive(Debug)]
struct Root<V> {
    variables: V,
    made: Mutex<IndexMap<String, minijinja::Value>>,
}

impl<V: Variables> Object for Root<V> {
    fn get_value(self: &Arc<Self>, key: &minijinja::Value) -> Option<minijinja::Value> {
        let name = key.as_str()?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = made.get(name) {
            return Some(value.clone());
        }
        let value = self.variables.variable(name)?;
        made.insert(name.to_owned(), value.clone());
        Some(value)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.variables.names().into_iter().map(Into::into).collect())
    }
}

pub(super) static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION_MAX);
    meter::install(&mut environment);
    // A prompt is plain text: nothing in it is escaped, and a final line break stays.
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_formatter(as_json);
    environment.set_syntax(syntax());
    limits::install(&mut environment);
    environment
});

pub(super) fn syntax() -> SyntaxConfig {
    let mut syntax = SyntaxConfig::builder();
    syntax.keep_trailing_newline(true);
    // The default delimiters are valid, so building cannot fail; should it, the default syntax serves.
    syntax.build().unwrap_or_default()
}

/// In a prompt, texts and numbers are inserted as they are, everything else as JSON.
fn as_json(
    out: &mut minijinja::Output<'_>,
    state: &mut minijinja::State<'_, '_>,
    value: &minijinja::Value,
) -> Result<(), minijinja::Error> {
    match value.kind() {
        Kind::Bool | Kind::None | Kind::Seq | Kind::Map | Kind::Iterable => {
            nesting::check(value)?;
            let mut json = Limited::new();
            let too_large = "a value is too large for a template";
            serde_json::to_writer(&mut json, value).map_err(|e| {
                let message = if json.is_full { too_large.to_owned() } else { e.to_string() };
                minijinja::Error::new(ErrorKind::BadSerialization, message)
            })?;
            charge(json.bytes.len() as u64)?;
            out.write_str(&String::from_utf8_lossy(&json.bytes)).map_err(minijinja::Error::from)
        }
        Kind::String => {
            charge(value.len().unwrap_or_default() as u64)?;
            minijinja::escape_formatter(out, state, value)
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// Whether a source is neither too long nor nested too deeply to be parsed.
pub(super) fn check_limits(source: &str, is_expression: bool) -> Result<(), ExpressionError> {
    if source.len() > SOURCE_BYTES_MAX {
        let message = format!("an expression of {} bytes, at most {SOURCE_BYTES_MAX} are read", source.len());
        return Err(ExpressionError::of(message, source));
    }
    if has_far_code(source, is_expression) && !nesting::is_readable(source, is_expression, ENVIRONMENT.syntax()) {
        let message = format!("a fault in a line of more than {LINE_CHARS_MAX} characters: break the line");
        return Err(ExpressionError::of(message, source));
    }
    let checked = nesting::check_source(source, is_expression, ENVIRONMENT.syntax());
    // Few sources multiply, and only those are parsed for the check.
    let checked =
        checked.and_then(
            |multiplies| {
                if multiplies { folding::check(source, is_expression, ENVIRONMENT.syntax()) } else { Ok(()) }
            },
        );
    checked.map_err(|what| ExpressionError::of(what, source))
}

/// Whether code is beyond [`LINE_CHARS_MAX`] in a line. The text of a template may be.
fn has_far_code(source: &str, is_expression: bool) -> bool {
    if source.len() <= LINE_CHARS_MAX {
        return false;
    }
    let (mut column, mut is_code, mut before) = (0_usize, is_expression, ' ');
    for c in source.chars() {
        column = if c == '\n' { 0 } else { column + 1 };
        match (before, c) {
            ('{', '{' | '%' | '#') => is_code = true,
            ('}' | '%' | '#', '}') => is_code = is_expression,
            _ => {}
        }
        if is_code && column > LINE_CHARS_MAX {
            return true;
        }
        before = c;
    }
    false
}

/// Whether the expression can be parsed.
pub fn check(source: &str) -> Result<(), ExpressionError> {
    check_limits(source, true)?;
    ENVIRONMENT.compile_expression(source).map(|_| ()).map_err(|e| ExpressionError::new(&e, source))
}

/// Whether the template can be parsed.
pub fn check_template(source: &str) -> Result<(), ExpressionError> {
    check_limits(source, false)?;
    ENVIRONMENT.template_from_str(source).map(|_| ()).map_err(|e| ExpressionError::new(&e, source))
}

/// Whether all texts in the value can be parsed as templates.
pub fn check_value(value: &serde_json::Value) -> Result<(), ExpressionError> {
    match value {
        serde_json::Value::String(text) => check_template(text),
        serde_json::Value::Array(items) => items.iter().try_for_each(check_value),
        serde_json::Value::Object(entries) => entries.values().try_for_each(check_value),
        _ => Ok(()),
    }
}

/// Values of variables for a number of evaluations.
#[derive(Debug, Clone)]
pub struct Context(pub(super) minijinja::Value);

impl Context {
    /// A context over these variables.
    pub fn new(variables: impl Variables) -> Self {
        Self(minijinja::Value::from_object(Root { variables, made: Mutex::default() }))
    }

    /// The value of an expression.
    pub fn evaluate(&self, source: &str) -> Result<Json, ExpressionError> {
        metered(|| self.evaluate_metered(source))
    }

    fn evaluate_metered(&self, source: &str) -> Result<Json, ExpressionError> {
        let value = self.value(source)?;
        nesting::check(&value).map_err(|e| ExpressionError::new(&e, source))?;
        if let Some(text) = value.as_str().filter(|text| text.len() <= RESULT_BYTES_MAX) {
            return Ok(Json::from(text));
        }
        // Over the text, so that a value of any size or depth meets a limit before it takes memory.
        let mut json = Limited::new();
        match serde_json::to_writer(&mut json, &value) {
            Ok(()) => {}
            Err(_) if json.is_full => return Err(ExpressionError::too_large(source)),
            Err(e) => return Err(ExpressionError::of(e.to_string(), source)),
        }
        let value = serde_json::from_slice(&json.bytes).map(Json);
        let value = value.map_err(|e| ExpressionError::of(format!("not a value: {e}"), source))?;
        if value.is_too_deep() {
            return Err(ExpressionError::of(format!("is nested deeper than {} levels", Json::DEPTH_MAX), source));
        }
        Ok(value)
    }

    fn value(&self, source: &str) -> Result<minijinja::Value, ExpressionError> {
        check_limits(source, true)?;
        let program = Program::expression(source).map_err(|e| ExpressionError::new(&e, source))?;
        let (value, _) = program.run(&ENVIRONMENT, self.0.clone()).map_err(|e| self.failed(&e, source, true))?;
        let value = value.unwrap_or_default();
        if value.is_undefined() { Err(self.undefined(source, true, None)) } else { Ok(value) }
    }

    /// The error of an evaluation.
    pub(super) fn failed(&self, error: &minijinja::Error, source: &str, is_expression: bool) -> ExpressionError {
        match error.kind() {
            ErrorKind::UndefinedError => self.undefined(source, is_expression, error.detail()),
            _ => ExpressionError::new(error, source),
        }
    }

    /// A template with its expressions filled in.
    pub fn render(&self, template: &str) -> Result<String, ExpressionError> {
        let rendered = match metered(|| self.inserted(template)) {
            Some(inserted) => inserted.map_err(|e| self.failed(&e, template, false)),
            None => self.render_compiled(template),
        };
        let text = rendered?;
        if text.len() > RESULT_BYTES_MAX { Err(ExpressionError::too_large(template)) } else { Ok(text) }
    }

    pub(super) fn render_compiled(&self, template: &str) -> Result<String, ExpressionError> {
        check_limits(template, false)?;
        if !has_expression(template) {
            return Ok(template.to_owned());
        }
        let program = Program::template(template, ENVIRONMENT.syntax().clone());
        let program = program.map_err(|e| ExpressionError::new(&e, template))?;
        let rendered = metered(|| program.run(&ENVIRONMENT, self.0.clone()));
        rendered.map(|(_, text)| text).map_err(|e| self.failed(&e, template, false))
    }

    /// The text of a template that inserts variables and does nothing else, as most do: it is not compiled. `None` for any
    /// other, and if a variable is undefined. Called in [`metered`].
    pub(super) fn inserted(&self, template: &str) -> Option<Result<String, minijinja::Error>> {
        if template.len() > SOURCE_BYTES_MAX || template.contains("{%") || template.contains("{#") {
            return None;
        }
        let mut state = ENVIRONMENT.empty_state();
        let (mut text, mut rest) = (String::new(), template);
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}")?;
            let name = name.trim();
            let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name || KEYWORDS.contains(&name) {
                return None;
            }
            let value = self.0.get_attr(name).ok().filter(|value| !value.is_undefined())?;
            let inserted = charge(before.len() as u64).and_then(|()| state.format(value));
            match inserted {
                Ok(inserted) => text.extend([before, &inserted]),
                Err(error) => return Some(Err(error)),
            }
            rest = after;
        }
        text += rest;
        Some(Ok(text))
    }

    /// The value of a bare expression or of a single `{{ }}`; of any other template, its text.
    pub fn evaluate_text(&self, text: &str) -> Result<Json, ExpressionError> {
        if has_expression(text) { Ok(self.fill(&serde_json::Value::from(text))?.into()) } else { self.evaluate(text) }
    }

    /// A value with the expressions in its texts filled in. A text that is exactly one `{{expression}}` becomes the
    /// expression's value with its type.
    pub fn fill(&self, value: &serde_json::Value) -> Result<serde_json::Value, ExpressionError> {
        use serde_json::Value;
        Ok(match value {
            Value::String(text) => match single_expression(text) {
                Some(expression) => self.evaluate(expression)?.into_value(),
                None => Value::String(self.render(text)?),
            },
            Value::Array(items) => Value::Array(items.iter().map(|item| self.fill(item)).collect::<Result<_, _>>()?),
            Value::Object(entries) => Value::Object(
                entries.iter().map(|(key, value)| Ok((key.clone(), self.fill(value)?))).collect::<Result<_, _>>()?,
            ),
            other => other.clone(),
        })
    }
}

/// Whether the text can be parsed as [`Context::evaluate_text`] reads it.
pub fn check_text(text: &str) -> Result<(), ExpressionError> {
    if has_expression(text) { check_template(text) } else { check(text) }
}

pub(crate) fn has_expression(template: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|begin| template.contains(begin))
}

/// The expression of a text that is exactly `{{ expression }}`.
fn single_expression(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let inner = inner.strip_prefix('-').unwrap_or(inner);
    let inner = inner.strip_suffix('-').unwrap_or(inner);
    // `{{ a }} and {{ b }}` begins and ends like one expression; `{{ {"a": {}} }}` is one and holds braces.
    (!inner.contains("{{") && check(inner).is_ok()).then_some(inner)
}
