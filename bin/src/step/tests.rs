use std::sync::Arc;

use rethread::Runtime;
use rethread::store::MemoryStore;

use super::*;

const TWO: &str = "
version: '1'
name: two
nodes:
  - {id: one, llm: {provider: mock, model: m, user_prompt: 'first {{ input }}', extra: {script: {answers: [{text: uno}]}}}}
  - {id: two, llm: {provider: mock, model: m, user_prompt: second, extra: {script: {answers: [{text: dos}]}}}}
";

async fn walked() -> (Runtime, Walk) {
    let runtime = Runtime::builder().store(Arc::new(MemoryStore::new())).arbiters(1).start().await.unwrap();
    let workflow = rethread::parse_workflow(TWO.as_bytes()).unwrap();
    let thread = runtime.start_thread(workflow, "Ada").await.unwrap();
    thread.outcome().await.unwrap();
    let walk = Walk::begin(&thread, Seq(0)).await.unwrap();
    (runtime, walk)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn walk_moves_both_ways_by_node_and_stays_inside() {
    block_on(async {
        let (runtime, mut walk) = walked().await;
        walk.back().await.unwrap();
        assert_eq!(walk.seq(), Seq(0));
        let mut states = vec![walk.after.clone()];
        while walk.seq() < walk.last {
            walk.next().await.unwrap();
            states.push(walk.after.clone());
        }
        walk.next().await.unwrap();
        assert_eq!(walk.seq(), walk.last);
        for state in states.iter().rev() {
            assert_eq!(&walk.after, state, "the same states on the way back");
            walk.back().await.unwrap();
        }
        let mut nodes = Vec::new();
        for on in [true, true, true, false, false] {
            walk.node(on).await.unwrap();
            nodes.push((walk.seq().0, walk.after.node_name().unwrap().to_string()));
        }
        let (one, two) = ((1, "one".to_owned()), (7, "two".to_owned()));
        assert_eq!(nodes, [one.clone(), two.clone(), two, one.clone(), one], "it stays where there is no other");
        walk.go(Seq(999)).await.unwrap();
        assert_eq!(walk.seq(), walk.last);
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn screen_of_any_size_shows_event_changes_and_keys() {
    block_on(async {
        let (runtime, mut walk) = walked().await;
        walk.go(Seq(4)).await.unwrap();
        let screen = screen::of(&walk, None, 80, 30);
        assert_eq!(screen.len(), 30);
        let all = screen.join("\n");
        for part in
            ["LLM_CALL_COMPLETED 4 of", "running, node one", "~ usage.llm_calls: 0 → 1", "+ assistant uno", "q quit"]
        {
            assert!(all.contains(part), "{part}:\n{all}");
        }
        for (width, height) in [(10, 3), (40, 10), (200, 60)] {
            let screen = screen::of(&walk, Some("12"), width, height);
            assert!(screen.len() <= height.max(8), "{width} x {height}");
            assert!(screen.iter().all(|line| line.chars().count() <= width.max(21)), "{screen:?}");
        }
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn keys_match_the_help_line() {
    let of = |code, is_typing| action_of(KeyEvent::new(code, KeyModifiers::NONE), is_typing);
    assert_eq!(of(KeyCode::Char(' '), false), Action::Next);
    assert_eq!(of(KeyCode::Left, false), Action::Back);
    assert_eq!(of(KeyCode::Char('n'), false), Action::NextNode);
    assert_eq!(of(KeyCode::Char('g'), false), Action::Type);
    assert_eq!(of(KeyCode::Char('7'), true), Action::Digit('7'));
    assert_eq!(of(KeyCode::Char('7'), false), Action::Nothing);
    assert_eq!(of(KeyCode::Enter, true), Action::Go);
    assert_eq!(of(KeyCode::Esc, true), Action::Leave);
    assert_eq!(action_of(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), true), Action::Leave);
}
