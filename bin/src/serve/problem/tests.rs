use std::collections::BTreeSet;

use super::*;

const ALL: [Kind; 34] = [
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
