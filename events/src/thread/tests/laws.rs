//! What holds for every thread, whatever happened to it.

use std::collections::BTreeMap;

use super::*;
use crate::event::{
    AskedTool, CheckedContent, Decision, FoldRole, GuardrailCompleted, GuardrailOutcome, Hook, MessageEffect,
    OperationType, RunSource, ThreadForked, UserInteractionProcessed, WarningCode,
};
use crate::ids::{RunId, ThreadId};
use crate::steps::{NodeResult, Steps};
use crate::thread::rerun::Rerun;
use crate::usage::{Callee, Ended, Purpose, UsageFold};

/// Checks all laws on the log and the live state.
pub(super) fn hold(bench: &Bench) {
    let mut state = State::new(bench.state().thread());
    let fork = ThreadId::new(1, [0xf0; 10]);
    let mut of_fork = State::new(fork);
    // Snapshots of every prefix of a long log would cost its square.
    let stride = bench.log.len() / 200 + 1;
    for (i, (at, event)) in bench.log.iter().enumerate() {
        let stored = stored_and_back(event);
        let before = state.clone();
        the_loop_has_read_what_was_said(bench, &before, event);
        answers_fit_their_schemas(&before, event);
        state.apply(*at, &stored).unwrap_or_else(|e| panic!("{}\n{e}", bench.out));
        of_fork.apply(*at, &stored).unwrap();
        what_is_queued_begins_once_or_is_called_off(&before, &state, event);
        if event.event_type().weight == FoldRole::Informational {
            informational_events_change_nothing(&before, &state);
        }
        if i % stride == 0 || i + 1 == bench.log.len() {
            owes_or_waits(bench, &state);
            snapshots_come_back(&state);
            executors_receive_recorded_requests(bench, &state);
            if let Some(inherited) = state.clone().inherited_by(fork) {
                assert_eq!(inherited, of_fork, "a fork that inherits all this has another state");
            }
            every_tool_call_has_one_result(&state);
        }
    }
    assert_eq!(&state, bench.state(), "the fold of the log is not the live state");
    assert_eq!(bench.thread.effects(), bench.thread.effects());
    every_call_ends_once(bench);
    what_needs_approval_runs_with_it_only(bench);
    what_wrote_is_never_repeated(bench);
    a_message_is_read_or_a_warning_names_it(bench);
    hooks_run_once(bench);
    the_results_of_nodes_add_up(bench);
    it_runs_again_as_it_ran(bench);
}

fn stored_and_back(event: &Event) -> Event {
    let kind = event.event_type();
    let stored = Event::decode(kind.code, kind.version, &event.encode().unwrap()).unwrap();
    assert_eq!(&stored, event);
    assert_eq!(&Event::from_data(kind.name, event.data().unwrap()).unwrap(), event);
    stored
}

fn informational_events_change_nothing(before: &State, after: &State) {
    let mut expected = before.clone();
    expected.next = after.next;
    expected.last_at = after.last_at;
    assert_eq!(&expected, after);
}

fn owes_or_waits(bench: &Bench, state: &State) {
    let thread = Thread::resume(state.clone(), bench.definition_of(state));
    let owes = match thread.waits_for(&bench.around()) {
        Wait::Nothing => state.is_ended(),
        Wait::Itself | Wait::Person { .. } => true,
        Wait::World { until } => until.is_some() || !thread.effects().is_empty(),
    };
    assert!(owes, "owes nothing and waits for nobody: {:?}", state.phase());
}

fn snapshots_come_back(state: &State) {
    let bytes = crate::codec::encode(state).unwrap();
    assert_eq!(&crate::codec::decode::<State>(&bytes).unwrap(), state);
}

fn executors_receive_recorded_requests(bench: &Bench, state: &State) {
    for effect in state.effects() {
        if let Effect::CallTool(run) = effect {
            let (_, recorded) = &bench.log[usize::try_from(run.call.0.0).unwrap()];
            assert_eq!(recorded, &Event::from(run.into_request(state.node_name().cloned())));
        }
    }
}

/// An agent loop does not end with an answer while the user has said more and it may call the model again.
fn the_loop_has_read_what_was_said(bench: &Bench, before: &State, event: &Event) {
    if let (Event::LlmExecutionCompleted(_), Some(NodeRun { work: Work::Llm(agent_loop), .. })) =
        (event, before.node_run())
    {
        let has_unread = before.conversation().has_unread();
        assert!(!has_unread || agent_loop.is_at_limit(), "the loop ends with a message unread\n{}", bench.out);
    }
}

/// An agent loop with a schema ends with a value that fits it, and rejects no more answers than it may.
fn answers_fit_their_schemas(before: &State, event: &Event) {
    let Some(NodeRun { work: Work::Llm(agent_loop), .. }) = before.node_run() else { return };
    let output = agent_loop.request.output.as_ref();
    if let Event::LlmExecutionCompleted(e) = event {
        assert_eq!(e.value.is_some(), output.is_some());
        if let (Some(value), Some(output)) = (&e.value, output) {
            crate::schema::check(&crate::schema::compile(&output.schema.0).unwrap(), &value.0, "output").unwrap();
        }
    } else if let Event::AnswerRejected(e) = event {
        assert!(e.attempt <= output.unwrap().max_repairs && !e.faults.is_empty());
    }
}

/// A thread that completes has called a model after every message of the user that it took, or warns of it.
fn a_message_is_read_or_a_warning_names_it(bench: &Bench) {
    let mut unread = false;
    for (_, event) in &bench.log {
        match event {
            Event::MessageAdded(e) if e.effect == MessageEffect::Add => unread |= e.message.role == Role::User,
            Event::Warning(e) if e.code == WarningCode::UnreadMessage => unread = false,
            // What a processor takes out of the conversation is there no more.
            Event::LlmCallRequested(_) | Event::ContextProcessed(_) | Event::ThreadForked(_) => unread = false,
            Event::ThreadCompleted(_) => assert!(!unread, "a message was not read\n{}", bench.out),
            _ => {}
        }
    }
}

/// A run has each hook once at most, and ends as its first hook says it will. One that completes has run `finally`.
/// A branch has none.
fn hooks_run_once(bench: &Bench) {
    let mut ending = None;
    let mut begun = Vec::new();
    if bench.state().branch().is_some() {
        return;
    }
    for (_, event) in &bench.log {
        match event {
            Event::HookStarted(e) => {
                assert!(!begun.contains(&e.hook), "hook {} ran twice\n{}", e.hook, bench.out);
                assert_eq!(ending.get_or_insert(e.ending.status()), &e.ending.status());
                begun.push(e.hook);
            }
            Event::ThreadCompleted(_) => {
                assert!(matches!(ending, None | Some("completed")), "{}", bench.out);
                let has_it = bench.begun_on.spec().finally.is_some();
                assert!(!has_it || begun == [Hook::Finally], "`finally` did not run\n{}", bench.out);
            }
            Event::ThreadCancelled(_) => assert!(matches!(ending, None | Some("cancelled")), "{}", bench.out),
            Event::RunStarted(_) => {
                ending = None;
                begun.clear();
            }
            _ => {}
        }
    }
}

/// A run that was queued begins once, is called off, or waits. A message that steers is read by a model, begins a run, is
/// called off, is rejected by a guardrail, or waits. A fork leaves both to the thread that it forked off from.
fn what_is_queued_begins_once_or_is_called_off(before: &State, after: &State, event: &Event) {
    let queued = |state: &State| state.queued_runs().iter().map(|run| run.id).collect::<Vec<_>>();
    let steering = |state: &State| state.waiting_messages().collect::<Vec<_>>();
    let (mut queue, mut unread) = (queued(before), steering(before));
    let own = RunId(before.next_seq());
    match event {
        Event::RunQueued(e) => queue.push(e.run_id),
        Event::MessageAdded(e) if e.effect != MessageEffect::Add => unread.push(own),
        Event::RunStarted(e) => match e.from {
            RunSource::Input => assert_eq!(e.run_id, own),
            RunSource::Queue => assert_eq!(e.run_id, queue.remove(0)),
            RunSource::Unread => {
                assert_eq!(e.run_id, unread[0]);
                unread.clear();
            }
        },
        Event::RunCancelled(e) => {
            let n = queue.len() + unread.len();
            queue.retain(|run| *run != e.run_id);
            unread.retain(|run| *run != e.run_id);
            assert_eq!(queue.len() + unread.len() + 1, n);
        }
        Event::ThreadForked(_) => {
            queue.clear();
            unread.clear();
        }
        // One that is rejected begins no run.
        Event::GuardrailCompleted(GuardrailCompleted {
            content: CheckedContent::Input { message },
            outcome: GuardrailOutcome::Reject { .. },
            error: None,
            ..
        }) => unread.retain(|run| run.0 != *message),
        Event::UserInteractionProcessed(UserInteractionProcessed {
            operation_type: OperationType::ApproveContent,
            ..
        }) => {
            let n = unread.len();
            unread.retain(|run| steering(after).contains(run));
            assert!(unread.len() + 1 >= n);
        }
        // Those that are in what the model reads.
        Event::LlmCallRequested(_) => unread.retain(|run| steering(after).contains(run)),
        _ => {}
    }
    assert_eq!((queue, unread), (queued(after), steering(after)));
    if after.is_ended() {
        assert!(queued(after).is_empty() && steering(after).is_empty());
    }
}

/// Unless a batch of tools is running, every tool call of the conversation is followed by exactly one result.
fn every_tool_call_has_one_result(state: &State) {
    if let Some(NodeRun { work: Work::Llm(agent_loop), .. }) = state.node_run()
        && matches!(agent_loop.stage, crate::thread::agent_loop::Stage::Tools(_))
    {
        return;
    }
    let mut open: Vec<&str> = Vec::new();
    for entry in state.conversation().entries.iter() {
        for part in &entry.message.content {
            match part {
                Part::ToolCall(call) => open.push(&call.id),
                Part::ToolResult(result) => {
                    let place = open.iter().position(|id| *id == result.tool_call_id);
                    assert_eq!(place, Some(0), "the result of {} comes out of order", result.tool_call_id);
                    open.remove(0);
                }
                _ => assert!(open.is_empty(), "something stands between a tool call and its result"),
            }
        }
    }
    assert!(open.is_empty(), "tool calls without a result: {open:?}");
}

/// Every call, question, loop and node try has at most one terminal event, and exactly one when the thread has ended.
fn every_call_ends_once(bench: &Bench) {
    let mut open: BTreeMap<u64, &str> = BTreeMap::new();
    let mut ended: BTreeMap<u64, usize> = BTreeMap::new();
    let mut nodes: Vec<&crate::ids::NodeId> = Vec::new();
    let mut frames: Vec<&crate::ids::NodeId> = Vec::new();
    let mut agent_loop = None;
    let mut branches = BTreeMap::new();
    let mut n_inherited = (0, 0);
    // Calls beside that of the agent which the thread is: its caller ends those that are open.
    let mut left_to_caller: Vec<u64> = Vec::new();
    let mut ends = |call: CallId| *ended.entry(call.0.0).or_default() += 1;
    for (seq, (_, event)) in bench.log.iter().enumerate() {
        let seq = seq as u64;
        match event {
            Event::LlmCallRequested(_)
            | Event::ToolExecutionRequest(_)
            | Event::UserInteractionRequested(_)
            | Event::ConditionEvaluationRequested(_)
            | Event::StrategyDecisionRequested(_)
            | Event::GuardrailRequested(_)
            | Event::ContextProcessingRequested(_) => {
                open.insert(seq, event.event_type().name);
            }
            Event::LlmExecutionRequest(_) => agent_loop = Some(CallId(Seq(seq))),
            Event::NodeStarted(e) => nodes.push(&e.node_id),
            Event::LoopStarted(e) => frames.push(&e.node_id),
            Event::SubWorkflowStarted(e) => frames.push(&e.node_id),
            Event::LoopEnded(e) => assert_eq!(frames.pop(), Some(&e.node_id), "{}", bench.out),
            Event::SubWorkflowCompleted(e) => assert_eq!(frames.pop(), Some(&e.node_id), "{}", bench.out),
            Event::SubWorkflowFailed(e) => assert_eq!(frames.pop(), Some(&e.node_id), "{}", bench.out),
            Event::ConditionEvaluationCompleted(e) => ends(e.call_id),
            Event::ContextProcessed(e) => ends(e.call_id),
            Event::ContextProcessingFailed(e) => ends(e.call_id),
            Event::GuardrailCompleted(e) if e.call_id.0.0 != seq => ends(e.call_id),
            Event::StrategyDecided(e) => ends(e.call_id),
            Event::StrategyDecisionFailed(e) => ends(e.call_id),
            // A branch begins outside of all nodes, but for those that run the sub-workflows it is in.
            Event::ThreadForked(e) if e.branch.as_ref().is_some_and(|of| of.owner == e.parent) => {
                nodes.pop();
                agent_loop = None;
                n_inherited = (nodes.len(), frames.len());
                branches.clear();
                left_to_caller = open.keys().copied().collect();
            }
            Event::BranchStarted(e) => assert!(branches.insert(e.index, seq).is_none()),
            Event::AgentStarted(e) => assert!(branches.insert(e.index, seq).is_none()),
            Event::BranchEnded(e) => assert!(branches.remove(&e.index).is_some()),
            Event::JoinCompleted(_) => assert!(branches.is_empty(), "a join passes over branches that run"),
            Event::LlmCallCompleted(e) => ends(e.call_id),
            Event::LlmCallFailed(e) => ends(e.call_id),
            Event::ToolExecutionCompleted(e) => ends(e.call_id),
            Event::ToolExecutionFailed(e) => ends(e.call_id),
            Event::UserInteractionProcessed(e) => ends(e.interaction_id),
            Event::UserInteractionFailed(e) => ends(e.interaction_id),
            Event::LlmExecutionCompleted(_) | Event::LlmExecutionFailed(_) => assert!(agent_loop.take().is_some()),
            Event::NodeCompleted(e) => assert_eq!(nodes.pop(), Some(&e.node_id), "{}", bench.out),
            Event::NodeFailed(e) => assert_eq!(nodes.pop(), Some(&e.node_id), "{}", bench.out),
            _ => {}
        }
    }
    for call in left_to_caller.iter().filter(|call| !ended.contains_key(call)) {
        open.remove(call);
    }
    for (call, n) in &ended {
        assert_eq!(*n, 1, "call {call} ended {n} times");
        assert!(open.remove(call).is_some(), "call {call} ended and never began");
    }
    if bench.state().is_ended() {
        assert!(open.is_empty(), "open at the end: {open:?}\n{}", bench.out);
        assert!(branches.is_empty(), "branches that run at the end: {branches:?}\n{}", bench.out);
        let n_open = (nodes.len(), frames.len());
        assert!(agent_loop.is_none() && n_open == n_inherited, "open at the end: {nodes:?} {frames:?}\n{}", bench.out);
    }
}

/// A tool that a person approves of has no request without a decision that it runs, and runs with the arguments that
/// were approved. What a person answers never runs.
fn what_needs_approval_runs_with_it_only(bench: &Bench) {
    let mut asked: BTreeMap<u64, AskedTool> = BTreeMap::new();
    let mut approved: Vec<AskedTool> = Vec::new();
    let mut person_tools: Vec<String> = Vec::new();
    let mut refused: Vec<u64> = Vec::new();
    for (seq, (_, event)) in bench.log.iter().enumerate() {
        match event {
            Event::NodeStarted(_) => approved.clear(),
            Event::LlmExecutionRequest(e) => person_tools.clone_from(&e.person_tools),
            Event::UserInteractionRequested(e) => {
                asked.extend(e.tool_call.clone().map(|tool| (seq as u64, tool)));
            }
            Event::UserInteractionProcessed(e) => match (&e.results.decision, asked.get(&e.interaction_id.0.0)) {
                (Some(Decision::Approve {}), Some(tool)) => approved.push(tool.clone()),
                (Some(Decision::Edit { arguments }), Some(tool)) => {
                    approved.push(AskedTool { arguments: arguments.clone(), ..tool.clone() });
                }
                _ => {}
            },
            Event::ToolExecutionRequest(e) if e.name.as_str() == "wipe" => {
                let run = AskedTool {
                    tool_call_id: e.tool_call_id.clone(),
                    name: e.name.clone(),
                    arguments: e.arguments.clone(),
                };
                let offered = approved.iter().position(|tool| *tool == run);
                match offered {
                    Some(i) => drop(approved.remove(i)),
                    None => refused.push(seq as u64),
                }
            }
            Event::ToolExecutionRequest(e) if person_tools.iter().any(|tool| tool == e.name.as_str()) => {
                refused.push(seq as u64);
            }
            Event::ToolExecutionFailed(e) => refused.retain(|call| *call != e.call_id.0.0),
            Event::ToolExecutionCompleted(e) => {
                assert!(!refused.contains(&e.call_id.0.0), "it ran and nobody approved of it\n{}", bench.out);
            }
            _ => {}
        }
    }
}

/// A call that is made at most once has no second attempt after its answer was lost, and a try of a node in which
/// something wrote is not followed by another.
fn what_wrote_is_never_repeated(bench: &Bench) {
    let mut recovery: BTreeMap<u64, Recovery> = BTreeMap::new();
    let (mut wrote, mut is_tool_node) = (false, false);
    for (seq, (_, event)) in bench.log.iter().enumerate() {
        match event {
            Event::NodeStarted(e) => {
                assert!(e.attempt == 1 || !wrote, "a try that wrote was repeated\n{}", bench.out);
                wrote = false;
                is_tool_node = true;
            }
            Event::LlmExecutionRequest(_) => is_tool_node = false,
            Event::ToolExecutionRequest(e) => {
                recovery.insert(seq as u64, e.recovery);
            }
            Event::ToolCallRetried(e) if recovery[&e.call_id.0.0] == Recovery::AtMostOnce => {
                let error = e.error.as_ref().expect("a lost call that may have written was made again");
                assert!(!error.kind.leaves_doubt(), "a call that may have written was made again\n{}", bench.out);
            }
            Event::ToolExecutionCompleted(e) => wrote |= recovery[&e.call_id.0.0] != Recovery::Safe,
            Event::ToolExecutionFailed(e) => {
                // The try of a tool node makes the call of an idempotent tool again under the same key.
                let is_same_call = is_tool_node && recovery[&e.call_id.0.0] == Recovery::Idempotent;
                wrote |= recovery[&e.call_id.0.0] != Recovery::Safe && !e.not_started && !is_same_call;
            }
            _ => {}
        }
    }
}

/// The results of the nodes say the same as the state: their sums are its sums, and the time is all there.
fn the_results_of_nodes_add_up(bench: &Bench) {
    let mut steps = Steps::default();
    let mut n_entered = 0;
    for (seq, (at, event)) in bench.log.iter().enumerate() {
        steps.apply(Seq(seq as u64), *at, event);
        match event {
            Event::NodeStarted(e) if e.attempt == 1 => n_entered += 1,
            Event::ThreadForked(e) if e.branch.as_ref().is_some_and(|of| of.owner == e.parent) => n_entered = 0,
            _ => {}
        }
    }
    let (state, out) = (bench.state(), &bench.out);
    assert_eq!(steps.results().count() as u64 + steps.n_dropped, n_entered, "{out}");
    if steps.n_dropped > 0 {
        return;
    }
    let totals = state.totals();
    let sum = |of: fn(&NodeResult) -> u64| steps.results().map(of).sum::<u64>();
    assert_eq!(sum(|result| result.metadata.llm_calls), totals.n_llm_calls, "{out}");
    assert_eq!(sum(|result| result.metadata.tool_calls), totals.n_tool_calls, "{out}");
    let input_tokens = sum(|result| result.metadata.token_usage.input_tokens.unwrap_or(0));
    assert_eq!(input_tokens, totals.usage.input_tokens.unwrap_or(0), "{out}");
    assert_eq!(sum(|result| result.metadata.cost_nanousd.unwrap_or(0)), totals.cost_nanousd.unwrap_or(0), "{out}");
    let is_branch = state.branch().is_some_and(|branch| branch.owner.is_some());
    if steps.forked_from.is_empty() || is_branch && steps.forked_from.len() == 1 {
        // Between two runs no time is spent.
        let own = usize::try_from(steps.first_seq.0).unwrap();
        let idle = idle_us(&bench.log[own..]);
        let taken = steps.last_at.unix_us() - steps.began.unwrap().unix_us();
        assert_eq!(steps.spent.total_us(), taken - idle, "{out}");
    }
    let open: Vec<_> = steps.results().filter(|result| result.ended.is_none()).collect();
    let open_calls: Vec<_> = steps.results().flat_map(NodeResult::calls).filter(|call| call.ended.is_none()).collect();
    if state.is_ended() {
        assert!(open.is_empty() && open_calls.is_empty(), "open at the end: {open:?} {open_calls:?}\n{out}");
    } else {
        let effects: BTreeMap<_, _> = state.effects().iter().map(|effect| (effect.key().0, ())).collect();
        for (id, ()) in effects {
            assert!(open_calls.iter().any(|call| call.id == id), "call {id} is not open\n{out}");
        }
    }
}

/// How long no run went on, up to the last run. What branches spent that ended before the run did is counted meanwhile.
fn idle_us(log: &[(Time, Event)]) -> u64 {
    let (mut idle, mut last, mut has_ended) = (0, log[0].0, false);
    for (at, event) in log {
        match event {
            Event::BranchSpent(_) if has_ended => continue,
            Event::ThreadCompleted(_) | Event::ThreadFailed(_) | Event::ThreadCancelled(_) => has_ended = true,
            Event::RunStarted(_) => (idle, has_ended) = (idle + at.unix_us() - last.unix_us(), false),
            _ => {}
        }
        last = *at;
    }
    idle
}

/// The usage of a thread that has ended and of all its branches is its sum. The sums of a fork begin with those of its parent.
pub(super) fn usage_adds_up(threads: &[&Bench]) {
    for bench in threads {
        let (mut sums, mut todo, mut is_over) = (Totals::default(), vec![*bench], true);
        while let Some(member) = todo.pop() {
            is_over &= member.state().is_ended() && !is_fork(member);
            sums.add(&own_usage(member));
            let of = Some(member.state().thread());
            let owner = |bench: &Bench| bench.state().branch()?.owner.map(|(owner, _)| owner);
            todo.extend(threads.iter().copied().filter(|bench| owner(bench) == of));
        }
        let figures = |totals: &Totals| (totals.n_llm_calls, totals.tokens(), totals.cost_nanousd.unwrap_or(0));
        if is_over {
            let state = bench.state();
            assert_eq!(figures(state.totals()), figures(&sums), "the sums of {}", state.thread());
            let is_there = |child: &ThreadId| threads.iter().any(|bench| bench.state().thread() == *child);
            assert!(!state.uncounted_branches().keys().any(is_there), "not counted in {}", state.thread());
        }
    }
}

fn last_fork(bench: &Bench) -> Option<(usize, &ThreadForked)> {
    bench.log.iter().enumerate().rev().find_map(|(seq, (_, event))| match event {
        Event::ThreadForked(forked) => Some((seq, &**forked)),
        _ => None,
    })
}

/// Whether it inherits what another thread spent.
fn is_fork(bench: &Bench) -> bool {
    last_fork(bench).is_some_and(|(_, forked)| forked.branch.as_ref().is_none_or(|of| of.owner != forked.parent))
}

/// The sums of the model calls of a thread, without those that it inherits and those of its branches.
fn own_usage(bench: &Bench) -> Totals {
    let (mut fold, mut sums) = (UsageFold::default(), Totals::default());
    for (seq, (at, event)) in bench.log.iter().enumerate().skip(last_fork(bench).map_or(0, |(seq, _)| seq)) {
        let ended = fold.apply(bench.state().thread(), Seq(seq as u64), *at, event);
        let Some(Ended::Call(call)) = ended else { continue };
        let Callee::Model(model) = &call.callee else { continue };
        // A verdict or a summary that cannot be used was answered.
        sums.n_llm_calls += u64::from(call.error.is_none() || model.purpose != Purpose::Answer);
        sums.usage.add(&model.usage);
        sums.add_cost(model.cost_nanousd);
    }
    sums
}

/// Run again with its recorded answers, a thread does what it did: every event that the machine decided is decided again.
fn it_runs_again_as_it_ran(bench: &Bench) {
    let forked = |(_, event): &(Time, Event)| matches!(event, Event::ThreadForked(_));
    let own = bench.log.iter().rposition(forked).unwrap_or(0);
    let mut base = State::new(bench.state().thread());
    for (at, event) in &bench.log[..own] {
        base.apply(*at, event).unwrap();
    }
    let workflow = bench.begun_on.clone();
    let events = bench.log[own..].to_vec();
    let again = Rerun { base, recorded_on: workflow.clone(), workflow, of_runs: bench.of_runs(), events }.run();
    assert_eq!(again.diverged, None, "{}", bench.out);
    assert_eq!(again.n_events, (bench.log.len() - own) as u64);
    each_run_runs_again_alone(bench, own);
}

/// Run again alone, from the state before it, each later run of the thread's own does what it did.
fn each_run_runs_again_alone(bench: &Bench, own: usize) {
    let (mut state, of_runs) = (State::new(bench.state().thread()), bench.of_runs());
    for (n, (at, event)) in bench.log.iter().enumerate() {
        if let Event::RunStarted(started) = event
            && n > own
        {
            let events = bench.log[n..n + events_of_run(&bench.log[n..])].to_vec();
            let (workflow, n_events) = (of_runs[&started.workflow.hash].clone(), events.len() as u64);
            let (base, recorded_on) = (state.clone(), workflow.clone());
            let again = Rerun { base, recorded_on, workflow, of_runs: of_runs.clone(), events }.run();
            assert_eq!((again.diverged, again.n_events), (None, n_events), "run {}\n{}", started.run_id, bench.out);
        }
        state.apply(*at, event).unwrap();
    }
}

/// How many of these events are of the run that begins with the first of them.
fn events_of_run(log: &[(Time, Event)]) -> usize {
    let ends = |(_, event): &(Time, Event)| {
        matches!(event, Event::ThreadCompleted(_) | Event::ThreadFailed(_) | Event::ThreadCancelled(_))
    };
    log.iter().position(ends).map_or(log.len(), |last| last + 1)
}
