//! The examples of programs that embed the runtime, run from outside: nothing is lost, however they are stopped.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use rethread::Runtime;
use rethread::operate::LogAccess as _;
use rethread_tests::binary::{Ran, Running, Scene, example, root};
use serde_json::{Value, json};

use crate::http::{Request, SentEvent, Stream};

const QUESTION: &str = "USER_INTERACTION_REQUESTED";

fn begin(scene: &Scene, name: &str, arguments: &[&str]) -> Running {
    let mut command = Command::new(example(name));
    command.args(arguments).current_dir(scene.path()).env_clear().stdin(Stdio::piped());
    Running::start(command)
}

struct Service {
    running: Running,
    address: SocketAddr,
}

impl Service {
    fn start(scene: &Scene, name: &str) -> Self {
        let mut running = begin(scene, name, &["127.0.0.1:0", "log"]);
        let line = running.wait_for("listening on ");
        let address = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        Self { running, address }
    }

    fn announce(&self, what: &str) -> String {
        Request::new(self.address, "POST", "/threads").json(&json!(what)).send().is(201).body
    }

    fn answer(&self, thread: &str, question: &str, answer: &Value) -> u16 {
        let path = format!("/threads/{thread}/answers/{question}");
        Request::new(self.address, "PUT", &path).json(answer).send().status
    }

    fn events(&self, thread: &str, last: Option<&str>) -> Stream {
        let request = Request::new(self.address, "GET", &format!("/threads/{thread}/events"));
        let request = last.into_iter().fold(request, |request, id| request.header("Last-Event-ID", id));
        request.open().unwrap()
    }

    fn stop(self, signal: &str) -> Ran {
        self.running.signal(signal);
        let ran = self.running.end().ok();
        assert!(ran.stdout.ends_with("stopped\n"), "{ran}");
        ran
    }
}

fn read_until(stream: &mut Stream, seen: &mut Vec<SentEvent>, name: &str) -> String {
    while let Some(event) = stream.event().unwrap() {
        seen.push(event.clone());
        if event.name == name {
            return event.id.unwrap();
        }
    }
    panic!("the stream ended before {name}: {seen:#?}");
}

fn check_seqs(seen: &[SentEvent]) {
    let seqs: Vec<_> = seen.iter().map(SentEvent::position).collect();
    assert_eq!(seqs, (0..seen.len() as u64).collect::<Vec<_>>(), "every event once, in order");
}

fn n_sent(ran: &Ran) -> usize {
    ran.stdout.lines().filter(|line| *line == "sent: Come to the picnic on Sunday!").count()
}

fn check_log(scene: &Scene) {
    let folder = scene.file("log");
    futures::executor::block_on(async {
        let runtime = Runtime::builder().data_dir(folder).mode(rethread::Mode::Observe).start().await.unwrap();
        assert_eq!(runtime.store().verify().unwrap().faults, []);
        runtime.shutdown().await.unwrap();
    });
}

fn restarted_service_loses_nothing(name: &str) {
    let scene = Scene::new();
    let service = Service::start(&scene, name);
    let thread = service.announce("the picnic");
    let (mut stream, mut seen) = (service.events(&thread, None), Vec::new());
    assert_eq!((stream.status, stream.header("content-type")), (200, Some("text/event-stream")));
    let question = read_until(&mut stream, &mut seen, QUESTION);
    // Threads that are hardly begun, and a client that follows one of them.
    let others: Vec<_> = (0..10).map(|i| service.announce(&format!("number {i}"))).collect();
    let ran = service.stop("TERM");
    assert_eq!(n_sent(&ran), 0);
    let rest = std::iter::from_fn(|| stream.event().expect("the stream ends in good order"));
    assert_eq!(rest.collect::<Vec<_>>(), [], "nothing happened since the question");

    let service = Service::start(&scene, name);
    let mut stream = service.events(&thread, Some(&question));
    assert_eq!(service.answer(&thread, &question, &json!(true)), 204);
    read_until(&mut stream, &mut seen, "THREAD_COMPLETED");
    check_seqs(&seen);
    assert!(stream.event().unwrap().is_none(), "the stream ends with the thread");
    assert_eq!(service.answer(&thread, &question, &json!(true)), 204, "the same answer is accepted once");
    assert_eq!(service.answer(&thread, &question, &json!(false)), 409);
    assert_eq!(service.events(&thread, seen.last().unwrap().id.as_deref()).status, 204, "there is no more");
    for other in &others {
        let (mut stream, mut seen) = (service.events(other, None), Vec::new());
        let question = read_until(&mut stream, &mut seen, QUESTION);
        assert_eq!(service.answer(other, &question, &json!(true)), 204);
        read_until(&mut stream, &mut seen, "THREAD_COMPLETED");
        check_seqs(&seen);
    }
    let nobody = "019aa3b0-0000-7000-8000-000000000000";
    assert_eq!(service.events(nobody, None).status, 404);
    assert_eq!(service.answer(nobody, "3", &json!(true)), 404);
    assert_eq!(service.answer(&thread, "1", &json!(true)), 404);
    assert_eq!(n_sent(&service.stop("INT")), 1 + others.len(), "each announcement goes out once");
    check_log(&scene);
}

#[test]
fn restarted_axum_service_loses_nothing() {
    restarted_service_loses_nothing("axum_service");
}

#[test]
fn restarted_actix_service_loses_nothing() {
    restarted_service_loses_nothing("actix_service");
}

#[test]
fn restarted_synchronous_program_loses_nothing() {
    let scene = Scene::new();
    let mut running = begin(&scene, "synchronous", &["log"]);
    let thread = running.wait_for("thread ").trim().rsplit(' ').next().unwrap().to_owned();
    let again = || begin(&scene, "synchronous", &["log", &thread]);
    // At the question, by both signals and by a terminal that is closed.
    running.wait_for("asked: ");
    running.signal("TERM");
    assert_eq!(n_sent(&running.end().ok()), 0);
    let mut running = again();
    running.wait_for("asked: ");
    running.signal("INT");
    assert_eq!(n_sent(&running.end().ok()), 0);
    assert_eq!(n_sent(&again().end().ok()), 0);

    let mut running = again();
    running.wait_for("asked: Send \"Come to the picnic on Sunday!\"?");
    running.write("true\n");
    let ran = running.end().ok();
    assert_eq!(n_sent(&ran), 1);
    assert!(ran.stdout.ends_with("completed: \"It was sent.\"\n"), "{ran}");
    let events: Vec<_> = ran.stdout.lines().filter_map(|line| line.strip_prefix("event ")).collect();
    for (seq, event) in events.iter().enumerate() {
        assert!(event.starts_with(&format!("{seq} ")), "every event once, in order: {ran}");
    }
    assert!(events.last().unwrap().ends_with(" THREAD_COMPLETED"), "{ran}");
    check_log(&scene);
}

#[test]
fn embedding_guide_shows_the_code_of_the_example() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (page, program) = (read("docs/guides/embedding.md"), read("tests/examples/axum_service.rs"));
    let blocks = |language: &str| -> Vec<String> {
        let begin = format!("```{language}\n");
        page.split(&begin).skip(1).map(|rest| rest.split_once("```").unwrap().0.to_owned()).collect()
    };
    assert_eq!(blocks("yaml"), [read("tests/examples/announce.yaml")]);
    let pieces = blocks("rust");
    assert!(pieces.len() >= 7, "the page has {} pieces", pieces.len());
    for piece in pieces {
        assert!(program.contains(&piece), "this is not in the program:\n{piece}");
    }
}
