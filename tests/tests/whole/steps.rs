//! The results of a thread, node by node, from the library.

use rethread::errors::ReadError;
use rethread::steps::{CallKind, StepOutcome};
use rethread::{ForkRequest, Seq};

use crate::support::{World, block_on, llm, scripted, workflow};

#[test]
fn thread_reports_its_nodes_up_to_a_moment() {
    block_on(async {
        let world = World::new().await;
        let script = "{tool_calls: [{name: look, arguments: {text: a}}]}, {text: done}";
        let (thread, outcome) = world.run(&scripted("look", script), "go").await;
        let steps = thread.steps().await.unwrap();
        let result = steps.results().next().unwrap();
        assert_eq!((result.success, result.output.clone()), (Some(true), outcome.output.map(Into::into)));
        assert_eq!((result.metadata.llm_calls, result.metadata.tool_calls), (2, 1));
        let kinds: Vec<_> = result.calls().map(|call| call.kind).collect();
        assert_eq!(kinds, [CallKind::Model, CallKind::Tool, CallKind::Model]);

        let tool = result.calls().nth(1).unwrap().id;
        let then = thread.steps_at(tool.0).await.unwrap();
        let result = then.results().next().unwrap();
        assert_eq!((result.outcome, result.success, then.last_seq), (StepOutcome::Open, None, tool.0));
        assert!(matches!(thread.steps_at(Seq(10_000)).await, Err(ReadError::NoSeq { .. })));

        let fork = thread.fork(ForkRequest { at: Some(tool.0), ..ForkRequest::default() }).await.unwrap();
        fork.outcome().await.unwrap();
        let steps = fork.steps().await.unwrap();
        assert_eq!(steps.forked_from, [(thread.id(), tool.0)]);
        assert_eq!(steps.results().next().unwrap().metadata.llm_calls, 2, "what is inherited counts");
        world.end().await;
    });
}

#[test]
fn branch_reports_only_its_own_steps() {
    block_on(async {
        let world = World::new().await;
        let both = workflow(&format!(
            "nodes:\n- {}\n- id: both\n  parallel: {{branches: {{left: {{nodes: [{}]}}}}}}\n",
            llm("before", "", "{text: B}"),
            llm("l", "", "{text: L}"),
        ));
        let (thread, _) = world.run(&both, "go").await;
        let steps = thread.steps().await.unwrap();
        let nodes: Vec<_> = steps.results().map(|result| result.node.as_str()).collect();
        assert_eq!(nodes, ["before", "both", "both.join"]);
        let fork = steps.results().nth(1).unwrap();
        assert_eq!(fork.metadata.llm_calls, 1, "what its branches did counts");
        let branch = fork.calls().next().unwrap();
        assert_eq!((branch.kind, branch.name.as_deref()), (CallKind::Branch, Some("left")));
        let steps = thread.sibling(branch.thread.unwrap()).steps().await.unwrap();
        let nodes: Vec<_> = steps.results().map(|result| result.node.as_str()).collect();
        assert_eq!((nodes, steps.outcome), (vec!["l"], StepOutcome::Completed));
        world.end().await;
    });
}
