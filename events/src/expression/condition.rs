//! Conditions: expressions whose value is a boolean. `and`, `or`, `not` and `if … else` combine booleans only, so that
//! no text, number or list opens a way by being there.

use minijinja::Error;
use minijinja::machinery::ast::{BinOpKind, CompareOpKind, Expr, UnaryOpKind};
use minijinja::machinery::parse_expr;
use minijinja::value::{Value, ValueKind as Kind};

use super::allowance::metered;
use super::context::{Context, ENVIRONMENT, ExpressionError, check_limits};
use super::kinds::{
    ValueKind, are_comparable, check_comparable, check_member, check_ordered, json, not_comparable, shown,
};
use super::meter::Program;
use super::walk::walk;

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
    match condition {
        Expr::BinOp(op) if matches!(op.op, BinOpKind::ScAnd | BinOpKind::ScOr) => {
            check(&op.left)?;
            return check(&op.right);
        }
        Expr::UnaryOp(op) if matches!(op.op, UnaryOpKind::Not) => return check(&op.expr),
        Expr::IfExpr(choice) => {
            check(&choice.test_expr)?;
            check(&choice.true_expr)?;
            return choice.false_expr.as_ref().map_or(Ok(()), check);
        }
        _ => {}
    }
    match kind_of(condition, variable) {
        Some(kind) if kind != ValueKind::Boolean => {
            let message =
                format!("{} is {} and not a boolean: {}", named(condition), kind.name(), advice(condition, kind));
            Err(ExpressionError::of(message, source))
        }
        _ => Ok(()),
    }
}

/// Checks that the values that a source compares have kinds that can be compared, as far as the definition determines them.
///
/// # Errors
/// Returns the first comparison that fails whatever the values are. A source that cannot be parsed is skipped.
pub(crate) fn check_comparisons(
    source: &str,
    is_expression: bool,
    variable: &dyn Fn(&str) -> Option<ValueKind>,
) -> Result<(), ExpressionError> {
    if check_limits(source, is_expression).is_err() {
        return Ok(());
    }
    // A statement may set a variable of the same name.
    let has_statements = !is_expression && source.contains("{%");
    let known = |name: &str| variable(name).filter(|_| !has_statements);
    let checked = walk(source, is_expression, ENVIRONMENT.syntax(), &mut |part| comparison(part, &known));
    checked.map_err(|what| ExpressionError::of(what, source))
}

fn comparison(part: &Expr<'_>, variable: &dyn Fn(&str) -> Option<ValueKind>) -> Result<(), String> {
    match part {
        Expr::BinOp(op) => match compared(&op.op) {
            Some(how) => check_operands((&op.left, &op.right), how, variable),
            None => Ok(()),
        },
        Expr::Compare(compare) => {
            let mut left = &compare.expr;
            for op in &compare.ops {
                let how = match op.op {
                    CompareOpKind::In | CompareOpKind::NotIn => Compared::Member,
                    CompareOpKind::Eq | CompareOpKind::Ne => Compared::Equal,
                    CompareOpKind::Lt | CompareOpKind::Lte | CompareOpKind::Gt | CompareOpKind::Gte => Compared::Order,
                };
                check_operands((left, &op.expr), how, variable)?;
                left = &op.expr;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What a comparison asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    Equal,
    Order,
    Member,
}

const fn compared(op: &BinOpKind) -> Option<Compared> {
    match op {
        BinOpKind::Eq | BinOpKind::Ne => Some(Compared::Equal),
        BinOpKind::Lt | BinOpKind::Lte | BinOpKind::Gt | BinOpKind::Gte => Some(Compared::Order),
        BinOpKind::In => Some(Compared::Member),
        _ => None,
    }
}

fn check_operands(
    (left, right): (&Expr<'_>, &Expr<'_>),
    how: Compared,
    variable: &dyn Fn(&str) -> Option<ValueKind>,
) -> Result<(), String> {
    if let (Some(left), Some(right)) = (left.as_const(), right.as_const()) {
        let checked = metered(|| match how {
            Compared::Equal => check_comparable(&left, &right),
            Compared::Order => check_ordered(&left, &right),
            Compared::Member => check_member(&left, &right),
        });
        return checked.map_err(|error| error.detail().unwrap_or("the values cannot be compared").to_owned());
    }
    match (kind_of(left, variable), kind_of(right, variable)) {
        (_, Some(ValueKind::List | ValueKind::Object)) if how == Compared::Member => Ok(()),
        (Some(of_left), Some(of_right)) if !are_comparable(of_left, of_right, how == Compared::Order) => {
            let said = |part, kind: ValueKind| format!("{} is {}", operand(part), kind.name());
            Err(not_comparable((&said(left, of_left), of_left), (&said(right, of_right), of_right)))
        }
        _ => Ok(()),
    }
}

/// The kind of the value of a part of a condition, as far as the definition determines it.
fn kind_of(part: &Expr<'_>, variable: &dyn Fn(&str) -> Option<ValueKind>) -> Option<ValueKind> {
    match part {
        Expr::BinOp(op) => match op.op {
            BinOpKind::Concat => Some(ValueKind::Text),
            BinOpKind::Sub | BinOpKind::Div | BinOpKind::FloorDiv | BinOpKind::Rem | BinOpKind::Pow => {
                Some(ValueKind::Number)
            }
            _ => None,
        },
        Expr::UnaryOp(op) => matches!(op.op, UnaryOpKind::Neg).then_some(ValueKind::Number),
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
        Expr::IfExpr(_)
        | Expr::Slice(_)
        | Expr::Compare(_)
        | Expr::Test(_)
        | Expr::GetAttr(_)
        | Expr::GetItem(_)
        | Expr::Call(_) => None,
    }
}

fn operand(part: &Expr<'_>) -> String {
    match part {
        Expr::Const(constant) => format!("`{}`", json(&constant.value)),
        Expr::Var(variable) => format!("`{}`", variable.id),
        _ => "`…`".to_owned(),
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
    format!("{} is {} and not a boolean: {}", named(part), shown(value, kind), advice(part, kind))
}
