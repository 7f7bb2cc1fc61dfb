//! Begins what a request asks for: a thread, its next run, or the rest of a run that waited for a person. A run that was
//! begun before is followed again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use actix_web::HttpRequest;
use rethread::errors::ReadError;
use rethread::operate::{BranchFilter, Labels, LogAccess as _, OpenInteraction, ThreadQuery};
use rethread::runs::{OnMessage, RunId, RunRequest};
use rethread::{
    CallId, Event, Hash, Json, OrderedMap, RecordedEvent, Seq, StartThread, State, Status, ThreadHandle, ThreadId,
    Workflow,
};
use tokio::sync::Mutex;

use super::input::{AnswerStatus, Input};
use super::interrupts;
use crate::serve::doors::conversation::invalid;
use crate::serve::doors::following::Run;
use crate::serve::guard;
use crate::serve::idempotency::blocking;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::Shared;
use crate::serve::workflows::{Chosen, For};

/// The labels of a thread that this door started: the id that the client gave it, and that of its first run.
const THREAD_LABEL: &str = "agui_thread";
const RUN_LABEL: &str = "agui_run";
/// How many threads with the label of a thread are examined: the thread itself, its forks, and those of other tokens.
const SEARCH_PAGE: usize = 50;
const SEARCH_PAGES_MAX: usize = 100;
/// How many locks there are. Threads that share one wait for each other while they begin.
const LOCKS: usize = 64;
/// The most events after a question among which its answer is looked for.
const ANSWER_SEARCH_MAX: u64 = 10_000;

/// Locks by the thread of a request: two requests for a new thread start one.
pub(crate) struct Locks([Arc<Mutex<()>>; LOCKS]);

impl Default for Locks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Arc::default()))
    }
}

impl Locks {
    fn of(&self, labels: &Labels, thread: &str) -> Arc<Mutex<()>> {
        let hash = Hash::of(format!("{labels}\0{thread}").as_bytes());
        let place = usize::from(hash.as_bytes()[0]) % LOCKS;
        self.0[place].clone()
    }
}

/// A run that was begun.
pub(super) struct Begun {
    pub(super) run: Run,
    /// The state before its first event; `None` if that is the first of the thread.
    pub(super) before: Option<State>,
    pub(super) warnings: Vec<String>,
}

/// A request, and the thread that it is about.
struct Asked {
    server: Shared,
    workflow: Arc<Workflow>,
    thread: ThreadHandle,
    input: Input,
}

/// Begins the run of a request.
pub(super) async fn begin(
    server: &Shared,
    request: &HttpRequest,
    name: String,
    mut input: Input,
) -> Result<Begun, Problem> {
    let chosen = Chosen { workflow: Some(name), hash: None, definition: None };
    let workflow = chosen.find(server, For::Running).await?;
    let workflow = workflow.ok_or_else(|| Problem::new(Kind::NoWorkflow, "name a workflow in the path"))?;
    let bound = guard::bound_to(request);
    let one_at_a_time = server.agui.of(&bound, &input.thread_id).lock_owned().await;
    if let Some(id) = find(server, request, &bound, &input.thread_id).await? {
        let thread = server.runtime.thread(id).by(guard::principal(server, request));
        let asked = Asked { server: server.clone(), workflow, thread, input };
        // If the client leaves, the handler is dropped, and what was begun is completed.
        let begun = tokio::spawn(async move {
            let _one_at_a_time = one_at_a_time;
            asked.go_on().await
        });
        return begun.await.map_err(|_| Problem::stopping())?;
    }
    if !input.resume.is_empty() {
        let detail = format!("there is no thread `{}` with interrupts to be answered", input.thread_id);
        return Err(Problem::new(Kind::NoThread, detail).at("parameter", "resume"));
    }
    let mut conversation = input.conversation()?;
    let mut variables = conversation.variables(&workflow)?;
    variables.extend(input.variables(&workflow, None)?.iter().map(|(name, value)| (name.clone(), value.clone())));
    let labels = labelled(bound, &input.thread_id)
        .and_then(|labels| labels.with(RUN_LABEL, &input.run_id).map_err(|error| invalid("runId", error)))?;
    let (text, past) = (conversation.input(), conversation.past_with_media());
    let mut start = StartThread::new(workflow.clone(), text).labels(labels).messages(past).variables(variables);
    if let Some(folder) = &server.settings.workspace {
        start = start.workspace(folder);
    }
    let runtime = server.runtime.clone();
    // If the client leaves, the handler is dropped. The next request for this thread is to find it.
    let started = tokio::spawn(async move {
        let _one_at_a_time = one_at_a_time;
        runtime.start(start).await
    });
    let thread = started.await.map_err(|_| Problem::stopping())??.by(guard::principal(server, request));
    let run = Run { thread, id: RunId(Seq(0)), from: Seq(0), depth: 0, workflow };
    Ok(Begun { run, before: None, warnings: input.warnings })
}

/// The labels of a thread that the client calls so.
fn labelled(bound: Labels, thread: &str) -> Result<Labels, Problem> {
    bound.with(THREAD_LABEL, thread).map_err(|error| invalid("threadId", error))
}

/// Finds the thread that the client means: the one that this door started under that id for the same labels, or the one
/// whose own id it is.
async fn find(
    server: &Shared,
    request: &HttpRequest,
    bound: &Labels,
    thread: &str,
) -> Result<Option<ThreadId>, Problem> {
    let labels = labelled(bound.clone(), thread)?;
    let of_door = |(key, _): &(&str, &str)| ![THREAD_LABEL, RUN_LABEL].contains(key);
    let mut after = None;
    for _ in 0..SEARCH_PAGES_MAX {
        let query = ThreadQuery {
            labels: labels.clone(),
            branch_of: BranchFilter::TopLevel,
            oldest_first: true,
            after,
            limit: SEARCH_PAGE,
            ..ThreadQuery::default()
        };
        let page = server.runtime.thread_page(query).await?;
        // Forks have the labels as well, and so have threads that other tokens started with more labels.
        let found = page
            .threads
            .iter()
            .find(|found| found.forked_from.is_none() && found.labels.iter().filter(of_door).eq(bound.iter()));
        match (found, page.next) {
            (Some(found), _) => return Ok(Some(found.thread_id)),
            (None, Some(next)) => after = Some(next),
            (None, None) => {
                let Ok(id) = thread.parse() else { return Ok(None) };
                let seen = match guard::check_thread(server, request, id).await {
                    Ok(()) => server.runtime.thread(id).summary().await.map_err(Problem::from),
                    Err(problem) => Err(problem),
                };
                return match seen {
                    Ok(_) => Ok(Some(id)),
                    Err(problem) if problem.kind() == Kind::NoThread => Ok(None),
                    Err(problem) => Err(problem),
                };
            }
        }
    }
    Err(Problem::new(Kind::Conflict, format!("too many threads are called `{thread}`: choose another id")))
}

impl Asked {
    /// Begins the next run of a thread, or follows one that was begun before.
    async fn go_on(mut self) -> Result<Begun, Problem> {
        let state = self.thread.state().await?;
        if let Some((run, from, input)) = self.repeated(&state).await? {
            self.check_repeated(&input)?;
            return self.follow(run, from).await;
        }
        if state.status() == Status::Paused {
            let detail =
                format!("the thread is paused: it continues after POST /v1/threads/{}/resume", self.thread.id());
            return Err(Problem::new(Kind::Conflict, detail));
        }
        let open = if state.is_ended() { Vec::new() } else { self.thread.inbox().await? };
        if !self.input.resume.is_empty() {
            return self.resume(&state, open).await;
        }
        let results = self.input.tool_results().len();
        if !open.is_empty() {
            return if results > 0 { self.answer_calls(&state, open).await } else { Err(uncovered(open.iter())) };
        }
        if results > 0 {
            return self.called(&state).await;
        }
        let conversation = self.input.last_message()?;
        conversation.refuse_media()?;
        let mut variables = conversation.variables(&self.workflow)?;
        let set = self.input.variables(&self.workflow, Some(&state))?;
        variables.extend(set.iter().map(|(name, value)| (name.clone(), value.clone())));
        // Each request has an answer of its own, so it waits for the run in progress.
        let mut run = RunRequest::new(conversation.input())
            .variables(variables)
            .on_message(OnMessage::Queue)
            .key(&self.input.run_id);
        if state.workflow().is_some_and(|present| present.name != self.workflow.name()) {
            run = run.workflow(self.workflow.clone());
        }
        let accepted = self.thread.run(run).await?;
        self.follow(accepted.run_id, accepted.seq).await
    }

    /// Returns the run that a request with this id began, the event that brought it, and its input.
    async fn repeated(&self, state: &State) -> Result<Option<(RunId, Seq, Json)>, Problem> {
        let run = &*self.input.run_id;
        let is_first = state.forked_from().is_none() && state.labels().get(RUN_LABEL) == Some(run);
        let seq = if is_first { Some(Seq(0)) } else { state.request_of_key(run) };
        let Some(seq) = seq else { return Ok(None) };
        let event = self.event(self.thread.id(), seq).await?;
        let run = if let Some(Event::ThreadStarted(e)) = event {
            Some((RunId(seq), seq, e.input))
        } else if let Some(Event::RunStarted(e)) = event {
            Some((e.run_id, seq, e.input))
        } else if let Some(Event::RunQueued(e)) = event {
            Some((e.run_id, seq, e.input))
        } else {
            None
        };
        run.map(Some).ok_or_else(|| reused("this `runId` was used for a message that began no run"))
    }

    /// Checks that a request whose `runId` is known asks for the same run.
    fn check_repeated(&mut self, input: &Json) -> Result<(), Problem> {
        if !self.input.resume.is_empty() || !self.input.tool_results().is_empty() {
            return Err(reused("this `runId` began a run, and a request with answers has a `runId` of its own"));
        }
        let given = self.input.last_message()?.input();
        let is_same = given == *input || self.workflow.accept_input(given).is_ok_and(|read| read == *input);
        if is_same { Ok(()) } else { Err(reused("this `runId` began a run with another message")) }
    }

    async fn event(&self, thread: ThreadId, seq: Seq) -> Result<Option<Event>, Problem> {
        let store = self.server.runtime.store();
        let record = blocking(move || store.record(thread, seq)).await??;
        Ok(record.map(RecordedEvent::decode).transpose()?.map(|recorded| recorded.event))
    }

    /// Follows a run from an event on.
    async fn follow(self, id: RunId, from: Seq) -> Result<Begun, Problem> {
        let before = match from.0.checked_sub(1) {
            Some(last) => Some(self.thread.state_at(Seq(last)).await?),
            None => None,
        };
        let Self { server, mut workflow, thread, input } = self;
        // A run in progress keeps to its own definition.
        if let Some(on) = before.as_ref().filter(|before| before.run_id() == id && !before.is_ended())
            && let Some(on) = on.workflow()
            && on.hash != workflow.hash()
        {
            let found = server.runtime.workflow(on.hash).await?;
            workflow = found.ok_or_else(|| Problem::new(Kind::NoWorkflow, "the log has no definition of this run"))?;
        }
        let run = Run { thread, id, from, depth: 0, workflow };
        Ok(Begun { run, before, warnings: input.warnings })
    }

    /// Answers the questions that a thread waits for.
    async fn resume(mut self, state: &State, open: Vec<OpenInteraction>) -> Result<Begun, Problem> {
        let mut ids = BTreeSet::new();
        if let Some(twice) = self.input.resume.iter().find(|answer| !ids.insert(&answer.interrupt_id)) {
            let detail = format!("the interrupt `{}` is answered twice", request::cut(&twice.interrupt_id));
            return Err(invalid("resume", detail));
        }
        let is_covered =
            |question: &&OpenInteraction| self.input.resume.iter().any(|answer| answer.interrupt_id == question.key());
        if open.iter().any(|question| !is_covered(&question)) {
            return Err(uncovered(open.iter().filter(|question| !is_covered(question))));
        }
        if open.is_empty() {
            return self.resumed(state).await;
        }
        let mut given = Vec::new();
        for answer in &self.input.resume {
            let Some(question) = open.iter().find(|question| question.key() == answer.interrupt_id) else {
                let id = request::cut(&answer.interrupt_id);
                self.input
                    .warnings
                    .push(format!("resume: the thread waits for no interrupt `{id}`, and the entry is left out"));
                continue;
            };
            let data = (answer.status == AnswerStatus::Resolved).then(|| interrupts::answer(question, answer));
            given.push((question.thread, question.request.id, data));
        }
        self.give(state, given).await
    }

    /// Gives the results of tool calls that the client has run.
    async fn answer_calls(self, state: &State, open: Vec<OpenInteraction>) -> Result<Begun, Problem> {
        let results = self.input.tool_results();
        let mut given = Vec::new();
        for question in &open {
            let call = interrupts::client_call(question, self.thread.id(), &self.server.settings.client_tools);
            let result = call.and_then(|call| results.iter().find(|(id, _)| *id == call));
            let (_, decision) = result.ok_or_else(|| uncovered(std::iter::once(question)))?;
            given.push((question.thread, question.request.id, Some(Json::from(decision.clone()))));
        }
        self.give(state, given).await
    }

    /// Answers questions, or withdraws those without an answer. All answers are checked before the first is given.
    async fn give(self, state: &State, given: Vec<(ThreadId, CallId, Option<Json>)>) -> Result<Begun, Problem> {
        let variables = self.input.variables(&self.workflow, Some(state))?;
        for (thread, question, data) in &given {
            let Some(data) = data else { continue };
            let set = if *thread == self.thread.id() { variables.clone() } else { OrderedMap::default() };
            self.thread.sibling(*thread).check_response(set, *question, data.clone()).await?;
        }
        let from = self.thread.summary().await?.last_seq.next();
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
        self.follow(state.run_id(), from).await
    }

    /// Follows the run whose tool calls have results, as a request that is sent again asks for.
    async fn called(self, state: &State) -> Result<Begun, Problem> {
        let results = self.input.tool_results();
        let results: Vec<_> = results.into_iter().map(|(call, result)| (call.to_owned(), Json::from(result))).collect();
        let last = state.last_seq().unwrap_or_default();
        let from = Seq(last.0.saturating_sub(ANSWER_SEARCH_MAX)).max(state.run_started());
        let mut asked = BTreeMap::new();
        let is_answer = move |recorded: &RecordedEvent| {
            if let Event::UserInteractionRequested(e) = &recorded.event {
                let call = e.tool_call.as_ref().and_then(|call| call.tool_call_id.as_ref());
                let result = results.iter().find(|(id, _)| Some(id) == call);
                asked.extend(result.map(|(_, result)| (CallId(recorded.record.seq), result.clone())));
            }
            answered(&recorded.event)
                .is_some_and(|(question, answer)| asked.get(&question).is_some_and(|result| Some(result) == answer))
        };
        self.follow_answer(from..last.next(), is_answer).await
    }

    /// Follows the run whose questions were answered before, as a request that is sent again asks for.
    async fn resumed(self, state: &State) -> Result<Begun, Problem> {
        let first = self.input.resume.first().ok_or_else(nothing_open)?;
        let (thread, question) = CallId::parse_key(&first.interrupt_id).map_err(|_| nothing_open())?;
        if thread != self.thread.id() {
            return Err(nothing_open());
        }
        let given = interrupts::possible_answers(first);
        let last = state.last_seq().unwrap_or_default();
        let end = last.next().min(Seq(question.0.0.saturating_add(ANSWER_SEARCH_MAX)));
        // Another answer than the first one is late.
        let is_answer = move |recorded: &RecordedEvent| {
            answered(&recorded.event)
                .is_some_and(|(closed, answer)| closed == question && given.contains(&answer.cloned()))
        };
        self.follow_answer(question.0..end, is_answer).await
    }

    /// Follows a run from the first event on that is the answer.
    async fn follow_answer(
        self,
        among: Range<Seq>,
        mut is_answer: impl FnMut(&RecordedEvent) -> bool + Send + 'static,
    ) -> Result<Begun, Problem> {
        let (store, thread) = (self.server.runtime.store(), self.thread.id());
        let found = blocking(move || {
            for record in store.records(thread, among) {
                let recorded = RecordedEvent::decode(record?)?;
                if is_answer(&recorded) {
                    return Ok::<_, ReadError>(Some((recorded.record.seq, recorded.record.run)));
                }
            }
            Ok(None)
        });
        match found.await?? {
            Some((from, Some(run))) => self.follow(run, from).await,
            _ => Err(nothing_open()),
        }
    }
}

/// The question that an event closes, and its answer; `None` where it has none.
fn answered(event: &Event) -> Option<(CallId, Option<&Json>)> {
    if let Event::UserInteractionResponded(e) = event {
        return Some((e.interaction_id, Some(&e.input_data)));
    }
    if let Event::UserInteractionFailed(e) = event { Some((e.interaction_id, None)) } else { None }
}

fn reused(why: &str) -> Problem {
    Problem::new(Kind::KeyReused, format!("{why}: choose another `runId`")).at("parameter", "runId")
}

fn nothing_open() -> Problem {
    Problem::new(Kind::InteractionClosed, "the thread waits for no answer: send a message of the role `user`")
}

/// The error of a request that leaves questions unanswered.
fn uncovered<'a>(open: impl Iterator<Item = &'a OpenInteraction>) -> Problem {
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
