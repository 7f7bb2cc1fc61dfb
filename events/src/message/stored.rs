//! The stored form of a tool result, by hand: its parts are not tool results in turn. A type that holds itself would
//! let damaged bytes nest until the stack is used up.

use bincode::de::read::Reader;
use bincode::de::{BorrowDecoder, Decoder};
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{BorrowDecode, Decode, Encode};

use super::{Part, ToolResult};

/// The number of `Part::ToolResult` in the stored form: its place among the variants.
const TOOL_RESULT: [u8; 4] = 5_u32.to_le_bytes();

const NESTED: &str = "a tool result inside a tool result";

impl Encode for ToolResult {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        if self.content.iter().any(|part| matches!(part, Part::ToolResult(_))) {
            return Err(EncodeError::Other(NESTED));
        }
        self.tool_call_id.encode(encoder)?;
        self.name.encode(encoder)?;
        self.content.encode(encoder)?;
        self.is_error.encode(encoder)
    }
}

impl<C> Decode<C> for ToolResult {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let tool_call_id = String::decode(decoder)?;
        let name = Option::decode(decoder)?;
        let n = u64::decode(decoder)?;
        let mut content = Vec::new();
        for _ in 0..n {
            if decoder.reader().peek_read(TOOL_RESULT.len()) == Some(&TOOL_RESULT) {
                return Err(DecodeError::Other(NESTED));
            }
            content.push(Part::decode(decoder)?);
        }
        Ok(Self { tool_call_id, name, content, is_error: bool::decode(decoder)? })
    }
}

impl<'de, C> BorrowDecode<'de, C> for ToolResult {
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Self::decode(decoder)
    }
}
