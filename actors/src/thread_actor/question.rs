//! A question to a person, put to the application's handler.

use std::sync::Arc;

use actix::Addr;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::principal::Principal;
use rethread_events::thread::Input;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::{Asked, Tell, ThreadActor};
use crate::crashes::Step;
use crate::error::RuntimeError;
use crate::interaction::{InteractionContext, InteractionRequest, UserInteractionHandler};
use crate::spans::json_of;
use crate::tool_executor::contained;

/// Asks, until the call is called off, and tells the thread what the handler answered.
pub(super) fn put(
    request: InteractionRequest,
    cx: InteractionContext,
    handler: Arc<dyn UserInteractionHandler>,
    thread: Addr<ThreadActor>,
    asked: Asked,
) {
    let Asked { span, crashes } = asked;
    span.asks(|| request.prompt.clone().unwrap_or_default());
    let (interaction, cancel) = (request.id, cx.cancel.clone());
    let step = Step::call(cx.thread, interaction, format!("the handler of question {interaction}"));
    // A panic of the handler itself is contained as one of its future is.
    let answer = async move { handler.handle(request, cx).await };
    actix_rt::spawn(async move {
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            answer = crashes.polled(step, contained(answer).instrument(span.span())) => answer,
        };
        let failed = |detail| ExecutionError::new(ErrorKind::Failed, detail);
        let answer = answer.and_then(|answer| answer.map_err(failed));
        span.ends(&answer, json_of);
        let input = match answer {
            Ok(data) => Input::Respond { interaction, data }.by(Some(Principal::Handler)),
            Err(error) => Input::InteractionFailed { interaction, detail: error.message },
        };
        let (reply, rejected) = oneshot::channel();
        thread.do_send(Tell { reply: Some(reply), ..Tell::said(input, &cancel) });
        // An answer that cannot be used must not leave the question to a handler that thinks it is done.
        if let Ok(Err(RuntimeError::Rejected { source, .. })) = rejected.await {
            let detail = source.to_string();
            thread.do_send(Tell::said(Input::InteractionFailed { interaction, detail }, &cancel));
        }
    });
}
