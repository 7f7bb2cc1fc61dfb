//! Names and arguments in expressions that every evaluation refuses.

use minijinja::machinery::ast::{Call, CallArg, Expr};
use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};

use super::allowance::metered;
use super::context::{self, ENVIRONMENT};
use super::names::needed;
use super::walk::walk;

/// Returns a sentence for each filter, test and method in an expression or a template that is not there, and for each
/// argument that its filter or test does not take. Empty if the source cannot be parsed.
pub(crate) fn unknown(source: &str, is_expression: bool) -> Vec<String> {
    let parsed = if is_expression { context::check(source) } else { context::check_template(source) };
    if parsed.is_err() {
        return Vec::new();
    }
    let variables = needed(source, is_expression);
    let mut unknown = Vec::new();
    let walked = walk(source, is_expression, ENVIRONMENT.syntax(), &mut |part| {
        let found = match part {
            Expr::Filter(it) => refused(&it.args, &format!("filter `{}`", it.name), |arguments| {
                ENVIRONMENT.empty_state().apply_filter(it.name, arguments)
            }),
            Expr::Test(it) => refused(&it.args, &format!("test `{}`", it.name), |arguments| {
                ENVIRONMENT.empty_state().perform_test(it.name, arguments).map(Value::from)
            }),
            Expr::Call(it) => method(it, |name| variables.contains(name)),
            _ => None,
        };
        unknown.extend(found.filter(|found| !unknown.contains(found)));
        Ok(())
    });
    debug_assert!(walked.is_ok(), "the visit has no error");
    unknown
}

/// Calls a filter or a test with values of several kinds. Returns what is wrong for any value.
fn refused(arguments: &[CallArg<'_>], called: &str, call: impl Fn(&[Value]) -> Result<Value, Error>) -> Option<String> {
    let is_unknown = |error: &Error| matches!(error.kind(), ErrorKind::UnknownFilter | ErrorKind::UnknownTest);
    if metered(|| call(&[Value::from(())])).is_err_and(|error| is_unknown(&error)) {
        return Some(format!("there is no {called}"));
    }
    let arguments = constants(arguments)?;
    let samples = [Value::from(()), Value::from(""), Value::from(0), Value::from(vec![()])];
    samples.into_iter().find_map(|sample| {
        let all: Vec<_> = std::iter::once(sample).chain(arguments.iter().cloned()).collect();
        let error = metered(|| call(&all)).err()?;
        let what = match error.kind() {
            ErrorKind::TooManyArguments => error.detail().unwrap_or("it takes fewer arguments"),
            _ if is_unknown(&error) => "its argument names a filter or a test that is not there",
            _ => return None,
        };
        Some(format!("{called}: {what}"))
    })
}

/// The values of arguments that are all constant, those with names as the last one.
fn constants(arguments: &[CallArg<'_>]) -> Option<Vec<Value>> {
    let (mut values, mut named) = (Vec::new(), Vec::new());
    for argument in arguments {
        match argument {
            CallArg::Pos(value) => values.push(value.as_const()?),
            CallArg::Kwarg(name, value) => named.push((*name, value.as_const()?)),
            CallArg::PosSplat(_) | CallArg::KwargSplat(_) => return None,
        }
    }
    if !named.is_empty() {
        values.push(Kwargs::from_iter(named).into());
    }
    Some(values)
}

/// The fault of a call of a method of a variable, or of a part of one: no value of a thread has methods.
fn method(call: &Call<'_>, is_variable: impl Fn(&str) -> bool) -> Option<String> {
    let Expr::GetAttr(method) = &call.expr else { return None };
    let mut of = &method.expr;
    loop {
        of = match of {
            Expr::GetAttr(it) => &it.expr,
            Expr::GetItem(it) => &it.expr,
            _ => break,
        };
    }
    let is_value = match of {
        Expr::Var(variable) => is_variable(variable.id),
        Expr::Const(_) => true,
        _ => false,
    };
    is_value.then(|| format!("there is no method `{}`: values have filters, as in `value | upper`", method.name))
}
