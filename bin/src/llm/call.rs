//! `rethread llm call`: one request, one answer.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rethread_llm::{CallContext, Delta, Listener, Request, Response, TryEvent};

use super::print::{failed, no_client, note, out, print_json, usage};
use super::read::read_text;
use super::target::{Target, client};

#[derive(Debug, Args)]
pub(super) struct CallArgs {
    #[command(flatten)]
    target: Target,
    /// The file with the request in neutral JSON; `-` for stdin
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    /// Stream the answer
    #[arg(long)]
    stream: bool,
    /// Print the whole answer as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn call(args: CallArgs) -> ExitCode {
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

fn read_request(path: &Path) -> Result<Request, String> {
    let text = read_text(path)?;
    serde_json::from_str(&text).map_err(|e| format!("{} is not a request: {e}", path.display()))
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
                note(&format!("the answer was interrupted; attempt {attempt} starts it again"));
            }
            Delta::Reasoning(_) | Delta::ToolCall { .. } => {}
        }
    }

    fn tried(&mut self, event: TryEvent) {
        if let (Some(error), Some(wait_ms)) = (event.error, event.wait_ms) {
            self.close();
            let model = event.model.map(|model| format!(" of {model}")).unwrap_or_default();
            let from = event.fallback_from.map(|from| format!(" (fallback from {from})")).unwrap_or_default();
            note(&format!("attempt {}{model}{from} failed, next in {wait_ms} ms: {error}", event.attempt));
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
