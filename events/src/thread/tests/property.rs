//! Any interleaving of answers, failures, duplicates, late answers, orders and crashes: the laws hold.

mod ends;
mod workflows;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;
use crate::event::{
    GuardrailCompleted, GuardrailOutcome, InteractionFailure, OnMessage, ReplacedBranch, StrategyDecision,
};
use crate::ids::ProfileId;
use workflows::{definition, one_strategy};

/// What the outside may do next. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Act {
    /// An open call is answered: a model asks for so many tools, or says something.
    Answer {
        which: usize,
        n_tools: usize,
        reason: u8,
    },
    /// An open call fails.
    Fail {
        which: usize,
        kind: usize,
        retryable: bool,
    },
    /// Some earlier call is answered, whether it is open or not, in some attempt.
    Stray {
        call: u64,
        attempt: u32,
        as_model: bool,
    },
    /// Progress of some call.
    Progress {
        call: u64,
        attempt: u32,
    },
    /// A tool that runs asks a person.
    ToolAsks {
        which: usize,
        attempt: Option<u32>,
    },
    /// Time passes.
    Tick {
        ms: u64,
    },
    /// The runtime is lost and comes back: the machine is folded anew from bytes.
    Crash {
        ms: u64,
    },
    Pause,
    Resume,
    Cancel,
    Abort,
    /// The process ended several times in a step.
    GiveUp,
    Checkpoint {
        label: u8,
    },
    Say,
    /// The next run, or a message to the one that is going on.
    Run {
        policy: usize,
    },
    /// It is the turn of the run in its queue.
    Dequeue,
    /// A run that waits is called off.
    CallOff {
        which: usize,
    },
    Set {
        value: i64,
    },
    Respond {
        call: Option<u64>,
        value: i64,
    },
    /// One of the open questions is answered.
    Reply {
        which: usize,
        answer: usize,
    },
    Withdraw {
        which: usize,
    },
    HandlerFails {
        which: usize,
    },
    /// Goes on with a fork of some moment, perhaps with another model, or a person in its place.
    Fork {
        at: usize,
        ms: u64,
        profile: Option<&'static str>,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let call = 0..60_u64;
    prop_oneof![
        12 => (0..4_usize, 0..4_usize, 0..12_u8).prop_map(|(which, n_tools, reason)| Act::Answer { which, n_tools, reason }),
        4 => (0..4_usize, 0..KINDS.len(), any::<bool>()).prop_map(|(which, kind, retryable)| Act::Fail { which, kind, retryable }),
        2 => (call.clone(), 1..4_u32, any::<bool>()).prop_map(|(call, attempt, as_model)| Act::Stray { call, attempt, as_model }),
        1 => (call.clone(), 1..3_u32).prop_map(|(call, attempt)| Act::Progress { call, attempt }),
        6 => (0..4_usize, prop_oneof![9 => Just(None), 1 => (1..3_u32).prop_map(Some)]).prop_map(|(which, attempt)| Act::ToolAsks { which, attempt }),
        4 => prop_oneof![Just(0), Just(50), Just(999), Just(1_000), 0..40_000_u64].prop_map(|ms| Act::Tick { ms }),
        3 => (0..5_000_u64).prop_map(|ms| Act::Crash { ms }),
        2 => Just(Act::Pause),
        3 => Just(Act::Resume),
        1 => prop_oneof![3 => Just(Act::Say), 1 => Just(Act::Cancel), 1 => Just(Act::Abort), 1 => Just(Act::GiveUp)],
        1 => (0..3_u8).prop_map(|label| Act::Checkpoint { label }),
        2 => Just(Act::Say),
        2 => (0..POLICIES.len()).prop_map(|policy| Act::Run { policy }),
        1 => (0..3_usize).prop_map(|which| Act::CallOff { which }),
        1 => any::<i64>().prop_map(|value| Act::Set { value }),
        3 => (prop_oneof![3 => Just(None), 1 => call.prop_map(Some)], 0..3_i64).prop_map(|(call, value)| Act::Respond { call, value }),
        6 => (0..4_usize, 0..REPLIES).prop_map(|(which, answer)| Act::Reply { which, answer }),
        1 => (0..4_usize).prop_flat_map(|which| prop_oneof![Just(Act::Withdraw { which }), Just(Act::HandlerFails { which })]),
        1 => (any::<usize>(), 0..100_000_u64, prop_oneof![4 => Just(None), 1 => Just(Some("human")), 1 => Just(Some("large"))])
            .prop_map(|(at, ms, profile)| Act::Fork { at, ms, profile }),
    ]
}

/// Something is answered.
fn answers() -> impl Strategy<Value = Act> {
    (0..4_usize, 0..3_usize, 3..12_u8).prop_map(|(which, n_tools, reason)| Act::Answer { which, n_tools, reason })
}

const KINDS: [ErrorKind; 8] = [
    ErrorKind::Failed,
    ErrorKind::Timeout,
    ErrorKind::Panicked,
    ErrorKind::Server,
    ErrorKind::InvalidArguments,
    ErrorKind::Connection,
    ErrorKind::Authentication,
    ErrorKind::Indeterminate,
];

const POLICIES: [Option<OnMessage>; 5] =
    [None, Some(OnMessage::Queue), Some(OnMessage::Steer), Some(OnMessage::Interrupt), Some(OnMessage::Reject)];

/// How many answers [`reply`] knows.
const REPLIES: usize = 8;

/// What a person may say, whatever the question is.
fn reply(answer: usize) -> serde_json::Value {
    use serde_json::json;
    match answer {
        0 => json!(true),
        1 => json!("no"),
        2 => json!({"decision": "edit", "arguments": {"x": 2}}),
        3 => json!({"decision": "reject", "reason": "not today"}),
        4 => json!({"decision": "answer", "content": [1, 2]}),
        5 => json!(["read", "wipe", "ask", "fly"]),
        6 => json!(3),
        _ => json!({"decision": "perhaps"}),
    }
}

/// One of the open questions.
fn asked(open: &[Effect], which: usize) -> Option<CallId> {
    let questions: Vec<_> = open.iter().filter(|effect| matches!(effect, Effect::AskPerson(_))).collect();
    questions.get(which % questions.len().max(1)).map(|effect| effect.key().0)
}

impl Bench {
    /// What a strategy of the application may decide: mostly what can be done.
    fn some_decision(&self, n_tools: usize, reason: u8) -> StrategyDecision {
        let Some(NodeRun { work: Work::Llm(agent_loop), .. }) = self.state().node_run() else { unreachable!() };
        let own = |name: &str| ToolCall {
            id: format!("own{}", self.log.len()),
            name: name.into(),
            arguments: serde_json::json!({ "question": "why?" }).into(),
            arguments_raw: None,
            signature: None,
        };
        match (agent_loop.turn(), reason) {
            (_, 0) => StrategyDecision::Fail { error: ExecutionError::new(ErrorKind::Denied, "no") },
            (Turn::ToolsAsked(calls), 1..9) => {
                StrategyDecision::RunTools { calls: calls[n_tools % calls.len()..].to_vec() }
            }
            (Turn::Answered { content, .. }, 1..6) => StrategyDecision::Answer { content },
            (_, 9) => StrategyDecision::Answer { content: "so".into() },
            (_, 10) => StrategyDecision::RunTools { calls: vec![own(["read", "send", "wipe", "fly"][n_tools])] },
            _ => StrategyDecision::CallModel {
                messages: (0..n_tools % 2).map(|_| Arc::new(Message::text(Role::User, "go on"))).collect(),
                model: None,
                tools: (n_tools > 2).then(Vec::new),
            },
        }
    }

    /// `in_family` when branches are threads that run.
    fn act(&mut self, act: &Act, in_family: bool) {
        let open = self.thread.effects();
        let chosen = |which: usize| open.get(which % open.len().max(1));
        match act {
            Act::Answer { which, n_tools, reason } => match chosen(*which) {
                Some(Effect::CallModel(open)) => {
                    let tools = ["read", "put", "send", "fly", "wipe", "ask", "inner"];
                    let form = self.state().model_request_of(open.call).and_then(|request| request.form);
                    // Who is asked for a form of answer mostly keeps to it.
                    let is_aside = form.as_ref().is_some_and(|form| form.name != "answer");
                    let n_tools = if is_aside && *reason < 9 { &0 } else { n_tools };
                    let tools: Vec<_> =
                        (0..*n_tools).map(|i| tools[(i + which + usize::from(*reason)) % tools.len()]).collect();
                    let reason_of = *reason;
                    let reason = match reason {
                        0 => FinishReason::ContentFilter,
                        1 => FinishReason::Error,
                        2 => FinishReason::Pause,
                        3 => FinishReason::Length,
                        _ => FinishReason::Stop,
                    };
                    let text = match (form.map(|form| form.name), reason_of) {
                        (Some("plan"), 0..9) => r#"{"steps": ["look", "write"]}"#,
                        (Some("choice"), 0..6) => r#"{"choice": 1, "reason": "so"}"#,
                        (Some("choice"), 6..9) => r#"{"choice": 2, "reason": "no"}"#,
                        (Some("answer"), 0..8) => r#"{"n": 1}"#,
                        (Some("answer"), 8) => r#"So: {"n": "two"}"#,
                        (None, 11) => "FAILED: it is dark",
                        _ => ["so", "yes", "no"][which % 3],
                    };
                    let mut answer = bench::answer(open.call, text, &tools, reason);
                    if let Some(Part::ToolCall(last)) = Arc::make_mut(&mut answer.message).content.last_mut()
                        && reason == FinishReason::Length
                    {
                        last.arguments = Json::null();
                    }
                    self.give(Input::reported(open.attempt, answer));
                }
                Some(Effect::CallTool(run)) => {
                    let content = vec![Part::text("done")];
                    let (call, attempt) = (run.call, run.attempt);
                    self.give(bench::tool_answered(call, attempt, content, None));
                }
                Some(Effect::RunProcessor(run)) => {
                    let (call, attempt) = (run.call, run.attempt);
                    let to = self.state().processor_messages().len() as u64;
                    // Sometimes all of it, sometimes a part that may cut a call off from its result.
                    let messages = vec![ContextItem::Kept { from: 0, to: to.saturating_sub(*n_tools as u64) }];
                    let processed = Processed { messages, ..Processed::default() };
                    self.give(bench::processed(call, attempt, processed));
                }
                Some(Effect::AskStrategy(run)) => {
                    let (call, attempt) = (run.call, run.attempt);
                    let next = self.some_decision(*n_tools, *reason);
                    self.give(bench::decided(call, attempt, next));
                }
                Some(Effect::CheckGuardrail(run)) => {
                    let why = || "so".to_owned();
                    let outcome = match (*n_tools, *reason) {
                        (0, 0..4) => GuardrailOutcome::Replace { with: Json::from("so be it"), reason: why() },
                        (0, _) => {
                            GuardrailOutcome::Replace { with: serde_json::json!({ "x": 2 }).into(), reason: why() }
                        }
                        (1, 0..6) => GuardrailOutcome::Reject { reason: why() },
                        (2, 0..6) => GuardrailOutcome::Ask { reason: why() },
                        _ => GuardrailOutcome::Allow {},
                    };
                    self.give(Input::reported(run.attempt, GuardrailCompleted::of(run.call, outcome)));
                }
                Some(Effect::AwaitSignal(run)) => {
                    // Some ids come again.
                    let (name, id) = (run.name.clone(), format!("s{n_tools}.{which}"));
                    let payload = serde_json::json!({ "v": which % 3 }).into();
                    self.give(Input::Signal { name, id, payload });
                }
                Some(Effect::AwaitTime(run)) => {
                    let until = self.now.plus_ms(*n_tools as u64 * 1_000);
                    self.give(Input::ChangeWait { wait: run.id, until });
                }
                // A branch that exists only in what is said about it.
                Some(Effect::RunBranch(run)) if !in_family => {
                    let (index, child) = (run.index, run.child);
                    let totals = Totals { n_llm_calls: 1, ..Totals::default() };
                    let outcome = BranchOutcome {
                        output: Ok("so".into()),
                        globals: OrderedMap::default(),
                        totals,
                        is_final: true,
                        conversation: None,
                    };
                    self.give(Input::BranchEnded { index, child, outcome });
                }
                Some(Effect::StartChild(run)) => {
                    let call = run.call;
                    self.give(Input::ChildStarted { call, outcome: Ok(()) });
                }
                Some(Effect::AwaitThread(run)) => {
                    let thread = run.thread;
                    self.give(Input::ThreadEnded { thread, outcome: Ok("so".into()) });
                }
                Some(Effect::AskPerson(_) | Effect::RunBranch(_)) | None => {}
            },
            Act::Fail { which, kind, retryable } => {
                let error = ExecutionError { retryable: *retryable, ..ExecutionError::new(KINDS[*kind], "it broke") };
                match chosen(*which) {
                    Some(Effect::CallModel(open)) => {
                        self.give(bench::model_failed(open.call, open.attempt, error));
                    }
                    Some(Effect::CallTool(run)) => {
                        let (call, attempt) = (run.call, run.attempt);
                        self.give(bench::tool_failed(call, attempt, true, error));
                    }
                    Some(Effect::RunProcessor(run)) => {
                        let (call, attempt) = (run.call, run.attempt);
                        self.give(bench::processing_failed(call, attempt, error));
                    }
                    Some(Effect::CheckGuardrail(run)) => {
                        self.give(Input::reported(run.attempt, GuardrailCompleted::failed(run.call, error)));
                    }
                    Some(Effect::AskStrategy(run)) => {
                        let (call, attempt) = (run.call, run.attempt);
                        self.give(bench::decision_failed(call, attempt, error));
                    }
                    Some(Effect::StartChild(run)) => {
                        let call = run.call;
                        self.give(Input::ChildStarted { call, outcome: Err(error) });
                    }
                    Some(Effect::AwaitThread(run)) => {
                        let thread = run.thread;
                        self.give(Input::ThreadEnded { thread, outcome: Err(error) });
                    }
                    Some(
                        Effect::AskPerson(_) | Effect::AwaitTime(_) | Effect::AwaitSignal(_) | Effect::RunBranch(_),
                    )
                    | None => {}
                }
            }
            Act::Stray { call, attempt, as_model } => {
                let (call, attempt) = (CallId(Seq(*call)), *attempt);
                self.give(if *as_model {
                    let answer = bench::answer(call, "stray", &["send"], FinishReason::ToolCalls);
                    Input::reported(attempt, answer)
                } else {
                    let error = ExecutionError::retryable(ErrorKind::Failed, "stray");
                    bench::tool_failed(call, attempt, true, error)
                });
            }
            Act::Progress { call, attempt } => {
                self.give(bench::tool_progress(CallId(Seq(*call)), *attempt, "on the way"));
            }
            Act::ToolAsks { which, attempt } => {
                let tools: Vec<_> = open.iter().filter(|effect| matches!(effect, Effect::CallTool(_))).collect();
                if let Some(Effect::CallTool(run)) = tools.get(which % tools.len().max(1)) {
                    let schema = (which % 2 == 0).then(|| serde_json::json!({"properties": {"v": {}}}).into());
                    let question = ToolQuestion { message: "which?".into(), schema, ..ToolQuestion::default() };
                    self.give(Input::ToolAsks { call: run.call, attempt: attempt.unwrap_or(run.attempt), question });
                }
            }
            Act::Tick { ms } => {
                self.now = self.now.plus_ms(*ms);
                self.give(Input::Tick);
            }
            Act::Crash { ms } => {
                let state = self.fold_to(self.log.len() - 1);
                assert_eq!(&state, self.state());
                self.thread = Thread::resume(state, self.thread.workflow().clone());
                self.now = self.now.plus_ms(*ms);
                self.give(Input::Recover);
            }
            Act::Pause => self.give(Input::Pause { reason: None }),
            Act::Resume => self.give(Input::Resume),
            Act::Cancel => self.give(Input::Cancel { reason: None }),
            Act::Abort => self.give(Input::Abort { reason: None }),
            Act::GiveUp => {
                let error = ExecutionError::new(ErrorKind::CrashedProcess, "the process ended 3 times in this step");
                self.give(Input::Crashed { error })
            }
            Act::Checkpoint { label } => {
                let label = ["mark", "mark#2", "other"][usize::from(*label)].to_owned();
                self.give(Input::Checkpoint { label });
            }
            Act::Run { policy } => {
                let (input, on_message) = (format!("run {}", self.log.len()).as_str().into(), POLICIES[*policy]);
                self.give(Input::Run(Box::new(RunInput { input, on_message, ..RunInput::default() })));
            }
            Act::Dequeue => self.give(Input::Dequeue),
            Act::CallOff { which } => {
                let waiting: Vec<_> = self.state().queued_runs().iter().map(|run| run.id).collect();
                let waiting: Vec<_> = waiting.into_iter().chain(self.state().waiting_messages()).collect();
                if let Some(run) = waiting.get(which % waiting.len().max(1)) {
                    self.give(Input::CancelRun { run: *run, reason: None });
                }
            }
            Act::Say => self.give(Input::AddMessage(Message::text(Role::User, "by the way"))),
            Act::Set { value } => {
                let variables = OrderedMap::from_iter([("v".to_owned(), serde_json::json!(value).into())]);
                self.give(Input::SetVariables(variables));
            }
            Act::Respond { call, value } => {
                let asked = open.iter().find(|effect| matches!(effect, Effect::AskPerson(_)));
                if let Some(interaction) = call.map(|call| CallId(Seq(call))).or(asked.map(|effect| effect.key().0)) {
                    self.give(Input::Respond { interaction, data: serde_json::json!(value).into() });
                }
            }
            Act::Reply { which, answer } => {
                if let Some(interaction) = asked(&open, *which) {
                    self.give(Input::Respond { interaction, data: reply(*answer).into() });
                }
            }
            Act::Withdraw { which } | Act::HandlerFails { which } => {
                if let Some(interaction) = asked(&open, *which) {
                    self.give(match act {
                        Act::Withdraw { .. } => Input::CancelInteraction { interaction },
                        _ => Input::InteractionFailed {
                            interaction,
                            reason: InteractionFailure::InvalidInput,
                            detail: "gone".into(),
                        },
                    });
                }
            }
            Act::Fork { at, ms, profile } => {
                self.now = self.now.plus_ms(*ms);
                let at = at % self.log.len();
                let state = self.fold_to(at);
                let open = state.running_branches();
                let replaced = open.map(|run| {
                    let child = ThreadId::of_branch(state.thread(), run.call.0, self.now);
                    ReplacedBranch { path: vec![run.index], child, seq: None }
                });
                let changes = ForkChanges { profile: profile.map(ProfileId::from), ..ForkChanges::default() };
                let fork = Fork { changes, branches: replaced.collect(), ..Fork::default() };
                *self = self.fork_as(ThreadId::from_bytes([8; 16]), at, fork, self.now);
            }
        }
    }
}

impl Family {
    /// Something happens to one of the threads.
    fn act(&mut self, which: usize, act: &Act) {
        let names: Vec<_> = self.threads.keys().cloned().collect();
        let name = &names[which % names.len()];
        if matches!(act, Act::Fork { .. }) {
            return;
        }
        let bench = self.of(name);
        bench.act(act, true);
        self.now = bench.now;
        let now = self.now;
        self.threads.values_mut().for_each(|bench| bench.now = now);
        self.settle();
    }
}

#[test]
fn the_laws_hold_for_every_thread_of_a_family() {
    let config = Config { cases: 800, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let n_families = std::cell::Cell::new((0, 0));
    let acts = prop::collection::vec((any::<usize>(), act()), 0..100);
    runner
        .run(&(definition(), acts), |(yaml, acts)| {
            let mut family = Family::new(&yaml, serde_json::json!(3));
            for (which, act) in &acts {
                family.act(*which, act);
            }
            family.laws_hold();
            // The same script gives the same events, ids and times included.
            let mut again = Family::new(&yaml, serde_json::json!(3));
            for (which, act) in &acts {
                again.act(*which, act);
            }
            for (name, bench) in &family.threads {
                assert_eq!(bench.log, again.threads[name].log, "thread {name} of {yaml}");
            }
            again.run_to_the_end(&yaml);
            again.laws_hold();
            let (n_branched, n_completed) = n_families.get();
            let is_complete = family.threads.len() > 1 && family.root().state().status() == Status::Completed;
            n_families
                .set((n_branched + usize::from(family.threads.len() > 1), n_completed + usize::from(is_complete)));
            Ok(())
        })
        .unwrap_or_else(|e| panic!("{e}"));
    let (n_branched, n_completed) = n_families.get();
    assert!(n_branched > 100 && n_completed > 5, "too few: {n_branched}, {n_completed}");
}

#[test]
fn laws_hold_for_every_input() {
    let config = Config { cases: 2_800, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut answers = std::cell::RefCell::new(std::collections::BTreeMap::<(&str, Option<String>), usize>::new());
    let mut statuses = std::cell::RefCell::new(std::collections::BTreeMap::<&str, usize>::new());
    let mut hooks = std::cell::RefCell::new(std::collections::BTreeMap::<&str, usize>::new());
    runner
        .run(&(definition(), prop::collection::vec(act(), 0..40)), |(yaml, acts)| {
            let mut bench = Bench::new(&yaml, serde_json::json!(3));
            for act in &acts {
                bench.act(act, false);
                assert_eq!(bench.thread.effects(), bench.thread.effects());
            }
            laws::hold(&bench);
            *statuses.borrow_mut().entry(bench.state().status().name()).or_default() += 1;
            for name in
                bench.log.iter().map(|(_, event)| event.event_type().name).filter(|name| name.starts_with("HOOK_"))
            {
                *hooks.borrow_mut().entry(name).or_default() += 1;
            }
            for (_, event) in &bench.log {
                if let Event::UserInteractionProcessed(e) = event {
                    let decision = e.results.decision.as_ref().map(|decision| serde_json::to_value(decision).unwrap());
                    let decision = decision.map(|decision| decision["decision"].as_str().unwrap().to_owned());
                    *answers.borrow_mut().entry((e.operation_type.name(), decision)).or_default() += 1;
                }
            }
            Ok(())
        })
        .unwrap_or_else(|e| panic!("{e}"));
    let decided = |decision: &str| Some(decision.to_owned());
    for (operation, decision) in [
        ("UPDATE_VARIABLES", None),
        ("ADD_MESSAGE", None),
        ("APPROVE_TOOL", decided("approve")),
        ("APPROVE_TOOL", decided("edit")),
        ("APPROVE_TOOL", decided("reject")),
        ("APPROVE_TOOL", decided("answer")),
        ("ANSWER_TOOL", decided("answer")),
        ("RELAY_MODEL", None),
        ("INFORM_TOOL", decided("answer")),
        ("INFORM_TOOL", decided("reject")),
    ] {
        let n = answers.get_mut().get(&(operation, decision)).copied().unwrap_or(0);
        // A tool asks only while it runs, which is not long.
        let n_least = if operation == "INFORM_TOOL" { 2 } else { 10 };
        assert!(n > n_least, "too few answers of {operation}: {answers:?}");
    }
    // The interleavings are of use only when they get everywhere.
    for status in ["running", "waiting", "paused", "completed", "cancelled", "error"] {
        assert!(statuses.get_mut().get(status).is_some_and(|n| *n > 20), "too few {status}: {statuses:?}");
    }
    for name in ["HOOK_STARTED", "HOOK_ENDED"] {
        assert!(hooks.get_mut().get(name).is_some_and(|n| *n > 100), "too few {name}: {hooks:?}");
    }
}

#[test]
fn laws_hold_for_runs_in_a_queue() {
    let config = Config { cases: 600, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut seen = std::cell::RefCell::new(std::collections::BTreeMap::<&str, usize>::new());
    let acts = prop::collection::vec(prop_oneof![4 => act(), 1 => Just(Act::Dequeue)], 0..40);
    runner
        .run(&(definition(), acts), |(yaml, acts)| {
            let yaml = yaml.replacen("name:", "queue: {key: input, rate: {starts: 2, per_ms: 1000}}\nname:", 1);
            let mut bench = Bench::new(&yaml, serde_json::json!(3));
            assert_eq!(bench.state().status(), Status::Queued);
            for act in &acts {
                bench.act(act, false);
                let state = bench.state();
                let runs = state.queue_place().is_none_or(QueuePlace::is_waiting) && !bench.thread.effects().is_empty();
                // What a fork inherits waits with it.
                assert!(!runs || state.forked_from().is_some(), "it runs before its turn\n{}", bench.out);
            }
            laws::hold(&bench);
            for (_, event) in &bench.log {
                *seen.borrow_mut().entry(event.event_type().name).or_default() += 1;
            }
            Ok(())
        })
        .unwrap_or_else(|e| panic!("{e}"));
    for name in ["THREAD_DEQUEUED", "THREAD_FORKED", "RUN_STARTED", "THREAD_COMPLETED"] {
        assert!(seen.get_mut().get(name).is_some_and(|n| *n > 20), "too few {name}: {seen:?}");
    }
}

#[test]
fn the_laws_hold_for_every_strategy() {
    let config = Config { cases: 1_500, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut seen = std::cell::RefCell::new(std::collections::BTreeMap::<&str, usize>::new());
    let acts = prop::collection::vec(prop_oneof![2 => answers(), 1 => act()], 0..60);
    runner
        .run(&(one_strategy(), acts), |(yaml, acts)| {
            let mut bench = Bench::new(&yaml, serde_json::json!(3));
            for act in &acts {
                bench.act(act, false);
            }
            laws::hold(&bench);
            for (_, event) in &bench.log {
                *seen.borrow_mut().entry(event.event_type().name).or_default() += 1;
            }
            Ok(())
        })
        .unwrap_or_else(|e| panic!("{e}"));
    for name in crate::event::EVENT_TYPES.iter().map(|kind| kind.name) {
        let of_strategies = ["PLAN_", "CANDIDATE", "STRATEGY_"].iter().any(|prefix| name.starts_with(prefix));
        let n = seen.get_mut().get(name).copied().unwrap_or(0);
        assert!(!of_strategies || n > 20, "too few {name}: {seen:?}");
    }
}
