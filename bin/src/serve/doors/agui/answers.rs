//! Answers of a request: to the questions of a thread and its sub-agents, and as the results of tool calls of the client. If
//! they were given before, the run is followed from there.

use std::collections::{BTreeMap, BTreeSet};

use rethread::operate::OpenInteraction;
use rethread::{CallId, Event, Json, OrderedMap, Position, RecordedEvent, Seq, State, ThreadId};

use super::asked::{Asked, Begun};
use super::input::AnswerStatus;
use super::interrupts;
use super::translate::{self, Answers, Translator};
use crate::serve::doors::conversation::invalid;
use crate::serve::doors::question::{UNSEEN, approves_unseen};
use crate::serve::doors::{client_tools, given};
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;

/// The most answers that are looked for because a request is sent again.
const ANSWERS_MAX: usize = 1_000;

/// An answer to a question of a thread; `None` withdraws it.
pub(super) type Given = (ThreadId, CallId, Option<Json>);

impl Asked {
    /// Returns the answers of the request to the open questions; `None` if it answers none of them.
    ///
    /// # Errors
    /// If it answers some of them, or one twice.
    pub(super) async fn answers(
        &mut self,
        state: &State,
        open: &[OpenInteraction],
    ) -> Result<Option<Vec<Given>>, Problem> {
        let mut ids = BTreeSet::new();
        if let Some(twice) = self.input.resume.iter().find(|answer| !ids.insert(&answer.interrupt_id)) {
            let detail = format!("the interrupt `{}` is answered twice", request::cut(&twice.interrupt_id));
            return Err(invalid("resume", detail));
        }
        let (results, mut given, mut lacking) = (self.input.tool_results(), Vec::new(), Vec::new());
        let (id, tools) = (self.thread.id(), &self.server.settings.client_tools);
        let now = Translator::new(self.thread.definition(None).await?, id, state.run_id(), Some(state.clone()));
        for question in open {
            let data = if self.input.resume.is_empty() {
                let call = interrupts::client_call(question, &now, id, tools, None);
                let result = call.and_then(|call| results.iter().find(|(id, _)| *id == call));
                result.map(|(_, decision)| Some(Json::from(decision.clone())))
            } else {
                let answer = self.input.resume.iter().find(|answer| answer.interrupt_id == question.key());
                answer.map(|answer| {
                    (answer.status == AnswerStatus::Resolved).then(|| interrupts::answer(question, answer))
                })
            };
            if data.iter().flatten().any(|answer| approves_unseen(question, answer)) {
                return Err(invalid("resume", UNSEEN));
            }
            match data {
                Some(data) => given.push((question.thread, question.request.id, data)),
                None => lacking.push(question),
            }
        }
        if given.is_empty() {
            return Ok(None);
        }
        if !lacking.is_empty() {
            return Err(uncovered(lacking.into_iter()));
        }
        for answer in &self.input.resume {
            if !open.iter().any(|question| question.key() == answer.interrupt_id) {
                let id = request::cut(&answer.interrupt_id);
                self.input
                    .warnings
                    .push(format!("resume: the thread waits for no interrupt `{id}`, and the entry is left out"));
            }
        }
        Ok(Some(given))
    }

    /// Answers questions, or withdraws those without an answer. All answers are checked before the first is given. `end` is the
    /// end of the log when the request was examined.
    pub(super) async fn give(self, state: &State, end: Position, given: Vec<Given>) -> Result<Begun, Problem> {
        let variables = self.input.variables(&self.workflow, Some(state))?;
        for (thread, question, data) in &given {
            let Some(data) = data else { continue };
            let set = if *thread == self.thread.id() { variables.clone() } else { OrderedMap::default() };
            self.thread.sibling(*thread).check_response(set, *question, data.clone()).await?;
        }
        if !variables.is_empty() {
            self.thread.set_variables(variables).await?;
        }
        for (thread, question, data) in given {
            let asking = self.thread.sibling(thread);
            match data {
                Some(data) => asking.respond(question, data).await?,
                None => asking.cancel_interaction(question).await?,
            }
        }
        // From the state that was read first: if the run ends meanwhile, its end is among the events.
        let from = state.last_seq().unwrap_or_default().next();
        self.follow_from(state.run_id(), from, Some(state.clone()), end.0.checked_sub(1).map(Position)).await
    }

    /// Follows the run whose tool calls have results, as a request that is sent again asks for.
    pub(super) async fn called(self, state: &State, open: &[OpenInteraction]) -> Result<Begun, Problem> {
        let results = self.input.tool_results();
        let results: Vec<_> = results.into_iter().map(|(call, result)| (call.to_owned(), Json::from(result))).collect();
        let tools = self.server.settings.client_tools.clone();
        let last = state.last_seq().unwrap_or_default();
        let from = Seq(last.0.saturating_sub(given::SEARCH_MAX)).max(state.run_started());
        let (mut answers, mut names, mut asked) = (Answers::default(), BTreeMap::new(), BTreeMap::new());
        let is_answer = move |recorded: &RecordedEvent| {
            if let Some((answer, call)) = answers.hear(recorded) {
                names = translate::names(&answer, call);
            } else if let Event::UserInteractionRequested(e) = &recorded.event {
                let call = client_tools::call_of(e.operation_type, e.tool_call.as_ref(), e.metadata.as_ref(), &tools);
                let call = call.and_then(|call| names.get(call.tool_call_id.as_ref()?));
                let result = results.iter().find(|(id, _)| Some(id) == call);
                asked.extend(result.map(|(_, result)| (CallId(recorded.record.seq), result.clone())));
            }
            let (question, answer) = given::answered(&recorded.event)?;
            asked.get(&question).map(|result| Some(result) == answer)
        };
        match given::first(&self.thread, from..last.next(), None, is_answer).await? {
            Some(first) => self.follow_answers(first).await,
            None => Err(not_open(open)),
        }
    }

    /// Follows the run whose questions were answered before, as a request that is sent again asks for.
    pub(super) async fn resumed(self, open: &[OpenInteraction]) -> Result<Begun, Problem> {
        if self.input.resume.len() > ANSWERS_MAX {
            return Err(not_open(open));
        }
        let mut wanted: BTreeMap<ThreadId, BTreeMap<CallId, _>> = BTreeMap::new();
        for answer in &self.input.resume {
            // An entry that no question has was left out before, too.
            let Ok((thread, question)) = CallId::parse_key(&answer.interrupt_id) else { continue };
            wanted.entry(thread).or_default().insert(question, interrupts::possible_answers(answer));
        }
        let mut first = None;
        for (thread, wanted) in wanted {
            let Some(question) = wanted.keys().next().copied() else { continue };
            if !given::ancestors(&self.thread, thread).await?.contains(&self.thread.id()) {
                return Err(not_open(open));
            }
            let n_wanted = wanted.len();
            let is_answer = move |recorded: &RecordedEvent| {
                let (question, answer) = given::answered(&recorded.event)?;
                wanted.get(&question).map(|given| given.contains(&answer.cloned()))
            };
            match given::first(&self.thread.sibling(thread), given::after(question), Some(n_wanted), is_answer).await? {
                Some(found) => first = Some(first.map_or(found, |first: Position| first.min(found))),
                None => return Err(not_open(open)),
            }
        }
        match first {
            Some(first) => self.follow_answers(first).await,
            None => Err(not_open(open)),
        }
    }

    /// Follows the run in which the first of some answers was given, from there on.
    async fn follow_answers(self, first: Position) -> Result<Begun, Problem> {
        let (from, before) = given::moment(&self.thread, first).await?;
        self.follow_from(before.run_id(), from, Some(before), first.0.checked_sub(1).map(Position)).await
    }
}

/// The error of a request whose answers are not those of open questions, and were not given before.
fn not_open(open: &[OpenInteraction]) -> Problem {
    if open.is_empty() { nothing_open() } else { uncovered(open.iter()) }
}

fn nothing_open() -> Problem {
    Problem::new(Kind::InteractionClosed, "the thread waits for no answer: send a message of the role `user`")
}

/// The error of a request that leaves questions unanswered.
pub(super) fn uncovered<'a>(open: impl Iterator<Item = &'a OpenInteraction>) -> Problem {
    let name = |question: &OpenInteraction| {
        let call = question.request.tool_call.as_ref().and_then(|call| call.tool_call_id.as_ref());
        format!("`{}`{}", question.key(), call.map(|call| format!(" (tool call `{call}`)")).unwrap_or_default())
    };
    let ids: Vec<_> = open.map(name).collect();
    let detail = format!(
        "the thread waits for answers: answer or cancel {} with `resume`, or send the results of all tool calls of the \
         client as the last messages",
        ids.join(", ")
    );
    Problem::new(Kind::Conflict, detail).at("parameter", "resume")
}
