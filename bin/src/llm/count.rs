//! `rethread llm count`: counting without asking anybody.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rethread_llm::Request;
use rethread_llm::tokens::{Counter, Encoding};

use super::print::{out, print_json, usage};
use super::read::read_text;

#[derive(Debug, Args)]
pub(super) struct CountArgs {
    /// The file with a request in neutral JSON (an object with `messages`), or with any text; `-` for stdin
    file: PathBuf,
    /// The model whose encoding to use (default: that of the request, or the newest encoding)
    #[arg(long)]
    model: Option<String>,
    /// Count with this encoding: cl100k_base or o200k_base
    #[arg(long)]
    encoding: Option<String>,
    /// Count the file as plain text, also if it is a request
    #[arg(long)]
    text: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Counts without asking anybody: a request as its provider would bill it, or a plain text.
pub(super) fn count(args: CountArgs) -> ExitCode {
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
