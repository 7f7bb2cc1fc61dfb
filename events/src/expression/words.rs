//! Names and arguments in expressions that every evaluation refuses.

use minijinja::machinery::ast::{Call, CallArg, Expr};
use minijinja::machinery::{Token, tokenize};
use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};

use super::allowance::metered;
use super::context::{self, ENVIRONMENT};
use super::meter::{Program, apply};
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
                apply(&mut ENVIRONMENT.empty_state(), it.name, arguments)
            }),
            Expr::Test(it) => refused(&it.args, &format!("test `{}`", it.name), |arguments| {
                ENVIRONMENT.empty_state().perform_test(it.name, arguments).map(Value::from)
            }),
            Expr::Call(it) => match &it.expr {
                Expr::Var(function) if !variables.contains(function.id) => of_function(part, it, function.id),
                _ => method(it, |name| variables.contains(name)),
            },
            _ => None,
        };
        unknown.extend(found.filter(|found| !unknown.contains(found)));
        Ok(())
    });
    debug_assert!(walked.is_ok(), "the visit has no error");
    if !is_expression {
        unknown.extend(other_templates(source));
    }
    unknown
}

/// The statements of a template that read another template: there is none.
fn other_templates(source: &str) -> Option<String> {
    let tokens: Vec<_> = tokenize(source, false, ENVIRONMENT.syntax().clone()).map_while(Result::ok).collect();
    let names = tokens.windows(2).filter_map(|pair| match pair {
        [(Token::BlockStart, _), (Token::Ident(name), _)] => Some(*name),
        _ => None,
    });
    let mut others = names.filter(|name| ["include", "import", "from", "extends"].contains(name));
    others.next().map(|name| format!("there is no statement `{name}`: a text has no other templates"))
}

/// Calls a filter or a test with values of several kinds. Returns what is wrong for all of them.
fn refused(arguments: &[CallArg<'_>], called: &str, call: impl Fn(&[Value]) -> Result<Value, Error>) -> Option<String> {
    let is_unknown = |error: &Error| matches!(error.kind(), ErrorKind::UnknownFilter | ErrorKind::UnknownTest);
    if metered(|| call(&[Value::from(())])).is_err_and(|error| is_unknown(&error)) {
        return Some(format!("there is no {called}"));
    }
    let arguments = constants(arguments)?;
    let null = || Value::from(());
    let map = || Value::from_iter([("a", 0)]);
    let lists = [vec![], vec![null()], vec![Value::from("a")], vec![map()]].map(Value::from);
    let samples = [null(), Value::from(""), Value::from("1"), Value::from(0), map()].into_iter().chain(lists);
    let errors: Vec<_> = samples
        .map(|sample| {
            let all: Vec<_> = std::iter::once(sample).chain(arguments.iter().cloned()).collect();
            metered(|| call(&all)).err()
        })
        .collect();
    // A name that is not there, or an argument too many, shows with some values only.
    let is_certain = |error: &&Error| is_unknown(error) || error.kind() == ErrorKind::TooManyArguments;
    let certain = errors.iter().flatten().find(is_certain);
    let error = certain.or_else(|| errors.last()?.as_ref().filter(|_| errors.iter().all(Option::is_some)))?;
    let what = match error.kind() {
        ErrorKind::TooManyArguments => error.detail().unwrap_or("it takes fewer arguments").to_owned(),
        _ if is_unknown(error) => "its argument names a filter or a test that is not there".to_owned(),
        kind => {
            let what = error.detail().map_or_else(|| kind.to_string(), str::to_owned);
            match arguments.last().filter(|last| last.is_kwargs()) {
                Some(_) => format!("{what}: give the arguments in their order, without names"),
                None => what,
            }
        }
    };
    Some(format!("{called}: {what}"))
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

/// Calls a function of the engine whose arguments are all constant.
fn of_function(part: &Expr<'_>, call: &Call<'_>, name: &str) -> Option<String> {
    constants(&call.args)?;
    let error = metered(|| Program::parsed(part, "").run(&ENVIRONMENT, Value::from(()))).err()?;
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    Some(format!("function `{name}`: {what}"))
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
        Expr::Const(_) | Expr::List(_) | Expr::Tuple(_) | Expr::Map(_) => true,
        _ => false,
    };
    is_value.then(|| format!("there is no method `{}`: values have filters, as in `value | upper`", method.name))
}
