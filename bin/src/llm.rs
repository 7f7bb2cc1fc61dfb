//! `rethread llm`: ask a model directly, without a workflow.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use rethread_llm::profiles::ProfileError;
use rethread_llm::{
    CallContext, Client, Delta, ErrorKind, Listener, LlmError, Profile, Profiles, Provider,
    Request, Response, TryEvent,
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
    /// openai_chat, openai_responses, anthropic, gemini, gemini_openai, mock
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
    }
}

async fn call(args: CallArgs) -> ExitCode {
    let mut request = match read_request(&args.request) {
        Ok(request) => request,
        Err(why) => return usage(&why),
    };
    request.stream |= args.stream;
    let client = match client(&args.target) {
        Ok(client) => client,
        Err(ProfileError::NoKey { provider, variables }) => {
            let error = LlmError::new(
                ErrorKind::Authentication,
                provider.name(),
                format!("there is no key: set {variables}"),
            );
            return failed(&error, args.json);
        }
        Err(e) => return misconfigured(&e),
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
    let mut profiles = if target.config.exists() {
        Profiles::from_file(&target.config)?
    } else {
        Profiles::empty()
    };
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
    }
    // A name that no configuration file can hold, so that it is nobody else's.
    let name = "\0command line";
    profiles.insert(name, profile);
    profiles.client(name)
}

fn read_request(path: &Path) -> Result<Request, String> {
    let shown = path.display();
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().take(REQUEST_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path)
            .and_then(|file| file.take(REQUEST_BYTES_MAX + 1).read_to_string(&mut text))
    };
    read.map_err(|e| format!("cannot read {shown}: {e}"))?;
    if text.len() as u64 > REQUEST_BYTES_MAX {
        return Err(format!("{shown} is larger than {REQUEST_BYTES_MAX} bytes"));
    }
    serde_json::from_str(&text).map_err(|e| format!("{shown} is not a request: {e}"))
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
