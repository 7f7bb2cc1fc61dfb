//! Namespaces, limits, and what a call of `remember` stores.

use serde::{Deserialize, Serialize};

use super::embedding::Embedding;
use super::id::MemoryId;
use crate::ids::{Hash, ThreadId, Time};
use crate::labels::{LABELS_MAX, LabelError, Labels};

/// The most bytes of the text of one memory.
pub const MEMORY_BYTES_MAX: usize = 8 * 1024;
/// The most memories of one namespace, unless the configuration says less.
pub const MEMORIES_MAX: u64 = 10_000;
/// The most bytes of the name of a memory.
pub const MEMORY_NAME_BYTES_MAX: usize = 200;
/// The most tags of a memory.
pub const MEMORY_TAGS_MAX: usize = 16;
/// The most bytes of a tag.
pub const MEMORY_TAG_BYTES_MAX: usize = 64;

/// How many of the calls that stored a memory it knows, so that none of them is repeated after a crash.
const CALLS_MAX: usize = 8;

/// How threads of a runtime remember.
///
/// ```
/// use rethread_events::memory::{MemoryOptions, Namespace};
///
/// let options = MemoryOptions::by_labels(["tenant", "user"]);
/// let namespace = Namespace::of_thread(&options, &"tenant=acme,user=42,plan=free".parse()?)?;
/// assert_eq!(namespace.labels(), &"tenant=acme,user=42".parse()?);
/// assert!(Namespace::of_thread(&options, &"tenant=acme".parse()?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryOptions {
    /// The keys of the labels whose values make the namespace of a thread. A thread that lacks one of them has no
    /// memory. Empty: all threads share one namespace.
    pub namespace: Vec<String>,
    /// The most memories of a namespace, up to [`MEMORIES_MAX`].
    #[serde(default = "memories_max")]
    pub memories_max: u64,
    /// The most bytes of the text of one memory, up to [`MEMORY_BYTES_MAX`].
    #[serde(default = "text_bytes_max")]
    pub text_bytes_max: usize,
    /// The profile whose model makes the vectors of memories, by which they are found by their meaning as well; by words
    /// alone if absent.
    #[serde(default)]
    pub embeddings: Option<String>,
}

fn memories_max() -> u64 {
    MEMORIES_MAX
}

fn text_bytes_max() -> usize {
    MEMORY_BYTES_MAX
}

impl MemoryOptions {
    /// A namespace for each combination of values of these labels; one for all threads if there are none.
    pub fn by_labels<K: Into<String>>(keys: impl IntoIterator<Item = K>) -> Self {
        let namespace = keys.into_iter().map(Into::into).collect();
        Self { namespace, memories_max: MEMORIES_MAX, text_bytes_max: MEMORY_BYTES_MAX, embeddings: None }
    }

    /// Finds memories by their meaning as well, with the vectors that the model of this profile makes.
    #[must_use]
    pub fn embeddings(mut self, profile: impl Into<String>) -> Self {
        self.embeddings = Some(profile.into());
        self
    }

    /// Checks the keys and the limits.
    ///
    /// # Errors
    /// The key of the configuration that is wrong, and why.
    pub fn check(&self) -> Result<(), String> {
        let keys = self.namespace.iter().try_fold(Labels::new(), |labels, key| labels.with(key, "value"));
        match keys {
            Ok(_) => {}
            Err(LabelError::Twice(key)) => return Err(format!("namespace: label `{key}` is named twice")),
            Err(LabelError::TooMany) => return Err(format!("namespace: {LABELS_MAX} labels are possible")),
            Err(error @ (LabelError::NoValue(_) | LabelError::Key(_) | LabelError::Value(_))) => {
                return Err(format!("namespace: {error}"));
            }
        }
        if !(1..=MEMORIES_MAX).contains(&self.memories_max) {
            return Err(format!("memories_max: between 1 and {MEMORIES_MAX} are possible"));
        }
        if !(1..=MEMORY_BYTES_MAX).contains(&self.text_bytes_max) {
            return Err(format!("text_bytes_max: between 1 and {MEMORY_BYTES_MAX} are possible"));
        }
        Ok(())
    }
}

/// The threads that share memories: those with exactly these values of the configured labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namespace(Labels);

impl Namespace {
    /// The namespace of a thread with these labels.
    ///
    /// # Errors
    /// [`MemoryError::NoLabel`] if the thread lacks a label of the configuration.
    pub fn of_thread(options: &MemoryOptions, labels: &Labels) -> Result<Self, MemoryError> {
        let mut own = Labels::new();
        for key in &options.namespace {
            let value = labels.get(key).ok_or_else(|| MemoryError::NoLabel { key: key.clone() })?;
            own = own.with(key, value).map_err(|error| MemoryError::Options(error.to_string()))?;
        }
        Ok(Self(own))
    }

    /// The namespace of these labels.
    pub const fn of_labels(labels: Labels) -> Self {
        Self(labels)
    }

    /// The labels that make the namespace.
    pub const fn labels(&self) -> &Labels {
        &self.0
    }

    /// The hash of the labels, by which the log stores the namespace.
    pub fn hash(&self) -> Hash {
        Hash::of(format!("rethread namespace {}", self.0).as_bytes())
    }
}

/// A memory that was refused. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum MemoryError {
    /// The thread lacks a label of the namespace.
    #[error(
        "this thread has no memory: it lacks the label `{key}`, which is part of the namespace; start it with `{key}=…`"
    )]
    NoLabel {
        /// The key of the label.
        key: String,
    },
    /// The configuration of the memory is invalid.
    #[error("the configuration of the memory is invalid: {0}")]
    Options(String),
    /// The text is empty or too long.
    #[error("a memory has 1 to {bytes_max} bytes, this one has {bytes}: store less, or several memories")]
    Text {
        /// The bytes of the text.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The name is empty or too long.
    #[error("the name of a memory has 1 to {MEMORY_NAME_BYTES_MAX} bytes, this one has {bytes}")]
    Name {
        /// The bytes of the name.
        bytes: usize,
    },
    /// There are too many tags, or one is empty or too long.
    #[error("a memory has at most {MEMORY_TAGS_MAX} tags of 1 to {MEMORY_TAG_BYTES_MAX} bytes each")]
    Tags,
    /// The namespace is full.
    #[error("there are {n} memories, as many as there can be: forget some, or replace one by its name")]
    Full {
        /// How many.
        n: u64,
    },
}

/// What is to be remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewMemory {
    /// The text.
    pub text: String,
    /// A name, unique in the namespace: a memory replaces the one with its name.
    pub name: Option<String>,
    /// Words to find the memory by.
    pub tags: Vec<String>,
}

/// A stored memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The id, unique in the namespace.
    pub id: MemoryId,
    /// The text.
    pub text: String,
    /// The name, if the memory has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// When it was stored.
    pub at: Time,
    /// The thread that stored it.
    pub thread: ThreadId,
    /// The hashes of the keys of the last calls that stored it, the latest first.
    calls: Vec<Hash>,
    /// The vector of what it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) embedding: Option<Embedding>,
}

impl Memory {
    /// With the vector of [`NewMemory::meaning`].
    #[must_use]
    pub fn with_embedding(self, embedding: Option<Embedding>) -> Self {
        Self { embedding, ..self }
    }

    /// Returns whether the call with this key stored it, and no later call than the last eight replaced it since.
    fn is_of(&self, call: Hash) -> bool {
        self.calls.contains(&call)
    }
}

impl NewMemory {
    /// The id of the memory that the call with this key stores.
    pub fn id(&self, call: &str) -> MemoryId {
        self.name.as_deref().map_or_else(|| MemoryId::of_call(call), MemoryId::of_name)
    }

    /// Checks the text, the name and the tags.
    ///
    /// # Errors
    /// `Text`, `Name`, `Tags`.
    pub fn check(&self, options: &MemoryOptions) -> Result<(), MemoryError> {
        let (bytes, bytes_max) = (self.text.len(), options.text_bytes_max);
        if self.text.trim().is_empty() || bytes > bytes_max {
            return Err(MemoryError::Text { bytes, bytes_max });
        }
        if let Some(bytes) = self.name.as_ref().map(String::len).filter(|n| !(1..=MEMORY_NAME_BYTES_MAX).contains(n)) {
            return Err(MemoryError::Name { bytes });
        }
        let is_tag = |tag: &String| (1..=MEMORY_TAG_BYTES_MAX).contains(&tag.len());
        if self.tags.len() > MEMORY_TAGS_MAX || !self.tags.iter().all(is_tag) {
            return Err(MemoryError::Tags);
        }
        Ok(())
    }

    /// What its vector is made of: the name, the tags and the text.
    pub fn meaning(&self) -> String {
        let parts = self.name.iter().chain(&self.tags).chain([&self.text]);
        parts.map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Returns the memory that the call with this key stores, or `None` if it is stored already. `known` is the memory
    /// that has its id, and `n` the number of memories of the namespace.
    ///
    /// # Errors
    /// As [`NewMemory::check`], and `Full`.
    pub fn stored(
        self,
        options: &MemoryOptions,
        call: &str,
        known: Option<Memory>,
        n: u64,
        thread: ThreadId,
        at: Time,
    ) -> Result<Option<Memory>, MemoryError> {
        self.check(options)?;
        let (id, call) = (self.id(call), Hash::of(call.as_bytes()));
        if known.as_ref().is_some_and(|known| known.is_of(call)) {
            return Ok(None);
        }
        if known.is_none() && n >= options.memories_max {
            return Err(MemoryError::Full { n });
        }
        let earlier = known.into_iter().flat_map(|known| known.calls);
        let calls = std::iter::once(call).chain(earlier).take(CALLS_MAX).collect();
        let Self { text, name, tags } = self;
        Ok(Some(Memory { id, text, name, tags, at, thread, calls, embedding: None }))
    }
}
