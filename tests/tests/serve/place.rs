//! A server with a log of its own, and what every test does with it.

use std::net::SocketAddr;

use rethread_tests::binary::{Ran, Running, Scene};
use serde_json::{Value, json};

use crate::http::{Request, Response, Stream};

/// Streams an answer, then asks a person, then ends.
pub(crate) const GREETING: &str = r#"
version: "1"
name: greeting
nodes:
  - id: greet
    llm:
      provider: mock
      model: scripted
      user_prompt: "Greet {{ input }}"
      stream: true
      extra:
        script:
          answers:
            - chunks: ["Hello, ", "Ada! ", "How ", "are ", "you?"]
              chunk_delay_ms: 40
    checkpoint: greeted
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Is that all?
      variables:
        - {variable_name: done, expression: "{{ input in [true, 'yes'] }}"}
edges:
  - {from: greet, to: ask}
"#;

/// Ends at once.
pub(crate) const QUICK: &str = r#"
version: "1"
name: quick
nodes:
  - id: greet
    llm:
      provider: mock
      model: scripted
      user_prompt: "Greet {{ input }}"
      extra: {script: {answers: [{text: "Hello!"}]}}
"#;

/// A folder with a log, and the server on it.
pub(crate) struct Place {
    pub(crate) scene: Scene,
    pub(crate) server: Running,
    pub(crate) address: SocketAddr,
    /// The token that the server made, where its tools run programs.
    pub(crate) token: Option<String>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    pub(crate) fn with(options: &str) -> Self {
        Self::on(Scene::new(), options)
    }

    /// A server on a log that may be there already.
    pub(crate) fn on(scene: Scene, options: &str) -> Self {
        Self::at(scene, "127.0.0.1:0", options)
    }

    pub(crate) fn at(scene: Scene, address: &str, options: &str) -> Self {
        let words = format!("serve --listen {address} {options}");
        let server = Running::start(scene.command(words.split_whitespace()));
        Self::of(scene, server)
    }

    /// A server that was just started.
    pub(crate) fn of(scene: Scene, mut server: Running) -> Self {
        let line = server.wait_until_said("serving ");
        let url = line.trim().rsplit_once("http://").unwrap().1;
        let (address, token) = match url.split_once("/#token=") {
            Some((address, token)) => (address, Some(token.to_owned())),
            None => (url, None),
        };
        Self { address: address.parse().unwrap(), token, scene, server }
    }

    /// Kills the server by force and starts another on the same log, at the same address.
    pub(crate) fn kill_and_restart(self) -> Self {
        let Self { scene, server, address, .. } = self;
        server.kill();
        Self::at(scene, &address.to_string(), "")
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        let request = Request::new(self.address, method, path);
        match &self.token {
            Some(token) => request.header("Authorization", &format!("Bearer {token}")),
            None => request,
        }
    }

    /// Runs a command with the token of the server.
    pub(crate) fn run_args<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Ran {
        let mut command = self.scene.command(arguments);
        command.envs(self.token.iter().map(|token| ("RETHREAD_TOKEN", token)));
        Running::start(command).end()
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path).send()
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        self.request("POST", path).json(body).send()
    }

    /// Follows what a path gives as server-sent events.
    pub(crate) fn follow(&self, path: &str) -> Stream {
        let stream = self.request("GET", path).header("Accept", "text/event-stream").open().unwrap();
        assert_eq!(stream.status, 200);
        stream
    }

    #[track_caller]
    pub(crate) fn put(&self, workflow: &str) -> String {
        let put = self.request("POST", "/v1/workflows").body("application/yaml", workflow).send();
        assert!([200, 201].contains(&put.status), "{}", put.body);
        put.value()["hash"].as_str().unwrap().to_owned()
    }

    /// Starts a thread; gives its id.
    #[track_caller]
    pub(crate) fn start(&self, workflow: &str) -> String {
        let started = self.post("/v1/threads", &json!({ "definition": workflow, "input": "Ada" })).is(201);
        started.value()["thread_id"].as_str().unwrap().to_owned()
    }

    /// The last event of a thread.
    #[track_caller]
    pub(crate) fn last_seq(&self, thread: &str) -> u64 {
        self.get(&format!("/v1/threads/{thread}")).is(200).value()["last_seq"].as_u64().unwrap()
    }

    /// Asks again and again until the answer is as wanted, for a minute at most.
    #[track_caller]
    pub(crate) fn until(&self, path: &str, is_wanted: impl Fn(&Value) -> bool) {
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(120);
        while !is_wanted(&self.get(path).is(200).value()) {
            assert!(std::time::Instant::now() < limit, "{path} does not come to be as wanted");
        }
    }

    /// How many threads the log has, of a page.
    #[track_caller]
    pub(crate) fn n_threads(&self) -> usize {
        self.get("/v1/threads").is(200).value()["threads"].as_array().unwrap().len()
    }

    /// Waits until the thread has ended, waits or is paused; gives its outcome.
    #[track_caller]
    pub(crate) fn at_rest(&self, thread: &str) -> Value {
        for _ in 0..8 {
            let outcome = self.get(&format!("/v1/threads/{thread}/outcome?wait_ms=30000")).is(200).value();
            if outcome["status"] != "running" && outcome["status"] != "pending" {
                return outcome;
            }
        }
        panic!("thread {thread} does not come to rest");
    }

    /// Starts a thread and waits until it asks; gives the thread and its question.
    #[track_caller]
    pub(crate) fn asking(&self) -> (String, String) {
        let thread = self.start(GREETING);
        assert_eq!(self.at_rest(&thread)["status"], "waiting");
        let open = self.get(&format!("/v1/threads/{thread}/interactions")).is(200).value();
        let id = open["interactions"][0]["id"].as_str().unwrap().to_owned();
        (thread, id)
    }
}
