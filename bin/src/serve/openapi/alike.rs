//! Common parts of operations: the parts of paths, and the refusals that all requests of a kind share. Entries of an
//! operation itself come first.

use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Content, KnownFormat, Ref, RefOr, Required, Response, ResponseBuilder, Schema, SchemaFormat};

/// The variable parts of paths: name, description, pattern.
const PARTS: [(&str, &str, &str); 6] = [
    ("thread", "The id of the thread", "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"),
    ("interaction", "The id of the question", "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9]{1,18}$"),
    (
        "name",
        "The name of the workflow, signal, schedule or incoming webhook; what is a `/` in it is written as `%2F`",
        "^.+$",
    ),
    (
        "wait",
        "The id of the wait, or what it is called in `pending`",
        "^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-)?[0-9]{1,18}$",
    ),
    ("memory", "The id of the memory", "^[0-9a-f]{16}$"),
    ("hash", "A hash, 64 hexadecimal digits", "^[0-9a-f]{64}$"),
];
const PROBLEM: &str = "application/problem+json";

/// Adds to an operation what every one of its kind has.
pub(super) fn complete(path: &str, operation: &mut Operation) {
    let parts = PARTS.iter().filter(|(name, ..)| path.contains(&format!("{{{name}}}")));
    let run = path.contains("{run}").then(run);
    let parts: Vec<_> = parts.map(|(name, what, pattern)| part(name, what, pattern)).chain(run).collect();
    let parameters = operation.parameters.get_or_insert_default();
    let has_query = parameters.iter().any(is_in_query);
    let has_moment = parameters.iter().any(|parameter| is_in_query(parameter) && is_called(parameter, "checkpoint"));
    parameters.iter_mut().for_each(is_never_null);
    parameters.splice(0..0, parts);
    let mut can_be = |status: &str, what: &str| {
        let answers = &mut operation.responses.responses;
        answers.entry(status.into()).or_insert_with(|| ResponseBuilder::new().description(what).into());
    };
    if has_moment {
        can_be("404", "There is no such thread, or it has no such moment");
    } else if path.contains("{thread}") {
        can_be("404", "There is no such thread");
    }
    if has_query {
        can_be("400", "A parameter cannot be used");
    }
    if let Some(RefOr::T(body)) = &operation.request_body {
        if is_json(body) {
            can_be("400", "The body is not what is expected");
        }
        can_be("413", "The body is larger than this server takes");
        can_be("415", "The body is of another kind than is read here");
    }
    // Who asks, how, how much, and whether the server can.
    can_be("default", "A problem of any other kind: see docs/HTTP.md");
    for (status, answer) in &mut operation.responses.responses {
        if let RefOr::T(answer) = answer
            && (status == "default" || status.starts_with(['4', '5']))
        {
            is_a_problem(answer);
        }
    }
}

fn part(name: &str, what: &str, pattern: &str) -> RefOr<Parameter> {
    in_path(name, what, ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)))
}

/// Other parts are texts; the id of a run is a number, as in `run_id`.
fn run() -> RefOr<Parameter> {
    let schema =
        ObjectBuilder::new().schema_type(Type::Integer).format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)));
    in_path("run", "The id of the run; the first run of a thread has 0", schema.minimum(Some(0)))
}

fn in_path(name: &str, what: &str, schema: ObjectBuilder) -> RefOr<Parameter> {
    let part = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
    RefOr::T(part.description(Some(what)).schema(Some(schema)).build())
}

/// A header or a parameter that is optional is left out: as a value there is no null.
fn is_never_null(parameter: &mut RefOr<Parameter>) {
    if let RefOr::T(Parameter { schema: Some(RefOr::T(Schema::Object(schema))), .. }) = parameter
        && let SchemaType::Array(types) = &schema.schema_type
        && let Some(only) = types.iter().find(|of| **of != Type::Null)
    {
        schema.schema_type = SchemaType::Type(only.clone());
    }
}

fn is_in_query(parameter: &RefOr<Parameter>) -> bool {
    matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query)
}

fn is_called(parameter: &RefOr<Parameter>, name: &str) -> bool {
    matches!(parameter, RefOr::T(parameter) if parameter.name == name)
}

fn is_json(body: &RequestBody) -> bool {
    body.content.len() == 1 && body.content.contains_key("application/json")
}

fn is_a_problem(answer: &mut Response) {
    let problem = || RefOr::T(Content::new(Some(RefOr::Ref(Ref::from_schema_name("Problem")))));
    answer.content.entry(PROBLEM.into()).or_insert_with(problem);
}
