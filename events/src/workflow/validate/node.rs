//! Checks of one node.

use super::parts::{
    WAIT_MS_MAX, check_depth, check_name, check_range, check_summary, check_template, check_text, check_timeout,
    check_variable,
};
use super::{flow, strategy};
use crate::event::ToolMode;
use crate::expression;
use crate::fault::ErrorKind;
use crate::schema;
use crate::workflow::{AnswerKind, Fault, LlmNode, Node, NodeKind, NodeOperation, ToolNode, UserInteractionNode};

/// The most choices of a question.
const CHOICES_MAX: u64 = 100;

/// Checks a node as written in the file, and the nodes inside it.
pub(super) fn check_node(path: &str, node: &Node, faults: &mut Vec<Fault>) {
    check_name(&format!("{path}.id"), "id", node.id.as_str(), faults);
    match node.kinds().count() {
        1 => {}
        0 => faults.push(Fault::new(path, format!("node `{}` has no kind", node.id)).hint(
            "give it one of llm, tool, user_interaction, context_processor, route, condition, fork, join, \
                 parallel, loop, loop_start, loop_end, sub_workflow, start, end",
        )),
        n => faults.push(Fault::new(path, format!("node `{}` has {n} kinds", node.id)).hint("keep one of them")),
    }
    for kind in node.kinds() {
        match kind {
            NodeKind::Llm(llm) => check_llm(&format!("{path}.llm"), llm, faults),
            NodeKind::Tool(tool) => check_tool(&format!("{path}.tool"), tool, faults),
            NodeKind::UserInteraction(ask) => check_interaction(&format!("{path}.user_interaction"), ask, faults),
            NodeKind::ContextProcessor(processor) => {
                flow::check_processor(&format!("{path}.context_processor"), processor, faults);
            }
            NodeKind::Route(route) => flow::check_route(&format!("{path}.route"), route, faults),
            NodeKind::Condition(condition) => {
                flow::check_condition(&format!("{path}.condition"), condition, faults);
            }
            NodeKind::Fork(fork) => flow::check_fork(&format!("{path}.fork"), fork, faults),
            NodeKind::Join(join) => flow::check_join(&format!("{path}.join"), join, faults),
            NodeKind::Parallel(parallel) => flow::check_parallel(&format!("{path}.parallel"), parallel, faults),
            NodeKind::LoopStart(repeat) => flow::check_loop(&format!("{path}.loop_start"), repeat, false, faults),
            NodeKind::Loop(repeat) => flow::check_loop(&format!("{path}.loop"), repeat, true, faults),
            NodeKind::SubWorkflow(sub) => flow::check_sub_workflow(&format!("{path}.sub_workflow"), sub, faults),
            NodeKind::LoopEnd(_) | NodeKind::Start | NodeKind::End => {}
        }
    }
    if node.retry.is_some() && !may_be_tried_again(node.kind()) {
        faults.push(
            Fault::new(format!("{path}.retry"), "a node that only decides where to go is not tried again")
                .hint("give the nodes inside it a retry"),
        );
    }
    if node.timeout_ms.is_some()
        && matches!(node.kind(), NodeKind::LoopStart(_) | NodeKind::Loop(_) | NodeKind::SubWorkflow(_))
    {
        faults.push(
            Fault::new(format!("{path}.timeout_ms"), "a loop or sub-workflow has no time limit of its own")
                .hint("give the nodes inside it a timeout_ms, or the whole workflow"),
        );
    }
    check_timeout(&format!("{path}.timeout_ms"), node.timeout_ms, faults);
    if let Some(retry) = &node.retry {
        check_range(&format!("{path}.retry.max_attempts"), u64::from(retry.max_attempts), 1, 100, faults);
        check_range(&format!("{path}.retry.backoff_ms"), retry.backoff_ms, 0, WAIT_MS_MAX, faults);
        for (i, kind) in retry.on.iter().flatten().enumerate() {
            if matches!(kind, ErrorKind::Indeterminate | ErrorKind::Cancelled) {
                let why = "its effect is unknown, or it was cancelled";
                let message = format!("a node is never tried again after `{kind}`: {why}");
                faults.push(Fault::new(format!("{path}.retry.on[{i}]"), message));
            }
        }
        if retry.on.as_ref().is_some_and(Vec::is_empty) {
            faults.push(
                Fault::new(format!("{path}.retry.on"), "after no error is it tried again")
                    .hint("name kinds of errors, or leave `on` away"),
            );
        }
        check_range(&format!("{path}.retry.backoff_ms_max"), retry.backoff_ms_max.unwrap_or(0), 0, WAIT_MS_MAX, faults);
    }
    if let Some(label) = &node.checkpoint {
        check_name(&format!("{path}.checkpoint"), "checkpoint", label, faults);
        if !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit()) {
            faults.push(
                Fault::new(format!("{path}.checkpoint"), format!("`{label}` would be taken for a seq"))
                    .hint("put a letter into the name"),
            );
        }
    }
}

fn may_be_tried_again(kind: NodeKind<'_>) -> bool {
    match kind {
        NodeKind::Llm(_) | NodeKind::Tool(_) | NodeKind::UserInteraction(_) | NodeKind::ContextProcessor(_) => true,
        NodeKind::Route(_)
        | NodeKind::Condition(_)
        | NodeKind::Fork(_)
        | NodeKind::Join(_)
        | NodeKind::Parallel(_)
        | NodeKind::LoopStart(_)
        | NodeKind::LoopEnd(_)
        | NodeKind::Loop(_)
        | NodeKind::SubWorkflow(_)
        | NodeKind::Start
        | NodeKind::End => false,
    }
}

fn check_llm(path: &str, llm: &LlmNode, faults: &mut Vec<Fault>) {
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
    if llm.tool_mode == ToolMode::Required && llm.available_tools.as_ref().is_some_and(Vec::is_empty) {
        faults.push(Fault::new(format!("{path}.available_tools"), "tool_mode is `required` and no tool is offered"));
    }
    check_approvals(path, llm, faults);
    if let Some(extra) = &llm.extra {
        if !extra.0.is_object() {
            faults.push(Fault::new(format!("{path}.extra"), "not an object"));
        }
        check_depth(&format!("{path}.extra"), extra, faults);
    }
}

/// A name of a tool that is not offered is probably misspelt, and a call that needs approval would run without it.
fn check_approvals(path: &str, llm: &LlmNode, faults: &mut Vec<Fault>) {
    if llm.approve_tools.is_empty() {
        return;
    }
    if llm.tool_mode == ToolMode::None {
        faults.push(
            Fault::new(format!("{path}.approve_tools"), "tools are listed, but tool_mode is `none`")
                .hint("set tool_mode: auto"),
        );
    }
    let Some(offered) = &llm.available_tools else {
        return;
    };
    for (i, tool) in llm.approve_tools.iter().enumerate() {
        if !offered.contains(tool) {
            faults.push(
                Fault::new(format!("{path}.approve_tools[{i}]"), format!("`{tool}` is not among available_tools"))
                    .hint("list it there too, or take it out here"),
            );
        }
    }
}

fn check_tool(path: &str, tool: &ToolNode, faults: &mut Vec<Fault>) {
    check_name(&format!("{path}.tool_name"), "tool's name", tool.tool_name.as_str(), faults);
    for (name, value) in tool.parameters.iter() {
        check_depth(&format!("{path}.parameters.{name}"), value, faults);
        if let Err(e) = expression::check_value(&value.0) {
            faults.push(Fault::new(format!("{path}.parameters.{name}"), e.to_string()));
        }
    }
    check_timeout(&format!("{path}.timeout_ms"), tool.timeout_ms, faults);
}

fn check_interaction(path: &str, ask: &UserInteractionNode, faults: &mut Vec<Fault>) {
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
