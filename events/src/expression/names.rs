//! The variables that expressions and templates use.

use std::collections::BTreeSet;

use minijinja::machinery::{Token, tokenize};

use super::context::{Context, ENVIRONMENT, ExpressionError, check_limits, has_expression};

/// The names whose likeness is worth a hint: `strsim`'s similarity of Jaro and Winkler, from 0 to 1.
const ALIKE_MIN: f64 = 0.8;

/// Returns the variables that an expression (or a template) needs: those that it reads and does not set itself, without
/// those that it asks for with `is defined`, `is undefined` or `| default`. Empty where it cannot be parsed.
pub(crate) fn needed(source: &str, is_expression: bool) -> BTreeSet<String> {
    let mut names = read(source, is_expression, false);
    for name in asked_for(source, is_expression, &["defined", "undefined"], &["default", "d"]) {
        names.remove(&name);
    }
    names
}

/// Returns the paths of attributes, such as `x.y.z`, that an expression (or a template) reads of variables that it does
/// not set itself. Without those of a variable that it asks for with `is mapping`, and without those of one attribute
/// that it asks for with `is defined`, `is undefined` or `| default`. Empty where it cannot be parsed.
pub(crate) fn paths(source: &str, is_expression: bool) -> BTreeSet<String> {
    let mut paths = read(source, is_expression, true);
    let asked = asked_for(source, is_expression, &["defined", "undefined"], &["default", "d"]);
    let objects = asked_for(source, is_expression, &["mapping"], &[]);
    paths.retain(|path| match path.split_once('.') {
        // An attribute of one that is undefined cannot be asked for.
        Some((name, rest)) => {
            (rest.contains('.') || !asked.contains(path)) && !objects.iter().any(|object| object == name)
        }
        None => false,
    });
    paths
}

/// The variables, or with `nested` also their attributes, that are read and not set.
fn read(source: &str, is_expression: bool, nested: bool) -> BTreeSet<String> {
    if check_limits(source, is_expression).is_err() {
        return BTreeSet::new();
    }
    let indexed = without_slices(source, is_expression);
    let source = indexed.as_str();
    let read = if is_expression {
        ENVIRONMENT.compile_expression(source).map(|expression| expression.undeclared_variables(nested))
    } else {
        ENVIRONMENT.template_from_str(source).map(|template| template.undeclared_variables(nested))
    };
    let mut names: BTreeSet<String> = read.unwrap_or_default().into_iter().collect();
    for (name, _) in ENVIRONMENT.globals() {
        names.remove(name);
    }
    names
}

/// The source with an index in place of each slice: the engine's own search passes over the value that is sliced.
/// Unchanged where the result cannot be parsed.
fn without_slices(source: &str, is_expression: bool) -> String {
    let (mut brackets, mut colons) = (Vec::new(), Vec::new());
    for (token, span) in tokenize(source, is_expression, ENVIRONMENT.syntax().clone()).map_while(Result::ok) {
        match token {
            Token::BracketOpen | Token::BraceOpen | Token::ParenOpen => {
                brackets.push(matches!(token, Token::BracketOpen));
            }
            Token::BracketClose | Token::BraceClose | Token::ParenClose => drop(brackets.pop()),
            Token::Colon if brackets.last() == Some(&true) => colons.push(span.start_offset as usize),
            _ => {}
        }
    }
    if colons.is_empty() {
        return source.to_owned();
    }
    let mut indexed = source.to_owned();
    for at in colons.into_iter().rev() {
        let begins = indexed[..at].trim_end().ends_with(['[', ':']);
        let ends = indexed[at + 1..].trim_start().starts_with([']', '~']);
        indexed.replace_range(at..=at, &[if begins { "0" } else { "" }, "~", if ends { "0" } else { "" }].concat());
    }
    let parsed = if is_expression { super::context::check(&indexed) } else { super::context::check_template(&indexed) };
    if parsed.is_ok() { indexed } else { source.to_owned() }
}

/// The same of a text as [`Context::evaluate_text`] reads it.
pub(crate) fn needed_of_text(text: &str) -> BTreeSet<String> {
    needed(text, !has_expression(text))
}

/// The variables and their attributes, as `x` or `x.y`, before `is` and one of the tests, or before `|` and one of the
/// filters.
fn asked_for(source: &str, is_expression: bool, tests: &[&str], filters: &[&str]) -> Vec<String> {
    // What cannot be read has a fault of its own.
    if check_limits(source, is_expression).is_err() {
        return Vec::new();
    }
    let tokens = tokenize(source, is_expression, ENVIRONMENT.syntax().clone());
    let tokens: Vec<_> = tokens.map_while(|token| token.ok().map(|(token, _)| token)).collect();
    let is_asked = |rest: &[Token<'_>]| match rest {
        [Token::Ident("is"), Token::Ident("not"), Token::Ident(test), ..]
        | [Token::Ident("is"), Token::Ident(test), ..] => tests.contains(test),
        [Token::Pipe, Token::Ident(filter), ..] => filters.contains(filter),
        _ => false,
    };
    let names = tokens.iter().enumerate().filter_map(|(i, token)| match token {
        Token::Ident(name) if is_asked(&tokens[i + 1..]) => Some((i, *name)),
        _ => None,
    });
    names.map(|(i, name)| with_owner(&tokens[..i], name)).collect()
}

/// The path of a name that follows these tokens.
fn with_owner(before: &[Token<'_>], name: &str) -> String {
    match before {
        [before @ .., Token::Ident(owner), Token::Dot] => format!("{}.{name}", with_owner(before, owner)),
        // Of a value that is no variable: no path.
        [.., Token::Dot] => format!(".{name}"),
        _ => name.to_owned(),
    }
}

/// Returns the known name that is most like this one, if any is.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let alike = known.into_iter().map(|known| (strsim::jaro_winkler(name, known), known));
    alike.filter(|(alike, _)| *alike >= ALIKE_MIN).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

impl Context {
    /// The error of an expression that met a value that is undefined: names the variables that are.
    pub(super) fn undefined(&self, source: &str, is_expression: bool, what: Option<&str>) -> ExpressionError {
        let is_there = |name: &str| self.0.get_attr(name).is_ok_and(|value| !value.is_undefined());
        let missing: Vec<String> = needed(source, is_expression).into_iter().filter(|name| !is_there(name)).collect();
        let Some(name) = missing.first() else {
            return ExpressionError::of(what.unwrap_or("an attribute or element is undefined"), source);
        };
        let known: Vec<String> =
            self.0.try_iter().map(|names| names.map(|name| name.to_string()).collect()).unwrap_or_default();
        let hint = match nearest(name, known.iter().map(String::as_str)) {
            Some(known) => format!(" (did you mean `{known}`?)"),
            None => String::new(),
        };
        ExpressionError::of(format!("variable `{name}` is undefined{hint}"), source)
    }
}
