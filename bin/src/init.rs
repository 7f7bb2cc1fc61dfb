//! `init`: a configuration to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use crate::exit::{CONFLICT, Failure};
use crate::open::{CONFIG, OpenArgs};
use crate::output;

/// What is written.
const TEMPLATE: &str = include_str!("init/rethread.toml");

/// Write a commented rethread.toml. Never changes an existing file.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Print the file instead of writing it
    #[arg(long)]
    print: bool,
}

pub(crate) fn run(open: &OpenArgs, args: &InitArgs) -> Result<ExitCode, Failure> {
    if args.print {
        output::print(TEMPLATE.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = open.config.as_deref().unwrap_or(Path::new(CONFIG));
    let shown = file.display();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let written = options.open(file).and_then(|mut file| file.write_all(TEMPLATE.as_bytes()));
    match written {
        Ok(()) => {
            output::print(format!("wrote {shown}"))?;
            if open.prints_messages() {
                output::print_message("name your model in it, then check it with: rethread doctor");
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let message = format!("{shown} already exists and is not changed; `rethread init --print` shows a new one");
            Err(Failure::new(CONFLICT, message))
        }
        Err(error) => Err(Failure::other(format!("{shown} cannot be written: {error}"))),
    }
}
