use std::collections::BTreeSet;

use super::*;

const ALL: [Kind; 37] = [
    Kind::InvalidRequest,
    Kind::Unauthorized,
    Kind::InvalidSignature,
    Kind::Forbidden,
    Kind::ReadOnly,
    Kind::ForeignOrigin,
    Kind::NotFound,
    Kind::NoThread,
    Kind::NoMoment,
    Kind::NoInteraction,
    Kind::NoWorkflow,
    Kind::NoSchedule,
    Kind::NoMemory,
    Kind::NoSuchPart,
    Kind::MethodNotAllowed,
    Kind::SlowRequest,
    Kind::Conflict,
    Kind::InteractionClosed,
    Kind::InUse,
    Kind::KeyInProgress,
    Kind::TooLarge,
    Kind::UnsupportedMediaType,
    Kind::UnknownHost,
    Kind::InvalidWorkflow,
    Kind::Unusable,
    Kind::KeyReused,
    Kind::Damaged,
    Kind::Internal,
    Kind::LabelLimit,
    Kind::Busy,
    Kind::Stopping,
    Kind::Timeout,
    Kind::DiskFull,
    Kind::LogMoved,
    Kind::LogLost,
    Kind::LogStopped,
    Kind::InDoubt,
];

#[test]
fn each_kind_has_a_unique_name_and_an_error_status() {
    let names: BTreeSet<_> = ALL.iter().map(|kind| kind.about().0).collect();
    assert_eq!(names.len(), ALL.len());
    for kind in ALL {
        let (name, status, title) = kind.about();
        assert!((400..600).contains(&status), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
        assert!(!title.ends_with('.'), "{name}");
    }
}

#[test]
fn each_kind_is_described_in_the_guide() {
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/HTTP.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for kind in ALL {
        let (name, status, _) = kind.about();
        assert!(guide.contains(&format!("| `{name}` | {status} |")), "docs/HTTP.md lacks | `{name}` | {status} |");
    }
}

#[test]
fn damage_is_reported_without_paths_of_the_machine() {
    let damage =
        Damage { file: Some("/home/ada/log/chunk-7".into()), what: "a chunk is cut".into(), ..Damage::default() };
    let json = serde_json::to_value(Problem::damaged(damage)).unwrap();
    assert!(!json.to_string().contains("/home"), "{json}");
    assert_eq!(json["place"]["file"], "chunk-7");
}

#[test]
fn expected_states_of_a_log_in_a_stream_are_503_with_the_next_move() {
    let log = || "nats://127.0.0.1:4222/agents".to_owned();
    let stopped = StoreError::Stopped { log: log(), why: Box::new(StoreError::Closed) };
    let lost = StoreError::Locked { path: log().into(), holder: "another".into() };
    let in_doubt = StoreError::InDoubt { log: log(), waited_ms: 1 };
    for (error, next_move) in [(stopped, "retry"), (lost, "retry"), (in_doubt, "read_again")] {
        let document = json!(Problem::from(RuntimeError::from(error)).document);
        assert_eq!((&document["status"], &document["next_move"]), (&json!(503), &json!(next_move)), "{document}");
    }
    let internal = json!(Problem::new(Kind::Internal, "x").document);
    assert_eq!(internal.get("next_move"), None);
}
