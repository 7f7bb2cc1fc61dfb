use super::*;

fn at(text: &str) -> Time {
    text.parse().unwrap()
}

#[test]
fn a_token_is_known_until_it_is_revoked_and_is_not_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::beside(folder.path());
    assert_eq!(tokens.scope_of("rethread_x").unwrap(), None);
    let (token, kept) = tokens.create(Scope::Operate, Some("the page".into()), at("2026-01-01T00:00:00Z")).unwrap();
    let (other, _) = tokens.create(Scope::Read, None, at("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(tokens.scope_of(&token).unwrap(), Some(Scope::Operate));
    assert_eq!(tokens.scope_of(&other).unwrap(), Some(Scope::Read));
    let text = fs::read_to_string(folder.path().join(NAME)).unwrap();
    assert!(!text.contains(token.trim_start_matches(PREFIX)), "{text}");
    assert!(tokens.revoke(&kept.id).unwrap());
    assert!(!tokens.revoke(&kept.id).unwrap());
    assert_eq!(tokens.scope_of(&token).unwrap(), None);
    assert_eq!(tokens.scope_of(&other).unwrap(), Some(Scope::Read));
}

#[test]
fn only_its_owner_reads_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::beside(folder.path());
    tokens.create(Scope::Admin, None, at("2026-01-01T00:00:00Z")).unwrap();
    let mode = fs::metadata(folder.path().join(NAME)).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_that_was_spoilt_is_told_about_and_lets_nobody_in() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::beside(folder.path());
    fs::write(folder.path().join(NAME), "[{").unwrap();
    let error = tokens.scope_of("rethread_x").unwrap_err();
    assert!(error.to_string().contains("repair it"), "{error}");
}
