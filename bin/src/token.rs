//! `token`: who may use the server from elsewhere.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use rethread::Time;
use serde_json::json;

use crate::exit::{FAILED, Failure, NOT_FOUND};
use crate::open::OpenArgs;
use crate::serve::tokens::{Kept, Scope, Tokens};
use crate::{gc, label_args, output};

/// Create, list and revoke the tokens of `rethread serve`.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Create a token and print it once; only its hash is stored
    Create(CreateArgs),
    /// List tokens, without their secrets
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token; a running server refuses it at once
    Revoke {
        /// The id of the token, as `token list` prints it
        id: String,
    },
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// The scope of the token
    #[arg(long, value_enum)]
    scope: Scope,
    /// What the token is for, shown in the list
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Who uses the token, shown in the list
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
    /// A label of the threads that the token is for; with several, threads with all of them (default: all threads)
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// How long the token is valid: `90d`, `12h`, `2 weeks` (default: until it is revoked)
    #[arg(long, value_name = "TIME", value_parser = expiry)]
    expires: Option<Time>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(open: &OpenArgs, args: TokenArgs) -> Result<ExitCode, Failure> {
    open.only_here("tokens lie beside the log, so they are made on the server's machine, with its --data-dir")?;
    let tokens = Tokens::beside(&open.data_dir);
    match args.command {
        TokenCommand::Create(args) => {
            let labels = label_args::all(&args.labels)?;
            let (token, kept) =
                tokens.create(args.scope, args.note, args.owner, labels, args.expires, now()).map_err(failed)?;
            if args.json {
                output::print_json(
                    &json!({ "token": token, "id": kept.id, "scope": kept.scope, "labels": kept.labels, "expires_at": kept.expires_at }),
                )?;
            } else {
                output::print(token)?;
                if open.prints_messages() {
                    output::print_message(&format!(
                        "store it: it is not shown again; revoke it with: rethread token revoke {}",
                        kept.id
                    ));
                }
            }
        }
        TokenCommand::List { json } => {
            let all = tokens.list().map_err(failed)?;
            if json {
                output::print_json(&all.iter().map(described).collect())?;
            } else if all.is_empty() && open.prints_messages() {
                output::print_message("no tokens");
            }
            for kept in all.iter().filter(|_| !json) {
                let texts = [kept.owner.as_deref(), kept.note.as_deref()];
                let mut about: Vec<_> = texts.into_iter().flatten().map(|text| output::sanitize(text, 80)).collect();
                if !kept.labels.is_empty() {
                    about.insert(0, format!("only {}", output::sanitize(&kept.labels.to_string(), 200)));
                }
                if let Some(at) = kept.expires_at {
                    about.insert(0, format!("{} {at}", if at <= now() { "expired" } else { "expires" }));
                }
                let (scope, about) = (kept.scope.name(), about.join(", "));
                output::print(format!("{}  {scope:<8} {}  {about}", kept.id, kept.created_at).trim_end())?;
            }
        }
        TokenCommand::Revoke { id } => {
            if !tokens.revoke(&id).map_err(failed)? {
                let message = format!("no token {}: see `rethread token list`", output::sanitize(&id, 80));
                return Err(Failure::new(NOT_FOUND, message));
            }
            output::print(format!("{id} revoked"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn described(kept: &Kept) -> serde_json::Value {
    json!({
        "id": kept.id,
        "scope": kept.scope,
        "note": kept.note,
        "owner": kept.owner,
        "labels": kept.labels,
        "created_at": kept.created_at,
        "expires_at": kept.expires_at,
    })
}

fn expiry(text: &str) -> Result<Time, String> {
    gc::moment(text, |now, long| now.checked_add(long))
}

fn failed(error: impl ToString) -> Failure {
    Failure::new(FAILED, error)
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_unix_us(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
