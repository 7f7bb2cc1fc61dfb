//! Which sources are cheap to evaluate for all values of their variables: those that repeat nothing, call nothing,
//! and read each value at most as often as they mention it.

use minijinja::machinery::{CodeGenerator, Instruction, Instructions, parse, parse_expr};
use serde_json::Value;

use super::context::{ENVIRONMENT, check_limits, has_expression};

/// The longest cheap source, in bytes: sources are parsed each time.
const SOURCE_BYTES_MAX: usize = 16 << 10;
/// The most instructions of a cheap source.
const INSTRUCTIONS_MAX: usize = 256;

/// The filters whose time and result grow no faster than what they read.
const CHEAP_FILTERS: &[&str] = &[
    "abs",
    "bool",
    "capitalize",
    "count",
    "d",
    "default",
    "first",
    "float",
    "fromjson",
    "int",
    "join",
    "last",
    "length",
    "lower",
    "round",
    "string",
    "title",
    "tojson",
    "trim",
    "upper",
];

/// Returns whether every text in a definition is cheap to evaluate. Texts that are never evaluated may make it `false`.
pub(crate) fn is_cheap(definition: &Value) -> bool {
    match definition {
        Value::String(text) => is_cheap_source(text),
        Value::Array(items) => items.iter().all(is_cheap),
        Value::Object(entries) => entries.values().all(is_cheap),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

fn is_cheap_source(source: &str) -> bool {
    let is_template = has_expression(source);
    // A source that cannot be parsed is not evaluated.
    if check_limits(source, !is_template).is_err() {
        return true;
    }
    let mut generator = CodeGenerator::new("<cost>", source);
    if is_template {
        let Ok(parsed) = parse(source, "<cost>", ENVIRONMENT.syntax().clone()) else { return true };
        generator.compile_stmt(&parsed);
    } else {
        let Ok(parsed) = parse_expr(source) else { return true };
        generator.compile_expr(&parsed);
    }
    let (instructions, blocks) = generator.finish();
    source.len() <= SOURCE_BYTES_MAX && blocks.is_empty() && are_cheap(&instructions)
}

fn are_cheap(instructions: &Instructions<'_>) -> bool {
    let mut all = (0..).map_while(|at| instructions.get(at));
    all.by_ref().take(INSTRUCTIONS_MAX).all(is_cheap_instruction) && all.next().is_none()
}

/// Every instruction is named, so that a new one is decided about.
fn is_cheap_instruction(instruction: &Instruction<'_>) -> bool {
    use Instruction as I;
    match instruction {
        I::ApplyFilter(name, ..) => CHEAP_FILTERS.contains(name),
        I::EmitRaw(_)
        | I::Emit
        | I::Lookup(_)
        | I::GetAttr(_)
        | I::GetItem
        | I::Slice
        | I::LoadConst(_)
        | I::BuildMap(_)
        | I::BuildKwargs(_)
        | I::BuildList(_)
        | I::BuildTuple(_)
        | I::Add
        | I::Sub
        | I::Div
        | I::IntDiv
        | I::Rem
        | I::Pow
        | I::Neg
        | I::StringConcat
        | I::Eq
        | I::Ne
        | I::Gt
        | I::Gte
        | I::Lt
        | I::Lte
        | I::In
        | I::CompareAndPreserve(_)
        | I::Not
        | I::PerformTest(..)
        | I::Jump(_)
        | I::JumpIfFalse(_)
        | I::JumpIfFalseOrPop(_)
        | I::JumpIfTrueOrPop(_)
        | I::DupTop
        | I::DiscardTop
        | I::Swap
        | I::IsUndefined
        | I::Return => true,
        // What repeats, calls, multiplies, or names a value that was made here, which the next one may double.
        I::Iterate(_)
        | I::PushLoop(_)
        | I::PushDidNotIterate
        | I::PopLoopFrame
        | I::PushWith
        | I::PopFrame
        | I::StoreLocal(_)
        | I::SetAttr(_)
        | I::UnpackList(_)
        | I::UnpackLists(_)
        | I::MergeKwargs(_)
        | I::Mul
        | I::CallFunction(..)
        | I::CallMethod(..)
        | I::CallObject(_)
        | I::CallBlock(_)
        | I::LoadBlocks
        | I::Include(_)
        | I::ExportLocals
        | I::BuildMacro(..)
        | I::Enclose(_)
        | I::GetClosure
        | I::FastSuper
        | I::FastRecurse
        | I::BeginCapture(_)
        | I::EndCapture
        | I::PushAutoEscape
        | I::PopAutoEscape => false,
    }
}

#[cfg(test)]
mod tests;
