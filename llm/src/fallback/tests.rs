use rethread_events::message::{Message, Role};

use super::*;
use crate::mock::{Mock, MockScript};

fn failing(kind: &str, after_chunks: usize) -> Arc<dyn Client> {
    let script = serde_json::json!({ "answers": [
        { "text": "never whole", "error": { "kind": kind, "after_chunks": after_chunks } },
    ]});
    let script: MockScript = serde_json::from_value(script).unwrap();
    Arc::new(Mock::new(script).unwrap())
}

async fn ask(first: Arc<dyn Client>, others: Vec<Arc<dyn Client>>) -> (Result<Response, LlmError>, Vec<Delta>) {
    let others = others.into_iter().enumerate().map(|(i, c)| (c, format!("other-{i}"))).collect();
    let client = Fallback::new(first, others);
    let mut request = Request::new("first", vec![Arc::new(Message::text(Role::User, "hi"))]);
    request.stream = true;
    let mut deltas = Vec::new();
    let result = client.call(&request, CallContext::new("", &mut deltas)).await;
    (result, deltas)
}

#[tokio::test]
async fn next_model_is_called_after_the_first_fails() {
    let others = vec![failing("server", 0), Arc::new(Mock::saying("hello")) as Arc<dyn Client>];
    let (result, deltas) = ask(failing("overloaded", 1), others).await;
    assert_eq!(result.unwrap().model.as_deref(), Some("other-1"));
    assert_eq!(
        deltas,
        [Delta::Text("never ".into()), Delta::Restarted { attempt: 2 }, Delta::Text("hello".into())],
        "what the first began is void"
    );
}

#[tokio::test]
async fn invalid_request_is_not_tried_on_a_fallback() {
    let (result, _) = ask(failing("context_length", 0), vec![Arc::new(Mock::saying("hello"))]).await;
    assert_eq!(result.unwrap_err().kind, ErrorKind::ContextLength);
}

#[tokio::test]
async fn last_error_of_the_fallbacks_is_reported() {
    let (result, _) = ask(failing("overloaded", 0), vec![failing("quota", 0)]).await;
    assert_eq!(result.unwrap_err().kind, ErrorKind::Quota);
}

/// Keeps what is said of attempts.
#[derive(Default)]
struct Tries(Vec<String>);

impl Listener for Tries {
    fn tried(&mut self, event: TryEvent) {
        let TryEvent { attempt, error, wait_ms, model, fallback_from, .. } = event;
        let error = error.map(|error| error.kind.to_string());
        self.0.push(format!("{attempt} {model:?} from {fallback_from:?}: {error:?} {wait_ms:?}"));
    }
}

#[tokio::test]
async fn every_attempt_before_a_fallback_is_reported() {
    let others = vec![
        (failing("server", 0), "b".to_owned()),
        (Arc::new(Mock::saying("hello")) as Arc<dyn Client>, "c".to_owned()),
    ];
    let client = Fallback::new(failing("overloaded", 0), others);
    let request = Request::new("a", vec![Arc::new(Message::text(Role::User, "hi"))]);
    let mut tries = Tries::default();
    let response = client.call(&request, CallContext::new("", &mut tries)).await.unwrap();
    assert_eq!(response.fallback_from.as_deref(), Some("mock/b"));
    assert_eq!(
        tries.0,
        [
            r#"1 Some("mock/a") from None: Some("overloaded") Some(0)"#,
            r#"2 Some("mock/b") from Some("mock/a"): Some("server") Some(0)"#,
        ]
    );
}
