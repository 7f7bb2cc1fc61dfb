//! The sources of a grounded answer.
//! <https://ai.google.dev/gemini-api/docs/google-search#understanding-response>

use std::ops::Range;

use rethread_events::message::{Annotation, Part, SourceKind};
use serde_json::{Map, Value};

use crate::wire::json;

/// What an answer is grounded on. In a stream it comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Grounding(Map<String, Value>);

impl Grounding {
    pub(super) fn add(&mut self, metadata: &Value) {
        for (key, value) in metadata.as_object().into_iter().flatten() {
            let says = !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
            if says && self.0.get(key) != Some(value) {
                self.0.insert(key.clone(), value.clone());
            }
        }
    }

    pub(super) fn json(self) -> Value {
        Value::Object(self.0)
    }

    fn list(&self, key: &str) -> &[Value] {
        self.0.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn uses_maps(&self) -> bool {
        self.list("groundingChunks").iter().any(|chunk| chunk.get("maps").is_some())
    }

    fn queries(&self) -> Vec<&str> {
        let queries = self.list("webSearchQueries").iter().filter_map(Value::as_str);
        let mut queries: Vec<&str> = queries.filter(|query| !query.is_empty()).collect();
        queries.sort_unstable();
        queries.dedup();
        queries
    }

    /// Whether Google searched: then the searches are billed, and not the tokens that they brought.
    pub(super) fn searched(&self) -> bool {
        !self.queries().is_empty() || self.uses_maps()
    }

    /// The searches that are billed: each query, with older models each answer that searched.
    /// <https://ai.google.dev/gemini-api/docs/pricing>
    pub(super) fn n_searches(&self, model: Option<&str>) -> Option<u64> {
        // Asked after each piece of a stream, nearly all of which have none.
        if self.0.is_empty() {
            return None;
        }
        let n = self.queries().len().max(usize::from(self.uses_maps())) as u64;
        let generation = model.and_then(|model| {
            let name = model.rsplit('/').next()?.strip_prefix("gemini-")?;
            name.split(['.', '-']).next()?.parse::<u32>().ok()
        });
        let is_older = generation.is_some_and(|generation| generation < 3);
        Some(if is_older { n.min(1) } else { n }).filter(|n| *n > 0)
    }

    /// Puts the sources into the texts of the answer that they support; sources of which that is not said belong to the
    /// last text.
    pub(super) fn annotate(&self, content: &mut [Part]) {
        let chunks = self.list("groundingChunks");
        let mut is_placed = vec![false; chunks.len()];
        for support in self.list("groundingSupports") {
            let segment = json::object(support, "segment");
            let Some((place, bytes)) = place(segment, content) else { continue };
            let Some(Part::Text { text, annotations, .. }) = content.get_mut(place) else { continue };
            let n_chars = |end: usize| Some(text[..end].chars().count() as u64);
            let (start, end) = (n_chars(bytes.start), n_chars(bytes.end));
            for index in json::list(support, "groundingChunkIndices") {
                let index = index.as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or(usize::MAX);
                if let Some(source) = chunks.get(index).and_then(source) {
                    annotations.push(Annotation { start, end, ..source });
                    is_placed[index] = true;
                }
            }
        }
        let last = content.iter_mut().rev().find_map(|part| match part {
            Part::Text { annotations, text, .. } if !text.is_empty() => Some(annotations),
            _ => None,
        });
        let rest = chunks.iter().zip(is_placed).filter(|(_, is_placed)| !is_placed);
        if let Some(annotations) = last {
            annotations.extend(rest.filter_map(|(chunk, _)| source(chunk)));
        }
    }
}

/// The text that a segment is of, and its bytes there. The indexes count bytes of a part; which part that is depends on how
/// the answer was cut, so the text of the segment decides where there is one.
fn place(segment: &Value, content: &[Part]) -> Option<(usize, Range<usize>)> {
    let index = |key| usize::try_from(json::count(segment, key).unwrap_or(0)).ok();
    let bytes = index("startIndex")?..index("endIndex")?;
    let texts = || content.iter().enumerate().filter_map(|(place, part)| Some((place, part.as_text()?)));
    let Some(quoted) = json::filled(segment, "text") else {
        let named = index("partIndex")?;
        let found = content.get(named)?.as_text()?.get(bytes.clone())?;
        return (!found.is_empty()).then_some((named, bytes));
    };
    let there = texts().find(|(_, text)| text.get(bytes.clone()) == Some(quoted));
    there.map(|(place, _)| (place, bytes)).or_else(|| {
        texts().find_map(|(place, text)| text.find(quoted).map(|start| (place, start..start + quoted.len())))
    })
}

/// A source in neutral words.
fn source(chunk: &Value) -> Option<Annotation> {
    let of = |name: &str| chunk.get(name).filter(|source| source.is_object());
    let (kind, source) = None
        .or_else(|| Some((SourceKind::Url, of("web").or_else(|| of("image"))?)))
        .or_else(|| Some((SourceKind::Document, of("retrievedContext")?)))
        .or_else(|| Some((SourceKind::Map, of("maps")?)))?;
    let any = |keys: &[&str]| keys.iter().find_map(|key| json::filled(source, key)).map(str::to_owned);
    Some(Annotation {
        url: any(&["uri", "sourceUri"]),
        document: any(&["documentName", "fileSearchStore", "placeId"]),
        title: any(&["title"]),
        quote: any(&["text"]),
        ..Annotation::new(kind)
    })
}
