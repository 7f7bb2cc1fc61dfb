//! Reads requests: the body, within limits of size and time; the parameters; the names in the path.

use std::borrow::Cow;
use std::time::Duration;

use actix_web::http::header;
use actix_web::{HttpRequest, web};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use rethread::errors::LabelError;
use rethread::operate::{Labels, Search, SearchError};
use rethread::{CallId, Position, Seq, Status, ThreadId, Time};
use rethread_events::text;
use rethread_events::trace_context::TraceParent;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize as _, Deserializer};

use super::problem::{Kind, Problem};

/// How long a body may take to come.
const BODY_MAX: Duration = Duration::from_secs(30);

/// The whole body.
pub(crate) async fn body(mut payload: web::Payload, bytes_max: usize) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!(
            "the body is larger than {bytes_max} bytes: send less, or start the server with a larger --body-bytes-max \
             (an incoming webhook also has its own `body_bytes_max`)"
        );
        Problem::new(Kind::TooLarge, detail)
    };
    let read = async {
        let mut whole = BytesMut::new();
        while let Some(piece) = payload.next().await {
            let piece = piece
                .map_err(|error| Problem::new(Kind::InvalidRequest, format!("the body cannot be read: {error}")))?;
            if whole.len() + piece.len() > bytes_max {
                return Err(too_large());
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    };
    match tokio::time::timeout(BODY_MAX, read).await {
        Ok(read) => read,
        Err(_) => {
            let detail =
                format!("the body was not received within {} seconds: send the request again", BODY_MAX.as_secs());
            Err(Problem::new(Kind::SlowRequest, detail))
        }
    }
}

/// The media type of the body, without its parameters, in small letters.
pub(crate) fn media_type(request: &HttpRequest) -> String {
    let value = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The span of the caller. A header that cannot be read counts as none, as W3C Trace Context says.
pub(crate) fn traceparent(request: &HttpRequest) -> Option<TraceParent> {
    let mut headers = request.headers().get_all("traceparent");
    let header = headers.next().filter(|_| headers.next().is_none())?;
    header.to_str().ok()?.trim().parse().ok()
}

/// Checks that the body says to be JSON. A form on a foreign page cannot send the required media type.
pub(crate) fn check_is_json(request: &HttpRequest) -> Result<(), Problem> {
    let media_type = media_type(request);
    if !(media_type == "application/json" || media_type.ends_with("+json")) {
        let detail = "the body must be JSON, with the header `Content-Type: application/json`";
        return Err(Problem::new(Kind::UnsupportedMediaType, detail));
    }
    Ok(())
}

/// The JSON object in a body, of the required media type.
pub(crate) fn json<T: DeserializeOwned>(request: &HttpRequest, body: &[u8]) -> Result<T, Problem> {
    check_is_json(request)?;
    // A list would be taken for the fields of the object in their order.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::new(Kind::InvalidRequest, "the body is not what is expected here: a JSON object"));
    }
    parsed(body)
}

/// The JSON in a body.
pub(crate) fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let problem = Problem::new(Kind::InvalidRequest, format!("the body is not what is expected here: {error}"));
        problem.at("line", error.line()).at("column", error.column())
    })
}

/// As [`json`], where an empty body and `null` say nothing.
pub(crate) fn json_or_default<T: DeserializeOwned + Default>(request: &HttpRequest, body: &[u8]) -> Result<T, Problem> {
    match body.trim_ascii() {
        b"" | b"null" => Ok(T::default()),
        body => json(request, body),
    }
}

/// The query parameters. A list, `types`, has commas between its items; many generated clients repeat it instead.
pub(crate) fn query<T: DeserializeOwned>(request: &HttpRequest) -> Result<T, Problem> {
    let query = web::Query::<T>::from_query(&in_one("types=", request.query_string()));
    query.map(web::Query::into_inner).map_err(|error| {
        let what = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        Problem::new(Kind::InvalidRequest, format!("the query parameters: {what}"))
    })
}

/// Joins the values of a repeated parameter with commas.
fn in_one<'a>(name: &str, query: &'a str) -> Cow<'a, str> {
    let given: Vec<_> = query.split('&').filter_map(|pair| pair.strip_prefix(name)).collect();
    if given.len() < 2 {
        return query.into();
    }
    let others = query.split('&').filter(|pair| !pair.starts_with(name)).map(str::to_owned);
    others.chain([format!("{name}{}", given.join(","))]).collect::<Vec<_>>().join("&").into()
}

/// A part of the path.
pub(crate) fn named(request: &HttpRequest, name: &str) -> String {
    decoded(request.match_info().query(name))
}

/// The router decodes a path but for these three, which could look like something else in it.
fn decoded(part: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(part.len()), part);
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let c = match after.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("25") => '%',
            Some("2b") => '+',
            Some("2f") => '/',
            _ => {
                text.push('%');
                rest = after;
                continue;
            }
        };
        text.push(c);
        rest = &after[2..];
    }
    text + rest
}

/// The thread that the path names.
pub(crate) fn thread(request: &HttpRequest) -> Result<ThreadId, Problem> {
    let text = named(request, "thread");
    text.parse().map_err(|_| {
        let detail = "a thread is named by its id, a UUID: GET /v1/threads lists them";
        Problem::new(Kind::NoThread, detail).at("thread_id", cut(&text))
    })
}

/// Where a thread that was begun is.
pub(crate) fn location(thread: ThreadId) -> (&'static str, String) {
    ("Location", format!("/v1/threads/{thread}"))
}

/// The question that the path names.
pub(crate) fn interaction(request: &HttpRequest) -> Result<(ThreadId, CallId), Problem> {
    let text = named(request, "interaction");
    CallId::parse_key(&text).map_err(|_| {
        let detail = "a question is named by its id, as GET /v1/interactions lists it";
        Problem::new(Kind::NoInteraction, detail).at("interaction", cut(&text))
    })
}

pub(crate) fn cut(text: &str) -> String {
    text::head(text, 80).to_owned()
}

/// Parses a comma-separated list of words; empty words are skipped.
pub(crate) fn words(text: Option<&str>) -> Vec<&str> {
    text.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
}

/// The labels that a filter wants.
pub(crate) fn labels(written: Option<&str>) -> Result<Labels, Problem> {
    let labels = written.map(str::parse).transpose();
    labels.map(Option::unwrap_or_default).map_err(|error: LabelError| Problem::parameter("label", error.to_string()))
}

/// The search attributes that a filter wants.
pub(crate) fn search(written: Option<&str>) -> Result<Search, Problem> {
    let search = written.map(str::parse).transpose();
    search.map(Option::unwrap_or_default).map_err(|error: SearchError| Problem::parameter("search", error.to_string()))
}

pub(crate) fn statuses(text: Option<&str>) -> Result<Vec<Status>, Problem> {
    let one = |word| crate::threads::status(word).map_err(|what| Problem::parameter("status", what));
    words(text).into_iter().map(one).collect()
}

pub(crate) fn thread_ids(name: &str, text: Option<&str>) -> Result<Vec<ThreadId>, Problem> {
    let one = |word: &str| {
        word.parse().map_err(|_| Problem::parameter(name, "expected ids of threads with commas between them"))
    };
    words(text).into_iter().map(one).collect()
}

/// Names of events.
pub(crate) fn types(text: Option<&str>) -> Result<Vec<&'static str>, Problem> {
    let one = |word| match rethread_events::event::event_type_named(word) {
        Some(event_type) => Ok(event_type.name),
        None => {
            Err(Problem::parameter("types", format!("unknown event type {}; docs/EVENTS.md lists them", cut(word))))
        }
    };
    words(text).into_iter().map(one).collect()
}

pub(crate) fn time(name: &str, text: Option<&str>) -> Result<Option<Time>, Problem> {
    let parsed = text.map(|text| {
        let at: jiff::Timestamp =
            text.parse().map_err(|_| Problem::parameter(name, "expected a time such as 2026-01-31T12:00:00Z"))?;
        // Nothing was recorded before the epoch, so any earlier time means the same.
        Ok(Time::from_unix_us(u64::try_from(at.as_microsecond()).unwrap_or_default()))
    });
    parsed.transpose()
}

/// How many of something a page holds.
pub(crate) fn limit(given: Option<u64>, default: usize, max: usize) -> Result<usize, Problem> {
    match given {
        None => Ok(default),
        Some(n) if (1..=max as u64).contains(&n) => Ok(n as usize),
        Some(_) => Err(Problem::parameter("limit", format!("must be between 1 and {max}"))),
    }
}

/// A position to read after. It has at most 18 digits, so that it always has a successor.
pub(crate) fn position(text: &str) -> Option<Position> {
    text.parse().ok().filter(|_| text.len() <= 18).map(Position)
}

/// Parses a position; `None` for the present.
pub(crate) fn after(text: Option<&str>) -> Result<Option<After>, Problem> {
    match text {
        None => Ok(None),
        Some("now") => Ok(Some(After::Now)),
        Some(text) => match position(text) {
            Some(position) => Ok(Some(After::Position(position))),
            None => Err(Problem::parameter("after", "expected a position of the log, or `now`")),
        },
    }
}

/// Where a subscriber continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Now,
    Position(Position),
}

/// A count in a body. JSON knows no whole numbers: `7.0` is one as well.
pub(crate) fn count<'de, D: Deserializer<'de>, T: TryFrom<u64>>(from: D) -> Result<Option<T>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(from)? else { return Ok(None) };
    // Beyond 2^53 a number with a point does not say which whole one it is.
    let whole = |number: f64| {
        (number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number)).then_some(number as u64)
    };
    let count = number.as_u64().or_else(|| number.as_f64().and_then(whole));
    let count = count.and_then(|count| T::try_from(count).ok());
    count.map(Some).ok_or_else(|| D::Error::custom(format!("{number} is not a valid count")))
}

/// A seq of a page's end.
pub(crate) fn seq(given: Option<u64>) -> Seq {
    Seq(given.unwrap_or(0))
}
