//! Names of tools, ids and signatures of calls in a conversation: in the form that the provider takes. The model may have
//! invented a name, and an answer may be of another provider. The log holds all as they came.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rethread_events::message::{Message, Part, ToolCall};

use crate::models::Known;
use crate::provider::Provider;
use crate::request::Request;

/// Stands for the signature of a call that has none, such as one of another provider.
/// <https://ai.google.dev/gemini-api/docs/thought-signatures>
const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// The digits of the hash in a name that was changed.
const N_DIGITS: usize = 8;

/// The texts that a provider takes as a name or an id: ASCII letters, digits and some signs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    signs: &'static str,
    n_bytes_min: usize,
    n_bytes_max: usize,
    /// Whether it begins with a letter or `_`.
    begins_with_letter: bool,
}

impl Form {
    const PLAIN: Self = Self { signs: "_-", n_bytes_min: 1, n_bytes_max: 64, begins_with_letter: false };
    /// The names of properties that Anthropic takes.
    pub(super) const PROPERTIES: Self = Self { signs: "_-.", ..Self::PLAIN };

    /// The names of tools.
    ///
    /// <https://ai.google.dev/api/caching#FunctionDeclaration>; the others refuse what does not match
    /// `^[a-zA-Z0-9_-]{1,64}$`.
    pub(super) fn of_names(provider: Provider) -> Self {
        match provider {
            Provider::Gemini => Self { signs: "_-.:", begins_with_letter: true, ..Self::PLAIN },
            Provider::GeminiOpenai => Self { begins_with_letter: true, ..Self::PLAIN },
            _ => Self::PLAIN,
        }
    }

    /// The ids of calls; none where all are taken. A server that imitates OpenAI may need its own ids back as they came.
    fn of_ids(known: &Known, provider: Provider, model: &str) -> Option<Self> {
        match provider {
            // `tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`
            Provider::Anthropic => Some(Self { n_bytes_max: usize::MAX, ..Self::PLAIN }),
            // `input[1].call_id: string too long. Expected a string with maximum length 64`
            Provider::Openai | Provider::OpenaiResponses => Some(Self::PLAIN),
            // `Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9`
            Provider::OpenaiChat if is_of_mistral(model) => {
                Some(Self { signs: "", n_bytes_min: 9, n_bytes_max: 9, begins_with_letter: false })
            }
            // `messages[1].tool_calls[0].id: string too long. Expected a string with maximum length 40`
            Provider::OpenaiChat if known.is_of_openai => Some(Self { n_bytes_max: 40, ..Self::PLAIN }),
            _ => None,
        }
    }

    fn allows(&self, sign: char) -> bool {
        sign.is_ascii_alphanumeric() || self.signs.contains(sign)
    }

    pub(super) fn takes(&self, text: &str) -> bool {
        (self.n_bytes_min..=self.n_bytes_max).contains(&text.len())
            && text.chars().all(|sign| self.allows(sign))
            && !(self.begins_with_letter && text.starts_with(|sign: char| !sign.is_ascii_alphabetic() && sign != '_'))
    }

    /// The text as the provider takes it, which depends on the text alone: another one than each of `taken`.
    pub(super) fn adapt(&self, text: &str, is_taken: impl Fn(&str) -> bool) -> String {
        if self.takes(text) {
            return text.to_owned();
        }
        let hash = blake3::hash(text.as_bytes()).to_hex();
        if !self.allows('_') {
            return hash[..self.n_bytes_max].to_owned();
        }
        let head: String = text.chars().map(|sign| if self.allows(sign) { sign } else { '_' }).collect();
        let head = if self.takes(head.get(..1).unwrap_or("_")) { head } else { format!("_{head}") };
        let with_digits = |n: usize| {
            let room = self.n_bytes_max.min(Self::PLAIN.n_bytes_max) - n - 1;
            format!("{}_{}", &head[..head.len().min(room)], &hash[..n])
        };
        let names = (N_DIGITS..self.n_bytes_max.min(40)).map(with_digits);
        names.into_iter().find(|name| !is_taken(name)).unwrap_or_else(|| with_digits(N_DIGITS))
    }
}

/// The families of Mistral's models, wherever they are served.
fn is_of_mistral(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let name = name.strip_prefix("open-").unwrap_or(&name);
    ["mistral", "ministral", "magistral", "codestral", "devstral", "mixtral", "pixtral", "voxtral"]
        .iter()
        .any(|family| name.starts_with(family))
}

/// Whether the model refuses an answer whose first call has no signature: Gemini, from its third generation on.
fn wants_signatures(provider: Provider, model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_older = ["gemini-1", "gemini-2"].iter().any(|old| name.starts_with(old));
    matches!(provider, Provider::Gemini | Provider::GeminiOpenai) && name.starts_with("gemini-") && !is_older
}

fn first_call(message: &mut Message) -> Option<&mut ToolCall> {
    message.content.iter_mut().find_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    })
}

/// Rewrites the names and ids of a conversation that the provider refuses. Calls and results change alike.
pub(super) fn adapt(known: &Known, provider: Provider, request: &mut Request) {
    let names = Form::of_names(provider);
    let ids = Form::of_ids(known, provider, &request.model);
    let is_declared = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    let takes_name = |name: &str| names.takes(name) || is_declared(name);
    let takes_id = |id: &str| ids.is_none_or(|form| form.takes(id));
    let takes = |part: &Part| match part {
        Part::ToolCall(call) => takes_name(&call.name) && takes_id(&call.id),
        Part::ToolResult(result) => takes_id(&result.tool_call_id) && result.name.as_deref().is_none_or(takes_name),
        _ => true,
    };
    let wants_signatures = wants_signatures(provider, &request.model);
    let is_signed = |message: &Message| {
        !wants_signatures || message.tool_calls().next().is_none_or(|call| call.signature.is_some())
    };
    let fits = |message: &Message| message.content.iter().all(takes) && is_signed(message);
    let mut seen = HashSet::new();
    let mut repeats = |message: &Arc<Message>| message.tool_calls().any(|call| !seen.insert(call.id.clone()));
    let is_repeated = ids.is_some() && request.messages.iter().any(&mut repeats);
    if !is_repeated && request.messages.iter().all(|message| fits(message)) {
        return;
    }
    let adapt_name = |name: &str| if is_declared(name) { name.to_owned() } else { names.adapt(name, is_declared) };
    // Ids of answers may be those of earlier answers. A result is of the last call of its id.
    let mut sent: HashMap<String, (String, usize)> = HashMap::new();
    let mut taken: HashSet<String> = HashSet::new();
    let mut new_id = |id: &str, is_call: bool| {
        let Some(form) = ids else { return id.to_owned() };
        if !is_call {
            return sent.get(id).map_or_else(|| form.adapt(id, |_| false), |(last, _)| last.clone());
        }
        let numbered = |n: usize| match n {
            0 => form.adapt(id, |_| false),
            n => form.adapt(&format!("{id}#{n}"), |_| false),
        };
        let mut n = sent.get(id).map_or(0, |(_, n_calls)| *n_calls);
        let mut new = numbered(n);
        while taken.contains(&new) {
            n += 1;
            new = numbered(n);
        }
        taken.insert(new.clone());
        sent.insert(id.to_owned(), (new.clone(), n + 1));
        new
    };
    let adapted = request.messages.iter().map(|message| {
        let has_ids = message.content.iter().any(|part| matches!(part, Part::ToolCall(_) | Part::ToolResult(_)));
        if fits(message) && (ids.is_none() || !has_ids) {
            return Arc::clone(message);
        }
        let mut message = Message::clone(message);
        for part in &mut message.content {
            match part {
                Part::ToolCall(call) => {
                    call.name = adapt_name(&call.name);
                    call.id = new_id(&call.id, true);
                }
                Part::ToolResult(result) => {
                    result.name = result.name.take().map(|name| adapt_name(&name));
                    result.tool_call_id = new_id(&result.tool_call_id, false);
                }
                _ => {}
            }
        }
        if !is_signed(&message)
            && let Some(call) = first_call(&mut message)
        {
            call.signature = Some(NO_SIGNATURE.to_owned());
        }
        Arc::new(message)
    });
    request.messages = adapted.collect();
}
