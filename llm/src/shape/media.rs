//! Images, documents and recordings that the model or its protocol does not take.

use std::sync::Arc;

use rethread_events::event::RequestChange;
use rethread_events::message::{Media, Message, Part, Role};
use rethread_events::thread::Messages;

use super::protocol::{PDF, Protocol};
use crate::models::{Known, ModelFacts};
use crate::provider::Provider;
use crate::request::Request;

#[cfg(test)]
mod tests;

/// Puts a note in the place of files that the model does not take: another model may have taken them earlier in the
/// conversation.
pub(super) fn adapt(known: &Known, provider: Provider, request: &mut Request, changes: &mut Vec<RequestChange>) {
    let refuses = |part: &Part| refuses(known, provider, part);
    let holds = |part: &Part| match part {
        Part::ToolResult(result) => result.content.iter().any(refuses),
        part => refuses(part),
    };
    let holds_any = |message: &Message| message.role != Role::Assistant && message.content.iter().any(holds);
    if !request.messages.iter().any(|message| holds_any(message)) {
        return;
    }
    let mut n = 0;
    let mut leave_out = |part: &mut Part| {
        n += 1;
        *part = Part::text(note(part));
    };
    let without = request.messages.iter().map(|message| {
        if !holds_any(message) {
            return Arc::clone(message);
        }
        let mut message = Message::clone(message);
        for part in &mut message.content {
            match part {
                Part::ToolResult(result) => {
                    result.content.iter_mut().filter(|part| refuses(part)).for_each(&mut leave_out);
                }
                part if refuses(part) => leave_out(part),
                _ => {}
            }
        }
        Arc::new(message)
    });
    let messages: Messages = without.collect();
    request.messages = messages;
    let why = format!("`{}` does not take images, documents or sound of this kind", request.model);
    changes.push(RequestChange { n: Some(n), ..RequestChange::new("media", why) });
}

/// The text in the place of a file.
fn note(part: &Part) -> String {
    let (kind, media) = match part {
        Part::Image(media) => ("image", media),
        Part::Audio(media) => ("recording", media),
        Part::Document(media) => ("document", media),
        _ => return String::new(),
    };
    let name = media.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
    let media_type = media.media_type.as_ref().map(|media_type| format!(" ({media_type})")).unwrap_or_default();
    format!("[{kind}{name}{media_type} left out: this model does not take it]")
}

fn refuses(known: &Known, provider: Provider, part: &Part) -> bool {
    let protocol = Protocol::of(provider);
    let (files, media) = match part {
        Part::Image(media) => (protocol.images, media),
        Part::Document(media) => (protocol.documents, media),
        Part::Audio(media) => (protocol.audio, media),
        _ => return false,
    };
    lacks(&known.facts, part) || !files.takes(media, kind(media).as_deref(), protocol.is_known_at(known))
}

/// Whether the model has no sense for it.
fn lacks(facts: &ModelFacts, part: &Part) -> bool {
    match part {
        Part::Image(_) => facts.images == Some(false),
        Part::Document(media) => facts.pdfs == Some(false) && kind(media).is_none_or(|kind| kind == PDF),
        Part::Audio(_) => facts.audio == Some(false),
        _ => false,
    }
}

/// The media type without parameters; none if it is not known.
fn kind(media: &Media) -> Option<String> {
    let kind = media.media_type.as_deref()?.split(';').next()?.trim().to_ascii_lowercase();
    Some(if kind == "image/jpg" { "image/jpeg".to_owned() } else { kind })
}
