//! `/v1/threads/{thread}/fork`: another way on from a moment.

use actix_web::{HttpRequest, HttpResponse, web};
use rethread::errors::{ControlError, ForkError};
use rethread::event::ForkChanges;
use rethread::runs::{RunAgain, RunId};
use rethread::{ForkRequest, Json, OrderedMap, Seq, ThreadHandle, ThreadId};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::beginning::{self, Repeatable};
use super::extract::Named;
use super::moments::MomentQuery;
use super::problem::{Kind, Problem};
use super::request;
use super::server::{Server, Shared};
use super::workflows::{Chosen, For, Inline};
use crate::fork::{answer_to, does_not_wait};
use crate::views::Thread;

/// The changes from the moment on. Everything may be absent.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fork {
    /// The last event that is inherited; the last one there is unless a moment is given.
    #[serde(default, deserialize_with = "request::count")]
    seq: Option<u64>,
    /// The checkpoint that is forked from.
    checkpoint: Option<String>,
    /// The time that is forked from.
    #[schema(format = DateTime)]
    at: Option<String>,
    /// A run that is made again: the fork begins where it began.
    #[serde(default, deserialize_with = "request::count")]
    run_id: Option<u64>,
    /// The input of that run, instead of its own.
    input: Option<Value>,
    /// Variables to set.
    #[schema(value_type = Option<Object>)]
    variables: Option<OrderedMap<Json>>,
    /// The profile of every model call from there on.
    profile: Option<String>,
    /// User prompts of nodes, by the ids of the nodes.
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    prompts: Option<OrderedMap<String>>,
    /// The name of the workflow to continue with: its newest definition.
    workflow: Option<String>,
    /// The hash of the definition to continue with.
    hash: Option<String>,
    /// The definition to continue with: an object, or a text in YAML or JSON.
    #[schema(value_type = Option<Inline>)]
    definition: Option<Value>,
    /// Answers to questions that wait at the moment, by the ids of the questions, or by their seqs in the thread. Without
    /// a moment the fork begins where the last of them was asked.
    #[schema(value_type = Option<Object>)]
    answers: Option<OrderedMap<Json>>,
    /// Whether the thread runs at once, which it does when absent. `false` leaves it paused until it is resumed.
    run: Option<bool>,
}

/// Starts a new thread that continues from a moment of this one, which stays unchanged. Calls that were open at that
/// moment are treated as after a crash. With `Idempotency-Key`, a repeated request returns the thread that the first
/// one started.
#[utoipa::path(post, path = "/v1/threads/{thread}/fork", tag = "threads", operation_id = "fork_thread",
    params(("Idempotency-Key" = Option<String>, Header, description = "A name for this request, 1 to 255 bytes", pattern = "^[!-~]([ -~]{0,253}[!-~])?$")),
    request_body = Option<Fork>,
    responses(
        (status = 201, description = "The new thread has begun", body = Thread),
        (status = 404, description = "There is no such thread, moment, run or workflow, no such question waits then, or the thread that the key started was deleted"),
        (status = 409, description = "The thread has ended at that moment (`place.fork_at` names the seq to fork instead), a question was closed then, or a request with this key is at work"),
        (status = 429, description = "A limit of a label of the thread is reached: retry after `Retry-After`"),
        (status = 422, description = "The thread cannot continue so from there, or the key was used for another request"),
    ))]
pub(crate) async fn fork(
    server: Shared,
    request: HttpRequest,
    Named(parent): Named,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let fork: Fork = request::json_or_default(&request, &body)?;
    let sent = Repeatable::of(&request, format!("fork {}", parent.id()), body)?;
    let of_work = server.clone();
    let begun = beginning::begin(&server, sent, move |id| async move { begin(&of_work, &parent, fork, id).await });
    beginning::answer(begun.await?).await
}

async fn begin(server: &Server, parent: &ThreadHandle, fork: Fork, id: ThreadId) -> Result<ThreadHandle, Problem> {
    let moment = MomentQuery { seq: fork.seq, checkpoint: fork.checkpoint, at: fork.at, run: None };
    let at = moment.seq(parent).await?;
    let again = match (fork.run_id, fork.input) {
        (Some(_), _) if at.is_some() => {
            let detail = "`run_id` is a moment: give it without `seq`, `checkpoint` and `at`";
            return Err(Problem::new(Kind::Unusable, detail));
        }
        (Some(run), input) => Some(RunAgain { run: RunId(Seq(run)), input: input.map(Json::from) }),
        (None, Some(_)) => {
            let detail = "`input` replaces that of a run which is made again: name the run in `run_id`";
            return Err(Problem::new(Kind::Unusable, detail));
        }
        (None, None) => None,
    };
    let chosen = Chosen { workflow: fork.workflow, hash: fork.hash, definition: fork.definition };
    let workflow = chosen.find(server, For::Running).await?;
    let changes = ForkChanges {
        variables: fork.variables.unwrap_or_default(),
        prompts: fork.prompts.unwrap_or_default(),
        profile: fork.profile.map(Into::into),
        ..ForkChanges::default()
    };
    let answers = fork.answers.unwrap_or_default();
    let answers = answers.iter().map(|(question, answer)| {
        answer_to(question, parent.id(), answer.clone())
            .map_err(|error| Problem::new(Kind::InvalidRequest, format!("`answers`: {error}")))
    });
    let answers = answers.collect::<Result<_, _>>()?;
    let paused = fork.run == Some(false);
    let forked = parent.fork(ForkRequest { at, again, changes, workflow, answers, id: Some(id), paused });
    forked.await.map_err(|error| match error {
        ForkError::Control(ControlError::NoInteraction(question)) => {
            Problem::new(Kind::NoInteraction, does_not_wait(&question)).at("interaction", question)
        }
        error => error.into(),
    })
}
