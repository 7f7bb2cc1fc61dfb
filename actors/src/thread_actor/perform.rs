//! An effect is begun: handed to whoever does it, with a span of its own.

use std::sync::Arc;

use actix::Addr;
use rethread_events::ids::ThreadId;
use rethread_events::thread::Effect;
use tokio_util::sync::CancellationToken;

use super::live::Live;
use super::{ThreadActor, question};
use crate::crashes::Crashes;
use crate::inner::Inner;
use crate::interaction::{InteractionContext, InteractionRequest};
use crate::llm_executor::CallModel;
use crate::permit_waits::PermitWaits;
use crate::processor::ProcessorContext;
use crate::spans::{CallSpan, Spans};
use crate::strategy::StrategyContext;
use crate::tool_executor::CallTool;

/// What goes with a question to code of the application.
pub(crate) struct Asked {
    pub(crate) span: CallSpan,
    pub(crate) crashes: Arc<Crashes>,
}

/// Who begins it.
pub(super) struct Begins<'a> {
    pub(super) inner: &'a Arc<Inner>,
    pub(super) id: ThreadId,
    pub(super) slot: usize,
    pub(super) spans: &'a Spans,
}

impl Begins<'_> {
    /// Begins an effect. False when there is nobody to do it now.
    pub(super) fn perform(
        &self,
        live: &Live,
        effect: Effect,
        cancel: CancellationToken,
        waits: Arc<PermitWaits>,
        thread: Addr<ThreadActor>,
    ) -> bool {
        let (inner, id, key) = (self.inner, self.id, effect.key());
        let Some(slot) = inner.slot(self.slot) else {
            return false;
        };
        let span = |kind, callee: &str| self.spans.call(key, kind, callee);
        let asked = |kind, callee: &str| Asked { span: span(kind, callee), crashes: inner.crashes.clone() };
        match effect {
            Effect::CallModel(call) => {
                let Some(request) = live.thread.state().model_request_of(call.call) else {
                    return false;
                };
                let span = span("model", &inner.models.name_of(&request.execution.model));
                slot.llm.do_send(CallModel { thread, id, call, request, cancel, waits, span });
            }
            Effect::CallTool(run) => {
                let workspace = live.thread.state().workspace().map(str::to_owned);
                let span = span("tool", run.name.as_str());
                slot.tools.do_send(CallTool { thread, id, run, workspace, cancel, waits, span });
            }
            Effect::RunBranch(_) => return false,
            Effect::AskPerson(ask) => {
                let Some(handler) = &inner.handler else {
                    return false;
                };
                let Some(run) = live.thread.state().node_run() else {
                    return false;
                };
                let state = live.thread.state().clone();
                let cx = InteractionContext::new(inner, run.node.clone(), state, cancel);
                let request = InteractionRequest::new(inner, &cx.state, &ask);
                question::put(request, cx, handler.clone(), thread, asked("person", "handler"));
            }
            Effect::AskStrategy(run) => {
                let Some(cx) = StrategyContext::new(live.thread.state().clone(), &run, cancel) else {
                    return false;
                };
                let asked = asked("strategy", cx.name());
                inner.strategies.ask(&run, cx, thread, asked);
            }
            Effect::RunProcessor(run) => {
                let state = live.thread.state().clone();
                let Some(node) = state.node_run().map(|run| run.node.clone()) else {
                    return false;
                };
                let (config, attempt, messages) = (run.config.clone(), run.attempt, state.processor_messages());
                let cx = ProcessorContext { thread: id, node, config, messages, state, attempt, cancel };
                inner.processors.run(&run, cx, thread, asked("processor", &run.processor));
            }
        }
        true
    }
}
