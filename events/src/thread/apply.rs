//! The fold: what each event makes of the state. Needs no definition, no tools and no clock, so that any recorded
//! thread can be folded anywhere.

use std::sync::Arc;

use super::agent_loop::{AgentLoop, Unfit};
use super::calls::ToolRun;
use super::state::{
    Checkpoint, Control, Ending, Entry, Interaction, InteractionStage, NodeRun, Phase, Run, State, Visit, Work,
};
use crate::event::{Event, Scope, ThreadForked, ThreadStarted, UserInteractionProcessed};
use crate::fault::ExecutionError;
use crate::ids::{CallId, NodeId, Seq, ThreadId, Time};
use crate::json::Json;
use crate::message::{Message, Part, Role};

/// An event that cannot follow the ones before it: the log was written by another version, or it is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("thread {thread}, seq {seq}: {event} does not fit: {reason}")]
pub struct FoldError {
    /// The thread.
    pub thread: ThreadId,
    /// The seq of the event.
    pub seq: Seq,
    /// The documented name of the event.
    pub event: &'static str,
    /// Why it does not fit.
    pub reason: &'static str,
}

impl FoldError {
    pub(super) fn before_the_first(thread: ThreadId) -> Self {
        Self { thread, seq: Seq(0), event: "THREAD_FORKED", reason: "the parent has no event" }
    }
}

const NO_NODE: Unfit = Unfit("the thread is not in that node");
const NOT_BEGUN: Unfit = Unfit("the thread has not begun");
const NO_CALL: Unfit = Unfit("no such call is open");
const NO_QUESTION: Unfit = Unfit("no such question is open");
const NO_GRAPHS: Unfit = Unfit("this version of the machine runs no branches, loops or sub-workflows");

impl State {
    /// Folds the next event, which happened at that time.
    pub fn apply(&mut self, at: Time, event: &Event) -> Result<(), FoldError> {
        let seq = self.next;
        self.fold(seq, at, event).map_err(|Unfit(reason)| FoldError {
            thread: self.thread,
            seq,
            event: event.event_type().name,
            reason,
        })?;
        self.next = seq.next();
        self.last_at = at;
        Ok(())
    }

    fn fold(&mut self, seq: Seq, at: Time, event: &Event) -> Result<(), Unfit> {
        match event {
            Event::ThreadStarted(e) => self.start(at, e),
            Event::ThreadForked(e) => self.fork(e),
            Event::ThreadPaused(e) => {
                self.control = Control::Paused { since: at, reason: e.reason.clone() };
                Ok(())
            }
            Event::ThreadResumed(_) => self.resume(at),
            Event::ThreadCancelled(e) => self.end(Ending::Cancelled { reason: e.reason.clone() }),
            Event::ThreadCompleted(_) => self.end(Ending::Completed),
            Event::ThreadFailed(e) => self.end(Ending::Failed { node: e.node.clone(), error: e.error.clone() }),
            Event::CheckpointCreated(e) => {
                self.checkpoints.push(Checkpoint { label: e.label.clone(), seq });
                Ok(())
            }
            Event::VariablesUpdated(e) => {
                for (name, value) in e.variables.iter() {
                    self.set(name, value.clone());
                }
                Ok(())
            }
            Event::MessageAdded(e) => {
                self.say(seq, e.message.clone());
                Ok(())
            }

            Event::NodeStarted(e) => self.enter(seq, at, &e.node, e.attempt, e.deadline),
            Event::NodeCompleted(e) => self.complete(&e.node),
            Event::NodeFailed(e) => self.fail(&e.node, e.attempt, &e.error, e.retry_at),
            Event::RouteTaken(e) => {
                self.phase = entering(&e.to, at);
                Ok(())
            }

            Event::LlmExecutionRequest(e) => {
                *self.ready(&e.node)? = Work::Llm(Box::new(AgentLoop::new(e.clone())));
                if let Some(system) = &e.system_prompt
                    && self.conversation.system_prompt().as_ref() != Some(system)
                {
                    self.say(seq, Arc::new(Message::text(Role::System, system)));
                }
                self.say(seq, Arc::new(Message::text(Role::User, &e.prompt)));
                Ok(())
            }
            Event::LlmCallRequested(e) => self.agent_loop()?.call_requested(seq, at, e),
            Event::LlmCallRetried(e) => self.agent_loop()?.call_retried(at, e),
            Event::LlmCallCompleted(e) => {
                let message = self.agent_loop()?.call_completed(e)?;
                self.say(seq, message);
                self.totals.n_llm_calls += 1;
                self.totals.usage.add(&e.usage);
                if let Some(cost) = e.cost_nanousd {
                    self.totals.cost_nanousd = Some(self.totals.cost_nanousd.unwrap_or(0).saturating_add(cost));
                }
                Ok(())
            }
            Event::LlmCallFailed(e) => self.agent_loop()?.call_failed(e.call, &e.error),
            Event::LlmExecutionCompleted(e) => {
                self.agent_loop()?;
                *self.work()? = Work::Done { output: Json::from(e.content.as_str()) };
                Ok(())
            }
            Event::LlmExecutionFailed(e) => {
                let results = self.agent_loop()?.give_up(&e.error);
                for message in results {
                    self.say(seq, message);
                }
                *self.work()? = Work::Failed(e.error.clone());
                Ok(())
            }

            Event::ToolExecutionRequest(e) => match self.work()? {
                work @ Work::Ready => {
                    *work = Work::Tool(ToolRun::new(CallId(seq), at, e));
                    Ok(())
                }
                Work::Llm(agent_loop) => agent_loop.tool_requested(seq, at, e),
                _ => Err(Unfit("no tool call is due")),
            },
            Event::ToolCallRetried(e) => {
                self.tool_run(e.call)?.retry(e);
                Ok(())
            }
            Event::ToolExecutionCompleted(e) => {
                let value = e.value.clone().unwrap_or_else(|| text_of(&e.content));
                self.end_tool(seq, e.call, e.content.clone(), Ok(value))
            }
            Event::ToolExecutionFailed(e) => {
                let text = format!("Error ({}): {}", e.error.kind, e.error.message);
                self.end_tool(seq, e.call, vec![Part::text(text)], Err(&e.error))
            }

            Event::UserInteractionRequested(e) => {
                *self.ready(&e.node)? = Work::Asking(Interaction {
                    id: CallId(seq),
                    operation_type: e.operation_type,
                    prompt: e.prompt.clone(),
                    requested_at: at,
                    deadline: e.deadline,
                    metadata: e.metadata.clone(),
                    stage: InteractionStage::Asked,
                });
                self.questions.insert(CallId(seq), None);
                Ok(())
            }
            Event::UserInteractionResponded(e) => {
                let ask = self.question(e.interaction)?;
                ask.stage = InteractionStage::Responded { input: e.input_data.clone() };
                self.questions.insert(e.interaction, Some(answer_hash(&e.input_data)));
                Ok(())
            }
            Event::UserInteractionProcessed(e) => self.process(seq, e),
            Event::UserInteractionFailed(e) => {
                self.question(e.interaction)?;
                let error = super::nodes::interaction_error(e.reason, e.detail.as_deref());
                *self.work()? = Work::Failed(error);
                Ok(())
            }

            Event::ContextProcessed(e) => {
                for (name, value) in e.variables.iter() {
                    self.set(name, value.clone());
                }
                self.replace_conversation(seq, &e.messages);
                Ok(())
            }
            Event::ContextSummarized(e) => {
                self.replace_conversation(seq, &e.messages);
                Ok(())
            }

            Event::ConditionEvaluationRequested(_)
            | Event::ConditionEvaluationCompleted(_)
            | Event::BranchStarted(_)
            | Event::BranchEnded(_)
            | Event::JoinCompleted(_)
            | Event::LoopIterationStarted(_)
            | Event::LoopEnded(_)
            | Event::SubWorkflowStarted(_)
            | Event::SubWorkflowCompleted(_) => Err(NO_GRAPHS),

            Event::ThreadRecovered(_)
            | Event::Warning(_)
            | Event::LlmTryFailed(_)
            | Event::LlmExecutionProgress(_)
            | Event::ToolExecutionProgress(_)
            | Event::BudgetExceeded(_) => {
                if self.run.is_some() {
                    Ok(())
                } else {
                    Err(NOT_BEGUN)
                }
            }
        }
    }

    fn start(&mut self, at: Time, e: &ThreadStarted) -> Result<(), Unfit> {
        if self.run.is_some() {
            return Err(Unfit("the thread has begun already"));
        }
        self.run = Some(Run {
            workflow: e.workflow.clone(),
            input: e.input.clone(),
            started_at: at,
            deadline: e.deadline,
            max_iterations: e.max_iterations,
            workspace: e.workspace.clone(),
            forked_from: None,
        });
        let mut variables = e.variables.clone();
        variables.insert("input".into(), e.input.clone());
        self.variables = Arc::new(variables);
        self.phase = entering(&e.entry, at);
        Ok(())
    }

    fn fork(&mut self, e: &ThreadForked) -> Result<(), Unfit> {
        let run = self.run.as_mut().ok_or(NOT_BEGUN)?;
        run.forked_from = Some((e.parent, e.seq));
        if let Some(workflow) = &e.changes.workflow {
            run.workflow = workflow.clone();
            self.changes.workflow = Some(workflow.clone());
        }
        for (name, value) in e.changes.variables.iter() {
            self.set(name, value.clone());
        }
        for (node, prompt) in e.changes.prompts.iter() {
            self.changes.prompts.insert(node.clone(), prompt.clone());
        }
        if e.changes.profile.is_some() {
            self.changes.profile.clone_from(&e.changes.profile);
        }
        // A fork is made to be run: the parent's pause is not inherited.
        self.control = Control::Running;
        Ok(())
    }

    fn resume(&mut self, at: Time) -> Result<(), Unfit> {
        let Control::Paused { since, .. } = self.control else {
            return Err(Unfit("the thread is not paused"));
        };
        self.control = Control::Running;
        let ms = at.ms_since(since);
        match &mut self.phase {
            Phase::Entering { not_before, .. } => *not_before = not_before.plus_ms(ms),
            Phase::InNode(run) => {
                run.deadline = run.deadline.map(|deadline| deadline.plus_ms(ms));
                match &mut run.work {
                    Work::Llm(agent_loop) => agent_loop.shift(ms),
                    Work::Tool(tool) => tool.shift(ms),
                    Work::Asking(ask) => ask.deadline = ask.deadline.map(|deadline| deadline.plus_ms(ms)),
                    Work::Ready | Work::Done { .. } | Work::Failed(_) => {}
                }
            }
            Phase::New | Phase::Leaving { .. } | Phase::Failing { .. } | Phase::Ended(_) => {}
        }
        Ok(())
    }

    fn end(&mut self, ending: Ending) -> Result<(), Unfit> {
        if self.is_ended() {
            return Err(Unfit("the thread has ended already"));
        }
        self.control = Control::Running;
        self.phase = Phase::Ended(ending);
        Ok(())
    }

    fn enter(&mut self, seq: Seq, at: Time, node: &NodeId, attempt: u32, deadline: Option<Time>) -> Result<(), Unfit> {
        let from = match &self.phase {
            Phase::Entering { node: due, conversation_from, .. } if due == node => *conversation_from,
            Phase::Leaving { .. } => None,
            _ => return Err(Unfit("no node is to be entered")),
        };
        let conversation = Arc::make_mut(&mut self.conversation);
        let conversation_from = match from {
            // A further try begins where the first did: what the failed one said is void.
            Some(from) => {
                conversation.entries.truncate(usize::try_from(from).unwrap_or(usize::MAX));
                from
            }
            None => conversation.entries.len() as u64,
        };
        conversation.turn_from = conversation_from;
        self.totals.n_iterations += u32::from(attempt == 1);
        self.path.push(Visit { seq, node: node.clone(), attempt });
        self.phase = Phase::InNode(NodeRun {
            node: node.clone(),
            attempt,
            started_at: at,
            deadline,
            conversation_from,
            work: Work::Ready,
        });
        Ok(())
    }

    fn complete(&mut self, node: &NodeId) -> Result<(), Unfit> {
        let output = match self.work()? {
            Work::Done { output } => Some(std::mem::take(output)),
            Work::Ready => None,
            _ => return Err(Unfit("the node has open work")),
        };
        if let Some(output) = output {
            self.set("output", output);
        }
        self.phase = Phase::Leaving { node: node.clone() };
        Ok(())
    }

    fn fail(
        &mut self,
        node: &NodeId,
        attempt: u32,
        error: &ExecutionError,
        retry_at: Option<Time>,
    ) -> Result<(), Unfit> {
        let Phase::InNode(run) = &self.phase else {
            return Err(NO_NODE);
        };
        self.phase = match retry_at {
            Some(not_before) => Phase::Entering {
                node: node.clone(),
                attempt: attempt + 1,
                not_before,
                conversation_from: Some(run.conversation_from),
            },
            None => Phase::Failing { node: node.clone(), error: error.clone() },
        };
        Ok(())
    }

    fn end_tool(
        &mut self,
        seq: Seq,
        call: CallId,
        content: Vec<Part>,
        outcome: Result<Json, &ExecutionError>,
    ) -> Result<(), Unfit> {
        self.totals.n_tool_calls += 1;
        let work = self.work()?;
        match work {
            Work::Tool(run) if run.call == call => {
                *work = match outcome {
                    Ok(output) => Work::Done { output },
                    Err(error) => Work::Failed(error.clone()),
                };
                Ok(())
            }
            Work::Llm(agent_loop) => {
                for message in agent_loop.tool_ended(call, content, outcome.is_err())? {
                    self.say(seq, message);
                }
                Ok(())
            }
            _ => Err(NO_CALL),
        }
    }

    fn process(&mut self, seq: Seq, e: &UserInteractionProcessed) -> Result<(), Unfit> {
        let ask = self.question(e.interaction)?;
        let InteractionStage::Responded { input } = &ask.stage else {
            return Err(Unfit("the question was not answered"));
        };
        let output = input.clone();
        *self.work()? = Work::Done { output };
        for update in &e.variables {
            match update.scope {
                // The root thread is its own global scope; sub-workflows and loops are refused when the definition
                // is built.
                Scope::Global | Scope::Thread | Scope::Subgraph | Scope::Loop => {
                    self.set(&update.name, update.value.clone());
                }
            }
        }
        if let Some(text) = &e.message {
            self.say(seq, Arc::new(Message::text(Role::User, text)));
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: Json) {
        Arc::make_mut(&mut self.variables).insert(name.to_owned(), value);
    }

    fn say(&mut self, seq: Seq, message: Arc<Message>) {
        Arc::make_mut(&mut self.conversation).entries.push(Entry { seq, message });
    }

    fn replace_conversation(&mut self, seq: Seq, messages: &[Arc<Message>]) {
        let conversation = Arc::make_mut(&mut self.conversation);
        conversation.entries = messages.iter().map(|message| Entry { seq, message: message.clone() }).collect();
        conversation.turn_from = conversation.turn_from.min(conversation.entries.len() as u64);
    }

    fn work(&mut self) -> Result<&mut Work, Unfit> {
        match &mut self.phase {
            Phase::InNode(run) => Ok(&mut run.work),
            _ => Err(NO_NODE),
        }
    }

    fn ready(&mut self, node: &NodeId) -> Result<&mut Work, Unfit> {
        match &mut self.phase {
            Phase::InNode(run) if run.node == *node && matches!(run.work, Work::Ready) => Ok(&mut run.work),
            _ => Err(NO_NODE),
        }
    }

    fn agent_loop(&mut self) -> Result<&mut AgentLoop, Unfit> {
        match self.work()? {
            Work::Llm(agent_loop) => Ok(agent_loop),
            _ => Err(Unfit("no agent loop is running")),
        }
    }

    fn tool_run(&mut self, call: CallId) -> Result<&mut ToolRun, Unfit> {
        match self.work()? {
            Work::Tool(run) if run.call == call => Ok(run),
            Work::Llm(agent_loop) => agent_loop.open_tools_mut().find(|run| run.call == call).ok_or(NO_CALL),
            _ => Err(NO_CALL),
        }
    }

    fn question(&mut self, id: CallId) -> Result<&mut Interaction, Unfit> {
        match self.work()? {
            Work::Asking(ask) if ask.id == id => Ok(ask),
            _ => Err(NO_QUESTION),
        }
    }
}

fn entering(node: &NodeId, at: Time) -> Phase {
    Phase::Entering { node: node.clone(), attempt: 1, not_before: at, conversation_from: None }
}

fn text_of(content: &[Part]) -> Json {
    Json::from(content.iter().filter_map(Part::as_text).collect::<String>())
}

/// The hash by which an answer is known again.
pub(super) fn answer_hash(answer: &Json) -> crate::ids::Hash {
    crate::ids::Hash::of(answer.0.to_string().as_bytes())
}
