//! Mutated files and requests: none of them panics, hangs or changes what was there. What is read inside a crate alone
//! (expressions, answers of providers, MCP) has its tests there. `just fuzz` runs all of them for a long time.

use std::fs;
use std::io::{Cursor, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use rethread::store::{LogReader, Options, SledStore, Store};
use rethread::{Position, Runtime, Workflow};
use rethread_store::testing::{append, copy_as_killed, put, thread, write_small_log};
use rethread_tests::binary::{HANG, Running, Scene, root};
use rethread_tests::fuzz::fuzz;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// The workflows of the examples and of the documentation.
fn workflows() -> Vec<Vec<u8>> {
    let examples = fs::read_dir(root().join("docs/examples")).unwrap();
    let mut seeds: Vec<_> = examples.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    let page = fs::read_to_string(root().join("docs/WORKFLOWS.md")).unwrap();
    seeds.extend(page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap().as_bytes().to_vec()));
    seeds
}

#[test]
fn mutated_workflows_are_read_or_refused() {
    fuzz("workflows", &workflows(), 600, |bytes| {
        if let Ok(workflow) = rethread::parse_workflow(bytes) {
            let again = Workflow::from_json(workflow.json()).unwrap();
            assert_eq!(again.hash(), workflow.hash());
        }
    });
}

#[test]
fn mutated_exports_are_imported_or_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let runtime = block_on(async {
        let runtime = Runtime::builder().in_memory().start().await.unwrap();
        let workflow = "version: '1'\nname: w\nnodes: [{id: a, llm: {provider: mock, model: m, user_prompt: '{{ input }}', \
                        extra: {script: {answers: [{text: Hi}]}}}}]";
        let workflow = rethread::parse_workflow(workflow.as_bytes()).unwrap();
        let thread = runtime.start_thread(workflow, "Ada").await.unwrap();
        thread.outcome().await.unwrap();
        runtime.export(thread.id(), file.reopen().unwrap()).await.unwrap();
        runtime.shutdown().await.unwrap();
        Runtime::builder().in_memory().start().await.unwrap()
    });
    let export = fs::read(file.path()).unwrap();
    fuzz("exports", std::slice::from_ref(&export), 300, |bytes| {
        let whole = rethread::operate::rerun(Cursor::new(bytes.to_vec()), None);
        // The order of whitespace at the ends of lines is all that may differ.
        let is_same = bytes.trim_ascii() == export.trim_ascii();
        assert!(is_same || whole.is_err() || same_lines(bytes, &export), "a changed export is refused");
        let _ = block_on(runtime.import_incomplete(Cursor::new(bytes.to_vec())));
    });
    block_on(runtime.shutdown()).unwrap();
}

/// Whether the lines are the same but for blanks around them and for lines that are blank.
fn same_lines(a: &[u8], b: &[u8]) -> bool {
    let lines = |bytes: &[u8]| -> Vec<Vec<u8>> {
        let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    };
    lines(a) == lines(b)
}

/// A small log as a killed process leaves it, of which a part is sealed.
fn killed_log(to: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(folder.path(), Options::default()).unwrap();
    write_small_log(&store).unwrap();
    store.close().unwrap();
    let store = SledStore::open(folder.path(), Options::default()).unwrap();
    for number in 20..60 {
        put(&store, append(thread(number), 0, &["begin", "one"])).unwrap();
    }
    copy_as_killed(folder.path(), to).unwrap();
    store.close().unwrap();
}

#[test]
fn mutated_files_of_a_log_are_read_or_reported() {
    let killed = tempfile::tempdir().unwrap();
    killed_log(killed.path());
    for file in ["journal-a", "journal-b", "mark", "format", "packs/000000"] {
        let bytes = fs::read(killed.path().join(file)).unwrap();
        let name = file.replace('/', "-");
        fuzz(&name, &[bytes], 12, |bytes| {
            let folder = tempfile::tempdir().unwrap();
            copy_as_killed(killed.path(), folder.path()).unwrap();
            fs::write(folder.path().join(file), bytes).unwrap();
            if let Ok(store) = SledStore::open(folder.path(), Options::default()) {
                let _ = (store.verify(), store.read_all(Position(0), 10_000), store.close());
            }
            if let Ok(store) = SledStore::salvage(folder.path(), Options::default()) {
                let _ = (store.verify(), store.read_all(Position(0), 10_000));
            }
        });
    }
}

#[test]
fn mutated_requests_do_not_stop_the_server() {
    let scene = Scene::new();
    let mut server = Running::start(scene.command(["serve", "--listen", "127.0.0.1:0"]));
    let line = server.wait_until_said("serving ");
    let address = line.trim().rsplit_once("http://").unwrap().1.to_owned();
    let request = |method: &str, path: &str, kind: &str, body: &str| {
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        )
    };
    let hello = fs::read_to_string(root().join("docs/examples/hello.yaml")).unwrap();
    let mut seeds = vec![
        request("POST", "/v1/workflows", "application/yaml", &hello),
        request(
            "POST",
            "/v1/threads",
            "application/json",
            r#"{"workflow":"hello","input":"Ada","variables":{"a":[1]}}"#,
        ),
        request("POST", "/v1/threads/x/fork", "application/json", r#"{"seq":3,"variables":{"a":1},"run":false}"#),
        request("POST", "/v1/import", "application/x-ndjson", "{\"workflow\":{}}\n{\"type\":\"THREAD_STARTED\"}\n"),
        request("GET", "/v1/threads?status=waiting&limit=3&after=x", "text/plain", ""),
        request("GET", "/v1/events?after=now&types=THREAD_STARTED", "text/plain", ""),
        request("POST", "/v1/interactions/x-3/respond", "application/json", r#"{"answer":true}"#),
    ];
    seeds.push(request("GET", "/health/ready", "text/plain", ""));
    let seeds: Vec<_> = seeds.into_iter().map(String::into_bytes).collect();
    let send = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(&address).unwrap();
        // A request that ends in the middle is answered when the server gives it up, which no test waits for.
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    };
    fuzz("requests", &seeds, 400, |bytes| {
        let answer = send(bytes);
        let status = answer.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.first());
        assert!(status != Some(&b'5'), "{}\n{}", String::from_utf8_lossy(bytes), String::from_utf8_lossy(&answer));
    });
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.write_all(seeds.last().unwrap()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.signal("TERM");
    server.end().ok();
}
