//! Answers the requests of other runtimes.

use std::sync::{Arc, Weak};

use rethread_events::ids::{Hash, Position, Seq, ThreadId};
use rethread_events::memory::Namespace;
use rethread_events::principal::Principal;
use rethread_events::thread::Input;
use rethread_events::workflow::Workflow;

#[cfg(feature = "schedules")]
use super::request::ScheduleFailure;
use super::request::{MemoryFailure, Request, Response, SignalFailure, StartRequest};
use crate::deliver;
use crate::error::{ControlError, NextMove, RuntimeError, StartThreadError};
use crate::registry::ThreadRegistry;
use crate::runtime::Runtime;
use crate::signals;
use crate::start_thread::StartThread;

/// Answers requests from now on.
pub(crate) fn serve(registry: &Arc<ThreadRegistry>) {
    let Some(shared) = &registry.services.shared else { return };
    let registry = Arc::downgrade(registry);
    shared.log.answer_with(Arc::new(move |request| {
        let registry = registry.clone();
        Box::pin(async move {
            let response = answer(&registry, &request).await;
            serde_json::to_vec(&response).unwrap_or_default().into()
        })
    }));
}

async fn answer(registry: &Weak<ThreadRegistry>, request: &[u8]) -> Response {
    let request: Request = match serde_json::from_slice(request) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("the request cannot be read by the version of that process: {error}");
            return Response::Failed { message, next_move: NextMove::TellOperator };
        }
    };
    let Some(registry) = registry.upgrade() else { return Response::Moved };
    if registry.is_shutting_down() || !registry.has_slot(request.thread()) {
        return Response::Moved;
    }
    match request {
        Request::Keep { workflow, .. } => Response::of(keep(&registry, workflow).await.map(|()| None)),
        Request::PutOnce { place, name, value } => {
            Response::of(put_once(&registry, place, &name, &value).await.map(|()| None))
        }
        Request::Start(start) => Response::of_start(begin(&registry, start).await),
        Request::Signal { place, signal } => match registry.hold(place) {
            Some(_held) => Response::answer(&signals::send(&registry, signal).await.map_err(SignalFailure::from)),
            None => Response::Moved,
        },
        Request::KeptSignals { name, .. } => {
            signals::deliver_all_kept(registry, Some(name)).await;
            Response::Done { first: None }
        }
        Request::Queue { queue, .. } => {
            registry.queues.changed_elsewhere(queue);
            Response::Done { first: None }
        }
        #[cfg(feature = "schedules")]
        Request::Schedule { place, name, change, within } => match registry.hold(place) {
            Some(_held) => match Runtime::of_registry(&registry) {
                Some(runtime) => {
                    let changed = runtime.change_schedule_here(&name, change, &within).await;
                    Response::answer(&changed.map_err(ScheduleFailure::from))
                }
                None => Response::Moved,
            },
            None => Response::Moved,
        },
        Request::Memory { place, namespace, change } => match (registry.hold(place), Runtime::of_registry(&registry)) {
            (Some(_held), Some(runtime)) => {
                let changed = runtime.change_memories_here(Namespace::of_labels(namespace), change).await;
                Response::answer(&changed.map_err(MemoryFailure::from))
            }
            _ => Response::Moved,
        },
        Request::Delete { thread, by } => Response::of(delete(&registry, thread, by).await),
        Request::Settle { thread } => Response::of(deliver::settle(&registry, thread).await.map(|()| None)),
        Request::Give { thread, input, report, definition } => {
            Response::of(give(&registry, thread, input, report, definition).await)
        }
        Request::Migrate { thread, definition, by } => Response::of(migrate(&registry, thread, definition, by).await),
    }
}

async fn give(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    mut input: Input,
    report: Option<Option<Position>>,
    definition: Option<Hash>,
) -> Result<Option<Seq>, ControlError> {
    exists(registry, thread).await?;
    if let Some(hash) = definition {
        input = input.on(definition_of(registry, hash).await?);
    }
    match report {
        Some(cause) => deliver::report(registry, thread, input, cause).await,
        None => deliver::ask(registry, thread, input).await,
    }
}

async fn migrate(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    definition: Hash,
    by: Option<Principal>,
) -> Result<Option<Seq>, ControlError> {
    exists(registry, thread).await?;
    let workflow = definition_of(registry, definition).await?;
    deliver::ask(registry, thread, Input::Migrate(workflow).by(by)).await
}

async fn delete(registry: &Arc<ThreadRegistry>, thread: ThreadId, by: Principal) -> Result<Option<Seq>, ControlError> {
    let runtime = Runtime::of_registry(registry).ok_or(RuntimeError::ShuttingDown)?;
    runtime.thread(thread).by(by).delete_here().await.map(|()| None)
}

async fn exists(registry: &Arc<ThreadRegistry>, thread: ThreadId) -> Result<(), ControlError> {
    let runtime = Runtime::of_registry(registry).ok_or(RuntimeError::ShuttingDown)?;
    if !registry.is_live(thread) {
        runtime.thread(thread).info().await?;
    }
    Ok(())
}

async fn keep(registry: &Arc<ThreadRegistry>, hash: Hash) -> Result<(), ControlError> {
    let runtime = Runtime::of_registry(registry).ok_or(RuntimeError::ShuttingDown)?;
    let workflow = definition_of(registry, hash).await?;
    Ok(runtime.keep_here(&workflow).await.map(drop)?)
}

async fn put_once(
    registry: &Arc<ThreadRegistry>,
    place: ThreadId,
    name: &str,
    value: &[u8],
) -> Result<(), ControlError> {
    let runtime = Runtime::of_registry(registry).ok_or(RuntimeError::ShuttingDown)?;
    Ok(runtime.put_value_here(place, name, value).await?)
}

async fn definition_of(registry: &Arc<ThreadRegistry>, hash: Hash) -> Result<Arc<Workflow>, RuntimeError> {
    let runtime = Runtime::of_registry(registry).ok_or(RuntimeError::ShuttingDown)?;
    let services = runtime.services().clone();
    runtime.blocking(move || services.definitions.with_hash(hash)).await?
}

async fn begin(registry: &Arc<ThreadRegistry>, request: StartRequest) -> Result<(), StartThreadError> {
    let runtime = Runtime::of_registry(registry).ok_or(RuntimeError::ShuttingDown)?;
    let workflow = definition_of(registry, request.workflow).await?;
    let (id, parent) = (request.id, request.parent);
    let start = StartThread::of_request(workflow, parent, request.start());
    runtime.start_here(id, start).await.map(drop)
}
