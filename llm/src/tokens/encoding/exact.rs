//! The encodings themselves.

use std::sync::LazyLock;

use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};
use tiktoken_rs::{CoreBPE, O200K_BASE_PAT_STR, Rank};

use super::{Encoding, pieces};

pub(super) fn of_model(name: &str) -> Encoding {
    match get_tokenizer(name) {
        Some(
            Tokenizer::Cl100kBase | Tokenizer::P50kBase | Tokenizer::R50kBase | Tokenizer::P50kEdit | Tokenizer::Gpt2,
        ) => Encoding::Cl100kBase,
        _ => Encoding::O200kBase,
    }
}

fn of(encoding: Encoding) -> &'static LazyLock<CoreBPE> {
    match encoding {
        Encoding::Cl100kBase => &CL100K_BASE,
        Encoding::O200kBase => &O200K_BASE,
    }
}

pub(super) fn is_loaded(encoding: Encoding) -> bool {
    LazyLock::get(of(encoding)).is_some()
}

pub(super) fn count(encoding: Encoding, text: &str) -> u64 {
    let bpe = of(encoding);
    pieces(text).map(|piece| bpe.count_ordinary(piece) as u64).sum()
}

static CL100K_BASE: LazyLock<CoreBPE> = LazyLock::new(|| {
    bpe(
        include_bytes!("../../../data/cl100k_base.pairs"),
        "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\
         \\s*[\\r\\n]|\\s+(?!\\S)|\\s",
    )
});

static O200K_BASE: LazyLock<CoreBPE> =
    LazyLock::new(|| bpe(include_bytes!("../../../data/o200k_base.pairs"), O200K_BASE_PAT_STR));

fn bpe(pairs: &[u8], pattern: &str) -> CoreBPE {
    let ranked = tokens(pairs).into_iter().zip(0 as Rank..).collect();
    // The table and the pattern are compiled in; a test counts with both.
    #[expect(clippy::expect_used)]
    CoreBPE::new(ranked, Default::default(), pattern).expect("the pattern of an encoding is valid")
}

/// The tokens in the order of their ranks, as `tiktoken-rs` has them in 3.5 times the bytes: 256 of one byte each, then
/// each as two earlier ones, with 20 bits for the rank of either.
fn tokens(pairs: &[u8]) -> Vec<Vec<u8>> {
    let (single, pairs) = pairs.split_at(256);
    let mut tokens: Vec<Vec<u8>> = single.iter().map(|byte| vec![*byte]).collect();
    for [a, b, c, d, e] in pairs.as_chunks().0 {
        let pair = u64::from_le_bytes([*a, *b, *c, *d, *e, 0, 0, 0]);
        let part = |rank: u64| tokens[rank as usize].as_slice();
        let token = [part(pair & 0xf_ffff), part(pair >> 20)].concat();
        tokens.push(token);
    }
    tokens
}

#[cfg(test)]
mod tests;
