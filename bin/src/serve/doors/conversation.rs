//! The conversation of a request: the last message is the input of a run, or the last ones are results of tool calls.

use rethread::runs::{ConversationFormat, read_conversation};
use rethread::{Json, Message, OrderedMap, Part, Role, Workflow};
use rethread_events::message::ToolResult;
use serde_json::Value;

use crate::serve::problem::{Kind, Problem};

/// The variable that receives system and developer messages, if the workflow declares it.
const INSTRUCTIONS: &str = "instructions";

/// The messages of a request.
pub(super) struct Conversation {
    /// What system and developer messages say.
    instructions: Vec<String>,
    /// The messages before the last one, without instructions.
    pub(super) past: Vec<Message>,
    /// The last message.
    last: Message,
}

/// What a request says last.
pub(super) enum Said {
    /// A message.
    Message(Conversation),
    /// The results of tool calls. The messages before them do not count: the thread has them.
    Results(Vec<ToolResult>),
}

impl Said {
    /// Reads the conversation of a body, whose `field` is named in errors.
    pub(super) fn read(field: &str, format: ConversationFormat, body: &Value) -> Result<Self, Problem> {
        let mut messages = messages(format, body)?;
        let Some(last) = messages.pop_if(|last| last.role == Role::Tool) else {
            return Conversation::of(field, messages).map(Self::Message);
        };
        let result = |part| if let Part::ToolResult(result) = part { Some(result) } else { None };
        Ok(Self::Results(last.content.into_iter().filter_map(result).collect()))
    }
}

fn messages(format: ConversationFormat, body: &Value) -> Result<Vec<Message>, Problem> {
    read_conversation(Some(format), body)
        .map_err(|error| Problem::new(Kind::InvalidRequest, error.to_string()).at("parameter", error.place))
}

/// The problem of a field of a body.
pub(super) fn invalid(name: &str, detail: impl std::fmt::Display) -> Problem {
    Problem::new(Kind::InvalidRequest, format!("`{name}`: {detail}")).at("parameter", name)
}

impl Conversation {
    /// Reads the conversation of a body, whose `field` is named in errors.
    pub(super) fn read(field: &str, format: ConversationFormat, body: &Value) -> Result<Self, Problem> {
        Self::of(field, messages(format, body)?)
    }

    fn of(field: &str, messages: Vec<Message>) -> Result<Self, Problem> {
        let is_instruction = |message: &Message| message.role == Role::System;
        let (instructions, mut past): (Vec<_>, Vec<_>) = messages.into_iter().partition(is_instruction);
        match past.pop() {
            Some(last) if last.role == Role::User => {
                Ok(Self { instructions: instructions.iter().map(Message::joined_text).collect(), past, last })
            }
            _ => Err(invalid(field, "the last message must have the role `user`: the workflow answers it")),
        }
    }

    /// Returns the text of the last message as the input of a run.
    pub(super) fn input(&self) -> Json {
        Json::from(self.last.joined_text().as_str())
    }

    /// Returns the conversation before the input. A prompt is a text, so images and documents of the last message come
    /// before it as a message of their own.
    pub(super) fn past_with_media(&mut self) -> Vec<Message> {
        let mut past = std::mem::take(&mut self.past);
        let content: Vec<_> = self.media().cloned().collect();
        if !content.is_empty() {
            past.push(Message { role: Role::User, content });
        }
        past
    }

    /// Checks that the last message is a text only.
    pub(super) fn refuse_media(&self) -> Result<(), Problem> {
        match self.media().next() {
            None => Ok(()),
            Some(_) => Err(invalid(
                "messages",
                "a message that continues a thread is a text: begin a new thread to send an image or a file",
            )),
        }
    }

    fn media(&self) -> impl Iterator<Item = &Part> {
        self.last.content.iter().filter(|part| part.as_text().is_none())
    }

    /// Returns the variables that the messages set.
    ///
    /// # Errors
    /// For instructions that the workflow would ignore.
    pub(super) fn variables(&self, workflow: &Workflow) -> Result<OrderedMap<Json>, Problem> {
        let mut variables = OrderedMap::default();
        if self.instructions.is_empty() {
            return Ok(variables);
        }
        if !workflow.spec().variables.contains_key(INSTRUCTIONS) {
            let detail = format!(
                "the workflow `{}` takes no system or developer messages: leave them out, or declare the variable \
                 `{INSTRUCTIONS}` in the workflow and use it in a `system_prompt`",
                workflow.name()
            );
            return Err(invalid("messages", detail));
        }
        variables.insert(INSTRUCTIONS.to_owned(), Json::from(self.instructions.join("\n\n").as_str()));
        Ok(variables)
    }
}
