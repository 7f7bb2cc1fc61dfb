//! The search by words, and by meaning.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::embedding::Embedding;
use super::rules::Memory;
use super::words::each_word;

/// How fast the weight of a repeated word stops to grow, and how much a long text counts less: the usual values of
/// Okapi BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009).
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// How much the first places of a ranking count more than later ones when rankings are joined: the usual value of
/// reciprocal rank fusion (Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank
/// Learning Methods", SIGIR 2009).
const RANK: f64 = 60.0;
/// How many places of each ranking count at least when they are joined.
const JOINED_MIN: usize = 100;

/// Which memories are wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryQuery {
    /// The words. Without any, the newest memories are found.
    pub words: String,
    /// Only memories with all of these tags.
    pub tags: Vec<String>,
    /// The most memories.
    pub limit: usize,
    /// The vector of the words, to find memories by their meaning as well. Whoever searches a runtime leaves it out: the
    /// runtime makes it.
    pub near: Option<Embedding>,
}

/// A memory that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundMemory {
    /// The memory.
    pub memory: Memory,
    /// How well it fits, to be compared within one search; 0 if the query has no words.
    pub score: f64,
}

impl MemoryQuery {
    /// Whether there is a word to search for. Without one, the newest memories are found, also with a vector.
    pub fn has_words(&self) -> bool {
        let mut any = false;
        each_word(&self.words, |_| any = true);
        any
    }
}

/// Returns the memories that have a word of the query in their text, name or tags, the best first, and of equal ones
/// the newest. Reads each text once: the cost grows with the bytes of all memories. A word that few memories have counts
/// more. With a vector, the memories whose vectors are the most similar are found as well: what is high in one of the two
/// rankings comes first.
pub fn search(memories: Vec<Memory>, query: &MemoryQuery) -> Vec<FoundMemory> {
    let mut words = BTreeMap::new();
    each_word(&query.words, |word| {
        let n = words.len();
        words.entry(word.to_owned()).or_insert(n);
    });
    let has_tags = |memory: &Memory| query.tags.iter().all(|tag| memory.tags.contains(tag));
    let memories: Vec<_> = memories.into_iter().filter(has_tags).collect();
    let found: Vec<_> = if words.is_empty() {
        memories.into_iter().map(|memory| FoundMemory { memory, score: 0.0 }).collect()
    } else if let Some(near) = &query.near {
        // More than are wanted, so that the order does not depend on how many are.
        let n = query.limit.max(JOINED_MIN);
        let similar = similar(&memories, near, n);
        joined([ranked(scored(memories, &words), n), similar])
    } else {
        scored(memories, &words)
    };
    ranked(found, query.limit)
}

/// The best ones, the best first.
fn ranked(mut found: Vec<FoundMemory>, limit: usize) -> Vec<FoundMemory> {
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| age(a).cmp(&age(b))));
    found.truncate(limit);
    found
}

/// The memories whose vectors can be compared with this one and point in a similar direction, the most similar first.
fn similar(memories: &[Memory], near: &Embedding, limit: usize) -> Vec<FoundMemory> {
    let similarity = |memory: &Memory| memory.embedding.as_ref()?.similarity(near).filter(|score| *score > 0.0);
    let mut scored: Vec<_> = memories.iter().filter_map(|memory| Some((memory, similarity(memory)?))).collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| b.0.at.cmp(&a.0.at)));
    scored.truncate(limit);
    scored.into_iter().map(|(memory, score)| FoundMemory { memory: memory.clone(), score }).collect()
}

/// What either ranking has, scored by its places in both.
fn joined(rankings: [Vec<FoundMemory>; 2]) -> Vec<FoundMemory> {
    let mut all = BTreeMap::new();
    for ranking in rankings {
        for (place, found) in ranking.into_iter().enumerate() {
            let of_place = 1.0 / (RANK + place as f64 + 1.0);
            let known = all.entry(found.memory.id).or_insert(FoundMemory { score: 0.0, ..found });
            known.score += of_place;
        }
    }
    all.into_values().collect()
}

fn age(found: &FoundMemory) -> impl Ord {
    (Reverse(found.memory.at), found.memory.id)
}

/// The words of one memory: how many, and how often each word of the query is among them.
struct Counted {
    memory: Memory,
    n_words: u32,
    n_of: Vec<u32>,
}

fn counted(memory: Memory, words: &BTreeMap<String, usize>) -> Counted {
    let (mut n_words, mut n_of) = (0, vec![0; words.len()]);
    let parts = memory.name.iter().chain(&memory.tags).chain([&memory.text]);
    for part in parts {
        each_word(part, |word| {
            n_words += 1;
            if let Some(n) = words.get(word).and_then(|at| n_of.get_mut(*at)) {
                *n += 1;
            }
        });
    }
    Counted { memory, n_words, n_of }
}

fn scored(memories: Vec<Memory>, words: &BTreeMap<String, usize>) -> Vec<FoundMemory> {
    let all: Vec<_> = memories.into_iter().map(|memory| counted(memory, words)).collect();
    let n = all.len() as f64;
    let n_words_mean = all.iter().map(|counted| f64::from(counted.n_words)).sum::<f64>() / n.max(1.0);
    let weights: Vec<f64> = (0..words.len())
        .map(|at| {
            let n_with = all.iter().filter(|counted| counted.n_of.get(at).is_some_and(|n| *n > 0)).count() as f64;
            ((n - n_with + 0.5) / (n_with + 0.5)).ln_1p()
        })
        .collect();
    let score = |counted: Counted| {
        let long = K1 * (1.0 - B + B * f64::from(counted.n_words) / n_words_mean.max(1.0));
        let of_word = |(n, weight): (&u32, &f64)| weight * f64::from(*n) * (K1 + 1.0) / (f64::from(*n) + long);
        let score = counted.n_of.iter().zip(&weights).map(of_word).sum();
        FoundMemory { memory: counted.memory, score }
    };
    all.into_iter().filter(|counted| counted.n_of.iter().any(|n| *n > 0)).map(score).collect()
}
