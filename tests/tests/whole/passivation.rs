//! Threads that have nothing to do are passivated, and reloaded.

use std::sync::Arc;

use rethread::store::MemoryStore;
use rethread::{Status, ThreadId};

use crate::interaction::approval;
use crate::support::{Tally, World, block_on, llm, workflow};

async fn world() -> World {
    World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
        builder.limits(|limits| limits.passivate_after_ms = 0)
    })
    .await
}

/// Waits until none is live, by the debug form of the runtime.
pub(crate) async fn all_passivated(world: &World) {
    while format!("{:?}", world.runtime) != "Runtime { n_live: 0, .. }" {
        tokio::task::yield_now().await;
    }
}

#[test]
fn passivated_thread_is_activated_by_an_answer() {
    block_on(async {
        let world = world().await;
        let (thread, outcome) = world.run(&approval(), "7 €").await;
        all_passivated(&world).await;
        thread.respond(outcome.state.interaction().unwrap().id, true).await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn passivated_thread_is_activated_at_its_deadline() {
    let soon = workflow(&format!(
        "nodes: [{{id: ask, on_error: work, user_interaction: {{operation_type: ADD_MESSAGE, prompt: 'Quick?', \
         timeout_ms: 50, message: {{role: user, content_template: '{{{{ input }}}}'}}}}}}, {}]",
        llm("work", "", "{text: without an answer}")
    ));
    block_on(async {
        let world = world().await;
        let (thread, _) = world.run(&soon, "go").await;
        assert_eq!(thread.outcome().await.unwrap().output.unwrap(), "without an answer");
        world.end().await;
    });
}

#[test]
fn hundreds_of_threads_are_passivated_and_activated() {
    block_on(async {
        let world = world().await;
        let mut threads = Vec::new();
        for _ in 0..300 {
            let (thread, outcome) = world.run(&approval(), "7 €").await;
            threads.push((thread, outcome.state.interaction().unwrap().id));
        }
        all_passivated(&world).await;
        let answered = threads.iter().map(|(thread, question)| async move {
            thread.respond(*question, true).await.unwrap();
            thread.outcome().await.unwrap().status
        });
        let statuses = futures::future::join_all(answered).await;
        assert!(statuses.iter().all(|status| *status == Status::Completed));
        world.end().await;
    });
}

#[test]
fn unknown_thread_is_reported_as_unknown() {
    block_on(async {
        let world = world().await;
        let nobody = world.runtime.thread(ThreadId::from_bytes([7; 16]));
        assert!(nobody.outcome().await.unwrap_err().to_string().starts_with("no thread"));
        assert!(nobody.pause(None).await.unwrap_err().to_string().starts_with("no thread"));
        assert!(nobody.wake().await.unwrap_err().to_string().starts_with("no thread"));
        world.end().await;
    });
}
