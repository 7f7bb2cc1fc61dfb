//! Limits of memory and time for one evaluation. minijinja's fuel counts instructions, and a single one can copy or
//! compare values of any size. So a compiled source is changed before it runs: every instruction that creates a value
//! is followed by one that charges for its size, and every instruction that reads values of any size is preceded by
//! one.

use std::collections::BTreeMap;

use minijinja::machinery::ast::Expr;
use minijinja::machinery::{CodeGenerator, Instruction, Instructions, eval, make_string_output, parse, parse_expr};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value, filters, tests};

use super::allowance::charge;
use super::kinds::{check_comparable, check_member, check_number, check_ordered};
use super::{nesting, ordering};

/// The bytes that an element of a list or an object counts.
const ELEMENT_BYTES: u64 = 24;
/// How many bytes that are only read count as one that is made.
const READ_PER_MADE: u64 = 8;
// Names that no source can contain.
const MADE: &str = "~made";
const BUILT: &str = "~built";
const READ: &str = "~read";
const COMPARED: &str = "~compared";
const ORDERED: &str = "~ordered";
const MEMBER: &str = "~member";
const INSIDE: &str = "~inside";
const SLICE: &str = "~slice";
const FILTER: &str = "~filter";
const TEST: &str = "~test";

/// The first of the engine's comparisons in a chain that ask for an element, `in` and `not in`: they have no public name.
const MEMBERSHIP: u8 = 6;
/// The first of the engine's comparisons in a chain that ask for an order; those before it are `==` and `!=`.
const ORDER: u8 = 2;

/// Filters whose result is no deeper than what they are given.
const SHALLOW: &[&str] = &[
    "list",
    "select",
    "reject",
    "selectattr",
    "rejectattr",
    "sort",
    "unique",
    "reverse",
    "default",
    "d",
    "first",
    "last",
    "attr",
    "fromjson",
    "chain",
];

fn bytes(value: &Value) -> u64 {
    match value.kind() {
        ValueKind::String | ValueKind::Bytes => value.len().unwrap_or_default() as u64,
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
            (value.len().unwrap_or_default() as u64).saturating_mul(ELEMENT_BYTES)
        }
        _ => 0,
    }
}

type Compares = fn(&Value, &Value) -> bool;
type Checks = fn(&Value, &Value) -> Result<(), Error>;

/// The tests that compare, by their names: `is gt(7)`, `selectattr("score", ">", 7)`.
const COMPARISONS: &[(&[&str], Checks, Compares)] = &[
    (&["eq", "equalto", "=="], check_comparable, |one, other| one == other),
    (&["ne", "!="], check_comparable, |one, other| one != other),
    (&["lt", "lessthan", "<"], check_ordered, |one, other| one < other),
    (&["le", "<="], check_ordered, |one, other| one <= other),
    (&["gt", "greaterthan", ">"], check_ordered, |one, other| one > other),
    (&["ge", ">="], check_ordered, |one, other| one >= other),
    (&["divisibleby"], check_numbers, tests::is_divisibleby),
];

fn check_numbers(one: &Value, other: &Value) -> Result<(), Error> {
    check_number(one)?;
    check_number(other)
}

/// Adds the filters that charge, and the tests that compare.
pub(super) fn install(environment: &mut Environment<'_>) {
    environment.add_filter(MADE, made);
    environment.add_filter(BUILT, built);
    environment.add_filter(READ, read);
    environment.add_filter(COMPARED, |one, other| compared(one, other, check_comparable));
    environment.add_filter(ORDERED, |one, other| compared(one, other, check_ordered));
    environment.add_filter(MEMBER, |one, other| compared(one, other, check_member));
    environment.add_filter("map", map);
    environment.add_test("in", |state: &State<'_, '_>, value: &Value, other: &Value| {
        check_member(value, other)?;
        tests::is_in(state, value, other)
    });
    environment.add_test("even", |value: Value| check_number(&value).map(|()| tests::is_even(value)));
    environment.add_test("odd", |value: Value| check_number(&value).map(|()| tests::is_odd(value)));
    for (names, check, holds) in COMPARISONS {
        for name in *names {
            environment.add_test(*name, move |value: Value, other: Value| {
                check(&value, &other).map(|()| holds(&value, &other))
            });
        }
    }
    environment.add_filter(INSIDE, |value: Value| nesting::check_inside(&value).map(|()| value));
    environment.add_filter(SLICE, slice);
    environment.add_filter(FILTER, filter);
    environment.add_filter(TEST, test);
}

fn made(value: Value) -> Result<Value, Error> {
    charge(bytes(&value)).map(|()| value)
}

fn built(value: Value) -> Result<Value, Error> {
    charge(bytes(&value))?;
    nesting::check(&value).map(|()| value)
}

fn read(value: Value) -> Result<Value, Error> {
    charge(bytes(&value) / READ_PER_MADE).map(|()| value)
}

/// Two values that are about to be compared, in the order in which they are unpacked.
fn compared(one: Value, other: Value, check: Checks) -> Result<Value, Error> {
    charge((bytes(&one) + bytes(&other)) / READ_PER_MADE)?;
    check(&one, &other)?;
    Ok(Value::from(vec![other, one]))
}

/// `value[start:stop:step]` as in Python. The engine's own counts below zero where `stop` is above `start` and the step is
/// negative.
fn slice(value: Value, start: Option<i64>, stop: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    charge(bytes(&value))?;
    let step = i128::from(step.unwrap_or(1));
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "cannot slice by step size of 0"));
    }
    match (value.as_str(), value.kind()) {
        (Some(text), _) => {
            let chars: Vec<char> = text.chars().collect();
            Ok(places(chars.len(), start, stop, step).map(|at| chars[at]).collect::<String>().into())
        }
        (None, ValueKind::Seq | ValueKind::Iterable) => {
            let items: Vec<Value> = value.try_iter()?.collect();
            Ok(places(items.len(), start, stop, step).map(|at| items[at].clone()).collect::<Vec<_>>().into())
        }
        (None, ValueKind::Undefined) => Err(Error::from(ErrorKind::UndefinedError)),
        (None, kind) => Err(Error::new(ErrorKind::InvalidOperation, format!("value of type {kind} cannot be sliced"))),
    }
}

/// The places that a slice of `n` elements names, in its order.
fn places(n: usize, start: Option<i64>, stop: Option<i64>, step: i128) -> impl Iterator<Item = usize> {
    let n = n as i128;
    // The ends for a step in this direction, as Python has them.
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let place = |at: i64| if at < 0 { i128::from(at) + n } else { i128::from(at) }.clamp(low, high);
    let (first, end) = if step > 0 { (low, high) } else { (high, low) };
    let (first, end) = (start.map_or(first, place), stop.map_or(end, place));
    let next = move |at: &i128| Some(at + step);
    let is_inside = move |at: &i128| if step > 0 { *at < end } else { *at > end };
    std::iter::successors(Some(first), next).take_while(is_inside).map(|at| at as usize)
}

/// Calls the filter that the last argument names.
fn filter(state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let (name, arguments) = named(arguments)?;
    apply(state, &name, &arguments)
}

/// Calls a filter.
pub(super) fn apply(state: &mut State<'_, '_>, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    ordering::check(name, arguments)?;
    let value = state.apply_filter(name, arguments).map_err(|error| unknown(error, "filter", name))?;
    if SHALLOW.contains(&name) { made(value) } else { built(value) }
}

/// `map`. The engine's own drops the arguments with names that are for the filter.
fn map(state: &mut State<'_, '_>, value: Value, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    let Some(name) = arguments.first().and_then(Value::as_str) else {
        return filters::map(state, value, Rest(arguments.into_iter().map(ValueOrKwargs::from).collect()))
            .map(Value::from);
    };
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let of_item = |item: Value| {
        let all: Vec<_> = std::iter::once(item).chain(arguments[1..].iter().cloned()).collect();
        apply(state, name, &all)
    };
    value.try_iter()?.map(of_item).collect::<Result<Vec<_>, _>>().map(Value::from)
}

/// Asks the test that the last argument names.
fn test(state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>) -> Result<bool, Error> {
    let (name, arguments) = named(arguments)?;
    state.perform_test(&name, &arguments).map_err(|error| unknown(error, "test", &name))
}

/// The name that is the last argument, and those before it. Arguments with names are one of those, the last.
fn named(arguments: Rest<ValueOrKwargs>) -> Result<(String, Vec<Value>), Error> {
    let mut arguments = arguments.into_values();
    for argument in &arguments {
        charge(bytes(argument) / READ_PER_MADE)?;
    }
    let name = arguments.pop().and_then(|name| name.as_str().map(str::to_owned));
    Ok((name.ok_or_else(|| Error::from(ErrorKind::MissingArgument))?, arguments))
}

fn unknown(error: Error, what: &str, name: &str) -> Error {
    match (error.kind(), error.detail()) {
        (ErrorKind::UnknownFilter | ErrorKind::UnknownTest, None) => {
            Error::new(error.kind(), format!("{what} {name} is unknown"))
        }
        _ => error,
    }
}

/// A source that is ready to run, with what charges in it.
pub(super) struct Program<'s> {
    instructions: Instructions<'s>,
    blocks: BTreeMap<&'s str, Instructions<'s>>,
}

impl<'s> Program<'s> {
    pub(super) fn expression(source: &'s str) -> Result<Self, Error> {
        Ok(Self::parsed(&parse_expr(source)?, source))
    }

    /// A part of an expression.
    pub(super) fn parsed(expression: &Expr<'s>, source: &'s str) -> Self {
        let mut generator = CodeGenerator::new("<expression>", source);
        generator.compile_expr(expression);
        Self::of(generator)
    }

    pub(super) fn template(source: &'s str, syntax: SyntaxConfig) -> Result<Self, Error> {
        let parsed = parse(source, "<string>", syntax)?;
        let mut generator = CodeGenerator::new("<string>", source);
        generator.compile_stmt(&parsed);
        Ok(Self::of(generator))
    }

    fn of(generator: CodeGenerator<'s>) -> Self {
        let (instructions, blocks) = generator.finish();
        let blocks = blocks.into_iter().map(|(name, block)| (name, charged(&block))).collect();
        Self { instructions: charged(&instructions), blocks }
    }

    /// The value of an expression, and the text of a template. Called in [`metered`].
    pub(super) fn run(&self, environment: &'s Environment<'s>, root: Value) -> Result<(Option<Value>, String), Error> {
        let mut text = String::new();
        let mut output = make_string_output(&mut text);
        let (value, _) = eval(environment, &self.instructions, root, &self.blocks, &mut output, AutoEscape::None)?;
        Ok((value, text))
    }
}

/// Returns the instructions with charging ones between them.
fn charged<'s>(plain: &Instructions<'s>) -> Instructions<'s> {
    let all = || (0..).map_while(|at| plain.get(at));
    let mut places = Vec::new();
    let mut next = 0;
    for instruction in all() {
        places.push(next);
        let (before, after) = charges(instruction);
        next += (before.len() + 1 + after.len()) as u32;
    }
    places.push(next);
    let place = |target: u32| places.get(target as usize).copied().unwrap_or(next);
    let mut charged = Instructions::new(plain.name(), plain.source());
    for instruction in all() {
        let (before, after) = charges(instruction);
        before.into_iter().chain([moved(instruction, place)]).chain(after).for_each(|one| {
            charged.add(one);
        });
    }
    charged
}

/// An instruction whose jump, if it is one, leads to where its target is now.
fn moved<'s>(instruction: &Instruction<'s>, place: impl Fn(u32) -> u32) -> Instruction<'s> {
    match instruction {
        Instruction::Iterate(target) => Instruction::Iterate(place(*target)),
        Instruction::Jump(target) => Instruction::Jump(place(*target)),
        Instruction::JumpIfFalse(target) => Instruction::JumpIfFalse(place(*target)),
        Instruction::JumpIfFalseOrPop(target) => Instruction::JumpIfFalseOrPop(place(*target)),
        Instruction::JumpIfTrueOrPop(target) => Instruction::JumpIfTrueOrPop(place(*target)),
        Instruction::BuildMacro(name, target, flags) => Instruction::BuildMacro(name, place(*target), *flags),
        // The formatter charges for what is written, so that text of the template is written by it as well.
        Instruction::EmitRaw(_) => Instruction::Emit,
        Instruction::Slice => call(SLICE, 4),
        Instruction::ApplyFilter(_, Some(n), _) => call(FILTER, n + 1),
        Instruction::PerformTest(_, Some(n), _) => call(TEST, n + 1),
        other => other.clone(),
    }
}

const fn call<'s>(filter: &'s str, n: u16) -> Instruction<'s> {
    // The last number is that of a cache, of which this is none.
    Instruction::ApplyFilter(filter, Some(n), !0)
}

/// Returns the charging instructions before an instruction, and after it. Every instruction is named, so that a new one
/// needs a decision.
fn charges<'s>(instruction: &Instruction<'s>) -> (Vec<Instruction<'s>>, Vec<Instruction<'s>>) {
    use Instruction as I;
    match instruction {
        I::EmitRaw(text) => (vec![I::LoadConst(Value::from(*text))], Vec::new()),
        I::ApplyFilter(name, Some(_), _) | I::PerformTest(name, Some(_), _) => {
            (vec![I::LoadConst(Value::from(*name))], Vec::new())
        }
        I::ApplyFilter(_, None, _) | I::BuildMap(_) | I::BuildList(_) | I::BuildTuple(_) => {
            (Vec::new(), vec![call(BUILT, 1)])
        }
        I::Slice
        | I::Add
        | I::Mul
        | I::StringConcat
        | I::EndCapture
        | I::CallFunction(..)
        | I::CallMethod(..)
        | I::CallObject(_) => (Vec::new(), vec![call(MADE, 1)]),
        I::In => (vec![call(MEMBER, 2), I::UnpackList(2)], Vec::new()),
        I::CompareAndPreserve(op) if *op as u8 >= MEMBERSHIP => (vec![call(MEMBER, 2), I::UnpackList(2)], Vec::new()),
        I::CompareAndPreserve(op) if (*op as u8) < ORDER => (vec![call(COMPARED, 2), I::UnpackList(2)], Vec::new()),
        I::Eq | I::Ne => (vec![call(COMPARED, 2), I::UnpackList(2)], Vec::new()),
        I::Gt | I::Gte | I::Lt | I::Lte | I::CompareAndPreserve(_) => {
            (vec![call(ORDERED, 2), I::UnpackList(2)], Vec::new())
        }
        // The namespace is on top of the value.
        I::SetAttr(_) => (vec![I::Swap, call(INSIDE, 1), I::Swap], Vec::new()),
        I::StoreLocal(_)
        | I::Lookup(_)
        | I::GetAttr(_)
        | I::GetItem
        | I::LoadConst(_)
        | I::BuildKwargs(_)
        | I::MergeKwargs(_)
        | I::UnpackList(_)
        | I::UnpackLists(_)
        | I::Sub
        | I::Div
        | I::IntDiv
        | I::Rem
        | I::Pow
        | I::Neg
        | I::Not
        | I::PerformTest(_, None, _)
        | I::Emit
        | I::PushLoop(_)
        | I::PushWith
        | I::Iterate(_)
        | I::PushDidNotIterate
        | I::PopFrame
        | I::PopLoopFrame
        | I::Jump(_)
        | I::JumpIfFalse(_)
        | I::JumpIfFalseOrPop(_)
        | I::JumpIfTrueOrPop(_)
        | I::PushAutoEscape
        | I::PopAutoEscape
        | I::BeginCapture(_)
        | I::DupTop
        | I::DiscardTop
        | I::FastSuper
        | I::FastRecurse
        | I::Swap
        | I::CallBlock(_)
        | I::LoadBlocks
        | I::Include(_)
        | I::ExportLocals
        | I::BuildMacro(..)
        | I::Return
        | I::IsUndefined
        | I::Enclose(_)
        | I::GetClosure => (Vec::new(), Vec::new()),
    }
}
