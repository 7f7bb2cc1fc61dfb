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
use rethread_events::trace_context::TraceParent;
use tokio::sync::Mutex;

use super::input::{AnswerStatus, Input};
use super::interrupts;
use super::translate::{self, Translator};
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

/// An answer to a question of a thread; `None` withdraws it.
type Given = (ThreadId, CallId, Option<Json>);

/// A request, and the thread that it is about.
struct Asked {
    server: Shared,
    workflow: Arc<Workflow>,
    thread: ThreadHandle,
    input: Input,
    /// The span of the client.
    caller: Option<TraceParent>,
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
        let caller = request::traceparent(request);
        let asked = Asked { server: server.clone(), workflow, thread, input, caller };
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
    let start = StartThread::new(workflow.clone(), text).labels(labels).messages(past).variables(variables);
    let mut start = start.traceparent(request::traceparent(request));
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
        let has_results = !self.input.tool_results().is_empty();
        if !self.input.resume.is_empty() || has_results {
            // Answers to no question that is open may be those of a request that is sent again.
            return match self.answers(&state, &open).await? {
                Some(given) => self.give(&state, given).await,
                None if has_results && self.input.resume.is_empty() => self.called(&state, &open).await,
                None => self.resumed(&state, &open).await,
            };
        }
        if !open.is_empty() {
            return Err(uncovered(open.iter()));
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
            .traceparent(self.caller)
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
        let Self { server, mut workflow, thread, input, caller: _ } = self;
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

    /// Returns the answers of the request to the open questions; `None` if it answers none of them.
    ///
    /// # Errors
    /// If it answers some of them, or one twice.
    async fn answers(&mut self, state: &State, open: &[OpenInteraction]) -> Result<Option<Vec<Given>>, Problem> {
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
                let call = interrupts::client_call(question, &now, id, tools);
                let result = call.and_then(|call| results.iter().find(|(id, _)| *id == call));
                result.map(|(_, decision)| Some(Json::from(decision.clone())))
            } else {
                let answer = self.input.resume.iter().find(|answer| answer.interrupt_id == question.key());
                answer.map(|answer| {
                    (answer.status == AnswerStatus::Resolved).then(|| interrupts::answer(question, answer))
                })
            };
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

    /// Answers questions, or withdraws those without an answer. All answers are checked before the first is given.
    async fn give(self, state: &State, given: Vec<Given>) -> Result<Begun, Problem> {
        let variables = self.input.variables(&self.workflow, Some(state))?;
        for (thread, question, data) in &given {
            let Some(data) = data else { continue };
            let set = if *thread == self.thread.id() { variables.clone() } else { OrderedMap::default() };
            self.thread.sibling(*thread).check_response(set, *question, data.clone()).await?;
        }
        // From the state that was read first: if the run ends meanwhile, its end is among the events.
        let from = state.last_seq().unwrap_or_default().next();
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
    async fn called(self, state: &State, open: &[OpenInteraction]) -> Result<Begun, Problem> {
        let results = self.input.tool_results();
        let results: Vec<_> = results.into_iter().map(|(call, result)| (call.to_owned(), Json::from(result))).collect();
        let tools = self.server.settings.client_tools.clone();
        let last = state.last_seq().unwrap_or_default();
        let from = Seq(last.0.saturating_sub(ANSWER_SEARCH_MAX)).max(state.run_started());
        let (mut names, mut asked) = (BTreeMap::new(), BTreeMap::new());
        let is_answer = move |recorded: &RecordedEvent| {
            if let Event::LlmCallCompleted(e) = &recorded.event {
                names = translate::names(&e.message, e.call_id);
            } else if let Event::UserInteractionRequested(e) = &recorded.event {
                let call = e.tool_call.as_ref().filter(|call| tools.contains(call.name.as_str()));
                let call = call.and_then(|call| names.get(call.tool_call_id.as_ref()?));
                let result = results.iter().find(|(id, _)| Some(id) == call);
                asked.extend(result.map(|(_, result)| (CallId(recorded.record.seq), result.clone())));
            }
            let (question, answer) = answered(&recorded.event)?;
            asked.get(&question).map(|result| Some(result) == answer)
        };
        self.follow_answers(from..last.next(), None, open, is_answer).await
    }

    /// Follows the run whose questions were answered before, as a request that is sent again asks for.
    async fn resumed(self, state: &State, open: &[OpenInteraction]) -> Result<Begun, Problem> {
        let mut wanted = BTreeMap::new();
        for answer in &self.input.resume {
            // An entry that no question has was left out before, too.
            let Ok((thread, question)) = CallId::parse_key(&answer.interrupt_id) else { continue };
            if thread != self.thread.id() {
                return Err(not_open(open));
            }
            wanted.insert(question, interrupts::possible_answers(answer));
        }
        let Some(first) = wanted.keys().next().map(|question| question.0) else { return Err(not_open(open)) };
        let end = state.last_seq().unwrap_or_default().next().min(Seq(first.0.saturating_add(ANSWER_SEARCH_MAX)));
        let n_wanted = wanted.len();
        let is_answer = move |recorded: &RecordedEvent| {
            let (question, answer) = answered(&recorded.event)?;
            wanted.get(&question).map(|given| given.contains(&answer.cloned()))
        };
        self.follow_answers(first..end, Some(n_wanted), open, is_answer).await
    }

    /// Follows a run from the first of some answers on. `is_answer` says of an event whether it is one, or another answer than
    /// the request has, which is late. There are to be `n_wanted` of them, or at least one.
    async fn follow_answers(
        self,
        among: Range<Seq>,
        n_wanted: Option<usize>,
        open: &[OpenInteraction],
        mut is_answer: impl FnMut(&RecordedEvent) -> Option<bool> + Send + 'static,
    ) -> Result<Begun, Problem> {
        let (store, thread) = (self.server.runtime.store(), self.thread.id());
        let found = blocking(move || {
            let (mut first, mut n_found) = (None, 0);
            for record in store.records(thread, among) {
                let recorded = RecordedEvent::decode(record?)?;
                match is_answer(&recorded) {
                    Some(true) => {
                        first = first.or(Some((recorded.record.seq, recorded.record.run)));
                        n_found += 1;
                    }
                    Some(false) => return Ok(None),
                    None => {}
                }
                if n_wanted == Some(n_found) {
                    break;
                }
            }
            Ok::<_, ReadError>(first.filter(|_| n_wanted.is_none_or(|wanted| wanted == n_found)))
        });
        match found.await?? {
            Some((from, Some(run))) => self.follow(run, from).await,
            _ => Err(not_open(open)),
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

/// The error of a request whose answers are not those of open questions, and were not given before.
fn not_open(open: &[OpenInteraction]) -> Problem {
    if open.is_empty() { nothing_open() } else { uncovered(open.iter()) }
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
