//! Parses the bytes of an answer, in pieces of any size. No IO: the caller pushes bytes.

use rethread_events::json_text;
use rethread_events::message::Usage;
use serde_json::Value;

use super::HttpLimits;
use crate::client::Listener;
use crate::error::{ErrorKind, LlmError};
use crate::response::Response;
use crate::sse::{Decoder, Event};
use crate::wire::{AnswerContext, Assembler, Progress, Wire, draft, fault};

mod pairs;

use pairs::Pairs;

/// An answer that is being read. The result does not depend on how the bytes were split.
pub(crate) struct Reading<'a> {
    wire: &'a dyn Wire,
    cx: AnswerContext,
    answer_bytes_max: usize,
    decoder: Decoder,
    pairs: Pairs,
    /// Whether an event came.
    has_event: bool,
    /// A whole answer, which some servers send as the only event.
    whole: Option<Value>,
    assembler: Box<dyn Assembler>,
    progress: Progress,
    /// A body that is no stream of events (an answer in one piece, an error, a page) is collected and read whole.
    collected: Option<Vec<u8>>,
    /// Whether anything but blanks came, so that it is known which of the two it is.
    begun: bool,
    n_bytes: usize,
    /// The usage that was reported to the listener.
    usage: Usage,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(wire: &'a dyn Wire, cx: AnswerContext, limits: &HttpLimits) -> Self {
        Self {
            wire,
            cx,
            answer_bytes_max: limits.answer_bytes_max,
            decoder: Decoder::new(limits.event_bytes_max),
            pairs: Pairs::default(),
            has_event: false,
            whole: None,
            assembler: wire.assembler(cx),
            progress: Progress::More,
            collected: None,
            begun: false,
            n_bytes: 0,
            usage: Usage::default(),
        }
    }

    /// How far the stream has come.
    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    /// Takes the next bytes of a stream.
    pub(crate) fn push(&mut self, bytes: &[u8], listener: &mut dyn Listener) -> Result<(), LlmError> {
        // What is within the limit counts, also when more came with it.
        let room = self.answer_bytes_max - self.n_bytes;
        let taken = &bytes[..bytes.len().min(room)];
        self.n_bytes += taken.len();
        let taken_in = self.take(taken, listener);
        report_usage(&*self.assembler, &mut self.usage, listener);
        taken_in?;
        if taken.len() < bytes.len() && self.progress != Progress::Done {
            return check_size(self.cx.provider, usize::MAX, self.answer_bytes_max);
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], listener: &mut dyn Listener) -> Result<(), LlmError> {
        let mut bytes = bytes;
        if !self.begun
            && let Some(first) = bytes.iter().position(|b| !b.is_ascii_whitespace())
        {
            self.begun = true;
            if matches!(bytes[first], b'{' | b'[' | b'<') {
                self.collected = Some(Vec::new());
                bytes = &bytes[first..];
            }
        }
        match &mut self.collected {
            Some(collected) => {
                collected.extend_from_slice(bytes);
                Ok(())
            }
            None => self.events(bytes, listener),
        }
    }

    fn events(&mut self, bytes: &[u8], listener: &mut dyn Listener) -> Result<(), LlmError> {
        let Self { assembler, progress, decoder, pairs, has_event, whole, .. } = self;
        let mut failed = None;
        let mut take = |event: &Event| {
            if !std::mem::replace(has_event, true)
                && let Some(answer) = whole_answer(event)
            {
                *whole = Some(answer);
                *progress = Progress::Ending;
                return true;
            }
            match assembler.event(&pairs.mend(event), listener) {
                // The end of an answer stays its end, even if more follows.
                Ok(Progress::More) if *progress == Progress::Ending => {}
                Ok(now) => *progress = now,
                Err(error) => failed = Some(error),
            }
            failed.is_none() && *progress != Progress::Done
        };
        let pushed = decoder.push(bytes, &mut take);
        if let Some(error) = failed {
            return Err(error);
        }
        pushed.map_err(|e| LlmError::new(ErrorKind::TooLarge, self.cx.provider, e.to_string()))
    }

    /// The connection broke or timed out: returns the error, or `None` if the answer is complete all the same. A
    /// server that only leaves the connection open after the answer has no figures to send; one that breaks may have
    /// had some.
    pub(crate) fn broken(&self, mut error: LlmError) -> Option<LlmError> {
        if self.progress != Progress::More && (error.kind == ErrorKind::Timeout || self.assembler.has_figures()) {
            return None;
        }
        if error.kind == ErrorKind::Connection && self.n_bytes > 0 {
            error.kind = ErrorKind::StreamInterrupted;
        }
        Some(error)
    }

    /// The stream ended.
    pub(crate) fn finish(mut self, listener: &mut dyn Listener) -> Result<Response, LlmError> {
        if let Some(body) = self.collected.take() {
            return self.unstreamed(&body, listener);
        }
        if !self.begun {
            return Err(self.cx.malformed("the answer is empty"));
        }
        if let Some(event) = self.decoder.finish().filter(|_| self.progress != Progress::Done) {
            if !std::mem::replace(&mut self.has_event, true) {
                self.whole = whole_answer(&event);
            }
            if self.whole.is_none() {
                let taken = self.assembler.event(&self.pairs.mend(&event), listener);
                report_usage(&*self.assembler, &mut self.usage, listener);
                match taken {
                    Ok(progress) if progress != Progress::More => self.progress = progress,
                    // An event that was cut off is not a malformed one.
                    Ok(_) => {}
                    Err(error) if error.kind == ErrorKind::MalformedResponse => {}
                    Err(error) => return Err(error),
                }
            }
        }
        if let Some(answer) = self.whole {
            let response = self.wire.answer(&answer, self.cx)?;
            if listener.wants_deltas() {
                draft::emit(&response, listener);
            }
            return Ok(response);
        }
        if self.progress == Progress::More {
            return Err(self.cx.interrupted());
        }
        for event in self.pairs.finish() {
            self.assembler.event(&event, listener)?;
        }
        self.assembler.finish()
    }

    /// Reads a body that was requested in one piece. Some servers stream anyway.
    pub(crate) fn whole(mut self, body: &[u8], listener: &mut dyn Listener) -> Result<Response, LlmError> {
        match json_text::read::<Value>(body) {
            Ok(value) if fault::is_error(&value) => Err(fault::from_value(self.cx.provider, None, &value)),
            Ok(value) => self.wire.answer(&value, self.cx),
            Err(_) if is_event_stream(body) => {
                self.push(body, listener)?;
                self.finish(listener)
            }
            Err(e) => Err(self.cx.malformed(not_json(body, &e.to_string()))),
        }
    }

    /// Reads the body of an answer that was requested in pieces and came in one: as JSON, or as a JSON list of the
    /// would-be events.
    fn unstreamed(mut self, body: &[u8], listener: &mut dyn Listener) -> Result<Response, LlmError> {
        let marked = std::str::from_utf8(body).ok().and_then(pairs::marked);
        match json_text::read::<Value>(marked.as_deref().map_or(body, str::as_bytes)) {
            Ok(Value::Array(list)) if list.len() == 1 && is_whole(&list[0]) => {
                self.emitted(list[0].to_string().as_bytes(), listener)
            }
            Ok(Value::Array(list)) if !list.first().is_some_and(fault::is_error) => {
                let taken = list.into_iter().try_for_each(|mut value| {
                    if marked.is_some() {
                        self.pairs.mend_marked(&mut value, "");
                    }
                    let event = Event { name: String::new(), data: value.to_string() };
                    self.assembler.event(&event, listener).map(drop)
                });
                report_usage(&*self.assembler, &mut self.usage, listener);
                taken?;
                for event in self.pairs.finish() {
                    self.assembler.event(&event, listener)?;
                }
                self.assembler.finish()
            }
            _ => self.emitted(body, listener),
        }
    }

    /// Reads a whole answer, which the listener gets in one piece.
    fn emitted(self, body: &[u8], listener: &mut dyn Listener) -> Result<Response, LlmError> {
        let response = self.whole(body, listener)?;
        if listener.wants_deltas() {
            draft::emit(&response, listener);
        }
        Ok(response)
    }
}

/// Reports the usage that the provider has reported, if it differs from the one that the listener knows.
fn report_usage(assembler: &dyn Assembler, known: &mut Usage, listener: &mut dyn Listener) {
    let usage = assembler.usage();
    if usage != *known {
        *known = usage;
        listener.used(&usage);
    }
}

/// Refuses more bytes than the limit.
pub(super) fn check_size(provider: &str, bytes: usize, bytes_max: usize) -> Result<(), LlmError> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let why = format!("the answer is larger than {bytes_max} bytes");
    Err(LlmError::new(ErrorKind::TooLarge, provider, why))
}

/// The whole answer that an event is, in the protocols whose pieces have another form. Some servers of Chat Completions
/// give it the name of a piece, or none.
fn whole_answer(event: &Event) -> Option<Value> {
    json_text::read(event.data.as_bytes()).ok().filter(is_whole)
}

fn is_whole(answer: &Value) -> bool {
    let is = |key: &str, word: &str| answer.get(key).is_some_and(|own| own == word);
    let choice = answer.get("choices").and_then(|choices| choices.get(0));
    let has_message = choice.is_some_and(|choice| {
        choice.get("message").is_some_and(Value::is_object) && choice.get("delta").is_none_or(Value::is_null)
    });
    has_message || is("object", "chat.completion") || is("object", "response") || is("type", "message")
}

fn is_event_stream(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
    [b"data:".as_slice(), b"event:", b": "].iter().any(|start| body.starts_with(start))
}

/// Says of an answer that is not JSON how it begins.
pub(super) fn not_json(body: &[u8], why: &str) -> String {
    if body.trim_ascii().is_empty() {
        return "the answer is empty".into();
    }
    let begin = String::from_utf8_lossy(&body[..body.len().min(300)]);
    format!("the answer is not JSON ({why}); it begins: {begin}")
}

#[cfg(test)]
mod tests;
