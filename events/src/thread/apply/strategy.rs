//! Applies events of a strategy to the state: the next step of the agent loop, and the messages that join the
//! conversation.

use std::sync::Arc;

use super::super::state::{AgentLoop, State};
use super::super::transition::TransitionError;
use crate::event::{
    AnswerRejected, CandidateChosen, CandidatesGathered, PlanCompleted, PlanRequested, PlanStepStarted,
    StrategyDecided, StrategyDecisionFailed,
};
use crate::ids::{NodeId, Seq};
use crate::message::{Message, Role};

impl State {
    pub(super) fn loop_of(&mut self, node: &NodeId) -> Result<&mut AgentLoop, TransitionError> {
        self.work_of(node)?;
        self.agent_loop()
    }

    fn say_as_user(&mut self, seq: Seq, text: &str) {
        self.conversation_mut().say(seq, Arc::new(Message::text(Role::User, text)));
    }

    pub(super) fn answer_rejected(&mut self, seq: Seq, e: &AnswerRejected) -> Result<(), TransitionError> {
        self.loop_of(&e.node_id)?.answer_rejected(e)?;
        self.say_as_user(seq, &e.prompt);
        Ok(())
    }

    pub(super) fn plan_requested(&mut self, seq: Seq, e: &PlanRequested) -> Result<(), TransitionError> {
        self.loop_of(&e.node_id)?.plan_requested(e)?;
        self.say_as_user(seq, &e.prompt);
        Ok(())
    }

    pub(super) fn plan_step_started(&mut self, seq: Seq, e: &PlanStepStarted) -> Result<(), TransitionError> {
        self.loop_of(&e.node_id)?.plan_step_started(e)?;
        self.say_as_user(seq, &e.prompt);
        Ok(())
    }

    pub(super) fn plan_completed(&mut self, seq: Seq, e: &PlanCompleted) -> Result<(), TransitionError> {
        self.loop_of(&e.node_id)?.plan_completed()?;
        self.say_as_user(seq, &e.prompt);
        Ok(())
    }

    pub(super) fn candidate_chosen(&mut self, seq: Seq, e: &CandidateChosen) -> Result<(), TransitionError> {
        if let Some(answer) = self.loop_of(&e.node_id)?.candidate_chosen(e)? {
            self.conversation_mut().answer(seq, answer.after, answer.messages);
        }
        Ok(())
    }

    pub(super) fn candidates_gathered(&mut self, seq: Seq, e: &CandidatesGathered) -> Result<(), TransitionError> {
        let message = self.loop_of(&e.node_id)?.candidates_gathered(e)?;
        self.conversation_mut().say(seq, message);
        Ok(())
    }

    pub(super) fn strategy_decided(&mut self, seq: Seq, e: &StrategyDecided) -> Result<(), TransitionError> {
        let (agent_loop, calls) = self.agent_loop_and_calls()?;
        let joins = agent_loop.strategy_decided(calls, e)?;
        let conversation = self.conversation_mut();
        conversation.results(seq, joins.results);
        for message in joins.said {
            conversation.say(seq, message);
        }
        Ok(())
    }

    pub(super) fn decision_failed(&mut self, seq: Seq, e: &StrategyDecisionFailed) -> Result<(), TransitionError> {
        let (agent_loop, calls) = self.agent_loop_and_calls()?;
        let results = agent_loop.decision_failed(calls, e.call_id, &e.error)?;
        self.conversation_mut().results(seq, results);
        Ok(())
    }
}
