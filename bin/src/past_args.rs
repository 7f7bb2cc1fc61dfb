//! The options for what a thread begins with besides its input.

use std::path::PathBuf;

use clap::Args;
use rethread::runs::{ConversationFormat, read_conversation};
use rethread::{Json, Message, NodeId, OrderedMap, StartThread};
use serde_json::{Value, json};

use crate::definition;
use crate::exit::{self, Failure};
use crate::fork::assignment;

/// The largest conversation, in bytes.
const MESSAGES_BYTES_MAX: usize = 64 << 20;

/// The options for what a thread begins with.
#[derive(Debug, Args)]
#[command(next_help_heading = "Start")]
pub(crate) struct PastArgs {
    /// The file with the earlier conversation, a JSON list of messages: the first run continues it
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,
    /// The form of the messages: openai_chat, openai_responses or anthropic (default: that of rethread)
    #[arg(long, value_name = "FORMAT", requires = "messages", value_parser = format)]
    messages_format: Option<ConversationFormat>,
    /// Set this variable at the start, in addition to or in place of those of the workflow; repeatable
    #[arg(long = "set", value_name = "VAR=JSON", value_parser = assignment)]
    variables: Vec<(String, Json)>,
    /// The node to begin with, in place of the first one
    #[arg(long, value_name = "NODE")]
    entry: Option<String>,
}

fn format(text: &str) -> Result<ConversationFormat, String> {
    serde_json::from_value(text.into()).map_err(|_| "expected openai_chat, openai_responses or anthropic".into())
}

impl PastArgs {
    pub(crate) fn read(&self) -> Result<Past, Failure> {
        let messages = self.messages.as_ref().map(|file| {
            let invalid = |what: String| Failure::new(exit::INVALID, format!("{}: {what}", file.display()));
            let bytes = definition::read_limited(file, MESSAGES_BYTES_MAX)?;
            let body: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(format!("not JSON: {error}")))?;
            read_conversation(self.messages_format, &body).map_err(|error| invalid(error.to_string()))
        });
        Ok(Past {
            messages: messages.transpose()?.unwrap_or_default(),
            variables: self.variables.iter().cloned().collect(),
            entry: self.entry.as_deref().map(NodeId::from),
        })
    }
}

/// The start of a thread besides its input.
#[derive(Default)]
pub(crate) struct Past {
    messages: Vec<Message>,
    variables: OrderedMap<Json>,
    entry: Option<NodeId>,
}

impl Past {
    pub(crate) fn of(self, start: StartThread) -> StartThread {
        let start = start.messages(self.messages).variables(self.variables);
        match self.entry {
            Some(entry) => start.entry(entry),
            None => start,
        }
    }

    /// Writes it into the body of a request to a server.
    pub(crate) fn add_to_body(self, body: &mut Value) {
        if !self.messages.is_empty() {
            body["messages"] = json!(self.messages);
        }
        if !self.variables.is_empty() {
            body["variables"] = json!(self.variables);
        }
        if let Some(entry) = self.entry {
            body["entry"] = json!(entry);
        }
    }
}
