//! The encodings themselves.

use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

use super::{Encoding, pieces};

pub(super) fn of_model(name: &str) -> Encoding {
    match get_tokenizer(name) {
        Some(
            Tokenizer::Cl100kBase | Tokenizer::P50kBase | Tokenizer::R50kBase | Tokenizer::P50kEdit | Tokenizer::Gpt2,
        ) => Encoding::Cl100kBase,
        _ => Encoding::O200kBase,
    }
}

pub(super) fn count(encoding: Encoding, text: &str) -> u64 {
    let bpe = match encoding {
        Encoding::Cl100kBase => tiktoken_rs::cl100k_base_singleton(),
        Encoding::O200kBase => tiktoken_rs::o200k_base_singleton(),
    };
    pieces(text).map(|piece| bpe.encode_ordinary(piece).len() as u64).sum()
}
