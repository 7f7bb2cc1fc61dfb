//! The bytes of journal frames and chunks: little-endian fixed numbers and LEB128 variable ones.

/// Bytes that end too early or hold a number that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Appends numbers and bytes to a buffer.
pub(crate) trait Put {
    fn bytes(&mut self, bytes: &[u8]);

    fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    fn var(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8);
    }

    /// A difference that is usually small and may be negative.
    fn delta(&mut self, from: u64, to: u64) {
        let difference = to.wrapping_sub(from) as i64;
        self.var(((difference << 1) ^ (difference >> 63)) as u64);
    }

    fn sized(&mut self, bytes: &[u8]) {
        self.var(bytes.len() as u64);
        self.bytes(bytes);
    }
}

impl Put for Vec<u8> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Takes numbers and bytes from the front of a slice.
#[derive(Debug, Clone)]
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = tail;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N)?.try_into().map_err(|_| Malformed)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn var(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// A variable number that fits the narrower type.
    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.var()?).map_err(|_| Malformed)
    }

    pub(crate) fn delta(&mut self, from: u64) -> Result<u64, Malformed> {
        let folded = self.var()?;
        let difference = (folded >> 1) as i64 ^ -((folded & 1) as i64);
        Ok(from.wrapping_add(difference as u64))
    }

    pub(crate) fn sized(&mut self) -> Result<&'a [u8], Malformed> {
        let n = self.narrow()?;
        self.bytes(n)
    }

    /// All bytes were consumed.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}
