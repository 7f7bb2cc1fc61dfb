//! Texts that are repeated while a source is compiled. minijinja computes constant expressions when it compiles, before
//! [`super::meter`] can charge for them, and lets each `text * number` make 100 MB. So the products of constants are
//! checked in the parsed source, from the inside out.

use minijinja::machinery::ast::{BinOp, BinOpKind, CallArg, Expr, Macro, Stmt};
use minijinja::machinery::{parse, parse_expr};
use minijinja::syntax::SyntaxConfig;

/// The most bytes of text that the constant products of a source may make together.
pub(super) const REPEATED_BYTES_MAX: usize = 256 << 10;

/// Checks the constant products of a source. A source that cannot be parsed has none.
///
/// # Errors
/// A sentence for people, when a product makes a text that is too long.
pub(super) fn check(source: &str, is_expression: bool, syntax: &SyntaxConfig) -> Result<(), String> {
    let mut left = REPEATED_BYTES_MAX;
    let fits = if is_expression {
        parse_expr(source).map_or(true, |parsed| expression(&parsed, &mut left))
    } else {
        parse(source, "<folding>", syntax.clone()).map_or(true, |parsed| statement(&parsed, &mut left))
    };
    if fits { Ok(()) } else { Err(format!("repeats constant texts to more than {REPEATED_BYTES_MAX} bytes")) }
}

fn statements(all: &[Stmt<'_>], left: &mut usize) -> bool {
    all.iter().all(|one| statement(one, left))
}

fn statement(statement: &Stmt<'_>, left: &mut usize) -> bool {
    match statement {
        Stmt::Template(it) => statements(&it.children, left),
        Stmt::EmitExpr(it) => expression(&it.expr, left),
        Stmt::EmitRaw(_) => true,
        Stmt::ForLoop(it) => {
            let head =
                expression(&it.target, left) && expression(&it.iter, left) && maybe(it.filter_expr.as_ref(), left);
            head && statements(&it.body, left) && statements(&it.else_body, left)
        }
        Stmt::IfCond(it) => {
            expression(&it.expr, left) && statements(&it.true_body, left) && statements(&it.false_body, left)
        }
        Stmt::WithBlock(it) => {
            it.assignments.iter().all(|(_, value)| expression(value, left)) && statements(&it.body, left)
        }
        Stmt::Set(it) => expression(&it.target, left) && expression(&it.expr, left),
        Stmt::SetBlock(it) => {
            expression(&it.target, left) && maybe(it.filter.as_ref(), left) && statements(&it.body, left)
        }
        Stmt::AutoEscape(it) => expression(&it.enabled, left) && statements(&it.body, left),
        Stmt::FilterBlock(it) => expression(&it.filter, left) && statements(&it.body, left),
        Stmt::Block(it) => statements(&it.body, left),
        Stmt::Import(it) => expression(&it.expr, left) && expression(&it.name, left),
        Stmt::FromImport(it) => expression(&it.expr, left),
        Stmt::Extends(it) => expression(&it.name, left),
        Stmt::Include(it) => expression(&it.name, left),
        Stmt::Macro(it) => macro_of(it, left),
        Stmt::CallBlock(it) => {
            expression(&it.call.expr, left) && arguments(&it.call.args, left) && macro_of(&it.macro_decl, left)
        }
        Stmt::Do(it) => expression(&it.call.expr, left) && arguments(&it.call.args, left),
    }
}

fn macro_of(it: &Macro<'_>, left: &mut usize) -> bool {
    it.defaults.iter().all(|part| expression(part, left)) && statements(&it.body, left)
}

fn maybe(part: Option<&Expr<'_>>, left: &mut usize) -> bool {
    part.is_none_or(|part| expression(part, left))
}

fn arguments(all: &[CallArg<'_>], left: &mut usize) -> bool {
    all.iter().all(|argument| match argument {
        CallArg::Pos(value) | CallArg::Kwarg(_, value) | CallArg::PosSplat(value) | CallArg::KwargSplat(value) => {
            expression(value, left)
        }
    })
}

fn expression(part: &Expr<'_>, left: &mut usize) -> bool {
    match part {
        Expr::Var(_) | Expr::Const(_) => true,
        Expr::Slice(it) => {
            expression(&it.expr, left)
                && maybe(it.start.as_ref(), left)
                && maybe(it.stop.as_ref(), left)
                && maybe(it.step.as_ref(), left)
        }
        Expr::UnaryOp(it) => expression(&it.expr, left),
        Expr::BinOp(it) => expression(&it.left, left) && expression(&it.right, left) && fits(it, left),
        Expr::Compare(it) => expression(&it.expr, left) && it.ops.iter().all(|op| expression(&op.expr, left)),
        Expr::IfExpr(it) => {
            expression(&it.test_expr, left) && expression(&it.true_expr, left) && maybe(it.false_expr.as_ref(), left)
        }
        Expr::Filter(it) => maybe(it.expr.as_ref(), left) && arguments(&it.args, left),
        Expr::Test(it) => expression(&it.expr, left) && arguments(&it.args, left),
        Expr::GetAttr(it) => expression(&it.expr, left),
        Expr::GetItem(it) => expression(&it.expr, left) && expression(&it.subscript_expr, left),
        Expr::Call(it) => expression(&it.expr, left) && arguments(&it.args, left),
        Expr::List(it) => it.items.iter().all(|part| expression(part, left)),
        Expr::Tuple(it) => it.items.iter().all(|part| expression(part, left)),
        Expr::Map(it) => it.keys.iter().chain(&it.values).all(|part| expression(part, left)),
    }
}

/// Takes the text of a constant product from what is left. Its operands were checked before, so that they are short.
fn fits(product: &BinOp<'_>, left: &mut usize) -> bool {
    if !matches!(product.op, BinOpKind::Mul) {
        return true;
    }
    let (Some(first), Some(second)) = (product.left.as_const(), product.right.as_const()) else { return true };
    let repeated = first.as_str().map(|text| (text, &second)).or_else(|| second.as_str().map(|text| (text, &first)));
    let Some((text, times)) = repeated else { return true };
    // Of what is no count, the engine makes nothing.
    let Some(times) = times.as_usize() else { return true };
    let rest = text.len().checked_mul(times).and_then(|bytes| left.checked_sub(bytes));
    *left = rest.unwrap_or_default();
    rest.is_some()
}

#[cfg(test)]
mod tests;
