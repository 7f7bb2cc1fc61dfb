//! A list that many hold and few change.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bincode::de::{BorrowDecoder, Decoder};
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{BorrowDecode, Decode, Encode};

/// The most items that a copy of a list does not share.
const OWN_MAX: usize = 64;

/// A list whose copies share all items but the last ones, at most 64. So a copy costs the same however long the list is,
/// and so does a change near the end. The first change to a shared item copies all of them. Its stored form is that of a
/// `Vec`.
#[derive(Clone)]
pub struct SharedList<T> {
    shared: Arc<Vec<T>>,
    own: Vec<T>,
}

impl<T> SharedList<T> {
    /// How many items it has.
    pub fn len(&self) -> usize {
        self.shared.len() + self.own.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at a place.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.shared.get(at).or_else(|| self.own.get(at.checked_sub(self.shared.len())?))
    }

    /// The last item.
    pub fn last(&self) -> Option<&T> {
        self.own.last().or_else(|| self.shared.last())
    }

    /// The items, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.shared.iter().chain(&self.own)
    }

    /// The items that copies share, and the last ones, which they do not. While somebody holds a pointer to the shared
    /// items, weak ones included, they do not change.
    pub fn parts(&self) -> (&Arc<Vec<T>>, &[T]) {
        (&self.shared, &self.own)
    }
}

impl<T: Clone> SharedList<T> {
    /// The items at these places; a range that goes beyond the end is cut. Copied only if some of them are shared and others
    /// are not.
    pub fn range(&self, range: Range<usize>) -> Cow<'_, [T]> {
        let n = self.shared.len();
        let end = range.end.min(self.len());
        let start = range.start.min(end);
        if end <= n {
            Cow::Borrowed(&self.shared[start..end])
        } else if start >= n {
            Cow::Borrowed(&self.own[start - n..end - n])
        } else {
            Cow::Owned([&self.shared[start..], &self.own[..end - n]].concat())
        }
    }

    /// Adds an item at the end.
    pub fn push(&mut self, item: T) {
        if self.own.len() >= OWN_MAX {
            self.all_mut();
        }
        self.own.push(item);
    }

    /// The items from a place on, to be changed, and where the place is in them.
    pub fn tail_mut(&mut self, from: usize) -> (&mut Vec<T>, usize) {
        match from.checked_sub(self.shared.len()) {
            Some(from) => (&mut self.own, from),
            None => (self.all_mut(), from),
        }
    }

    /// All items, to be changed.
    pub fn all_mut(&mut self) -> &mut Vec<T> {
        if Arc::get_mut(&mut self.shared).is_none() {
            let mut copy = Vec::with_capacity(self.len() + OWN_MAX);
            copy.extend_from_slice(&self.shared);
            self.shared = Arc::new(copy);
        }
        let all = Arc::make_mut(&mut self.shared);
        all.append(&mut self.own);
        all
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<T> From<Vec<T>> for SharedList<T> {
    fn from(items: Vec<T>) -> Self {
        Self { shared: Arc::new(items), own: Vec::new() }
    }
}

impl<T: PartialEq> PartialEq for SharedList<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for SharedList<T> {}

impl<T: fmt::Debug> fmt::Debug for SharedList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Encode> Encode for SharedList<T> {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        (self.len() as u64).encode(encoder)?;
        self.iter().try_for_each(|item| item.encode(encoder))
    }
}

impl<C, T: Decode<C>> Decode<C> for SharedList<T> {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Vec::decode(decoder).map(Self::from)
    }
}

impl<'de, C, T: BorrowDecode<'de, C>> BorrowDecode<'de, C> for SharedList<T> {
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Vec::borrow_decode(decoder).map(Self::from)
    }
}

#[cfg(test)]
mod tests;
