//! An agent without a workflow file: a model with tools.

use clap::Args;
use rethread::{Hash, Workflow};
use rethread_events::event::ToolMode;
use rethread_events::workflow::NodeKind;
use serde_json::json;

use crate::definition;
use crate::exit::{Failure, INVALID};
use crate::open::OpenArgs;

/// How often its model is called in a run at most.
const MODEL_CALLS_MAX: u32 = 100;
/// How much of its hash is in its name.
const HASH_CHARS: usize = 8;

/// The options for the agent that works without a workflow file.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Agent")]
pub(crate) struct AgentArgs {
    /// The profile of its model (default: that of the configuration)
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Its tools, with commas between them (default: all that are offered)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Its instructions
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
}

impl AgentArgs {
    /// The first of these options that was given.
    pub(crate) fn first(&self) -> Option<&'static str> {
        let Self { profile, tools, system_prompt } = self;
        let given = [
            ("--profile", profile.is_some()),
            ("--tools", tools.is_some()),
            ("--system-prompt", system_prompt.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// The options that made this workflow, if it is one that [`AgentArgs::definition`] made under this name.
    pub(crate) fn of(workflow: &Workflow, open: &OpenArgs, name: &str) -> Option<Self> {
        let args = Self::read(workflow)?;
        let made = args.definition(open, name).ok()?;
        (made.workflow().hash() == workflow.hash()).then_some(args)
    }

    fn read(workflow: &Workflow) -> Option<Self> {
        let llm = workflow.main().nodes().find_map(|node| match node.kind() {
            NodeKind::Llm(llm) => Some(llm),
            _ => None,
        });
        let llm = llm?;
        let tools = match &llm.available_tools {
            Some(tools) => Some(tools.iter().map(|tool| tool.as_str().to_owned()).collect()),
            None if llm.tool_mode == ToolMode::None => Some(Vec::new()),
            None => None,
        };
        let profile = llm.profile_id.as_ref()?.as_str().to_owned();
        Some(Self { profile: Some(profile), tools, system_prompt: llm.system_prompt.clone() })
    }

    /// One node, which calls the model until it asks for no tool. Each has a name of its own, this one with a part of its
    /// hash, so that no agent becomes the newer definition of another one, or of a workflow that a person wrote.
    pub(crate) fn definition(&self, open: &OpenArgs, name: &str) -> Result<definition::File, Failure> {
        let mut llm = json!({
            "profile_id": self.profile(open)?, "user_prompt": "{{ input }}", "tool_mode": "auto", "stream": true,
            "max_iterations": MODEL_CALLS_MAX,
        });
        if let Some(tools) = &self.tools {
            let tools: Vec<_> = tools.iter().map(|tool| tool.trim()).filter(|tool| !tool.is_empty()).collect();
            if tools.is_empty() {
                llm["tool_mode"] = json!("none");
            } else {
                llm["available_tools"] = json!(tools);
            }
        }
        if let Some(prompt) = &self.system_prompt {
            llm["system_prompt"] = json!(prompt);
        }
        let hash = Hash::of(llm.to_string().as_bytes()).to_string();
        let named = format!("{name}-{}", &hash[..HASH_CHARS]);
        let text = json!({ "version": "1", "name": named, "nodes": [{ "id": "answer", "llm": llm }] });
        definition::made(&format!("rethread {name}"), text.to_string().into_bytes())
    }

    fn profile(&self, open: &OpenArgs) -> Result<String, Failure> {
        if let Some(profile) = &self.profile {
            return Ok(profile.clone());
        }
        if let Some(server) = open.named_server() {
            let message = format!("choose a profile of {server}: --profile NAME");
            return Err(Failure::new(2, crate::output::sanitize(&message, 400)));
        }
        let profiles = open.profiles()?;
        if let Some(name) = profiles.default_name() {
            return Ok(name.to_owned());
        }
        let names: Vec<_> = profiles.names().collect();
        let message = if names.is_empty() {
            "no model is configured: write a rethread.toml with `rethread init` and name your model in it".into()
        } else {
            format!("choose a profile: --profile NAME, one of {}", names.join(", "))
        };
        Err(Failure::new(INVALID, message))
    }
}
