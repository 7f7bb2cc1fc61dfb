//! Named values of the log: positions from which a subscriber continues, definitions of workflows.

use futures::StreamExt;
use rethread::{Event, Position, Seq, Status};

use crate::support::{Tally, World, block_on, disk, llm, scripted, workflow};

#[test]
fn subscriber_resumes_at_its_stored_position() {
    let folder = tempfile::tempdir().unwrap();
    let workflow = scripted("", "{text: done}");
    let seen = |world: &World, from: Position, until: Position| {
        let events = world.runtime.events(from, &[]).unwrap();
        events
            .map(|event| event.unwrap().record.position)
            .take_while(move |position| futures::future::ready(*position < until))
            .collect::<Vec<_>>()
    };
    block_on(async {
        let world = World::on(disk(folder.path()), &Tally::default()).await;
        assert_eq!(world.runtime.cursor("bill").await.unwrap(), None);
        let (_, first) = world.run(&workflow, "go").await;
        world.runtime.save_cursor("bill", first.last_position.next()).await.unwrap();
        let (_, second) = world.run(&workflow, "go").await;
        world.end().await;

        let world = World::on(disk(folder.path()), &Tally::default()).await;
        let from = world.runtime.cursor("bill").await.unwrap().unwrap();
        assert_eq!(from, first.last_position.next());
        // One more event, which shows that the stream continues.
        world.run(&workflow, "go").await;
        let positions = seen(&world, from, second.last_position.next()).await;
        let all: Vec<_> = (from.0..=second.last_position.0).map(Position).collect();
        assert_eq!(positions, all);
        assert_eq!(world.runtime.cursor("audit").await.unwrap(), None, "each name has its own place");
        world.end().await;
    });
}

#[test]
fn a_thread_finishes_on_the_definition_it_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let says = |text: &str| {
        let ask = "{id: ask, user_interaction: {operation_type: ADD_MESSAGE, prompt: 'And now?', \
                   message: {role: user, content_template: '{{ input }}'}}}";
        workflow(&format!("nodes: [{ask}, {}]", llm("say", "", &format!("{{text: {text}}}"))))
    };
    let (old, new) = (says("old"), says("new"));
    assert!(old.name() == new.name() && old.hash() != new.hash());
    block_on(async {
        let world = World::on(disk(folder.path()), &Tally::default()).await;
        let (thread, outcome) = world.run(&old, "go").await;
        assert_eq!(outcome.status, Status::Waiting);
        assert!(world.runtime.put_workflow(new.clone()).await.unwrap());
        let id = thread.id();
        drop(thread);
        world.end().await;

        let world = World::on(disk(folder.path()), &Tally::default()).await;
        let thread = world.runtime.thread(id);
        let question = thread.state().await.unwrap().interaction().unwrap().id;
        thread.respond(question, "go on").await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().output, Some("old".into()));
        let first = thread.recorded_events(Seq(0)).await.unwrap().remove(0).event;
        assert!(matches!(first, Event::ThreadStarted(started) if started.workflow.hash == old.hash()));
        // Who starts by name gets the newest.
        let newest = world.runtime.workflow_versions(new.name()).await.unwrap().unwrap().newest();
        assert_eq!(newest, Some(new.hash()));
        world.end().await;
    });
}
