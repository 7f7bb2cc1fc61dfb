use super::*;

#[test]
fn times_are_absolute_or_relative_to_now() {
    let now: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
    let of = |text: &str| time_of(text, now).map(|time| time.to_string());
    assert_eq!(of("2026-11-20T10:00:00+01:00").as_deref(), Some("2026-11-20T09:00:00.000000Z"));
    assert_eq!(of("5m ago").as_deref(), Some("2026-11-21T09:55:00.000000Z"));
    assert_eq!(of("1h 30m ago").as_deref(), Some("2026-11-21T08:30:00.000000Z"));
    assert_eq!(of("2 days ago").as_deref(), Some("2026-11-19T10:00:00.000000Z"));
    for nonsense in ["ago", "5m", "soon", "9999999999 days ago", "5 parsecs ago"] {
        assert_eq!(of(nonsense), None, "{nonsense}");
    }
}
