//! Begins effects: sends each to its executor, with a span of its own.

use std::sync::Arc;

use futures_util::FutureExt;
use rethread_events::ids::ThreadId;
use rethread_events::thread::Effect;
use tokio_util::sync::CancellationToken;

use super::live::Live;
use crate::application_call::ApplicationCall;
use crate::awaited_threads;
use crate::child_starts;
use crate::guardrail::GuardrailContext;
use crate::interaction::{InteractionContext, InteractionRequest};
use crate::llm_executor::CallModel;
use crate::permit_waits::PermitWaits;
use crate::port::{Mailbox, Port};
use crate::processor::ProcessorContext;
use crate::registry::ThreadRegistry;
use crate::signals;
use crate::spans::Spans;
use crate::strategy::StrategyContext;
use crate::tool_executor::CallTool;
use crate::{deliver, handler_call};

/// The principal and parts that begin it.
pub(super) struct Begins<'a> {
    pub(super) registry: &'a Arc<ThreadRegistry>,
    pub(super) id: ThreadId,
    pub(super) slot: usize,
    pub(super) spans: &'a Spans,
}

impl Begins<'_> {
    /// Begins an effect. Returns false if that is impossible now.
    pub(super) fn perform(
        &self,
        live: &Live,
        effect: Effect,
        cancel: CancellationToken,
        waits: Arc<PermitWaits>,
        mailbox: Arc<dyn Mailbox>,
    ) -> bool {
        let (services, thread, key) = (&self.registry.services, self.id, effect.key());
        let Some(slot) = self.registry.slot(self.slot) else {
            return false;
        };
        let state = live.thread.state();
        let of_run = state.run_id();
        let port = || Port::new(key, cancel.clone(), mailbox.clone());
        let span = |kind, callee: &str| self.spans.call(key, kind, callee);
        let call = |kind, callee: &str| ApplicationCall {
            port: port(),
            span: span(kind, callee),
            crashes: services.crashes.clone(),
        };
        match effect {
            Effect::CallModel(call) => {
                let Some(request) = state.model_request_of(call.call) else {
                    return false;
                };
                let span = span("model", services.models.name_of(&request.execution.model));
                slot.llm.do_send(CallModel {
                    port: port(),
                    thread,
                    run: of_run,
                    request,
                    deadline: [call.deadline, state.calls_end_by()].into_iter().flatten().min(),
                    waits,
                    span,
                });
            }
            Effect::CallTool(run) => {
                let (workspace, labels) = (state.workspace().map(str::to_owned), state.labels().clone());
                let span = span("tool", run.name.as_str());
                let (key, request) = (run.key(thread), run.into_request(state.node_name().cloned()));
                let port = port();
                slot.tools.do_send(CallTool {
                    port,
                    thread,
                    run: of_run,
                    request,
                    key,
                    workspace,
                    labels,
                    waits,
                    span,
                });
            }
            Effect::AwaitSignal(run) => {
                if services.kept_signals.may_have(&run.name) && services.mode.runs() {
                    actix_rt::spawn(signals::deliver_kept_to(self.registry.clone(), thread, run));
                }
                return false;
            }
            Effect::StartChild(run) => {
                let wanted = child_starts::Wanted::new(run, state, live.thread.workflow().clone());
                actix_rt::spawn(child_starts::ensure(self.registry.clone(), wanted, cancel));
            }
            Effect::AwaitThread(run) => {
                actix_rt::spawn(awaited_threads::began(self.registry.clone(), thread, run.thread));
                return false;
            }
            // Its time is in the thread's alarm, or in the log.
            Effect::RunBranch(_) | Effect::AwaitTime(_) => return false,
            Effect::AskPerson(ask) => {
                let Some(handler) = &services.handler else {
                    return false;
                };
                let Some(run) = state.node_run() else {
                    return false;
                };
                let registry = self.registry.clone();
                let cx = InteractionContext {
                    thread,
                    node: run.node.clone(),
                    state: state.clone(),
                    cancel: cancel.clone(),
                    store: services.store.clone(),
                    send_input: Arc::new(move |input| {
                        let registry = registry.clone();
                        async move { deliver::ask(&registry, thread, input).await }.boxed()
                    }),
                };
                let request = InteractionRequest::new(&ask, services.prompt_of(&cx.state, &ask));
                handler_call::call_handler(request, cx, handler.clone(), call("person", "handler"));
            }
            Effect::AskStrategy(run) => {
                let Some(cx) = StrategyContext::new(state.clone(), &run, cancel.clone()) else {
                    return false;
                };
                let call = call("strategy", cx.name());
                services.strategies.ask(cx, call);
            }
            Effect::CheckGuardrail(run) => {
                let Some(check) = GuardrailContext::new(state.clone(), &run, cancel.clone()) else {
                    return false;
                };
                let call = call("guardrail", &check.0.guardrail);
                services.guardrails.ask(check, call);
            }
            Effect::RunProcessor(run) => {
                let state = state.clone();
                let Some(node) = state.node_run().map(|run| run.node.clone()) else {
                    return false;
                };
                let (config, attempt, messages) = (run.config.clone(), run.attempt, state.processor_messages());
                let cancel = cancel.clone();
                let cx = ProcessorContext { thread, node, config, messages, state, attempt, cancel };
                services.processors.run(&run, cx, call("processor", &run.processor));
            }
        }
        true
    }
}
