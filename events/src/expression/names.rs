//! The variables that expressions and templates use.

use std::collections::BTreeSet;

use minijinja::machinery::{Token, tokenize};

use super::{Context, ENVIRONMENT, ExpressionError, has_expression, limited};

/// The names whose likeness is worth a hint: `strsim`'s similarity of Jaro and Winkler, from 0 to 1.
const ALIKE_MIN: f64 = 0.8;

/// Returns the variables that an expression (or a template) needs: those that it reads and does not set itself, without
/// those that it asks for with `is defined`, `is undefined` or `| default`. Empty where it cannot be parsed.
pub(crate) fn needed(source: &str, is_expression: bool) -> BTreeSet<String> {
    let Ok(parsed) = limited(source, is_expression) else {
        return BTreeSet::new();
    };
    let read = if is_expression {
        ENVIRONMENT.compile_expression(&parsed).map(|expression| expression.undeclared_variables(false))
    } else {
        ENVIRONMENT.template_from_str(&parsed).map(|template| template.undeclared_variables(false))
    };
    let mut names: BTreeSet<String> = read.unwrap_or_default().into_iter().collect();
    for (name, _) in ENVIRONMENT.globals() {
        names.remove(name);
    }
    for name in asked_for(source, is_expression) {
        names.remove(name);
    }
    names
}

/// The same of a text as [`Context::evaluate_text`] reads it.
pub(crate) fn needed_of_text(text: &str) -> BTreeSet<String> {
    needed(text, !has_expression(text))
}

/// The names that stand before `is defined`, `is undefined` and `| default`.
fn asked_for(source: &str, is_expression: bool) -> Vec<&str> {
    let tokens = tokenize(source, is_expression, ENVIRONMENT.syntax().clone());
    let tokens: Vec<_> = tokens.map_while(|token| token.ok().map(|(token, _)| token)).collect();
    let is_asked = |rest: &[Token<'_>]| match rest {
        [Token::Ident("is"), Token::Ident("not"), Token::Ident(test), ..]
        | [Token::Ident("is"), Token::Ident(test), ..] => {
            matches!(*test, "defined" | "undefined")
        }
        [Token::Pipe, Token::Ident(filter), ..] => matches!(*filter, "default" | "d"),
        _ => false,
    };
    let names = tokens.iter().enumerate().filter_map(|(i, token)| match token {
        Token::Ident(name) if is_asked(&tokens[i + 1..]) => Some(*name),
        _ => None,
    });
    names.collect()
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
