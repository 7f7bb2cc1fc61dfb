use super::*;

#[test]
fn servers_before_2_12_are_refused() {
    for version in ["2.12.0", "v2.12.1", "2.15.1", "3.0.0-beta.1", "2.12.0-RC.2"] {
        assert_eq!(check_version(version), Ok(()), "{version}");
    }
    for version in ["2.9.10", "2.11.99", "1.12.0", "", "2", "two.twelve", "2.x"] {
        let why = check_version(version).unwrap_err();
        assert!(why.contains("2.12 or later is needed"), "{why}");
    }
}

#[test]
fn stream_that_a_log_creates_is_a_log() {
    let config = config("agents", 3);
    let id = check_stream(&config, "agents").unwrap();
    assert_eq!(unhex(&hex(&id)), Some(id));
}

#[test]
fn stream_that_could_lose_messages_is_none() {
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 8] = [
        ("largest age", |config| config.max_age = Duration::from_secs(1)),
        ("limit of bytes", |config| config.max_bytes = 1),
        ("limit of messages for each subject", |config| config.max_messages_per_subject = 1),
        ("not stored in files", |config| config.storage = StorageType::Memory),
        ("other subjects", |config| config.subjects.push("others".into())),
        ("messages of deleted threads", |config| config.deny_delete = true),
        ("roll-ups", |config| config.allow_rollup = true),
        ("not acknowledge", |config| config.no_ack = true),
    ];
    for (what, change) in changes {
        let mut config = config("agents", 1);
        change(&mut config);
        let why = check_stream(&config, "agents").unwrap_err();
        assert!(why.contains(what), "{why}");
    }
    let mut other = config("agents", 1);
    other.metadata.remove(LOG_ID);
    assert!(check_stream(&other, "agents").unwrap_err().contains("name another stream"));
    let mut later = config("agents", 1);
    later.metadata.insert(FORMAT.into(), "2".into());
    assert!(check_stream(&later, "agents").unwrap_err().contains("format 2"));
}

#[test]
fn ids_that_are_none_are_refused() {
    for text in ["", "00", &"g".repeat(32), &"ä".repeat(16), &"0".repeat(33)] {
        assert_eq!(unhex(text), None, "{text}");
    }
}
