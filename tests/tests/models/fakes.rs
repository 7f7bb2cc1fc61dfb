//! The fake providers, and folders with profiles that reach them.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rethread_tests::binary::{HANG, Ran, Running, Scene, root};
use serde_json::{Value, json};

/// A protocol that the fake providers speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Anthropic,
    Responses,
    Chat,
    Gemini,
}

impl Protocol {
    pub(crate) const ALL: [Self; 4] = [Self::Anthropic, Self::Responses, Self::Chat, Self::Gemini];

    /// The provider of a profile.
    pub(crate) fn provider(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "openai_responses",
            Self::Chat => "openai_chat",
            Self::Gemini => "gemini",
        }
    }

    /// A present model.
    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-sonnet-5-5",
            Self::Responses => "gpt-5.6-terra",
            Self::Chat => "gpt-6-luna",
            Self::Gemini => "gemini-3.8-flash",
        }
    }

    /// The name in the log of requests.
    fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "responses",
            Self::Chat => "chat",
            Self::Gemini => "gemini",
        }
    }

    /// The list of the table of models.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses | Self::Chat => "openai",
            Self::Gemini => "gemini",
        }
    }
}

/// The server of this test binary. It ends when its standard input does, so that it outlives no test, however that ends.
struct Server {
    port: u16,
    log: PathBuf,
    _child: Child,
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("models-{}.jsonl", std::process::id()));
        let mut command = Command::new("python3");
        command.arg("-B").arg(root().join("tests/src/fake_providers.py")).arg("0").arg(&log).arg("--until-stdin-ends");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("`{line}`")).parse().unwrap();
        Server { port, log, _child: child }
    })
}

/// A folder, and the requests of its programs.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) scene: Scene,
    name: String,
}

impl Lane {
    /// One without a configuration.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        Self { scene: Scene::new(), name }
    }

    /// One with the profile `main` of this model.
    pub(crate) fn of(protocol: Protocol, model: &str) -> Self {
        Self::with(protocol, model, "")
    }

    /// One with the profile `main` of this model, which has further keys.
    pub(crate) fn with(protocol: Protocol, model: &str, keys: &str) -> Self {
        let lane = Self::new();
        lane.configure(&lane.profile("main", protocol.provider(), model, keys));
        lane
    }

    /// The address for a provider.
    pub(crate) fn url(&self, provider: &str) -> String {
        let version = if provider.starts_with("openai") { "/v1" } else { "" };
        format!("http://127.0.0.1:{}/lane/{}{version}", server().port, self.name)
    }

    /// The address of a server of open models, which wants no key.
    pub(crate) fn local_url(&self) -> String {
        format!("http://127.0.0.1:{}/lane/local-{}/v1", server().port, self.name)
    }

    /// A profile in TOML.
    pub(crate) fn profile(&self, name: &str, provider: &str, model: &str, keys: &str) -> String {
        let url = self.url(provider);
        format!(
            "[profiles.{name}]\nprovider = \"{provider}\"\nmodel = \"{model}\"\nbase_url = \"{url}\"\n\
             api_key_env = \"FAKE_KEY\"\nretry = {{ attempts_max = 1 }}\n{keys}\n"
        )
    }

    pub(crate) fn configure(&self, toml: &str) {
        self.scene.write("rethread.toml", toml);
    }

    /// Writes a workflow `NAME.yaml`.
    pub(crate) fn workflow(&self, name: &str, nodes: &str) {
        self.scene.write(&format!("{name}.yaml"), format!("version: \"1\"\nname: {name}\n{nodes}"));
    }

    pub(crate) fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.scene.command(arguments);
        command.env("FAKE_KEY", "sk-fake");
        command
    }

    /// Runs a command to its end; the words are its arguments, split at spaces.
    pub(crate) fn run(&self, words: &str) -> Ran {
        self.run_args(words.split_whitespace())
    }

    pub(crate) fn run_args<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        Running::start(self.command(arguments)).end()
    }

    pub(crate) fn begin(&self, words: &str) -> Running {
        let mut command = self.command(words.split_whitespace());
        command.stdin(Stdio::piped());
        Running::start(command)
    }

    /// Types these lines, and then ends the input.
    pub(crate) fn talk(&self, words: &str, lines: &str) -> Ran {
        let mut running = self.begin(words);
        running.write(lines);
        running.end_input();
        running.end()
    }

    /// The calls of models so far, in order.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let log = std::fs::read_to_string(&server().log).unwrap_or_default();
        // The last line may be in the middle of its writing.
        let whole = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let records = whole.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mine = [self.name.clone(), format!("local-{}", self.name)];
        let is_mine =
            |record: &Value| mine.iter().any(|name| record["lane"] == **name) && !record["protocol"].is_null();
        records.filter(is_mine).map(Request).collect()
    }

    /// The calls so far, none of which was refused, and of whose thoughts the provider dropped none.
    #[track_caller]
    pub(crate) fn accepted(&self) -> Vec<Request> {
        let requests = self.requests();
        assert!(!requests.is_empty(), "no call");
        for request in &requests {
            assert_eq!(request.status(), 200, "{}: {}", request.error(), request.body());
            assert_eq!(request.0["dropped"], json!([]), "the provider dropped thoughts: {}", request.body());
        }
        requests
    }

    /// The calls so far that speak a protocol.
    pub(crate) fn requests_of(&self, protocol: Protocol) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.0["protocol"] == protocol.name()).collect()
    }

    /// Waits until so many calls are held open.
    pub(crate) fn wait_until_held(&self, n: usize) {
        let until = Instant::now() + HANG;
        while self.requests().iter().filter(|request| request.status() == 0).count() < n {
            assert!(Instant::now() < until, "no call is held");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The events of some types of the last thread.
    pub(crate) fn events(&self, types: &str) -> Vec<Value> {
        self.run(&format!("events last --jsonl --type {types}")).ok().lines()
    }

    /// What was left out of the requests of the last thread: the call, and each change.
    pub(crate) fn changes(&self) -> Vec<(u64, Value)> {
        let of = |event: Value| {
            let call = event["data"]["call_id"].as_u64().unwrap();
            let changes = event["data"]["changes"].as_array().unwrap().clone();
            assert!(!changes.is_empty(), "{event}");
            changes.into_iter().map(move |change| (call, change))
        };
        self.events("LLM_REQUEST_CHANGED").into_iter().flat_map(of).collect()
    }

    /// How many thoughts were left out of the requests of the last thread, for each of them.
    pub(crate) fn thoughts_left_out(&self) -> Vec<u64> {
        let changes = self.changes().into_iter().map(|(_, change)| change);
        changes.filter(|change| change["what"] == "thoughts").map(|change| change["n"].as_u64().unwrap()).collect()
    }
}

/// A call that a provider received.
#[derive(Debug, Clone)]
pub(crate) struct Request(pub(crate) Value);

impl Request {
    /// The status of the answer; 0 while it is held open.
    pub(crate) fn status(&self) -> u64 {
        self.0["status"].as_u64().unwrap()
    }

    pub(crate) fn body(&self) -> &Value {
        &self.0["body"]
    }

    pub(crate) fn error(&self) -> &str {
        self.0["error"].as_str().unwrap_or_default()
    }

    pub(crate) fn path(&self) -> &str {
        self.0["path"].as_str().unwrap()
    }

    pub(crate) fn answer(&self) -> &Value {
        &self.0["answer"]
    }

    /// The elements of `system`, `tools` or `messages` as they were sent, without markers of caching.
    pub(crate) fn sent(&self, part: &str) -> Vec<&str> {
        self.0["sent"][part].as_array().unwrap().iter().map(|raw| raw.as_str().unwrap()).collect()
    }

    /// How many thoughts it had.
    pub(crate) fn n_thoughts(&self) -> u64 {
        self.0["n_thoughts"].as_u64().unwrap()
    }

    /// How many answers of the model it had.
    pub(crate) fn n_answers(&self) -> u64 {
        let answers =
            |message: &&&str| message.contains("\"role\":\"assistant\"") || message.contains("\"role\":\"model\"");
        self.sent("messages").iter().filter(answers).count() as u64
    }

    /// Whether it begins with the bytes of an earlier one: with its instructions, its tools and its messages.
    pub(crate) fn begins_with(&self, before: &Self) -> Result<(), String> {
        for part in ["system", "tools", "messages"] {
            let (before, now) = (before.sent(part), self.sent(part));
            let same = before.iter().zip(&now).take_while(|(before, now)| before == now).count();
            if same < before.len() || part == "system" && same < now.len() {
                let (before, now) = (before.get(same), now.get(same));
                return Err(format!("{part}[{same}]:\n  {}\n  {}", before.unwrap_or(&"-"), now.unwrap_or(&"-")));
            }
        }
        Ok(())
    }
}

/// The fakes themselves: each rule refuses what it is for, and takes what is next to it.
#[test]
fn fakes_refuse_what_is_documented() {
    let check = root().join("tests/src/fakes/check.py");
    let checked = Command::new("python3").arg("-B").arg(check).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
