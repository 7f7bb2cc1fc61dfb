//! The usage that a provider reports in a stream is not lost when the stream breaks.

use rethread_events::message::Usage;

use super::*;
use crate::client::{Listener, TryEvent};

/// A provider, and the beginning of a stream in which it reports usage.
const BEGINNINGS: [(Provider, &str, [Option<u64>; 2]); 4] = [
    (
        Provider::OpenaiChat,
        "data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"hel\"}}],\
         \"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2}}\n\n",
        [Some(10), Some(2)],
    ),
    (
        Provider::OpenaiResponses,
        "data: {\"type\":\"response.in_progress\",\"response\":{\"status\":\"in_progress\",\"output\":[],\
         \"usage\":{\"input_tokens\":10,\"output_tokens\":2}}}\n\n\
         data: {\"type\":\"response.output_text.delta\",\"delta\":\"hel\"}\n\n",
        [Some(10), Some(2)],
    ),
    (
        Provider::Anthropic,
        "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\
         \"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":3,\"output_tokens\":1}}}\n\n\
         data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        [Some(10), Some(1)],
    ),
    (
        Provider::Gemini,
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hel\"}]}}],\
         \"usageMetadata\":{\"promptTokenCount\":10}}\n\n\
         data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"lo\"}]}}],\
         \"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":2,\"thoughtsTokenCount\":5}}\n\n",
        [Some(10), Some(7)],
    ),
];

fn profile_of(provider: Provider, base: &str) -> Profile {
    let prices = serde_json::from_str(r#"{ "input": 1, "output": 2 }"#).unwrap();
    Profile { provider, prices, ..impatient(base) }
}

#[derive(Default)]
struct Seen {
    used: Option<Usage>,
    tries: Vec<TryEvent>,
}

impl Listener for Seen {
    fn used(&mut self, usage: &Usage) {
        self.used = Some(*usage);
    }

    fn tried(&mut self, event: TryEvent) {
        self.tries.push(event);
    }

    fn wants_deltas(&self) -> bool {
        false
    }
}

fn client(profile: Profile) -> Arc<dyn Client> {
    let mut profiles = Profiles::empty().with_env(|_| Some("k".into()));
    profiles.insert("p", profile);
    profiles.client("p").unwrap()
}

fn streamed() -> Request {
    Request { stream: true, ..Request::new("", vec![Arc::new(Message::text(Role::User, "hi"))]) }
}

fn figures(usage: Option<&Usage>) -> Option<[Option<u64>; 2]> {
    usage.map(|usage| [usage.input_tokens, usage.output_tokens])
}

/// The error of a call whose only attempt broke.
async fn broken(profile: Profile) -> LlmError {
    let retry = RetryPolicy { attempts_max: 1, ..profile.retry.clone() };
    let client = client(Profile { retry, ..profile });
    client.call(&streamed(), CallContext::new("k", &mut ())).await.unwrap_err()
}

#[tokio::test]
async fn broken_stream_keeps_its_reported_usage() {
    for (provider, beginning, reported) in BEGINNINGS {
        let breaks = [
            (Does::Answers(format!("{EVENTS}{beginning}")), "stream_interrupted"),
            (Does::Answers(format!("{EVENTS}{beginning}data: {{\"typ\n\n")), "malformed_response"),
            (
                Does::Answers(format!("{EVENTS}{beginning}data: {{\"error\":{{\"message\":\"overloaded\"}}}}\n\n")),
                "overloaded",
            ),
            (Does::Stalls(format!("{EVENTS}{beginning}")), "timeout"),
        ];
        for (does, kind) in breaks {
            let (base, _) = server(vec![does]).await;
            let error = broken(profile_of(provider, &base)).await;
            assert_eq!(error.kind.to_string(), kind, "{provider}: {error}");
            let [input, output] = reported.map(|n| n.unwrap_or(0));
            let cost = error.used.as_ref().and_then(|used| used.cost_nanousd);
            assert_eq!(cost, Some(input * 1_000 + output * 2_000), "{provider}: {error}");
            assert_eq!(figures(error.used.as_ref().map(|used| &used.usage)), Some(reported), "{provider}: {error}");
        }
    }
}

#[tokio::test]
async fn time_limits_of_attempt_and_call_keep_the_usage() {
    for (provider, beginning, reported) in BEGINNINGS {
        let (base, _) = server(vec![Does::Keeps(format!("{EVENTS}{beginning}"), ": ping\n\n")]).await;
        let mut of_attempt = profile_of(provider, &base);
        of_attempt.http.try_ms = 300;
        let mut of_call = profile_of(provider, &base);
        of_call.retry.total_ms = 300;
        for profile in [of_attempt, of_call] {
            let error = broken(profile).await;
            assert_eq!(error.kind, ErrorKind::Timeout, "{provider}: {error}");
            assert_eq!(figures(error.used.as_ref().map(|used| &used.usage)), Some(reported), "{provider}: {error}");
        }
    }
}

#[tokio::test]
async fn listener_of_a_cancelled_call_has_the_usage() {
    for (provider, beginning, reported) in BEGINNINGS {
        let (base, _) = server(vec![Does::Stalls(format!("{EVENTS}{beginning}"))]).await;
        let (client, request) = (client(profile_of(provider, &base)), streamed());
        let mut seen = Seen::default();
        let call = client.call(&request, CallContext::new("k", &mut seen));
        assert!(tokio::time::timeout(Duration::from_millis(300), call).await.is_err(), "{provider}");
        assert_eq!(figures(seen.used.as_ref()), Some(reported), "{provider}");
    }
}

#[tokio::test]
async fn every_attempt_has_its_own_usage() {
    let [(provider, beginning, reported), ..] = BEGINNINGS;
    let broken = format!("{EVENTS}{beginning}");
    let (base, _) =
        server(vec![Does::Answers(broken), Does::Closes, Does::Answers(format!("{EVENTS}{HELLO}{END}"))]).await;
    let client = client(profile_of(provider, &base));
    let mut seen = Seen::default();
    client.call(&streamed(), CallContext::new("k", &mut seen)).await.unwrap();
    let of_errors: Vec<_> = seen
        .tries
        .iter()
        .filter_map(|t| t.error.as_ref())
        .map(|e| figures(e.used.as_ref().map(|used| &used.usage)))
        .collect();
    assert_eq!(of_errors, [Some(reported), None]);
}

#[test]
fn error_without_usage_does_not_state_zero() {
    let error = LlmError::new(ErrorKind::StreamInterrupted, "p", "gone");
    assert_eq!(serde_json::to_value(&error).unwrap().get("used"), None);
}
