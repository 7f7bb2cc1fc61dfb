//! The rules for names.

/// The longest name or id, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 200;

/// Whether expressions can name such a variable.
pub(crate) fn is_variable_name(name: &str) -> bool {
    let mut chars = name.chars();
    let begins = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    begins && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') && name.len() <= NAME_BYTES_MAX
}
