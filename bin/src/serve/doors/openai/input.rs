//! The body of a request: what is used, what is refused because it cannot be honoured. Everything else is ignored.

use std::collections::BTreeSet;

use rethread::ThreadId;
use rethread::runs::ConversationFormat;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::CONVERSATION;
use super::answer::RunKey;
use crate::serve::doors::client_tools::ClientTools;
use crate::serve::doors::conversation::{Said, invalid};
use crate::serve::problem::{Kind, Problem};

/// The body of a request.
pub(super) type Body = Map<String, Value>;

/// A request for an answer.
pub(super) struct Input {
    pub(super) model: String,
    pub(super) said: Said,
    /// The tools that the client runs.
    pub(super) tools: ClientTools,
    pub(super) place: Place,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) background: bool,
}

/// Where a conversation continues.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// Nowhere: it is a new thread.
    New,
    /// At the end of a thread.
    Thread(ThreadId),
    /// After a response.
    After(RunKey),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

/// Returns a field of a body; `None` if it is absent or null.
fn field<T: DeserializeOwned>(body: &mut Body, name: &str) -> Result<Option<T>, Problem> {
    let value = body.remove(name).unwrap_or_default();
    Option::deserialize(value).map_err(|error| invalid(name, error))
}

impl Input {
    /// Reads the body of a request for a chat completion.
    ///
    /// # Errors
    /// For a field that is missing or has another type, and for one that would change the answer in a way that is not
    /// possible here.
    pub(super) fn of_chat(mut body: Body, configured: &BTreeSet<String>) -> Result<Self, Problem> {
        refuse(&body)?;
        let tools = tools(&body, configured, |tool| &tool["function"])?;
        let model = model(&mut body)?;
        let thread = thread_of_metadata(&mut body)?;
        let options: StreamOptions = field(&mut body, "stream_options")?.unwrap_or_default();
        let messages = body.remove("messages").unwrap_or_default();
        if !messages.is_array() {
            return Err(invalid("messages", "expected a list of messages"));
        }
        Ok(Self {
            model,
            said: Said::read("messages", ConversationFormat::OpenaiChat, &messages)?,
            tools,
            place: thread.map_or(Place::New, Place::Thread),
            stream: field(&mut body, "stream")?.unwrap_or(false),
            include_usage: options.include_usage,
            background: false,
        })
    }

    /// Reads the body of a request for a response.
    ///
    /// # Errors
    /// As [`Self::of_chat`].
    pub(super) fn of_response(mut body: Body, configured: &BTreeSet<String>) -> Result<Self, Problem> {
        refuse(&body)?;
        let tools = tools(&body, configured, |tool| tool)?;
        let model = model(&mut body)?;
        let previous: Option<String> = field(&mut body, "previous_response_id")?;
        let conversation: Option<ConversationParam> = field(&mut body, "conversation")?;
        let of_metadata = thread_of_metadata(&mut body)?;
        let place = match (previous, conversation.map(ConversationParam::id)) {
            (None, None) => of_metadata.map_or(Place::New, Place::Thread),
            (Some(id), None) => {
                let key =
                    RunKey::of_response(&id).map_err(|problem| problem.at("parameter", "previous_response_id"))?;
                Place::After(key)
            }
            (None, Some(id)) => Place::Thread(thread_of_conversation(&id)?),
            (Some(_), Some(_)) => {
                return Err(invalid("conversation", "`previous_response_id` names it: leave out one"));
            }
        };
        let background = field(&mut body, "background")?.unwrap_or(false);
        let stream = field(&mut body, "stream")?.unwrap_or(false);
        // The fields that are read as a conversation.
        let body = ["instructions", "input"].map(|name| (name.to_owned(), body.remove(name).unwrap_or_default()));
        let body = Value::Object(body.into_iter().collect());
        let said = Said::read("input", ConversationFormat::OpenaiResponses, &body)?;
        Ok(Self { model, said, tools, place, stream, include_usage: true, background })
    }
}

/// The tools of the client that a request names and wants to be called. `described` is where a tool has its name,
/// description and parameters.
fn tools(
    body: &Body,
    configured: &BTreeSet<String>,
    described: impl Fn(&Value) -> &Value,
) -> Result<ClientTools, Problem> {
    let is_wanted = match body.get("tool_choice") {
        None | Some(Value::Null) => true,
        Some(choice) if choice == "auto" => true,
        Some(choice) if choice == "none" => false,
        Some(_) => {
            let detail = "the workflow says when its model uses a tool (`tool_mode` of a node): send `auto` or `none`, or \
                          leave it out";
            return Err(invalid("tool_choice", detail));
        }
    };
    let tools = match body.get("tools") {
        None | Some(Value::Null) => return Ok(ClientTools::default()),
        Some(Value::Array(tools)) => tools,
        Some(_) => return Err(invalid("tools", "expected a list of functions")),
    };
    if !tools.is_empty() && body.get("parallel_tool_calls").is_some_and(|value| value == false) {
        let detail = "an answer has as many calls as the model makes: leave it out";
        return Err(invalid("parallel_tool_calls", detail));
    }
    let function = |tool: &Value| {
        let function =
            Some(described(tool)).filter(|function| tool["type"] == "function" && function["name"].is_string());
        let function = function.ok_or_else(|| {
            let detail = "expected functions with a name: the client can run these alone, and other tools are those of the \
                          workflow";
            invalid("tools", detail)
        })?;
        let [name, description, parameters] = ["name", "description", "parameters"].map(|field| &function[field]);
        Ok(json!({ "name": name, "description": description, "parameters": parameters }))
    };
    let tools = tools.iter().map(function).collect::<Result<_, Problem>>()?;
    let tools = ClientTools::read(tools, configured)?;
    Ok(if is_wanted { tools } else { ClientTools::default() })
}

fn model(body: &mut Body) -> Result<String, Problem> {
    field(body, "model")?.ok_or_else(|| invalid("model", "name a workflow: GET /v1/models lists them"))
}

/// The conversation of a request, by its id or as an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum ConversationParam {
    Id(String),
    Object { id: String },
}

impl ConversationParam {
    fn id(self) -> String {
        match self {
            Self::Id(id) | Self::Object { id } => id,
        }
    }
}

fn thread_of_conversation(id: &str) -> Result<ThreadId, Problem> {
    id.strip_prefix(CONVERSATION).and_then(|id| id.parse().ok()).ok_or_else(|| {
        let detail = "a conversation is named by its id, as a response has it under `conversation`";
        Problem::new(Kind::NoThread, detail).at("parameter", "conversation")
    })
}

/// The thread that the metadata name.
fn thread_of_metadata(body: &mut Body) -> Result<Option<ThreadId>, Problem> {
    let mut metadata: Body = field(body, "metadata")?.unwrap_or_default();
    let thread: Option<String> =
        field(&mut metadata, "thread_id").map_err(|problem| problem.at("parameter", "metadata"))?;
    thread.map(|id| id.parse().map_err(|_| no_thread(&id))).transpose()
}

fn no_thread(id: &str) -> Problem {
    let detail = format!("`metadata.thread_id`: `{}` is not the id of a thread", crate::serve::request::cut(id));
    Problem::new(Kind::NoThread, detail).at("parameter", "metadata")
}

/// Refuses what would change the answer and cannot be honoured. Parameters of the model, such as `temperature`, are
/// ignored: the workflow has its own.
fn refuse(body: &Body) -> Result<(), Problem> {
    let value = |name: &str| body.get(name).filter(|value| !value.is_null());
    let is_empty = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(is_set) => !is_set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Null => true,
    };
    const REFUSED: [(&str, &str); 10] = [
        ("functions", "name the functions that the client runs in `tools`"),
        ("function_call", "send `tool_choice`, or leave it out"),
        ("logprobs", "probabilities are not known: leave it out"),
        ("top_logprobs", "probabilities are not known: leave it out"),
        ("logit_bias", "probabilities cannot be changed: leave it out"),
        ("stop", "an answer is not cut: set `stop` in the profile of the workflow's model, and leave this out"),
        ("audio", "answers are texts: leave it out"),
        ("web_search_options", "give the workflow a tool that searches, and leave this out"),
        ("prompt", "the prompts are those of the workflow: leave it out"),
        ("moderation", "give the workflow guardrails, and leave this out"),
    ];
    for (name, detail) in REFUSED {
        if value(name).is_some_and(|value| !is_empty(value)) {
            return Err(invalid(name, detail));
        }
    }
    if value("n").is_some_and(|n| n.as_f64() != Some(1.0)) {
        return Err(invalid("n", "a request has one answer: leave it out, or send the request again"));
    }
    let is_text = |modality: &Value| modality == "text";
    if value("modalities").is_some_and(|all| !all.as_array().is_some_and(|all| all.iter().all(is_text))) {
        return Err(invalid("modalities", "answers are texts: leave it out"));
    }
    let is_other = |format: &Value| format.get("type").is_none_or(|kind| kind != "text");
    let format_of_text = value("text").and_then(|text| text.get("format")).filter(|format| !format.is_null());
    for (name, format) in [("response_format", value("response_format")), ("text", format_of_text)] {
        if format.is_some_and(is_other) {
            let detail = "the workflow says what its answer is (`output_schema` of a node): leave it out";
            return Err(invalid(name, detail));
        }
    }
    Ok(())
}
