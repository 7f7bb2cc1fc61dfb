//! The instructions for a model with tools, besides those of the workflow's author.

use super::*;

/// Tools that work in a folder and have instructions.
struct InFolder(&'static str);

impl Tools for InFolder {
    fn facts(&self, name: &str) -> Option<ToolFacts> {
        Toolbox.facts(name)
    }

    fn names(&self) -> Vec<ToolName> {
        Toolbox.names()
    }

    fn catalog(&self, names: &[ToolName]) -> Option<Hash> {
        Toolbox.catalog(names)
    }

    fn instructions(&self, names: &[ToolName]) -> Option<String> {
        names.iter().any(|name| name.as_str() == "read").then(|| "## Skills\n- greet\n".to_owned())
    }

    fn workspace(&self, own: Option<&str>) -> Option<String> {
        Some(own.unwrap_or(self.0).to_owned())
    }
}

fn started(of_workflow: &str, of_node: &str, own: Option<&str>) -> State {
    let yaml = format!(
        "version: '1'\nname: one\n{of_workflow}\nnodes:\n  - id: ask\n    llm: {{provider: mock, model: m, user_prompt: hi, \
         {of_node}}}\n"
    );
    let workflow = Arc::new(workflow::parse(yaml.as_bytes()).unwrap_or_else(|faults| panic!("{faults}")));
    let around = Env { now: bench::START, tools: &InFolder("/srv/work"), models: &Toolbox, permits: &NoWaits };
    let given = Start { workspace: own.map(str::to_owned), ..Start::new("x") };
    let started = Thread::started(&workflow, given, bench::START).unwrap();
    let (thread, _) = Thread::begin(ThreadId::from_bytes([7; 16]), workflow, started, &around).unwrap();
    thread.state().clone()
}

fn told(of_workflow: &str, of_node: &str, own: Option<&str>) -> Option<String> {
    let request = started(of_workflow, of_node, own).model_request().unwrap();
    let system = request.messages.iter().find(|message| message.role == Role::System);
    system.map(|message| message.joined_text())
}

#[test]
fn model_with_tools_gets_the_workspace_once() {
    let put = "tool_mode: auto, available_tools: [put]";
    assert_eq!(told("", put, None).unwrap(), "## Current Workspace\n/srv/work");
    assert_eq!(told("", put, Some("/home/ada")).unwrap(), "## Current Workspace\n/home/ada");
    let with_own = format!("system_prompt: 'Be brief.', {put}");
    assert_eq!(told("", &with_own, None).unwrap(), "Be brief.\n\n## Current Workspace\n/srv/work");
    let told_already = format!("system_prompt: \"## Current Workspace\\nhere\", {put}");
    assert_eq!(told("", &told_already, None).unwrap(), "## Current Workspace\nhere");
    assert_eq!(told("", "tool_mode: none", None), None);
    assert_eq!(told("workspace_in_prompt: false", put, None), None);
    assert_eq!(told("workspaceInPrompt: false", &with_own, None).unwrap(), "Be brief.");
}

#[test]
fn hints_of_tools_come_after_the_instructions() {
    let read = "system_prompt: Be brief., tool_mode: auto, available_tools: [read]";
    let all = "Be brief.\n\n## Skills\n- greet\n\n## Current Workspace\n/srv/work";
    assert_eq!(told("", read, None).unwrap(), all);
}

#[test]
fn workspace_in_the_prompt_is_not_changed_later() {
    let state = started("", "tool_mode: auto, available_tools: [put]", None);
    let workflow = Arc::new(workflow::parse(ONE_LLM.as_bytes()).unwrap());
    // Another process, in which the folder has another name.
    let around = Env { now: bench::START, tools: &InFolder("/elsewhere"), models: &Toolbox, permits: &NoWaits };
    let mut thread = Thread::resume(state, workflow);
    thread.step(Input::Recover, &around).unwrap();
    let request = thread.state().model_request().unwrap();
    assert_eq!(request.messages.iter().next().unwrap().joined_text(), "## Current Workspace\n/srv/work");
}
