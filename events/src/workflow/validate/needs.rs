//! The requirements of a workflow where it is to run.

use std::collections::{BTreeMap, BTreeSet};

use super::{arguments, recursion};
use crate::event::ToolMode;
use crate::expression::nearest;
use crate::ids::ProfileId;
use crate::json::Json;
use crate::workflow::agents::handoff_tool;
use crate::workflow::definition::Workflow;
use crate::workflow::fault::Fault;
use crate::workflow::graph::Graph;
use crate::workflow::node::NodeKind;
use crate::workflow::processors::{built_in_processors, is_built_in_processor};
use crate::workflow::spec::WorkflowSpec;
use crate::workflow::strategy::{Strategy, StrategyModel};

/// The tools, profiles and other things that are available where the workflow will run.
#[derive(Debug, Clone, Default)]
pub struct Env {
    /// The names of the tools.
    pub tools: BTreeSet<String>,
    /// The names of the profiles.
    pub profiles: BTreeSet<String>,
    /// The names of the providers.
    pub providers: BTreeSet<String>,
    /// The names of the context processors, beside those that are built in.
    pub processors: BTreeSet<String>,
    /// The names of the application's own strategies of agent loops.
    pub strategies: BTreeSet<String>,
    /// The names of the application's functions for guardrails.
    pub guardrails: BTreeSet<String>,
    /// The JSON Schemas of tools' arguments, by the names of the tools, as far as they are known.
    pub schemas: BTreeMap<String, Json>,
    /// The unknown parts, which are not checked.
    pub unknown: Unknown,
}

/// The unknown parts of the environment of a workflow.
#[derive(Debug, Clone, Default)]
pub struct Unknown {
    /// Which profiles there are.
    pub profiles: bool,
    /// Which tools, context processors, strategies and functions for guardrails there are.
    pub tools: bool,
    /// Which tools there are whose names begin so.
    pub tools_with_prefix: Vec<String>,
}

impl Env {
    fn lacks_tool(&self, name: &str) -> bool {
        !self.tools.contains(name)
            && !self.unknown.tools
            && !self.unknown.tools_with_prefix.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }
}

impl Workflow {
    /// Returns what this workflow needs and the environment lacks; empty if it can run there.
    pub fn check(&self, surroundings: &Env) -> Vec<Fault> {
        let graphs: Vec<_> = std::iter::once(&self.main).chain(self.subs.values()).collect();
        check(&self.spec, &graphs, surroundings)
    }
}

/// As above, for a definition that may have other faults.
pub(super) fn check(spec: &WorkflowSpec, graphs: &[&Graph], surroundings: &Env) -> Vec<Fault> {
    let mut faults = Vec::new();
    // The workflow's own graph comes first.
    let subs: Vec<_> = spec.workflows.keys().map(String::as_str).zip(graphs.iter().skip(1).copied()).collect();
    recursion::check(&subs, &mut faults);
    for placed in graphs.iter().flat_map(|graph| graph.nodes.values()) {
        let path = &placed.path;
        match placed.node.kind() {
            NodeKind::Llm(llm) => {
                let model = (llm.profile_id.as_ref(), llm.provider.as_ref());
                check_model(&format!("{path}.llm"), model, surroundings, &mut faults);
                if let Some(summary) = &llm.summary {
                    let model = (summary.profile_id.as_ref(), summary.provider.as_ref());
                    check_model(&format!("{path}.llm.summary"), model, surroundings, &mut faults);
                }
                check_strategy(&format!("{path}.llm.strategy"), &llm.strategy, surroundings, &mut faults);
                for (g, guardrail) in llm.guardrails.iter().enumerate() {
                    let path = format!("{path}.llm.guardrails[{g}]");
                    let known = &surroundings.guardrails;
                    if let Some(name) = guardrail.function.as_ref().filter(|name| !known.contains(*name))
                        && !surroundings.unknown.tools
                    {
                        faults.push(unknown(format!("{path}.function"), "function for guardrails", name, known));
                    }
                    // Those that are listed are compared without the tools that there are.
                    for (t, tool) in guardrail.tools.iter().flatten().enumerate() {
                        let is_tool = llm.available_tools.is_none() && !llm.offers_beside(tool.as_str());
                        if is_tool && surroundings.lacks_tool(tool.as_str()) {
                            let path = format!("{path}.tools[{t}]");
                            faults.push(unknown(path, "tool", tool.as_str(), &surroundings.tools));
                        }
                    }
                }
                for (t, tool) in llm.available_tools.iter().flatten().enumerate() {
                    if surroundings.lacks_tool(tool.as_str()) {
                        let path = format!("{path}.llm.available_tools[{t}]");
                        faults.push(unknown(path, "tool", tool.as_str(), &surroundings.tools));
                    }
                }
                let is_agent = |name: &str| llm.agents.iter().any(|agent| agent.workflow == name);
                let listed = llm.approve_tools.iter().enumerate().filter(|_| llm.available_tools.is_none());
                for (t, tool) in listed.filter(|(_, tool)| !is_agent(tool.as_str())) {
                    if surroundings.lacks_tool(tool.as_str()) {
                        let path = format!("{path}.llm.approve_tools[{t}]");
                        faults.push(unknown(path, "tool", tool.as_str(), &surroundings.tools));
                    }
                }
                // Those that are listed are compared without the tools that there are.
                if llm.tool_mode != ToolMode::None && llm.available_tools.is_none() {
                    let agents = llm.agents.iter().map(|agent| agent.workflow.clone());
                    let agents = agents.enumerate().map(|(i, name)| (format!("agents[{i}]"), name));
                    let handoffs = llm.handoffs.iter().map(handoff_tool).enumerate();
                    let handoffs = handoffs.map(|(i, name)| (format!("handoffs[{i}]"), name));
                    for (place, name) in agents.chain(handoffs).filter(|(_, name)| surroundings.tools.contains(name)) {
                        faults.push(
                            Fault::new(format!("{path}.llm.{place}"), format!("there is a tool `{name}` as well"))
                                .hint("list available_tools without it, or give the workflow or node another name"),
                        );
                    }
                }
            }
            NodeKind::Tool(tool) => {
                if let Some(schema) = surroundings.schemas.get(tool.tool_name.as_str()) {
                    let (path, callee) = (format!("{path}.tool.parameters"), format!("tool `{}`", tool.tool_name));
                    arguments::check(&path, &callee, &tool.parameters, schema, &mut faults);
                }
                if surroundings.lacks_tool(tool.tool_name.as_str()) {
                    let path = format!("{path}.tool.tool_name");
                    faults.push(unknown(path, "tool", tool.tool_name.as_str(), &surroundings.tools));
                }
            }
            NodeKind::ContextProcessor(node) => {
                let name = &node.processor_name;
                let is_known = is_built_in_processor(name) || surroundings.processors.contains(name);
                if !is_known && !surroundings.unknown.tools {
                    let path = format!("{path}.context_processor.processor_name");
                    let own = surroundings.processors.iter().cloned();
                    let known = own.chain(built_in_processors().map(str::to_owned)).collect();
                    faults.push(unknown(path, "context processor", name, &known));
                }
            }
            NodeKind::UserInteraction(_)
            | NodeKind::Wait(_)
            | NodeKind::Signal(_)
            | NodeKind::Route(_)
            | NodeKind::Condition(_)
            | NodeKind::Fork(_)
            | NodeKind::Join(_)
            | NodeKind::Parallel(_)
            | NodeKind::LoopStart(_)
            | NodeKind::LoopEnd(_)
            | NodeKind::Loop(_)
            | NodeKind::SubWorkflow(_)
            | NodeKind::StartThread(_)
            | NodeKind::Start
            | NodeKind::End => {}
        }
    }
    if let Some(summary) = &spec.summary {
        let model = (summary.profile_id.as_ref(), summary.provider.as_ref());
        check_model("summary", model, surroundings, &mut faults);
    }
    if let Some(judge) = &spec.judge {
        let model = (judge.profile_id.as_ref(), judge.provider.as_ref());
        check_model("judge", model, surroundings, &mut faults);
    }
    faults
}

fn check_strategy(path: &str, strategy: &Strategy, surroundings: &Env, faults: &mut Vec<Fault>) {
    let mut model = |path: String, model: &StrategyModel| {
        check_model(&path, (model.profile_id.as_ref(), model.provider.as_ref()), surroundings, faults);
    };
    match strategy {
        Strategy::React => {}
        Strategy::PlanAndExecute(plan) => {
            if let Some(planner) = &plan.planner {
                model(format!("{path}.plan_and_execute.planner"), planner);
            }
        }
        Strategy::MultiLlm(multi) => {
            for (i, member) in multi.profiles.iter().enumerate() {
                model(format!("{path}.multi_llm.profiles[{i}]"), member);
            }
            if let Some(by) = &multi.by {
                model(format!("{path}.multi_llm.by"), by);
            }
        }
        Strategy::Custom(custom) => {
            if !surroundings.strategies.contains(&custom.name) && !surroundings.unknown.tools {
                faults.push(unknown(format!("{path}.custom.name"), "strategy", &custom.name, &surroundings.strategies));
            }
        }
    }
}

fn check_model(
    path: &str,
    (profile, provider): (Option<&ProfileId>, Option<&String>),
    surroundings: &Env,
    faults: &mut Vec<Fault>,
) {
    if let Some(profile) = profile
        && !surroundings.profiles.contains(profile.as_str())
        && !surroundings.unknown.profiles
    {
        faults.push(unknown(format!("{path}.profile_id"), "profile", profile.as_str(), &surroundings.profiles));
    }
    if let Some(provider) = provider
        && !surroundings.providers.contains(provider)
    {
        faults.push(unknown(format!("{path}.provider"), "provider", provider, &surroundings.providers));
    }
}

fn unknown(path: String, what: &str, name: &str, known: &BTreeSet<String>) -> Fault {
    let fault = Fault::new(path, format!("there is no {what} `{name}`"));
    if known.is_empty() {
        return fault.hint(format!("no {what} is configured"));
    }
    if let Some(nearest) = nearest(name, known.iter().map(String::as_str)) {
        return fault.hint(format!("did you mean `{nearest}`?"));
    }
    let names: Vec<_> = known.iter().take(20).map(String::as_str).collect();
    fault.hint(format!("there is {}", names.join(", ")))
}
