//! `SKILL.md`: a head in YAML between two lines `---`, then the instructions.

use std::io::Read;

use serde::Deserialize;

use crate::Workspace;

pub(super) const FILE: &str = "SKILL.md";
/// The bytes of the file.
const FILE_BYTES_MAX: usize = 256 * 1024;
/// The bytes of its head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The most characters of a name and of a description, which are in every system prompt.
const NAME_CHARS_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 1024;

/// The part of the head that is used; what else is there (licence, allowed tools, metadata) is for others.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    pub(super) name: String,
    pub(super) description: String,
}

/// Head and instructions of the skill in a folder; the error says what is wrong in words.
pub(super) fn read(folder: &Workspace) -> Result<(Head, String), String> {
    let place = folder.resolve(FILE).map_err(|error| error.to_string())?;
    let (file, _) = folder.open_file(&place).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("over {FILE_BYTES_MAX} bytes; move parts of it into files beside it"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())?;
    parse(&text)
}

fn parse(text: &str) -> Result<(Head, String), String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let missing = || "it must begin with a line `---`, `name:` and `description:`, and another line `---`".to_owned();
    let rest = text.strip_prefix("---\n").ok_or_else(missing)?;
    let end = rest.find("\n---\n").map(|end| (end, end + 5)).or_else(|| {
        // The head may be all there is.
        rest.strip_suffix("\n---").map(|head| (head.len(), rest.len()))
    });
    let (head_end, body) = end.ok_or_else(missing)?;
    if head_end > HEAD_BYTES_MAX {
        return Err(format!("its head has over {HEAD_BYTES_MAX} bytes"));
    }
    let mut head: Head =
        serde_saphyr::from_str(&rest[..head_end]).map_err(|error| format!("its head cannot be read: {error}"))?;
    // A line break in a system prompt would look like a line of its own.
    head.description = head.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if head.name.is_empty() || head.name.chars().count() > NAME_CHARS_MAX || !head.name.chars().all(is_name) {
        return Err(format!("its name must be 1 to {NAME_CHARS_MAX} letters, digits or `-`"));
    }
    if head.description.is_empty() || head.description.chars().count() > DESCRIPTION_CHARS_MAX {
        return Err(format!("its description must have 1 to {DESCRIPTION_CHARS_MAX} characters"));
    }
    Ok((head, rest[body..].trim_start_matches('\n').to_owned()))
}
