//! `docs/TOOLS.md` and `docs/CONFIGURATION.md` say what the program does: compared key by key.

use std::collections::BTreeSet;
use std::fs;

use rethread_tests::binary::{Scene, root};
use serde_json::Value;

fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs").join(name)).unwrap()
}

/// The cells of the rows of the first table in a text, without its head.
fn table(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2).map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The names in backquotes of the first column.
fn keys(text: &str) -> BTreeSet<String> {
    let cells = table(text).into_iter().map(|row| row[0]);
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// The part of a page after the line that begins so.
#[track_caller]
fn after<'a>(page: &'a str, line: &str) -> &'a str {
    let at = page.find(&format!("\n{line}")).unwrap_or_else(|| panic!("`{line}` is not on the page"));
    page[at..].split_once('\n').unwrap().1
}

#[test]
fn tools_page_matches_the_tools() {
    let page = page("TOOLS.md");
    let scene = Scene::new();
    scene.write("skills/one/SKILL.md", "---\nname: one\ndescription: One.\n---\nDo it.\n");
    let tools = scene.run("tools list --json --skills skills").ok().json();
    let tools = tools.as_array().unwrap();
    let sections: BTreeSet<_> = page.split("\n### `").skip(1).map(|part| part.split_once('`').unwrap()).collect();
    let names: BTreeSet<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(sections.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>(), names);
    for (name, section) in sections {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        let head = section.lines().find(|line| line.contains("Recovery: ")).unwrap();
        assert!(head.contains(&format!("Recovery: `{}`", tool["recovery"].as_str().unwrap())), "{name}: {head}");
        assert_eq!(
            tool["allowed_by"].as_str(),
            head.split("Allowed by `").nth(1).map(|rest| rest.split('`').next().unwrap())
        );
        assert!(section.contains("\n`output`: "), "{name}: what it puts into `output`");
        let parameters = &tool["parameters"];
        let arguments = parameters["properties"].as_object().unwrap();
        let said = if section.contains("It has no arguments.") { Vec::new() } else { table(section) };
        let said: Vec<_> = said.iter().filter(|row| row.len() == 4).collect();
        let known: BTreeSet<_> = arguments.keys().map(|name| format!("`{name}`")).collect();
        assert_eq!(said.iter().map(|row| row[0].to_owned()).collect::<BTreeSet<_>>(), known, "{name}");
        for row in said {
            let argument = row[0].trim_matches('`');
            let schema = &arguments[argument];
            let kinds = match &schema["type"] {
                Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
                kind => vec![kind.as_str().unwrap()],
            };
            assert!(kinds.contains(&row[1]), "{name} {argument}: {kinds:?}");
            let is_required = parameters["required"].as_array().is_some_and(|all| all.contains(&argument.into()));
            let default = match &schema["default"] {
                _ if is_required => "required".to_owned(),
                Value::Null => "none".to_owned(),
                default => format!("`{default}`"),
            };
            assert_eq!(row[2], default, "{name} {argument}");
        }
    }
}

/// What the program expects in place of an unknown key in this configuration.
#[track_caller]
fn expected(scene: &Scene, configuration: &str) -> BTreeSet<String> {
    scene.write("rethread.toml", configuration);
    let checks = scene.run("doctor --offline --json").code(1).json();
    let check = checks["checks"].as_array().unwrap().iter().find(|check| check["name"] == "configuration").unwrap();
    let message = check["message"].as_str().unwrap();
    let (_, list) = message.split_once("expected ").unwrap_or_else(|| panic!("{message}"));
    list.split_once('(').map_or(list, |(list, _)| list).split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn configuration_page_names_every_key() {
    let page = page("CONFIGURATION.md");
    let scene = Scene::new();
    let profile = "[profiles.x]\nprovider = 'mock'\n";
    let of_file = expected(&scene, "unknown_key = 1");
    assert_eq!(keys(after(&page, "## The file")), of_file.into_iter().filter(|key| key != "mcp_servers").collect());
    assert_eq!(keys(after(&page, "`[profiles.NAME]`")), expected(&scene, &format!("{profile}unknown_key = 1")));
    for table in ["params", "http", "retry", "limits", "answer_cache", "answer_cache.bounds", "prices"] {
        let configuration = format!("{profile}[profiles.x.{table}]\nunknown_key = 1\n");
        let keys = keys(after(&page, &format!("`[profiles.NAME.{table}]`")));
        assert_eq!(keys, expected(&scene, &configuration), "{table}");
    }
    assert_eq!(keys(after(&page, "`[limits]`")), expected(&scene, "[limits]\nunknown_key = 1\n"));
    assert_eq!(keys(after(&page, "`[commands]`")), expected(&scene, "[commands]\nunknown_key = 1\n"));
    let webhook = expected(&scene, "[webhooks.x]\nunknown_key = 1\n");
    assert_eq!(keys(after(&page, "`[webhooks.NAME]`")), webhook);
    assert_eq!(keys(after(&page, "`[serve.doors]`")), expected(&scene, "[serve.doors]\nunknown_key = 1\n"));
    assert_eq!(keys(after(&page, "`[telemetry]`")), expected(&scene, "[telemetry]\nunknown_key = 1\n"));
    let tool = expected(&scene, "[serve.client_tools.x]\ndescription = 'x'\nunknown_key = 1\n");
    assert_eq!(keys(after(&page, "`[serve.client_tools.NAME]`")), tool);
    let incoming = expected(&scene, "[incoming.x]\nunknown_key = 1\n");
    assert_eq!(keys(after(&page, "`[incoming.NAME]`")), incoming);
    let server = expected(&scene, "[mcpServers.x]\ncommand = 'x'\nunknown_key = 1\n");
    let said = keys(after(&page, "## MCP servers"));
    assert!(said.is_subset(&server), "{said:?} {server:?}");
    let events = expected(&scene, "[events]\nunknown_key = 1\n");
    let (said, of_store) = (keys(after(&page, "`[events]`")), keys(after(&page, "`[store]`")));
    assert!(
        said.is_subset(&events) && events.is_subset(&said.union(&of_store).cloned().collect()),
        "{said:?} {events:?}"
    );
    let tools = self::page("TOOLS.md");
    for (heading, script) in [
        ("The script:", "[profiles.x.script]\nunknown_key = 1\n"),
        ("An answer:", "[[profiles.x.script.answers]]\nunknown_key = 1\n"),
        ("A call of a tool:", "[[profiles.x.script.answers]]\ntool_calls = [{ name = 'a', unknown_key = 1 }]\n"),
        ("An error:", "[[profiles.x.script.answers]]\nerror = { kind = 'server', unknown_key = 1 }\n"),
    ] {
        assert_eq!(keys(after(&tools, heading)), expected(&scene, &format!("{profile}{script}")), "{heading}");
    }
}

#[test]
fn configuration_page_states_the_defaults() {
    let page = page("CONFIGURATION.md");
    // What the page gives as default is taken as it is written.
    let mut configuration = "[profiles.x]\nprovider = 'mock'\n".to_owned();
    for table_name in ["http", "retry", "limits", "answer_cache.bounds"] {
        configuration.push_str(&format!("[profiles.x.{table_name}]\n"));
        for row in table(after(&page, &format!("`[profiles.NAME.{table_name}]`"))) {
            if let Some(default) = row[1].strip_prefix('`') {
                configuration.push_str(&format!("{} = {}\n", row[0].trim_matches('`'), default.trim_matches('`')));
            }
        }
    }
    let said = rethread::llm::Profiles::from_toml(&configuration).unwrap();
    let plain = rethread::llm::Profiles::from_toml("[profiles.x]\nprovider = 'mock'\nanswer_cache = {}\n").unwrap();
    assert_eq!(said.get("x").unwrap(), plain.get("x").unwrap());
    let limits = table(after(&page, "`[limits]`"));
    let said = limits.iter().map(|row| format!("{} = {}\n", row[0].trim_matches('`'), row[1].trim_matches('`')));
    assert_eq!(toml::from_str::<rethread::Limits>(&said.collect::<String>()).unwrap(), rethread::Limits::default());
}

#[test]
fn init_writes_a_valid_configuration_and_never_overwrites() {
    let scene = Scene::new();
    scene.run("init").ok().says("rethread doctor");
    let written = fs::read_to_string(scene.file("rethread.toml")).unwrap();
    scene.run("doctor --offline").ok();
    scene.write("rethread.toml", "# mine\n");
    scene.run("init").code(7).says("already exists").silent();
    assert_eq!(fs::read_to_string(scene.file("rethread.toml")).unwrap(), "# mine\n");
    // Every setting in it can be used by removing the `#`.
    let is_setting = |line: &str| {
        line.strip_prefix('#').is_some_and(|rest| rest.starts_with(|c: char| c.is_alphabetic() || c == '['))
    };
    let used: Vec<_> = written.lines().map(|line| if is_setting(line) { &line[1..] } else { line }).collect();
    assert!(used.contains(&"[profiles.hosted.retry]"));
    scene.write("rethread.toml", used.join("\n"));
    let mut command = scene.command(["doctor", "--offline", "--json"]);
    command.env("OPENAI_API_KEY", "sk-test").env("AUDIT_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
    command.env("GITHUB_WEBHOOK_SECRET", "0123456789abcdef");
    let checks = rethread_tests::binary::Running::start(command).end().ok().json();
    assert!(checks["checks"].as_array().unwrap().iter().any(|check| check["name"] == "profile hosted"), "{checks}");
}

#[test]
fn doctor_reports_faults_with_advice() {
    let scene = Scene::new();
    let checks = |scene: &Scene, code| {
        let json = scene.run("doctor --json").code(code).json();
        assert_eq!(json["ok"], code == 0, "{json}");
        let line = |check: &Value| format!("{} {}", check["name"].as_str().unwrap(), check["status"].as_str().unwrap());
        json["checks"].as_array().unwrap().iter().map(line).collect::<Vec<_>>()
    };
    assert!(checks(&scene, 0).contains(&"configuration warning".to_owned()));
    scene.write(
        "rethread.toml",
        "[profiles.keyless]\nprovider = 'anthropic'\nmodel = 'm'\n\
         [profiles.away]\nprovider = 'openai_chat'\nmodel = 'm'\nbase_url = 'http://127.0.0.1:1/v1'\nauth = 'none'\n\
         retry = { attempts_max = 1 }\n\
         [profiles.scripted]\nprovider = 'mock'\n[mcpServers.gone]\ncommand = '/nowhere/at-all'\n",
    );
    let found = checks(&scene, 1);
    for line in
        ["profile keyless error", "profile away error", "profile scripted ok", "MCP server gone error", "log ok"]
    {
        assert!(found.contains(&line.to_owned()), "{line}: {found:?}");
    }
    scene.run("doctor").code(1);
    // Nothing was made by looking.
    assert!(!scene.data_dir().exists());
}
