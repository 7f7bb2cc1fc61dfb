//! Memories over HTTP, and the commands about them through a server.

use rethread_tests::binary::{Running, Scene};
use serde_json::{Value, json};

use crate::http::Response;
use crate::place::Place;

/// A workflow that stores its input. The tag is the input as well.
pub(crate) const KEEP: &str = "
version: '1'
name: keep
nodes:
  - {id: keep, tool: {tool_name: remember, parameters: {text: '{{ input }}', tags: ['{{ input }}', drink]}}}
";

fn configured() -> Scene {
    let scene = Scene::new();
    scene.write("rethread.toml", "[memory]\nnamespace = ['tenant', 'user']\n");
    scene
}

/// Sends requests with a token, or without one.
struct Client<'a> {
    place: &'a Place,
    token: Option<String>,
}

impl<'a> Client<'a> {
    fn of(place: &'a Place, options: &str) -> Self {
        let token = place.scene.run(&format!("token create {options}")).ok().stdout.trim().to_owned();
        Self { place, token: Some(token) }
    }

    fn send(&self, method: &str, path: &str) -> Response {
        let request = self.place.request(method, path);
        match &self.token {
            Some(token) => request.header("Authorization", &format!("Bearer {token}")).send(),
            None => request.send(),
        }
    }

    fn get(&self, path: &str) -> Value {
        self.send("GET", path).is(200).value()
    }
}

/// Stores a text in the namespace of a tenant and a user; returns the id of the thread.
fn keep(place: &Place, text: &str, tenant: &str, user: &str) -> String {
    let body =
        json!({ "definition": KEEP, "input": text, "labels": { "tenant": tenant, "user": user, "plan": "free" } });
    let thread = place.post("/v1/threads", &body).is(201).value()["thread_id"].as_str().unwrap().to_owned();
    assert_eq!(place.at_rest(&thread)["status"], "completed");
    thread
}

fn texts(answer: &Value) -> Vec<&str> {
    answer["memories"].as_array().unwrap().iter().map(|memory| memory["text"].as_str().unwrap()).collect()
}

const ADA: &str = "label=tenant=acme,user=ada";

#[test]
fn memories_are_listed_searched_and_removed_over_http() {
    let place = Place::on(configured(), "");
    let all = Client { place: &place, token: None };
    let thread = keep(&place, "tea", "acme", "ada");
    keep(&place, "milk", "acme", "ada");
    keep(&place, "oat milk", "acme", "ada");
    keep(&place, "water", "acme", "bob");

    let namespace = |user: &str, n: u64| json!({ "labels": { "tenant": "acme", "user": user }, "n_memories": n });
    let (ada, bob) = (namespace("ada", 3), namespace("bob", 1));
    assert_eq!(all.get("/v1/memories/namespaces"), json!({ "namespaces": [ada, bob], "next": null }));
    let page = all.get("/v1/memories/namespaces?limit=1");
    assert_eq!(page, json!({ "namespaces": [ada], "next": "tenant=acme,user=ada" }));
    let page = all.get("/v1/memories/namespaces?limit=1&cursor=tenant=acme,user=ada");
    assert_eq!(page, json!({ "namespaces": [bob], "next": null }));

    let listed = all.get(&format!("/v1/memories?{ADA}"));
    assert_eq!((texts(&listed), &listed["next"]), (vec!["oat milk", "milk", "tea"], &json!(null)));
    let tea = &listed["memories"][2];
    assert_eq!(
        (&tea["thread_id"], &tea["tags"], &tea["score"]),
        (&json!(thread), &json!(["tea", "drink"]), &json!(0.0))
    );
    assert_eq!(texts(&all.get(&format!("/v1/memories?{ADA}&tag=milk,drink"))), ["milk"]);
    let first = all.get(&format!("/v1/memories?{ADA}&limit=2"));
    assert_eq!(texts(&first), ["oat milk", "milk"]);
    let next = first["next"].as_str().unwrap();
    let rest = all.get(&format!("/v1/memories?{ADA}&limit=2&cursor={next}"));
    assert_eq!((texts(&rest), &rest["next"]), (vec!["tea"], &json!(null)));
    let found = all.get(&format!("/v1/memories?{ADA}&query=MILK&limit=1"));
    assert_eq!((texts(&found), &found["next"]), (vec!["milk"], &json!(null)));
    assert!(found["memories"][0]["score"].as_f64().unwrap() > 0.0, "{found}");
    // A namespace is named by all of its labels, and by no others.
    for query in ["", "?label=tenant=acme", "?label=tenant=acme,user=ada,plan=free", "?label=user=ada"] {
        assert_eq!(texts(&all.get(&format!("/v1/memories{query}"))), Vec::<&str>::new(), "{query}");
    }
    for query in ["label=tenant", "limit=501", "cursor=x", "colour=green", &format!("query=tea&cursor={next}")] {
        all.send("GET", &format!("/v1/memories?{query}")).problem(400, "invalid-request");
    }
    all.send("GET", "/v1/memories/namespaces?cursor=x").problem(400, "invalid-request");

    let id = tea["id"].as_str().unwrap();
    all.send("DELETE", &format!("/v1/memories/{id}")).problem(404, "no-memory");
    all.send("DELETE", &format!("/v1/memories/{id}?label=tenant=acme,user=bob")).problem(404, "no-memory");
    all.send("DELETE", &format!("/v1/memories/x?{ADA}")).problem(404, "no-memory");
    all.send("DELETE", &format!("/v1/memories/{id}?{ADA}")).is(204);
    all.send("DELETE", &format!("/v1/memories/{id}?{ADA}")).problem(404, "no-memory");
    // A page continues although the memory at its start was removed.
    let milk = first["memories"][1]["id"].as_str().unwrap();
    all.send("DELETE", &format!("/v1/memories/{milk}?{ADA}")).is(204);
    keep(&place, "juice", "acme", "ada");
    assert_eq!(texts(&all.get(&format!("/v1/memories?{ADA}&cursor={next}"))), Vec::<&str>::new());
    let place = place.kill_and_restart();
    let all = Client { place: &place, token: None };
    assert_eq!(texts(&all.get(&format!("/v1/memories?{ADA}"))), ["juice", "oat milk"]);
}

#[test]
fn memory_is_removed_by_the_scope_admin_with_an_audit_line() {
    let mut place = Place::on(configured(), "");
    let thread = keep(&place, "tea", "acme", "ada");
    let (read, operate, admin) = {
        let of = |scope: &str| Client::of(&place, &format!("--scope {scope}"));
        (of("read"), of("operate"), of("admin"))
    };
    let listed = read.get(&format!("/v1/memories?{ADA}"));
    let path = format!("/v1/memories/{}?{ADA}", listed["memories"][0]["id"].as_str().unwrap());
    read.send("DELETE", &path).problem(403, "forbidden");
    operate.send("DELETE", &path).problem(403, "forbidden");
    assert_eq!(read.get("/v1/memories/namespaces")["namespaces"][0]["n_memories"], 1);
    admin.send("DELETE", &path).is(204);
    assert_eq!(read.get("/v1/memories/namespaces")["namespaces"], json!([]));
    let line = place.server.wait_until_said("memory deleted");
    assert!(line.contains("audit") && line.contains("tenant=acme,user=ada") && line.contains("token"), "{line}");
    assert!(!line.contains(&thread), "{line}");
}

#[test]
fn foreign_namespace_is_hidden_from_a_token_with_labels() {
    let place = Place::on(configured(), "");
    keep(&place, "ours", "acme", "ada");
    keep(&place, "theirs", "other", "ada");
    let all = Client { place: &place, token: None };
    let acme = Client::of(&place, "--scope admin --label tenant=acme");
    let strangers = Client::of(&place, "--scope admin --label team=x");

    let namespaces = acme.get("/v1/memories/namespaces");
    assert_eq!(namespaces["namespaces"], json!([{ "labels": { "tenant": "acme", "user": "ada" }, "n_memories": 1 }]));
    assert_eq!(strangers.get("/v1/memories/namespaces"), json!({ "namespaces": [], "next": null }));
    // The labels of the token are added.
    for query in [ADA, "label=user=ada", "label=user=ada&query=ours"] {
        assert_eq!(texts(&acme.get(&format!("/v1/memories?{query}"))), ["ours"], "{query}");
    }
    let foreign = "label=tenant=other,user=ada";
    acme.send("GET", &format!("/v1/memories?{foreign}")).problem(403, "forbidden");
    acme.send("GET", "/v1/memories?label=tenant=nobody,user=ada").problem(403, "forbidden");
    for query in [foreign, ADA] {
        assert_eq!(texts(&strangers.get(&format!("/v1/memories?{query}"))), Vec::<&str>::new(), "{query}");
    }
    let theirs = all.get(&format!("/v1/memories?{foreign}"));
    let id = theirs["memories"][0]["id"].as_str().unwrap();
    acme.send("DELETE", &format!("/v1/memories/{id}?{foreign}")).problem(403, "forbidden");
    acme.send("DELETE", &format!("/v1/memories/{id}?{ADA}")).problem(404, "no-memory");
    acme.send("DELETE", &format!("/v1/memories/{id}")).problem(404, "no-memory");
    strangers.send("DELETE", &format!("/v1/memories/{id}?{foreign}")).problem(404, "no-memory");
    assert_eq!(texts(&all.get(&format!("/v1/memories?{foreign}"))), ["theirs"]);
    let ours = acme.get("/v1/memories?label=user=ada");
    let id = ours["memories"][0]["id"].as_str().unwrap();
    acme.send("DELETE", &format!("/v1/memories/{id}?label=user=ada")).is(204);
    assert_eq!(texts(&all.get(&format!("/v1/memories?{ADA}"))), Vec::<&str>::new());
}

/// A token of all threads sees the namespace that all threads share; a token with labels does not.
#[test]
fn shared_namespace_is_hidden_from_a_token_with_labels() {
    let scene = Scene::new();
    scene.write("rethread.toml", "[memory]\nnamespace = []\n");
    let place = Place::on(scene, "");
    keep(&place, "tea", "acme", "ada");
    let all = Client { place: &place, token: None };
    let acme = Client::of(&place, "--scope admin --label tenant=acme");
    assert_eq!(all.get("/v1/memories/namespaces")["namespaces"], json!([{ "labels": {}, "n_memories": 1 }]));
    let listed = all.get("/v1/memories");
    assert_eq!(texts(&listed), ["tea"]);
    let id = listed["memories"][0]["id"].as_str().unwrap();
    assert_eq!(acme.get("/v1/memories/namespaces")["namespaces"], json!([]));
    assert_eq!(texts(&acme.get("/v1/memories")), Vec::<&str>::new());
    acme.send("DELETE", &format!("/v1/memories/{id}")).problem(404, "no-memory");
    assert_eq!(texts(&all.get("/v1/memories")), ["tea"]);
}

#[test]
fn memory_commands_work_through_a_server() {
    let (place, other) = (Place::on(configured(), ""), Scene::new());
    for text in ["tea", "milk", "water"] {
        keep(&place, text, "acme", "ada x");
    }
    let url = format!("http://{}", place.address);
    let here = |words: &[&str]| place.scene.run_args([&["memory"], words].concat());
    let there = |words: &[&str]| other.run_args([&["memory"], words, &["--server", &url]].concat());
    let of_ada = ["--label", "tenant=acme", "--label", "user=ada x"];
    let (list, search) =
        ([&["list", "--json"], &of_ada[..]].concat(), [&["search", "tea", "--json"], &of_ada[..]].concat());
    for words in [&["namespaces", "--json"][..], &list, &search] {
        assert_eq!(here(words).ok().stdout, there(words).ok().stdout, "{words:?}");
    }
    assert_eq!(here(&search).ok().json()[0]["text"], "tea");
    let listed = here(&list).ok().json();
    let [water, milk] = [0, 1].map(|n| listed[n]["id"].as_str().unwrap());
    let forget = |id| [&["forget", id], &of_ada[..]].concat();
    there(&["forget", water]).code(5).says("no memory").silent();
    assert_eq!(there(&forget(water)).ok().stdout, format!("{water} forgotten\n"));
    there(&forget(water)).code(5).says("no memory").silent();
    assert_eq!(here(&forget(milk)).ok().stdout, format!("{milk} forgotten\n"));
    here(&forget(milk)).code(5).silent();
    let left = here(&list).ok().json();
    assert_eq!((left.as_array().map(Vec::len), &left[0]["text"]), (Some(1), &json!("tea")));
    assert!(!other.data_dir().exists(), "nothing was written here");

    // The index is rewritten by a route that a token with labels does not reach.
    let token = place.scene.run_args(["token", "create", "--scope", "admin", "--label", "tenant=acme"]).ok().stdout;
    let tea = left[0]["id"].as_str().unwrap();
    let mut command = other.command([&["memory"], &forget(tea)[..], &["--server", &url]].concat());
    command.env("RETHREAD_TOKEN", token.trim());
    Running::start(command).end().code(5).says("the memory is deleted, but the index was not rewritten").silent();
    assert_eq!(here(&list).ok().stdout.trim(), "[]");
}
