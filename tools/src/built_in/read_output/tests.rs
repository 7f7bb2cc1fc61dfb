use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::built_in::fixture::Fixture;

/// Outputs in memory, as a caller of the registry would keep them.
#[derive(Default)]
pub(crate) struct Kept(Mutex<HashMap<Hash, Vec<u8>>>);

impl Kept {
    pub(crate) fn keep(&self, text: &str) -> Hash {
        let id = Hash::of(text.as_bytes());
        self.0.lock().insert(id, text.into());
        id
    }
}

impl OutputStore for Kept {
    fn read(&self, id: Hash, offset: u64, limit: usize) -> Result<OutputPart, ExecutionError> {
        let kept = self.0.lock();
        let whole = kept.get(&id).ok_or_else(|| ExecutionError::new(ErrorKind::NotFound, "there is no such output"))?;
        let begin = whole.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let end = whole.len().min(begin.saturating_add(limit));
        Ok(OutputPart { bytes: whole[begin..end].to_vec(), n_bytes: whole.len() as u64 })
    }
}

fn fixture() -> Fixture {
    let loud = Tool::from_fn("loud", "", |(): (), _| async { Ok("é\n".repeat(20_000)) });
    Fixture::new([read_output(), loud])
}

#[tokio::test]
async fn long_output_is_read_in_parts_to_its_end() {
    let f = fixture();
    let kept = Arc::new(Kept::default());
    let cut = f.registry.call("loud", json!({}), f.cx().outputs(kept.clone())).await.unwrap();
    let full = cut.full.unwrap();
    let id = kept.keep(&full);
    assert!(cut.text.contains(&format!("read_output with id {id} and offset ")), "{}", cut.text);
    assert!(cut.text.len() < 33 * 1024);

    let (mut offset, mut whole) = (0, String::new());
    loop {
        let arguments = json!({ "id": id, "offset": offset, "limit": 10_001 });
        let text = f.registry.call("read_output", arguments, f.cx().outputs(kept.clone())).await.unwrap().text;
        let (content, note) = text.trim_end().rsplit_once('\n').unwrap();
        whole.push_str(content);
        match note.split_once("offset ") {
            Some((_, next)) => offset = next.trim_end_matches(']').parse().unwrap(),
            None => break,
        }
    }
    // Where a piece ends within a line its line end is the note's, so the ends of lines are not compared.
    assert_eq!(whole.replace('\n', ""), full.replace('\n', ""));
}

#[tokio::test]
async fn missing_output_is_an_error() {
    let f = fixture();
    let kept = Arc::new(Kept::default());
    let id = kept.keep("abc");
    let cases = [
        (json!({ "id": "x".repeat(64) }), "invalid_arguments: an id has 64 hexadecimal digits"),
        (json!({ "id": Hash::ZERO }), "not_found: there is no such output"),
        (json!({ "id": id, "offset": 3 }), "invalid_arguments: the output has 3 bytes; offset 3 is after its end"),
    ];
    for (arguments, expected) in cases {
        let error = f.registry.call("read_output", arguments, f.cx().outputs(kept.clone())).await.unwrap_err();
        assert_eq!(format!("{}: {}", error.kind, error.message), expected);
    }
    let text = f.call("read_output", json!({ "id": id })).await;
    assert_eq!(text, "not_found: outputs are not stored here; request less at a time");
}
