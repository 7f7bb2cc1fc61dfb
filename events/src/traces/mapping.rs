//! From what is kept of a run to its spans.

use super::building::{Mapping, word};
use super::fold::{Detail, RunTrace};
use super::names::{Key, provider_name};
use super::place::{Known, RunPlace, Traced, TracedModel};
use super::span::{Span, SpanKind, Value};
use super::tries::Within;
use crate::fault::ExecutionError;
use crate::ids::Time;
use crate::steps::{Call, CallKind, NodeDoes, NodeResult};
use crate::tool::McpPlace;
use crate::trace_context::SpanId;

impl RunTrace {
    /// Whether the run has ended.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Returns the spans. What has not ended ends with the run, or with the last event.
    pub fn finish(&self, place: &RunPlace, known: Known<'_>) -> Traced {
        let ended = self.end.as_ref().map(|end| end.at).or(place.ended).unwrap_or(self.last.1);
        let mapping =
            Mapping { of: self, place, known, ended, spans: Vec::new(), branches: Vec::new(), has_failed: false };
        mapping.map()
    }
}

impl Mapping<'_> {
    fn map(mut self) -> Traced {
        let top = match self.place.is_branch {
            true => SpanId::of_branch(self.place.thread),
            false => self.run(),
        };
        let of = self.of;
        let own: Vec<_> = of.steps.results().filter(|result| self.is_own(result)).collect();
        for result in own {
            let around = result.within.and_then(|number| of.steps.result(number));
            let parent = around.map_or(top, |node| self.within(node, result.first_seq, result.began).0);
            self.node(result, parent);
        }
        Traced { spans: self.spans, branches: self.branches, has_failed: self.has_failed }
    }

    /// Whether the thread itself did some of it: it began, went on or ended after the fork.
    fn is_own(&self, result: &NodeResult) -> bool {
        result.ended.is_none() || result.last_seq >= self.place.own_from
    }

    fn run(&mut self) -> SpanId {
        let place = self.place;
        let id = SpanId::of_run(place.thread, place.run);
        let workflow = self.of.workflow.as_deref();
        let name = workflow.map_or_else(|| "invoke_workflow".to_owned(), |name| format!("invoke_workflow {name}"));
        let began = self.of.steps.began.unwrap_or(self.of.last.1);
        let mut span = self.span(id, place.parent, name, SpanKind::Internal, (began, None));
        span.set(Key::Operation, Value::from("invoke_workflow"));
        span.set(Key::Workflow, workflow.map(Value::from));
        span.set(Key::Conversation, Value::from(place.conversation.to_string()));
        span.set(Key::Thread, Value::from(place.thread.to_string()));
        span.set(Key::Run, Value::from(place.run.0.0));
        if let Some(end) = &self.of.end {
            span.set(Key::Outcome, Value::from(end.outcome));
            if let Some((kind, message)) = &end.error {
                let error = ExecutionError::new(*kind, message.as_str());
                self.fail(&mut span, Some(&error));
            }
        }
        if self.of.steps.n_dropped > 0 {
            span.set(Key::Dropped, Value::from(self.of.steps.n_dropped));
        }
        span.links.clone_from(&place.links);
        self.spans.push(span);
        id
    }

    fn node(&mut self, result: &NodeResult, parent: SpanId) {
        let id = SpanId::of_node(self.place.thread, result.first_seq);
        let node = result.node.as_str();
        let is_agent = result.does == Some(NodeDoes::Llm);
        let name = if is_agent { format!("invoke_agent {node}") } else { format!("node {node}") };
        let mut span = self.span(id, Some(parent), name, SpanKind::Internal, (result.began, result.ended));
        if is_agent {
            span.set(Key::Operation, Value::from("invoke_agent"));
            span.set(Key::Agent, Value::from(node));
            span.set(Key::Conversation, Value::from(self.place.conversation.to_string()));
        }
        span.set(Key::Thread, Value::from(self.place.thread.to_string()));
        span.set(Key::Node, Value::from(node));
        span.set(Key::NodeKind, result.does.and_then(|does| word(&does)));
        span.set(Key::Iteration, result.iteration.map(Value::from));
        span.set(Key::Hook, result.hook.map(|hook| Value::from(hook.key())));
        span.set(Key::Attempts, attempts(result.attempts));
        self.outcome(&mut span, result.outcome, result.error.as_ref());
        if self.of.options.content && is_agent {
            let message = |role: &str, text: &str| {
                serde_json::json!([{ "role": role, "parts": [{ "type": "text", "content": text }] }]).to_string()
            };
            span.set(Key::InputMessages, result.prompt.as_ref().map(|prompt| message("user", prompt).into()));
            let output = result.output.as_ref().map(|output| match &*output.0 {
                serde_json::Value::String(text) => text.clone(),
                value => value.to_string(),
            });
            span.set(Key::OutputMessages, output.map(|output| message("assistant", &output).into()));
        }
        let tries = self.tries(&span, result.into());
        self.spans.push(span);
        self.spans.extend(tries);
        let own: Vec<_> = result.calls().filter(|call| self.is_own_call(call)).collect();
        for call in own {
            let within = self.within(result, call.id.0, call.began);
            self.call(call, within);
        }
    }

    fn is_own_call(&self, call: &Call) -> bool {
        call.last_seq.is_none_or(|last| last >= self.place.own_from)
    }

    fn call(&mut self, call: &Call, (node, node_ended): Within) {
        let (of, default) = (self.of, Detail::default());
        let detail = of.details.get(&call.id).unwrap_or(&default);
        let ended = call.ended.or(node_ended);
        let times = (call.began, ended);
        let id = match (call.kind, call.thread) {
            (CallKind::Branch, Some(branch)) => {
                self.branches.push((branch, ended.unwrap_or(self.ended)));
                SpanId::of_branch(branch)
            }
            _ => SpanId::of_call(self.place.thread, call.id),
        };
        let callee = call.name.as_deref();
        let named = |what: &str| callee.map_or_else(|| what.to_owned(), |name| format!("{what} {name}"));
        let mut span = match call.kind {
            CallKind::Model | CallKind::Summary | CallKind::Condition => self.model(id, node, times, call, detail),
            CallKind::Tool => {
                let mut span = self.span(id, Some(node), named("execute_tool"), SpanKind::Internal, times);
                span.set(Key::Operation, Value::from("execute_tool"));
                span.set(Key::Tool, callee.map(Value::from));
                span.set(Key::ToolType, Value::from("function"));
                span.set(Key::ToolCall, detail.tool_call.clone().map(Value::from));
                self.mcp(&mut span, callee);
                if let Some(said) = self.of.content.calls.get(&call.id) {
                    span.set(Key::ToolArguments, said.input.clone().map(Value::from));
                    span.set(Key::ToolResult, said.output.clone().map(Value::from));
                }
                span
            }
            // An agent that a model called has the id of that call.
            CallKind::Branch if self.of.details.contains_key(&call.id) => {
                let mut span = self.span(id, Some(node), named("invoke_agent"), SpanKind::Internal, times);
                span.set(Key::Operation, Value::from("invoke_agent"));
                span.set(Key::Agent, callee.map(Value::from));
                span.set(Key::ToolCall, detail.tool_call.clone().map(Value::from));
                span
            }
            CallKind::Branch => self.span(id, Some(node), named("branch"), SpanKind::Internal, times),
            CallKind::Interaction => self.span(id, Some(node), "ask a person".into(), SpanKind::Internal, times),
            CallKind::Timer => self.span(id, Some(node), "wait".into(), SpanKind::Internal, times),
            CallKind::Processor => self.span(id, Some(node), named("context_processor"), SpanKind::Internal, times),
            CallKind::Strategy => self.span(id, Some(node), named("strategy"), SpanKind::Internal, times),
            CallKind::Guardrail => self.span(id, Some(node), "guardrail".into(), SpanKind::Internal, times),
            CallKind::Start => self.span(id, Some(node), named("start_thread"), SpanKind::Internal, times),
        };
        span.set(Key::Thread, Value::from(self.place.thread.to_string()));
        span.set(Key::Call, Value::from(call.id.0.0));
        span.set(Key::CallKind, word(&call.kind));
        span.set(Key::Attempts, attempts(call.attempt));
        self.outcome(&mut span, call.outcome, call.error.as_ref());
        let tries = self.tries(&span, call.into());
        self.spans.push(span);
        self.spans.extend(tries);
    }

    /// Adds what the conventions ask of calls of tools of MCP servers.
    fn mcp(&self, span: &mut Span, tool: Option<&str>) {
        let Some(place) = tool.and_then(self.known.mcp_of) else { return };
        span.set(Key::McpMethod, Value::from("tools/call"));
        match place {
            McpPlace::Process => span.set(Key::Transport, Value::from("pipe")),
            McpPlace::Http { host, port } => {
                span.set(Key::Transport, Value::from("tcp"));
                span.set(Key::ServerAddress, Value::from(host));
                span.set(Key::ServerPort, Value::from(u64::from(port)));
            }
        }
    }

    fn model(&self, id: SpanId, node: SpanId, times: (Time, Option<Time>), call: &Call, detail: &Detail) -> Span {
        let TracedModel { name: recorded, server } = detail.profile.and_then(self.known.model_of).unwrap_or_default();
        let choice = &detail.choice;
        let answered_by = detail.answered_by.as_deref();
        let model = recorded.model.as_deref().or(choice.model.as_deref()).or(answered_by);
        let name = model.map_or_else(|| "chat".to_owned(), |model| format!("chat {model}"));
        let mut span = self.span(id, Some(node), name, SpanKind::Client, times);
        span.set(Key::Operation, Value::from("chat"));
        let provider = recorded.provider.as_deref().or(choice.provider.as_deref()).map_or("_OTHER", provider_name);
        span.set(Key::Provider, Value::from(provider));
        span.set(Key::RequestModel, model.map(Value::from));
        if let Some((address, port)) = server {
            span.set(Key::ServerAddress, Value::from(address));
            span.set(Key::ServerPort, Value::from(u64::from(port)));
        }
        span.set(Key::Conversation, Value::from(self.place.conversation.to_string()));
        let profile = recorded.profile.or_else(|| choice.profile.as_ref().map(ToString::to_string));
        span.set(Key::ModelProfile, profile.map(Value::from));
        span.set(Key::Temperature, choice.temperature.map(Value::Double));
        span.set(Key::MaxTokens, choice.max_tokens.map(Value::from));
        if choice.stream {
            span.set(Key::Stream, Value::from(true));
        }
        span.set(Key::ResponseModel, answered_by.map(Value::from));
        span.set(Key::ResponseId, detail.response_id.clone().map(Value::from));
        let reason = detail.finish_reason.and_then(|reason| word(&reason));
        span.set(
            Key::FinishReasons,
            reason.map(|reason| match reason {
                Value::Text(reason) => Value::Texts(vec![reason]),
                other => other,
            }),
        );
        span.set(Key::InputTokens, call.usage.input_tokens.map(Value::from));
        span.set(Key::OutputTokens, call.usage.output_tokens.map(Value::from));
        span.set(Key::CacheReadTokens, call.usage.cached_input_tokens.map(Value::from));
        span.set(Key::CacheWriteTokens, call.usage.cache_write_tokens.map(Value::from));
        span.set(Key::ReasoningTokens, call.usage.reasoning_tokens.map(Value::from));
        span.set(Key::Cost, call.cost_nanousd.map(|nanousd| Value::Double(nanousd as f64 / 1e9)));
        if call.cached {
            span.set(Key::Cached, Value::from(true));
        }
        if let Some(said) = self.of.content.calls.get(&call.id) {
            span.set(
                Key::Instructions,
                said.instructions
                    .as_ref()
                    .map(|text| Value::from(serde_json::json!([{ "type": "text", "content": text }]).to_string())),
            );
            span.set(Key::InputMessages, said.input.clone().map(Value::from));
            span.set(Key::OutputMessages, said.output.clone().map(Value::from));
        }
        span
    }
}

fn attempts(n: u32) -> Option<Value> {
    (n > 1).then(|| Value::from(u64::from(n)))
}
