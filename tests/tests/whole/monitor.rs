//! Hooks that are called after the append.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rethread::monitor::{LlmCall, Moment, TokenUsage, ToolCall};
use rethread::store::MemoryStore;
use rethread::usage::Purpose;
use rethread::{Monitor, Seq, Status, ThreadId};

use crate::support::{Gate, Tally, World, block_on, llm, scripted, workflow};

/// Writes down what it was called for.
#[derive(Default)]
struct Notes(Mutex<Vec<(ThreadId, Seq, String)>>);

impl Notes {
    fn note(&self, moment: &Moment, what: String) {
        self.0.lock().push((moment.thread, moment.seq, what));
    }

    fn of(&self, thread: ThreadId) -> Vec<(Seq, String)> {
        let notes = self.0.lock();
        notes.iter().filter(|note| note.0 == thread).map(|(_, seq, what)| (*seq, what.clone())).collect()
    }
}

impl Monitor for Notes {
    fn on_llm_call(&self, moment: &Moment, call: LlmCall<'_>) {
        self.note(
            moment,
            match call {
                LlmCall::Completed(e) => format!("llm {}", e.call_id),
                LlmCall::Failed(e) => format!("llm failed {}", e.error.kind),
            },
        );
    }

    fn on_tool_call(&self, moment: &Moment, call: ToolCall<'_>) {
        self.note(
            moment,
            match call {
                ToolCall::Completed(request, _) => format!("tool {}", request.unwrap().name),
                ToolCall::Failed(request, e) => format!("tool {} {}", request.unwrap().name, e.error.kind),
            },
        );
    }

    fn on_token_usage(&self, moment: &Moment, usage: &TokenUsage<'_>) {
        assert!(usage.usage.input_tokens.is_some());
        self.note(moment, format!("{:?}", usage.purpose));
        if usage.purpose == Purpose::Summary {
            self.note(moment, "for a summary".into());
        }
    }

    fn on_context_summarized(&self, moment: &Moment, summarized: &rethread::event::ContextSummarized) {
        self.note(moment, format!("summarized {}", summarized.messages.len()));
    }
}

async fn world(monitors: Vec<Arc<dyn Monitor>>) -> World {
    World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
        monitors.into_iter().fold(builder, rethread::RuntimeBuilder::monitor)
    })
    .await
}

async fn until(done: impl Fn() -> bool) {
    for _ in 0..24_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it does not come")
}

#[test]
fn hooks_are_called_in_order_for_recorded_events() {
    block_on(async {
        let notes = Arc::new(Notes::default());
        let world = world(vec![notes.clone()]).await;
        let script = "{tool_calls: [{name: look, arguments: {text: a}}]}, \
                      {tool_calls: [{name: fail, arguments: {text: b}}]}, {error: {kind: quota, message: none}}";
        let (thread, outcome) = world.run(&scripted("look, fail", script), "go").await;
        assert_eq!(outcome.status, Status::Error);
        world.end().await;
        let told = notes.of(thread.id());
        let texts: Vec<_> = told.iter().map(|(_, what)| what.as_str()).collect();
        let expected = ["llm 3", "Answer", "tool look", "llm 7", "Answer", "tool fail failed", "llm failed quota"];
        assert_eq!(texts, expected);
        assert!(told.is_sorted_by_key(|(seq, _)| *seq));
    });
}

#[test]
fn summaries_and_verdicts_are_reported_to_monitors() {
    block_on(async {
        let notes = Arc::new(Notes::default());
        let world = world(vec![notes.clone()]).await;
        let long = "x y z ".repeat(400);
        let first = llm("first", "", &format!("{{text: '{long}'}}"));
        let second = llm("second", "", "{text: done}");
        let text = format!(
            "summary: {{token_limit: 100, provider: mock, model: m, extra: {{script: {{answers: [{{text: short}}]}}}}}}\n\
             judge: {{provider: mock, model: m, extra: {{script: {{answers: [{{text: 'yes'}}]}}}}}}\n\
             nodes: [{first}, {second}, {{id: last, end: {{}}}}]\n\
             edges: [{{from: first, to: second}}, {{from: second, to: last, judge: Is it done?}}, {{from: second, to: last}}]"
        );
        let (thread, outcome) = world.run(&workflow(&text), "go").await;
        assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.error);
        world.end().await;
        let told = notes.of(thread.id());
        let texts: Vec<_> = told.iter().map(|(_, what)| what.as_str()).collect();
        assert_eq!(
            texts,
            ["llm 3", "Answer", "Summary", "for a summary", "summarized 3", "llm 12", "Answer", "Verdict"]
        );
    });
}

/// Waits until it is let go, or falls over.
struct Bad {
    gate: Gate,
    panics: bool,
}

impl Monitor for Bad {
    fn on_llm_call(&self, _moment: &Moment, _call: LlmCall<'_>) {
        assert!(!self.panics, "a hook that is broken");
        futures::executor::block_on(self.gate.pass());
    }
}

#[test]
fn stuck_or_panicking_hook_blocks_nothing_and_is_counted() {
    block_on(async {
        let (gate, notes) = (Gate::default(), Arc::new(Notes::default()));
        let hangs = Arc::new(Bad { gate: gate.clone(), panics: false });
        let panics = Arc::new(Bad { gate: gate.clone(), panics: true });
        let world = world(vec![hangs, panics, notes.clone()]).await;
        for _ in 0..5 {
            let (_, outcome) = world.run(&scripted("", "{text: hi}"), "go").await;
            assert_eq!(outcome.status, Status::Completed);
        }
        until(|| notes.0.lock().len() == 10).await;
        until(|| world.runtime.monitor_stats()[1].unread == 0).await;
        let [hangs, panics, notes] = world.runtime.monitor_stats()[..] else { panic!() };
        assert_eq!((panics.called, panics.panicked), (10, 5));
        assert_eq!((notes.called, notes.panicked, notes.unread), (10, 0, 0));
        assert_eq!(hangs.called, 1);
        assert!(hangs.unread > 20, "{hangs:?}");
        // What waited is reported later: nothing is dropped.
        gate.open();
        until(|| world.runtime.monitor_stats()[0].unread == 0).await;
        assert_eq!(world.runtime.monitor_stats()[0].called, 10);
        world.end().await;
    });
}

#[test]
fn shutdown_waits_for_a_hook_up_to_its_grace_time() {
    block_on(async {
        let hangs = Arc::new(Bad { gate: Gate::default(), panics: false });
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.monitor(hangs).limits(|limits| limits.shutdown_grace_ms = 50)
        })
        .await;
        world.run(&scripted("", "{text: hi}"), "go").await;
        let runtime = world.runtime.clone();
        let began = std::time::Instant::now();
        world.end().await;
        assert!(began.elapsed() < Duration::from_secs(120));
        assert!(runtime.monitor_stats()[0].unread > 0);
    });
}
