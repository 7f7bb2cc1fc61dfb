//! `/v1/threads/{thread}/events/{seq}/media/{part}`: an image, a recording or a file that a model made.

use actix_web::http::header::{ContentDisposition, ContentType};
use actix_web::{HttpRequest, HttpResponse};
use rethread::operate::LogAccess as _;
use rethread::{Event, RecordedEvent, Seq};

use super::extract::Named;
use super::idempotency::blocking;
use super::problem::{Kind, Problem};
use super::request;
use crate::answer;

/// The bytes of a part of a model's answer, which browsers save and do not show.
#[utoipa::path(get, path = "/v1/threads/{thread}/events/{seq}/media/{part}", tag = "threads", operation_id = "media",
    params(
        ("seq" = u64, Path, description = "The event with the answer, LLM_CALL_COMPLETED"),
        ("part" = usize, Path, description = "The index of the part in the content of its message"),
    ),
    responses((status = 200, description = "The bytes, with the media type that the model's provider gave",
        body = Vec<u8>, content_type = "application/octet-stream")))]
pub(crate) async fn media(Named(thread): Named, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let no_such = |what: &str| Problem::new(Kind::NoSuchPart, what.to_owned()).at("thread_id", thread.id());
    let number = |name: &str| request::named(&request, name).parse::<u64>();
    let (Ok(seq), Ok(part)) = (number("seq"), number("part")) else {
        return Err(no_such("expected the seq of an answer and the index of a part of its message"));
    };
    let (store, id) = (thread.runtime().store(), thread.id());
    let record = blocking(move || store.record(id, Seq(seq))).await??;
    let event = record.map(RecordedEvent::decode).transpose()?;
    let Some(Event::LlmCallCompleted(answered)) = event.map(|event| event.event) else {
        return Err(no_such("the thread has no answer of a model with this seq"));
    };
    let Some(made) = answer::media(&answered.message).find(|made| made.part as u64 == part) else {
        return Err(no_such("this part of the answer is no image, recording or file"));
    };
    let Some(bytes) = made.bytes() else {
        let what = if made.media.url.is_some() { "only its `url` is known" } else { "its bytes cannot be read" };
        return Err(no_such(&format!("the log does not have the bytes of this part: {what}")));
    };
    let name = made.file_name(&format!("{}-{seq}-{part}", made.kind));
    Ok(HttpResponse::Ok()
        .content_type(made.media_type().parse().map_or(ContentType::octet_stream(), ContentType))
        .insert_header(ContentDisposition::attachment(name))
        .body(bytes))
}
