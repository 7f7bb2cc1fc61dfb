use rethread_events::tool::PersonRole;
use serde_json::json;

use super::*;
use crate::Registry;
use crate::built_in::fixture::Fixture;
use crate::built_in::register_asking;

#[tokio::test]
async fn it_is_declared_for_a_person_and_never_runs() {
    let registry = Registry::new();
    register_asking(&registry).unwrap();
    assert_eq!(registry.get("ask_user").unwrap().person_role(), PersonRole::Answers);
    let other = Tool::new("other", "", json!({}), |_, _| async { unreachable!() });
    assert_eq!(other.person_role(), PersonRole::None);
    assert_eq!(other.with_approval().person_role(), PersonRole::Approves);

    let scene = Fixture::new([ask_user()]);
    let said = scene.call("ask_user", json!({"question": "Why?"})).await;
    assert_eq!(said, "configuration: `ask_user` is answered by a person and does not run");
    for wrong in
        [json!({}), json!({"question": ""}), json!({"question": "?", "choices": "a"}), json!({"question": "?", "x": 1})]
    {
        let said = scene.call("ask_user", wrong).await;
        assert!(said.starts_with("invalid_arguments"), "{said}");
    }
}
