//! Threads run again with their recorded answers.

use std::fs::File;
use std::io::{BufReader, Cursor};

use rethread::{ForkRequest, Seq};

use crate::interaction::approval;
use crate::support::{World, block_on, llm, scripted, workflow};

#[test]
fn family_is_rerun_and_the_differing_branch_is_named() {
    block_on(async {
        let world = World::new().await;
        let both = |prompt: &str| {
            workflow(&format!(
                "nodes:\n- id: both\n  parallel: {{branches: {{left: {{nodes: [{}]}}, right: {{nodes: [{}]}}}}}}\n",
                llm("l", "look", "{tool_calls: [{name: look, arguments: {text: a}}]}, {text: L}"),
                llm("r", "", "{text: R}").replace("{{ input }}", prompt),
            ))
        };
        let (thread, _) = world.run(&both("{{ input }}"), "go").await;
        let again = thread.rerun(None).await.unwrap();
        assert_eq!((again.threads.len(), again.diverged()), (3, None));

        let again = thread.rerun(Some(both("another {{ input }}"))).await.unwrap();
        let diverged = again.diverged().unwrap();
        assert_ne!(diverged.thread, thread.id(), "it is the branch that differs");
        assert!(diverged.why.contains("`prompt` was \"go\" and is \"another go\""), "{}", diverged.why);
        assert_eq!(world.tally.of("look"), (1, 1), "no tool is called");
        world.end().await;
    });
}

#[test]
fn an_export_is_run_again_without_a_runtime() {
    block_on(async {
        let world = World::new().await;
        let (asks, outcome) = world.run(&approval(), "7 €").await;
        asks.respond(outcome.state.interaction().unwrap().id, true).await.unwrap();
        asks.outcome().await.unwrap();
        let (thread, _) = world.run(&scripted("pay", "{tool_calls: [{name: pay}]}, {text: done}"), "go").await;
        let fork = thread.fork(ForkRequest { at: Some(Seq(5)), ..ForkRequest::default() }).await.unwrap();
        fork.outcome().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("export.jsonl");
        let mut exporter = world.runtime.exporter(File::create(&file).unwrap());
        for thread in [asks.id(), fork.id()] {
            exporter.thread(thread).await.unwrap();
        }
        exporter.finish().await.unwrap();
        world.end().await;
        let export = || BufReader::new(File::open(&file).unwrap());
        let again = rethread::operate::rerun(export(), None).unwrap();
        assert_eq!((again.threads.len(), again.diverged()), (3, None), "the fork's parent is in it");
        let other = scripted("pay", "{text: done}");
        assert!(rethread::operate::rerun(export(), Some((*other).clone())).unwrap().diverged().is_some());
        assert!(rethread::operate::rerun(Cursor::new("no export\n"), None).is_err());
    });
}
