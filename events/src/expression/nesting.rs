//! What stands inside each other. minijinja's parser, its compiler, and whatever serialises, compares or drops a value
//! recurse once for each level, and only for brackets and statements with a guard of their own: a chain of operators, or
//! a list in a list in a list, would overflow the stack, which takes the whole process down. So a source is looked
//! through before it is parsed, and a value before it is kept or written.

use std::borrow::Cow;

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// The most operators, points, filters, calls and the like of one chain.
pub(super) const OPERATORS_MAX: usize = 500;
/// The most brackets of one expression that stand inside each other.
pub(super) const BRACKETS_MAX: usize = 40;
/// The most `{% elif %}` of one template.
pub(super) const ELIFS_MAX: usize = 200;
/// The most lists and objects of a value that stand inside each other. What can be stored has fewer.
pub(super) const LEVELS_MAX: usize = 200;
/// The most elements that one evaluation looks at for the above.
const VISITS_MAX: u64 = 10_000_000;

/// The filters that [`looked_through`] puts behind what a template keeps in a variable, and in an attribute.
pub(super) const KEPT: &str = "kept";
pub(super) const KEPT_INSIDE: &str = "kept_inside";

/// The source, with each `{% set %}` and `{% with %}` made to pass what it keeps through the filter [`KEPT`]: values grow
/// deep by being put into each other again and again. Or what is nested too deeply in it.
///
/// # Errors
/// A sentence for people.
pub(super) fn looked_through<'s>(
    source: &'s str,
    is_expression: bool,
    syntax: &SyntaxConfig,
) -> Result<Cow<'s, str>, String> {
    let has_statements = !is_expression && source.contains("{%");
    if !is_expression && !has_statements && !source.contains("{{") {
        return Ok(Cow::Borrowed(source));
    }
    // No chain of so many can stand in so few characters.
    if !has_statements && source.len() <= BRACKETS_MAX {
        return Ok(Cow::Borrowed(source));
    }
    let mut look = Look::default();
    for token in tokenize(source, is_expression, syntax.clone()) {
        // A source that cannot be read in the first place is for the parser to tell of.
        let Ok((token, span)) = token else {
            break;
        };
        look.at(&token, span.end_offset as usize)?;
    }
    Ok(look.rewritten(source))
}

/// How far a source was looked through.
#[derive(Default)]
struct Look<'s> {
    /// Operators of the chain so far, those around it included.
    n_operators: usize,
    /// For each open bracket: the operators before it, and those of its longest element.
    brackets: Vec<(usize, usize)>,
    n_elifs: usize,
    statement: Statement<'s>,
    /// Where what a statement keeps begins, once its `=` was seen, and whether it can be deep.
    kept_from: Option<(usize, bool)>,
    /// Whether it is kept in an attribute.
    is_attribute: bool,
    last_end: usize,
    insertions: Vec<(usize, String)>,
}

/// Which statement a token is in.
#[derive(Default, PartialEq)]
enum Statement<'s> {
    /// None.
    #[default]
    Outside,
    /// One whose first word comes now.
    Begun,
    /// This one.
    Named(&'s str),
}

impl<'s> Look<'s> {
    fn at(&mut self, token: &Token<'s>, end: usize) -> Result<(), String> {
        match token {
            Token::TemplateData(_) => {}
            Token::VariableStart | Token::BlockStart => {
                self.n_operators = 0;
                self.brackets.clear();
                self.statement = if matches!(token, Token::BlockStart) { Statement::Begun } else { Statement::Outside };
            }
            Token::VariableEnd | Token::BlockEnd => {
                self.keep_ends();
                self.statement = Statement::Outside;
                self.is_attribute = false;
            }
            Token::Ident(name) => self.word(name)?,
            Token::Comma => {
                self.next_element();
                if self.brackets.is_empty() && self.statement == Statement::Named("with") {
                    self.keep_ends();
                }
                self.may_be_deep();
            }
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => {
                self.operator()?;
                self.may_be_deep();
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
            Token::Assign => {
                let keeps = matches!(self.statement, Statement::Named("set" | "with"));
                if keeps && self.brackets.is_empty() && self.kept_from.is_none() {
                    self.kept_from = Some((end, self.is_attribute));
                }
            }
            Token::Dot => {
                self.is_attribute |= self.kept_from.is_none();
                self.operator()?;
            }
            Token::Pipe => {
                self.may_be_deep();
                self.operator()?;
            }
            Token::Plus
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
        self.last_end = end;
        Ok(())
    }

    fn word(&mut self, name: &'s str) -> Result<(), String> {
        if self.statement == Statement::Begun {
            self.statement = Statement::Named(name);
            self.n_elifs += usize::from(name == "elif");
            if self.n_elifs > ELIFS_MAX {
                return Err(format!("has more than {ELIFS_MAX} `elif`"));
            }
            return Ok(());
        }
        match name {
            "not" | "and" | "or" | "if" | "else" | "in" | "is" => self.operator(),
            _ => Ok(()),
        }
    }

    fn operator(&mut self) -> Result<(), String> {
        self.n_operators += 1;
        if self.n_operators > OPERATORS_MAX {
            return Err(format!("has more than {OPERATORS_MAX} operators in one expression"));
        }
        Ok(())
    }

    /// Elements of a list stand beside each other, not in each other.
    fn next_element(&mut self) {
        match self.brackets.last_mut() {
            Some((before, longest)) => {
                *longest = (*longest).max(self.n_operators);
                self.n_operators = *before;
            }
            None => self.n_operators = 0,
        }
    }

    fn may_be_deep(&mut self) {
        if let Some((_, is_deep)) = &mut self.kept_from {
            *is_deep = true;
        }
    }

    fn keep_ends(&mut self) {
        if let Some((from, true)) = self.kept_from.take() {
            self.insertions.push((from, "(".into()));
            let filter = if self.is_attribute { KEPT_INSIDE } else { KEPT };
            self.insertions.push((self.last_end, format!(")|{filter}")));
        }
    }

    fn rewritten(self, source: &'s str) -> Cow<'s, str> {
        if self.insertions.is_empty() {
            return Cow::Borrowed(source);
        }
        let mut rewritten = String::with_capacity(source.len() + self.insertions.len() * 8);
        let mut done = 0;
        for (at, what) in &self.insertions {
            rewritten.push_str(source.get(done..*at).unwrap_or_default());
            rewritten.push_str(what);
            done = *at;
        }
        rewritten.push_str(source.get(done..).unwrap_or_default());
        Cow::Owned(rewritten)
    }
}

/// Passes on what may be kept in a variable.
pub(super) fn kept(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    keep(state, value, false)
}

/// Passes on what may be kept in an attribute.
pub(super) fn kept_inside(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    keep(state, value, true)
}

fn keep(state: &mut State<'_, '_>, value: Value, is_inside: bool) -> Result<Value, Error> {
    const VISITS: &str = "visits";
    let mut visits = state.get_temp(VISITS).and_then(|visits| u64::try_from(visits).ok()).unwrap_or_default();
    check_counted(&value, is_inside, &mut visits)?;
    state.set_temp(VISITS, visits.into());
    Ok(value)
}

/// Whether a value can be written: it is not nested so deeply that this would overflow the stack.
pub(super) fn check(value: &Value) -> Result<(), Error> {
    check_counted(value, false, &mut 0)
}

fn check_counted(value: &Value, is_inside: bool, visits: &mut u64) -> Result<(), Error> {
    let refuse = |what: String| Err(Error::new(ErrorKind::InvalidOperation, what));
    let mut open = vec![(value.clone(), 0)];
    while let Some((value, level)) = open.pop() {
        let is_map = match value.kind() {
            ValueKind::Map => true,
            ValueKind::Seq | ValueKind::Iterable => false,
            _ => continue,
        };
        // One that holds itself would have no end.
        if is_inside && value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace")) {
            return refuse("a namespace cannot be kept in a namespace".into());
        }
        if level >= LEVELS_MAX {
            return refuse(format!("a value is nested deeper than {LEVELS_MAX} levels"));
        }
        for item in value.try_iter()? {
            *visits += 1;
            if *visits > VISITS_MAX {
                return refuse(format!("looks at more than {VISITS_MAX} elements"));
            }
            let inner = if is_map { value.get_item(&item)? } else { item };
            if matches!(inner.kind(), ValueKind::Map | ValueKind::Seq | ValueKind::Iterable) {
                open.push((inner, level + 1));
            }
        }
    }
    Ok(())
}
