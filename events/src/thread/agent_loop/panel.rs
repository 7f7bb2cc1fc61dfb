//! Several models on one question, before the loop begins: a judge picks one of their answers, a model writes one from
//! all of them, or one model is picked before any has answered. The loop then continues with one model.

mod words;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::super::env::Env;
use super::super::request::{ModelBinding, ModelRequest};
use super::super::state::{AgentLoop, Candidate, Choice, Panel, Stage, StrategyState};
use super::super::transition::{NO_MODEL_CALL, OPEN_CALL, TransitionError};
use super::answers::{answer_text, not_usable};
use crate::event::{
    Aside, CandidateChosen, CandidatesGathered, Combine, Event, LlmCallCompleted, LlmCallFailed, LlmCallRequested,
    LlmExecutionRequest, LoopStrategy, PanelStrategy,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::CallId;
use crate::message::{FinishReason, Message, Role, ToolChoice};

/// How often a model may be asked for its choice before the node fails.
const CHOICES_MAX: u32 = 2;

impl Panel {
    /// The next event, if anything follows before an answer.
    pub(super) fn next(&self, agent_loop: &AgentLoop, around: &Env<'_>) -> Option<Event> {
        let strategy = of(&agent_loop.request)?;
        match strategy.combine {
            Combine::Route => self.choose(agent_loop, strategy, around),
            Combine::Judge | Combine::Merge => self.gather(agent_loop, strategy, around),
        }
    }

    fn gather(&self, agent_loop: &AgentLoop, strategy: &PanelStrategy, around: &Env<'_>) -> Option<Event> {
        let failed = || {
            self.candidates.iter().zip(&strategy.members).filter_map(|(candidate, member)| match candidate {
                Candidate::Failed(error) => Some((member, error)),
                Candidate::ToAsk | Candidate::Asking(_) | Candidate::Answered { .. } => None,
            })
        };
        let n_possible = self.candidates.len() - failed().count();
        if n_possible < strategy.min_answers.max(1) as usize {
            let error = words::too_few(strategy, n_possible, failed());
            // The running calls could not change the result.
            if let Some(open) = self.open_calls().next() {
                let message = "cancelled: too few of the other models can answer";
                let error = ExecutionError::new(ErrorKind::Cancelled, message);
                return Some(LlmCallFailed::new(open, error).into());
            }
            return Some(agent_loop.failed(error));
        }
        if let Some(index) = self.candidates.iter().position(|candidate| matches!(candidate, Candidate::ToAsk)) {
            let aside = Some(Aside::Candidate { index: number(index) });
            let model_profile = around.models.profile(&strategy.members.get(index)?.model);
            return Some(
                LlmCallRequested { node_id: None, iteration: agent_loop.iteration, aside, model_profile }.into(),
            );
        }
        if self.candidates.iter().any(|candidate| matches!(candidate, Candidate::Asking(_))) {
            return None;
        }
        let node = || agent_loop.request.node_id.clone();
        match (self.n_answers(), strategy.combine) {
            (1, _) => {
                let only = |candidate: &Candidate| matches!(candidate, Candidate::Answered { .. });
                let index = self.candidates.iter().position(only)?;
                let name = strategy.members.get(index)?.name.clone();
                let reason = Some("no other model answered".to_owned());
                Some(CandidateChosen { node_id: node(), index: number(index), name, reason }.into())
            }
            (n, Combine::Merge) => {
                let prompt = words::merge(strategy);
                Some(CandidatesGathered { node_id: node(), n_answers: number(n), prompt }.into())
            }
            (_, Combine::Judge | Combine::Route) => self.choose(agent_loop, strategy, around),
        }
    }

    fn choose(&self, agent_loop: &AgentLoop, strategy: &PanelStrategy, around: &Env<'_>) -> Option<Event> {
        let ask = |fault: Option<String>| {
            let aside = Some(Aside::Choice { fault });
            let model_profile = around.models.profile(&strategy.by);
            Some(LlmCallRequested { node_id: None, iteration: agent_loop.iteration, aside, model_profile }.into())
        };
        match &self.choice {
            Choice::None => ask(None),
            Choice::Asking { .. } => None,
            Choice::Failed(error) => Some(agent_loop.failed(error.clone())),
            Choice::Answered { text, n_asked } => {
                match words::read(text, strategy, |index| self.may_be_chosen(index)) {
                    Ok((index, reason)) => {
                        let name = strategy.members.get(index)?.name.clone();
                        let node = agent_loop.request.node_id.clone();
                        Some(CandidateChosen { node_id: node, index: number(index), name, reason }.into())
                    }
                    Err(fault) if *n_asked < CHOICES_MAX => ask(Some(fault)),
                    Err(fault) => {
                        let message = format!("the model made no choice, asked {CHOICES_MAX} times: {fault}");
                        Some(agent_loop.failed(ExecutionError::retryable(ErrorKind::MalformedResponse, message)))
                    }
                }
            }
        }
    }

    /// Where answers are judged, only one that is there can be chosen.
    fn may_be_chosen(&self, index: usize) -> bool {
        let judged = self.candidates.iter().any(|candidate| !matches!(candidate, Candidate::ToAsk));
        !judged || matches!(self.candidates.get(index), Some(Candidate::Answered { .. }))
    }

    /// Returns the request of an open call: `said` is the conversation that all of them read.
    pub(in super::super) fn request(
        &self,
        call: CallId,
        agent_loop: &AgentLoop,
        said: ModelRequest,
    ) -> Option<ModelRequest> {
        let strategy = of(&agent_loop.request)?;
        let is_it = |candidate: &Candidate| matches!(candidate, Candidate::Asking(open) if *open == call);
        if let Some(index) = self.candidates.iter().position(is_it) {
            let mut model = strategy.members.get(index)?.model.clone();
            // Chunks of several answers at once would be of no use.
            model.stream = false;
            let execution = Arc::new(LlmExecutionRequest { model, ..(*said.execution).clone() });
            let tool_choice = match strategy.combine {
                Combine::Merge => said.tool_choice.as_ref().map(|_| ToolChoice::None),
                Combine::Judge | Combine::Route => said.tool_choice.clone(),
            };
            return Some(ModelRequest { execution, tool_choice, ..said });
        }
        let Choice::Asking { call: open, fault } = &self.choice else {
            return None;
        };
        if *open != call {
            return None;
        }
        let prompt = words::question(self, strategy, fault.as_deref());
        let execution = Arc::new(LlmExecutionRequest {
            prompt: prompt.clone(),
            system_prompt: Some(words::INSTRUCTIONS.to_owned()),
            model: crate::event::ModelChoice { stream: false, ..strategy.by.clone() },
            tools: Vec::new(),
            tool_catalog: None,
            ..(*said.execution).clone()
        });
        // The node's own instructions are not for the model that chooses.
        let mut messages = said.messages;
        messages.push(Arc::new(Message::text(Role::System, words::INSTRUCTIONS)));
        messages.push(Arc::new(Message::text(Role::User, prompt)));
        let form = Some(words::form());
        Some(ModelRequest { execution, messages, tool_choice: None, iteration: 1, form, ..said })
    }

    /// Whether the models answer, and one of their answers is to be chosen.
    pub(super) fn is_answering(&self, request: &LlmExecutionRequest) -> bool {
        self.choice == Choice::None && of(request).is_some_and(|strategy| strategy.combine == Combine::Judge)
    }

    /// The first call: all of them read what it reads.
    pub(in super::super) fn first_call(&self) -> Option<CallId> {
        self.first
    }
}

/// An answer that joins the conversation.
pub(in super::super) struct Joining {
    /// The call after whose messages it comes.
    pub(in super::super) after: CallId,
    /// The answer, and what goes with it.
    pub(in super::super) messages: Vec<Arc<Message>>,
}

pub(super) fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

pub(super) fn of(request: &LlmExecutionRequest) -> Option<&PanelStrategy> {
    match &request.strategy {
        LoopStrategy::MultiLlm(strategy) => Some(strategy),
        LoopStrategy::React {} | LoopStrategy::PlanAndExecute(_) | LoopStrategy::Custom(_) => None,
    }
}

/// The first call of several models.
pub(super) fn first(agent_loop: &AgentLoop, around: &Env<'_>) -> Option<Event> {
    Panel::new(of(&agent_loop.request)?).next(agent_loop, around)
}

impl AgentLoop {
    fn panel_mut(&mut self) -> Result<&mut Panel, TransitionError> {
        match &mut self.stage {
            Stage::Panel(panel) => Ok(panel),
            _ => Err(TransitionError("it is no call of several models")),
        }
    }

    /// A call beside the conversation.
    pub(super) fn aside_requested(&mut self, call: CallId, aside: &Aside) -> Result<(), TransitionError> {
        if self.course == StrategyState::Several && matches!(self.stage, Stage::ToAsk) {
            let strategy = of(&self.request).ok_or(TransitionError("it is no call of several models"))?;
            self.stage = Stage::Panel(Box::new(Panel::new(strategy)));
            self.course = StrategyState::React;
        }
        let panel = self.panel_mut()?;
        match aside {
            Aside::Candidate { index } => match panel.candidates.get_mut(*index as usize) {
                Some(candidate @ Candidate::ToAsk) => *candidate = Candidate::Asking(call),
                _ => return Err(TransitionError("the model was asked already")),
            },
            Aside::Choice { fault } => match &panel.choice {
                Choice::None | Choice::Answered { .. } => {
                    panel.choice = Choice::Asking { call, fault: fault.clone() };
                }
                Choice::Asking { .. } | Choice::Failed(_) => return Err(TransitionError("no choice is due")),
            },
        }
        panel.first.get_or_insert(call);
        self.n_asides += 1;
        Ok(())
    }

    /// A call beside the conversation was answered.
    pub(super) fn aside_completed(&mut self, event: &LlmCallCompleted) -> Result<(), TransitionError> {
        let is_draft = of(&self.request).is_some_and(|strategy| strategy.combine == Combine::Merge);
        let unusable = not_usable(event.finish_reason).or_else(|| event.unusable.clone());
        let error = unusable.or_else(|| {
            let is_empty = answer_text(&event.message).trim().is_empty();
            let asks = !is_draft && event.message.tool_calls().next().is_some();
            (is_empty && !asks).then(|| ExecutionError::retryable(ErrorKind::MalformedResponse, "the answer is empty"))
        });
        let answered = match error {
            Some(error) => Err(error),
            None => Ok((event.message.clone(), event.finish_reason)),
        };
        self.end_aside(event.call_id, answered)?;
        self.usage.add(&event.usage);
        Ok(())
    }

    /// There will be no answer to a call beside the conversation, or there is one.
    pub(super) fn end_aside(
        &mut self,
        call: CallId,
        answered: Result<(Arc<Message>, FinishReason), ExecutionError>,
    ) -> Result<(), TransitionError> {
        let panel = self.panel_mut()?;
        let is_it = |candidate: &&mut Candidate| matches!(candidate, Candidate::Asking(open) if *open == call);
        if let Some(candidate) = panel.candidates.iter_mut().find(is_it) {
            *candidate = match answered {
                Ok((message, finish_reason)) => Candidate::Answered { message, finish_reason },
                Err(error) => Candidate::Failed(error),
            };
            return Ok(());
        }
        match &panel.choice {
            Choice::Asking { call: open, fault } if *open == call => {
                let n_asked = 1 + u32::from(fault.is_some());
                panel.choice = match answered {
                    Ok((message, _)) => Choice::Answered { text: answer_text(&message), n_asked },
                    Err(error) => Choice::Failed(error),
                };
                Ok(())
            }
            _ => Err(NO_MODEL_CALL),
        }
    }

    /// One of the models was picked, or its answer, which joins the conversation.
    pub(in super::super) fn candidate_chosen(
        &mut self,
        event: &CandidateChosen,
    ) -> Result<Option<Joining>, TransitionError> {
        let member = of(&self.request).and_then(|strategy| strategy.members.get(event.index as usize)).cloned();
        let panel = self.panel_mut()?;
        let (Some(member), Some(first)) = (member, panel.first) else {
            return Err(TransitionError("there is no such model"));
        };
        if panel.open_calls().next().is_some() {
            return Err(OPEN_CALL);
        }
        let chosen = match panel.candidates.get_mut(event.index as usize) {
            Some(Candidate::Answered { message, finish_reason }) => Some((message.clone(), *finish_reason)),
            Some(Candidate::ToAsk) => None,
            _ => return Err(TransitionError("the model has no answer")),
        };
        let seat = ModelBinding::of(&self.request).with(&member.model, self.request.relay);
        self.use_model(&seat);
        let Some((message, finish_reason)) = chosen else {
            self.stage = Stage::ToAsk;
            return Ok(None);
        };
        // From here on it is the first call of the loop.
        self.n_asides = self.n_asides.saturating_sub(1);
        self.iteration += 1;
        let messages = self.take_answer(&message, finish_reason, None);
        self.guarding.answer_due &= !self.guarding.candidates.contains(&event.index);
        Ok(Some(Joining { after: first, messages }))
    }

    /// The answers are put to the model that writes one from them: the message that joins the conversation.
    pub(in super::super) fn candidates_gathered(
        &mut self,
        event: &CandidatesGathered,
    ) -> Result<Arc<Message>, TransitionError> {
        let strategy = of(&self.request).cloned();
        let panel = self.panel_mut()?;
        let Some(strategy) = strategy else {
            return Err(TransitionError("it is no call of several models"));
        };
        if panel.open_calls().next().is_some() || panel.n_answers() != event.n_answers as usize {
            return Err(TransitionError("not all models have answered"));
        }
        let text = format!("{}\n{}", event.prompt, words::answers(panel, &strategy));
        let seat = ModelBinding::of(&self.request).with(&strategy.by, self.request.relay);
        self.use_model(&seat);
        self.stage = Stage::ToAsk;
        Ok(Arc::new(Message::text(Role::User, text)))
    }
}
