//! Answers that the provider refused to go on with. It refuses every later request that holds such an answer and what it
//! answered: "you must reset the conversation context before continuing. You can remove or rephrase the turn that triggered
//! the refusal".
//! <https://platform.claude.com/docs/en/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals>

use rethread_events::event::RequestChange;
use rethread_events::message::{Message, Part, Role};
use serde_json::json;

use super::NAME;
use crate::request::Request;

#[cfg(test)]
mod tests;

/// The type of the opaque part that marks a refused answer.
const MARK: &str = "refused_answer";

/// The part that marks a refused answer. It never goes to the provider.
pub(super) fn mark() -> Part {
    Part::Opaque { provider: NAME.into(), data: json!({ "type": MARK }).into() }
}

fn is_refused(message: &Message) -> bool {
    let is_mark = |part: &Part| match part {
        Part::Opaque { provider, data } => provider == NAME && data.0.get("type").is_some_and(|kind| kind == MARK),
        _ => false,
    };
    message.role == Role::Assistant && message.content.iter().any(is_mark)
}

/// The messages of a request that are left out because of refusals.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Whether each message is; empty if none is.
    is: Vec<bool>,
    n_answers: u64,
}

impl LeftOut {
    pub(super) fn of(request: &Request) -> Self {
        let messages: Vec<&Message> = request.messages.iter().map(|message| &**message).collect();
        if !messages.iter().any(|message| is_refused(message)) {
            return Self::default();
        }
        let mut left_out = Self { is: vec![false; messages.len()], n_answers: 0 };
        let last_user = messages.iter().rposition(|message| message.role == Role::User);
        for (i, _) in messages.iter().enumerate().filter(|(_, message)| is_refused(message)) {
            left_out.n_answers += 1;
            // The results of its calls go with it.
            let n_results = messages[i + 1..].iter().take_while(|message| message.role == Role::Tool).count();
            let from = if last_user > Some(i) { turn_before(&messages, i) } else { i };
            // Instructions stay.
            let turn = (from..=i + n_results).filter(|place| messages[*place].role != Role::System);
            turn.for_each(|place| left_out.is[place] = true);
        }
        left_out
    }

    pub(super) fn holds(&self, place: usize) -> bool {
        self.is.get(place).copied().unwrap_or_default()
    }

    pub(super) fn change(&self) -> Option<RequestChange> {
        let why = "the provider refused them, and refuses every request that holds them and what they answer";
        (self.n_answers > 0).then(|| RequestChange { n: Some(self.n_answers), ..RequestChange::new("refusals", why) })
    }
}

/// The place where the turn begins that an answer is for. Results of tools are one turn with the answer that asked for
/// them: neither can be without the other.
fn turn_before(messages: &[&Message], answer: usize) -> usize {
    let n_before =
        |to: usize, is: fn(&Message) -> bool| messages[..to].iter().rev().take_while(|message| is(message)).count();
    let from = answer - n_before(answer, |message| message.role != Role::Assistant);
    let has_results = messages[from..answer].iter().any(|message| message.role == Role::Tool);
    if has_results { from - n_before(from, |message| message.role == Role::Assistant).min(1) } else { from }
}
