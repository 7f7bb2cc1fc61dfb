//! Limits of nesting. minijinja's parser, its compiler, and code that serialises, compares or drops a value recurse
//! once for each level, and only brackets and statements have a guard: a chain of operators, or a list in a list in a
//! list, would overflow the stack, which ends the whole process. So a source is checked before it is parsed, and a
//! value before it is kept or written.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

use super::allowance;

/// The most operators, points, filters, calls and the like of one chain.
pub(super) const OPERATORS_MAX: usize = 500;
/// The deepest nesting of brackets in one expression.
pub(super) const BRACKETS_MAX: usize = 40;
/// The most `{% elif %}` of one template.
pub(super) const ELIFS_MAX: usize = 200;
/// The deepest nesting of lists and objects in a value. What can be stored is less deep.
pub(super) const LEVELS_MAX: usize = 200;

/// Returns whether a source multiplies anything, and what is nested too deeply in it, if anything is.
///
/// # Errors
/// A sentence for people.
pub(super) fn check_source(source: &str, is_expression: bool, syntax: &SyntaxConfig) -> Result<bool, String> {
    let has_statements = !is_expression && source.contains("{%");
    if !is_expression && !has_statements && !source.contains("{{") {
        return Ok(false);
    }
    // No chain of this length fits into so few characters.
    if !has_statements && source.len() <= BRACKETS_MAX {
        return Ok(source.contains('*'));
    }
    let mut look = Look::default();
    for token in tokenize(source, is_expression, syntax.clone()) {
        // A source that cannot be read in the first place is for the parser to report.
        let Ok((token, _)) = token else {
            break;
        };
        look.at(&token)?;
    }
    Ok(look.multiplies)
}

/// Whether a source is made of tokens. minijinja counts columns in 16 bits, and may overflow at a fault beyond them.
pub(super) fn is_readable(source: &str, is_expression: bool, syntax: &SyntaxConfig) -> bool {
    let read = || tokenize(source, is_expression, syntax.clone()).all(|token| token.is_ok());
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).unwrap_or(false)
}

/// How far a source was checked.
#[derive(Default)]
struct Look {
    /// Operators of the chain so far, those around it included.
    n_operators: usize,
    /// For each open bracket: the operators before it, and those of its longest element.
    brackets: Vec<(usize, usize)>,
    n_elifs: usize,
    multiplies: bool,
    /// Whether the next word is the name of a statement.
    begins_statement: bool,
}

impl Look {
    fn at(&mut self, token: &Token<'_>) -> Result<(), String> {
        let begins_statement = std::mem::take(&mut self.begins_statement);
        self.multiplies |= matches!(token, Token::Mul);
        match token {
            Token::TemplateData(_) => {}
            Token::VariableStart | Token::BlockStart => {
                self.n_operators = 0;
                self.brackets.clear();
                self.begins_statement = matches!(token, Token::BlockStart);
            }
            Token::VariableEnd | Token::BlockEnd | Token::Assign => {}
            Token::Ident(name) if begins_statement => {
                self.n_elifs += usize::from(*name == "elif");
                if self.n_elifs > ELIFS_MAX {
                    return Err(format!("has more than {ELIFS_MAX} `elif`"));
                }
            }
            Token::Ident("not" | "and" | "or" | "if" | "else" | "in" | "is") => self.operator()?,
            Token::Ident(_) => {}
            Token::Comma => self.next_element(),
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => {
                self.operator()?;
                self.brackets.push((self.n_operators, self.n_operators));
                if self.brackets.len() > BRACKETS_MAX {
                    return Err(format!("has more than {BRACKETS_MAX} brackets inside each other"));
                }
            }
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                if let Some((_, longest)) = self.brackets.pop() {
                    self.n_operators = self.n_operators.max(longest);
                }
            }
            Token::Dot
            | Token::Pipe
            | Token::Plus
            | Token::Minus
            | Token::Mul
            | Token::Div
            | Token::FloorDiv
            | Token::Pow
            | Token::Mod
            | Token::Tilde
            | Token::Eq
            | Token::Ne
            | Token::Gt
            | Token::Gte
            | Token::Lt
            | Token::Lte => self.operator()?,
            Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) | Token::Colon => {}
        }
        Ok(())
    }

    fn operator(&mut self) -> Result<(), String> {
        self.n_operators += 1;
        if self.n_operators > OPERATORS_MAX {
            return Err(format!("has more than {OPERATORS_MAX} operators in one expression"));
        }
        Ok(())
    }

    /// Elements of a list are siblings and do not add depth.
    fn next_element(&mut self) {
        match self.brackets.last_mut() {
            Some((before, longest)) => {
                *longest = (*longest).max(self.n_operators);
                self.n_operators = *before;
            }
            None => self.n_operators = 0,
        }
    }
}

/// Whether a value can be written: it is not nested so deeply that this would overflow the stack, and each number in it is
/// one of JSON.
pub(super) fn check(value: &Value) -> Result<(), Error> {
    check_value(value, false)
}

/// As above, for a value that is put into a namespace, which must not contain a namespace: one that contains itself
/// would have no end.
pub(super) fn check_inside(value: &Value) -> Result<(), Error> {
    check_value(value, true)
}

fn check_value(value: &Value, is_inside: bool) -> Result<(), Error> {
    let refuse = |what: String| Err(Error::new(ErrorKind::InvalidOperation, what));
    check_number(value)?;
    let mut open = vec![(value.clone(), 0)];
    while let Some((value, level)) = open.pop() {
        let is_map = match value.kind() {
            ValueKind::Map => true,
            ValueKind::Seq | ValueKind::Iterable => false,
            _ => continue,
        };
        if is_inside && value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace")) {
            return refuse("a namespace cannot be kept in a namespace".into());
        }
        if level >= LEVELS_MAX {
            return refuse(format!("a value is nested deeper than {LEVELS_MAX} levels"));
        }
        for item in value.try_iter()? {
            allowance::visit()?;
            let inner = if is_map { value.get_item(&item)? } else { item };
            check_number(&inner)?;
            if matches!(inner.kind(), ValueKind::Map | ValueKind::Seq | ValueKind::Iterable) {
                open.push((inner, level + 1));
            }
        }
    }
    Ok(())
}

/// JSON has no infinite numbers, and none that is no number: they would become null.
fn check_number(value: &Value) -> Result<(), Error> {
    let is_number = value.kind() == ValueKind::Number;
    if is_number && !f64::try_from(value.clone()).is_ok_and(f64::is_finite) {
        let message = format!("the number `{value}` is too large or is not a number, and cannot be stored");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    Ok(())
}
