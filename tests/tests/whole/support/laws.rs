//! What holds for every log.

use std::collections::BTreeMap;

use rethread::operate::{LogAccess as _, UsageQuery};
use rethread::usage::{Callee, Purpose};
use rethread::{CallId, Event, Runtime, Seq, State, ThreadFilter, ThreadHandle, ThreadId, Time};
use rethread_events::thread::{Env, NoPeople, NoTools, NoWaits, Thread, Wait};
use rethread_tests::binary::HANG;

/// The fold of all events of a thread, made here.
pub(crate) async fn fold_of(thread: &ThreadHandle) -> State {
    let mut state = State::new(thread.id());
    for recorded in thread.recorded_events(Seq(0)).await.unwrap() {
        state.apply(recorded.record.recorded_at, &recorded.event).unwrap();
    }
    state
}

/// Checks all laws for all threads of a runtime: the log verifies; every prefix of every thread folds, to the state
/// that the runtime returns for that moment; a thread that has not ended wants an effect or waits; every call of one
/// that has ended has one terminal event.
pub(crate) async fn check_laws(runtime: &Runtime) {
    assert_eq!(runtime.store().verify().unwrap().faults, []);
    for summary in runtime.threads(ThreadFilter::default()).await.unwrap() {
        let thread = runtime.thread(summary.thread_id);
        check_prefixes(runtime, &thread).await;
        check_sums(runtime, &thread).await;
    }
}

/// The usage of the calls of a thread that has ended and of all its branches is its sum. A fork begins with the sums of its
/// parent, and a branch is part of its own.
async fn check_sums(runtime: &Runtime, thread: &ThreadHandle) {
    let state = thread.state().await.unwrap();
    if !state.is_ended() || state.forked_from().is_some() || !runtime.mode().runs() {
        return;
    }
    let limit = std::time::Instant::now() + HANG;
    let state = loop {
        let state = thread.state().await.unwrap();
        // One that never began spent nothing.
        let never_began = |child: &ThreadId| runtime.store().stream(*child).is_err();
        if state.uncounted_branches().keys().all(never_began) {
            break state;
        }
        assert!(std::time::Instant::now() < limit, "a branch is not counted: {:?}", state.uncounted_branches());
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    };
    let (mut n_calls, mut tokens, mut cost, mut query) = (0, 0, 0, UsageQuery::default());
    loop {
        let page = thread.family_usage(query.clone()).await.unwrap();
        for call in &page.calls {
            if let Callee::Model(model) = &call.callee {
                // A verdict or a summary that cannot be used was answered.
                n_calls += u64::from(call.error.is_none() || model.purpose != Purpose::Answer);
                tokens += model.usage.tokens();
                cost += model.cost_nanousd.unwrap_or(0);
            }
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let totals = state.totals();
    let sums = (totals.n_llm_calls, totals.tokens(), totals.cost_nanousd.unwrap_or(0));
    assert_eq!(sums, (n_calls, tokens, cost), "the sums of {} are not those of its calls", thread.id());
}

async fn check_prefixes(runtime: &Runtime, thread: &ThreadHandle) {
    let events = thread.recorded_events(Seq(0)).await.unwrap();
    let mut state = State::new(thread.id());
    let mut calls = BTreeMap::new();
    for (i, recorded) in events.iter().enumerate() {
        assert_eq!(recorded.record.seq, Seq(i as u64), "seqs have no gap");
        state.apply(recorded.record.recorded_at, &recorded.event).unwrap();
        follow_call(&mut calls, recorded.record.seq, &recorded.event);
        check_owed(runtime, &state);
        // Long logs are compared here and there.
        if i % (1 + events.len() / 50) == 0 || i + 1 == events.len() {
            assert_eq!(state, thread.state_at(recorded.record.seq).await.unwrap(), "the state at {i}");
        }
    }
    if let Some(last) = state.last_seq() {
        let again = thread.rerun_to(last, None).await.unwrap();
        assert_eq!(again.diverged(), None, "with its recorded answers it does again what it did");
    }
    let open: Vec<_> = calls.iter().filter(|(_, n_ends)| **n_ends == 0).map(|(call, _)| *call).collect();
    if state.is_ended() {
        assert_eq!(open, [], "calls of an ended thread without a terminal event");
    }
    assert!(calls.values().all(|n_ends| *n_ends <= 1), "a call with two terminal events");
}

fn check_owed(runtime: &Runtime, state: &State) {
    let Some(reference) = state.workflow() else { return };
    let definition = runtime.store().blob(reference.hash).unwrap();
    let definition = rethread::Workflow::from_json(std::str::from_utf8(&definition).unwrap()).unwrap();
    let machine = Thread::resume(state.clone(), definition.into());
    let around = Env { now: Time::from_unix_us(u64::MAX / 2), tools: &NoTools, models: &NoPeople, permits: &NoWaits };
    match machine.waits_for(&around) {
        Wait::Nothing => assert!(state.is_ended()),
        Wait::Itself | Wait::Person { .. } => {}
        Wait::World { .. } => assert!(!state.effects().is_empty(), "not ended, and owes nothing: {state:?}"),
    }
}

fn follow_call(calls: &mut BTreeMap<CallId, usize>, seq: Seq, event: &Event) {
    let ended = match event {
        Event::LlmCallRequested(_)
        | Event::ToolExecutionRequest(_)
        | Event::UserInteractionRequested(_)
        | Event::WaitStarted(_)
        | Event::SignalAwaited(_)
        | Event::ChildStartRequested(_)
        | Event::ThreadAwaited(_) => {
            calls.insert(CallId(seq), 0);
            return;
        }
        Event::LlmCallCompleted(e) => e.call_id,
        Event::LlmCallFailed(e) => e.call_id,
        Event::ToolExecutionCompleted(e) => e.call_id,
        Event::ToolExecutionFailed(e) => e.call_id,
        Event::UserInteractionProcessed(e) => e.interaction_id,
        Event::UserInteractionFailed(e) => e.interaction_id,
        Event::WaitCompleted(e) => e.wait_id,
        Event::WaitFailed(e) => e.wait_id,
        Event::SignalReceived(e) => e.wait_id,
        Event::AwaitedThreadEnded(e) => e.wait_id,
        Event::ChildStarted(e) => e.call_id,
        Event::ChildStartFailed(e) => e.call_id,
        _ => return,
    };
    *calls.get_mut(&ended).expect("a terminal event of a call that was never asked for") += 1;
}
