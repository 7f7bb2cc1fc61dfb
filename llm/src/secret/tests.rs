use super::Key;

fn redacted(key: &str, text: &str) -> String {
    Key::new(key).redact(text.to_owned())
}

#[test]
fn key_is_hidden_everywhere() {
    let key = "sk-SUPERSECRETKEY";
    assert_eq!(redacted(key, "Bearer sk-SUPERSECRETKEY, and sk-SUPERSECRETKEY!"), "Bearer [key], and [key]!");
    assert_eq!(redacted(key, "no key at all"), "no key at all");
    assert_eq!(redacted("abc", "abc is too short to be a secret"), "abc is too short to be a secret");
    assert_eq!(redacted("pass", "a passing pass"), "a [key]ing [key]");
}

#[test]
fn truncated_key_is_redacted() {
    let key = "sk-SUPERSECRETKEY";
    assert_eq!(redacted(key, "Bearer sk-SUPERSECRETKE"), "Bearer [key]");
    assert_eq!(redacted(key, "Bearer sk-SUPER: and more"), "Bearer [key]: and more");
    assert_eq!(redacted(key, "Bearer sk-SUP"), "Bearer sk-SUP", "what is left says little");
    assert_eq!(redacted("schlüsselchen", "mein schlüsselc"), "mein [key]");
}
