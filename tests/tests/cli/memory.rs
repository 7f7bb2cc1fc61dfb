//! Memories of agents, from the command line.

use std::path::PathBuf;

use rethread_tests::binary::{Running, Scene};
use serde_json::{Value, json};

use crate::gc::{holding, ids};
use crate::labels::secret;
use crate::{id_of, keys};

const NAMESPACE: &str = "[memory]\nnamespace = ['user']\n";

/// A folder with a workflow that remembers its input.
fn scene() -> Scene {
    let scene = Scene::new();
    let node = json!({ "id": "keep", "tool": { "tool_name": "remember", "parameters": { "text": "{{ input }}" } } });
    scene.write("keep.json", json!({ "version": "1", "name": "keep", "nodes": [node] }).to_string());
    scene.write("rethread.toml", NAMESPACE);
    scene
}

fn keep(scene: &Scene, text: &str, user: &str) -> String {
    id_of(&scene.run(&format!("run keep.json --json --quiet --input {text} --label user={user}")).ok().json())
}

fn texts(json: &Value) -> Vec<&str> {
    json.as_array().unwrap().iter().map(|memory| memory["text"].as_str().unwrap()).collect()
}

#[test]
fn memories_are_listed_searched_and_forgotten() {
    let scene = scene();
    keep(&scene, "tea", "ada");
    keep(&scene, "milk", "ada");
    keep(&scene, "water", "bob");
    let namespaces = scene.run("memory namespaces --json").ok().json();
    let [ada, bob] = [("ada", 2), ("bob", 1)].map(|(user, n)| json!({ "labels": { "user": user }, "n_memories": n }));
    assert_eq!(namespaces, json!([ada, bob]));
    assert!(scene.run("memory namespaces").ok().stdout.contains("user=ada  2"));
    let listed = scene.run("memory list --label user=ada --json").ok().json();
    assert_eq!(
        (texts(&listed), keys(&listed[0])),
        (vec!["milk", "tea"], "id text name tags at thread_id score".into())
    );
    assert_eq!(texts(&scene.run("memory search TEA --label user=ada --json").ok().json()), ["tea"]);
    assert_eq!(texts(&scene.run("memory list --json").ok().json()), Vec::<&str>::new());
    scene.run("memory list").ok().says("no memories").silent();
    scene.run("memory search tea --label user").code(2).says("expected KEY=VALUE");

    let id = listed[1]["id"].as_str().unwrap();
    assert!(scene.run("memory list --label user=ada").ok().stdout.contains(&format!("{id} ")));
    scene.run(&format!("memory forget {id}")).code(5).says("no memory").silent();
    scene.run("memory forget x").code(2).says("16 hexadecimal digits");
    assert_eq!(scene.run(&format!("memory forget {id} --label user=ada")).ok().stdout, format!("{id} forgotten\n"));
    scene.run(&format!("memory forget {id} --label user=ada")).code(5).silent();
    assert_eq!(texts(&scene.run("memory list --label user=ada --json").ok().json()), ["milk"]);
    scene.run("verify").ok();
}

#[test]
fn memory_without_a_configuration_or_a_label_is_refused() {
    let scene = scene();
    scene.run("run keep.json --input tea").code(1).says("it lacks the label `user`");
    for (written, says) in [
        ("[memory]", "missing field `namespace`"),
        ("[memory]\nnamespace = ['a b']", "memory.namespace: `a b` is not the key of a label"),
        ("[memory]\nnamespace = []\nmemories_max = 0", "memory.memories_max: between 1 and 10000 are possible"),
        ("[memory]\nnamespaces = []", "unknown field"),
    ] {
        scene.write("rethread.toml", written);
        scene.run("run keep.json --input tea").code(3).says(says);
    }
    scene.write("rethread.toml", "");
    scene.run("run keep.json --input tea").code(3).says("allow it with [memory] in rethread.toml");
    scene.run("validate keep.json").ok().says("its tools need [memory] in rethread.toml");
    scene.run("tools call search_memory").code(1).says("only a thread has memories");
    scene.run("gc --memories --older-than 1d").code(2).says("--label");
}

/// A server on the log, which ends with the value.
fn server(scene: &Scene) -> Running {
    let mut server = Running::start(scene.command(["serve", "--listen", "127.0.0.1:0"]));
    server.wait_until_said("serving ");
    server
}

#[test]
fn forget_leaves_nothing_of_a_memory_in_the_files() {
    for at_server in [false, true] {
        let scene = scene();
        let server = at_server.then(|| server(&scene));
        let thread = keep(&scene, &secret(7_919), "ada");
        keep(&scene, &secret(104_729), "ada");
        // The events of the thread have the text as well.
        scene.run(&format!("delete {thread}")).ok();
        let held = |seed| holding(&scene.data_dir(), secret(seed).as_bytes());
        assert!(!held(7_919).is_empty(), "at a server: {at_server}");
        let listed = scene.run("memory list --label user=ada --json").ok().json();
        let id = listed[1]["id"].as_str().unwrap();
        assert_eq!(scene.run(&format!("memory forget {id} --label user=ada")).ok().stdout, format!("{id} forgotten\n"));
        assert_eq!(held(7_919), Vec::<PathBuf>::new(), "at a server: {at_server}");
        assert!(!held(104_729).is_empty());
        if let Some(server) = server {
            server.signal("TERM");
            server.end().ok();
        }
        assert_eq!(held(7_919), Vec::<PathBuf>::new(), "at a server: {at_server}");
        assert_eq!(texts(&scene.run("memory list --label user=ada --json").ok().json()), [secret(104_729)]);
    }
}

#[test]
fn delete_by_label_leaves_no_memory_of_the_user_in_the_files() {
    for at_server in [false, true] {
        let scene = scene();
        let server = at_server.then(|| server(&scene));
        let (gone, stays) = (secret(7_919), secret(104_729));
        keep(&scene, &gone, &gone);
        keep(&scene, &stays, &stays);
        let held = |text: &str| holding(&scene.data_dir(), text.as_bytes());
        assert!(!held(&gone).is_empty(), "at a server: {at_server}");
        let done = scene.run(&format!("delete --label user={gone} --json")).ok().json();
        assert_eq!((ids(&done["deleted"]).len(), &done["memories"]), (1, &json!(1)));
        assert_eq!(held(&gone), Vec::<PathBuf>::new(), "at a server: {at_server}");
        assert_eq!(
            texts(&scene.run(&format!("memory list --label user={stays} --json")).ok().json()),
            [stays.as_str()]
        );
        if let Some(server) = server {
            server.signal("TERM");
            server.end().ok();
        }
        assert_eq!(held(&gone), Vec::<PathBuf>::new());
        scene.run("verify").ok();
        // A label without a thread is enough.
        scene.run("gc --older-than 0s").ok();
        assert_eq!(texts(&scene.run(&format!("memory list --label user={stays} --json")).ok().json()).len(), 1);
        scene.run(&format!("delete --label user={stays}")).ok().says("1 memory deleted");
        assert_eq!(scene.run("memory namespaces --json").ok().json(), json!([]));
    }
}
