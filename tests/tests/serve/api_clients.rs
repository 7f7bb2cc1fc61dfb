//! Clients that are generated from the OpenAPI document, with the commands and the programs of docs/HTTP.md, and with
//! programs that use more of them.

use std::path::Path;
use std::process::Command;

use rethread_tests::binary::{Running, Scene, root};
use rethread_tests::needs;

use crate::place::{GREETING, Place};

/// The versions that are installed.
const PYPI: &str = "openapi-python-client==0.29.1";
const NPM: [&str; 4] = ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3", "@types/node@20.19.0"];

/// The address that the page names.
const ADDRESS: &str = "127.0.0.1:7117";

/// A server that needs a token, and a folder with the files that the page shows.
struct Project {
    place: Place,
    token: String,
    folder: Scene,
    page: String,
}

impl Project {
    fn new() -> Self {
        let scene = Scene::new();
        let token = scene.run("token create --scope admin").ok().stdout.trim().to_owned();
        let mut place = Place::on(scene, "--require-token");
        place.token = Some(token.clone());
        place.put(GREETING);
        let page = std::fs::read_to_string(root().join("docs/HTTP.md")).unwrap();
        let (_, section) = page.split_once("\n## Generated clients\n").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let page = section.replace(ADDRESS, &place.address.to_string());
        Self { place, token, folder: Scene::new(), page }
    }

    /// Writes a block of the page to a file.
    fn write(&self, language: &str, name: &str) {
        let (_, block) = self.page.split_once(&format!("```{language}\n")).unwrap();
        self.folder.write(name, block.split_once("```").unwrap().0);
    }

    /// Writes a program of `tests/clients` to the same folder.
    fn copy(&self, name: &str) {
        std::fs::copy(root().join("tests/clients").join(name), self.folder.file(name)).unwrap();
    }

    /// The command of the page that contains these words.
    fn command(&self, words: &str, programs: &Path) -> Command {
        let line = self.page.lines().find(|line| line.contains(words)).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        let path = std::env::var_os("PATH").unwrap();
        let all = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(all).unwrap());
        command
    }

    fn run(&self, mut command: Command) -> String {
        command.current_dir(self.folder.path()).env("RETHREAD_TOKEN", &self.token);
        let ran = Running::start(command).end();
        assert_eq!(ran.code, Some(0), "{ran}");
        // Warnings are about our document.
        for said in [&ran.stdout, &ran.stderr] {
            assert!(!said.to_lowercase().contains("warn"), "{ran}");
        }
        ran.stdout
    }

    fn base_url(&self) -> String {
        format!("http://{}", self.place.address)
    }
}

#[test]
fn generated_python_client_runs_a_workflow() {
    let Some(packages) = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "openapi-python-client", &[PYPI]) else { return };
    let project = Project::new();
    project.write("yaml", "client.yaml");
    let mut generate = project.command("openapi-python-client generate", &packages.join("bin"));
    project.run({
        generate.env("PYTHONPATH", &packages);
        generate
    });
    let python = |program: &str| {
        let mut command = Command::new("python3");
        let path = std::env::join_paths([packages.as_path(), project.folder.path()]).unwrap();
        command.arg(program).env("PYTHONPATH", path);
        command
    };
    project.write("python", "page.py");
    assert_eq!(project.run(python("page.py")).trim(), "completed");
    project.copy("api_client.py");
    let mut command = python("api_client.py");
    command.arg(project.base_url()).arg(&project.token).arg(project.folder.write("greeting.yaml", GREETING));
    assert_eq!(project.run(command).trim(), "done");
}

#[test]
fn generated_typescript_client_runs_a_workflow() {
    let Some(folder) = needs::npm(env!("CARGO_TARGET_TMPDIR"), "openapi-typescript", &NPM) else { return };
    let project = Project::new();
    // Modules are searched beside the program.
    std::os::unix::fs::symlink(folder.join("node_modules"), project.folder.file("node_modules")).unwrap();
    project.folder.write("package.json", r#"{"type": "module"}"#);
    let programs = folder.join("node_modules/.bin");
    project.run(project.command("openapi-typescript http", &programs));
    project.write("ts", "page.ts");
    project.copy("api_client.ts");
    // Checks the types, and writes the programs as JavaScript.
    let mut compile = Command::new(programs.join("tsc"));
    compile.args(["--strict", "--target", "es2022", "--lib", "es2022", "--module", "esnext"]);
    compile.args(["--moduleResolution", "bundler", "--types", "node", "page.ts", "api_client.ts"]);
    project.run(compile);
    let node = |program: &str| {
        let mut command = Command::new("node");
        command.arg(program);
        command
    };
    assert_eq!(project.run(node("page.js")).trim(), "completed");
    let mut command = node("api_client.js");
    command.arg(project.base_url()).arg(&project.token);
    assert_eq!(project.run(command).trim(), "done");
}
