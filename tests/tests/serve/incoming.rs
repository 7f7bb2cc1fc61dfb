//! Webhooks of other services that send signals.

use data_encoding::{BASE64, HEXLOWER};
use hmac::{Hmac, KeyInit as _, Mac as _};
use rethread_tests::binary::{Running, Scene};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::http::{Request, Response};
use crate::place::Place;

/// The secret of every webhook of these tests.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A folder with this configuration. Each of its webhooks has the secret.
pub(crate) fn configured(tables: &str) -> Scene {
    let scene = Scene::new();
    scene.write("secret.txt", SECRET);
    scene.write("rethread.toml", tables.replace("signature", "secret_file = 'secret.txt'\nsignature"));
    scene
}

fn code(key: &[u8], signed: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(signed.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(signed: &str) -> String {
    HEXLOWER.encode(&code(SECRET.as_bytes(), signed))
}

/// The header with the signature of GitHub.
pub(crate) fn github(body: &str) -> String {
    format!("sha256={}", hex(body))
}

fn seconds_ago(seconds: u64) -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() - seconds
}

fn deliver(place: &Place, name: &str, body: &str, headers: &[(&str, &str)]) -> Response {
    let request = Request::new(place.address, "POST", &format!("/v1/incoming/{name}"));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    request.body("application/json", body).send()
}

fn deliver_github(place: &Place, id: &str, event: &str, body: &str) -> Response {
    let signature = github(body);
    let headers = [("X-GitHub-Delivery", id), ("X-GitHub-Event", event), ("X-Hub-Signature-256", &signature)];
    deliver(place, "github", body, &headers)
}

/// Starts a thread that waits for a signal, and waits until it does.
fn waiting(place: &Place, signal: &str) -> String {
    let thread = place.start(&format!("version: '1'\nname: wait\nnodes: [{{id: on, signal: {{name: {signal}}}}}]"));
    place.until(&format!("/v1/threads/{thread}"), |shown| shown["status"] == "suspended");
    thread
}

const GITHUB: &str = "[incoming.github]\nsignature = 'github'\nsignal = 'github.{event}'\n";

#[test]
fn github_delivery_is_a_signal_kept_until_a_thread_waits() {
    let place = Place::on(configured(GITHUB), "");
    deliver_github(&place, "0", "ping", r#"{"zen":"Keep it."}"#).is(204);
    let body = r#"{"action":"closed","number":7}"#;
    let sent = deliver_github(&place, "72d3162e", "pull_request", body).is(200).value();
    assert_eq!((&sent["is_kept"], &sent["signal_id"]), (&json!(true), &json!("github/72d3162e")));
    let place = place.kill_and_restart();
    let early = place.start(
        "version: '1'\nname: review\nnodes: [{id: merged, signal: {name: github.pull_request, where: {number: 7}}}]",
    );
    assert_eq!(place.at_rest(&early)["output"], json!({ "action": "closed", "number": 7 }));
    // The same delivery again changes nothing, even if a thread waits now.
    let thread = waiting(&place, "github.pull_request");
    let again = deliver_github(&place, "72d3162e", "pull_request", body).is(200).value();
    assert_eq!((&again["is_known"], &again["threads"]), (&json!(true), &json!([early])));
    let sent = deliver_github(&place, "72d3162f", "pull_request", body).is(200).value();
    assert_eq!((&sent["threads"], &sent["is_known"]), (&json!([thread]), &json!(false)));
    place.at_rest(&thread);
    let events = place.get(&format!("/v1/threads/{thread}/events?types=SIGNAL_RECEIVED")).is(200).value();
    let [received] = &events["events"].as_array().unwrap()[..] else { panic!("{events}") };
    assert_eq!(received["data"]["by"], json!({ "kind": "named", "name": "webhook github" }));
    assert_eq!(received["data"]["signal_id"], "github/72d3162f");
}

#[test]
fn delivery_without_a_valid_signature_is_refused() {
    let scene = configured(GITHUB);
    let mut command = scene.command("serve --listen 127.0.0.1:0".split_whitespace());
    command.env("RETHREAD_LOG", "rethread::serve::incoming=info");
    let mut place = Place::of(scene, Running::start(command));
    let (body, other) = (r#"{"number":7}"#, r#"{"number":8}"#);
    let mut details = std::collections::BTreeSet::new();
    let signature = github(body);
    let of_other_secret = format!("sha256={}", HEXLOWER.encode(&code(b"another secret that is not ours", body)));
    for (body, headers) in [
        (body, vec![]),
        (body, vec![("X-Hub-Signature-256", "sha256=")]),
        (body, vec![("X-Hub-Signature-256", &signature[7..])]),
        (body, vec![("X-Hub-Signature-256", &of_other_secret)]),
        (body, vec![("X-Hub-Signature", &signature)]),
        (body, vec![("Authorization", "Bearer rethread_x")]),
        (other, vec![("X-Hub-Signature-256", &signature)]),
        ("{\"number\":7} ", vec![("X-Hub-Signature-256", &signature)]),
        // Not read before its signature.
        ("nonsense", vec![("X-Hub-Signature-256", &signature)]),
    ] {
        let headers: Vec<_> = [("X-GitHub-Event", "push")].into_iter().chain(headers).collect();
        let problem = deliver(&place, "github", body, &headers).problem(401, "invalid-signature");
        details.insert(problem["detail"].to_string());
    }
    assert_eq!(details.len(), 1, "the sender learns no reason: {details:?}");
    let logged = place.server.wait_until_said("delivery refused");
    assert!(logged.contains("github") && !logged.contains(SECRET), "{logged}");
    deliver(&place, "gitlab", body, &[]).problem(404, "not-found");
    // As a form it is refused with what to change.
    let request = Request::new(place.address, "POST", "/v1/incoming/github");
    let problem = request.body("application/x-www-form-urlencoded", "payload=x").send();
    let problem = problem.problem(415, "unsupported-media-type");
    assert!(problem["detail"].as_str().unwrap().contains("application/json"), "{problem}");
    deliver_github(&place, "1", "a b", body).problem(422, "unusable");
    assert_eq!(deliver_github(&place, "1", "push", body).is(200).value()["is_known"], false, "none of them was sent");
}

#[test]
fn stripe_and_standard_deliveries_are_signed_with_their_time() {
    let place = Place::on(
        configured(
            "[incoming.stripe]\nsignature = 'stripe'\nsignal = 'stripe.{event}'\n\
             [incoming.other]\nsignature = 'standard'\nsignal = '{event}'\ntolerance_s = 60\n",
        ),
        "",
    );
    let body = r#"{"id":"evt_81","type":"invoice.paid","amount":12.5}"#;
    let stripe = |at: u64| {
        let signature = format!("t={at},v1={},v1={}", "0".repeat(64), hex(&format!("{at}.{body}")));
        deliver(&place, "stripe", body, &[("Stripe-Signature", &signature)])
    };
    let key = BASE64.decode(SECRET.trim_start_matches("whsec_").as_bytes()).unwrap();
    let standard = |at: u64| {
        let (time, id) = (at.to_string(), "msg_1");
        let signature = format!("v1,{}", BASE64.encode(&code(&key, &format!("{id}.{at}.{body}"))));
        let headers = [("webhook-id", id), ("webhook-timestamp", &time), ("webhook-signature", &signature)];
        deliver(&place, "other", body, &headers)
    };
    for (send, tolerance, signal, id) in [
        (&stripe as &dyn Fn(u64) -> Response, 300, "stripe.invoice.paid", "stripe/evt_81"),
        (&standard, 60, "invoice.paid", "other/msg_1"),
    ] {
        send(seconds_ago(tolerance + 5)).problem(401, "invalid-signature");
        let thread = waiting(&place, signal);
        let sent = send(seconds_ago(tolerance - 30)).is(200).value();
        assert_eq!((&sent["threads"], &sent["signal_id"]), (&json!([thread]), &json!(id)));
        assert_eq!(place.at_rest(&thread)["output"], serde_json::from_str::<Value>(body).unwrap());
        // Sent again by the service, which signs it with a new time.
        assert_eq!(send(seconds_ago(0)).is(200).value()["is_known"], true);
    }
}

#[test]
fn webhook_with_labels_reaches_only_threads_that_have_them() {
    let scene = configured(
        "[incoming.shop]\nsignature = 'hmac'\nheader = 'X-Shop-Hmac'\nencoding = 'base64'\nid_header = 'X-Shop-Id'\n\
         signal = 'paid'\nkeep_for_s = 0\nlabels = { tenant = 'acme' }\n",
    );
    // Both secrets are accepted while one replaces the other.
    scene.write("secret.txt", format!("another secret that is new\n{SECRET}\n"));
    let token = scene.run("token create --scope admin").ok().stdout;
    let place = Place { token: Some(token.trim().to_owned()), ..Place::on(scene, "--require-token") };
    let body = r#"[{"order":7}]"#;
    let send = |key: &[u8], id: &str| {
        let signature = BASE64.encode(&code(key, body));
        deliver(&place, "shop", body, &[("X-Shop-Hmac", &signature), ("X-Shop-Id", id)])
    };
    let definition = "version: '1'\nname: wait\nnodes: [{id: on, signal: {name: paid}}]";
    let start = |tenant: &str| {
        let body = json!({ "definition": definition, "labels": { "tenant": tenant } });
        let thread = place.post("/v1/threads", &body).is(201).value()["thread_id"].as_str().unwrap().to_owned();
        place.until(&format!("/v1/threads/{thread}"), |shown| shown["status"] == "suspended");
        thread
    };
    start("other");
    send(SECRET.as_bytes(), "1").problem(409, "conflict");
    let thread = start("acme");
    // What was refused is not known: the service sends it again.
    assert_eq!(send(SECRET.as_bytes(), "1").is(200).value()["threads"], json!([thread]));
    let thread = start("acme");
    assert_eq!(send(b"another secret that is new", "2").is(200).value()["threads"], json!([thread]));
    send(b"another secret that is old", "3").problem(401, "invalid-signature");
    // A signature is no token.
    Request::new(place.address, "GET", "/v1/threads").send().problem(401, "unauthorized");
}

#[test]
fn server_starts_only_with_the_secrets_of_its_webhooks() {
    let refused = |scene: &Scene, says: &str| {
        let serve = scene.run("serve --listen 127.0.0.1:0").code(3);
        assert!(!serve.stderr.contains("hunter2"), "{serve}");
        serve.says("incoming.github").says(says);
        let doctor = scene.run("doctor --offline").code(1).stdout;
        let check = doctor.lines().find(|line| line.starts_with("error    webhooks: "));
        assert!(check.is_some_and(|line| line.contains(says)), "{doctor}");
    };
    let scene = configured(GITHUB);
    let doctor = scene.run("doctor --offline").ok().stdout;
    assert!(doctor.contains("ok       webhooks: 1 with their secrets"), "{doctor}");
    scene.write("secret.txt", "hunter2");
    refused(&scene, "at least 16 bytes");
    scene.write("secret.txt", "\n");
    refused(&scene, "is empty");
    std::fs::remove_file(scene.file("secret.txt")).unwrap();
    refused(&scene, "secret.txt");
    scene.write("rethread.toml", GITHUB.replace("signal", "secret_env = 'NO_SUCH_SECRET'\nsignal"));
    refused(&scene, "NO_SUCH_SECRET");
    scene.write("rethread.toml", GITHUB);
    refused(&scene, "`secret_env` or `secret_file`");
    // A server that sends no signals needs none.
    let place = Place::on(scene, "--read-only");
    deliver_github(&place, "1", "push", "{}").problem(403, "read-only");
}

#[test]
fn large_delivery_is_refused_before_it_is_verified() {
    let place = Place::on(configured(&format!("{GITHUB}body_bytes_max = 100\n")), "");
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(100));
    let problem = deliver_github(&place, "1", "push", &body).problem(413, "too-large");
    assert!(problem["detail"].as_str().unwrap().contains("body_bytes_max"), "{problem}");
}

#[test]
fn delivery_is_accepted_under_an_allowed_host_name_only() {
    let place = Place::on(configured(GITHUB), "--allow-host hooks.example");
    let signature = github("{}");
    let send = |host: &str| {
        let headers = [("Host", host), ("X-GitHub-Event", "push"), ("X-Hub-Signature-256", &signature)];
        deliver(&place, "github", "{}", &headers)
    };
    send("other.example").problem(421, "unknown-host");
    let sent = send("hooks.example").is(200).value();
    // Without an id it is identified by its body.
    assert_eq!(
        (&sent["is_known"], &send("hooks.example:443").is(200).value()["is_known"]),
        (&json!(false), &json!(true))
    );
}
