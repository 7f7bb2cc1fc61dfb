//! A thread, its clock, and the log of all it decided.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::*;
use crate::event::{
    Aside, ContextProcessed, ContextProcessingFailed, GuardrailCompleted, GuardrailOutcome, LlmCallCompleted,
    LlmCallFailed, LlmCallRequested, ModelChoice, StrategyDecided, StrategyDecision, StrategyDecisionFailed,
    ToolExecutionCompleted, ToolExecutionFailed, ToolExecutionProgress,
};
use crate::tool::PersonRole;

/// A tool per name: `read` is safe, `put` idempotent, `send` at most once. Two more are offered only by name: `wipe`,
/// which a person approves, and `ask`, which a person answers.
pub(super) struct Toolbox;

impl Tools for Toolbox {
    fn facts(&self, name: &str) -> Option<ToolFacts> {
        let (recovery, person) = match name {
            "read" => (Recovery::Safe, PersonRole::None),
            "put" => (Recovery::Idempotent, PersonRole::None),
            "send" => (Recovery::AtMostOnce, PersonRole::None),
            "wipe" => (Recovery::AtMostOnce, PersonRole::Approves),
            "ask" => (Recovery::Safe, PersonRole::Answers),
            _ => return None,
        };
        Some(ToolFacts { recovery, timeout_ms: 1_000, retries: 1, retry_delay_ms: 50, person })
    }

    fn names(&self) -> Vec<ToolName> {
        ["put", "read", "send"].map(ToolName::from).to_vec()
    }

    fn catalog(&self, names: &[ToolName]) -> Option<Hash> {
        Some(Hash::of(format!("{names:?}").as_bytes()))
    }
}

/// A person stands for the model `human`, whose answer is a text, or calls of the tools named in a list.
impl Models for Toolbox {
    fn is_person(&self, model: &ModelChoice) -> bool {
        model.provider.as_deref() == Some("human") || model.profile.as_ref().is_some_and(|it| it.as_str() == "human")
    }

    fn read(&self, call_id: CallId, request: &ModelRequest, brought: &Json) -> Result<LlmCallCompleted, String> {
        let call = CallId(Seq(u64::from(request.iteration)));
        match &*brought.0 {
            serde_json::Value::String(text) => {
                Ok(LlmCallCompleted { call_id, ..answer(call, text, &[], FinishReason::Stop) })
            }
            serde_json::Value::Array(tools) if !tools.is_empty() => {
                let tools: Vec<_> = tools.iter().filter_map(|tool| tool.as_str()).collect();
                Ok(LlmCallCompleted { call_id, ..answer(call, "", &tools, FinishReason::ToolCalls) })
            }
            _ => Err("neither a text nor a list of tools".into()),
        }
    }

    /// Four characters a token, and four tokens around each message.
    fn count(&self, prompt: &Prompt<'_>) -> u64 {
        prompt.messages.iter().map(|message| tokens_of(message)).sum()
    }
}

pub(super) fn tokens_of(message: &Message) -> u64 {
    let size_of = |part: &Part| match part {
        Part::Text { text, .. } => text.len(),
        Part::ToolCall(call) => call.name.len() + call.arguments.0.to_string().len(),
        Part::ToolResult(result) => result.content.iter().filter_map(Part::as_text).map(str::len).sum(),
        _ => 0,
    };
    4 + message.content.iter().map(size_of).sum::<usize>() as u64 / 4
}

pub(super) const START: Time = Time::from_unix_us(1_000_000);

#[derive(Clone)]
pub(super) struct Bench {
    pub(super) thread: Thread,
    /// The definition of its first run.
    pub(super) begun_on: Arc<Workflow>,
    /// The definitions that it has run on.
    given: BTreeMap<Hash, Arc<Workflow>>,
    pub(super) now: Time,
    pub(super) log: Vec<(Time, Event)>,
    pub(super) out: String,
}

impl Bench {
    pub(super) fn new(yaml: &str, input: impl Into<Json>) -> Self {
        Self::of(workflow::parse(yaml.as_bytes()).unwrap_or_else(|faults| panic!("{faults}")), input)
    }

    /// With a definition as it comes out of a log: one that uses a variable which nothing in it sets is none of a file.
    pub(super) fn stored(yaml: &str, input: impl Into<Json>) -> Self {
        let spec: workflow::WorkflowSpec = serde_saphyr::from_str(yaml).unwrap();
        let json = serde_json::to_string(&spec).unwrap();
        Self::of(Workflow::from_json(&json).unwrap_or_else(|faults| panic!("{faults}")), input)
    }

    fn of(workflow: Workflow, input: impl Into<Json>) -> Self {
        Self::begun(workflow, Start::new(input))
    }

    /// One that begins with more than an input.
    pub(super) fn begun(workflow: Workflow, given: Start) -> Self {
        Self::begun_at(workflow, given, START)
    }

    pub(super) fn begun_at(workflow: Workflow, given: Start, now: Time) -> Self {
        let workflow = Arc::new(workflow);
        let started = Thread::started(&workflow, given, now).unwrap();
        let around = Env { now, tools: &Toolbox, models: &Toolbox, permits: &NoWaits };
        let (thread, events) =
            Thread::begin(ThreadId::from_bytes([7; 16]), workflow.clone(), started, &around).unwrap();
        let mut bench =
            Self { thread, begun_on: workflow, given: BTreeMap::new(), now, log: Vec::new(), out: String::new() };
        bench.record(events);
        bench
    }

    pub(super) fn around(&self) -> Env<'static> {
        Env { now: self.now, tools: &Toolbox, models: &Toolbox, permits: &NoWaits }
    }

    pub(super) fn state(&self) -> &State {
        self.thread.state()
    }

    /// The definition that a thread in this state runs on.
    pub(super) fn definition_of(&self, state: &State) -> Arc<Workflow> {
        let later = state.workflow().and_then(|workflow| self.given.get(&workflow.hash));
        later.unwrap_or(&self.begun_on).clone()
    }

    /// The definitions that it has run on.
    pub(super) fn of_runs(&self) -> BTreeMap<Hash, Arc<Workflow>> {
        self.given.clone()
    }

    fn record(&mut self, events: Vec<Event>) {
        self.given.insert(self.thread.workflow().hash(), self.thread.workflow().clone());
        for event in events {
            writeln!(self.out, "{:>3} {}", self.log.len(), line_of(&event)).unwrap();
            // One decision's events happen at one time, that of the last of them.
            self.log.push((self.state().last_at(), event));
        }
    }

    /// Puts a word of its own into the output.
    pub(super) fn note(&mut self, text: impl std::fmt::Display) {
        writeln!(self.out, "    {text}").unwrap();
    }

    pub(super) fn give(&mut self, input: Input) {
        match self.thread.step(input, &self.around()) {
            Ok(events) => self.record(events),
            Err(StepError::Rejected(e)) => self.note(format_args!("refused: {e}")),
            Err(StepError::Fold(e)) => panic!("{}{e}", self.out),
        }
    }

    /// The process goes on, and knows of these calls that they are running.
    pub(super) fn recover_but(&mut self, is_known: impl Fn((CallId, u32)) -> bool) {
        let around = self.around();
        let events = self.thread.recover_but(is_known, &around).unwrap();
        self.record(events);
    }

    pub(super) fn tick_after_ms(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        writeln!(self.out, "    {ms} ms later").unwrap();
        self.give(Input::Tick);
    }

    pub(super) fn open(&self) -> (CallId, u32) {
        self.thread.effects().first().expect("nothing is open").key()
    }

    pub(super) fn says(&mut self, text: &str) {
        self.answers(text, &[], FinishReason::Stop);
    }

    pub(super) fn asks(&mut self, tools: &[&str]) {
        self.answers("", tools, FinishReason::ToolCalls);
    }

    pub(super) fn answers(&mut self, text: &str, tools: &[&str], finish_reason: FinishReason) {
        let (call, attempt) = self.open();
        let answer = answer(call, text, tools, finish_reason);
        self.give(Input::reported(attempt, answer));
    }

    pub(super) fn model_fails(&mut self, kind: ErrorKind) {
        let (call, attempt) = self.open();
        let error = ExecutionError::new(kind, "the provider is down");
        self.give(model_failed(call, attempt, error));
    }

    /// The first open tool answers.
    pub(super) fn tool_says(&mut self, text: &str) {
        let (call, _) = self.open();
        self.tool_answers(call, text);
    }

    pub(super) fn tool_answers(&mut self, call: CallId, text: &str) {
        let open = self.thread.effects();
        let attempt = open.iter().find(|effect| effect.key().0 == call).map_or(1, |effect| effect.key().1);
        self.give(tool_answered(call, attempt, vec![Part::text(text)], None));
    }

    pub(super) fn tool_fails(&mut self, kind: ErrorKind, retryable: bool) {
        let (call, attempt) = self.open();
        let error = ExecutionError { retryable, ..ExecutionError::new(kind, "it broke") };
        self.give(tool_failed(call, attempt, true, error));
    }

    /// The person answers this question.
    pub(super) fn person_answers(&mut self, interaction: CallId, data: serde_json::Value) {
        self.give(Input::Respond { interaction, data: data.into() });
    }

    /// The open context processor answers.
    pub(super) fn processor_answers(&mut self, processed: Processed) {
        let (call, attempt) = self.open();
        self.give(self::processed(call, attempt, processed));
    }

    /// The application's strategy decides.
    pub(super) fn decides(&mut self, next: StrategyDecision) {
        let (call, attempt) = self.open();
        self.give(decided(call, attempt, next));
    }

    /// The application's guardrail decides.
    pub(super) fn guards(&mut self, outcome: GuardrailOutcome) {
        let (call, attempt) = self.open();
        self.give(Input::reported(attempt, GuardrailCompleted::of(call, outcome)));
    }

    /// One of several models that are asked answers, by its place among the open calls.
    pub(super) fn nth_says(&mut self, n: usize, text: &str) {
        let (call, attempt) = self.thread.effects()[n].key();
        let answer = answer(call, text, &[], FinishReason::Stop);
        self.give(Input::reported(attempt, answer));
    }

    /// Everything that is seen from here, by name.
    pub(super) fn note_value(&mut self, expression: &str) {
        let value = self.state().context().evaluate(expression);
        self.note(format_args!("{expression} = {}", value.map_or_else(|e| e.to_string(), |value| value.0.to_string())));
    }

    pub(super) fn person_says(&mut self, data: serde_json::Value) {
        let (interaction, _) = self.open();
        self.give(Input::Respond { interaction, data: data.into() });
    }

    /// A new thread from the moment after event `seq`.
    pub(super) fn fork(&self, seq: usize, changes: ForkChanges) -> Self {
        self.fork_as(ThreadId::from_bytes([8; 16]), seq, Fork { changes, ..Fork::default() }, self.now)
    }

    /// The same, with more said about it.
    pub(super) fn fork_as(&self, id: ThreadId, seq: usize, fork: Fork, now: Time) -> Self {
        let parent = self.fold_to(seq);
        let workflow = self.definition_of(&parent);
        let around = Env { now, tools: &Toolbox, models: &Toolbox, permits: &NoWaits };
        let (thread, events) = Thread::fork(id, &parent, fork, workflow.clone(), &around).unwrap();
        let log = self.log[..=seq].to_vec();
        let mut fork = Self { thread, begun_on: workflow, given: self.given.clone(), now, log, out: String::new() };
        fork.record(events);
        fork
    }

    pub(super) fn fold_to(&self, seq: usize) -> State {
        let mut state = State::new(self.state().thread());
        for (at, event) in &self.log[..=seq] {
            state.apply(*at, event).unwrap();
        }
        state
    }

    /// The conversation, one line per message.
    pub(super) fn note_conversation(&mut self) {
        let entries = self.state().conversation().entries.clone();
        for entry in entries.iter() {
            self.note(said(&entry.message));
        }
    }

    /// What the model is called with.
    pub(super) fn note_request(&mut self) {
        let (call, _) = self.open();
        self.note_request_of(call);
    }

    /// What this model is called with.
    pub(super) fn note_request_of(&mut self, call: CallId) {
        let request = self.state().model_request_of(call).unwrap();
        self.note(format_args!("model is called, tools {:?}:", request.tool_choice));
        for message in request.messages.iter() {
            self.note(format_args!("  {}", said(message)));
        }
    }

    #[track_caller]
    pub(super) fn check(mut self, expected: Expect) {
        let waits = match self.thread.waits_for(&self.around()) {
            Wait::Itself => "itself".to_owned(),
            Wait::World { until } => format!("the world{}", until_of(until)),
            Wait::Person { until } => format!("a person{}", until_of(until)),
            Wait::Nothing => "nothing".to_owned(),
        };
        writeln!(self.out, "=> {}, waits for {waits}", self.state().status()).unwrap();
        expected.assert_eq(&self.out);
        laws::hold(&self);
    }
}

fn until_of(until: Option<Time>) -> String {
    until.map(|until| format!(" until {}", offset(until))).unwrap_or_default()
}

fn offset(time: Time) -> String {
    format!("+{}", time.ms_since(START))
}

pub(super) fn answer(call: CallId, text: &str, tools: &[&str], finish_reason: FinishReason) -> LlmCallCompleted {
    let text = (!text.is_empty()).then(|| Part::text(text));
    let calls = tools.iter().enumerate().map(|(i, name)| {
        Part::ToolCall(ToolCall {
            id: format!("c{call}_{i}"),
            name: (*name).into(),
            arguments: serde_json::json!({ "question": "why?" }).into(),
            arguments_raw: None,
            signature: None,
        })
    });
    LlmCallCompleted {
        node_id: None,
        call_id: call,
        message: Arc::new(Message { role: Role::Assistant, content: text.into_iter().chain(calls).collect() }),
        finish_reason,
        usage: Usage { input_tokens: Some(10), output_tokens: Some(2), ..Usage::default() },
        cost_nanousd: None,
        prices: None,
        model: None,
        response_id: None,
        cached: false,
        duration_ms: 0,
        service_tier: None,
        details: None,
        usage_source: crate::message::UsageSource::Provider,
        unusable: None,
        fallback_from: None,
    }
}

pub(super) fn model_failed(call_id: CallId, attempt: u32, error: ExecutionError) -> Input {
    Input::reported(attempt, LlmCallFailed::new(call_id, error))
}

pub(super) fn tool_answered(call_id: CallId, attempt: u32, content: Vec<Part>, value: Option<Json>) -> Input {
    let (node_id, tool_call_id, duration_ms, full_output) = (None, None, 0, None);
    let answer = ToolExecutionCompleted { node_id, call_id, tool_call_id, content, value, duration_ms, full_output };
    Input::reported(attempt, answer)
}

pub(super) fn tool_failed(call_id: CallId, attempt: u32, begun: bool, error: ExecutionError) -> Input {
    let (node_id, tool_call_id, duration_ms, not_started) = (None, None, 0, !begun);
    let failed = ToolExecutionFailed { node_id, call_id, tool_call_id, error, duration_ms, not_started };
    Input::reported(attempt, failed)
}

pub(super) fn tool_progress(call_id: CallId, attempt: u32, message: &str) -> Input {
    let message = message.into();
    Input::reported(attempt, ToolExecutionProgress { node_id: None, call_id, attempt, message })
}

pub(super) fn processed(call_id: CallId, attempt: u32, processed: Processed) -> Input {
    let Processed { messages, variables, output } = processed;
    Input::reported(attempt, ContextProcessed { node_id: None, call_id, messages, variables, output })
}

pub(super) fn processing_failed(call_id: CallId, attempt: u32, error: ExecutionError) -> Input {
    Input::reported(attempt, ContextProcessingFailed { node_id: None, call_id, error })
}

pub(super) fn decided(call_id: CallId, attempt: u32, next: StrategyDecision) -> Input {
    Input::reported(attempt, StrategyDecided { node_id: None, call_id, next })
}

pub(super) fn decision_failed(call_id: CallId, attempt: u32, error: ExecutionError) -> Input {
    Input::reported(attempt, StrategyDecisionFailed { node_id: None, call_id, error })
}

/// A message on one line.
pub(super) fn said(message: &Message) -> String {
    let mut line = format!("{:?}:", message.role).to_lowercase();
    for part in &message.content {
        match part {
            Part::Text { text, .. } => write!(line, " {text}").unwrap(),
            Part::ToolCall(call) => write!(line, " {}({})", call.name, call.id).unwrap(),
            Part::ToolResult(result) => {
                let text: String = result.content.iter().filter_map(Part::as_text).collect();
                write!(line, " {}{} {text}", result.tool_call_id, if result.is_error { "!" } else { ":" }).unwrap();
            }
            part => write!(line, " {part:?}").unwrap(),
        }
    }
    line
}

/// An event on one line: its name and what matters of its data.
pub(super) fn line_of(event: &Event) -> String {
    let mut line = event.event_type().name.to_owned();
    if let Event::HookStarted(e) = event {
        write!(line, " {} node={} ending={}", e.hook, e.node_id, e.ending.status()).unwrap();
        return line;
    }
    if let Event::HookEnded(e) = event {
        write!(line, " {}", e.hook).unwrap();
    }
    if let Event::LlmCallRequested(LlmCallRequested { iteration, aside, .. }) = event {
        match aside {
            None => write!(line, " {iteration}").unwrap(),
            Some(Aside::Candidate { index }) => write!(line, " of candidate {index}").unwrap(),
            Some(Aside::Choice { fault: None }) => line += " for a choice",
            Some(Aside::Choice { fault: Some(fault) }) => write!(line, " for a choice, again: {fault}").unwrap(),
        }
        return line;
    }
    let mut data = event.data().unwrap();
    // What every event of a call or a question says, and the lines show by the call.
    if event.call_node().is_some() {
        data["node_id"].take();
    }
    match event {
        Event::UserInteractionRequested(_) => drop(data["interaction_id"].take()),
        Event::ConditionEvaluationRequested(_) => data["from"] = data["node_id"].take(),
        Event::UserInteractionProcessed(_) => {
            let serde_json::Value::Object(results) = data["results"].take() else { panic!() };
            data.as_object_mut().unwrap().extend(results);
        }
        _ => {}
    }
    for key in [
        "node_id",
        "from",
        "to",
        "condition",
        "attempt",
        "call_id",
        "calls",
        "interaction_id",
        "name",
        "agent",
        "llm_call_id",
        "workflow",
        "n_iterations",
        "processor",
        "verdict",
        "output",
        "n_needed",
        "n_completed",
        "n_failed",
        "replan",
        "step",
        "n_llm_calls",
        "n_answers",
    ] {
        if key == "n_llm_calls" && !matches!(event, Event::PlanStepCompleted(_)) {
            continue;
        }
        match &data[key] {
            serde_json::Value::Null => {}
            value if key == "workflow" && !value.is_string() => {}
            value if key == "calls" || !value.is_array() => {
                write!(line, " {}={}", key.trim_end_matches("_id"), plain(value)).unwrap();
            }
            _ => {}
        }
    }
    if !matches!(event, Event::LlmExecutionProgress(_)) && data["index"].is_u64() {
        write!(line, " index={}", data["index"]).unwrap();
    }
    if let Some(tool) = data["tool_call"].as_object() {
        write!(line, " {} {}", plain(&data["operation_type"]), plain(&tool["name"])).unwrap();
    }
    if let Event::PlanMade(e) = event {
        write!(line, " {:?}", e.steps).unwrap();
    }
    if let Event::StrategyDecided(e) = event {
        write!(line, " {}", serde_json::to_string(&e.next).unwrap()).unwrap();
    }
    if let Some(decision) = data["decision"].as_object() {
        write!(line, " {}", plain(&decision["decision"])).unwrap();
    }
    for key in ["content", "message", "code", "reason", "label", "input_data"] {
        if let serde_json::Value::String(text) = &data[key] {
            write!(line, " {text:?}").unwrap();
        }
    }
    if let Some(error) = data["error"].as_object() {
        write!(line, " {}", plain(&error["kind"])).unwrap();
        if let Some(source) = error.get("source").filter(|source| !source.is_null()) {
            write!(line, " ({})", plain(source)).unwrap();
        }
    }
    if let Event::ContextProcessed(e) = event {
        write!(line, " {}", serde_json::to_string(&e.messages).unwrap()).unwrap();
    }
    if matches!(event, Event::SubWorkflowStarted(_) | Event::SubWorkflowCompleted(_) | Event::ContextProcessed(_))
        && data["variables"].as_object().is_some_and(|variables| !variables.is_empty())
    {
        write!(line, " {}", data["variables"]).unwrap();
    }
    for key in ["retry_at", "not_before"] {
        if let Some(time) = data[key].as_str() {
            write!(line, " {key}={}", offset(time.parse().unwrap())).unwrap();
        }
    }
    line
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
