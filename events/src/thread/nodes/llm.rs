//! A node that asks a model: fills in its prompts and hands over to the agent loop.

mod agents;
mod client_tools;
mod guardrails;
mod strategy;

use super::super::agent_loop::with_form;
use super::super::check;
use super::super::request::LLM_TIMEOUT_MS_DEFAULT;
use super::super::summaries::{TIMEOUT_MS_DEFAULT, TOKEN_LIMIT_DEFAULT};
use super::super::{env::Env, state::State};
use crate::event::{Event, LlmExecutionRequest, ModelChoice, NodeContext, OutputSpec, SummaryPlan, ToolMode};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::ToolName;
use crate::tool::PersonRole;
use crate::workflow::{LlmNode, Node, NodeKind, Strategy, Summary, Workflow};

/// How many model calls a loop may take when the node does not say.
const MAX_ITERATIONS_DEFAULT: u32 = 50;
/// How many tools of one answer may run at once when the node does not say.
const CONCURRENT_TOOLS_DEFAULT: u32 = 8;
/// How often an answer is repaired when the node does not say.
const REPAIRS_DEFAULT: u32 = 2;
/// The heading of the instructions about the workspace folder.
const WORKSPACE_HEAD: &str = "## Current Workspace";

pub(super) fn begin(
    state: &State,
    workflow: &Workflow,
    node: &Node,
    llm: &LlmNode,
    around: &Env<'_>,
) -> Result<Event, ExecutionError> {
    let context = state.context();
    let prompt = state.changes.prompts.get(node.id.as_str()).unwrap_or(&llm.user_prompt);
    let tools: Vec<ToolName> = match (llm.tool_mode, &llm.available_tools) {
        (ToolMode::None, _) => Vec::new(),
        (ToolMode::Auto | ToolMode::Required | ToolMode::Enforced, Some(tools)) => tools.clone(),
        (ToolMode::Auto | ToolMode::Required | ToolMode::Enforced, None) => around.tools.names(),
    };
    for tool in &tools {
        if around.tools.facts(tool.as_str()).is_none() {
            let message = format!("node `{}` offers the unknown tool `{tool}`", node.id);
            return Err(ExecutionError::new(ErrorKind::UnknownTool, message));
        }
    }
    let roles: Vec<_> = tools.iter().map(|tool| (tool, role(tool, llm, around))).collect();
    check::conversation_is_free(state, &llm.context)?;
    let agents = agents::offered(state, workflow, llm)?;
    let is_agent = |tool: &ToolName| agents.iter().any(|agent| agent.name == tool.as_str());
    if let Some(tool) = tools.iter().find(|tool| is_agent(tool)) {
        let message =
            format!("node `{}` offers a tool and an agent `{tool}`: give the agent's workflow another name", node.id);
        return Err(ExecutionError::new(ErrorKind::Configuration, message));
    }
    if let Some(tool) = llm.approve_tools.iter().find(|tool| !tools.contains(tool) && !is_agent(tool)) {
        let message = format!("node `{}` requires approval for the tool `{tool}`, which it does not offer", node.id);
        return Err(ExecutionError::new(ErrorKind::UnknownTool, message));
    }
    let handoffs = agents::handoffs(state, workflow, llm);
    let client_tools = client_tools::offered(state, &node.id, llm, (&tools, &agents, &handoffs))?;
    let offers_beside = !(agents.is_empty() && handoffs.is_empty() && client_tools.is_empty());
    let needs_client = llm.client_tools.is_some() && llm.tool_mode.requires_one();
    if needs_client && tools.is_empty() && !offers_beside {
        let message = format!("node `{}` requires the use of a tool, and offers none", node.id);
        return Err(ExecutionError::new(ErrorKind::Configuration, message));
    }
    let with = |wanted: PersonRole| {
        roles.iter().filter(|(_, role)| *role == wanted).map(|(tool, _)| tool.to_string()).collect::<Vec<_>>()
    };
    let approved_agents = llm.approve_tools.iter().filter(|tool| is_agent(tool)).map(ToString::to_string);
    let model = model_choice(state, llm);
    // Where several models are asked, the node's own may be none of them.
    let relay = !matches!(llm.strategy, Strategy::MultiLlm(_)) && around.models.is_person(&model);
    let strategy = strategy::plan(state, node, llm, &model, around)?;
    let model = strategy::of_loop(model, &strategy);
    let output = llm.output_schema.as_ref().map(|schema| OutputSpec {
        schema: schema.clone(),
        max_repairs: llm.repair.as_ref().map_or(REPAIRS_DEFAULT, |repair| repair.attempts),
    });
    let prompt = context.render(prompt)?;
    let own = llm.system_prompt.as_ref().map(|text| context.render(text)).transpose()?;
    Ok(LlmExecutionRequest {
        node_id: node.id.clone(),
        prompt: match &output {
            Some(output) => with_form(&prompt, output),
            None => prompt,
        },
        system_prompt: match own {
            // It goes on under the instructions in force.
            None if state.has_instructions_for(&llm.context) => None,
            own => with_tool_hints(own, state, workflow, around),
        },
        model,
        tool_mode: match llm.tool_mode {
            ToolMode::None if offers_beside => ToolMode::Auto,
            tool_mode => tool_mode,
        },
        tool_catalog: if tools.is_empty() { None } else { around.tools.catalog(&tools) },
        tools: tools.iter().map(ToString::to_string).collect(),
        max_iterations: llm.max_iterations.unwrap_or(MAX_ITERATIONS_DEFAULT),
        concurrent_tools_max: llm.concurrent_tools.unwrap_or(CONCURRENT_TOOLS_DEFAULT),
        llm_timeout_ms: llm.llm_timeout_ms.or((!relay).then_some(LLM_TIMEOUT_MS_DEFAULT)),
        approve_tools: with(PersonRole::Approves).into_iter().chain(approved_agents).collect(),
        person_tools: with(PersonRole::Answers),
        relay,
        summary: summary_plan(workflow, llm),
        strategy,
        context: llm.context.clone(),
        joins: llm.context == NodeContext::Shared,
        output,
        handoffs,
        agents,
        client_tools,
        guardrails: guardrails::of_node(state, workflow, llm)?,
    }
    .into())
}

/// The instructions, followed by the hints for models with tools: the tools, and the folder they work in. They are put in
/// here, before the request is recorded, so that every call and every replay of the loop has the same. The hints are those
/// of all tools of the workflow, so that the instructions of a conversation do not change with the tools of its nodes.
fn with_tool_hints(own: Option<String>, state: &State, workflow: &Workflow, around: &Env<'_>) -> Option<String> {
    let tools = tools_of_workflow(workflow, around);
    if tools.is_empty() {
        return own;
    }
    let is_told = workflow.spec().workspace_in_prompt && !own.as_ref().is_some_and(|own| own.contains(WORKSPACE_HEAD));
    let folder = if is_told { around.tools.workspace(state.workspace()) } else { None };
    let folder = folder.map(|folder| format!("{WORKSPACE_HEAD}\n{folder}"));
    let parts: Vec<_> = [own, around.tools.instructions(&tools), folder].into_iter().flatten().collect();
    let texts: Vec<_> = parts.iter().map(|text| text.trim_end()).filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// The tools that any node of the workflow offers, in the order in which they are named.
fn tools_of_workflow(workflow: &Workflow, around: &Env<'_>) -> Vec<ToolName> {
    let mut tools: Vec<ToolName> = Vec::new();
    let graphs = std::iter::once(workflow.main()).chain(workflow.sub_workflows().map(|(_, graph)| graph));
    for node in graphs.flat_map(|graph| graph.nodes()) {
        let NodeKind::Llm(llm) = node.kind() else { continue };
        let offered = match (llm.tool_mode, &llm.available_tools) {
            (ToolMode::None, _) => Vec::new(),
            (ToolMode::Auto | ToolMode::Required | ToolMode::Enforced, Some(tools)) => tools.clone(),
            (ToolMode::Auto | ToolMode::Required | ToolMode::Enforced, None) => around.tools.names(),
        };
        tools.extend(offered.into_iter().filter(|tool| !tools.contains(tool)).collect::<Vec<_>>());
    }
    tools
}

/// Returns what a person has to do with the calls of a tool here. A call that a person answers needs no approval.
fn role(tool: &ToolName, llm: &LlmNode, around: &Env<'_>) -> PersonRole {
    match around.tools.facts(tool.as_str()).map(|facts| facts.person).unwrap_or_default() {
        PersonRole::None if llm.approve_tools.contains(tool) => PersonRole::Approves,
        role => role,
    }
}

/// When the conversation is summarised, and by which model: as the node says, or else the workflow, or else never.
fn summary_plan(workflow: &Workflow, llm: &LlmNode) -> Option<SummaryPlan> {
    let said = llm.summary.as_ref().into_iter().chain(&workflow.spec().summary);
    let token_limit = match said.clone().find_map(|summary| summary.token_limit) {
        Some(limit) => limit.tokens()?,
        None => TOKEN_LIMIT_DEFAULT,
    };
    let timeout_ms = said.clone().find_map(|summary| summary.timeout_ms).unwrap_or(TIMEOUT_MS_DEFAULT);
    let model = said.clone().find_map(Summary::model_choice);
    Some(SummaryPlan { token_limit, model, timeout_ms })
}

/// Returns the model of the node, or the profile that replaces it in a fork.
fn model_choice(state: &State, llm: &LlmNode) -> ModelChoice {
    let (profile, provider, model) = match &state.changes.profile {
        Some(profile) => (Some(profile.clone()), None, None),
        None => (llm.profile_id.clone(), llm.provider.clone(), llm.model.clone()),
    };
    ModelChoice {
        profile,
        provider,
        model,
        temperature: llm.temperature,
        max_tokens: llm.max_tokens,
        stream: llm.stream,
        tool_choice: llm.tool_choice.clone(),
        parallel_tool_calls: llm.parallel_tool_calls,
        top_p: llm.top_p,
        seed: llm.seed,
        stop: llm.stop.clone(),
        reasoning: llm.reasoning.clone(),
        service_tier: llm.service_tier.clone(),
        verbosity: llm.verbosity.clone(),
        cache: llm.cache,
        extra: llm.extra.clone(),
    }
}
