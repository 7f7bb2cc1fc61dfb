//! Texts that are repeated while a source is compiled. minijinja computes constant expressions when it compiles, before
//! [`super::meter`] can charge for them, and lets each `text * number` make 100 MB. So the products of constants are
//! checked in the parsed source, from the inside out.

use minijinja::machinery::ast::{BinOp, BinOpKind, Expr};
use minijinja::syntax::SyntaxConfig;

use super::walk::walk;

/// The most bytes of text that the constant products of a source may make together.
pub(super) const REPEATED_BYTES_MAX: usize = 256 << 10;

/// Checks the constant products of a source. A source that cannot be parsed has none.
///
/// # Errors
/// A sentence for people, when a product makes a text that is too long.
pub(super) fn check(source: &str, is_expression: bool, syntax: &SyntaxConfig) -> Result<(), String> {
    let mut left = REPEATED_BYTES_MAX;
    walk(source, is_expression, syntax, &mut |part| match part {
        Expr::BinOp(it) if !fits(it, &mut left) => {
            Err(format!("repeats constant texts to more than {REPEATED_BYTES_MAX} bytes"))
        }
        _ => Ok(()),
    })
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
