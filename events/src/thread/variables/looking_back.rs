//! The names for expressions over a past state: the variables of the thread, and its state at that moment.

use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object};

use super::View;
use crate::event::Event;
use crate::expression::{Context, Variables};
use crate::message::Usage;
use crate::thread::state::State;

/// The names, and what each contains. A variable of the same name hides it; `thread.NAME` is never hidden.
pub const LOOKING_BACK: &[(&str, &str)] = &[
    ("status", "pending, running, waiting, paused, completed, cancelled or error"),
    ("node", "the node it was in, or none"),
    ("event", "the documented name of the event, such as NODE_FAILED"),
    ("seq", "the seq of the event"),
    ("iterations", "how many nodes it had entered"),
    ("model_calls", "how many model calls had been answered"),
    ("tools_ended", "how many tool calls had ended"),
    ("tokens", "tokens of prompts and answers"),
    ("input_tokens", "tokens of prompts"),
    ("output_tokens", "tokens of answers"),
    ("cost_usd", "what models had cost, as far as prices are known"),
    ("cost_is_partial", "whether `cost_usd` misses the cost of a call"),
    ("n_messages", "how many messages the conversation had"),
    ("last_message", "the text of the last message, of a tool what it answered; or none"),
    ("last_role", "who said it: system, user, assistant or tool; or none"),
    ("open_questions", "how many questions waited for people"),
    ("error", "the message of the error of the event, or of the error that ended the thread; or none"),
];

#[derive(Debug)]
struct LookingBack {
    view: View,
    thread: Arc<HistoricalState>,
}

/// The state of a thread at a moment. The last message is searched when it is used.
#[derive(Debug)]
struct HistoricalState {
    state: State,
    event: Option<(&'static str, Option<String>)>,
}

impl State {
    /// Returns the context for an expression over a past state: the variables as the workflow's expressions see them,
    /// and the names of [`LOOKING_BACK`]. `event` is the one that led to this state.
    pub fn context_looking_back(&self, event: Option<&Event>) -> Context {
        let event = event.map(|event| (event.event_type().name, error_of(event)));
        let thread = Arc::new(HistoricalState { state: self.clone(), event });
        Context::new(LookingBack { view: self.view(None), thread })
    }
}

fn error_of(event: &Event) -> Option<String> {
    let data = event.data().ok()?;
    Some(data.get("error")?.get("message")?.as_str()?.to_owned())
}

impl Variables for LookingBack {
    fn variable(&self, name: &str) -> Option<Value> {
        self.view.variable(name).or_else(|| match name {
            "thread" => Some(Value::from_dyn_object(self.thread.clone())),
            name => self.thread.value(name),
        })
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.view.names();
        names.push("thread".into());
        names.extend(LOOKING_BACK.iter().map(|(name, _)| (*name).to_owned()));
        names
    }
}

impl Object for HistoricalState {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.value(key.as_str()?)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(LOOKING_BACK.iter().map(|(name, _)| Value::from(*name)).collect())
    }
}

impl HistoricalState {
    fn value(&self, name: &str) -> Option<Value> {
        let state = &self.state;
        let totals = state.totals();
        let Usage { input_tokens, output_tokens, .. } = totals.usage;
        let (input, output) = (input_tokens.unwrap_or(0), output_tokens.unwrap_or(0));
        let last = || state.conversation().entries.last();
        Some(match name {
            "status" => Value::from(state.status().name()),
            "node" => Value::from(state.node_name().map(ToString::to_string)),
            "event" => Value::from(self.event.as_ref().map(|(name, _)| *name)),
            "seq" => Value::from(state.last_seq().map(|seq| seq.0)),
            "iterations" => Value::from(totals.n_iterations),
            "model_calls" => Value::from(totals.n_llm_calls),
            "tools_ended" => Value::from(totals.n_tool_calls),
            "tokens" => Value::from(input.saturating_add(output)),
            "input_tokens" => Value::from(input),
            "output_tokens" => Value::from(output),
            "cost_usd" => Value::from(totals.cost_nanousd.unwrap_or(0) as f64 / 1e9),
            "cost_is_partial" => Value::from(totals.n_unpriced > 0),
            "n_messages" => Value::from(state.conversation().in_force().count()),
            "last_message" => Value::from(last().map(|entry| entry.message.whole_text())),
            "last_role" => Value::from(last().map(|entry| format!("{:?}", entry.message.role).to_lowercase())),
            "open_questions" => Value::from(state.interactions().len()),
            "error" => {
                let of_event = self.event.as_ref().and_then(|(_, error)| error.clone());
                Value::from(of_event.or_else(|| state.error().map(|error| error.message)))
            }
            _ => return None,
        })
    }
}
