use serde_json::json;

use super::*;

#[test]
fn time_has_milliseconds() {
    let time = Time::from_unix_us(1_700_000_000_123_456);
    assert_eq!(timestamp(time), "2023-11-14T22:13:20.123Z");
    assert_eq!(timestamp(Time::from_unix_us(0)), "1970-01-01T00:00:00.000Z");
}

#[test]
fn numbers_and_flags_may_be_texts_and_unknown_fields_are_ignored() {
    let given = json!({ "pageSize": "7", "includeArtifacts": "true", "status": "TASK_STATE_WORKING", "other": 1 });
    let list: ListTasks = params(given).unwrap_or_default();
    assert_eq!((list.page_size, list.include_artifacts, list.status), (Some(7), Some(true), Some(TaskState::Working)));
    let given = json!({ "pageSize": null, "status": "TASK_STATE_UNSPECIFIED", "contextId": null });
    let list: ListTasks = params(given).unwrap_or_default();
    assert_eq!((list.page_size, list.status, list.context_id), (None, None, None));
}

#[test]
fn values_of_other_types_are_refused() {
    for given in [
        json!({ "pageSize": "seven" }),
        json!({ "pageSize": 1.5 }),
        json!({ "pageSize": 4_000_000_000_u64 }),
        json!({ "pageSize": [] }),
        json!({ "includeArtifacts": 1 }),
        json!({ "status": "TASK_STATE_RUNNING" }),
        json!({ "status": 2 }),
        json!({ "contextId": 1 }),
    ] {
        assert!(params::<ListTasks>(given.clone()).is_err(), "{given}");
    }
    assert!(history_length(Some(-1)).is_err());
}
