//! Skills: folders with instructions, of which a model sees no more than it needs.

mod parse;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::text;
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::built_in::read_file_of;
use crate::walk::{Kind, Options, Walk};
use crate::workspace::shown;
use crate::{Reserved, Tool, ToolContext, ToolOutput, Workspace};

/// How many skills there may be.
const N_SKILLS_MAX: usize = 500;
/// How deep below a folder skills are looked for.
const DEPTH_MAX: usize = 4;
/// How many entries of folders are read in all.
const N_ENTRIES_MAX: usize = 20_000;
/// How many files of a skill are named.
const N_FILES_SHOWN_MAX: usize = 100;

/// Skills that were found in folders: each a folder with a file `SKILL.md` that begins with a name and a description.
///
/// A model sees them in three steps: names and descriptions in its system prompt ([`Skills::prompt`]), the text of
/// `SKILL.md` when it asks for it with `load_skill`, and single files of the skill's folder with the same tool.
///
/// ```
/// use rethread_tools::{Registry, Skills};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::fs::create_dir(folder.path().join("greet"))?;
/// # std::fs::write(folder.path().join("greet/SKILL.md"),
/// #     "---\nname: greet\ndescription: How to greet people.\n---\nSay hello.\n")?;
/// let (skills, faults) = Skills::load([folder.path()]);
/// assert!(faults.is_empty());
/// assert!(skills.prompt().contains("- greet: How to greet people."));
/// Registry::new().register(skills.tool())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Skills(Arc<BTreeMap<String, Skill>>);

#[derive(Debug)]
struct Skill {
    description: String,
    folder: Arc<Workspace>,
}

/// A skill, or a folder of skills, that cannot be used. The others can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct SkillFault {
    /// The file or folder.
    pub path: PathBuf,
    /// The fault and the fix.
    pub reason: String,
}

impl Skills {
    /// The skills below these folders, and what is wrong with those that were left out. When two have one name the
    /// first counts. Links to folders are followed. Blocks on the file system.
    pub fn load(folders: impl IntoIterator<Item = impl AsRef<Path>>) -> (Self, Vec<SkillFault>) {
        Self::load_without(folders, &Reserved::default())
    }

    /// As [`Skills::load`], without what is reserved: no skill and no file of one is read from there.
    pub fn load_without(
        folders: impl IntoIterator<Item = impl AsRef<Path>>,
        reserved: &Reserved,
    ) -> (Self, Vec<SkillFault>) {
        let mut search = Search { skills: BTreeMap::new(), faults: Vec::new(), n_entries: 0, reserved };
        for folder in folders {
            search.folder(folder.as_ref(), DEPTH_MAX);
        }
        (Self(Arc::new(search.skills)), search.faults)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and descriptions, for a system prompt; empty when there are no skills.
    pub fn prompt(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let mut text = "## Skills\nWhen one of these fits the task, call load_skill with its name first:\n".to_owned();
        for (name, skill) in self.0.iter() {
            text.push_str(&format!("- {name}: {}\n", skill.description));
        }
        text
    }

    /// The tool `load_skill`: the instructions of a skill, or a file in its folder. Nothing outside the folder is
    /// read, even through links.
    pub fn tool(&self) -> Tool {
        self.described("Reads the instructions of a skill, or one of the files that belong to it.".to_owned())
    }

    /// The same tool with names and descriptions in its own description, for models whose system prompt does not have
    /// them.
    pub fn tool_with_list(&self) -> Tool {
        let mut text =
            "Reads the instructions of a skill, or one of the files that belong to it. When a skill fits the \
                        task, read it first. The skills:\n"
                .to_owned();
        for (name, skill) in self.0.iter() {
            text.push_str(&format!("- {name}: {}\n", skill.description));
        }
        self.described(text)
    }

    fn described(&self, description: String) -> Tool {
        let skills = self.clone();
        Tool::from_blocking_fn("load_skill", description, move |args: Args, cx| skills.read(&args, &cx))
            .recovery(Recovery::Safe)
            .timeout_ms(30_000)
            .output_bytes_max(300 * 1024)
    }

    fn read(&self, args: &Args, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
        let Some(skill) = self.0.get(&args.name) else {
            let known: Vec<_> = self.0.keys().map(String::as_str).collect();
            let name = text::head(&args.name, 80);
            let message = format!("there is no skill `{name}`; the skills are: {}", known.join(", "));
            return Err(ExecutionError::new(ErrorKind::NotFound, message));
        };
        if let Some(file) = &args.file {
            let mut cx = cx.clone();
            cx.workspace = Arc::clone(&skill.folder);
            return read_file_of(file, args.offset, args.limit, &cx);
        }
        let (_, body) = parse::read(&skill.folder)
            .map_err(|reason| ExecutionError::new(ErrorKind::Failed, format!("`{}`: {reason}", args.name)))?;
        let mut text = body;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let (files, n_more) = files(&skill.folder, cx)?;
        if !files.is_empty() {
            text.push_str("\n[files of this skill, to be read with load_skill and `file`:\n");
            text.push_str(&files);
            text.push_str(if n_more { "… and more]\n" } else { "]\n" });
        }
        Ok(ToolOutput::text(text))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The name of the skill.
    name: String,
    /// A file of the skill, relative to its folder; the instructions themselves when left out.
    #[serde(default)]
    file: Option<String>,
    /// Of a file: the first line to read; 1 is the first.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    offset: u64,
    /// Of a file: how many lines to read.
    #[serde(default = "n_lines_default")]
    #[schemars(range(min = 1, max = 20_000))]
    limit: u64,
}

fn one() -> u64 {
    1
}

fn n_lines_default() -> u64 {
    2_000
}

/// The files beside `SKILL.md`, one per line.
fn files(folder: &Workspace, cx: &ToolContext) -> Result<(String, bool), ExecutionError> {
    let place = folder.resolve("")?;
    let mut text = String::new();
    let mut n_files = 0;
    for entry in Walk::new(folder, &place, Options { depth_max: DEPTH_MAX, all: false })? {
        cx.check()?;
        if entry.kind != Kind::File || entry.path == Path::new(parse::FILE) {
            continue;
        }
        if n_files == N_FILES_SHOWN_MAX {
            return Ok((text, true));
        }
        n_files += 1;
        text.push_str(&shown(&entry.path));
        text.push('\n');
    }
    Ok((text, false))
}

struct Search<'a> {
    reserved: &'a Reserved,
    skills: BTreeMap<String, Skill>,
    faults: Vec<SkillFault>,
    n_entries: usize,
}

impl Search<'_> {
    fn folder(&mut self, path: &Path, depth: usize) {
        if path.join(parse::FILE).is_file() {
            return self.skill(path);
        }
        let mut names = Vec::new();
        match fs::read_dir(path) {
            Ok(entries) => {
                for entry in entries.flatten() {
                    self.n_entries += 1;
                    if self.n_entries > N_ENTRIES_MAX {
                        return self.fault(path, format!("over {N_ENTRIES_MAX} entries; name a smaller folder"));
                    }
                    names.push(entry.path());
                }
            }
            Err(error) => return self.fault(path, format!("cannot be read: {error}")),
        }
        names.sort();
        for path in names.into_iter().filter(|path| depth > 0 && path.is_dir()) {
            self.folder(&path, depth - 1);
        }
    }

    fn skill(&mut self, path: &Path) {
        let folder = match Workspace::open_without(path, self.reserved) {
            Ok(folder) => folder,
            Err(error) => return self.fault(path, error.to_string()),
        };
        let head = match parse::read(&folder) {
            Ok((head, _)) => head,
            Err(reason) => return self.fault(&path.join(parse::FILE), reason),
        };
        if self.skills.len() >= N_SKILLS_MAX {
            return self.fault(path, format!("there are {N_SKILLS_MAX} skills already"));
        }
        if let Some(first) = self.skills.get(&head.name) {
            let reason = format!("the name `{}` is taken by the skill in {}", head.name, first.folder.root().display());
            return self.fault(path, reason);
        }
        self.skills.insert(head.name, Skill { description: head.description, folder: Arc::new(folder) });
    }

    fn fault(&mut self, path: &Path, reason: String) {
        self.faults.push(SkillFault { path: path.to_owned(), reason });
    }
}

#[cfg(test)]
mod tests;
