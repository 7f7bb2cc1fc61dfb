//! Conditions: expressions whose value is a boolean. `and`, `or`, `not` and `if … else` combine booleans only, so that
//! no text, number or list opens a way by being there.

use minijinja::machinery::ast::{BinOpKind, Expr, UnaryOpKind};
use minijinja::machinery::{CodeGenerator, eval, make_string_output, parse_expr};
use minijinja::value::{Value, ValueKind};
use minijinja::{AutoEscape, Error};

use super::{Context, ENVIRONMENT, ExpressionError, limited};

/// The characters of a value that an error shows.
const SHOWN_CHARS_MAX: usize = 60;

impl Context {
    /// Whether a condition holds.
    ///
    /// # Errors
    /// When the condition cannot be evaluated, and when its value, or that of a part that `and`, `or`, `not` or `if`
    /// combine, is not a boolean.
    pub fn holds(&self, source: &str) -> Result<bool, ExpressionError> {
        limited(source, true)?;
        let parsed = parse_expr(source).map_err(|e| ExpressionError::new(&e, source))?;
        self.truth(&parsed, source)
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
                    ValueKind::Bool => Ok(value.is_true()),
                    _ => Err(ExpressionError::of(no_boolean(leaf, &value), source)),
                }
            }
        }
    }

    fn leaf(&self, leaf: &Expr<'_>, source: &str) -> Result<Value, Error> {
        let mut code = CodeGenerator::new("<expression>", source);
        code.compile_expr(leaf);
        let (instructions, blocks) = code.finish();
        let mut text = String::new();
        let mut out = make_string_output(&mut text);
        let (value, _) = eval(&ENVIRONMENT, &instructions, self.0.clone(), &blocks, &mut out, AutoEscape::None)?;
        Ok(value.unwrap_or_default())
    }
}

/// What to write in place of a value that is not a boolean.
fn no_boolean(leaf: &Expr<'_>, value: &Value) -> String {
    let name = match leaf {
        Expr::Var(variable) => format!("`{}`", variable.id),
        _ => "the condition".to_owned(),
    };
    let (kind, is) = match value.kind() {
        ValueKind::String => ("text", r#" == "yes""#),
        ValueKind::Number => ("number", " > 0"),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => ("value", " | length > 0"),
        ValueKind::None => ("value", " is not none"),
        _ => ("value", " is defined"),
    };
    let compared = match leaf {
        Expr::Var(variable) => format!("`{}{is}`", variable.id),
        _ => format!("`…{is}`"),
    };
    // Written as JSON into a buffer with a limit: the value may be large.
    let mut json = super::Limited::new();
    let shown = match serde_json::to_writer(&mut json, value) {
        Ok(()) => String::from_utf8_lossy(&json.bytes).into_owned(),
        Err(_) => "…".to_owned(),
    };
    let shown = match shown.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    };
    format!(
        "{name} is the {kind} {shown} and not a boolean: compare it ({compared}), or let the question that sets it have \
         a type (`answer: boolean`)"
    )
}
