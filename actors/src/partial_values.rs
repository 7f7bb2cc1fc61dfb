//! What streamed answers say so far, as values.

use std::collections::{BTreeMap, BTreeSet};

use jiter::{JsonValue, PartialMode};
use rethread_events::event::{Event, LlmExecutionProgress};
use rethread_events::ids::{CallId, NodeId};
use serde_json::Value;

/// The longest answer, in bytes, that is read as it grows: the whole of it is read again with each piece.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// The values that models are writing for nodes with an `output_schema`, from the pieces of their streamed answers. A value
/// is a preview: it need not fit the schema yet, texts in it may be cut, and numbers may lack digits. The value that counts
/// is the output of the node.
///
/// All streamed answers of such a node are read, also those that turn out to be a text beside tool calls, a step of a plan or
/// a candidate.
///
/// It is given the events of one thread, in order:
///
/// ```
/// # use rethread::Event;
/// # fn events() -> Vec<Event> { Vec::new() }
/// let mut values = rethread::runs::PartialValues::default();
/// for event in events() {
///     if let Some(partial) = values.push(&event) {
///         println!("{} so far: {}", partial.node_id, partial.value);
///     }
/// }
/// ```
#[derive(Debug, Default)]
pub struct PartialValues {
    /// The nodes whose loops run and have a schema.
    nodes: BTreeSet<NodeId>,
    calls: BTreeMap<CallId, Answer>,
}

/// What an answer says so far.
#[derive(Debug, Clone, PartialEq)]
pub struct PartialValue {
    /// The node.
    pub node_id: NodeId,
    /// The call whose answer it is.
    pub call_id: CallId,
    /// The value.
    pub value: Value,
}

/// The pieces of one attempt.
#[derive(Debug, Default)]
struct Answer {
    attempt: u32,
    n_pieces: u64,
    text: String,
}

impl PartialValues {
    /// Takes the next event, and returns what the answer that it is a piece of says so far. `None` for other events, for
    /// answers of nodes without a schema, and until an object or a list begins. Of an answer over
    /// 256 KiB, or one whose first pieces or whose LLM_EXECUTION_REQUEST were not given, nothing is returned. Reads the
    /// whole answer each time.
    pub fn push(&mut self, event: &Event) -> Option<PartialValue> {
        if let Event::LlmExecutionProgress(piece) = event {
            return self.add(piece);
        }
        if let Event::LlmExecutionRequest(request) = event
            && request.output.is_some()
        {
            self.nodes.insert(request.node_id.clone());
        } else if let Event::LlmExecutionCompleted(ended) = event {
            self.node_ended(&ended.node_id);
        } else if let Event::LlmExecutionFailed(ended) = event {
            self.node_ended(&ended.node_id);
        } else if let Event::LlmCallCompleted(ended) = event {
            self.call_ended(ended.call_id);
        } else if let Event::LlmCallFailed(ended) = event {
            self.call_ended(ended.call_id);
        }
        None
    }

    fn node_ended(&mut self, node: &NodeId) {
        self.nodes.remove(node);
        self.calls.clear();
    }

    fn call_ended(&mut self, call: CallId) {
        self.calls.remove(&call);
    }

    fn add(&mut self, piece: &LlmExecutionProgress) -> Option<PartialValue> {
        let node_id = self.nodes.get(piece.node_id.as_ref()?)?.clone();
        let answer = self.calls.entry(piece.call_id).or_default();
        if piece.attempt > answer.attempt {
            *answer = Answer { attempt: piece.attempt, ..Answer::default() };
        }
        if piece.attempt != answer.attempt || piece.index != answer.n_pieces {
            return None;
        }
        answer.n_pieces += 1;
        if piece.restarted {
            answer.text.clear();
        }
        if piece.text.is_empty() {
            return None;
        }
        answer.text.push_str(&piece.text);
        if answer.text.len() > ANSWER_BYTES_MAX {
            // No piece has this number: none is read any more.
            *answer = Answer { attempt: piece.attempt, n_pieces: u64::MAX, text: String::new() };
            return None;
        }
        let from = answer.text.find(['{', '['])?;
        let read = JsonValue::parse_with_config(&answer.text.as_bytes()[from..], false, PartialMode::TrailingStrings);
        Some(PartialValue { node_id, call_id: piece.call_id, value: value_of(&read.ok()?) })
    }
}

fn value_of(read: &JsonValue<'_>) -> Value {
    match read {
        JsonValue::Null => Value::Null,
        JsonValue::Bool(it) => Value::from(*it),
        JsonValue::Int(it) => Value::from(*it),
        JsonValue::Float(it) => Value::from(*it),
        JsonValue::Str(it) => Value::from(it.as_ref()),
        JsonValue::Array(items) => items.iter().map(value_of).collect(),
        JsonValue::Object(fields) => fields.iter().map(|(name, it)| (name.to_string(), value_of(it))).collect(),
    }
}

#[cfg(test)]
mod tests;
