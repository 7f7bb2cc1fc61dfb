//! Requests that schemathesis makes up, thousands of them: from the OpenAPI document for the API, and from a document of
//! the test for the doors, whose protocols are described elsewhere. Nothing fails inside, what a document does not allow is
//! refused, and every answer fits the document, errors included.

use std::path::Path;
use std::process::Command;

use rethread_tests::binary::{HANG, Running, Scene, root};
use rethread_tests::needs;

use crate::doors::{ASKS, CHAT};
use crate::place::{GREETING, Place};

const PYPI: &str = "schemathesis==4.32.5";
/// What each answer must be. That a request which the document allows succeeds is no part of it: what a document cannot say,
/// such as which workflows there are, decides that.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,negative_data_rejection,missing_required_header,unsupported_method,\
                      allow_header_conformance";

/// A request for records may wait for 30 s, and a wrong call of JSON-RPC has an answer with the status 200.
const CONFIG: &str = r#"
[parameters]
"query.wait_ms" = 20

[[operations]]
include-name = "POST /a2a/{workflow}"

[operations.checks]
negative_data_rejection.expected-statuses = ["2xx", "4xx"]
"#;

/// Sends the requests that are made up from a document, always the same ones: that of the server, unless a file is given.
/// `more` are more arguments.
#[track_caller]
fn run(file: Option<&Path>, more: &[&str]) {
    let Some(packages) = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "schemathesis", &[PYPI]) else { return };
    let place = Place::on(Scene::new(), "--keep-alive-ms 200");
    for workflow in [CHAT, ASKS, GREETING] {
        place.put(workflow);
    }
    let mut command = Command::new("python3");
    place.scene.write("schemathesis.toml", CONFIG);
    let arguments = "-m schemathesis.cli run --seed 1 --no-shrink --generation-database none --request-timeout 120 \
                     --phases coverage,fuzzing --warnings off --no-color";
    command.args(arguments.split_whitespace()).args(["--checks", CHECKS]).args(more);
    let server = format!("http://{}", place.address);
    match file {
        Some(file) => command.args(["--url", &server]).arg(file),
        None => command.arg(format!("{server}/v1/openapi.json")),
    };
    command.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(place.scene.path());
    // Thousands of requests take minutes on a busy machine.
    Running::start(command).end_within(10 * HANG).ok();
    place.get("/v1/threads?limit=1").is(200);
}

#[test]
fn routes_of_the_api_obey_their_document() {
    // An import has lines of JSON, for which it makes up nothing.
    let more = ["--max-examples", "5", "--exclude-path", "/v1/import"];
    run(None, &more);
}

#[test]
fn routes_of_the_doors_obey_their_protocols() {
    let document = root().join("tests/tests/serve/schemathesis/doors.json");
    run(Some(&document), &["--max-examples", "25"]);
}
