//! Visits the expressions of a parsed source.

use minijinja::machinery::ast::{CallArg, Expr, Macro, Stmt};
use minijinja::machinery::{parse, parse_expr};
use minijinja::syntax::SyntaxConfig;

/// Called with each expression. An error ends the visit.
type Visit<'a> = &'a mut dyn FnMut(&Expr<'_>) -> Result<(), String>;

/// Calls `visit` with each expression of a source, operands before the expression that has them. A source that cannot be
/// parsed has none.
///
/// # Errors
/// Returns the first error of `visit`.
pub(super) fn walk(source: &str, is_expression: bool, syntax: &SyntaxConfig, visit: Visit<'_>) -> Result<(), String> {
    if is_expression {
        parse_expr(source).map_or(Ok(()), |parsed| expression(&parsed, visit))
    } else {
        parse(source, "<walk>", syntax.clone()).map_or(Ok(()), |parsed| statement(&parsed, visit))
    }
}

fn statements(all: &[Stmt<'_>], visit: Visit<'_>) -> Result<(), String> {
    all.iter().try_for_each(|one| statement(one, visit))
}

fn statement(statement: &Stmt<'_>, visit: Visit<'_>) -> Result<(), String> {
    match statement {
        Stmt::Template(it) => statements(&it.children, visit),
        Stmt::EmitExpr(it) => expression(&it.expr, visit),
        Stmt::EmitRaw(_) => Ok(()),
        Stmt::ForLoop(it) => {
            expression(&it.target, visit)?;
            expression(&it.iter, visit)?;
            maybe(it.filter_expr.as_ref(), visit)?;
            statements(&it.body, visit)?;
            statements(&it.else_body, visit)
        }
        Stmt::IfCond(it) => {
            expression(&it.expr, visit)?;
            statements(&it.true_body, visit)?;
            statements(&it.false_body, visit)
        }
        Stmt::WithBlock(it) => {
            it.assignments.iter().try_for_each(|(_, value)| expression(value, visit))?;
            statements(&it.body, visit)
        }
        Stmt::Set(it) => {
            expression(&it.target, visit)?;
            expression(&it.expr, visit)
        }
        Stmt::SetBlock(it) => {
            expression(&it.target, visit)?;
            maybe(it.filter.as_ref(), visit)?;
            statements(&it.body, visit)
        }
        Stmt::AutoEscape(it) => {
            expression(&it.enabled, visit)?;
            statements(&it.body, visit)
        }
        Stmt::FilterBlock(it) => {
            expression(&it.filter, visit)?;
            statements(&it.body, visit)
        }
        Stmt::Block(it) => statements(&it.body, visit),
        Stmt::Import(it) => {
            expression(&it.expr, visit)?;
            expression(&it.name, visit)
        }
        Stmt::FromImport(it) => expression(&it.expr, visit),
        Stmt::Extends(it) => expression(&it.name, visit),
        Stmt::Include(it) => expression(&it.name, visit),
        Stmt::Macro(it) => macro_of(it, visit),
        Stmt::CallBlock(it) => {
            expression(&it.call.expr, visit)?;
            arguments(&it.call.args, visit)?;
            macro_of(&it.macro_decl, visit)
        }
        Stmt::Do(it) => {
            expression(&it.call.expr, visit)?;
            arguments(&it.call.args, visit)
        }
    }
}

fn macro_of(it: &Macro<'_>, visit: Visit<'_>) -> Result<(), String> {
    it.defaults.iter().try_for_each(|part| expression(part, visit))?;
    statements(&it.body, visit)
}

fn maybe(part: Option<&Expr<'_>>, visit: Visit<'_>) -> Result<(), String> {
    part.map_or(Ok(()), |part| expression(part, visit))
}

fn arguments(all: &[CallArg<'_>], visit: Visit<'_>) -> Result<(), String> {
    all.iter().try_for_each(|argument| match argument {
        CallArg::Pos(value) | CallArg::Kwarg(_, value) | CallArg::PosSplat(value) | CallArg::KwargSplat(value) => {
            expression(value, visit)
        }
    })
}

fn expression(part: &Expr<'_>, visit: Visit<'_>) -> Result<(), String> {
    match part {
        Expr::Var(_) | Expr::Const(_) => {}
        Expr::Slice(it) => {
            expression(&it.expr, visit)?;
            [&it.start, &it.stop, &it.step].into_iter().try_for_each(|part| maybe(part.as_ref(), visit))?;
        }
        Expr::UnaryOp(it) => expression(&it.expr, visit)?,
        Expr::BinOp(it) => {
            expression(&it.left, visit)?;
            expression(&it.right, visit)?;
        }
        Expr::Compare(it) => {
            expression(&it.expr, visit)?;
            it.ops.iter().try_for_each(|op| expression(&op.expr, visit))?;
        }
        Expr::IfExpr(it) => {
            expression(&it.test_expr, visit)?;
            expression(&it.true_expr, visit)?;
            maybe(it.false_expr.as_ref(), visit)?;
        }
        Expr::Filter(it) => {
            maybe(it.expr.as_ref(), visit)?;
            arguments(&it.args, visit)?;
        }
        Expr::Test(it) => {
            expression(&it.expr, visit)?;
            arguments(&it.args, visit)?;
        }
        Expr::GetAttr(it) => expression(&it.expr, visit)?,
        Expr::GetItem(it) => {
            expression(&it.expr, visit)?;
            expression(&it.subscript_expr, visit)?;
        }
        Expr::Call(it) => {
            expression(&it.expr, visit)?;
            arguments(&it.args, visit)?;
        }
        Expr::List(it) => it.items.iter().try_for_each(|part| expression(part, visit))?,
        Expr::Tuple(it) => it.items.iter().try_for_each(|part| expression(part, visit))?,
        Expr::Map(it) => it.keys.iter().chain(&it.values).try_for_each(|part| expression(part, visit))?,
    }
    visit(part)
}
