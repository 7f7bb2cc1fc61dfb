//! A conversation that outgrows its limit again and again, counted with a real tokenizer.

use std::sync::Arc;

use rethread::llm::tokens::Counter;
use rethread::store::MemoryStore;
use rethread::{Event, Role, Seq, Status};

use crate::support::{Tally, World, block_on, workflow};

/// Counted tokens that may be sent.
const LIMIT: u64 = 1_500;
/// How often the model uses its tool.
const N_CALLS: usize = 40;

fn text(i: usize) -> String {
    format!("result {i}: {}", "several words of no great interest, ".repeat(20))
}

#[test]
fn real_tokenizer_decides_before_each_call_about_summaries() {
    // What the script says next depends on what the model has read last: summaries change how much was said before.
    let looks = |after: &str, i| {
        format!("{{match: '{after}', tool_calls: [{{name: look, arguments: {{text: '{}'}}}}]}}", text(i))
    };
    let first = looks("What is there", 0);
    let calls: Vec<_> = (1..N_CALLS).map(|i| looks(&format!("result {}:", i - 1), i)).collect();
    let node = format!(
        "nodes: [{{id: work, llm: {{provider: mock, model: gpt-4o, user_prompt: '{{{{ input }}}}', tool_mode: auto, \
         available_tools: [look], max_iterations: 100, extra: {{script: {{answers: [{first}, {}, {{match: 'result {}:', text: done}}]}}}}}}}}]\n\
         summary: {{token_limit: {LIMIT}, provider: mock, model: gpt-4o, extra: {{script: {{answers: [{}]}}}}}}",
        calls.join(", "),
        N_CALLS - 1,
        "{text: It looked at things.}",
    );
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| builder).await;
        let (thread, outcome) = world.run(&workflow(&node), "What is there to see?").await;
        assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.error);
        let counter = Counter::for_model("gpt-4o");
        let (mut n_calls, mut n_summarized, mut originals) = (0, 0, 0);
        for event in thread.recorded_events(Seq(0)).await.unwrap() {
            match &event.event {
                Event::LlmCallRequested(_) => {
                    n_calls += 1;
                    let request = thread.state_at(event.record.seq).await.unwrap().model_request().unwrap();
                    let tokens: u64 = request.messages.iter().map(|message| counter.message(message)).sum();
                    assert!(tokens <= LIMIT, "{tokens} tokens at {}", event.record.seq);
                    let users = request.messages.iter().filter(|message| message.role == Role::User);
                    assert!(users.into_iter().any(|message| message.joined_text() == "What is there to see?"));
                }
                Event::ContextSummarized(e) => {
                    n_summarized += 1;
                    assert!(
                        e.tokens_before > LIMIT && e.tokens_after <= LIMIT,
                        "{} {}",
                        e.tokens_before,
                        e.tokens_after
                    );
                }
                Event::ToolExecutionCompleted(e) => {
                    assert_eq!(e.content[0].as_text().unwrap(), text(originals));
                    originals += 1;
                }
                _ => {}
            }
        }
        assert_eq!((n_calls, originals), (N_CALLS + 1, N_CALLS));
        assert!(n_summarized > 3, "{n_summarized} times");
        world.end().await;
    });
}
