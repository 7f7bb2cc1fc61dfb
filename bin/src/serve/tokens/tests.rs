use super::*;

fn at(text: &str) -> Time {
    text.parse().unwrap()
}

/// What a token allows in 2026; none where it is unknown.
fn scope_of(tokens: &Tokens, token: &str) -> Result<Option<Scope>, TokenError> {
    match tokens.scope_of(hash(token), at("2026-06-01T00:00:00Z")) {
        Ok(scope) => Ok(Some(scope)),
        Err(TokenError::Unknown | TokenError::UnknownSinceStart) => Ok(None),
        Err(error) => Err(error),
    }
}

#[test]
fn expired_token_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::beside(folder.path());
    let [before, after] = [at("2026-05-31T00:00:00Z"), at("2026-06-01T00:00:01Z")];
    let create =
        |expires| tokens.create(Scope::Read, None, Some("Ada".into()), Labels::new(), Some(expires), before).unwrap().0;
    let (expired, valid) = (create(before), create(after));
    assert!(scope_of(&tokens, &expired).unwrap_err().to_string().contains("expired at 2026-05-31"));
    assert_eq!(scope_of(&tokens, &valid).unwrap(), Some(Scope::Read));
    assert!(tokens.principal_of(hash(&valid)).unwrap().to_string().ends_with("(Ada)"));
}

#[test]
fn token_created_after_the_server_started_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let mut tokens = Tokens::beside(folder.path());
    let create = |scope| {
        Tokens::beside(folder.path())
            .create(scope, None, None, Labels::new(), None, at("2026-01-01T00:00:00Z"))
            .unwrap()
    };
    let (present, kept) = create(Scope::Read);
    tokens.trust_present().unwrap();
    let of_process = tokens.make_for_process().unwrap();
    let (later, _) = create(Scope::Admin);
    assert_eq!(scope_of(&tokens, &later).unwrap(), None);
    assert_eq!(scope_of(&tokens, &present).unwrap(), Some(Scope::Read));
    assert_eq!(scope_of(&tokens, &of_process).unwrap(), Some(Scope::Admin));
    let file = folder.path().join(NAME);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&*blake3::hash(of_process.as_bytes()).to_hex()), "{text}");
    // A scope that is raised in the file is not believed.
    tokens.write(&serde_json::from_str::<Vec<Kept>>(&text.replace("\"read\"", "\"admin\"")).unwrap()).unwrap();
    assert_eq!(scope_of(&tokens, &present).unwrap(), Some(Scope::Read));
    assert!(tokens.revoke(&kept.id).unwrap());
    assert_eq!(scope_of(&tokens, &present).unwrap(), None);
    fs::remove_file(file).unwrap();
    assert_eq!(scope_of(&tokens, &of_process).unwrap(), Some(Scope::Admin));
}

#[test]
fn token_is_valid_until_revoked_and_not_stored_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::beside(folder.path());
    assert_eq!(scope_of(&tokens, "rethread_x").unwrap(), None);
    let (token, kept) = tokens
        .create(Scope::Operate, Some("the page".into()), None, Labels::new(), None, at("2026-01-01T00:00:00Z"))
        .unwrap();
    let (other, _) = tokens.create(Scope::Read, None, None, Labels::new(), None, at("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(scope_of(&tokens, &token).unwrap(), Some(Scope::Operate));
    assert_eq!(scope_of(&tokens, &other).unwrap(), Some(Scope::Read));
    let text = fs::read_to_string(folder.path().join(NAME)).unwrap();
    assert!(!text.contains(token.trim_start_matches(PREFIX)), "{text}");
    assert!(tokens.revoke(&kept.id).unwrap());
    assert!(!tokens.revoke(&kept.id).unwrap());
    assert_eq!(scope_of(&tokens, &token).unwrap(), None);
    assert_eq!(scope_of(&tokens, &other).unwrap(), Some(Scope::Read));
}

#[test]
fn only_its_owner_reads_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::beside(folder.path());
    tokens.create(Scope::Admin, None, None, Labels::new(), None, at("2026-01-01T00:00:00Z")).unwrap();
    let mode = fs::metadata(folder.path().join(NAME)).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn invalid_token_file_is_reported_and_refuses_everyone() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::beside(folder.path());
    fs::write(folder.path().join(NAME), "[{").unwrap();
    let error = scope_of(&tokens, "rethread_x").unwrap_err();
    assert!(error.to_string().contains("repair it"), "{error}");
}
