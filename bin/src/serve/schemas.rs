//! The shapes of answers that the library writes as JSON, for the OpenAPI document. A test compares
//! real answers with them.
#![allow(dead_code, reason = "shapes, for the document")]

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A moment of a thread.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Moment {
    thread_id: String,
    seq: u64,
}

/// The thread whose branch a thread is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BranchOf {
    thread_id: String,
    /// Its number there, from 0.
    index: u32,
}

/// A thread at a glance.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Thread {
    thread_id: String,
    /// `pending`, `running`, `waiting`, `paused`, `completed`, `cancelled` or `error`.
    status: String,
    /// The name of the workflow it began on.
    workflow: Option<String>,
    workflow_hash: Option<String>,
    started_at: String,
    last_at: String,
    /// Its last event.
    last_seq: u64,
    /// The place of that event in the whole log.
    last_position: u64,
    forked_from: Option<Moment>,
    branch_of: Option<BranchOf>,
    /// Whether what stands here of the workflow or the branch is missing because the log is damaged there.
    damaged: bool,
    /// Where it was asked for.
    usage: Option<Usage>,
    /// The node it is in, where usage was asked for.
    node: Option<String>,
    /// Why the thread cannot be read, where usage was asked for.
    #[schema(value_type = Option<Object>)]
    problem: Option<Value>,
}

/// A page of threads.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Threads {
    threads: Vec<Thread>,
    /// The `cursor` of the next page; null on the last.
    next: Option<String>,
}

/// What a thread used.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    cached_input_tokens: u64,
    cache_write_tokens: u64,
    reasoning_tokens: u64,
    /// In billionths of a US dollar; null where it is not known.
    cost_nanousd: Option<u64>,
    llm_calls: u64,
    tool_calls: u64,
}

/// What a thread has come to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outcome {
    thread_id: String,
    status: String,
    /// Whether it reached an end.
    success: bool,
    /// The output of its last node.
    output: Option<Value>,
    /// Why it failed.
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
    iterations: u64,
    usage: Usage,
    last_seq: u64,
    last_position: u64,
}

/// A thread that is gone.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deleted {
    thread_id: String,
    status: String,
}

/// A name of a moment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    label: String,
    seq: u64,
}

/// The named moments of a thread.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoints {
    thread_id: String,
    checkpoints: Vec<Checkpoint>,
}

/// The whole state of a thread at a moment; docs/EVENTS.md describes it.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct State {
    thread_id: String,
    /// The moment: the last event that is in the state.
    seq: u64,
    status: String,
    workflow: Option<String>,
    workflow_hash: Option<String>,
    node: Option<String>,
    #[schema(value_type = Object)]
    variables: Value,
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Value>,
    /// What is open: calls, questions and waits, each with `kind` and `id`.
    #[schema(value_type = Vec<Object>)]
    pending: Vec<Value>,
    usage: Usage,
    output: Option<Value>,
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
}

/// A thread of a family at a moment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    thread_id: String,
    /// The thread whose branch it is; null for the first.
    owner: Option<String>,
    /// What the branch is called at its owner.
    name: Option<String>,
    /// Its last event at that moment; null for a branch that had not begun.
    seq: Option<u64>,
    status: String,
    /// The node it was in.
    node: Option<String>,
}

/// A thread and the branches that ran at a moment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Family {
    thread_id: String,
    seq: u64,
    members: Vec<Member>,
}

/// An event as scripts read it everywhere; docs/EVENTS.md describes its `data`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    /// Its place in the whole log.
    position: u64,
    /// The thread it was written to: for an inherited event, the one it was inherited from.
    thread_id: String,
    seq: u64,
    id: String,
    time: String,
    /// Its documented name.
    #[serde(rename = "type")]
    kind: String,
    version: u16,
    trace_id: String,
    /// The position that led to it.
    cause: Option<u64>,
    hash: String,
    #[schema(value_type = Object)]
    data: Value,
}

/// A page of events of the log.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Events {
    events: Vec<Event>,
    /// The `after` of the next page; null when nothing follows by now.
    next: Option<u64>,
}

/// A page of events of a thread.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThreadEvents {
    events: Vec<Event>,
    /// The `from_seq` of the next page; null when nothing follows by now.
    next: Option<u64>,
}

/// A question that waits for a person.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interaction {
    /// Its name worldwide.
    id: String,
    thread_id: String,
    workflow: Option<String>,
    node: String,
    /// What will be done with the answer, and so what it may be: `approve_tool`, `answer_tool`, `update_variables`,
    /// `add_message`, `relay_model`.
    operation_type: String,
    prompt: Option<String>,
    #[schema(value_type = Option<Object>)]
    tool_call: Option<Value>,
    requested_at: String,
    age_ms: u64,
    deadline: Option<String>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
}

/// What waits for people.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interactions {
    /// Those that have waited longest first.
    interactions: Vec<Interaction>,
    /// Threads that cannot be read, and why; what they ask is not known.
    unreadable: Vec<Unreadable>,
    /// How many questions are open, on all pages.
    total: usize,
    /// The `cursor` of the next page; null on the last.
    next: Option<String>,
}

/// A thread that cannot be read.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unreadable {
    thread_id: String,
    #[schema(value_type = Object)]
    problem: Value,
}

/// A question that was answered or taken back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    id: String,
    thread_id: String,
    /// `answered` or `cancelled`.
    status: String,
}

/// A tool that threads can use.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    name: String,
    description: Option<String>,
    /// What recovery may do with a call whose answer was lost: `safe`, `idempotent` or `at_most_once`.
    recovery: String,
    /// What a person has to do with its calls: `none`, `approves` or `answers`.
    approval: String,
    /// The option of the command line that offers it, where one does.
    allowed_by: Option<String>,
    timeout_ms: Option<u64>,
    /// The JSON Schema of its arguments.
    #[schema(value_type = Object)]
    parameters: Value,
}

/// The tools.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tools {
    tools: Vec<Tool>,
}

/// A profile, without anything that is secret or says where secrets are.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    name: String,
    provider: String,
    model: String,
    /// Whether it is used where none is named.
    is_default: bool,
    /// The longest conversation it takes, in tokens, where the profile says so.
    context_tokens_max: Option<u64>,
    /// The profiles it turns to when it stays down.
    fallback: Vec<String>,
}

/// The profiles.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    profiles: Vec<Profile>,
}

/// What the server is, and what whoever asks may do.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Info {
    /// Always `rethread`.
    name: String,
    version: String,
    /// What the caller may do: `read`, `operate` or `admin`.
    scope: String,
    /// Whether the server only shows.
    read_only: bool,
    /// The position that the next event will get.
    next_position: u64,
    /// The server's clock.
    now: String,
}

/// What is drawn of a workflow, and how a thread went through it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Graph {
    thread_id: String,
    /// The moment that is shown.
    seq: u64,
    workflow: String,
    workflow_hash: String,
    status: String,
    /// The workflow's own graph first, then its sub-workflows.
    parts: Vec<GraphPart>,
    /// Arrows from one part into another.
    arrows: Vec<GraphArrow>,
    /// The nodes that were entered, the last at the end; of a long path, the last.
    path: Vec<Visit>,
    /// How many visits came before those.
    path_dropped: u64,
}

/// A graph of the workflow.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphPart {
    /// The name of the sub-workflow; null for the workflow itself.
    name: Option<String>,
    nodes: Vec<GraphNode>,
    arrows: Vec<GraphArrow>,
}

/// A node of the picture.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphNode {
    /// Unique in the picture.
    number: usize,
    /// The node's id in the workflow; null for the mark of where a graph begins.
    id: Option<String>,
    /// `entry`, `llm`, `tool`, `person`, `processor`, `route`, `fork`, `join`, `loop_start`, `loop_end`,
    /// `sub_workflow`, `start` or `end`.
    kind: String,
    /// Its id, and what is said of it.
    lines: Vec<String>,
    /// Whether the workflow ends there.
    is_end: bool,
    /// How often it was entered on the path that is shown.
    visits: u64,
    /// Whether the thread is in it.
    is_current: bool,
}

/// An edge of the picture.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphArrow {
    from: usize,
    to: usize,
    /// `on`, `on_error`, `again` or `into`.
    kind: String,
    label: Option<String>,
    /// How often the path goes along it.
    taken: u64,
}

/// A node that was entered.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Visit {
    seq: u64,
    node: String,
    attempt: u32,
}

/// Whether the server works.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Health {
    /// `ok`.
    status: String,
    /// The process, by which the server of a log is told from others.
    pid: Option<u32>,
}

/// What the token of a session allows.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Session {
    /// `read`, `operate` or `admin`.
    scope: String,
}

/// What an import did.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Imported {
    /// Threads that were written.
    threads: Vec<String>,
    /// Threads that were there already, with the same events.
    known: Vec<String>,
    /// Events that were written.
    n_events: u64,
}

/// What a thread did, node by node.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Runs {
    first_seq: u64,
    last_seq: u64,
    /// `open`, `completed`, `failed` or `cancelled`.
    outcome: String,
    /// One for each node that was entered, in that order: its calls, its times, what it used, what came of it.
    #[schema(value_type = Vec<Object>)]
    results: Vec<Value>,
    /// How many results were there before those that are held.
    n_dropped: u64,
}

/// An event without its place.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BareEvent {
    /// Its documented name.
    #[serde(rename = "type")]
    kind: String,
    #[schema(value_type = Object)]
    data: Value,
}

/// The first event that is another.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Diverged {
    thread_id: String,
    seq: u64,
    /// What was recorded.
    expected: BareEvent,
    /// What it does now; null when it waits, or has ended.
    got: Option<BareEvent>,
    /// The difference, in a sentence.
    why: String,
}

/// A thread that was run again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RanAgain {
    thread_id: String,
    /// How many events were reproduced.
    events: u64,
    /// How many of them were decided again, and not taken as they were recorded.
    decided: u64,
    diverged: Option<Diverged>,
}

/// What came of a thread that was run again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reran {
    /// Whether every event was reproduced.
    same: bool,
    /// The first place where a thread parts from its log.
    diverged: Option<Diverged>,
    /// The thread, then its branches.
    threads: Vec<RanAgain>,
    /// The new thread that goes on with real calls, where one was begun.
    thread: Option<Thread>,
}

/// What a branch did.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BranchRuns {
    thread_id: String,
    runs: Runs,
}

/// A call that time or money went to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Top {
    thread_id: String,
    node: String,
    /// Its id: the seq of its request.
    call: u64,
    kind: String,
    /// The tool, or the model.
    name: Option<String>,
    took_ms: u64,
    cost_nanousd: Option<u64>,
    #[schema(value_type = Option<Object>)]
    usage: Option<Value>,
}

/// A step on the way to a failure.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cause {
    thread_id: String,
    seq: Option<u64>,
    /// What failed, in words.
    what: String,
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
    #[schema(value_type = Vec<Object>)]
    failed_tries: Vec<Value>,
}

/// What happened in a thread, where its time and money went, and why it failed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Explanation {
    thread_id: String,
    status: String,
    workflow: Option<String>,
    /// The moment up to which it is told.
    seq: Option<u64>,
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
    usage: Usage,
    runs: Runs,
    /// Its branches, and theirs.
    branches: Vec<BranchRuns>,
    /// How many branches were not read.
    branches_left_out: usize,
    /// The calls that took longest.
    longest: Vec<Top>,
    /// The calls that cost most.
    dearest: Vec<Top>,
    /// Why it failed: the end of the thread first, then what led to it. Empty when it did not fail.
    causes: Vec<Cause>,
}

/// A thread, and what came of it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kin {
    thread_id: String,
    /// `pending`, `running`, `waiting`, `paused`, `completed`, `cancelled` or `error`.
    status: String,
    workflow: Option<String>,
    workflow_hash: Option<String>,
    started_at: String,
    last_at: String,
    last_seq: u64,
    last_position: u64,
    forked_from: Option<Moment>,
    branch_of: Option<BranchOf>,
    damaged: bool,
    /// What it is called at the thread whose branch it is.
    branch: Option<String>,
    /// Its forks and branches.
    #[schema(no_recursion)]
    children: Vec<Self>,
}
