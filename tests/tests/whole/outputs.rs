//! A model gets head and tail of a long output; all of it is in the log.

use std::sync::Arc;

use rethread::event::ToolExecutionCompleted;
use rethread::store::MemoryStore;
use rethread::tools::built_in;
use rethread::{Event, Hash, RuntimeBuilder, Status, ThreadHandle, Tool, ToolContext, Workflow};

use crate::support::{Nothing, Tally, World, block_on, disk, llm, scripted, workflow};

/// This many lines, of which a model gets 300 bytes.
fn long(n_lines: usize) -> Tool {
    Tool::from_fn("long", "Says much.", move |_: Nothing, _: ToolContext| async move {
        Ok((0..n_lines).map(|i| format!("line {i}\n")).collect::<String>())
    })
    .output_bytes_max(300)
}

fn text(n_lines: usize) -> String {
    (0..n_lines).map(|i| format!("line {i}\n")).collect()
}

fn with_long(builder: RuntimeBuilder) -> RuntimeBuilder {
    builder.tool(long(2_000)).tool(built_in::read_output())
}

fn id() -> Hash {
    Hash::of(text(2_000).as_bytes())
}

/// The model calls `long`, then reads from the middle of what it said.
fn reads_on() -> Arc<Workflow> {
    let read = format!("{{name: read_output, arguments: {{id: '{}', offset: 12000, limit: 20}}}}", id());
    scripted(
        "long, read_output",
        &format!("{{tool_calls: [{{name: long, arguments: {{}}}}]}}, {{tool_calls: [{read}]}}, {{text: done}}"),
    )
}

async fn completed(thread: &ThreadHandle) -> Vec<ToolExecutionCompleted> {
    let events = thread.recorded_events(rethread::Seq(0)).await.unwrap();
    let of_tool = events.into_iter().filter_map(|event| match event.event {
        Event::ToolExecutionCompleted(e) => Some(e),
        _ => None,
    });
    of_tool.collect()
}

#[test]
fn whole_long_answer_is_in_the_log_and_readable_by_the_model() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), with_long).await;
        let (thread, outcome) = world.run(&reads_on(), "go").await;
        assert_eq!(outcome.status, Status::Completed);
        let [long, read] = &completed(&thread).await[..] else { panic!() };
        assert_eq!(long.full_output, Some(id()));
        let shown = long.content[0].as_text().unwrap();
        assert!(shown.len() < 600 && shown.contains(&format!("read_output with id {}", id())), "{shown}");
        assert_eq!(world.store.blob(id()).unwrap(), text(2_000).as_bytes());
        assert_eq!(read.full_output, None);
        let part = read.content[0].as_text().unwrap();
        assert!(part.contains(&text(2_000)[12_000..12_020]), "{part}");
        world.end().await;
    });
}

#[test]
fn whole_output_survives_a_restart_and_ends_with_its_thread() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let tally = Tally::default();
        let world = World::with(disk(folder.path()), &tally, with_long).await;
        let asks = "{id: ask, user_interaction: {operation_type: ADD_MESSAGE, prompt: more?, message: {role: user, \
                    content_template: '{{ input }}'}}}";
        let one = llm("one", "long", "{tool_calls: [{name: long, arguments: {}}]}, {text: done}");
        let read = format!("{{name: read_output, arguments: {{id: '{}', offset: 18000}}}}", id());
        let two = llm("two", "read_output", &format!("{{tool_calls: [{read}]}}, {{text: done}}"));
        let (thread, outcome) = world.run(&workflow(&format!("nodes: [{one}, {asks}, {two}]")), "go").await;
        let (thread, question) = (thread.id(), outcome.state.interaction().unwrap().id);
        world.end().await;

        // The next process reads on where the first one left it, and so does a fork.
        let world = World::with(disk(folder.path()), &tally, with_long).await;
        let back = world.runtime.thread(thread);
        let fork = back.fork(rethread::ForkRequest::default()).await.unwrap();
        for one in [&back, &fork] {
            one.respond(question, "go on").await.unwrap();
            assert_eq!(one.outcome().await.unwrap().status, Status::Completed);
            let last = completed(one).await.pop().unwrap();
            assert!(last.content[0].as_text().unwrap().contains("line 1999"), "{last:?}");
        }

        // An export has it, and an import gives it to the thread again.
        let file = tempfile::NamedTempFile::new().unwrap();
        world.runtime.export(thread, file.reopen().unwrap()).await.unwrap();
        let elsewhere = World::new().await;
        elsewhere.runtime.import(std::io::BufReader::new(file.reopen().unwrap())).await.unwrap();
        assert_eq!(elsewhere.store.blob(id()).unwrap(), text(2_000).as_bytes());
        elsewhere.runtime.thread(thread).delete().await.unwrap();
        elsewhere.store.blob(id()).unwrap_err();
        elsewhere.end().await;

        fork.delete().await.unwrap();
        assert!(world.store.blob(id()).is_ok(), "the other thread has it still");
        back.delete().await.unwrap();
        world.store.blob(id()).unwrap_err();
        world.end().await;
    });
}

#[test]
fn thread_reads_no_output_of_another_thread() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), with_long).await;
        world.run(&reads_on(), "go").await;
        let read = |id: Hash| format!("{{name: read_output, arguments: {{id: '{id}'}}}}");
        // Of another thread, of none, and one that is a definition of a workflow.
        let others = [id(), Hash::of(b"nothing"), reads_on().hash()].map(read).join(", ");
        let script = format!("{{tool_calls: [{others}]}}, {{text: done}}");
        let (thread, _) = world.run(&scripted("read_output", &script), "go").await;
        assert_eq!(completed(&thread).await, []);
        let said = thread.state().await.unwrap().to_json()["messages"].to_string();
        assert_eq!(said.matches("no tool of this thread answered with such an output").count(), 3, "{said}");
        world.end().await;
    });
}
