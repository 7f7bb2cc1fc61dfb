//! The files and folders that the configuration names: keys, secrets, certificates, scripts, programs of MCP servers. Tools can
//! access none of them.

use std::collections::BTreeMap;
use std::path::Path;

use rethread::tools::{NamedFiles, Reserved};
use toml::Value;

use crate::exit::Failure;
use crate::open::OpenArgs;
use crate::toolset::{self, MoreArgs};

/// The end of every key whose value is a file.
const FILE: &str = "_file";
/// The end of every key whose value is a command: a program and its arguments.
const COMMAND: &str = "_command";
/// Other keys whose values are files or folders, each with the key of its table.
const OTHERS: [(&str, &str); 2] = [("models", "table"), ("answer_cache", "folder")];

/// Adds what the configuration and the files with MCP servers name to what is reserved.
///
/// # Errors
/// When one of them cannot be read (exit code 3).
pub(crate) fn reserve(open: &OpenArgs, more: &MoreArgs, mut reserved: Reserved) -> Result<Reserved, Failure> {
    reserved = collect("", open.config().all.get()?, reserved);
    for server in toolset::configs(open, &more.mcp)?.into_iter().flat_map(|(_, config)| config.servers) {
        reserved = reserved.command(server.transport.map(|transport| transport.named_files()).unwrap_or_default());
    }
    Ok(reserved)
}

/// Reserves the files that a value of the configuration names, at any depth. `key` is its own.
fn collect(key: &str, value: &Value, reserved: Reserved) -> Reserved {
    match value {
        Value::Table(table) => table.iter().fold(reserved, |reserved, (name, value)| {
            let is_file = name.ends_with(FILE) || OTHERS.contains(&(key, name.as_str()));
            match value {
                Value::String(path) if is_file && !path.is_empty() => reserved.place(path),
                Value::Array(words) if name.ends_with(COMMAND) => reserved.command(files_of(words)),
                _ => collect(name, value, reserved),
            }
        }),
        Value::Array(values) => values.iter().fold(reserved, |reserved, value| collect(key, value, reserved)),
        _ => reserved,
    }
}

/// The files of a command, which runs in the current folder.
fn files_of(words: &[Value]) -> NamedFiles {
    let words: Vec<_> = words.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    match words.split_first() {
        Some((program, arguments)) => NamedFiles::of(program, arguments, &BTreeMap::new(), Path::new("")),
        None => NamedFiles::default(),
    }
}

#[cfg(test)]
mod tests;
