//! Questions to people that the application's handler answers.

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use rethread::{InteractionContext, InteractionRequest, Json, Status, UserInteractionHandler};

use crate::interaction::approval;
use crate::support::{Tally, World, block_on, print_log, workflow};

type Answer = Result<Json, String>;

/// A scripted handler.
pub(crate) struct Says<F>(pub(crate) F);

impl<F: Fn(InteractionRequest, InteractionContext) -> BoxFuture<'static, Answer> + Send + Sync + 'static>
    UserInteractionHandler for Says<F>
{
    fn handle(&self, request: InteractionRequest, cx: InteractionContext) -> BoxFuture<'static, Answer> {
        (self.0)(request, cx)
    }
}

async fn world(handler: impl UserInteractionHandler) -> World {
    let store = std::sync::Arc::new(rethread::store::MemoryStore::new());
    World::with(store, &Tally::default(), |builder| builder.interaction_handler(handler)).await
}

#[test]
fn a_handler_answers() {
    block_on(async {
        let world = world(Says(|request: InteractionRequest, cx: InteractionContext| {
            assert_eq!(request.prompt.as_deref(), Some("Pay 7 €?"));
            assert_eq!(cx.state.status(), Status::Waiting);
            async { Ok(true.into()) }.boxed()
        }))
        .await;
        let thread = world.start(&approval(), "7 €").await;
        let outcome = thread.outcome().await.unwrap();
        assert_eq!(outcome.status, Status::Completed);
        assert_eq!(*outcome.state.variables()["approved"].0, true);
        world.end().await;
    });
}

#[test]
fn failing_handler_fails_the_question() {
    block_on(async {
        let world = world(Says(|_, _| async { Err("nobody is there".into()) }.boxed())).await;
        let thread = world.start(&approval(), "7 €").await;
        assert_eq!(thread.outcome().await.unwrap().status, Status::Error);
        assert!(print_log(&thread).await.contains("USER_INTERACTION_FAILED HandlerError"));
        world.end().await;
    });
}

#[test]
fn handler_answer_of_another_type_is_invalid_input() {
    let asks = "nodes: [{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'How many?', answer: number, \
                variables: [{variable_name: n, expression: input}]}}]";
    block_on(async {
        let world = world(Says(|_, _| async { Ok("many".into()) }.boxed())).await;
        let thread = world.start(&workflow(asks), "7 €").await;
        assert_eq!(thread.outcome().await.unwrap().status, Status::Error);
        let log = print_log(&thread).await;
        assert!(log.contains("USER_INTERACTION_FAILED InvalidInput"), "{log}");
        world.end().await;
    });
}

#[test]
fn question_of_a_waiting_handler_can_be_answered_by_others() {
    block_on(async {
        let world = world(Says(|_, cx: InteractionContext| {
            async move {
                cx.cancel.cancelled().await;
                Err("nobody asks any more".into())
            }
            .boxed()
        }))
        .await;
        let (thread, outcome) = world.run(&approval(), "7 €").await;
        thread.respond(outcome.state.interaction().unwrap().id, false).await.unwrap();
        let outcome = thread.outcome().await.unwrap();
        assert_eq!(*outcome.state.variables()["approved"].0, false);
        world.end().await;
    });
}

#[test]
fn a_handler_sets_variables_and_follows_the_thread() {
    block_on(async {
        let world = world(Says(|_, cx: InteractionContext| {
            async move {
                let mut events = cx.events();
                let variables = [("seen".to_owned(), Json::from("yes"))].into_iter().collect();
                cx.set_variables(variables).await.map_err(|error| error.to_string())?;
                let event = events.next().await.ok_or("no event")?.map_err(|error| error.to_string())?;
                Ok(Json::from(event.name()))
            }
            .boxed()
        }))
        .await;
        let outcome = world.start(&approval(), "7 €").await.outcome().await.unwrap();
        assert_eq!(*outcome.state.variables()["approved"].0, "VARIABLES_UPDATED");
        assert_eq!(*outcome.state.variables()["seen"].0, "yes");
        world.end().await;
    });
}
