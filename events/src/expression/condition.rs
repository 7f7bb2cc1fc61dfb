//! Conditions: expressions whose value is a boolean. `and`, `or`, `not` and `if … else` combine booleans only, so that
//! no text, number or list opens a way by being there.

use minijinja::Error;
use minijinja::machinery::ast::{BinOpKind, Expr, UnaryOpKind};
use minijinja::machinery::parse_expr;
use minijinja::value::{Value, ValueKind as Kind};

use super::allowance::metered;
use super::context::{Context, ENVIRONMENT, ExpressionError, check_limits};
use super::limits::Limited;
use super::meter::Program;

/// The characters of a value that an error shows.
const SHOWN_CHARS_MAX: usize = 60;

impl Context {
    /// Whether a condition holds.
    ///
    /// # Errors
    /// When the condition cannot be evaluated, and when its value, or that of a part that `and`, `or`, `not` or `if`
    /// combine, is not a boolean.
    pub fn holds(&self, source: &str) -> Result<bool, ExpressionError> {
        check_limits(source, true)?;
        let parsed = parse_expr(source).map_err(|e| ExpressionError::new(&e, source))?;
        metered(|| self.truth(&parsed, source))
    }

    fn truth(&self, condition: &Expr<'_>, source: &str) -> Result<bool, ExpressionError> {
        match condition {
            Expr::BinOp(both) if matches!(both.op, BinOpKind::ScAnd) => {
                Ok(self.truth(&both.left, source)? && self.truth(&both.right, source)?)
            }
            Expr::BinOp(either) if matches!(either.op, BinOpKind::ScOr) => {
                Ok(self.truth(&either.left, source)? || self.truth(&either.right, source)?)
            }
            Expr::UnaryOp(not) if matches!(not.op, UnaryOpKind::Not) => Ok(!self.truth(&not.expr, source)?),
            Expr::IfExpr(choice) if choice.false_expr.is_some() => {
                let chosen = if self.truth(&choice.test_expr, source)? {
                    Some(&choice.true_expr)
                } else {
                    choice.false_expr.as_ref()
                };
                chosen.map_or(Ok(false), |chosen| self.truth(chosen, source))
            }
            leaf => {
                let value = self.leaf(leaf, source).map_err(|e| self.failed(&e, source, true))?;
                if value.is_undefined() {
                    return Err(self.undefined(source, true, None));
                }
                match value.kind() {
                    Kind::Bool => Ok(value.is_true()),
                    _ => Err(ExpressionError::of(no_boolean(leaf, &value), source)),
                }
            }
        }
    }

    fn leaf(&self, leaf: &Expr<'_>, source: &str) -> Result<Value, Error> {
        let (value, _) = Program::parsed(leaf, source).run(&ENVIRONMENT, self.0.clone())?;
        Ok(value.unwrap_or_default())
    }
}

/// The kind of a value, as far as the definition determines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ValueKind {
    /// Null.
    Null,
    /// True or false.
    Boolean,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A list.
    List,
    /// An object.
    Object,
}

impl ValueKind {
    fn of(value: &Value) -> Option<Self> {
        Some(match value.kind() {
            Kind::None => Self::Null,
            Kind::Bool => Self::Boolean,
            Kind::Number => Self::Number,
            Kind::String => Self::Text,
            Kind::Seq | Kind::Iterable => Self::List,
            Kind::Map => Self::Object,
            _ => return None,
        })
    }

    /// Its name with an article, for an error.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }

    /// How a value of the kind is compared, so that the result is a boolean.
    const fn compared(self) -> &'static str {
        match self {
            Self::Null => " is not none",
            Self::Boolean => "",
            Self::Number => " > 0",
            Self::Text => r#" == "yes""#,
            Self::List | Self::Object => " | length > 0",
        }
    }
}

/// Checks that a condition can be a boolean. `variable` gives the kind of a variable, where it is known.
///
/// # Errors
/// Returns the first part that cannot be a condition. A condition that cannot be parsed is skipped.
pub(crate) fn check_condition(
    source: &str,
    variable: &dyn Fn(&str) -> Option<ValueKind>,
) -> Result<(), ExpressionError> {
    if check_limits(source, true).is_err() {
        return Ok(());
    }
    match parse_expr(source) {
        Ok(parsed) => check_parsed(&parsed, source, variable),
        Err(_) => Ok(()),
    }
}

fn check_parsed(
    condition: &Expr<'_>,
    source: &str,
    variable: &dyn Fn(&str) -> Option<ValueKind>,
) -> Result<(), ExpressionError> {
    let check = |part: &Expr<'_>| check_parsed(part, source, variable);
    let kind = match condition {
        Expr::BinOp(op) => match op.op {
            BinOpKind::ScAnd | BinOpKind::ScOr => {
                check(&op.left)?;
                return check(&op.right);
            }
            BinOpKind::Concat => Some(ValueKind::Text),
            BinOpKind::Sub | BinOpKind::Div | BinOpKind::FloorDiv | BinOpKind::Rem | BinOpKind::Pow => {
                Some(ValueKind::Number)
            }
            _ => None,
        },
        Expr::UnaryOp(op) => match op.op {
            UnaryOpKind::Not => return check(&op.expr),
            UnaryOpKind::Neg => Some(ValueKind::Number),
        },
        Expr::IfExpr(choice) => {
            check(&choice.test_expr)?;
            check(&choice.true_expr)?;
            return choice.false_expr.as_ref().map_or(Ok(()), check);
        }
        Expr::Const(constant) => ValueKind::of(&constant.value),
        Expr::List(_) | Expr::Tuple(_) => Some(ValueKind::List),
        Expr::Map(_) => Some(ValueKind::Object),
        Expr::Filter(filter) => match filter.name {
            "length" | "count" | "int" | "float" | "abs" | "round" => Some(ValueKind::Number),
            "upper" | "lower" | "trim" | "title" | "capitalize" | "join" | "replace" | "string" => {
                Some(ValueKind::Text)
            }
            _ => None,
        },
        Expr::Var(name) => variable(name.id),
        Expr::Slice(_) | Expr::Compare(_) | Expr::Test(_) | Expr::GetAttr(_) | Expr::GetItem(_) | Expr::Call(_) => None,
    };
    match kind {
        Some(kind) if kind != ValueKind::Boolean => {
            let message =
                format!("{} is {} and not a boolean: {}", named(condition), kind.name(), advice(condition, kind));
            Err(ExpressionError::of(message, source))
        }
        _ => Ok(()),
    }
}

fn named(part: &Expr<'_>) -> String {
    match part {
        Expr::Var(variable) => format!("`{}`", variable.id),
        _ => "the condition".to_owned(),
    }
}

/// The two ways to write a condition over a value that is not a boolean.
fn advice(part: &Expr<'_>, kind: ValueKind) -> String {
    let name = match part {
        Expr::Var(variable) => variable.id,
        _ => "…",
    };
    let compared = kind.compared();
    format!("compare it (`{name}{compared}`), or let the question that sets it have a type (`answer: boolean`)")
}

/// The error of a value that is not a boolean.
fn no_boolean(part: &Expr<'_>, value: &Value) -> String {
    let kind = ValueKind::of(value).unwrap_or(ValueKind::Object);
    // Written as JSON into a buffer with a limit: the value may be large.
    let mut json = Limited::new();
    let shown = match serde_json::to_writer(&mut json, value) {
        Ok(()) => String::from_utf8_lossy(&json.bytes).into_owned(),
        Err(_) => "…".to_owned(),
    };
    let shown = match shown.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    };
    let what = match kind {
        ValueKind::Null => "null".to_owned(),
        ValueKind::Boolean => "a value".to_owned(),
        ValueKind::Number | ValueKind::Text | ValueKind::List | ValueKind::Object => {
            format!("the {} {shown}", kind.name().rsplit(' ').next().unwrap_or_default())
        }
    };
    format!("{} is {what} and not a boolean: {}", named(part), advice(part, kind))
}
