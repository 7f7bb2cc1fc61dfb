//! Sends a question for a person to the application's handler.

use std::sync::Arc;

use rethread_events::event::InteractionFailure;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::principal::Principal;
use rethread_events::thread::Input;

use crate::application_call::ApplicationCall;
use crate::crashes::Step;
use crate::error::ControlError;
use crate::interaction::{InteractionContext, InteractionRequest, UserInteractionHandler};
use crate::spans::json_of;

/// Calls the handler, and reports its answer.
pub(crate) fn call_handler(
    request: InteractionRequest,
    cx: InteractionContext,
    handler: Arc<dyn UserInteractionHandler>,
    call: ApplicationCall,
) {
    call.span.asks(|| request.prompt.clone().unwrap_or_default());
    let interaction = request.id;
    let step = Step::call(cx.thread, interaction, format!("the handler of question {interaction}"));
    let failed = |detail| ExecutionError::new(ErrorKind::Failed, detail);
    // A panic of the handler itself is contained as one of its future is.
    let work = async move { handler.handle(request, cx).await.map_err(failed) };
    actix_rt::spawn(async move {
        let Some(answer) = call.run(step, work).await else { return };
        let ApplicationCall { port, span, .. } = call;
        span.ends(&answer, json_of);
        let answered = match answer {
            Ok(data) => Input::Respond { interaction, data }.by(Some(Principal::Handler)),
            Err(error) => {
                let reason = InteractionFailure::HandlerError;
                Input::InteractionFailed { interaction, reason, detail: error.message }
            }
        };
        // If the answer cannot be used, the question must not stay open: the handler assumes that it is answered.
        if let Err(ControlError::Rejected { source, .. }) = port.send_input_checked(answered).await {
            let (reason, detail) = (InteractionFailure::InvalidInput, source.to_string());
            port.send_input(Input::InteractionFailed { interaction, reason, detail });
        }
    });
}
