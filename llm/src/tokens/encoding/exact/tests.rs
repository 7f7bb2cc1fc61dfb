use std::collections::HashMap;
use std::path::Path;

use super::*;

/// The file of an encoding: for each token the first pair of earlier tokens that it consists of.
fn pairs_of(tokens: &[Vec<u8>]) -> Vec<u8> {
    let ranks: HashMap<&[u8], u64> = tokens.iter().map(Vec::as_slice).zip(0..).collect();
    let (single, longer) = tokens.split_at(256);
    let mut pairs = single.concat();
    for (token, rank) in longer.iter().zip(256..) {
        let earlier = |part: &[u8]| ranks.get(part).copied().filter(|part| *part < rank);
        let mut cuts = (1..token.len()).map(|cut| token.split_at(cut));
        let (a, b) = cuts.find_map(|(a, b)| Some((earlier(a)?, earlier(b)?))).unwrap();
        pairs.extend(&(a | b << 20).to_le_bytes()[..5]);
    }
    pairs
}

/// `UPDATE_EXPECT=1` rewrites the files.
#[test]
fn tables_hold_the_tokens_of_tiktoken() {
    for (encoding, whole) in [
        (Encoding::Cl100kBase, tiktoken_rs::cl100k_base_singleton()),
        (Encoding::O200kBase, tiktoken_rs::o200k_base_singleton()),
    ] {
        let known: Vec<_> = (0..).map_while(|rank| whole.decode_bytes(&[rank]).ok()).collect();
        let pairs = pairs_of(&known);
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(format!("{}.pairs", encoding.name()));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&file, &pairs).unwrap();
        }
        assert!(std::fs::read(&file).unwrap() == pairs, "{} differs", file.display());
        assert!(tokens(&pairs) == known);
    }
}
