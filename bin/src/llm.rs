//! `rethread llm`: ask a model directly, without a workflow.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use futures::future::BoxFuture;
use rethread_llm::profiles::ProfileError;
use rethread_llm::relay::Relay;
use rethread_llm::tokens::{Counter, Encoding};
use rethread_llm::{
    CallContext, Client, Delta, ErrorKind, Listener, LlmError, Profile, Profiles, Provider, Request, Response, TryEvent,
};

/// The largest request file, in bytes.
const REQUEST_BYTES_MAX: u64 = 64 << 20;

/// Ask a model directly.
#[derive(Debug, Args)]
pub(crate) struct LlmArgs {
    #[command(subcommand)]
    command: LlmCommand,
}

#[derive(Debug, Subcommand)]
enum LlmCommand {
    /// Send one request and print the answer
    Call(CallArgs),
    /// Is the provider there, is the key good, how long did it take
    Check(TargetArgs),
    /// List the models on offer
    Models(TargetArgs),
    /// Count the tokens of a text or of a request
    Count(CountArgs),
}

/// Which model is meant.
#[derive(Debug, Args)]
struct Target {
    /// A profile of the configuration
    #[arg(long)]
    profile: Option<String>,
    /// The configuration file
    #[arg(long, default_value = "rethread.toml", env = "RETHREAD_CONFIG")]
    config: PathBuf,
    /// openai_chat, openai_responses, anthropic, gemini, gemini_openai, mock or human
    #[arg(long)]
    provider: Option<Provider>,
    /// Where the provider is found, as its official client libraries mean it
    #[arg(long)]
    base_url: Option<String>,
    /// The model, as its provider names it
    #[arg(long)]
    model: Option<String>,
    /// The most seconds the whole call may take
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
}

#[derive(Debug, Args)]
struct TargetArgs {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct CountArgs {
    /// A request in neutral form (a JSON object with `messages`), or any text; - reads stdin
    file: PathBuf,
    /// The model that reads it; by default the one the request names, or the newest encoding
    #[arg(long)]
    model: Option<String>,
    /// Count with this encoding: cl100k_base or o200k_base
    #[arg(long)]
    encoding: Option<String>,
    /// Count the file as plain text, whatever it holds
    #[arg(long)]
    text: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct CallArgs {
    #[command(flatten)]
    target: Target,
    /// The request in neutral form, a JSON file; - reads it from stdin
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    /// Ask for the answer in pieces
    #[arg(long)]
    stream: bool,
    /// Print the whole answer as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command. Exit code 0 with an answer, 1 with an error of the call, 2 for a request file that cannot be
/// used, 3 for a configuration that cannot be used.
pub(crate) async fn run(args: LlmArgs) -> ExitCode {
    match args.command {
        LlmCommand::Call(args) => call(args).await,
        LlmCommand::Check(args) => check(args).await,
        LlmCommand::Models(args) => models(args).await,
        LlmCommand::Count(args) => count(args),
    }
}

async fn check(args: TargetArgs) -> ExitCode {
    let client = match client(&args.target) {
        Ok(client) => client,
        Err(e) => return no_client(&e, args.json),
    };
    let health = client.check().await;
    if args.json {
        print_json(&health);
    } else if let Some(error) = &health.error {
        note(&format!("error: {error}"));
    } else {
        out(&format!("{}: reachable, key accepted, {} ms\n", health.provider, health.took_ms));
        if health.model_available == Some(false) {
            note("warning: the model is not on the provider's list");
        }
    }
    if health.error.is_some() { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

async fn models(args: TargetArgs) -> ExitCode {
    let client = match client(&args.target) {
        Ok(client) => client,
        Err(e) => return no_client(&e, args.json),
    };
    match client.models().await {
        Ok(models) if args.json => {
            print_json(&models);
            ExitCode::SUCCESS
        }
        Ok(models) => {
            let lines: String = models.iter().map(|model| format!("{}\n", model.id)).collect();
            out(&lines);
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error, args.json),
    }
}

/// Counts without asking anybody: a request as its provider would bill it, or a plain text.
fn count(args: CountArgs) -> ExitCode {
    let text = match read_text(&args.file) {
        Ok(text) => text,
        Err(why) => return usage(&why),
    };
    let request: Option<Request> = if args.text { None } else { serde_json::from_str(&text).ok() };
    let named = request.as_ref().map(|r| r.model.clone()).filter(|m| !m.is_empty());
    let model = args.model.or(named).unwrap_or_default();
    let counter = match args.encoding.as_deref() {
        None => Counter::for_model(&model),
        Some("cl100k_base") => Counter::new(Encoding::Cl100kBase, false),
        Some("o200k_base") => Counter::new(Encoding::O200kBase, false),
        Some(other) => {
            return usage(&format!("`{other}` is not an encoding: expected cl100k_base or o200k_base"));
        }
    };
    let tokens = match &request {
        Some(request) => counter.request(request),
        None => counter.text(&text),
    };
    if args.json {
        print_json(&serde_json::json!({
            "tokens": tokens,
            "encoding": counter.encoding().name(),
            "counted": if request.is_some() { "request" } else { "text" },
        }));
    } else {
        out(&format!("{tokens}\n"));
    }
    ExitCode::SUCCESS
}

async fn call(args: CallArgs) -> ExitCode {
    let mut request = match read_request(&args.request) {
        Ok(request) => request,
        Err(why) => return usage(&why),
    };
    request.stream |= args.stream;
    let client = match client(&args.target) {
        Ok(client) => client,
        Err(e) => return no_client(&e, args.json),
    };
    if let Some(model) = &args.target.model {
        request.model.clone_from(model);
    }
    let mut live = Live { text: request.stream && !args.json, open: false };
    let result = client.call(&request, CallContext::new("", &mut live)).await;
    live.close();
    match result {
        Ok(response) => answered(&response, args.json, live.text),
        Err(error) => failed(&error, args.json),
    }
}

fn client(target: &Target) -> Result<Arc<dyn Client>, ProfileError> {
    let profiles = if target.config.exists() { Profiles::from_file(&target.config)? } else { Profiles::empty() };
    let mut profiles = profiles.with_relay(Arc::new(Terminal));
    let named = match (&target.profile, target.provider) {
        (Some(name), _) => Some(name.clone()),
        (None, None) if target.model.is_none() => profiles.default_name().map(str::to_owned),
        _ => None,
    };
    let mut profile = match (named, target.provider, &target.model) {
        (Some(name), ..) => profiles.get(&name)?.clone(),
        (None, Some(provider), model) => Profile::new(provider, model.clone().unwrap_or_default()),
        (None, None, Some(model)) => match Provider::of_model(model) {
            Some(provider) => Profile::new(provider, model.clone()),
            None => return profiles.client_for_model(model),
        },
        (None, None, None) => {
            return Err(ProfileError::Syntax("say --profile, --provider or --model".into()));
        }
    };
    if let Some(url) = &target.base_url {
        profile.base_url = Some(url.clone());
    }
    if let Some(model) = &target.model {
        profile.model.clone_from(model);
    }
    if let Some(seconds) = target.timeout {
        let ms = std::time::Duration::try_from_secs_f64(seconds)
            .map_or(u64::MAX, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
        profile.retry.total_ms = profile.retry.total_ms.min(ms.max(1));
        profile.limits.wait_max_ms = profile.limits.wait_max_ms.min(ms.max(1));
    }
    // A name that no configuration file can hold, so that it is nobody else's.
    let name = "\0command line";
    profiles.insert(name, profile);
    profiles.client(name)
}

fn read_request(path: &Path) -> Result<Request, String> {
    let text = read_text(path)?;
    serde_json::from_str(&text).map_err(|e| format!("{} is not a request: {e}", path.display()))
}

fn read_text(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().take(REQUEST_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(REQUEST_BYTES_MAX + 1).read_to_string(&mut text))
    };
    read.map_err(|e| format!("cannot read {shown}: {e}"))?;
    if text.len() as u64 > REQUEST_BYTES_MAX {
        return Err(format!("{shown} is larger than {REQUEST_BYTES_MAX} bytes"));
    }
    Ok(text)
}

/// Prints the prompt and reads the answer up to the end of the input.
pub(crate) struct Terminal;

impl Relay for Terminal {
    fn ask<'a>(&'a self, _: &'a str, prompt: String) -> BoxFuture<'a, Result<String, LlmError>> {
        Box::pin(async move {
            note(&prompt);
            note("--- bring the answer here; end it with Ctrl-D ---");
            let read = tokio::task::spawn_blocking(|| {
                let mut text = String::new();
                std::io::stdin().take(REQUEST_BYTES_MAX).read_to_string(&mut text).map(|_| text)
            });
            match read.await {
                Ok(Ok(text)) => Ok(text),
                Ok(Err(e)) => Err(LlmError::new(ErrorKind::Connection, "human", e.to_string())),
                Err(e) => Err(LlmError::new(ErrorKind::Cancelled, "human", e.to_string())),
            }
        })
    }
}

/// Text as it comes in, and what goes wrong on the way.
struct Live {
    text: bool,
    open: bool,
}

impl Live {
    fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            out("\n");
        }
    }
}

impl Listener for Live {
    fn delta(&mut self, delta: Delta) {
        match delta {
            Delta::Text(text) | Delta::Refusal(text) => {
                out(&text);
                self.open = !text.ends_with('\n');
            }
            Delta::Restarted { attempt } => {
                self.close();
                note(&format!("the answer broke off; attempt {attempt} begins it anew"));
            }
            Delta::Reasoning(_) | Delta::ToolCall { .. } => {}
        }
    }

    fn tried(&mut self, event: TryEvent) {
        if let (Some(error), Some(wait_ms)) = (event.error, event.wait_ms) {
            self.close();
            note(&format!("attempt {} failed, next in {wait_ms} ms: {error}", event.attempt));
        }
    }

    fn wants_deltas(&self) -> bool {
        self.text
    }
}

fn answered(response: &Response, json: bool, shown: bool) -> ExitCode {
    if json {
        print_json(response);
        return ExitCode::SUCCESS;
    }
    if !shown {
        let text = response.refusal().unwrap_or_else(|| response.text());
        out(&text);
        if !text.ends_with('\n') {
            out("\n");
        }
    }
    for call in response.tool_calls() {
        note(&format!("calls {} {}", call.name, call.arguments.0));
    }
    ExitCode::SUCCESS
}

fn failed(error: &LlmError, json: bool) -> ExitCode {
    if json {
        print_json(&serde_json::json!({ "error": error }));
    } else {
        note(&format!("error: {error}"));
    }
    ExitCode::from(1)
}

fn usage(why: &str) -> ExitCode {
    note(&format!("error: {why}"));
    ExitCode::from(2)
}

/// A missing key is an error of the call, so that scripts find it where they look for others.
fn no_client(error: &ProfileError, json: bool) -> ExitCode {
    match error {
        ProfileError::NoKey { provider, variables } => {
            let why = format!("there is no key: set {variables}");
            failed(&LlmError::new(ErrorKind::Authentication, provider.name(), why), json)
        }
        _ => misconfigured(error),
    }
}

fn misconfigured(error: &ProfileError) -> ExitCode {
    let mut text = format!("error: {error}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    note(&text);
    ExitCode::from(3)
}

fn print_json(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => out(&(text + "\n")),
        Err(e) => note(&format!("error: the answer cannot be printed: {e}")),
    }
}

/// To stdout; a reader that went away is no fault of ours.
fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// To stderr.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
