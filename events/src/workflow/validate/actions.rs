//! Checks of the nodes that act, each by itself.

use serde_json::Value;

use super::parts::{
    check_depth, check_name, check_range, check_summary, check_template, check_text, check_timeout, check_value,
    check_variable,
};
use super::{guardrails, strategy};
use crate::event::ToolMode;
use crate::ids::ToolName;
use crate::schema;
use crate::workflow::actions::{
    AnswerKind, ContextProcessorNode, LlmNode, NodeOperation, ToolNode, UserInteractionNode,
};
use crate::workflow::agents::handoff_tool;
use crate::workflow::fault::Fault;
use crate::workflow::names::is_tool_name;
use crate::workflow::processors::check_processor_config;
use crate::workflow::signal::{SIGNAL_FIELDS_MAX, SIGNAL_NAME_BYTES_MAX, SignalNode, is_signal_name};
use crate::workflow::wait::{WAIT_MS_MAX, WaitNode, time_of_day, time_zone};

/// The most repairs of an answer.
const REPAIRS_MAX: u64 = 100;
/// The most choices of a question.
const CHOICES_MAX: u64 = 100;

pub(super) fn check_llm(path: &str, llm: &LlmNode, faults: &mut Vec<Fault>) {
    strategy::check(path, llm, faults);
    if llm.user_prompt.trim().is_empty() {
        faults.push(Fault::new(format!("{path}.user_prompt"), "the prompt is empty"));
    }
    check_template(&format!("{path}.user_prompt"), &llm.user_prompt, faults);
    if let Some(system) = &llm.system_prompt {
        check_template(&format!("{path}.system_prompt"), system, faults);
    }
    if let Some(t) = llm.temperature
        && !(0.0..=2.0).contains(&t)
    {
        faults.push(Fault::new(format!("{path}.temperature"), format!("{t} is not between 0 and 2")));
    }
    if let Some(n) = llm.max_tokens {
        check_range(&format!("{path}.max_tokens"), n, 1, 10_000_000, faults);
    }
    if let Some(n) = llm.max_iterations {
        check_range(&format!("{path}.max_iterations"), u64::from(n), 1, 100_000, faults);
    }
    if let Some(n) = llm.concurrent_tools {
        check_range(&format!("{path}.concurrent_tools"), u64::from(n), 1, 1_000, faults);
    }
    check_timeout(&format!("{path}.llm_timeout_ms"), llm.llm_timeout_ms, faults);
    check_summary(&format!("{path}.summary"), llm.summary.as_ref(), faults);
    if llm.tool_mode == ToolMode::None && llm.available_tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
        faults.push(
            Fault::new(format!("{path}.available_tools"), "tools are listed, but tool_mode is `none`")
                .hint("set tool_mode: auto"),
        );
    }
    let offers_beside = !(llm.agents.is_empty() && llm.handoffs.is_empty() && llm.client_tools.is_none());
    if llm.tool_mode.requires_one() && llm.available_tools.as_ref().is_some_and(Vec::is_empty) && !offers_beside {
        faults.push(Fault::new(format!("{path}.available_tools"), "tool_mode is `required` and no tool is offered"));
    }
    check_approvals(path, llm, faults);
    if llm.client_tools.is_some() && !llm.strategy.is_react() {
        faults.push(
            Fault::new(format!("{path}.client_tools"), "only the strategy `react` calls tools of the client")
                .hint("take the strategy or `client_tools` out"),
        );
    }
    check_agents(path, llm, faults);
    check_handoffs(path, llm, faults);
    check_output(path, llm, faults);
    guardrails::check(path, llm, faults);
    if let Some(extra) = &llm.extra {
        if !extra.0.is_object() {
            faults.push(Fault::new(format!("{path}.extra"), "not an object"));
        }
        check_depth(&format!("{path}.extra"), extra, faults);
    }
}

/// The repairs of answers.
fn check_output(path: &str, llm: &LlmNode, faults: &mut Vec<Fault>) {
    if let Some(repair) = &llm.repair {
        check_range(&format!("{path}.repair.attempts"), u64::from(repair.attempts), 0, REPAIRS_MAX, faults);
    }
    if llm.repair.is_some() && llm.output_schema.is_none() {
        faults.push(
            Fault::new(format!("{path}.repair"), "no answer is repaired without an output_schema")
                .hint("give output_schema, or take it out"),
        );
    }
}

/// What can be said about agents without their workflows.
fn check_agents(path: &str, llm: &LlmNode, faults: &mut Vec<Fault>) {
    if !llm.agents.is_empty() && !llm.strategy.is_react() {
        faults.push(
            Fault::new(format!("{path}.agents"), "only the strategy `react` calls agents")
                .hint("take the strategy out, or run the workflow with a sub_workflow node"),
        );
    }
    for (i, agent) in llm.agents.iter().enumerate() {
        let name = agent.workflow.as_str();
        let mut fault = |message: String, hint: &str| {
            faults.push(Fault::new(format!("{path}.agents[{i}]"), message).hint(hint));
        };
        if llm.agents.iter().take(i).any(|other| other.workflow == name) {
            fault(format!("agent `{name}` is listed twice"), "take one of them out");
        }
        if llm.available_tools.iter().flatten().any(|tool| tool.as_str() == name) {
            fault(format!("`{name}` is among available_tools as well"), "give the workflow another name");
        }
        if !is_tool_name(name) {
            fault(
                format!("a tool cannot have the name `{name}`"),
                "give the workflow a name of at most 64 letters, digits, `_` and `-`",
            );
        }
    }
}

fn check_handoffs(path: &str, llm: &LlmNode, faults: &mut Vec<Fault>) {
    if !llm.handoffs.is_empty() && !llm.strategy.is_react() {
        faults.push(
            Fault::new(format!("{path}.handoffs"), "only the strategy `react` hands over")
                .hint("take the strategy out, or lead to the nodes by edges"),
        );
    }
    for (i, node) in llm.handoffs.iter().enumerate() {
        let mut fault = |message: String, hint: &str| {
            faults.push(Fault::new(format!("{path}.handoffs[{i}]"), message).hint(hint));
        };
        if llm.handoffs.iter().take(i).any(|other| other == node) {
            fault(format!("node `{node}` is listed twice"), "take one of them out");
        }
        let tool = handoff_tool(node);
        if !is_tool_name(&tool) {
            fault(
                format!("a tool cannot have the name `{tool}`"),
                "give the node an id of at most 52 letters, digits, `_` and `-`",
            );
        }
        let tools = llm.available_tools.iter().flatten().map(ToolName::as_str);
        if tools.chain(llm.agents.iter().map(|agent| agent.workflow.as_str())).any(|name| name == tool) {
            fault(format!("`{tool}` is the name of a tool or an agent as well"), "give that another name");
        }
    }
}

/// A name of a tool that is not offered is probably misspelt, and a call that needs approval would run without it.
fn check_approvals(path: &str, llm: &LlmNode, faults: &mut Vec<Fault>) {
    if llm.approve_tools.is_empty() {
        return;
    }
    let is_agent = |tool: &ToolName| llm.agents.iter().any(|agent| agent.workflow == tool.as_str());
    if llm.tool_mode == ToolMode::None && !llm.approve_tools.iter().all(is_agent) {
        faults.push(
            Fault::new(format!("{path}.approve_tools"), "tools are listed, but tool_mode is `none`")
                .hint("set tool_mode: auto"),
        );
    }
    let Some(offered) = &llm.available_tools else {
        return;
    };
    for (i, tool) in llm.approve_tools.iter().enumerate() {
        if !offered.contains(tool) && !is_agent(tool) {
            faults.push(
                Fault::new(format!("{path}.approve_tools[{i}]"), format!("`{tool}` is not among available_tools"))
                    .hint("list it there too, or take it out here"),
            );
        }
    }
}

pub(super) fn check_tool(path: &str, tool: &ToolNode, faults: &mut Vec<Fault>) {
    check_name(&format!("{path}.tool_name"), "tool's name", tool.tool_name.as_str(), faults);
    for (name, value) in tool.parameters.iter() {
        check_value(&format!("{path}.parameters.{name}"), value, faults);
    }
    check_timeout(&format!("{path}.timeout_ms"), tool.timeout_ms, faults);
}

pub(super) fn check_interaction(path: &str, ask: &UserInteractionNode, faults: &mut Vec<Fault>) {
    match ask.operation_type {
        NodeOperation::UpdateVariables => {
            if ask.variables.is_empty() {
                faults.push(Fault::new(path, "UPDATE_VARIABLES sets no variable").hint("list them under `variables`"));
            }
            if ask.message.is_some() {
                faults.push(Fault::new(format!("{path}.message"), "only ADD_MESSAGE has a message"));
            }
        }
        NodeOperation::AddMessage => {
            if ask.message.is_none() {
                faults.push(Fault::new(path, "ADD_MESSAGE has no message").hint("give message.content_template"));
            }
            if !ask.variables.is_empty() {
                faults.push(Fault::new(format!("{path}.variables"), "only UPDATE_VARIABLES sets variables"));
            }
        }
    }
    for (i, variable) in ask.variables.iter().enumerate() {
        check_variable(&format!("{path}.variables[{i}].variable_name"), &variable.variable_name, faults);
        check_text(&format!("{path}.variables[{i}].expression"), &variable.expression, faults);
    }
    if let Some(message) = &ask.message {
        check_template(&format!("{path}.message.content_template"), &message.content_template, faults);
    }
    if let Some(prompt) = &ask.prompt {
        check_template(&format!("{path}.prompt"), prompt, faults);
    }
    if let Some(metadata) = &ask.metadata {
        check_depth(&format!("{path}.metadata"), metadata, faults);
    }
    check_timeout(&format!("{path}.timeout_ms"), ask.timeout_ms, faults);
    check_answer(path, ask, faults);
}

fn check_answer(path: &str, ask: &UserInteractionNode, faults: &mut Vec<Fault>) {
    match (ask.answer, &ask.choices) {
        (Some(AnswerKind::Choice), None) => {
            faults.push(Fault::new(path, "`answer: choice` without choices").hint("list them under `choices`"));
        }
        (Some(AnswerKind::Choice), Some(choices)) => {
            let path = format!("{path}.choices");
            check_range(&path, choices.len() as u64, 1, CHOICES_MAX, faults);
            for (i, choice) in choices.iter().enumerate() {
                check_name(&format!("{path}[{i}]"), "choice", choice, faults);
                if choices[..i].contains(choice) {
                    faults.push(Fault::new(format!("{path}[{i}]"), format!("`{choice}` is a choice already")));
                }
            }
        }
        (_, Some(_)) => {
            faults.push(Fault::new(format!("{path}.choices"), "only `answer: choice` has choices"));
        }
        (_, None) => {}
    }
    match (ask.answer, &ask.schema) {
        (Some(AnswerKind::JsonSchema), None) => {
            faults.push(Fault::new(path, "`answer: json_schema` without a schema").hint("give it under `schema`"));
        }
        (Some(AnswerKind::JsonSchema), Some(schema)) => {
            let path = format!("{path}.schema");
            check_depth(&path, schema, faults);
            if let Err(why) = schema::compile(&schema.0) {
                faults.push(Fault::new(path, format!("not a self-contained JSON Schema: {}", why.message)));
            }
        }
        (_, Some(_)) => {
            faults.push(Fault::new(format!("{path}.schema"), "only `answer: json_schema` has a schema"));
        }
        (_, None) => {}
    }
}

pub(super) fn check_processor(path: &str, processor: &ContextProcessorNode, faults: &mut Vec<Fault>) {
    check_name(&format!("{path}.processor_name"), "processor's name", &processor.processor_name, faults);
    if let Err((key, what)) = check_processor_config(&processor.processor_name, &processor.processor_config) {
        let key = if key.is_empty() { String::new() } else { format!(".processor_config.{key}") };
        faults.push(Fault::new(format!("{path}{key}"), what));
    }
    for (name, value) in processor.processor_config.iter() {
        check_value(&format!("{path}.processor_config.{name}"), value, faults);
    }
}

pub(super) fn check_wait(path: &str, wait: &WaitNode, faults: &mut Vec<Fault>) {
    let WaitNode { for_ms, until, at, zone, thread } = wait;
    let n_given = [for_ms.is_some(), until.is_some(), at.is_some(), thread.is_some()]
        .into_iter()
        .filter(|is_given| *is_given)
        .count();
    if n_given != 1 {
        let message = if n_given == 0 { "nothing says what to wait for" } else { "several keys say what to wait for" };
        faults.push(Fault::new(path, message).hint("give one of `for_ms`, `until`, `at` and `thread`"));
    }
    match for_ms.as_ref().map(|ms| &*ms.0) {
        None => {}
        Some(Value::String(text)) => check_text(&format!("{path}.for_ms"), text, faults),
        Some(ms) if ms.as_u64().is_some_and(|ms| ms <= WAIT_MS_MAX) => {}
        Some(ms) => {
            let message = format!("{ms} is not a whole number of milliseconds from 0 to {WAIT_MS_MAX}");
            faults.push(Fault::new(format!("{path}.for_ms"), message).hint("write a number or an expression"));
        }
    }
    if let Some(until) = until {
        check_template(&format!("{path}.until"), until, faults);
    }
    if let Some(Err(why)) = at.as_ref().map(|at| time_of_day(at)) {
        faults.push(Fault::new(format!("{path}.at"), why));
    }
    if let Some(thread) = thread {
        check_template(&format!("{path}.thread"), thread, faults);
    }
    match zone {
        Some(_) if thread.is_some() => {
            faults.push(Fault::new(format!("{path}.zone"), "the end of a thread is no time of a zone"));
        }
        Some(_) if for_ms.is_some() => {
            faults.push(Fault::new(format!("{path}.zone"), "a number of milliseconds is the same in every zone"));
        }
        Some(zone) => {
            if let Err(why) = time_zone(zone) {
                faults.push(Fault::new(format!("{path}.zone"), why));
            }
        }
        None => {}
    }
}

pub(super) fn check_signal(path: &str, signal: &SignalNode, faults: &mut Vec<Fault>) {
    let form = format!("1 to {SIGNAL_NAME_BYTES_MAX} of a-z, A-Z, 0-9, `.`, `_` and `-`");
    if !is_signal_name(&signal.name) {
        faults.push(Fault::new(format!("{path}.name"), "no name of a signal").hint(format!("write {form}")));
    }
    if signal.fields.len() > SIGNAL_FIELDS_MAX {
        let message = format!("a signal is found by at most {SIGNAL_FIELDS_MAX} fields");
        faults.push(
            Fault::new(format!("{path}.where"), message)
                .hint("check the rest with `schema`, or in a condition after the node"),
        );
    }
    for (name, value) in signal.fields.iter() {
        let path = format!("{path}.where.{name}");
        if !is_signal_name(name) {
            faults.push(
                Fault::new(path.clone(), "no name of a field that a signal is found by").hint(format!("write {form}")),
            );
        }
        match &*value.0 {
            Value::String(text) => check_template(&path, text, faults),
            Value::Array(_) | Value::Object(_) => {
                let message = "a signal is found by texts, numbers, booleans and null";
                faults.push(Fault::new(path, message).hint("check a list or an object with `schema`"));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    if let Some(schema) = &signal.schema {
        let path = format!("{path}.schema");
        check_depth(&path, schema, faults);
        if let Err(why) = schema::compile(&schema.0) {
            faults.push(Fault::new(path, format!("not a self-contained JSON Schema: {}", why.message)));
        }
    }
    check_timeout(&format!("{path}.timeout_ms"), signal.timeout_ms, faults);
}
