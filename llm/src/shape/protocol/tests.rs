use super::*;
use crate::wire::draft;

#[test]
fn recording_that_is_taken_has_a_word_in_chat_completions() {
    assert!(AUDIO.iter().all(|kind| draft::audio_format(kind).is_some()));
}

#[test]
fn types_are_matched_whole_or_by_what_stands_before_the_slash() {
    let gemini = Protocol::of(Provider::Gemini).documents;
    let takes = |kind| gemini.takes(&Media::inline(None, String::new()), Some(kind), true);
    assert!([PDF, "application/json", "text/csv", "video/mp4"].into_iter().all(takes));
    assert!(!["application/jsonl", "application/zip", "image/svg+xml"].into_iter().any(takes));
}
