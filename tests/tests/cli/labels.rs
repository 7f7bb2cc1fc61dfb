//! Labels of threads: given at start, filters, erasure.

use std::path::PathBuf;

use rethread_tests::binary::{Running, Scene};
use serde_json::{Value, json};

use crate::gc::{holding, ids};
use crate::{id_of, scene};

#[test]
fn threads_are_listed_exported_and_deleted_by_their_labels() {
    let scene = scene();
    let run = |labels: &str| id_of(&scene.run(&format!("run greeting.yaml --json --quiet {labels}")).ok().json());
    let plain = run("");
    let ada = run("--label tenant=acme --label user=ada");
    let bob = run("--label tenant=acme,user=bob");
    let fork = id_of(&scene.run(&format!("fork {ada} --at 3 --json --quiet")).ok().json());
    let listed = |filter: &str| ids(&scene.run(&format!("threads --json {filter}")).ok().json());
    assert_eq!(listed(""), [plain.clone(), ada.clone(), bob.clone(), fork.clone()]);
    assert_eq!(listed("--label tenant=acme"), [ada.clone(), bob.clone(), fork.clone()]);
    assert_eq!(listed("--label user=ada"), [ada.clone(), fork.clone()], "a fork has the labels of its parent");
    assert_eq!(listed("--label tenant=acme --label user=bob"), [bob.as_str()]);
    assert_eq!(listed("--label user=ad"), Vec::<String>::new());
    let shown = scene.run(&format!("show {fork} --json")).ok().json();
    assert_eq!(shown["labels"], json!({ "tenant": "acme", "user": "ada" }));
    let shown = scene.run(&format!("show {ada}")).ok().stdout;
    assert!(shown.contains("tenant=acme,user=ada"), "{shown}");

    let calls = |filter: &str| scene.run(&format!("usage --by call --json {filter}")).ok().lines().len();
    // Three calls of the model and one of a tool in each; the fork made them all again.
    assert_eq!((calls(""), calls("--label user=ada"), calls("--label tenant=acme")), (4 * 4, 2 * 4, 3 * 4));
    assert_eq!(calls("--label user=ad"), 0);
    scene.run("usage last --label user=ada").code(2).silent();

    // An export has them, and the log that it is imported into finds them.
    scene.run("export --label user=ada -o ada.jsonl").ok();
    let other = Scene::new();
    other.write("ada.jsonl", std::fs::read(scene.file("ada.jsonl")).unwrap());
    other.run("import ada.jsonl").ok();
    let there = ids(&other.run("threads --json --label tenant=acme").ok().json());
    assert_eq!(there, [ada.clone(), fork.clone()]);

    let gone = scene.run("gc --label user=bob --json").ok().json();
    assert_eq!(ids(&gone["deleted"]), [bob]);
    scene.run("delete --label user=ada").ok();
    assert_eq!(listed(""), [plain]);
    scene.run("verify").ok();
}

#[test]
fn label_that_cannot_be_used_is_refused_by_each_command() {
    let scene = scene();
    scene.run("run greeting.yaml --quiet").ok();
    for command in ["run greeting.yaml", "threads", "gc", "export", "delete", "usage"] {
        scene.run(&format!("{command} --label tenant")).code(2).says("`tenant` is not a label: expected KEY=VALUE");
        scene.run(&format!("{command} --label a=1 --label a=2")).code(2).says("label `a` is given twice");
    }
    scene.run("delete").code(2).says("--label");
    assert_eq!(ids(&scene.run("threads --json").ok().json()).len(), 1);
}

#[test]
fn deleted_thread_is_erased_from_the_files() {
    for at_server in [false, true] {
        let scene = scene();
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        let mut server = at_server.then(|| Running::start(scene.command(serve)));
        if let Some(server) = &mut server {
            server.wait_until_said("serving ");
        }
        // The label lies in the index as it is; what was said is compressed in the packs.
        let run = |text: &str| {
            let words = format!("run greeting.yaml --json --quiet --input {text} --label user={text}");
            id_of(&scene.run(&words).ok().json())
        };
        let (gone, stays) = (run(&secret(7_919)), run(&secret(104_729)));
        scene.run("delete nobody").code(5).silent();
        assert!(!holding(&scene.data_dir(), secret(7_919).as_bytes()).is_empty(), "at a server: {at_server}");
        assert_eq!(scene.run(&format!("delete {gone} --json")).ok().json()["thread_id"], gone);
        scene.run(&format!("delete {gone}")).code(5).silent();
        assert_eq!(
            holding(&scene.data_dir(), secret(7_919).as_bytes()),
            Vec::<PathBuf>::new(),
            "at a server: {at_server}"
        );
        assert_eq!(ids(&scene.run("threads --json").ok().json()), [stays]);
        if let Some(server) = server {
            server.signal("TERM");
            server.end().ok();
        }
        scene.run("verify").ok();
    }
    let scene = scene();
    scene.run("run asking.yaml --quiet").code(4);
    scene.run("delete last").code(7).says("cancel it first").silent();
    scene.run("delete last --label a=1").code(2).silent();
}

#[test]
fn delete_refuses_while_a_thread_with_the_label_is_open() {
    let scene = scene();
    scene.run("run greeting.yaml --quiet --label user=ada").ok();
    scene.run("run asking.yaml --quiet --label user=ada").code(4);
    scene.run("delete --label user=ada").code(7).says("cancel it first; nothing was deleted");
    assert_eq!(ids(&scene.run("threads --json --label user=ada").ok().json()).len(), 2);
    scene.run("cancel last").ok();
    scene.run("delete --label user=ada").ok();
    assert_eq!(scene.run("threads --json").ok().json(), json!([]));
}

/// A text that no compression makes shorter, so that it is found where it is.
pub(crate) fn secret(seed: u64) -> String {
    format!("{:016x}{:016x}", 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed), seed)
}

/// A scene with a workflow whose two models store their answers: beside the log, and in the folder `elsewhere`. Both answer
/// with this text.
fn caching(answer: &str) -> Scene {
    let scene = Scene::new();
    let profile = |name: &str, cache: &str| {
        let script = format!("{{ answers = [{{ text = '{answer}' }}], repeat = true }}");
        format!("[profiles.{name}]\nprovider = 'mock'\nmodel = 'm'\nscript = {script}\nanswer_cache = {cache}\n")
    };
    let elsewhere = format!("{{ folder = '{}' }}", scene.file("elsewhere").display());
    scene.write("rethread.toml", profile("near", "{}") + &profile("far", &elsewhere));
    let ask =
        |id: &str, profile: &str| json!({ "id": id, "llm": { "profile": profile, "user_prompt": "{{ input }}" } });
    let nodes = json!([ask("first", "near"), ask("second", "far")]);
    scene.write("ask.json", json!({ "version": "1", "name": "ask", "nodes": nodes }).to_string());
    scene
}

/// The files of the log and of the caches that hold the text.
fn held(scene: &Scene, text: &str) -> Vec<PathBuf> {
    [holding(&scene.data_dir(), text.as_bytes()), holding(&scene.file("elsewhere"), text.as_bytes())].concat()
}

#[test]
fn erasure_leaves_no_cached_answer_schedule_or_kept_signal() {
    for at_server in [false, true] {
        let (gone, stays, answer) = (secret(7_919), secret(104_729), secret(1_299_709));
        let scene = caching(&answer);
        let mut server = at_server.then(|| Running::start(scene.command(["serve", "--listen", "127.0.0.1:0"])));
        if let Some(server) = &mut server {
            server.wait_until_said("serving ");
        }
        scene.run(&format!("run ask.json --quiet --input {gone} --label user={gone}")).ok();
        for (name, user) in [("theirs", &gone), ("others", &stays)] {
            let schedule = format!("schedule put {name} --workflow ask.json --cron @yearly");
            scene.run(&format!("{schedule} --input {user} --label user={user} --label tenant=acme")).ok();
            scene.run(&format!("signal {name} --payload {user} --keep 1h --label user={user}")).ok();
        }
        assert_eq!(holding(&scene.data_dir().join("answers"), answer.as_bytes()).len(), 1);
        assert_eq!(holding(&scene.file("elsewhere"), answer.as_bytes()).len(), 1);
        let done = scene.run(&format!("delete --label user={gone} --json")).ok().json();
        let n = ["schedules", "signals", "answers"].map(|name| done[name].as_u64().unwrap());
        assert_eq!((ids(&done["deleted"]).len(), n), (1, [1, 1, 2]), "at a server: {at_server}");
        for text in [&gone, &answer] {
            assert_eq!(held(&scene, text), Vec::<PathBuf>::new(), "at a server: {at_server}");
        }
        let left = scene.run("schedule list --json").ok().json();
        assert!(left.to_string().contains("others") && !left.to_string().contains("theirs"), "{left}");
        assert!(!held(&scene, &stays).is_empty());
        if let Some(server) = server {
            server.signal("TERM");
            server.end().ok();
        }
        for text in [&gone, &answer] {
            assert_eq!(held(&scene, text), Vec::<PathBuf>::new(), "at a server: {at_server}");
        }
        // The label that a schedule gives its threads is one of theirs.
        let done = scene.run("delete --label schedule=others --json").ok().json();
        assert_eq!((&done["schedules"], &done["signals"]), (&json!(1), &json!(0)));
        scene.run("verify").ok();
    }
}

#[test]
fn cached_answers_are_erased_with_a_thread_and_by_compact() {
    let answer = secret(7_919);
    let scene = caching(&answer);
    for erase in ["delete last", "gc --status completed --compact"] {
        scene.run("run ask.json --quiet --input hi").ok();
        assert_eq!(holding(&scene.data_dir().join("answers"), answer.as_bytes()).len(), 1, "{erase}");
        scene.run(erase).ok();
        assert_eq!(held(&scene, &answer), Vec::<PathBuf>::new(), "{erase}");
    }
}

/// How many bytes the packs hold: what is erased is zero.
fn packed(scene: &Scene) -> usize {
    let packs = std::fs::read_dir(scene.data_dir().join("packs")).unwrap();
    let bytes = packs.flat_map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    bytes.filter(|byte| *byte != 0).count()
}

#[test]
fn threads_deleted_by_label_are_erased_from_the_files() {
    for at_server in [false, true] {
        let scene = Scene::new();
        let noise: String = (1..3_000).map(|n| secret(n * n)).collect();
        let script = json!({ "answers": [
            { "tool_calls": [{ "name": "read_file", "arguments": { "path": "secret.txt" } }] },
            { "text": "done" },
        ] });
        let llm = json!({ "provider": "mock", "model": "m", "user_prompt": "{{ input }}", "tool_mode": "auto",
            "extra": { "script": script } });
        let nodes = json!([{ "id": "look", "llm": llm }]);
        scene.write("secret.json", json!({ "version": "1", "name": "secret", "nodes": nodes }).to_string());
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        let mut server = at_server.then(|| Running::start(scene.command(serve)));
        if let Some(server) = &mut server {
            server.wait_until_said("serving ");
        }
        // The user, what the user said, and what a tool answered; and the same of another user, who stays.
        let texts = |user: u64| [secret(user), secret(user + 1), secret(user + 2)];
        for user in [7_919, 104_729] {
            let [name, prompt, output] = texts(user);
            scene.write("secret.txt", format!("{output}{noise}"));
            for _ in 0..3 {
                let labels = format!("--label tenant=acme --label user={name}");
                scene.run(&format!("run secret.json --quiet --input {prompt} {labels}")).ok();
            }
        }
        let held = |texts: [String; 3]| texts.map(|text| holding(&scene.data_dir(), text.as_bytes()));
        // Others are compressed in the packs: what those hold is compared when no thread is left.
        let [of_name, _, _] = held(texts(7_919));
        assert!(!of_name.is_empty());
        assert!(at_server || packed(&scene) > 2_000);
        let done: Value = scene.run(&format!("delete --label user={} --json", secret(7_919))).ok().json();
        assert_eq!(ids(&done["deleted"]).len(), 3);
        let nothing = [const { Vec::<PathBuf>::new() }; 3];
        assert_eq!(held(texts(7_919)), nothing, "at a server: {at_server}");
        scene.run("verify").ok();
        if let Some(server) = server {
            server.signal("TERM");
            server.end().ok();
        }
        assert_eq!(held(texts(7_919)), nothing);
        assert_eq!(ids(&scene.run(&format!("threads --json --label user={}", secret(104_729))).ok().json()).len(), 3);
        scene.run("verify").ok();
        scene.run("delete --label tenant=acme").ok();
        // Frames of chunks that hold nothing.
        assert!(packed(&scene) < 1_000, "the packs hold {} bytes and no thread is left", packed(&scene));
    }
}
