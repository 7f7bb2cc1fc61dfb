//! Requests made up from the OpenAPI document, thousands of them, good and bad: nothing fails inside, what the document
//! allows is understood, what it does not allow is refused, and every answer fits the document.

mod values;

use std::collections::BTreeMap;

use jsonschema::Validator;
use rethread_tests::random::Random;
use serde_json::{Value, json};

use self::values::Values;
use crate::http::{Request, Response};
use crate::place::Place;

/// How many requests each operation is sent.
const ROUNDS: usize = 40;
/// How many findings are printed.
const SHOWN_MAX: usize = 12;

/// What is asked with and what is compared: one method of one path.
struct Operation {
    path: String,
    method: String,
    parameters: Vec<Parameter>,
    /// Its media type and schema, and whether there must be one.
    body: Option<(String, Checked, bool)>,
    answers: BTreeMap<String, Validator>,
}

struct Parameter {
    name: String,
    /// `path`, `query` or `header`.
    place: String,
    is_required: bool,
    /// A list, with commas between its items.
    is_list: bool,
    schema: Checked,
}

struct Checked {
    schema: Value,
    validator: Validator,
}

/// A request and what the document says of it.
struct Made {
    request: Request,
    shown: String,
    /// Why the document does not allow it.
    fault: Option<String>,
    /// Parameters that exclude or need each other, which OpenAPI cannot say of parameters.
    is_ambiguous: bool,
}

fn checked(schema: &Value, components: &Value) -> Checked {
    let mut whole = schema.clone();
    whole["components"] = components.clone();
    let validator = jsonschema::options().should_validate_formats(true).build(&whole).unwrap();
    Checked { schema: schema.clone(), validator }
}

fn operations(document: &Value) -> Vec<Operation> {
    let components = &document["components"];
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let parameter = |parameter: &Value| Parameter {
                name: parameter["name"].as_str().unwrap().to_owned(),
                place: parameter["in"].as_str().unwrap().to_owned(),
                is_required: parameter["required"] == true,
                is_list: parameter["schema"]["type"] == "array",
                schema: checked(&parameter["schema"], components),
            };
            let contents = operation["requestBody"]["content"].as_object();
            let content = contents.and_then(|contents| contents.iter().next());
            let is_required = operation["requestBody"]["required"] == true;
            let answer = |(status, answer): (&String, &Value)| {
                let schema = answer["content"].as_object()?.iter().find(|(kind, _)| kind.ends_with("json"))?.1;
                Some((status.clone(), checked(&schema["schema"], components).validator))
            };
            operations.push(Operation {
                path: path.clone(),
                method: method.to_uppercase(),
                parameters: operation["parameters"].as_array().into_iter().flatten().map(parameter).collect(),
                body: content.map(|(kind, of)| (kind.clone(), checked(&of["schema"], components), is_required)),
                answers: operation["responses"].as_object().unwrap().iter().filter_map(answer).collect(),
            });
        }
    }
    operations
}

impl Operation {
    fn make(&self, place: &Place, values: &mut Values) -> Made {
        let (mut path, mut query, mut headers) = (self.path.clone(), Vec::new(), Vec::new());
        let (mut fault, mut moments) = (None, 0);
        for parameter in &self.parameters {
            if !parameter.is_required && !values.percent(35) {
                continue;
            }
            let text = values.parameter(&parameter.name, &parameter.schema.schema);
            let value = values::read(&text, &parameter.schema.schema, parameter.is_list);
            // What is not in the path is another path.
            if let Err(error) = parameter.schema.validator.validate(&value)
                && parameter.place != "path"
            {
                fault = Some(format!("{}: {error}", parameter.name));
            }
            moments += usize::from(["seq", "checkpoint", "at", "run"].contains(&parameter.name.as_str()));
            match parameter.place.as_str() {
                "path" => path = path.replace(&format!("{{{}}}", parameter.name), &values::escaped(&text)),
                "query" => query.push(format!("{}={}", parameter.name, values::escaped(&text))),
                _ => headers.push((parameter.name.clone(), text)),
            }
        }
        let has_key = query.iter().any(|given| given.starts_with("label_key="));
        let names = |name: &str| query.iter().any(|given| given.starts_with(name));
        let is_search_page = names("query=") && names("cursor=");
        let is_half = has_key != query.contains(&"by=label".to_owned());
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let mut request = place.request(&self.method, &path);
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let mut shown = format!("{} {path} {headers:?}", self.method);
        if let Some((kind, schema, is_required)) = &self.body {
            let body = if kind.ends_with("/json") { values.body(&schema.schema) } else { values.text() };
            let read = serde_json::from_str::<Value>(&body);
            match read.as_ref().map(|value| schema.validator.validate(value)) {
                _ if !kind.ends_with("/json") || body.is_empty() && !is_required => {}
                Ok(Ok(())) => {}
                Ok(Err(error)) => fault = Some(format!("body: {error}")),
                Err(error) => fault = Some(format!("body: {error}")),
            }
            shown = format!("{shown}\n  {body}");
            request = request.body(kind, body);
        }
        Made { request, shown, fault, is_ambiguous: moments > 1 || is_half || is_search_page }
    }

    /// What is wrong with an answer.
    fn judge(&self, made: &Made, answer: &Response) -> Option<String> {
        let status = answer.status;
        if status >= 500 {
            return Some("it failed inside".into());
        }
        match &made.fault {
            Some(fault) if status < 400 => return Some(format!("the document does not allow it ({fault})")),
            // A well-formed request may still be unusable (422), name something that does not exist (404), or conflict
            // (409).
            None if matches!(status, 400 | 413 | 415) && !made.is_ambiguous => {
                return Some("the document allows it".into());
            }
            _ => {}
        }
        let media_type = answer.header("content-type").unwrap_or_default();
        if status >= 400 && media_type != "application/problem+json" {
            return Some(format!("a problem as {media_type}"));
        }
        let schema =
            self.answers.get(&status.to_string()).or_else(|| self.answers.get("default").filter(|_| status >= 400));
        let schema = schema.filter(|_| media_type.ends_with("json"))?;
        schema.validate(&answer.value()).err().map(|error| format!("the answer: {error} at {}", error.instance_path()))
    }
}

#[test]
fn generated_requests_are_answered_as_documented() {
    let place = Place::with("--body-bytes-max 200000");
    let document = place.get("/v1/openapi.json").value();
    let operations = operations(&document);
    assert!(operations.len() > 40);
    // Another number tries other requests.
    let seed = std::env::var("RETHREAD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut values = Values::new(Random::new(seed), &document, &place);
    let (mut found, mut n_done) = (Vec::new(), BTreeMap::<u16, usize>::new());
    for round in 0..ROUNDS {
        for operation in &operations {
            // Reads the whole log each time.
            if operation.path == "/v1/log/verify" && round > 0 {
                continue;
            }
            let made = operation.make(&place, &mut values);
            let answer = made.request.clone().send();
            *n_done.entry(answer.status).or_default() += 1;
            if let Some(what) = operation.judge(&made, &answer) {
                let body: String = answer.body.chars().take(400).collect();
                found.push(format!("{what}: {}\n  {} {body}", made.shown, answer.status));
            }
            values.learn(&answer);
        }
    }
    assert!(
        found.is_empty(),
        "{} of them: {n_done:?}\n{}",
        found.len(),
        found[..found.len().min(SHOWN_MAX)].join("\n")
    );
    // They are no good if all of them are refused at the door.
    let done: usize = [200, 201, 204].iter().filter_map(|status| n_done.get(status)).sum();
    assert!(done * 4 > n_done.values().sum::<usize>(), "{n_done:?}");
    assert!([201, 400, 404, 409, 422].iter().all(|status| n_done.contains_key(status)), "{n_done:?}");
    let problem = place.post("/v1/threads", &json!({ "workflow": "x", "hash": "y" })).problem(400, "invalid-request");
    assert!(problem["detail"].as_str().unwrap().contains("not several"));
}
