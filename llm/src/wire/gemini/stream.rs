//! A Gemini answer in pieces. There is no last event: what says `finishReason` is the last piece that matters, and
//! figures may follow.

use rethread_events::message::Usage;
use serde_json::Value;

use super::plain;
use super::read::{self, Answer};
use crate::client::Listener;
use crate::error::LlmError;
use crate::response::Response;
use crate::sse::Event;
use crate::wire::{AnswerContext, Assembler, Progress};

/// The pieces so far.
pub(super) struct GeminiStream {
    cx: AnswerContext,
    answer: Answer,
}

impl GeminiStream {
    pub(super) fn new(cx: AnswerContext) -> Self {
        Self { cx, answer: Answer::default() }
    }
}

impl Assembler for GeminiStream {
    fn event(&mut self, event: &Event, listener: &mut dyn Listener) -> Result<Progress, LlmError> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(if self.answer.ended() { Progress::Ending } else { Progress::More });
        }
        if let Ok(piece) = serde_json::from_str::<plain::Piece<'_>>(data) {
            self.answer.plain(piece, listener);
            return Ok(if self.answer.ended() { Progress::Ending } else { Progress::More });
        }
        let value: Value = serde_json::from_str(data).map_err(|e| {
            let begin = crate::error::excerpt(data, 200);
            self.cx.malformed(format!("an event is not JSON ({e}): {begin}"))
        })?;
        read::piece(&mut self.answer, &value, self.cx, listener)?;
        Ok(if self.answer.ended() { Progress::Ending } else { Progress::More })
    }

    fn usage(&self) -> Usage {
        self.answer.usage()
    }

    fn finish(self: Box<Self>) -> Result<Response, LlmError> {
        if self.answer.ended() { Ok(self.answer.response(self.cx)) } else { Err(self.cx.interrupted()) }
    }
}
