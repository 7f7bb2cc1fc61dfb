//! Events that are posted to an address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use rethread_tests::binary::{HANG, Scene};
use rethread_tests::receiver::receiver;
use serde_json::Value;

use crate::place::{Place, QUICK};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn configured(url: &str, more: &str) -> Scene {
    let scene = Scene::new();
    scene.write("secret.txt", SECRET);
    scene.write("rethread.toml", format!("[webhooks.audit]\nurl = \"{url}\"\nsecret_file = \"secret.txt\"\n{more}"));
    scene
}

#[test]
fn webhook_posts_signed_events_in_order_and_resumes() {
    let (url, posts) = receiver([500, 503]);
    let place = Place::on(configured(&url, ""), "");
    let first = place.at_rest(&place.start(QUICK))["last_position"].as_u64().unwrap();
    let mut seen: Vec<Value> = Vec::new();
    while seen.last().is_none_or(|event| event["position"] != format!("{first:020}")) {
        let post = posts.recv_timeout(HANG).unwrap();
        let header = |wanted: &str| post.headers.iter().find(|(name, _)| name == wanted).unwrap().1.clone();
        assert_eq!(header("content-type"), "application/cloudevents+json");
        assert_eq!(header("webhook-id"), post.event["eventid"]);
        assert!(header("webhook-signature").starts_with("v1,"));
        assert!(header("webhook-timestamp").parse::<u64>().unwrap() > 1_700_000_000);
        seen.push(post.event);
    }
    let Place { scene, server, .. } = place;
    server.signal("TERM");
    server.end().ok();
    let place = Place::on(scene, "");
    let last = place.at_rest(&place.start(QUICK))["last_position"].as_u64().unwrap();
    while seen.last().is_none_or(|event| event["position"] != format!("{last:020}")) {
        seen.push(posts.recv_timeout(HANG).unwrap().event);
    }
    let positions: Vec<u64> = seen.iter().map(|event| event["position"].as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(positions, (0..=last).collect::<Vec<_>>(), "a stop in good order repeats nothing");
    let metrics = place.get("/metrics").body;
    assert!(metrics.contains("rethread_webhook_dead{webhook=\"audit\"} 0"), "{metrics}");
    assert!(!metrics.contains("hunter2"));
}

/// Redirects every POST, and accepts everything else; returns the methods of the requests.
fn redirecting() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, methods) = channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut reader = BufReader::new(socket.unwrap());
            let (mut line, mut n_bytes) = (String::new(), 0);
            reader.read_line(&mut line).unwrap();
            let method = line.split(' ').next().unwrap().to_owned();
            while !line.trim_end().is_empty() {
                line.clear();
                reader.read_line(&mut line).unwrap();
                if let Some(("content-length", value)) = line.trim_end().to_ascii_lowercase().split_once(": ") {
                    n_bytes = value.parse().unwrap();
                }
            }
            reader.read_exact(&mut vec![0; n_bytes]).unwrap();
            let status = if method == "POST" { "302 Found\r\nLocation: /login" } else { "200 OK" };
            write!(reader.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            if sender.send(method).is_err() {
                return;
            }
        }
    });
    (url, methods)
}

#[test]
fn redirect_is_not_followed_and_not_a_delivery() {
    let (url, methods) = redirecting();
    let mut place = Place::on(configured(&url, "give_up_after_s = 1\n"), "");
    place.at_rest(&place.start(QUICK));
    let said = place.server.wait_until_said("has given up at position 0");
    assert!(said.contains("302"), "{said}");
    let metrics = place.get("/metrics").is(200).body;
    for line in
        ["rethread_webhook_delivered_total{webhook=\"audit\"} 0", "rethread_webhook_next_position{webhook=\"audit\"} 0"]
    {
        assert!(metrics.lines().any(|known| known == line), "{line} is missing:\n{metrics}");
    }
    let asked: Vec<_> = methods.try_iter().collect();
    assert!(asked.len() > 1 && asked.iter().all(|method| method == "POST"), "{asked:?}");
}

#[test]
fn webhook_with_a_narrow_filter_advances_with_the_log() {
    let (url, posts) = receiver([]);
    let place = Place::on(configured(&url, "types = [\"THREAD_FAILED\"]\n"), "");
    place.at_rest(&place.start(QUICK));
    let end = place.get("/v1/log").value()["next_position"].as_u64().unwrap();
    let line = format!("rethread_webhook_next_position{{webhook=\"audit\"}} {end}");
    let until = std::time::Instant::now() + HANG;
    while !place.get("/metrics").is(200).body.lines().any(|known| known == line) {
        assert!(std::time::Instant::now() < until, "it does not come to {end}");
    }
    assert!(posts.try_recv().is_err());
}

#[test]
fn failing_webhook_stops_alone_and_is_reported() {
    let (url, _posts) = receiver(std::iter::repeat_n(500, 1_000));
    let more = "types = [\"THREAD_COMPLETED\"]\ngive_up_after_s = 1\n";
    let mut place = Place::on(configured(&url, more), "");
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    let said = place.server.wait_until_said("has given up");
    assert!(said.contains("webhook `audit`") && said.contains("500") && !said.contains("hunter2"), "{said}");
    let metrics = place.get("/metrics").is(200).body;
    assert!(metrics.contains("rethread_webhook_dead{webhook=\"audit\"} 1"), "{metrics}");
    let again = place.start(QUICK);
    assert_eq!(place.at_rest(&again)["status"], "completed");
}

#[test]
fn invalid_webhook_configuration_is_refused_with_the_reason() {
    let serve = |scene: &Scene| scene.run("serve --listen 127.0.0.1:0").code(3);
    serve(&configured("ftp://example", "")).says("must begin with https://");
    serve(&configured("http://example", "types = [\"NO\"]")).says("unknown event type NO");
    serve(&configured("http://example", "colour = 1")).says("colour");
    let scene = configured("http://example", "");
    scene.write("secret.txt", "hunter2");
    let said = serve(&scene);
    assert!(!said.stderr.contains("hunter2"), "{said}");
    said.says("whsec_");
    Scene::new().run("serve --listen 127.0.0.1:0 --webhook http://example").code(3).says("RETHREAD_WEBHOOK_SECRET");
}

#[test]
fn a_delivery_that_fails_is_logged_with_its_reason() {
    let (url, posts) = receiver([500]);
    let mut place = Place::on(configured(&url, ""), "");
    place.at_rest(&place.start(QUICK));
    let logged = place.server.wait_until_said("not delivered");
    assert!(logged.contains("audit") && logged.contains("500") && !logged.contains("hunter2"), "{logged}");
    posts.recv_timeout(HANG).unwrap();
}
