//! `rethread llm count`: counts and truncates locally, without a request to the provider.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rethread_llm::Request;
use rethread_llm::tokens::{Counter, Encoding, truncate};

use super::print::{out, print_json, usage};
use super::read::read_text;

#[derive(Debug, Args)]
pub(super) struct CountArgs {
    /// The files, each with a request in neutral JSON (an object with `messages`), or with any text; `-` for stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The model whose encoding to use (default: that of the request, or the newest encoding)
    #[arg(long)]
    model: Option<String>,
    /// Count with this encoding: cl100k_base or o200k_base
    #[arg(long)]
    encoding: Option<String>,
    /// Count the files as plain text, also if they are requests
    #[arg(long)]
    text: bool,
    /// Print the text of one file, truncated to at most this many tokens: its head and its tail
    #[arg(long, value_name = "TOKENS", conflicts_with = "json")]
    truncate: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Counts a request as its provider would bill it, or plain texts.
pub(super) fn count(args: CountArgs) -> ExitCode {
    let texts: Result<Vec<_>, _> = args.files.iter().map(|file| read_text(file)).collect();
    let texts = match texts {
        Ok(texts) => texts,
        Err(why) => return usage(&why),
    };
    let as_text = args.text || args.truncate.is_some() || texts.len() > 1;
    let request: Option<Request> = if as_text { None } else { serde_json::from_str(&texts[0]).ok() };
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
    if let Some(tokens_max) = args.truncate {
        let [text] = &texts[..] else {
            return usage("--truncate takes one file");
        };
        out(&truncate(counter.encoding(), text, tokens_max).text);
        return ExitCode::SUCCESS;
    }
    let tokens = match &request {
        Some(request) => vec![counter.request(request)],
        None => counter.texts(texts.iter().map(String::as_str)),
    };
    let total: u64 = tokens.iter().sum();
    if args.json {
        let mut counted = serde_json::json!({
            "tokens": total,
            "encoding": counter.encoding().name(),
            "counted": if request.is_some() { "request" } else { "text" },
        });
        if tokens.len() > 1 {
            let of = |(file, tokens): (&PathBuf, &u64)| serde_json::json!({ "file": file, "tokens": tokens });
            counted["files"] = args.files.iter().zip(&tokens).map(of).collect();
        }
        print_json(&counted);
        return ExitCode::SUCCESS;
    }
    if tokens.len() > 1 {
        for (file, tokens) in args.files.iter().zip(&tokens) {
            out(&format!("{tokens:>9} {}\n", file.display()));
        }
        out(&format!("{total:>9} total\n"));
    } else {
        out(&format!("{total}\n"));
    }
    ExitCode::SUCCESS
}
