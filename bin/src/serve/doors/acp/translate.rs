//! From the events of a thread to updates of a session.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, MessageId, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionUpdate,
    ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use rethread::operate::OpenInteraction;
use rethread::{CallId, Event, ExecutionError, Message, Part, RecordedEvent, Seq, ThreadId};
use rethread_events::event::Decision;
use rethread_events::message::FinishReason;

use super::calls::{self, Shown};
use super::made;
use crate::serve::doors::streamed_text::{StreamedText, reasoning_of};

/// What is between the texts of a message that was begun twice.
const BETWEEN: &str = "\n\n";

/// A fold of the events of a thread. Told are the texts, the reasoning and the tool calls of its model calls, and plans.
pub(super) struct Translator {
    folder: PathBuf,
    /// The model call whose answer is told.
    call: Option<CallId>,
    text: StreamedText,
    thought: StreamedText,
    /// What the last answer said.
    last: String,
    finish: Option<FinishReason>,
    /// The calls of the last answer, by the ids that the model gave them.
    of_answer: HashMap<String, String>,
    running: HashMap<CallId, String>,
    /// Calls that are shown with a change, which stays when they have completed.
    changes: HashSet<String>,
    /// The calls about which a person is asked.
    asked: HashMap<CallId, String>,
    agents: HashMap<ThreadId, String>,
    plan: Vec<(String, PlanEntryStatus)>,
    /// Whether the next answer is a plan, which is told as one.
    is_planning: bool,
}

/// The id of a call by the event that has the answer and its place there.
pub(super) fn id_of_call(answer: Seq, place: usize) -> String {
    format!("{answer}.{place}")
}

/// The calls of an answer by the ids that the model gave them. An id that the answer has twice names none.
pub(super) fn ids_of_calls(answer: Seq, message: &Message) -> HashMap<String, String> {
    let mut ids = HashMap::new();
    let mut twice = Vec::new();
    for (place, call) in message.tool_calls().enumerate() {
        if ids.insert(call.id.clone(), id_of_call(answer, place)).is_some() {
            twice.push(call.id.clone());
        }
    }
    twice.iter().for_each(|id| drop(ids.remove(id)));
    ids
}

impl Translator {
    /// For tools that work in this folder.
    pub(super) fn of(folder: PathBuf) -> Self {
        Self {
            folder,
            call: None,
            text: StreamedText::default(),
            thought: StreamedText::default(),
            last: String::new(),
            finish: None,
            of_answer: HashMap::new(),
            running: HashMap::new(),
            changes: HashSet::new(),
            asked: HashMap::new(),
            agents: HashMap::new(),
            plan: Vec::new(),
            is_planning: false,
        }
    }

    /// Continues after an answer that was told before, whose calls are open.
    pub(super) fn goes_on(&mut self, of_answer: HashMap<String, String>) {
        self.of_answer = of_answer;
    }

    /// A turn begins.
    pub(super) fn begin_turn(&mut self) {
        self.finish = None;
        self.last.clear();
    }

    /// What the last answer of the turn said.
    pub(super) fn last_said(&self) -> &str {
        &self.last
    }

    /// Why the last answer of the turn ended.
    pub(super) fn finish(&self) -> Option<FinishReason> {
        self.finish
    }

    /// The id by which the client knows the call about which a question of the thread is.
    pub(super) fn asked(&mut self, question: &OpenInteraction) -> Option<String> {
        let call = question.request.tool_call.as_ref()?.tool_call_id.as_ref()?;
        let id = self.asked.get(&question.request.id).or_else(|| self.of_answer.get(call))?.clone();
        self.asked.insert(question.request.id, id.clone());
        Some(id)
    }

    /// The id by which the client knows a call that runs.
    pub(super) fn running(&self, call: CallId) -> Option<&String> {
        self.running.get(&call)
    }

    /// Returns what the client is told of an event.
    pub(super) fn take(&mut self, recorded: &RecordedEvent) -> Vec<SessionUpdate> {
        let mut told = Vec::new();
        self.take_model(recorded, &mut told);
        self.take_tools(recorded, &mut told);
        self.take_agents(&recorded.event, &mut told);
        self.take_plan(&recorded.event, &mut told);
        told
    }

    fn take_model(&mut self, recorded: &RecordedEvent, told: &mut Vec<SessionUpdate>) {
        let (thread, event) = (recorded.record.thread, &recorded.event);
        if let Event::LlmCallRequested(e) = event {
            let is_told = e.aside.is_none() && !std::mem::take(&mut self.is_planning);
            self.call = is_told.then_some(CallId(recorded.record.seq));
            (self.text, self.thought) = Default::default();
        } else if let Event::LlmCallRetried(e) = event {
            self.restart(e.call_id);
        } else if let Event::LlmExecutionProgress(e) = event {
            if e.restarted {
                self.restart(e.call_id);
            }
            if self.call == Some(e.call_id) {
                let key = e.call_id.key(thread);
                told.extend(self.thought.take(&e.reasoning).map(|(piece, _)| thought(&key, piece)));
                told.extend(self.text.take(&e.text).map(|(piece, _)| said(&key, piece)));
            }
        } else if let Event::LlmCallCompleted(e) = event
            && self.call == Some(e.call_id)
        {
            let key = e.call_id.key(thread);
            told.extend(rest(&self.thought, &reasoning_of(&e.message)).map(|piece| thought(&key, piece)));
            let text = e.message.joined_text();
            told.extend(rest(&self.text, &text).map(|piece| said(&key, piece)));
            let made = made::content(&e.message, thread, recorded.record.seq);
            told.extend(made.into_iter().map(|content| chunk(&key, content)));
            (self.call, self.finish, self.last) = (None, Some(e.finish_reason), text);
            self.announce(recorded.record.seq, &e.message, told);
        }
    }

    fn restart(&mut self, call: CallId) {
        if self.call == Some(call) {
            self.text.restart();
            self.thought.restart();
        }
    }

    /// Tells the calls of an answer.
    fn announce(&mut self, answer: Seq, message: &Message, told: &mut Vec<SessionUpdate>) {
        self.of_answer = ids_of_calls(answer, message);
        for call in message.tool_calls() {
            if let Some(id) = self.of_answer.get(&call.id) {
                let shown = Shown::of(&call.name, &call.arguments.0, &self.folder);
                if shown.has_change() {
                    self.changes.insert(id.clone());
                }
                told.push(SessionUpdate::ToolCall(shown.call(id.clone(), ToolCallStatus::Pending)));
            }
        }
    }

    fn take_tools(&mut self, recorded: &RecordedEvent, told: &mut Vec<SessionUpdate>) {
        let (thread, event) = (recorded.record.thread, &recorded.event);
        if let Event::ToolExecutionRequest(e) = event {
            let call = CallId(recorded.record.seq);
            let known = e.tool_call_id.as_ref().and_then(|id| self.of_answer.get(id)).cloned();
            let id = known.clone().unwrap_or_else(|| call.key(thread));
            let shown = Shown::of(e.name.as_str(), &e.arguments.0, &self.folder);
            told.push(match known {
                Some(id) => changed(id, ToolCallStatus::InProgress, Vec::new()),
                None => SessionUpdate::ToolCall(shown.call(id.clone(), ToolCallStatus::InProgress)),
            });
            self.running.insert(call, id);
        } else if let Event::ToolExecutionProgress(e) = event {
            if let Some(id) = self.running.get(&e.call_id) {
                told.push(changed(id.clone(), ToolCallStatus::InProgress, calls::content(&e.message)));
            }
        } else if let Event::ToolExecutionCompleted(e) = event {
            if let Some(id) = self.ends(e.call_id, e.tool_call_id.as_ref()) {
                let text: String = e.content.iter().filter_map(Part::as_text).collect();
                let content = if self.changes.remove(&id) { Vec::new() } else { calls::content(&text) };
                told.push(changed(id, ToolCallStatus::Completed, content));
            }
        } else if let Event::ToolExecutionFailed(e) = event {
            if let Some(id) = self.ends(e.call_id, e.tool_call_id.as_ref()) {
                self.changes.remove(&id);
                told.push(failed(id, &e.error));
            }
        } else if let Event::UserInteractionRequested(e) = event {
            let call = e.tool_call.as_ref().filter(|_| e.tool_run_id.is_none());
            let id = call.and_then(|call| self.of_answer.get(call.tool_call_id.as_ref()?));
            if let Some(id) = id {
                self.asked.insert(CallId(recorded.record.seq), id.clone());
            }
        } else if let Event::UserInteractionProcessed(e) = event {
            let Some(id) = self.asked.remove(&e.interaction_id) else { return };
            if let Some(Decision::Reject { reason }) = &e.results.decision {
                let why = reason.as_deref().unwrap_or("it was not allowed");
                told.push(changed(id, ToolCallStatus::Failed, calls::content(why)));
            } else if let Some(Decision::Answer { content }) = &e.results.decision {
                let text = content.0.as_str().map_or_else(|| content.0.to_string(), str::to_owned);
                told.push(changed(id, ToolCallStatus::Completed, calls::content(&text)));
            }
        } else if let Event::UserInteractionFailed(e) = event
            && let Some(id) = self.asked.remove(&e.interaction_id)
        {
            let why = e.detail.as_deref().unwrap_or("nobody answered");
            told.push(changed(id, ToolCallStatus::Failed, calls::content(why)));
        }
    }

    /// The id of a call that ends. One that began before this was loaded is an open call of the last answer.
    fn ends(&mut self, call: CallId, of_model: Option<&String>) -> Option<String> {
        self.running.remove(&call).or_else(|| self.of_answer.get(of_model?).cloned())
    }

    fn take_agents(&mut self, event: &Event, told: &mut Vec<SessionUpdate>) {
        if let Event::AgentStarted(e) = event {
            if let Some(id) = e.tool_call_id.as_ref().and_then(|id| self.of_answer.get(id)) {
                told.push(changed(id.clone(), ToolCallStatus::InProgress, Vec::new()));
                self.agents.insert(e.child, id.clone());
            }
        } else if let Event::BranchEnded(e) = event
            && let Some(id) = self.agents.remove(&e.child)
        {
            told.push(match (&e.error, &e.output) {
                (Some(error), _) => failed(id, error),
                (None, output) => {
                    let text = output.as_ref().map(|output| match output.0.as_str() {
                        Some(text) => text.to_owned(),
                        None => output.0.to_string(),
                    });
                    changed(id, ToolCallStatus::Completed, calls::content(&text.unwrap_or_default()))
                }
            });
        }
    }

    fn take_plan(&mut self, event: &Event, told: &mut Vec<SessionUpdate>) {
        if let Event::PlanRequested(_) = event {
            self.is_planning = true;
            return;
        }
        let mut set = |index: u32, status| {
            if let Some(step) = self.plan.get_mut(index as usize) {
                step.1 = status;
            }
        };
        if let Event::PlanMade(e) = event {
            self.plan = e.steps.iter().map(|step| (step.clone(), PlanEntryStatus::Pending)).collect();
        } else if let Event::PlanStepStarted(e) = event {
            set(e.index, PlanEntryStatus::InProgress);
        } else if let Event::PlanStepCompleted(e) = event {
            set(e.index, PlanEntryStatus::Completed);
        } else if let Event::PlanStepFailed(e) = event {
            // The protocol has no failed steps; what comes in their place is the next plan.
            set(e.index, PlanEntryStatus::Pending);
        } else {
            return;
        }
        let entry = |(step, status): &(String, PlanEntryStatus)| {
            PlanEntry::new(step, PlanEntryPriority::Medium, status.clone())
        };
        told.push(SessionUpdate::Plan(Plan::new(self.plan.iter().map(entry).collect())));
    }
}

/// What is missing of a text once all of it is known.
fn rest(told: &StreamedText, whole: &str) -> Option<String> {
    let (piece, begins) = told.complete(whole)?;
    Some(if begins && !told.is_empty() { format!("{BETWEEN}{piece}") } else { piece })
}

/// A piece of the message of a model call.
fn said(key: &str, text: String) -> SessionUpdate {
    chunk(key, text.into())
}

fn chunk(key: &str, content: ContentBlock) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(content).message_id(MessageId::new(key)))
}

/// A piece of the reasoning of a model call.
fn thought(key: &str, text: String) -> SessionUpdate {
    SessionUpdate::AgentThoughtChunk(
        ContentChunk::new(text.into()).message_id(MessageId::new(format!("{key}-reasoning"))),
    )
}

/// A text of the agent that no model said.
pub(super) fn text(text: String) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()))
}

/// A change of a call; without content, it keeps its own.
pub(super) fn changed(id: String, status: ToolCallStatus, content: Vec<ToolCallContent>) -> SessionUpdate {
    let fields = ToolCallUpdateFields::new().status(status);
    let fields = if content.is_empty() { fields } else { fields.content(content) };
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
}

fn failed(id: String, error: &ExecutionError) -> SessionUpdate {
    changed(id, ToolCallStatus::Failed, calls::content(&format!("{}: {}", error.kind, error.message)))
}
