//! The rules for names.

/// The longest name or id, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 200;

/// The longest name of a tool that all providers take, in bytes.
const TOOL_NAME_BYTES_MAX: usize = 64;

/// Whether expressions can name such a variable.
pub(crate) fn is_variable_name(name: &str) -> bool {
    let mut chars = name.chars();
    let begins = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    begins && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') && name.len() <= NAME_BYTES_MAX
}

/// A name that all providers take for a tool.
pub(crate) fn is_tool_name(name: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    (1..=TOOL_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}
