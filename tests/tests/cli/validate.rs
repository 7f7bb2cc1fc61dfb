//! `validate` and the configuration: everything that is wrong is said in one go, and what was not checked.

use rethread_tests::binary::Scene;
use serde_json::json;

const CONFIGURATION: &str = "[profiles.fast]\nprovider = 'mock'\nscript = { answers = [{ text = 'Hi.' }] }\n";

const BAD: &str = r#"
version: "1"
name: bad
nodes:
  - {id: a, llm: {profile_id: fsat, user_prompt: hi, tool_mode: auto, available_tools: [serach_text]}}
  - {id: b, tool: {tool_name: no_tool}}
  - {id: c, context_processor: {processor_name: extrct, processor_config: {}}}
  - {id: d, route: {conditions: [{when: "1 >", to: nowhere}], default: e}}
  - {id: e, tool: {tool_name: read_file, parameters: {pth: notes.txt, offset: 0, limit: "{{ input }}"}}}
  - {id: f, sub_workflow: {workflow: around}}
end_points: [zzz]
workflows:
  around:
    nodes:
      - {id: again, sub_workflow: {workflow: around}}
"#;

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("rethread.toml", CONFIGURATION);
    scene.write("bad.yaml", BAD);
    scene
}

#[test]
fn all_workflow_and_configuration_faults_are_reported_at_once() {
    let scene = scene();
    let ran = scene.run("validate bad.yaml").code(3);
    for line in [
        "bad.yaml:5:31: nodes[0].llm.profile_id: there is no profile `fsat` (did you mean `fast`?)",
        "there is no tool `serach_text` (did you mean `search_text`?)",
        "nodes[1].tool.tool_name: there is no tool `no_tool`",
        "nodes[2].context_processor.processor_name: there is no context processor `extrct`",
        "nodes[3].route.conditions[0]",
        "there is no node `nowhere`",
        "there is no parameter `pth` (did you mean `path`?)",
        "nodes[4].tool.parameters.offset: tool `read_file`: 0 is less than the minimum of 1",
        "nodes[4].tool.parameters: tool `read_file`: \"path\" is a required property",
        "sub-workflow `around` runs itself on every way, and never ends",
        "end_points[0]: there is no node `zzz`",
    ] {
        assert!(ran.stderr.contains(line), "`{line}` is missing: {ran}");
    }
    assert!(!ran.stderr.contains("parameters.limit"), "a value that is not known yet is no fault: {ran}");
    assert!(!ran.stderr.contains("not checked"), "{ran}");
    let faults = scene.run("validate --json bad.yaml").code(3).json()[0]["faults"].clone();
    let faults = faults.as_array().unwrap();
    assert!(faults.iter().all(|fault| fault["place"]["line"].as_u64().is_some()), "{faults:?}");
}

#[test]
fn skipped_check_is_reported_with_the_reason() {
    let scene = Scene::new();
    let workflow = "version: '1'\nname: w\nnodes:\n  - {id: a, llm: {profile_id: fast, user_prompt: hi}}\n  \
                    - {id: b, tool: {tool_name: shop__order}}\n  - {id: c, tool: {tool_name: run_command, parameters: {command: [ls]}}}\n";
    scene.write("w.yaml", workflow);
    scene.run("validate w.yaml").ok().says("not checked: profiles, tools").says("there is no rethread.toml");
    scene.run("validate w.yaml --no-config").ok().says("--no-config was given");
    scene.write("rethread.toml", format!("{CONFIGURATION}[mcpServers.shop]\ncommand = '/nowhere/at-all'\n"));
    scene
        .run("validate w.yaml")
        .ok()
        .says("not checked: tools of the MCP server `shop`: ")
        .says("its tools need --allow-commands");
    let json = scene.run("validate w.yaml --json").ok().json();
    assert_eq!(json[0]["options"], json!(["--allow-commands"]));
    assert_eq!(json[0]["not_checked"].as_array().unwrap().len(), 1);
    scene.write("rethread.toml", CONFIGURATION);
    scene.run("validate w.yaml").code(3).says("there is no tool `shop__order`");
}

#[test]
fn terminating_recursive_sub_workflow_is_valid() {
    let scene = Scene::new();
    let workflow = "version: '1'\nname: w\nnodes: [{id: a, sub_workflow: {workflow: down, inputs: {n: '3'}}}]\n\
                    workflows:\n  down:\n    variables: {n: 0}\n    nodes:\n      \
                    - {id: which, route: {conditions: [{when: n == 0, to: done}], default: more}}\n      \
                    - {id: more, sub_workflow: {workflow: down, inputs: {n: '{{ n - 1 }}'}}}\n      - {id: done, end: {}}\n    \
                    edges: [{from: more, to: done}]\n";
    scene.write("w.yaml", workflow);
    scene.run("validate w.yaml").ok();
}

#[test]
fn unknown_configuration_key_is_refused_with_the_nearest_name() {
    let scene = Scene::new();
    scene.write("w.yaml", "version: '1'\nname: w\nnodes: [{id: a, end: {}}]\n");
    for (configuration, says) in [
        ("[profile.x]\nprovider = 'mock'\n", "did you mean `profiles`?"),
        ("[profiles.x]\nprovider = 'mock'\nmodle = 'm'\n", "did you mean `model`?"),
        ("[profiles.x]\nprovider = 'mock'\n[profiles.x.retry]\nattempt_max = 2\n", "did you mean `attempts_max`?"),
        (
            "[profiles.x]\nprovider = 'mock'\nprices = { input = 1, output = 1, cached = 1 }\n",
            "did you mean `cached_input`?",
        ),
        ("[mcpServers.x]\ncommand = 'x'\nrecoverry = 'safe'\n", "did you mean `recovery`?"),
        ("[webhooks.x]\nurl = 'http://x'\nsecret_evn = 'X'\n", "did you mean `secret_env`?"),
        ("[incoming.x]\nsignature = 'github'\nsignal = 'x'\nkeep_fro_s = 1\n", "did you mean `keep_for_s`?"),
        ("[incoming.x]\nsignature = 'github'\nsignal = 'a b'\n", "incoming.x: `signal` has 1 to 64"),
        ("[incoming.x]\nsignature = 'hmac'\nsignal = 'a'\n", "incoming.x: `header` is missing"),
        ("[incoming.x]\nsignature = 'github'\nsignal = 'a'\ntolerance_s = 1\n", "`tolerance_s` is for"),
        ("[incoming.x]\nsignature = 'stripe'\nsignal = 'a'\nprefix = 'v1='\n", "`prefix` is for"),
        ("[incoming.x]\nsignature = 'stripe'\nsignal = 'a'\ntolerance_s = 0\n", "`tolerance_s` is between"),
    ] {
        scene.write("rethread.toml", configuration);
        for command in ["run w.yaml", "validate w.yaml", "serve --listen 127.0.0.1:0"] {
            scene.run(command).code(3).says("rethread.toml: ").says(says).silent();
        }
    }
    assert!(!scene.data_dir().exists());
}

#[test]
fn out_of_range_number_is_refused_with_its_place() {
    let scene = Scene::new();
    scene.write("w.yaml", "version: '1'\nname: w\nnodes: [{id: a, end: {}}]\n");
    for (line, says) in [
        ("limits = { requests_per_minute = 0 }", "limits.requests_per_minute is 0"),
        ("limits = { concurrent_max = -1 }", "line 3"),
        ("retry = { attempts_max = 0 }", "retry.attempts_max is 0"),
        ("http = { try_ms = 0 }", "http.try_ms is 0"),
        ("params = { temperature = 3.5 }", "params.temperature is 3.5"),
        ("params = { temperature = nan }", "params.temperature is NaN"),
        ("params = { max_tokens = 0 }", "params.max_tokens is 0"),
        ("prices = { input = -1, output = 1 }", "line 3"),
        ("model_facts = { context = 0 }", "model_facts.context is 0"),
    ] {
        scene.write("rethread.toml", format!("[profiles.x]\nprovider = 'mock'\n{line}\n"));
        scene.run("run w.yaml").code(3).says(says).silent();
    }
    scene.write("rethread.toml", "[mcpServers.x]\ncommand = 'x'\ntimeout = -5\n");
    scene.run("run w.yaml").code(3).says("server `x`: `timeout` must be a number").silent();
    for command in [
        "threads --limit 0",
        "threads --limit -1",
        "resume last --budget-tokens 0",
        "llm check --provider mock --timeout -1",
    ] {
        scene.run(command).code(2).silent();
    }
}

/// A workflow whose mock has this script, and its node.
fn scripted(script: &str) -> String {
    format!(
        "version: '1'\nname: w\nnodes:\n  - id: a\n    llm:\n      provider: mock\n      model: m\n      user_prompt: hi\n      extra:\n        script:\n{script}"
    )
}

#[test]
fn mock_script_faults_are_reported_with_their_places() {
    let scene = Scene::new();
    let script = "          answers:\n            - {txt: hi}\n            - {text: hi, match: '('}\n            - {error: {kind: overlaoded}}\n            - {}\n            - {tool_calls: [{nmae: x}]}\n          otherwise: {text: hi, match: x}\n          repaet: true\n";
    scene.write("w.yaml", scripted(script));
    let faults = [
        (12, "answers[0].txt: unknown field `txt`"),
        (12, "(did you mean `text`?)"),
        (13, "answers[1].match: is not a regular expression: unclosed group"),
        (14, "answers[2].error.kind: unknown variant `overlaoded`"),
        (14, "(did you mean `overloaded`?)"),
        (15, "answers[3]: is empty"),
        (16, "answers[4].tool_calls[0].nmae: unknown field `nmae`"),
        (17, "otherwise: has a condition, which has no effect here"),
        (18, "repaet: unknown field `repaet`"),
        (18, "(did you mean `repeat`?)"),
    ];
    for command in ["validate w.yaml", "validate w.yaml --no-config", "run w.yaml"] {
        let ran = scene.run(command);
        // `panicked` is among the kinds of errors that are listed.
        assert_eq!(ran.code, Some(3), "{ran}");
        for (line, fault) in faults {
            let place = format!("w.yaml:{line}:");
            let is_said = ran.stderr.lines().any(|said| said.contains(&place) && said.contains(fault));
            assert!(is_said, "{place} `{fault}` is missing: {ran}");
            assert!(ran.stderr.contains("nodes[0].llm.extra.script.answers[0].txt"), "{ran}");
        }
    }
    assert!(scene.run("validate w.yaml --json").code(3).json()[0]["faults"].as_array().unwrap().len() >= 7);
    scene.write("w.yaml", scripted("          answers: [{text: hi}]\n"));
    scene.run("validate w.yaml").ok();
    scene.write("w.yaml", scripted("          answers: [{text: hi, usage: {input_tokns: 3}}]\n"));
    scene.run("validate w.yaml").code(3).says("answers[0].usage.input_tokns: unknown field `input_tokns`");
    scene.write("w.yaml", scripted("          answers: []\n"));
    scene.run("validate w.yaml").code(3).says("nodes[0].llm.extra.script: the script has no answers");
    let model = "{provider: mock, model: m, user_prompt: hi}";
    scene.write("w.yaml", format!("version: '1'\nname: w\nnodes: [{{id: a, llm: {model}}}]\n"));
    scene.run("validate w.yaml").code(3).says("nodes[0].llm.extra.script: is missing");
}

#[test]
fn script_file_of_a_profile_is_checked_with_its_lines() {
    let scene = Scene::new();
    scene.write("w.yaml", "version: '1'\nname: w\nnodes: [{id: a, llm: {profile_id: main, user_prompt: hi}}]\n");
    scene.write("other.yaml", "version: '1'\nname: w\nnodes: [{id: a, llm: {profile_id: fast, user_prompt: hi}}]\n");
    let config = format!(
        "{CONFIGURATION}[profiles.main]\nprovider = 'mock'\nfallback = ['last']\n[profiles.last]\nprovider = 'mock'\nscript_file = 'script.yaml'\n"
    );
    scene.write("rethread.toml", config);
    for command in ["validate w.yaml", "run w.yaml"] {
        scene.run(command).code(3).says("profile `last`: script_file: cannot read script.yaml");
    }
    scene.write("script.yaml", "answers:\n  - {text: hi}\n  - {txt: hi}\n  - {text: hi, match: '['}\n");
    for command in ["validate w.yaml", "run w.yaml"] {
        scene
            .run(command)
            .code(3)
            .says("answers[1].txt: unknown field `txt`")
            .says("did you mean `text`?")
            .says("script.yaml:3:")
            .says("script.yaml:4:")
            .says("answers[2].match: is not a regular expression");
    }
    scene.write("script.yaml", "answers: [\n");
    scene.run("validate w.yaml").code(3).says("script.yaml:");
    // Another profile works meanwhile.
    scene.run("validate other.yaml").ok();
    scene.run("run other.yaml --quiet").ok();
    scene.write("script.yaml", "answers: [{text: 42}]\n");
    scene.run("validate w.yaml").ok();
}
