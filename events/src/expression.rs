//! Templates and expressions: minijinja's, over a thread's variables and nothing else, strict about names that are
//! not there, and with a limit on the work one evaluation may take.

mod allowance;
mod condition;
mod context;
mod cost;
mod folding;
mod kinds;
mod limits;
mod meter;
pub(crate) mod names;
mod nesting;
mod ordering;
mod walk;
pub(crate) mod words;

#[cfg(test)]
mod tests;

pub(crate) use condition::{check_comparisons, check_condition};
pub(crate) use context::has_expression;
pub use context::{Context, ExpressionError, Variables, check, check_template, check_text, check_value};
pub(crate) use cost::is_cheap;
pub(crate) use kinds::ValueKind;
pub use limits::RESULT_BYTES_MAX;
pub use names::nearest;
