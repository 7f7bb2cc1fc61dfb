//! `/v1/threads/{thread}/state` and other historical reads of a thread.

use actix_web::HttpResponse;
use rethread::runs::RunId;
use rethread::steps::Steps;
use rethread::{Seq, State, ThreadHandle};
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{AtMoment, Named, QueryParams};
use super::large;
use super::problem::{Kind, Problem};
use super::request;
use super::schemas::{Checkpoint, Checkpoints, Family};
use crate::explain::What;
use crate::replay;

/// Which moment is meant: one of the four, or none for the present.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct MomentQuery {
    /// After this event.
    #[param(minimum = 0)]
    pub(crate) seq: Option<u64>,
    /// At the checkpoint of this name.
    pub(crate) checkpoint: Option<String>,
    /// After the last event at or before this time, such as 2026-01-31T12:00:00Z.
    #[param(format = DateTime)]
    pub(crate) at: Option<String>,
    /// At the end of this run. For `steps` and `explain`: only what was done in this run, which may be in progress.
    #[param(minimum = 0)]
    pub(crate) run: Option<u64>,
}

impl MomentQuery {
    /// The seq of the moment; `None` when the present is meant.
    pub(crate) async fn seq(&self, thread: &ThreadHandle) -> Result<Option<Seq>, Problem> {
        let no_moment = |detail: String| Problem::new(Kind::NoMoment, detail).at("thread_id", thread.id());
        match (self.seq, &self.checkpoint, &self.at, self.run()) {
            (None, None, None, None) => Ok(None),
            (None, None, None, Some(run)) => Ok(Some(thread.seq_of_run(run).await?)),
            (Some(seq), None, None, None) => Ok(Some(Seq(seq))),
            (None, Some(label), None, None) => match thread.checkpoint_seq(label).await? {
                Some(seq) => Ok(Some(seq)),
                None => {
                    let (id, label) = (thread.id(), request::cut(label));
                    let detail =
                        format!("thread {id} has no checkpoint `{label}`: GET /v1/threads/{id}/checkpoints lists them");
                    Err(no_moment(detail))
                }
            },
            (None, None, Some(at), None) => {
                let time = request::time("at", Some(at))?.unwrap_or_default();
                let seq = thread.seq_at_time(time).await?;
                seq.map(Some)
                    .ok_or_else(|| no_moment(format!("thread {} has no event at or before {time}", thread.id())))
            }
            _ => {
                Err(Problem::new(Kind::InvalidRequest, "give one of `seq`, `checkpoint`, `at` and `run`, not several"))
            }
        }
    }

    fn run(&self) -> Option<RunId> {
        self.run.map(|run| RunId(Seq(run)))
    }

    /// Which part of the thread to return.
    pub(crate) async fn what(&self, thread: &ThreadHandle) -> Result<What, Problem> {
        if let Self { seq: None, checkpoint: None, at: None, .. } = self
            && let Some(run) = self.run()
        {
            return Ok(What::Run(run));
        }
        Ok(What::To(match self.seq(thread).await? {
            Some(seq) => seq,
            None => thread.summary().await?.last_seq,
        }))
    }
}

/// The state of a thread at a moment: variables, conversation, path, what is open.
#[utoipa::path(get, path = "/v1/threads/{thread}/state", tag = "moments", operation_id = "thread_state",
    params(MomentQuery),
    responses((status = 200, description = "The state", body = State)))]
pub(crate) async fn state(at: AtMoment) -> Result<HttpResponse, Problem> {
    Ok(large::json(at.state().await?, |state, to| Ok(serde_json::to_writer(to, &state.json())?)).await)
}

/// The thread and all its branches that ran at a moment, each at its last event before that moment.
#[utoipa::path(get, path = "/v1/threads/{thread}/family", tag = "moments", operation_id = "thread_family",
    params(MomentQuery),
    responses((status = 200, description = "The family", body = Family)))]
pub(crate) async fn family(at: AtMoment) -> Result<HttpResponse, Problem> {
    let (thread, seq) = (&at.thread, at.seq_or_last().await?);
    let members = replay::family(thread, seq).await?;
    Ok(HttpResponse::Ok().json(Family { thread_id: thread.id(), seq, members }))
}

/// Returns the steps of a thread up to a moment, or in a run: calls, times, tokens and cost, results.
#[utoipa::path(get, path = "/v1/threads/{thread}/steps", tag = "moments", operation_id = "thread_steps",
    params(MomentQuery),
    responses((status = 200, description = "One result for each node that was entered", body = Steps)))]
pub(crate) async fn steps(
    Named(thread): Named,
    QueryParams(query): QueryParams<MomentQuery>,
) -> Result<HttpResponse, Problem> {
    let steps = match query.what(&thread).await? {
        What::To(seq) => thread.steps_at(seq).await?,
        What::Run(run) => thread.run_steps(run).await?,
    };
    Ok(HttpResponse::Ok().json(steps))
}

/// The moments of a thread that have names.
#[utoipa::path(get, path = "/v1/threads/{thread}/checkpoints", tag = "moments", operation_id = "checkpoints",
    responses((status = 200, description = "The checkpoints, in the order of the thread", body = Checkpoints)))]
pub(crate) async fn checkpoints(Named(thread): Named) -> Result<HttpResponse, Problem> {
    let state = thread.state().await?;
    let named = state.checkpoints().iter();
    let checkpoints = named.map(|named| Checkpoint { label: named.label.clone(), seq: Some(named.seq) }).collect();
    Ok(HttpResponse::Ok().json(Checkpoints { thread_id: thread.id(), checkpoints }))
}
