//! A Chat Completions answer in pieces.

use rethread_events::message::Usage;
use serde_json::Value;

use super::plain;
use super::read::{self, Answer, Call, Piece};
use crate::client::{Delta, Listener};
use crate::error::LlmError;
use crate::response::Response;
use crate::sse::Event;
use crate::wire::plain::{Text, replace};
use crate::wire::{AnswerContext, Assembler, Progress, fault, json};

/// The pieces so far.
pub(super) struct ChatStream {
    cx: AnswerContext,
    answer: Answer,
    ended: bool,
}

impl ChatStream {
    pub(super) fn new(cx: AnswerContext) -> Self {
        Self { cx, answer: Answer::new(cx), ended: false }
    }

    fn delta(&mut self, delta: &Value, listener: &mut dyn Listener) {
        let wanted = listener.wants_deltas();
        self.answer.content(delta, &mut |piece| pass(piece, listener));
        let since = self.answer.calls.len();
        for piece in json::list(delta, "tool_calls") {
            if self.answer.calls.iter().enumerate().any(|(place, call)| repeats(call, piece, place < since)) {
                continue;
            }
            let place = self.place(piece, since);
            let Some(call) = self.answer.calls.get_mut(place) else { continue };
            let (named, known) = (!call.name.is_empty(), call.arguments.len());
            read::fill_call(call, piece);
            let fragment = call.arguments.get(known..).unwrap_or_default();
            let first = !named && !call.name.is_empty();
            if wanted && (first || !fragment.is_empty()) {
                listener.delta(Delta::ToolCall {
                    index: place,
                    id: (first && !call.id.is_empty()).then(|| call.id.clone()),
                    name: first.then(|| call.name.clone()),
                    arguments_fragment: fragment.to_owned(),
                });
            }
        }
        self.answer.legacy_call(delta);
    }

    /// A chunk that holds nothing but text, which nearly all do, without building a tree for it.
    fn plain(&mut self, chunk: plain::Chunk<'_>, listener: &mut dyn Listener) {
        replace(&mut self.answer.id, &chunk.id);
        replace(&mut self.answer.model, &chunk.model);
        replace(&mut self.answer.service_tier, &chunk.service_tier);
        let [choice] = chunk.choices;
        if let Some(Text(text)) = choice.delta.content.filter(|text| !text.0.is_empty()) {
            self.answer.say(&text, &mut |piece| pass(piece, listener));
        }
    }

    /// Which call a piece belongs to: the one of its index and id, otherwise the one of its id, otherwise the one of its
    /// index, otherwise the last. A piece that names a tool opens a new call when it cannot continue that one: some
    /// servers give every call the index 0, some give no ids or the same to all, and some repeat id and name with every
    /// piece. `since` is the number of calls before the chunk: no chunk holds two pieces with a name for one call.
    fn place(&mut self, piece: &Value, since: usize) -> usize {
        let calls = &mut self.answer.calls;
        let index = json::count(piece, "index");
        let id = json::filled(piece, "id");
        let function = json::object(piece, "function");
        let name = json::filled(function, "name");
        let by_both = || calls.iter().rposition(|call| call.index == index && Some(call.id.as_str()) == id);
        let by_id = || calls.iter().rposition(|call| Some(call.id.as_str()) == id);
        let by_index = || calls.iter().rposition(|call| call.index == index);
        let found = match (id, index) {
            (Some(_), Some(_)) => by_both().or_else(by_id).or_else(by_index),
            (Some(_), None) => by_id(),
            (None, Some(_)) => by_index(),
            (None, None) => calls.len().checked_sub(1),
        };
        let begins_another = |place: usize, call: &Call| {
            let Some(name) = name else { return false };
            let is_other = !call.name.is_empty() && call.name != name;
            let has_other_id = id.is_some_and(|id| !call.id.is_empty() && call.id != id);
            let has_no_mark = id.is_none() && index.is_none();
            let is_in_chunk = place >= since && !call.name.is_empty();
            let is_whole = whole(&call.arguments);
            let is_over = is_whole && has_arguments(function);
            // Some servers count the index up within a call: only then are its arguments unfinished.
            let has_other_index =
                index.is_some_and(|index| call.index != Some(index)) && (is_whole || call.arguments.trim().is_empty());
            is_other || has_other_id || has_no_mark || is_in_chunk || is_over || has_other_index
        };
        match found {
            Some(place) if !begins_another(place, &calls[place]) => place,
            _ => {
                calls.push(Call { index, ..Call::default() });
                calls.len() - 1
            }
        }
    }
}

/// Passes a piece on.
fn pass(piece: Piece<'_>, listener: &mut dyn Listener) {
    if listener.wants_deltas() {
        listener.delta(match piece {
            Piece::Text(text) => Delta::Text(text.to_owned()),
            Piece::Reasoning(text) => Delta::Reasoning(text.to_owned()),
            Piece::Refusal(text) => Delta::Refusal(text.to_owned()),
        });
    }
}

/// Whether a piece repeats a whole call: index, id, name and arguments. Some servers end a stream with all of its calls.
/// Without an id in both, it is the same call if it has the same index and is of an earlier chunk.
fn repeats(call: &Call, piece: &Value, is_earlier: bool) -> bool {
    let index = json::count(piece, "index");
    let function = json::object(piece, "function");
    let is_same_id = match json::filled(piece, "id").filter(|_| !call.id.is_empty()) {
        Some(id) => id == call.id,
        None => index.is_some() && is_earlier,
    };
    index.is_none_or(|index| call.index == Some(index))
        && is_same_id
        && json::filled(function, "name") == Some(call.name.as_str())
        && read::is_same(&call.arguments, function.get("arguments"))
}

/// Whether a piece of a function has arguments.
fn has_arguments(function: &Value) -> bool {
    match function.get("arguments") {
        Some(Value::String(text)) => !text.trim().is_empty(),
        other => other.is_some_and(Value::is_object),
    }
}

/// Whether arguments are complete, so that a piece with a name and more arguments cannot belong to them.
fn whole(arguments: &str) -> bool {
    !arguments.trim().is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}

impl Assembler for ChatStream {
    fn event(&mut self, event: &Event, listener: &mut dyn Listener) -> Result<Progress, LlmError> {
        let data = event.data.trim();
        if data == "[DONE]" {
            // A stream that says it is done without ever having begun holds no answer.
            self.ended |= self.answer.id.is_some() || self.answer.model.is_some();
            self.answer.end_text(&mut |piece| pass(piece, listener));
            return Ok(if self.ended { Progress::Done } else { Progress::More });
        }
        if data.is_empty() {
            return Ok(Progress::More);
        }
        if event.name != "error"
            && let Ok(plain) = serde_json::from_str::<plain::Chunk<'_>>(data)
        {
            self.plain(plain, listener);
            return Ok(if self.ended { Progress::Ending } else { Progress::More });
        }
        let value: Value = serde_json::from_str(data).map_err(|e| {
            self.cx.malformed(format!("an event is not JSON ({e}): {}", crate::error::excerpt(data, 200)))
        })?;
        if fault::is_error(&value) || event.name == "error" {
            return Err(fault::from_value(self.cx.provider, None, &value));
        }
        self.answer.envelope(&value);
        // With `n` > 1 the choices interleave; the first is the answer.
        let choice = json::list(&value, "choices").iter().find(|choice| json::count(choice, "index").unwrap_or(0) == 0);
        if let Some(choice) = choice {
            self.delta(json::object(choice, "delta"), listener);
            self.answer.choice(choice);
            if self.answer.finish.is_some() {
                self.answer.end_text(&mut |piece| pass(piece, listener));
                self.ended = true;
            }
        }
        Ok(if self.ended { Progress::Ending } else { Progress::More })
    }

    fn usage(&self) -> Usage {
        self.answer.usage
    }

    fn has_figures(&self) -> bool {
        self.answer.usage.output_tokens.is_some()
    }

    fn finish(mut self: Box<Self>) -> Result<Response, LlmError> {
        if !self.ended {
            return Err(self.cx.interrupted());
        }
        if self.answer.finish.is_none() {
            // Without its word for the end, a call of which only the name came was cut off.
            self.answer.calls.iter_mut().for_each(|call| call.is_cut = call.arguments.trim().is_empty());
        }
        Ok(self.answer.response(self.cx))
    }
}
