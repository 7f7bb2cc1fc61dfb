//! The files that a command of the configuration names.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Reserved;

/// The files that a command of the configuration names, such as that of an MCP server. Tools must not access them: a tool that
/// could change one would run code of its own with the rights and keys of the command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedFiles {
    /// The program, and existing files that can be executed.
    pub programs: Vec<PathBuf>,
    /// Other existing files: scripts, keys, databases.
    pub files: Vec<PathBuf>,
}

impl NamedFiles {
    /// Returns the files of a command that runs in this folder: the program, and the arguments and variables of the environment
    /// that are paths of existing files. An argument `--key=PATH` names a file, too. Blocks on the file system.
    pub fn of(command: &str, args: &[String], env: &BTreeMap<String, String>, folder: &Path) -> Self {
        let mut named = Self::default();
        let program = Path::new(command);
        if command.contains('/') {
            named.programs.push(folder.join(program));
        } else {
            let path = env.get("PATH").map(Into::into).or_else(|| std::env::var_os("PATH")).unwrap_or_default();
            let mut found = std::env::split_paths(&path).map(|path| folder.join(path).join(program));
            named.programs.extend(found.find(|file| file.is_file()));
        }
        let values = args.iter().filter_map(|arg| arg.split_once('=')).map(|(_, value)| value);
        for text in args.iter().map(String::as_str).chain(values).chain(env.values().map(String::as_str)) {
            let file = folder.join(text);
            match file.metadata() {
                Ok(found) if !found.is_file() => {}
                Ok(found) if found.permissions().mode() & 0o111 != 0 => named.programs.push(file),
                Ok(_) => named.files.push(file),
                Err(_) => {}
            }
        }
        named
    }
}

impl Reserved {
    /// Reserves the files of a command.
    #[must_use]
    pub fn command(self, named: NamedFiles) -> Self {
        let reserved = named.files.into_iter().fold(self, Self::place);
        named.programs.into_iter().fold(reserved, Self::program)
    }
}
