//! Named places in the log, from which a subscriber goes on after a restart.

use futures::StreamExt;
use rethread::Position;

use crate::support::{Tally, World, block_on, disk, scripted};

#[test]
fn a_subscriber_goes_on_where_it_saved_its_place() {
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
        // One event more, so that the stream is seen to go on.
        world.run(&workflow, "go").await;
        let positions = seen(&world, from, second.last_position.next()).await;
        let all: Vec<_> = (from.0..=second.last_position.0).map(Position).collect();
        assert_eq!(positions, all);
        assert_eq!(world.runtime.cursor("audit").await.unwrap(), None, "each name has its own place");
        world.end().await;
    });
}
