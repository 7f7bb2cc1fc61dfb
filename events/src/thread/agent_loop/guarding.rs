//! The guardrails of a loop: what is to be checked next, and what an outcome makes of it.

use std::sync::Arc;

use super::super::calls::OpenCall;
use super::super::conversation::Conversation;
use super::super::state::{AgentLoop, Candidate, Check, CheckStage, Panel, Slot, Stage, StoppedBy};
use super::super::transition::TransitionError;
use super::answers::{answer_text, error_text};
use super::panel::number;
use crate::event::{
    CheckedContent, Decision, GuardedContent, Guardrail, GuardrailCompleted, GuardrailOutcome, GuardrailRequested,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Seq};
use crate::json::Json;
use crate::message::{Message, Part, Role, ToolCall, ToolResult};

const NOT_DUE: TransitionError = TransitionError("no such check is due");

/// What a checked input or answer is replaced with.
type Replaced = Option<Arc<Message>>;

impl AgentLoop {
    /// What is to be checked before the loop continues, and the index of the guardrail that is next.
    pub(in super::super) fn check_due(&self, conversation: &Conversation) -> Option<(CheckedContent, u32)> {
        if self.has_failed() {
            return None;
        }
        if let Some(check) = &self.guarding.check
            && self.has_content(&check.content)
        {
            return Some((check.content.clone(), check.guardrail));
        }
        let is_answered = matches!(self.stage, Stage::Answered { .. } | Stage::Tools(_) | Stage::ToAsk);
        if is_answered
            && self.guarding.answer_due
            && let Some(guardrail) = self.next_guardrail(GuardedContent::Answer, None, 0)
        {
            return Some((CheckedContent::Answer {}, guardrail));
        }
        match &self.stage {
            Stage::Tools(slots) => {
                return (0_u32..).zip(slots).find_map(|(index, slot)| {
                    let call = called(slot).filter(|_| !self.is_call_checked(index))?;
                    let guardrail = self.next_guardrail(GuardedContent::ToolCall, Some(&call.name), 0)?;
                    Some((CheckedContent::ToolCall { index, tool_call_id: call.id }, guardrail))
                });
            }
            // A message that no call will read is checked where one does.
            Stage::Answered { .. } if self.is_at_limit() => return None,
            Stage::ToAsk | Stage::Answered { .. } => {}
            Stage::Panel(panel) => {
                let guardrail = self.next_guardrail(GuardedContent::Answer, None, 0)?;
                let is_due = |index: &u32| {
                    let said = answered_by(panel, *index).map(|message| answer_text(message));
                    said.is_some_and(|text| !text.is_empty()) && !self.guarding.candidates.contains(index)
                };
                let index = (0..number(panel.candidates.len())).find(is_due)?;
                return Some((CheckedContent::Candidate { index }, guardrail));
            }
            Stage::Summarizing(_) | Stage::Asking(_) | Stage::Failed(_) => return None,
        }
        let guardrail = self.next_guardrail(GuardedContent::Input, None, 0)?;
        let message = match self.guarding.has_checked_prompt {
            true => conversation.first_unread_input(self.guarding.input_from)?,
            false => prompt_of(conversation)?,
        };
        Some((CheckedContent::Input { message }, guardrail))
    }

    /// What a guardrail was to check when the loop failed, and no other one will: the prompt, and the last answer.
    pub(in super::super) fn unchecked(&self, conversation: &Conversation) -> Vec<CheckedContent> {
        let is_unchecked =
            !self.guarding.has_checked_prompt && self.next_guardrail(GuardedContent::Input, None, 0).is_some();
        let prompt = prompt_of(conversation).filter(|_| is_unchecked);
        let prompt = prompt.map(|message| CheckedContent::Input { message });
        prompt.into_iter().chain(self.is_answer_unchecked().then_some(CheckedContent::Answer {})).collect()
    }

    /// Whether what was to be checked is still to be used.
    fn has_content(&self, content: &CheckedContent) -> bool {
        match content {
            CheckedContent::Input { .. } | CheckedContent::Answer {} => true,
            CheckedContent::Candidate { index } => self.candidate(*index).is_some(),
            CheckedContent::ToolCall { index, tool_call_id } => {
                self.call_at(*index).is_some_and(|call| call.id == *tool_call_id)
            }
        }
    }

    /// The tool call with this index in the last answer, as long as it has not begun.
    fn call_at(&self, index: u32) -> Option<ToolCall> {
        called(self.slots().get(usize::try_from(index).ok()?)?)
    }

    fn candidate(&self, index: u32) -> Option<&Arc<Message>> {
        answered_by(self.panel()?, index)
    }

    fn candidate_mut(&mut self, index: u32) -> Option<&mut Arc<Message>> {
        let Stage::Panel(panel) = &mut self.stage else { return None };
        match panel.candidates.get_mut(usize::try_from(index).ok()?)? {
            Candidate::Answered { message, .. } => Some(message),
            Candidate::ToAsk | Candidate::Asking(_) | Candidate::Failed(_) => None,
        }
    }

    /// The next guardrail for something.
    fn next_guardrail(&self, on: GuardedContent, tool: Option<&str>, from: u32) -> Option<u32> {
        let applies = |guardrail: &Guardrail| {
            let is_of_tool = |tool| guardrail.tools.is_empty() || guardrail.tools.iter().any(|name| name == tool);
            guardrail.on == on && tool.is_none_or(is_of_tool)
        };
        let mut guardrails = (0_u32..).zip(&self.request.guardrails).filter(|(index, _)| *index >= from);
        guardrails.find(|(_, guardrail)| applies(guardrail)).map(|(index, _)| index)
    }

    fn is_call_checked(&self, index: u32) -> bool {
        self.guarding.calls.get(&index).is_some_and(|call| call.is_checked)
    }

    /// Whether a tool call may not run yet, because a guardrail is to check it.
    pub(super) fn is_unchecked(&self, index: usize, tool: &str) -> bool {
        self.next_guardrail(GuardedContent::ToolCall, Some(tool), 0).is_some()
            && !u32::try_from(index).is_ok_and(|index| self.is_call_checked(index))
    }

    /// Whether a guardrail is to check the last answer.
    pub(super) fn is_answer_unchecked(&self) -> bool {
        self.guarding.answer_due && self.next_guardrail(GuardedContent::Answer, None, 0).is_some()
    }

    /// The guardrail that has decided that a person is to approve of a tool call.
    pub(super) fn stopped_by(&self, index: usize) -> Option<&StoppedBy> {
        self.guarding.calls.get(&u32::try_from(index).ok()?)?.stopped_by.as_ref()
    }

    /// Whether a guardrail has replaced the arguments of a tool call.
    pub(super) fn is_replaced(&self, index: u32) -> bool {
        self.guarding.calls.get(&index).is_some_and(|call| call.is_replaced)
    }

    /// The content of a check, as expressions see it: a text, or an object with `name` and `arguments`.
    pub(in super::super) fn checked_value(&self, content: &CheckedContent, conversation: &Conversation) -> Json {
        match content {
            CheckedContent::Input { message } => {
                Json::from(conversation.message_of(*message).map(|message| message.joined_text()).unwrap_or_default())
            }
            CheckedContent::Answer {} => match &self.stage {
                Stage::Answered { content, .. } => Json::from(content.as_str()),
                _ => Json::from(conversation.last_answer().map(|message| answer_text(message)).unwrap_or_default()),
            },
            CheckedContent::Candidate { index } => {
                Json::from(self.candidate(*index).map(|message| answer_text(message)).unwrap_or_default())
            }
            CheckedContent::ToolCall { index, .. } => {
                let call = self.call_at(*index);
                let call = call.map(|call| serde_json::json!({ "name": call.name, "arguments": call.arguments }));
                Json::from(call.unwrap_or_default())
            }
        }
    }

    /// The guardrail whose function checks, and what it checks: a text, or an object with `name` and `arguments`.
    pub fn guardrail_at_work(&self, conversation: &Conversation) -> Option<(&Guardrail, CheckedContent, Json)> {
        let check = self.guarding.check.as_deref()?;
        let guardrail = self.request.guardrails.get(usize::try_from(check.guardrail).ok()?)?;
        Some((guardrail, check.content.clone(), self.checked_value(&check.content, conversation)))
    }

    /// Whether it is the call of a handoff, which no person can be asked about.
    pub(in super::super) fn is_handoff(&self, content: &CheckedContent) -> bool {
        match content {
            CheckedContent::Input { .. } | CheckedContent::Answer {} | CheckedContent::Candidate { .. } => false,
            CheckedContent::ToolCall { index, .. } => {
                self.call_at(*index).is_some_and(|call| self.handoff(&call.name).is_some())
            }
        }
    }

    /// Ends the check of a tool call that does not run any more. One whose call is open ends with the call.
    pub(super) fn drop_check_of_call(&mut self) {
        let is_open = self.guarding.open_call().is_some();
        self.guarding.check.take_if(|check| matches!(check.content, CheckedContent::ToolCall { .. }) && !is_open);
    }

    /// A model has judged. Where the tool call does not run any more, nothing follows.
    pub(in super::super) fn guardrail_judged(&mut self) {
        if self.guarding.check.as_ref().is_some_and(|check| !self.has_content(&check.content)) {
            self.drop_check_of_call();
        }
    }

    /// A check reaches another stage.
    pub(in super::super) fn check_begins(
        &mut self,
        conversation: &Conversation,
        (content, guardrail): (&CheckedContent, u32),
        stage: CheckStage,
    ) -> Result<(), TransitionError> {
        if self.guarding.open_call().is_some() || self.check_due(conversation) != Some((content.clone(), guardrail)) {
            return Err(NOT_DUE);
        }
        self.guarding.check = Some(Box::new(Check { content: content.clone(), guardrail, stage }));
        Ok(())
    }

    /// A function of the application checks.
    pub(in super::super) fn guardrail_requested(
        &mut self,
        seq: Seq,
        conversation: &Conversation,
        e: &GuardrailRequested,
    ) -> Result<(), TransitionError> {
        self.check_begins(conversation, (&e.content, e.guardrail), CheckStage::Calling(CallId(seq)))
    }

    /// A guardrail has decided. The call of a function is closed. Returns what joins the conversation: the replacement of
    /// the message, and results of tool calls.
    pub(in super::super) fn guardrail_completed(
        &mut self,
        seq: Seq,
        conversation: &Conversation,
        e: &GuardrailCompleted,
    ) -> Result<(Replaced, Vec<Arc<Message>>), TransitionError> {
        let is_called = |check: &Check| match &check.stage {
            CheckStage::Calling(call) => *call == e.call_id,
            CheckStage::Judging(judging) => judging.open_call().is_none() && e.call_id == CallId(seq),
            CheckStage::Due => e.call_id == CallId(seq),
            CheckStage::Stopped { .. } | CheckStage::Asking(_) => false,
        };
        let expected = self
            .guarding
            .check
            .take_if(|check| is_called(check) && (&check.content, check.guardrail) == (&e.content, e.guardrail));
        if expected.is_some() && !self.has_content(&e.content) {
            // A message of the user came first: the tool call does not run.
            return Ok((None, Vec::new()));
        }
        let is_first = || {
            e.call_id == CallId(seq) && self.check_due(conversation).as_ref() == Some(&(e.content.clone(), e.guardrail))
        };
        if expected.is_none() && (self.guarding.open_call().is_some() || !is_first()) {
            return Err(NOT_DUE);
        }
        self.guarding.check = None;
        match (&e.outcome, &e.content) {
            (GuardrailOutcome::Allow {}, _) => {
                self.goes_on(&e.content, e.guardrail);
                Ok((None, Vec::new()))
            }
            (GuardrailOutcome::Ask { reason }, CheckedContent::ToolCall { index, .. }) => {
                let stopped = StoppedBy { guardrail: e.name.clone(), reason: reason.clone() };
                self.guarding.calls.entry(*index).or_default().stopped_by.get_or_insert(stopped);
                self.goes_on(&e.content, e.guardrail);
                Ok((None, Vec::new()))
            }
            (GuardrailOutcome::Ask { reason }, content) => {
                let stage = CheckStage::Stopped { reason: reason.clone() };
                self.guarding.check = Some(Box::new(Check { content: content.clone(), guardrail: e.guardrail, stage }));
                Ok((None, Vec::new()))
            }
            (GuardrailOutcome::Replace { with, .. }, content) => {
                let replaced = self.replace(content, with, conversation)?;
                self.goes_on(content, e.guardrail);
                Ok((replaced, Vec::new()))
            }
            (GuardrailOutcome::Reject { reason }, content) => {
                self.reject(content, &rejected(&e.name, reason), conversation)
            }
        }
    }

    /// The guardrails after this one are next.
    fn goes_on(&mut self, content: &CheckedContent, guardrail: u32) {
        let call = match content {
            CheckedContent::ToolCall { index, .. } => self.call_at(*index),
            CheckedContent::Input { .. } | CheckedContent::Answer {} | CheckedContent::Candidate { .. } => None,
        };
        let next = self.next_guardrail(kind_of(content), call.as_ref().map(|call| &*call.name), guardrail + 1);
        if let Some(guardrail) = next {
            let check = Check { content: content.clone(), guardrail, stage: CheckStage::Due };
            self.guarding.check = Some(Box::new(check));
            return;
        }
        self.guarding.check = None;
        self.is_checked(content);
    }

    /// No guardrail is left to check it.
    fn is_checked(&mut self, content: &CheckedContent) {
        match content {
            CheckedContent::Input { message } if self.guarding.has_checked_prompt => {
                self.guarding.input_from = message.next();
            }
            CheckedContent::Input { .. } => self.guarding.has_checked_prompt = true,
            CheckedContent::Answer {} => self.guarding.answer_due = false,
            CheckedContent::Candidate { index } => {
                self.guarding.candidates.insert(*index);
            }
            CheckedContent::ToolCall { index, .. } => {
                self.guarding.calls.entry(*index).or_default().is_checked = true;
            }
        }
    }

    fn replace(
        &mut self,
        content: &CheckedContent,
        with: &Json,
        conversation: &Conversation,
    ) -> Result<Replaced, TransitionError> {
        let text = || with.0.as_str().ok_or(TransitionError("a message is replaced with a text"));
        match content {
            CheckedContent::Input { message } => {
                let said = conversation.message_of(*message).ok_or(NOT_DUE)?;
                Ok(Some(Arc::new(with_text(said, text()?))))
            }
            CheckedContent::Answer {} => {
                let text = text()?;
                if let Stage::Answered { content, .. } = &mut self.stage {
                    text.clone_into(content);
                }
                let said = conversation.last_answer().ok_or(NOT_DUE)?;
                Ok(Some(Arc::new(answer_with(said, text))))
            }
            CheckedContent::Candidate { index } => {
                let said = self.candidate_mut(*index).ok_or(NOT_DUE)?;
                *said = Arc::new(answer_with(said, text()?));
                Ok(None)
            }
            CheckedContent::ToolCall { index, .. } => {
                if !with.0.is_object() {
                    return Err(TransitionError("the arguments of a tool call are an object"));
                }
                let place = usize::try_from(*index).unwrap_or(usize::MAX);
                match self.slots_mut().get_mut(place) {
                    Some(Slot::Queued(call)) => call.arguments = with.clone(),
                    Some(Slot::Approved { tool, .. }) => tool.arguments = with.clone(),
                    _ => return Err(NOT_DUE),
                }
                self.guarding.calls.entry(*index).or_default().is_replaced = true;
                Ok(None)
            }
        }
    }

    /// What is rejected is not used: a tool call gets the error as its result, everything else ends the loop.
    fn reject(
        &mut self,
        content: &CheckedContent,
        error: &ExecutionError,
        conversation: &Conversation,
    ) -> Result<(Replaced, Vec<Arc<Message>>), TransitionError> {
        // What no later call of a model is to read.
        let removed = format!("(removed: {})", error.message);
        self.is_checked(content);
        Ok(match content {
            CheckedContent::Input { .. } => (Some(Arc::new(Message::text(Role::User, removed))), self.give_up(error)),
            CheckedContent::Answer {} => (removed_answer(conversation, &removed), self.give_up(error)),
            CheckedContent::Candidate { index } => {
                let place = usize::try_from(*index).unwrap_or(usize::MAX);
                if let Stage::Panel(panel) = &mut self.stage
                    && let Some(candidate) = panel.candidates.get_mut(place)
                {
                    *candidate = Candidate::Failed(error.clone());
                }
                (None, Vec::new())
            }
            CheckedContent::ToolCall { index, .. } => {
                let place = usize::try_from(*index).unwrap_or(usize::MAX);
                if let Some(slot) = self.slots_mut().get_mut(place)
                    && let Some(call) = called(slot)
                {
                    *slot = Slot::Ended(ToolResult {
                        tool_call_id: call.id,
                        name: Some(call.name),
                        content: vec![Part::text(error_text(error))],
                        is_error: true,
                    });
                    self.n_tool_calls += 1;
                }
                let all_ended = self.slots().iter().all(|slot| matches!(slot, Slot::Ended(_)));
                if all_ended {
                    self.turned();
                }
                (None, if all_ended { self.results_of_all() } else { Vec::new() })
            }
        })
    }

    /// A person is asked about an input or an answer.
    pub(super) fn asked_about_content(&mut self, question: CallId) -> Result<(), TransitionError> {
        match &mut self.guarding.check {
            Some(check) if matches!(check.stage, CheckStage::Stopped { .. }) => {
                check.stage = CheckStage::Asking(question);
                Ok(())
            }
            _ => Err(NOT_DUE),
        }
    }

    /// A person has decided about an input or an answer, or never will. Returns what joins the conversation.
    pub(in super::super) fn decided_about_content(
        &mut self,
        asked: &OpenCall,
        conversation: &Conversation,
        decision: Result<&Decision, ExecutionError>,
    ) -> Result<(Replaced, Vec<Arc<Message>>), TransitionError> {
        let check = self.guarding.check.take().filter(|check| check.stage == CheckStage::Asking(asked.id()));
        let Check { content, guardrail, .. } = *check.ok_or(NOT_DUE)?;
        match decision {
            Ok(Decision::Approve {}) => {
                self.goes_on(&content, guardrail);
                Ok((None, Vec::new()))
            }
            Ok(Decision::Answer { content: with }) => {
                let replaced = self.replace(&content, with, conversation)?;
                self.goes_on(&content, guardrail);
                Ok((replaced, Vec::new()))
            }
            Ok(Decision::Reject { reason }) => {
                let reason = reason.as_deref().filter(|reason| !reason.trim().is_empty());
                let reason =
                    reason.map_or_else(|| "a person refused it".into(), |why| format!("a person refused it: {why}"));
                self.reject(&content, &self.rejected_by(guardrail, &reason), conversation)
            }
            Ok(Decision::Edit { .. }) => Err(TransitionError("a message has no arguments")),
            Err(error) => self.reject(&content, &self.rejected_by(guardrail, &error.message), conversation),
        }
    }

    fn rejected_by(&self, guardrail: u32, reason: &str) -> ExecutionError {
        let guardrail = self.request.guardrails.get(usize::try_from(guardrail).unwrap_or(usize::MAX));
        rejected(guardrail.map_or("", |guardrail| &guardrail.name), reason)
    }
}

/// The answer of one of several models.
fn answered_by(panel: &Panel, index: u32) -> Option<&Arc<Message>> {
    match panel.candidates.get(usize::try_from(index).ok()?)? {
        Candidate::Answered { message, .. } => Some(message),
        Candidate::ToAsk | Candidate::Asking(_) | Candidate::Failed(_) => None,
    }
}

/// The prompt of the turn that runs.
fn prompt_of(conversation: &Conversation) -> Option<Seq> {
    Some(conversation.turn().iter().find(|entry| entry.message.role == Role::User && !entry.added)?.seq)
}

/// The last answer without anything that was said in it. Its tool calls stay: their results follow.
pub(in super::super) fn removed_answer(conversation: &Conversation, removed: &str) -> Replaced {
    let said = conversation.last_answer()?;
    let calls = said.tool_calls().cloned().map(Part::ToolCall);
    let content = std::iter::once(Part::text(removed)).chain(calls).collect();
    Some(Arc::new(Message { role: said.role, content }))
}

/// An answer with this text in place of its own. With calls of tools, a provider wants the rest of its answer back.
fn answer_with(said: &Message, text: &str) -> Message {
    let calls_tools = said.tool_calls().next().is_some();
    if calls_tools { with_text(said, text) } else { Message::text(said.role, text) }
}

/// The message with this text in place of its own.
fn with_text(message: &Message, text: &str) -> Message {
    let mut own = Some(Part::text(text));
    let mut content = Vec::with_capacity(message.content.len() + 1);
    for part in &message.content {
        match part {
            Part::Text { .. } | Part::Refusal { .. } => content.extend(own.take()),
            Part::Image(_)
            | Part::Document(_)
            | Part::Reasoning(_)
            | Part::ToolCall(_)
            | Part::ToolResult(_)
            | Part::Audio(_)
            | Part::ProviderTool(_)
            | Part::Opaque { .. } => content.push(part.clone()),
        }
    }
    content.extend(own);
    Message { role: message.role, content }
}

/// The error of what a guardrail has rejected.
fn rejected(name: &str, reason: &str) -> ExecutionError {
    ExecutionError::new(ErrorKind::Guardrail, format!("rejected by guardrail `{name}`: {reason}"))
}

/// The kind of what is checked.
pub(in super::super) fn kind_of(content: &CheckedContent) -> GuardedContent {
    match content {
        CheckedContent::Input { .. } => GuardedContent::Input,
        CheckedContent::Answer {} | CheckedContent::Candidate { .. } => GuardedContent::Answer,
        CheckedContent::ToolCall { .. } => GuardedContent::ToolCall,
    }
}

/// The call of a slot that has not begun.
fn called(slot: &Slot) -> Option<ToolCall> {
    match slot {
        Slot::Queued(call) => Some(call.clone()),
        Slot::Approved { tool, .. } => Some(ToolCall {
            id: tool.tool_call_id.clone().unwrap_or_default(),
            name: tool.name.to_string(),
            arguments: tool.arguments.clone(),
            arguments_raw: None,
            signature: None,
        }),
        Slot::Cut(_) | Slot::Asking(_) | Slot::Open(_) | Slot::Refused { .. } | Slot::Ended(_) => None,
    }
}
