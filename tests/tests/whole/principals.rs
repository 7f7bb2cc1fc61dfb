//! Who did what from outside is in the log.

use futures::FutureExt as _;
use rethread::event::LimitRaised;
use rethread::operate::LogAccess as _;
use rethread::{ForkRequest, Message, OrderedMap, Position, Principal, Role, ThreadHandle};
use serde_json::json;

use crate::handler::Says;
use crate::interaction::approval;
use crate::support::{Tally, World, block_on};

/// Who did what: the events of a thread that say it.
async fn recorded(thread: &ThreadHandle) -> Vec<String> {
    let records = thread.runtime().store().read_all(Position(0), usize::MAX).unwrap();
    let own = records.into_iter().filter(|record| record.thread == thread.id());
    let events = own.map(|record| rethread::RecordedEvent::decode(record).unwrap());
    events.filter_map(|event| Some(format!("{} {}", event.name(), event.event.by()?))).collect()
}

#[test]
fn events_record_the_principal_of_the_handle() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&approval(), "7 €").await;
        let question = outcome.state.interaction().unwrap().id;
        let ada = thread.by("Ada");
        ada.pause(None).await.unwrap();
        thread.resume().await.unwrap();
        ada.set_variables(OrderedMap::from_iter([("mood".to_owned(), json!("good").into())])).await.unwrap();
        ada.add_message(Message::text(Role::User, "by the way")).await.unwrap();
        let fork = ada.fork(ForkRequest { paused: true, ..ForkRequest::default() }).await.unwrap();
        fork.by(Principal::Terminal).cancel(None).await.unwrap();
        ada.by(Principal::token("0f1e", Some("the page"))).respond(question, true).await.unwrap();
        thread.outcome().await.unwrap();
        assert_eq!(
            recorded(&thread).await,
            [
                "THREAD_PAUSED Ada",
                "THREAD_RESUMED the application",
                "VARIABLES_UPDATED Ada",
                "MESSAGE_ADDED Ada",
                "USER_INTERACTION_RESPONDED token 0f1e (the page)",
            ]
        );
        assert_eq!(
            recorded(&fork).await,
            ["THREAD_FORKED Ada", "THREAD_PAUSED Ada", "USER_INTERACTION_FAILED terminal", "THREAD_CANCELLED terminal",]
        );
        world.end().await;
    });
}

#[test]
fn checkpoints_limits_and_withdrawals_record_the_principal() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&approval(), "7 €").await;
        let question = outcome.state.interaction().unwrap().id;
        let ada = thread.by("Ada");
        ada.checkpoint("here").await.unwrap();
        // The name in the request counts for nothing.
        let forged = Some(Principal::named("Bob"));
        let more = LimitRaised { iterations: Some(5), by: forged, ..LimitRaised::default() };
        ada.by(Principal::Terminal).raise(more).await.unwrap();
        ada.cancel_interaction(question).await.unwrap();
        assert_eq!(
            recorded(&thread).await,
            ["CHECKPOINT_CREATED Ada", "LIMIT_RAISED terminal", "USER_INTERACTION_FAILED Ada"]
        );
        world.end().await;
    });
}

#[test]
fn answers_of_the_handler_record_the_handler() {
    block_on(async {
        let store = std::sync::Arc::new(rethread::store::MemoryStore::new());
        let handler = Says(|_, _| async { Ok(true.into()) }.boxed());
        let world = World::with(store, &Tally::default(), |builder| builder.interaction_handler(handler)).await;
        let thread = world.start(&approval(), "7 €").await;
        thread.outcome().await.unwrap();
        assert_eq!(recorded(&thread).await, ["USER_INTERACTION_RESPONDED the interaction handler"]);
        world.end().await;
    });
}
