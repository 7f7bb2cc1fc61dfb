//! `media`: the images, recordings and files that models made in a thread.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rethread::{Event, Runtime, Seq};
use serde_json::json;

use crate::answer::{self, Made};
use crate::exit::{FAILED, Failure};
use crate::open::{self, OpenArgs};
use crate::output;

/// How many files of one name a folder can get.
const SAME_NAME_MAX: u32 = 1_000;

/// List the images, recordings and files that models made in a thread, or write them to a folder.
#[derive(Debug, Args)]
pub(crate) struct MediaArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// Write the files to this folder, and print their paths; no file is overwritten
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Only those of the answer with this seq, as `events` prints it
    #[arg(long, value_name = "SEQ")]
    seq: Option<u64>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

pub(crate) async fn media(open: &OpenArgs, args: MediaArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_read().await?;
    let done = of_thread(&runtime, open, &args).await;
    open::close(runtime).await?;
    done
}

async fn of_thread(runtime: &Runtime, open: &OpenArgs, args: &MediaArgs) -> Result<ExitCode, Failure> {
    let thread = open::find(runtime, &args.thread).await?;
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    let mut listed = Vec::new();
    let mut has_all = true;
    for event in thread.recorded_events(Seq(0)).await? {
        let (seq, Event::LlmCallCompleted(answer)) = (event.record.seq, &event.event) else { continue };
        if args.seq.is_some_and(|wanted| Seq(wanted) != seq) {
            continue;
        }
        for made in answer::media(&answer.message) {
            let path = match &args.out {
                Some(folder) => write(folder, seq, &made)?,
                None => None,
            };
            if args.out.is_some() && path.is_none() {
                has_all = false;
                let why = match &made.media.url {
                    Some(url) => format!("only its address is known: {}", output::sanitize(url, 400)),
                    None => "its bytes cannot be read".to_owned(),
                };
                output::print_error(&format!("part {} of the answer at seq {seq}: {why}", made.part));
            }
            listed.push((
                seq,
                made.part,
                path,
                json!({
                    "seq": seq, "part": made.part, "kind": made.kind, "media_type": made.media_type(),
                    "name": made.media.name, "bytes": made.n_bytes(), "url": made.media.url,
                }),
                made.in_words(),
            ));
        }
    }
    if args.json {
        let items = listed.into_iter().map(|(_, _, path, mut item, _)| {
            if args.out.is_some() {
                item["path"] = json!(path);
            }
            item
        });
        output::print_json(&items.collect())?;
    } else if listed.is_empty() {
        if open.prints_messages() {
            output::print_message("no model made a file in this thread");
        }
    } else {
        for (seq, part, path, _, words) in listed {
            match (&args.out, path) {
                (Some(_), Some(path)) => output::print_text(&path.display().to_string())?,
                (Some(_), None) => {}
                (None, _) => output::print(format!("{seq:>6} {part:>3}  {words}"))?,
            }
        }
    }
    Ok(if has_all { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::other(format!("cannot write {}: {error}", path.display()))
}

/// Writes a file that does not exist yet. `None` if there are no bytes.
fn write(folder: &Path, seq: Seq, made: &Made<'_>) -> Result<Option<PathBuf>, Failure> {
    let Some(bytes) = made.bytes() else { return Ok(None) };
    let name = made.file_name(&format!("{}-{seq}-{}", made.kind, made.part));
    let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, "bin"));
    for n in 1..=SAME_NAME_MAX {
        let name = if n == 1 { name.clone() } else { format!("{stem}-{n}.{extension}") };
        let path = folder.join(name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(&bytes).map_err(|error| cannot_write(&path, &error))?;
                return Ok(Some(path));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot_write(&path, &error)),
        }
    }
    Err(Failure::other(format!("{} has {SAME_NAME_MAX} files named like {name}", folder.display())))
}
