//! The message of a client: what it says, and where.

use bytes::Bytes;
use rethread::Json;
use rethread::ThreadId;
use rethread::runs::ConversationFormat;
use serde_json::{Value, json};

use super::error::{Error, Fault};
use super::key::TaskKey;
use super::wire::{
    ClientMessage, ClientPart, Configuration, Modes, SendMessage, check_tenant, given, history_length, params,
};
use crate::serve::doors::conversation::Conversation;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;

/// The longest id of a message, in bytes: it is part of a key of a thread.
const ID_BYTES_MAX: usize = 200;
/// The media types of answers.
const TEXT: &str = "text/plain";
const JSON: &str = "application/json";

/// Where a message belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// To a new context.
    New,
    /// To a context, as a task of its own.
    Context(ThreadId),
    /// To a task.
    Task(TaskKey),
}

/// What a message says.
pub(super) enum Content {
    /// One value.
    Data(Json),
    /// Text, images and documents.
    Said(Conversation),
}

/// A message as it was sent.
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) place: Place,
    pub(super) content: Content,
    /// The question that it answers.
    pub(super) interaction: Option<String>,
    pub(super) modes: Modes,
    pub(super) history_length: Option<usize>,
    pub(super) returns_immediately: bool,
    /// The message, to be compared with the one of a repeated request.
    pub(super) bytes: Bytes,
}

impl Sent {
    /// Reads the parameters of `SendMessage` and `SendStreamingMessage`.
    pub(super) fn read(given_params: Value) -> Result<Self, Error> {
        let SendMessage { tenant, message, configuration } = params(given_params)?;
        check_tenant(tenant)?;
        let configuration = configuration.unwrap_or_default();
        if configuration.task_push_notification_config.as_ref().is_some_and(|config| !config.is_null()) {
            return Err(no_push_notifications());
        }
        let Configuration { accepted_output_modes, history_length: length, return_immediately, .. } = configuration;
        let bytes = Bytes::from(message.to_string());
        let message: ClientMessage = serde_json::from_value(message)
            .map_err(|error| Error::parameter("message", format!("expected a message: {error}")))?;
        let ClientMessage { message_id, context_id, task_id, role, parts, metadata } = message;
        if role != "ROLE_USER" && role != 1 {
            return Err(Error::parameter("message.role", "expected `ROLE_USER`"));
        }
        let interaction = metadata.and_then(|mut metadata| metadata.remove("interactionId"));
        let interaction = interaction.map(|id| match id {
            Value::String(id) => Ok(id),
            _ => Err(Error::parameter("message.metadata.interactionId", "expected the id of a question")),
        });
        Ok(Self {
            id: check_id(given(message_id))?,
            place: place(given(context_id), given(task_id))?,
            content: content(parts.unwrap_or_default())?,
            interaction: interaction.transpose()?,
            modes: modes(accepted_output_modes.unwrap_or_default())?,
            history_length: history_length(length)?,
            returns_immediately: return_immediately.unwrap_or(false),
            bytes,
        })
    }

    /// The message as the input of a run.
    pub(super) fn input(&self) -> Json {
        match &self.content {
            Content::Data(data) => data.clone(),
            Content::Said(said) => said.input(),
        }
    }

    /// Checks that a message that continues something has no images.
    pub(super) fn refuse_media(&self) -> Result<(), Error> {
        match &self.content {
            Content::Data(_) => Ok(()),
            Content::Said(said) => {
                said.refuse_media().map_err(|problem| Error::from(problem).called(Fault::ContentType))
            }
        }
    }
}

/// The error of everything about push notifications.
pub(super) fn no_push_notifications() -> Error {
    let detail = "the agent sends no push notifications: follow the task with SubscribeToTask, or configure a webhook of \
                  the server";
    Error::new(Fault::NoPushNotifications, detail)
}

fn check_id(id: Option<String>) -> Result<String, Error> {
    let is_fit = |id: &String| id.len() <= ID_BYTES_MAX && !id.chars().any(char::is_control);
    id.filter(is_fit).ok_or_else(|| {
        let detail = format!("give each message an id of its own, such as a UUID: 1 to {ID_BYTES_MAX} bytes");
        Error::parameter("message.messageId", detail)
    })
}

fn place(context: Option<String>, task: Option<String>) -> Result<Place, Error> {
    let context = context.map(|id| context_id(&id)).transpose()?;
    let Some(task) = task else { return Ok(context.map_or(Place::New, Place::Context)) };
    let key = TaskKey::read(&task)?;
    if context.is_some_and(|context| context != key.thread) {
        let detail = "the task belongs to another context: leave `contextId` out, or send that of the task";
        return Err(Error::parameter("message.contextId", detail));
    }
    Ok(Place::Task(key))
}

/// Reads the id of a context, which is that of a thread.
pub(super) fn context_id(id: &str) -> Result<ThreadId, Error> {
    id.parse().map_err(|_| {
        let detail = format!("there is no context `{}`: leave `contextId` out to begin one", request::cut(id));
        Problem::new(Kind::NoThread, detail).into()
    })
}

/// Reads what a client accepts. It can accept everything.
fn modes(accepted: Vec<String>) -> Result<Modes, Error> {
    if accepted.is_empty() {
        return Ok(Modes::ALL);
    }
    let media_type = |mode: &str| mode.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let accepted: Vec<_> = accepted.iter().map(|mode| media_type(mode)).collect();
    let accepts = |all: [&str; 3]| accepted.iter().any(|mode| all.contains(&&**mode));
    let (text, json) = (accepts([TEXT, "text/*", "*/*"]), accepts([JSON, "application/*", "*/*"]));
    let modes = Modes { text, json, files: Some(accepted) };
    if modes.text || modes.json {
        return Ok(modes);
    }
    let detail = format!("`acceptedOutputModes`: the answers are `{TEXT}` or `{JSON}`");
    Err(Error::new(Fault::ContentType, detail))
}

fn content(mut parts: Vec<ClientPart>) -> Result<Content, Error> {
    for (at, part) in parts.iter().enumerate() {
        let given = [part.text.is_some(), part.raw.is_some(), part.url.is_some(), part.data.is_some()];
        if given.iter().filter(|is_given| **is_given).count() != 1 {
            let detail = "expected one of `text`, `data`, `raw` and `url`";
            return Err(Error::parameter(&format!("message.parts[{at}]"), detail));
        }
    }
    if let [ClientPart { data, .. }] = &mut parts[..]
        && let Some(data) = data.take()
    {
        return Ok(Content::Data(Json::from(data)));
    }
    let (mut texts, mut media) = (Vec::new(), Vec::new());
    for (at, part) in parts.into_iter().enumerate() {
        if let Some(text) = part.text {
            texts.push(text);
        } else if let Some(data) = part.data {
            texts.push(data.to_string());
        } else {
            media.push(medium(part, at)?);
        }
    }
    if texts.is_empty() && media.is_empty() {
        return Err(Error::parameter("message.parts", "a message has at least one part"));
    }
    if !texts.is_empty() {
        media.insert(0, json!({ "type": "text", "text": texts.join("\n") }));
    }
    let chat = json!([{ "role": "user", "content": media }]);
    Ok(Content::Said(Conversation::read("message.parts", ConversationFormat::OpenaiChat, &chat)?))
}

/// An image or a document as a part of Chat Completions.
fn medium(part: ClientPart, at: usize) -> Result<Value, Error> {
    let media_type = part.media_type.unwrap_or_default().to_ascii_lowercase();
    let url = match (part.raw, part.url) {
        (Some(raw), _) => format!("data:{media_type};base64,{raw}"),
        (None, url) => url.unwrap_or_default(),
    };
    if media_type.starts_with("image/") {
        return Ok(json!({ "type": "image_url", "image_url": { "url": url } }));
    }
    if media_type == "application/pdf" {
        return Ok(json!({ "type": "file", "file": { "file_data": url, "filename": part.filename } }));
    }
    let detail = format!(
        "`message.parts[{at}]`: `raw` and `url` are images or `application/pdf`, and `mediaType` says which: send a text \
         as `text`, and JSON as `data`"
    );
    Err(Error::new(Fault::ContentType, detail))
}

#[cfg(test)]
mod tests;
