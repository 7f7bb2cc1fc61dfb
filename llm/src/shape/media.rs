//! Images, documents and recordings that the model or its protocol does not take.

use std::sync::Arc;

use rethread_events::event::RequestChange;
use rethread_events::message::{Media, Message, Part, Role};
use rethread_events::thread::Messages;

use crate::models::{Known, ModelFacts};
use crate::provider::Provider;
use crate::request::Request;
use crate::wire::draft;

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
    let (Part::Image(media) | Part::Document(media) | Part::Audio(media)) = part else { return false };
    lacks(&known.facts, part) || !takes(known, provider, part, media)
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

const PDF: &str = "application/pdf";
/// The images that all providers take.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The media type without parameters; none if it is not known.
fn kind(media: &Media) -> Option<String> {
    let kind = media.media_type.as_deref()?.split(';').next()?.trim().to_ascii_lowercase();
    Some(if kind == "image/jpg" { "image/jpeg".to_owned() } else { kind })
}

/// Whether the protocol has a place for a file of this type. A file of no known type is sent.
fn takes(known: &Known, provider: Provider, part: &Part, media: &Media) -> bool {
    let kind = kind(media);
    let is = |taken: &dyn Fn(&str) -> bool| kind.as_deref().is_none_or(taken);
    match (provider, part) {
        // <https://platform.claude.com/docs/en/build-with-claude/vision>
        (Provider::Anthropic, Part::Image(_)) => is(&|kind| IMAGES.contains(&kind)),
        // Only a PDF is fetched: <https://platform.claude.com/docs/en/build-with-claude/pdf-support>
        (Provider::Anthropic, Part::Document(_)) => {
            let is_inline = media.data.is_some();
            is(&|kind| kind == PDF || is_inline && kind.starts_with("text/"))
        }
        (Provider::Anthropic | Provider::Openai | Provider::OpenaiResponses, Part::Audio(_)) => false,
        // <https://developers.openai.com/api/docs/guides/images-vision>
        (Provider::Openai | Provider::OpenaiResponses | Provider::OpenaiChat, Part::Image(_)) => {
            !known.is_of_openai || is(&|kind| IMAGES.contains(&kind))
        }
        // Text and the files of office programs: <https://developers.openai.com/api/docs/guides/file-inputs>
        (Provider::Openai | Provider::OpenaiResponses, Part::Document(_)) => {
            let is_seen_or_heard = |kind: &str| ["image/", "audio/", "video/"].iter().any(|own| kind.starts_with(own));
            !known.is_of_openai || is(&|kind| !is_seen_or_heard(kind))
        }
        // The same page: PDF alone. Of a document elsewhere, the model gets the address.
        (Provider::OpenaiChat, Part::Document(_)) => {
            !known.is_of_openai || media.data.is_none() || is(&|kind| kind == PDF)
        }
        // A recording is part of the request, never fetched.
        (Provider::OpenaiChat | Provider::GeminiOpenai, Part::Audio(_)) => {
            media.data.is_some() && (!known.is_of_openai || is(&|kind| draft::audio_format(kind).is_some()))
        }
        // <https://ai.google.dev/gemini-api/docs/image-understanding>, and google/adk-python#5694 for GIF and AVIF.
        (Provider::Gemini, Part::Image(_)) => is(&|kind| {
            IMAGES.contains(&kind) || ["image/heic", "image/heif", "image/avif", "image/bmp"].contains(&kind)
        }),
        // `Unsupported MIME type: application/vnd.openxmlformats-officedocument…`
        (Provider::Gemini, Part::Document(_)) => is(&|kind| {
            let is_svg = kind == "image/svg+xml";
            let is_other = kind.strip_prefix("application/").is_some_and(|kind| !["pdf", "json"].contains(&kind));
            !is_svg && !is_other
        }),
        _ => true,
    }
}
