//! What an answer of a model has beside its text: its sources, and the media that the model made.

use std::sync::Arc;

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL_NOPAD};
use rethread::{Message, Part, Role, State};
use rethread_events::message::{Annotation, Media};
use serde_json::Value;

use crate::output;

/// The longest name of a file, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// Returns the message that the run of this state ended with. `None` if no model said the output.
pub(crate) fn of(state: &State, output: Option<&Value>) -> Option<Arc<Message>> {
    let started = state.run_id().0;
    let turn = state.conversation().turn();
    let is_answer = |message: &Message| message.role == Role::Assistant;
    let said = turn.iter().rev().find(|entry| entry.seq >= started && is_answer(&entry.message))?;
    // An output that is no text was read from the text of the answer.
    let is_said = output.and_then(Value::as_str).is_none_or(|text| text == said.message.joined_text());
    is_said.then(|| said.message.clone())
}

/// A source of a text, with its place in the text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Placed<'a> {
    pub(crate) annotation: &'a Annotation,
    /// Where the annotated text begins, in characters.
    pub(crate) start: u64,
    /// Where it ends.
    pub(crate) end: u64,
}

/// Returns the sources of texts. Their places are those in the joined text of the parts, which begins at character `from`.
pub(crate) fn placed(parts: &[Part], from: u64) -> Vec<Placed<'_>> {
    let (mut all, mut at) = (Vec::new(), from);
    for part in parts {
        let Part::Text { text, annotations, .. } = part else { continue };
        let n = text.chars().count() as u64;
        all.extend(annotations.iter().map(|annotation| {
            let (start, end) = (annotation.start.unwrap_or(0).min(n), annotation.end.unwrap_or(n).min(n));
            Placed { annotation, start: at + start, end: at + end.max(start) }
        }));
        at += n;
    }
    all
}

/// Returns the sources of a message in the order in which it names them, each of them once.
pub(crate) fn sources(message: &Message) -> Vec<&Annotation> {
    let mut sources: Vec<&Annotation> = Vec::new();
    for Placed { annotation, .. } in placed(&message.content, 0) {
        let is_same = |known: &&Annotation| match (&known.url, &annotation.url) {
            (Some(known), Some(url)) => known == url,
            (None, None) => known.document == annotation.document && known.title == annotation.title,
            _ => false,
        };
        if !sources.iter().any(is_same) {
            sources.push(annotation);
        }
    }
    sources
}

/// Images, recordings and other files in a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made<'a> {
    /// The index of the part.
    pub(crate) part: usize,
    /// `image`, `audio` or `document`.
    pub(crate) kind: &'static str,
    pub(crate) media: &'a Media,
}

/// Returns the media in a message.
pub(crate) fn media(message: &Message) -> impl Iterator<Item = Made<'_>> {
    message.content.iter().enumerate().filter_map(|(part, content)| {
        let (kind, media) = match content {
            Part::Image(media) => ("image", media),
            Part::Audio(media) => ("audio", media),
            Part::Document(media) => ("document", media),
            Part::Text { .. }
            | Part::Reasoning(_)
            | Part::ToolCall(_)
            | Part::ToolResult(_)
            | Part::Refusal { .. }
            | Part::ProviderTool(_)
            | Part::Opaque { .. } => return None,
        };
        Some(Made { part, kind, media })
    })
}

impl Made<'_> {
    /// The media type: type and subtype, without parameters. `application/octet-stream` where it is not known.
    pub(crate) fn media_type(&self) -> &str {
        let named = self.media.media_type.as_deref().unwrap_or_default();
        let named = named.split(';').next().unwrap_or_default().trim();
        let is_token = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
        };
        match named.split_once('/') {
            Some((main, sub)) if is_token(main) && is_token(sub) => named,
            _ => "application/octet-stream",
        }
    }

    /// The bytes; `None` if only their address is known, or they are not base64.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        let text = self.media.data.as_ref()?.as_bytes();
        let bare = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
        let decoded = BASE64.decode(text).or_else(|_| BASE64_NOPAD.decode(bare));
        decoded.or_else(|_| BASE64URL_NOPAD.decode(bare)).ok()
    }

    /// Its address: a `data:` URL with its bytes, or where the provider has it.
    pub(crate) fn url(&self) -> Option<String> {
        let data = self.media.data.as_ref().map(|data| format!("data:{};base64,{data}", self.media_type()));
        data.or_else(|| self.media.url.clone())
    }

    /// The number of bytes, if they are here.
    pub(crate) fn n_bytes(&self) -> Option<u64> {
        let text = self.media.data.as_ref()?;
        Some(text.trim_end_matches('=').len() as u64 * 3 / 4)
    }

    /// The name of a file for it: its own name without folders and hidden characters, with the extension of its media type.
    /// `stem` is used where it has no name.
    pub(crate) fn file_name(&self, stem: &str) -> String {
        let extension = extensions(self.media_type()).first().unwrap_or(&"bin");
        let named = self.media.name.as_deref().unwrap_or_default();
        let named = named.rsplit(['/', '\\']).next().unwrap_or_default();
        let kept = |c: char| c.is_alphanumeric() || " -_.,()+@".contains(c);
        let named: String = named.chars().map(|c| if kept(c) { c } else { '_' }).collect();
        let named = rethread_events::text::head_bytes(named.trim_matches(['.', ' ']), NAME_BYTES_MAX);
        let named = if named.is_empty() { stem } else { named };
        match named.rsplit_once('.') {
            Some((_, given)) if is_extension(self.media_type(), given) => named.to_owned(),
            _ => format!("{named}.{extension}"),
        }
    }

    /// Its kind, name, type and size in words.
    pub(crate) fn in_words(&self) -> String {
        let name =
            self.media.name.as_deref().map(|name| format!(" {}", output::sanitize(name, 80))).unwrap_or_default();
        let place = match (self.n_bytes(), &self.media.url) {
            (Some(n), _) => size(n),
            (None, Some(url)) => output::sanitize(url, 200),
            (None, None) => "no bytes".to_owned(),
        };
        format!("{}{name}, {}, {place}", self.kind, self.media_type())
    }
}

/// A number of bytes, in words.
fn size(n: u64) -> String {
    match n {
        0..1_000 => output::count(n, "byte", "bytes"),
        1_000..1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        _ => format!("{:.1} MB", n as f64 / 1e6),
    }
}

/// The extensions of files of a media type, the usual one first; none for a type that is not in the table.
fn extensions(media_type: &str) -> &'static [&'static str] {
    let known = EXTENSIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(media_type));
    known.map_or(&[], |(_, extensions)| extensions)
}

/// Whether a name may keep its extension: one of its media type, or any short one if that type has none.
fn is_extension(media_type: &str, given: &str) -> bool {
    match extensions(media_type) {
        [] => (1..=8).contains(&given.len()) && given.bytes().all(|b| b.is_ascii_alphanumeric()),
        all => all.iter().any(|one| one.eq_ignore_ascii_case(given)),
    }
}

/// The extensions of the media types that models make, the usual one first.
const EXTENSIONS: [(&str, &[&str]); 24] = [
    ("image/png", &["png"]),
    ("image/jpeg", &["jpg", "jpeg"]),
    ("image/webp", &["webp"]),
    ("image/gif", &["gif"]),
    ("image/svg+xml", &["svg"]),
    ("audio/mpeg", &["mp3"]),
    ("audio/mp3", &["mp3"]),
    ("audio/wav", &["wav"]),
    ("audio/x-wav", &["wav"]),
    ("audio/ogg", &["ogg", "opus"]),
    ("audio/opus", &["opus"]),
    ("audio/flac", &["flac"]),
    ("audio/aac", &["aac"]),
    ("audio/mp4", &["m4a", "mp4"]),
    ("audio/l16", &["pcm"]),
    ("audio/pcm", &["pcm"]),
    ("video/mp4", &["mp4"]),
    ("application/pdf", &["pdf"]),
    ("application/json", &["json"]),
    ("application/zip", &["zip"]),
    ("text/plain", &["txt", "md", "log"]),
    ("text/csv", &["csv"]),
    ("text/html", &["html", "htm"]),
    ("text/markdown", &["md"]),
];

/// Returns a line for each source of an answer, and for each of its media.
pub(crate) fn lines(message: &Message) -> Vec<String> {
    let source = |(n, source): (usize, &Annotation)| {
        let words = [&source.title, &source.url, &source.document];
        let words: Vec<_> = words.into_iter().flatten().map(|text| output::sanitize(text, 300)).collect();
        let words = if words.is_empty() { "unnamed".to_owned() } else { words.join(" ") };
        format!("source [{}] {words}", n + 1)
    };
    let sources = sources(message).into_iter().enumerate().map(source);
    sources.chain(media(message).map(|made| made.in_words())).collect()
}

/// Prints the sources and the media of an answer to stderr: stdout has its text alone.
pub(crate) fn print(state: &State, output: Option<&Value>) {
    let Some(message) = of(state, output) else { return };
    for line in lines(&message) {
        output::print_message(&output::dim(line));
    }
    if media(&message).any(|made| made.media.data.is_some()) {
        let id = state.thread();
        output::print_message(&output::dim(format!("write the files with: rethread media {id} --out FOLDER")));
    }
}

/// The number of sources and of media of an answer, in words; empty if it has none.
pub(crate) fn counts(message: &Message) -> String {
    let counts = [
        (sources(message).len(), "source", "sources"),
        (media(message).filter(|made| made.kind == "image").count(), "image", "images"),
        (media(message).filter(|made| made.kind == "audio").count(), "recording", "recordings"),
        (media(message).filter(|made| made.kind == "document").count(), "file", "files"),
    ];
    let counts = counts.into_iter().filter(|(n, ..)| *n > 0).map(|(n, one, many)| output::count(n as u64, one, many));
    counts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
