//! Subscribing: what is there, then what comes, with no gap and no duplicate at the seam.

use futures::StreamExt;
use rethread::runs::PartialValues;
use rethread::{Event, ForkRequest, Position, Seq};

use crate::support::{World, block_on, print_log, scripted};

#[test]
fn late_subscriber_sees_every_event_once() {
    block_on(async {
        let world = World::new().await;
        let call = "{tool_calls: [{name: look, arguments: {text: x}}]}, ";
        let long = scripted("look", &format!("{}{{text: done}}", call.repeat(30)));
        for round in 0..20 {
            let thread = world.start(&long, "go").await;
            // Each begins at another moment of the run.
            let mut listeners = Vec::new();
            for n in 0..10 {
                let mut events = thread.events(Seq(n % 3));
                for _ in 0..round {
                    tokio::task::yield_now().await;
                }
                listeners.push(async move {
                    let mut seqs = Vec::new();
                    while let Some(event) = events.next().await {
                        seqs.push(event.unwrap().record.seq);
                    }
                    (n % 3, seqs)
                });
            }
            let heard = futures::future::join_all(listeners).await;
            let last = thread.outcome().await.unwrap().state.last_seq().unwrap();
            for (from, seqs) in heard {
                let all: Vec<_> = (from..=last.0).map(Seq).collect();
                assert_eq!(seqs, all, "the stream ends with the thread");
            }
        }
        world.end().await;
    });
}

#[test]
fn read_after_the_end_does_not_wait() {
    block_on(async {
        let world = World::new().await;
        let waits = scripted("wait_look", "{tool_calls: [{name: wait_look, arguments: {text: x}}]}, {text: done}");
        let thread = world.start(&waits, "go").await;
        world.tally.called("wait_look", 1).await;
        let mut after = thread.events(Seq(1_000));
        assert!(futures::poll!(after.next()).is_pending(), "the thread has not ended");
        let after = tokio::spawn(after.collect::<Vec<_>>());
        world.tally.gate().open();
        let last = thread.outcome().await.unwrap().state.last_seq().unwrap();
        assert!(after.await.unwrap().is_empty());
        assert_eq!(thread.events(last).collect::<Vec<_>>().await.len(), 1);
        assert!(thread.events(last.next()).collect::<Vec<_>>().await.is_empty());
        // A fork has events of its own after those that it inherits.
        let fork = thread.fork(ForkRequest { at: Some(Seq(last.0 - 1)), ..ForkRequest::default() }).await.unwrap();
        fork.outcome().await.unwrap();
        let own: Vec<_> = fork.events(last).map(Result::unwrap).collect().await;
        assert!(
            matches!(&own[..], [forked, ended] if matches!(forked.event, Event::ThreadForked(_)) && matches!(ended.event, Event::ThreadCompleted(_))),
            "{own:?}"
        );
        assert!(fork.events(last.next().next()).collect::<Vec<_>>().await.is_empty());
        world.end().await;
    });
}

#[test]
fn subscriber_of_the_log_sees_every_position_once() {
    block_on(async {
        let world = World::new().await;
        let workflow = scripted("look", "{tool_calls: [{name: look, arguments: {text: x}}]}, {text: done}");
        let mut events = world.runtime.events(Position(0), &[]).unwrap();
        let following = async {
            let (mut n_ended, mut next) = (0, 0);
            while n_ended < 100 {
                let event = events.next().await.unwrap().unwrap();
                assert_eq!(event.record.position.0, next);
                next += 1;
                n_ended += usize::from(matches!(event.event, Event::ThreadCompleted(_)));
            }
        };
        let running = async {
            let mut threads = Vec::new();
            for _ in 0..100 {
                threads.push(world.start(&workflow, "go").await);
            }
        };
        futures::join!(following, running);
        world.end().await;
    });
}

#[test]
fn slow_subscriber_blocks_nothing_and_misses_nothing() {
    block_on(async {
        let world = World::new().await;
        let call = "{tool_calls: [{name: look, arguments: {text: x}}]}, ";
        let long = scripted("look", &format!("{}{{text: done}}", call.repeat(49)));
        let mut slow = world.runtime.events(Position(0), &[]).unwrap();
        let mut n_read = 0;
        for _ in 0..20 {
            let thread = world.start(&long, "go").await;
            // It reads one event of each thread, and lags far when the thread ends.
            assert_eq!(slow.next().await.unwrap().unwrap().record.position, Position(n_read));
            n_read += 1;
            let last = thread.outcome().await.unwrap().state.last_seq().unwrap();
            let seen = thread.events(Seq(0)).collect::<Vec<_>>().await;
            assert_eq!(seen.len() as u64, last.0 + 1, "another subscriber has it all");
        }
        let n_events = world.store.next_position().0;
        assert!(n_events > 4_000, "{n_events}");
        while n_read < n_events {
            assert_eq!(slow.next().await.unwrap().unwrap().record.position, Position(n_read));
            n_read += 1;
        }
        world.end().await;
    });
}

#[test]
fn filter_passes_only_the_named_events() {
    block_on(async {
        let world = World::new().await;
        world.run(&scripted("", "{text: done}"), "go").await;
        let mut events = world.runtime.events(Position(0), &["NODE_STARTED", "THREAD_COMPLETED"]).unwrap();
        assert_eq!(events.next().await.unwrap().unwrap().name(), "NODE_STARTED");
        assert_eq!(events.next().await.unwrap().unwrap().name(), "THREAD_COMPLETED");
        let error = world.runtime.events(Position(0), &["NO_SUCH_EVENT"]).expect_err("there is none");
        assert!(error.to_string().contains("NO_SUCH_EVENT"), "{error}");
        world.end().await;
    });
}

#[test]
fn chunks_of_a_streamed_answer_add_up_to_it() {
    block_on(async {
        let world = World::new().await;
        let streamed = crate::support::workflow(
            "nodes: [{id: work, llm: {provider: mock, model: scripted, stream: true, user_prompt: '{{ input }}', \
             extra: {script: {answers: [{chunks: ['one ', 'two ', 'three'], chunk_delay_ms: 1}]}}}}]",
        );
        let thread = world.start(&streamed, "go").await;
        let mut pieces = String::new();
        let mut events = thread.events(Seq(0));
        while let Some(event) = events.next().await {
            match event.unwrap().event {
                Event::LlmExecutionProgress(piece) => pieces.push_str(&piece.text),
                Event::LlmCallCompleted(call) => assert_eq!(pieces, call.message.joined_text()),
                _ => {}
            }
        }
        assert_eq!(pieces, "one two three");
        assert!(print_log(&thread).await.contains("attempt 1: \"one "));
        world.end().await;
    });
}

#[test]
fn last_partial_value_of_a_streamed_answer_is_the_value() {
    block_on(async {
        let world = World::new().await;
        let streamed = crate::support::workflow(
            "nodes: [{id: work, llm: {provider: mock, model: scripted, stream: true, user_prompt: '{{ input }}', \
             output_schema: {required: [total], properties: {total: {type: number}, items: {type: array}}}, \
             extra: {script: {answers: [{chunks: ['{\"items\": [\"mi', 'lk\"], ', '\"total\": 4}'], chunk_delay_ms: 1}]}}}}]",
        );
        let thread = world.start(&streamed, "go").await;
        let mut values = PartialValues::default();
        let mut last = None;
        let mut events = thread.events(Seq(0));
        while let Some(event) = events.next().await {
            last = values.push(&event.unwrap().event).map(|partial| partial.value).or(last);
        }
        let output = thread.outcome().await.unwrap().output.unwrap();
        assert_eq!(last, Some(output.clone()));
        assert_eq!(output, serde_json::json!({"items": ["milk"], "total": 4}));
        world.end().await;
    });
}

#[test]
fn a_stream_ends_when_the_runtime_shuts_down() {
    block_on(async {
        let world = World::new().await;
        let waits = scripted("wait_look", "{tool_calls: [{name: wait_look, arguments: {text: x}}]}, {text: done}");
        let thread = world.start(&waits, "go").await;
        world.tally.called("wait_look", 1).await;
        let (mut of_thread, mut of_log) = (thread.events(Seq(0)), world.runtime.events(Position(0), &[]).unwrap());
        assert_eq!(of_thread.next().await.unwrap().unwrap().name(), "THREAD_STARTED");
        assert_eq!(of_log.next().await.unwrap().unwrap().name(), "THREAD_STARTED");
        let stopping = async {
            world.tally.gate().open();
            world.runtime.shutdown().await.unwrap();
        };
        let (of_thread, of_log, ()) =
            futures::join!(of_thread.collect::<Vec<_>>(), of_log.collect::<Vec<_>>(), stopping);
        assert!(of_thread.iter().chain(&of_log).all(Result::is_ok));
    });
}
