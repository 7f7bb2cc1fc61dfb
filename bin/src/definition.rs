//! `validate` and `schema`, and how every command reads a workflow file.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rethread::errors::Faults;
use rethread::{Runtime, Workflow};
use rethread_events::workflow::{FILE_BYTES_MAX, NodeKind, json_schema, locate, parse, parse_in};
use serde_json::json;

use crate::exit::{Failure, INVALID, NOT_FOUND};
use crate::open::OpenArgs;
use crate::output;
use crate::remote::RemoteError;
use crate::toolset::{ALLOWED_BY, Known, MoreArgs};

/// The help text about the format of workflow files.
pub(crate) const FORMAT_HELP: &str = "\
docs/WORKFLOWS.md describes the format, with an example of every kind of node.
Editors complete and check a file if its first line names the schema:
  rethread schema > workflow.schema.json
  # yaml-language-server: $schema=workflow.schema.json";

/// Check workflow files, and list every fault with its line and column.
///
/// With a configuration (rethread.toml or --config), also check the profiles, tools, processors and parameters that the
/// files name, as `rethread run` does. This starts MCP servers. Checks that were not possible are listed.
#[derive(Debug, Args)]
#[command(after_help = FORMAT_HELP)]
pub(crate) struct ValidateArgs {
    /// Workflow files, YAML or JSON
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Check only the definitions: no profiles, tools or MCP servers
    #[arg(long)]
    no_config: bool,
    #[command(flatten)]
    more: MoreArgs,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// A workflow file that was read.
#[derive(Clone)]
pub(crate) struct File {
    name: String,
    text: Vec<u8>,
    workflow: Workflow,
}

/// The workflow in a file, not yet checked for the tools and profiles that it needs.
pub(crate) fn read(file: &Path) -> Result<File, Failure> {
    made(&file.display().to_string(), read_limited(file, FILE_BYTES_MAX)?)
}

/// The workflow in a text that is called this in messages.
pub(crate) fn made(name: &str, text: Vec<u8>) -> Result<File, Failure> {
    match parse(&text) {
        Ok(workflow) => Ok(File { name: name.to_owned(), text, workflow }),
        Err(faults) => Err(Failure::faults(name, &faults)),
    }
}

impl File {
    /// The workflow, not yet checked for the tools and profiles that it needs.
    pub(crate) fn workflow(&self) -> &Workflow {
        &self.workflow
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }

    /// Why a server does not take it, with the name of the file at each fault.
    pub(crate) fn refused(&self, error: RemoteError) -> Failure {
        let of_file = error.kind.as_deref() == Some("invalid-workflow");
        let mut failure = Failure::from(error);
        if of_file {
            let lines: Vec<_> = failure.message.lines().map(|line| format!("{}:{line}", self.name)).collect();
            failure.message = lines.join("\n");
        }
        failure
    }

    /// The workflow, when this runtime has all it needs.
    pub(crate) fn checked(self, runtime: &Runtime) -> Result<Workflow, Failure> {
        let mut faults = Faults(runtime.check(&self.workflow));
        if faults.0.is_empty() {
            return Ok(self.workflow);
        }
        for fault in &mut faults.0 {
            for (tool, option) in crate::toolset::ALLOWED_BY {
                if fault.message.ends_with(&format!("tool `{tool}`")) {
                    fault.hint = Some(format!("allow it with {option}"));
                }
            }
            let of_command = WITH_COMMAND.iter().any(|tool| fault.message.starts_with(&format!("tool `{tool}`: ")));
            if of_command && fault.message.ends_with("is not of type \"array\"") {
                fault.hint =
                    Some("give a list of the program and its arguments, or allow a shell with --allow-shell".into());
            }
        }
        locate(&String::from_utf8_lossy(&self.text), &mut faults);
        Err(Failure::faults(&self.name, &faults))
    }
}

/// Reads a file of at most this many bytes; `-` is stdin.
pub(crate) fn read_limited(file: &Path, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    read_bytes(file, bytes_max).map_err(|error| unreadable(file, &error))
}

/// As [`read_limited`], for text.
pub(crate) fn read_text(file: &Path, bytes_max: usize) -> io::Result<String> {
    let not_text = |_| io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    String::from_utf8(read_bytes(file, bytes_max)?).map_err(not_text)
}

fn read_bytes(file: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    match file == Path::new("-") {
        true => io::stdin().lock().take(limit).read_to_end(&mut bytes)?,
        false => std::fs::File::open(file)?.take(limit).read_to_end(&mut bytes)?,
    };
    match bytes.len() > bytes_max {
        true => Err(io::Error::new(ErrorKind::FileTooLarge, format!("larger than {bytes_max} bytes"))),
        false => Ok(bytes),
    }
}

/// Why a file cannot be read.
pub(crate) fn unreadable(file: &Path, error: &io::Error) -> Failure {
    let name = file.display();
    match error.kind() {
        ErrorKind::NotFound => Failure::new(NOT_FOUND, format!("there is no file {name}")),
        ErrorKind::FileTooLarge => Failure::new(INVALID, format!("{name} is {error}")),
        _ => Failure::new(INVALID, format!("cannot read {name}: {error}")),
    }
}

/// Tools whose argument `command` may be a line for the shell.
const WITH_COMMAND: [&str; 2] = ["run_command", "start_process"];

pub(crate) async fn validate(open: &OpenArgs, args: &ValidateArgs) -> Result<ExitCode, Failure> {
    let known = match args.no_config {
        true => Known::nothing("--no-config was given"),
        false => Known::of(open, &args.more).await?,
    };
    let not_checked = &known.not_checked;
    let mut reports = Vec::new();
    let mut all_good = true;
    for file in &args.files {
        let name = file.display().to_string();
        let text = read_limited(file, FILE_BYTES_MAX)?;
        let parsed = parse_in(&text, &known.surroundings).and_then(|workflow| {
            let mut faults = Faults(known.unpriced(&workflow));
            faults.0.extend(known.refused(&workflow));
            faults.0.extend(known.unfit_scripts(&workflow));
            if faults.0.is_empty() {
                return Ok(workflow);
            }
            locate(&String::from_utf8_lossy(&text), &mut faults);
            Err(faults)
        });
        all_good &= parsed.is_ok();
        match parsed {
            Ok(workflow) if args.json => reports.push(json!({
                "file": name, "valid": true, "name": workflow.name(), "hash": workflow.hash(), "faults": [],
                "not_checked": not_checked, "options": options(&workflow), "warnings": known.warnings(&workflow),
            })),
            Ok(workflow) => {
                let called = output::sanitize(workflow.name(), 80);
                output::print(format!("{name}: ok, workflow `{called}` {}", workflow.hash()))?;
                let options = options(&workflow);
                if !options.is_empty() && open.prints_messages() {
                    output::print_message(&format!("{name}: its tools need {}", options.join(" ")));
                }
                for warning in known.warnings(&workflow).iter().filter(|_| open.prints_messages()) {
                    output::print_message(&output::sanitize_lines(&format!("{name}: warning: {warning}")));
                }
            }
            Err(faults) if args.json => {
                reports.push(json!({ "file": name, "valid": false, "faults": faults, "not_checked": not_checked }));
            }
            Err(faults) => {
                for fault in &faults.0 {
                    output::print_message(&output::sanitize_lines(&format!("{name}:{fault}")));
                }
            }
        }
    }
    if args.json {
        output::print_json(&reports.into())?;
    } else if open.prints_messages() {
        for what in not_checked {
            output::print_message(&format!("not checked: {}", output::sanitize(what, 1_000)));
        }
    }
    Ok(if all_good { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}

/// The options without which the command line does not offer tools that a workflow names.
fn options(workflow: &Workflow) -> Vec<&'static str> {
    let graphs = std::iter::once(workflow.main()).chain(workflow.sub_workflows().map(|(_, graph)| graph));
    let (mut named, mut has_line) = (Vec::new(), false);
    for node in graphs.flat_map(|graph| graph.nodes()) {
        match node.kind() {
            NodeKind::Tool(tool) => {
                let name = tool.tool_name.as_str();
                has_line |=
                    WITH_COMMAND.contains(&name) && tool.parameters.get("command").is_some_and(|it| it.0.is_string());
                named.push(name);
            }
            NodeKind::Llm(llm) => named.extend(llm.available_tools.iter().flatten().map(|tool| tool.as_str())),
            _ => {}
        }
    }
    let mut options = Vec::new();
    for (tool, option) in ALLOWED_BY {
        if named.contains(&tool) && !options.contains(&option) {
            options.push(option);
        }
    }
    if has_line {
        options.push("--allow-shell");
    }
    options
}

pub(crate) fn schema() -> Result<ExitCode, Failure> {
    output::print(format!("{:#}", json_schema()))?;
    Ok(ExitCode::SUCCESS)
}
