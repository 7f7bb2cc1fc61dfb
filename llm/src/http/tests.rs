//! A loopback server that behaves badly.

use std::sync::atomic::{AtomicUsize, Ordering};

use rethread_events::message::{Message, Part, Reasoning, Role};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::client::Delta;
use crate::profile::Profile;
use crate::profiles::Profiles;
use crate::provider::Provider;
use crate::retry::RetryPolicy;

mod broken_streams;

/// The reaction of the server to the n-th request.
#[derive(Clone)]
enum Does {
    /// Answers these bytes and closes.
    Answers(String),
    /// Answers these bytes and leaves the connection open without a word.
    Stalls(String),
    /// Answers the first bytes, then the others every 20 ms, until the client disconnects.
    Keeps(String, &'static str),
    /// Answers an event stream in this encoding and leaves the connection open without a word.
    Compressed(&'static str, &'static str),
    /// Closes at once.
    Closes,
    /// Answers these bytes again and again, until the client disconnects.
    Floods(String),
}

/// Serves one connection per request, in order; the last behaviour repeats. Gives the base URL and the requests.
async fn server(does: Vec<Does>) -> (String, Arc<parking_lot::Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (log, n) = (Arc::clone(&seen), AtomicUsize::new(0));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let n = n.fetch_add(1, Ordering::SeqCst).min(does.len() - 1);
            tokio::spawn(serve(stream, does[n].clone(), Arc::clone(&log)));
        }
    });
    (format!("http://{address}/v1"), seen)
}

async fn serve(mut stream: TcpStream, does: Does, log: Arc<parking_lot::Mutex<Vec<String>>>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = stream.read(&mut buffer).await.unwrap_or(0);
        request.extend_from_slice(&buffer[..n]);
        let text = String::from_utf8_lossy(&request);
        let wanted = text
            .to_lowercase()
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
        if n == 0 || body.is_some_and(|body| body >= wanted.unwrap_or(0)) {
            break;
        }
    }
    log.lock().push(String::from_utf8_lossy(&request).into_owned());
    match does {
        Does::Answers(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
        Does::Stalls(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            std::future::pending::<()>().await;
        }
        Does::Keeps(text, alive) => {
            let mut sent = stream.write_all(text.as_bytes()).await;
            while sent.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
                sent = stream.write_all(alive.as_bytes()).await;
            }
        }
        Does::Compressed(encoding, body) => {
            let body = data_encoding::BASE64.decode(body.as_bytes()).unwrap();
            let head = EVENTS.replace("\r\n\r\n", &format!("\r\ncontent-encoding: {encoding}\r\n\r\n"));
            let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
            std::future::pending::<()>().await;
        }
        Does::Closes => {}
        Does::Floods(text) => while stream.write_all(text.as_bytes()).await.is_ok() {},
    }
}

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const HELLO: &str = "data: {\"id\":\"c1\",\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n";
const END: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";

fn json(status: &str, headers: &str, body: &str) -> Does {
    Does::Answers(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len()))
}

fn good() -> Does {
    json(
        "200 OK",
        "x-request-id: req_9\r\n",
        r#"{"id":"c1","model":"m","choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}"#,
    )
}

fn profile(base: &str) -> Profile {
    let mut profile = Profile::new(Provider::OpenaiChat, "m");
    profile.base_url = Some(base.to_owned());
    profile.retry = RetryPolicy { base_ms: 1, ..RetryPolicy::default() };
    profile
}

/// The same, for servers that fall silent in the middle of an answer: given up soon.
fn impatient(base: &str) -> Profile {
    let mut profile = profile(base);
    profile.http.idle_ms = 500;
    profile
}

fn with_key() -> Profiles {
    Profiles::empty().with_env(|name| (name == "OPENAI_API_KEY").then(|| "sk-secret-key".into()))
}

async fn ask(profile: Profile, stream: bool) -> (Result<Response, LlmError>, Vec<Delta>) {
    let mut profiles = with_key();
    profiles.insert("p", profile);
    let client = profiles.client("p").unwrap();
    let mut request = Request::new("", vec![Arc::new(Message::text(Role::User, "hi"))]);
    request.stream = stream;
    let mut deltas = Vec::new();
    let result = client.call(&request, CallContext::new("call-7", &mut deltas)).await;
    (result, deltas)
}

#[tokio::test]
async fn request_has_key_and_call_id_and_answer_has_request_id() {
    let (base, seen) = server(vec![good()]).await;
    let (result, _) = ask(profile(&base), false).await;
    let response = result.unwrap();
    assert_eq!((response.text().as_str(), response.request_id.as_deref()), ("hello", Some("req_9")));
    let request = seen.lock()[0].to_lowercase();
    assert!(request.starts_with("post /v1/chat/completions http/1.1\r\n"), "{request}");
    for line in [
        "authorization: bearer sk-secret-key\r\n",
        "x-client-request-id: call-7\r\n",
        "content-type: application/json\r\n",
    ] {
        assert!(request.contains(line), "{request}");
    }
}

#[tokio::test]
async fn retry_after_is_honoured_before_the_next_attempt() {
    let busy = json("429 Too Many Requests", "retry-after-ms: 30\r\n", r#"{"error":{"message":"slow down"}}"#);
    let (base, seen) = server(vec![busy, good()]).await;
    let started = Instant::now();
    assert_eq!(ask(profile(&base), false).await.0.unwrap().text(), "hello");
    assert!(started.elapsed() >= Duration::from_millis(30));
    assert_eq!(seen.lock().len(), 2);
}

#[tokio::test]
async fn echoed_key_is_redacted_in_the_error() {
    let echo =
        json("401 Unauthorized", "", r#"{"error":{"message":"wrong key: sk-secret-key","code":"sk-secret-key"}}"#);
    let (base, seen) = server(vec![echo]).await;
    let error = ask(profile(&base), false).await.0.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Authentication, "wrong key: [key]"));
    assert!(!format!("{error:?}{error}").contains("secret"));
    assert_eq!(seen.lock().len(), 1, "a wrong key is not tried again");
    // A page that is cut in the middle of the key.
    let page = json("403 Forbidden", "", &format!("{}Bearer sk-secret-key", "x".repeat(482)));
    let error = ask(profile(&server(vec![page]).await.0), false).await.0.unwrap_err();
    assert!(error.message.ends_with("xBearer [key]"), "{error}");
}

#[tokio::test]
async fn thoughts_that_are_refused_are_left_out_once() {
    let refusal = |message: &str, code: &str| {
        json("400 Bad Request", "", &json!({ "error": { "message": message, "code": code } }).to_string())
    };
    let answer = r#"{"id":"m1","role":"assistant","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
    let signature = refusal("messages.1.content.0: Invalid `signature` in `thinking` block", "invalid_request_error");
    let other = refusal("messages.1.content.0: no such field", "invalid_request_error");
    for (first, n_requests) in [(&signature, 2), (&other, 1)] {
        let (base, seen) = server(vec![first.clone(), json("200 OK", "", answer)]).await;
        let mut profiles = Profiles::empty().with_env(|name| (name == "ANTHROPIC_API_KEY").then(|| "sk-x".into()));
        profiles.insert("p", Profile { provider: Provider::Anthropic, ..profile(&base) });
        let thought = Reasoning { signature: Some("c2ln".into()), text: Some("hm".into()), ..Reasoning::default() };
        let said = Message {
            content: vec![Part::Reasoning(thought), Part::text("yes")],
            ..Message::text(Role::Assistant, "")
        };
        let user = || Arc::new(Message::text(Role::User, "hi"));
        let request = Request::new("", vec![user(), Arc::new(said), user()]);
        let mut deltas: Vec<Delta> = Vec::new();
        let answered = profiles.client("p").unwrap().call(&request, CallContext::new("call", &mut deltas)).await;
        let seen = seen.lock();
        assert_eq!((answered.is_ok(), seen.len()), (n_requests == 2, n_requests));
        assert!(seen[0].contains("c2ln") && !seen[1..].iter().any(|body| body.contains("c2ln")));
    }
}

#[tokio::test]
async fn key_that_a_server_puts_into_ids_is_not_recorded() {
    let head = "x-request-id: req-sk-secret-key\r\n";
    let whole = r#"{"id":"answer-sk-secret-key","choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}"#;
    let (base, _) = server(vec![json("200 OK", head, whole)]).await;
    let response = ask(profile(&base), false).await.0.unwrap();
    assert_eq!(response.text(), "hello");
    assert_eq!(response.request_id.as_deref(), Some("req-[key]"));
    assert_eq!(response.response_id.as_deref(), Some("answer-[key]"));
    let (base, _) = server(vec![json("400 Bad Request", head, r#"{"error":{"message":"no"}}"#)]).await;
    let error = ask(profile(&base), false).await.0.unwrap_err();
    assert_eq!(error.request_id.as_deref(), Some("req-[key]"));
}

#[tokio::test]
async fn cut_stream_is_restarted_and_reported() {
    let (base, _) =
        server(vec![Does::Answers(format!("{EVENTS}{HELLO}")), Does::Answers(format!("{EVENTS}{HELLO}{END}"))]).await;
    let (result, deltas) = ask(profile(&base), true).await;
    assert_eq!(result.unwrap().text(), "hello");
    let hello = Delta::Text("hello".into());
    assert_eq!(deltas, [hello.clone(), Delta::Restarted { attempt: 2 }, hello]);
}

#[tokio::test]
async fn silent_server_times_out() {
    for (does, stream) in [
        (Does::Stalls(String::new()), false),
        (Does::Stalls(EVENTS.into()), true),
        (Does::Stalls(format!("{EVENTS}{HELLO}")), true),
    ] {
        let (base, _) = server(vec![does]).await;
        let mut profile = impatient(&base);
        profile.http.first_byte_ms = 500;
        profile.retry.attempts_max = 1;
        assert_eq!(ask(profile, stream).await.0.unwrap_err().kind, ErrorKind::Timeout);
    }
}

#[tokio::test]
async fn complete_stream_that_stays_open_is_accepted() {
    let (base, _) = server(vec![Does::Stalls(format!("{EVENTS}{HELLO}{}", END.replace("data: [DONE]\n\n", "")))]).await;
    assert_eq!(ask(impatient(&base), true).await.0.unwrap().text(), "hello");
}

#[tokio::test]
async fn complete_stream_with_keepalives_is_accepted() {
    let whole = format!("{EVENTS}{HELLO}{}", END.replace("data: [DONE]\n\n", ""));
    let (base, seen) = server(vec![Does::Keeps(whole, ": keep-alive\n\n")]).await;
    let mut profile = impatient(&base);
    profile.http.try_ms = 20_000;
    assert_eq!(ask(profile, true).await.0.unwrap().text(), "hello");
    assert_eq!(seen.lock().len(), 1, "it is paid for once");
}

#[tokio::test]
async fn interrupted_body_is_a_stream_interruption() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"id\":";
    let (base, seen) = server(vec![Does::Answers(half.into())]).await;
    let mut profile = profile(&base);
    profile.retry.after_break = false;
    assert_eq!(ask(profile, false).await.0.unwrap_err().kind, ErrorKind::StreamInterrupted);
    assert_eq!(seen.lock().len(), 1, "it would be paid for twice");
}

#[tokio::test]
async fn endless_list_of_models_times_out() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{";
    let (base, _) = server(vec![Does::Keeps(head.into(), " ")]).await;
    let mut profile = profile(&base);
    profile.http.try_ms = 300;
    let mut profiles = Profiles::empty();
    profiles.insert("p", profile);
    assert_eq!(profiles.client("p").unwrap().models().await.unwrap_err().kind, ErrorKind::Timeout);
}

#[tokio::test]
async fn endless_answer_is_stopped_at_the_limit() {
    for flood in [HELLO, ": ping\n"] {
        let (base, _) = server(vec![Does::Answers(String::new()), Does::Closes]).await;
        drop(base);
        let (base, _) = server(vec![Does::Floods(format!("{EVENTS}{}", flood.repeat(100)))]).await;
        let mut profile = profile(&base);
        profile.http.answer_bytes_max = 100_000;
        assert_eq!(ask(profile, true).await.0.unwrap_err().kind, ErrorKind::TooLarge);
    }
    let (base, seen) = server(vec![json("200 OK", "", &format!("\"{}\"", "x".repeat(2_000)))]).await;
    let mut profile = profile(&base);
    profile.http.answer_bytes_max = 1_000;
    assert_eq!(ask(profile, false).await.0.unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(seen.lock().len(), 1, "it would be as large the next time");
}

#[tokio::test]
async fn absent_server_is_a_connection_error() {
    let (base, seen) = server(vec![Does::Closes]).await;
    let error = ask(profile(&base), false).await.0.unwrap_err();
    assert_eq!((error.kind, seen.lock().len()), (ErrorKind::Connection, 4));
}

#[tokio::test]
async fn a_redirect_to_another_host_is_not_followed() {
    let (elsewhere, stolen) = server(vec![good()]).await;
    let (base, _) =
        server(vec![json("307 Temporary Redirect", &format!("location: {elsewhere}/chat/completions\r\n"), "")]).await;
    let error = ask(profile(&base), false).await.0.unwrap_err();
    assert_eq!((error.status, stolen.lock().len()), (Some(307), 0));
    let target = format!("the server redirects to {elsewhere}/chat/completions, which is not followed");
    assert!(error.message.starts_with(&target), "{error}");
}

#[tokio::test]
async fn a_redirect_that_would_drop_the_body_is_not_followed() {
    let (base, seen) = server(vec![json("302 Found", "location: /v2/chat?key=sk-secret-key\r\n", ""), good()]).await;
    let error = ask(profile(&base), false).await.0.unwrap_err();
    assert_eq!((error.status, error.retryable, seen.lock().len()), (Some(302), false, 1));
    assert!(error.message.contains("/v2/chat,") && !error.message.contains("secret"), "{error}");
}

#[tokio::test]
async fn compressed_answers_are_streamed() {
    let first = "H4sIAAAAAAACA0pJLEm0UqhWykxRslJKNlTSUcrNT0nNAXJygezkjPzM5NRiJavoaiWgaEmiklW1UnJ+XklqXglQSUZqTk6+Um1tbC0XFwAAAP//";
    let whole = "H4sIAAAAAAACA22MMQ4CIRREe05hpqbZllpbPcCGbAh8hQj8jXwrwt2XRGNlNzOZ94ITZ04dKcDAL9AoHCjPUmb2kZOnBrN2zFUcTIfnKlRlXiLlzBjDDqXCV/QPGRr3VFOL24tc4zrRJrxjWI13cw/6aMueSRLXTfhJdSqW8ROv59v1YpU6AB/Q/pawAAAA";
    let answers = [first, whole].map(|answer| Does::Compressed("gzip", answer));
    let (base, seen) = server(answers.into()).await;
    let (result, deltas) = ask(impatient(&base), true).await;
    assert_eq!(result.unwrap().text(), "hello");
    let hello = Delta::Text("hello".into());
    assert_eq!(deltas, [hello.clone(), Delta::Restarted { attempt: 2 }, hello]);
    assert!(seen.lock()[0].contains("accept-encoding: gzip\r\n"), "{:?}", seen.lock());
}

#[tokio::test]
async fn refused_key_is_reloaded_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "sk-old-key").unwrap();
    let refuse = || json("401 Unauthorized", "", r#"{"error":{"message":"expired: sk-old-key"}}"#);
    let (base, seen) = server(vec![refuse(), refuse(), good(), refuse(), refuse()]).await;
    let mut profile = profile(&base);
    profile.api_key_file = Some(path.clone());
    let mut profiles = Profiles::empty();
    profiles.insert("p", profile);
    let client = profiles.client("p").unwrap();
    let request = Request::new("", vec![Arc::new(Message::text(Role::User, "hi"))]);
    // Of the same length and time: only the rejection shows that it changed.
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    let write = |text: &str| {
        std::fs::write(&path, text).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    let shown = || -> Vec<String> {
        let seen = seen.lock();
        seen.iter()
            .map(|head| head.split("authorization: Bearer ").nth(1).unwrap().split("\r\n").next().unwrap().into())
            .collect()
    };
    let warm = client.models().await;
    assert_eq!(warm.unwrap_err().kind, ErrorKind::Authentication);
    write("sk-new-key");
    client.call(&request, CallContext::new("", &mut ())).await.unwrap();
    write("sk-bad-key");
    let error = client.call(&request, CallContext::new("", &mut ())).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Authentication);
    assert_eq!(shown(), ["sk-old-key", "sk-old-key", "sk-new-key", "sk-new-key", "sk-bad-key"]);
}

#[tokio::test]
async fn every_provider_sends_bearer_tokens_and_header_variables() {
    for provider in
        [Provider::OpenaiChat, Provider::OpenaiResponses, Provider::Anthropic, Provider::Gemini, Provider::GeminiOpenai]
    {
        let (base, seen) =
            server(vec![json("403 Forbidden", "", r#"{"error":{"message":"not for tenant-77 of sk-secret-key"}}"#)])
                .await;
        let mut profile = profile(&base);
        profile.provider = provider;
        profile.auth = crate::profile::Auth::Bearer;
        profile.api_key_env = Some("MY_KEY".into());
        profile.headers = [("x-tenant".to_owned(), "id ${TENANT} $${TENANT}".to_owned())].into();
        let env = |name: &str| match name {
            "MY_KEY" => Some("sk-secret-key".to_owned()),
            "TENANT" => Some("tenant-77".to_owned()),
            _ => None,
        };
        let mut profiles = Profiles::empty().with_env(env);
        profiles.insert("p", profile.clone());
        let request = Request::new("", vec![Arc::new(Message::text(Role::User, "hi"))]);
        let error = profiles.client("p").unwrap().call(&request, CallContext::new("", &mut ())).await.unwrap_err();
        assert_eq!(error.message, "not for [key] of [key]", "{provider}");
        let head = seen.lock()[0].to_lowercase();
        assert!(head.contains("authorization: bearer sk-secret-key\r\n"), "{provider}: {head}");
        assert!(head.contains("x-tenant: id tenant-77 ${tenant}\r\n"), "{provider}: {head}");
        assert!(!head.contains("x-api-key") && !head.contains("x-goog-api-key"), "{provider}: {head}");
        profile.headers = [("x-tenant".to_owned(), "${NOBODY}".to_owned())].into();
        profiles.insert("p", profile);
        let error = profiles.client("p").err().unwrap().to_string();
        assert_eq!(error, "profile `p`: headers `x-tenant`: the variable NOBODY is not set");
    }
}

#[tokio::test]
async fn background_answer_is_polled_until_complete() {
    let waits = |status: &str| json("200 OK", "", &format!(r#"{{"id":"resp_1","status":"{status}","output":[]}}"#));
    let done = r#"{"id":"resp_1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"hello"}]}]}"#;
    let busy = json("503 Service Unavailable", "", "{}");
    let (base, seen) = server(vec![waits("queued"), busy, waits("in_progress"), json("200 OK", "", done)]).await;
    let mut profile = profile(&base);
    profile.provider = Provider::OpenaiResponses;
    profile.params.extra = [("background".to_owned(), serde_json::Value::Bool(true))].into_iter().collect();
    assert_eq!(ask(profile.clone(), false).await.0.unwrap().text(), "hello");
    let asked: Vec<_> = seen.lock().iter().map(|head| head.split(" HTTP").next().unwrap().to_owned()).collect();
    let poll = "GET /v1/responses/resp_1";
    assert_eq!(asked, ["POST /v1/responses", poll, poll, poll]);
    // One that does not end is given up in time, cancelled, and not paid for again.
    let (base, seen) = server(vec![waits("queued")]).await;
    profile.base_url = Some(base);
    profile.http.try_ms = 1_200;
    let error = ask(profile.clone(), false).await.0.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Timeout, false));
    let asked: Vec<_> = seen.lock().iter().map(|head| head.split(" HTTP").next().unwrap().to_owned()).collect();
    assert_eq!(asked.last().unwrap(), "POST /v1/responses/resp_1/cancel");
    assert_eq!(asked.iter().filter(|line| *line == "POST /v1/responses").count(), 1, "{asked:?}");
    // Without being asked for it is no answer.
    let (base, seen) = server(vec![waits("queued")]).await;
    profile.base_url = Some(base);
    profile.params.extra.clear();
    let error = ask(profile, false).await.0.unwrap_err();
    assert_eq!((error.kind, error.retryable, seen.lock().len()), (ErrorKind::MalformedResponse, false, 1));
}

#[tokio::test]
async fn unreported_usage_is_counted_and_priced() {
    for usage in ["", r#","usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#] {
        let whole = format!(
            r#"{{"id":"c1","model":"m","choices":[{{"message":{{"content":"hello"}},"finish_reason":"stop"}}]{usage}}}"#
        );
        let (base, _) = server(vec![json("200 OK", "", &whole)]).await;
        let mut profile = profile(&base);
        profile.prices = serde_json::from_str(r#"{ "input": 0.001, "output": 0.001 }"#).unwrap();
        let response = ask(profile, false).await.0.unwrap();
        let (figures, source) = response.figures();
        assert_eq!(source, rethread_events::message::UsageSource::Counted);
        assert_eq!((figures.input_tokens, figures.output_tokens, figures.total_tokens), (Some(8), Some(1), Some(9)));
        assert_eq!(response.cost.unwrap().nanousd, 9);
        let printed = serde_json::to_value(&response).unwrap();
        assert_eq!(
            (&printed["usage_source"], &printed["usage_counted"]["total_tokens"]),
            (&"counted".into(), &9.into())
        );
    }
}

#[tokio::test]
async fn cost_that_a_gateway_reports_wins_over_prices() {
    let usage = r#""usage":{"prompt_tokens":1000,"completion_tokens":1000,"cost":0.0125}"#;
    let whole = format!(r#"{{"choices":[{{"message":{{"content":"hello"}},"finish_reason":"stop"}}],{usage}}}"#);
    let streamed = format!(
        "content-type: text/event-stream\r\n\r\ndata: {{\"choices\":[{{\"delta\":{{\"content\":\"hello\"}},\"finish_reason\":\"stop\"}}]}}\n\n\
         data: {{\"choices\":[],{usage}}}\n\ndata: [DONE]\n\n"
    );
    let (base, _) =
        server(vec![json("200 OK", "", &whole), Does::Answers(format!("HTTP/1.1 200 OK\r\n{streamed}"))]).await;
    let mut profile = profile(&base);
    profile.prices = serde_json::from_str(r#"{ "input": 1, "output": 1 }"#).unwrap();
    for stream in [false, true] {
        let cost = ask(profile.clone(), stream).await.0.unwrap().cost.unwrap();
        assert_eq!((cost.nanousd, cost.prices), (12_500_000, None), "stream: {stream}");
    }
}

#[tokio::test]
async fn tier_of_a_header_sets_the_price() {
    let answer = r#"{"candidates":[{"content":{"parts":[{"text":"hello"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1000,"candidatesTokenCount":10}}"#;
    let (base, _) = server(vec![json("200 OK", "x-gemini-service-tier: priority\r\n", answer)]).await;
    let mut profile = Profile::new(Provider::Gemini, "m");
    (profile.base_url, profile.auth) = (Some(base), crate::profile::Auth::None);
    profile.prices =
        serde_json::from_str(r#"{ "input": 1, "output": 1, "priority": { "input": 2, "output": 3 } }"#).unwrap();
    let response = ask(profile, false).await.0.unwrap();
    assert_eq!(response.service_tier.as_deref(), Some("priority"));
    assert_eq!(response.cost.unwrap().nanousd, 2_000_000 + 30_000);
}

#[tokio::test]
async fn thoughts_are_split_off_as_the_profile_says() {
    let answer = r#"{"choices":[{"message":{"content":"<think>Hm.</think>Hi."},"finish_reason":"stop"}]}"#;
    let (base, _) = server(vec![json("200 OK", "", answer)]).await;
    let mut profile = profile(&base);
    assert_eq!(ask(profile.clone(), false).await.0.unwrap().text(), "<think>Hm.</think>Hi.");
    profile.model_facts.think_tag = Some(true);
    let response = ask(profile, false).await.0.unwrap();
    assert_eq!((response.text().as_str(), response.reasoning().count()), ("Hi.", 1));
}

#[tokio::test]
async fn a_dropped_call_sends_nothing_more() {
    let busy = json("503 Service Unavailable", "retry-after-ms: 60000\r\n", "{}");
    let (base, seen) = server(vec![busy, good()]).await;
    let mut dropped = Box::pin(ask(profile(&base), false));
    let until_asked = async {
        while seen.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        answer = &mut dropped => panic!("it waits before it asks again: {answer:?}"),
        asked = tokio::time::timeout(Duration::from_secs(60), until_asked) => asked.unwrap(),
    }
    drop(dropped);
    // Everything that waited was sent; later requests come after it.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(600)).await;
    tokio::time::resume();
    ask(profile(&base), false).await.0.unwrap();
    assert_eq!(seen.lock().len(), 2, "the one that was dropped, and the one after it");
}

#[tokio::test]
async fn check_reports_reachability_and_key_validity() {
    let list = r#"{"data":[{"id":"m","owned_by":"me","max_model_len":4096},{"id":"n"}]}"#;
    let (base, seen) =
        server(vec![json("200 OK", "", list), json("200 OK", "", list), json("403 Forbidden", "", "{}")]).await;
    let mut profiles = Profiles::empty();
    profiles.insert("p", profile(&base));
    let client = profiles.client("p").unwrap();
    let health = client.check().await;
    assert_eq!((health.reachable, health.key_accepted, health.model_available), (true, Some(true), Some(true)));
    let models = client.models().await.unwrap();
    assert_eq!((models.len(), models[0].context_tokens_max), (2, Some(4096)));
    let health = client.check().await;
    assert_eq!((health.reachable, health.key_accepted), (true, Some(false)));
    assert!(seen.lock()[0].starts_with("GET /v1/models"));
}

#[test]
fn version_in_the_base_url_is_not_repeated() {
    let url = |provider, base: &str| {
        let mut profile = Profile::new(provider, "m");
        profile.base_url = Some(base.into());
        let client = Profiles::empty().http_client("p", &profile).unwrap();
        let path = client.wire.call_path(&Request::new("m", Vec::new()));
        client.url(&path).to_string()
    };
    for base in ["https://x.test", "https://x.test/", "https://x.test/v1"] {
        assert_eq!(url(Provider::Anthropic, base), "https://x.test/v1/messages");
    }
    assert_eq!(url(Provider::Gemini, "https://x.test/v1beta"), "https://x.test/v1beta/models/m:generateContent");
    assert_eq!(
        url(Provider::OpenaiChat, "https://x.test/openai?tenant=a"),
        "https://x.test/openai/chat/completions?tenant=a"
    );
}

#[tokio::test]
async fn vector_of_a_text_is_what_the_provider_makes() {
    let openai = r#"{"data":[{"index":0,"embedding":[3.0,4]}],"usage":{"prompt_tokens":2}}"#;
    let gemini = r#"{"embedding":{"values":[3.0,4]}}"#;
    let (to, sent) = (r#""input":["green tea"]"#, r#""text":"green tea""#);
    for (provider, answer, path, sent) in [
        (Provider::OpenaiChat, openai, "/v1/embeddings", to),
        (Provider::OpenaiResponses, openai, "/v1/embeddings", to),
        (Provider::Gemini, gemini, "/v1beta/models/m:embedContent", sent),
    ] {
        let (base, seen) = server(vec![json("200 OK", "", answer)]).await;
        let base = if provider == Provider::Gemini { base.replace("/v1", "") } else { base };
        let profile = Profile { provider, model: "m".into(), ..profile(&base) };
        let client = Profiles::empty().http_client("p", &profile).unwrap();
        let vector = client.embed("green tea").await.unwrap();
        assert_eq!(Some(vector), Embedding::new("m", &[0.6, 0.8]), "of length 1");
        let request = seen.lock()[0].clone();
        assert!(request.starts_with(&format!("POST {path} HTTP/1.1")) && request.contains(sent), "{request}");
    }
}

#[tokio::test]
async fn vector_that_cannot_be_compared_is_an_error() {
    for answer in [r#"{"data":[]}"#, r#"{"data":[{"embedding":[0,0]}]}"#, r#"{"data":[{"embedding":"AAAA"}]}"#, "no"] {
        let (base, _) = server(vec![json("200 OK", "", answer)]).await;
        let client = with_key().http_client("p", &profile(&base)).unwrap();
        assert_eq!(client.embed("x").await.unwrap_err().kind, ErrorKind::MalformedResponse, "{answer}");
    }
    let (base, _) = server(vec![json("200 OK", "", "<p>Bearer sk-secret-key</p>")]).await;
    let error = with_key().http_client("p", &profile(&base)).unwrap().embed("x").await.unwrap_err();
    assert!(error.to_string().contains("[key]") && !error.to_string().contains("secret"), "{error}");
    let busy = json("429 Too Many Requests", "", r#"{"error":{"message":"sk-secret-key is busy"}}"#);
    let (base, _) = server(vec![busy]).await;
    let error = with_key().http_client("p", &profile(&base)).unwrap().embed("x").await.unwrap_err();
    assert!(error.retryable && !error.to_string().contains("secret"), "{error}");
    let profile = Profile { provider: Provider::Anthropic, ..profile(&base) };
    let error = with_key().http_client("p", &profile).unwrap().embed("x").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Configuration);
}
