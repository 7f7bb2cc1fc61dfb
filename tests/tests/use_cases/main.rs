//! What people build with workflows, run by the program as they run it: with a provider over HTTP, a tool server, and
//! questions that are answered from a shell.

// All of it is test code, its helpers included.
#![allow(clippy::unwrap_used, clippy::panic)]

mod branches;
mod faults;

use rethread_tests::binary::{Ran, Scene};
use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::{Value, json};

/// A folder with a configuration: the profile `fast` and the tool server `shop`.
struct Shop {
    scene: Scene,
    provider: Provider,
}

impl Shop {
    /// A model that repeats what it was asked last.
    fn new() -> Self {
        let says = |_, request: &Value| Said::Text(format!("echo: {}", texts(request).pop().unwrap_or_default()));
        let (scene, provider) = (Scene::new(), Provider::start(says));
        let server = scene.write("server.py", include_str!("../../src/mcp_server.py"));
        scene.write(
            "rethread.toml",
            format!(
                "[profiles.fast]\nprovider = \"openai_chat\"\nmodel = \"some-model\"\nbase_url = \"{}\"\nauth = \"none\"\n\
                 [mcpServers.shop]\ncommand = \"python3\"\nargs = [{}]\n",
                provider.base_url(Wire::OpenaiChat),
                json!(server)
            ),
        );
        Self { scene, provider }
    }

    /// Writes a workflow without its first lines, and runs it.
    fn run(&self, workflow: &str, more: &str) -> Ran {
        self.write(workflow);
        self.scene.run(&format!("run flow.yaml {more}"))
    }

    fn write(&self, workflow: &str) {
        self.scene.write("flow.yaml", format!("version: '1'\nname: flow\n{workflow}"));
    }

    /// The last thread, as JSON.
    fn shown(&self) -> Value {
        self.scene.run("show last --json").ok().json()
    }

    /// What the provider was sent, as the texts of the messages of each request.
    fn requests(&self) -> Vec<Vec<String>> {
        let bodies = self.provider.take_bodies();
        bodies.iter().map(|body| texts(&serde_json::from_slice(body).unwrap())).collect()
    }
}

fn texts(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}
