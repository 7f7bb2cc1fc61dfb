//! Names of tools that every provider accepts.

use std::collections::HashSet;

/// The length of a name.
const NAME_BYTES_MAX: usize = 64;

/// Returns the prefix of the names of a server's tools.
pub fn prefix(server: &str) -> String {
    plain(&format!("{server}__"))
}

fn plain(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

/// `server__tool` with what is not allowed in a name as `_`, at most 64 bytes long and not among `taken`: where that
/// needs it, the name ends in a part of the hash of the full name, so that it is the same every time.
pub(super) fn unique(server: &str, tool: &str, taken: &HashSet<String>) -> String {
    let plain = plain(&format!("{server}__{tool}"));
    if plain.len() <= NAME_BYTES_MAX && !taken.contains(&plain) {
        return plain;
    }
    let hash = blake3::hash(format!("{server}\0{tool}").as_bytes()).to_hex();
    let head: String = plain.chars().take(NAME_BYTES_MAX - 9).collect();
    format!("{head}_{}", &hash[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_short_and_unique() {
        let mut taken = HashSet::new();
        assert_eq!(unique("git", "status", &taken), "git__status");
        assert_eq!(unique("my server", "a.b/c:é", &taken), "my_server__a_b_c__");
        taken.insert("git__a_b".to_owned());
        let other = unique("git", "a.b", &taken);
        assert!(other.starts_with("git__a_b_") && other.len() == 17, "{other}");
        let long = unique("s", &"x".repeat(100), &taken);
        assert_eq!(long.len(), 64);
        assert_ne!(long, unique("s", &format!("{}y", "x".repeat(99)), &taken));
    }
}
