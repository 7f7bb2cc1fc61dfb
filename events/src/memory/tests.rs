use super::words::each_word;
use super::*;
use crate::ids::{ThreadId, Time};
use crate::labels::Labels;

fn labels(written: &str) -> Labels {
    if written.is_empty() { Labels::new() } else { written.parse().unwrap() }
}

fn namespace(keys: &[&str], of_thread: &str) -> Result<Namespace, MemoryError> {
    Namespace::of_thread(&MemoryOptions::by_labels(keys.iter().copied()), &labels(of_thread))
}

fn thread() -> ThreadId {
    ThreadId::from_bytes([1; 16])
}

fn at(us: u64) -> Time {
    Time::from_unix_us(us)
}

fn new(text: &str, name: Option<&str>) -> NewMemory {
    NewMemory { text: text.to_owned(), name: name.map(str::to_owned), tags: Vec::new() }
}

fn options() -> MemoryOptions {
    MemoryOptions { memories_max: 2, ..MemoryOptions::by_labels(["user"]) }
}

fn store(new: NewMemory, call: &str, known: Option<&Memory>, n: u64) -> Result<Option<Memory>, MemoryError> {
    new.stored(&options(), call, known.cloned(), n, thread(), at(n))
}

#[test]
fn namespace_is_made_of_the_configured_labels() {
    let both = namespace(&["tenant", "user"], "plan=free,tenant=acme,user=42").unwrap();
    assert_eq!(both.labels(), &labels("tenant=acme,user=42"));
    assert_eq!(namespace(&["user", "tenant"], "tenant=acme,user=42").unwrap(), both, "the order does not matter");
    let others = ["tenant=acme,user=4", "tenant=acm,user=42", "tenant=acme,user=43"];
    for other in others.map(|other| namespace(&["tenant", "user"], other).unwrap()) {
        assert_ne!(other.hash(), both.hash(), "{other:?}");
    }
    assert_ne!(namespace(&["user"], "tenant=acme,user=42").unwrap().hash(), both.hash());
}

#[test]
fn thread_without_a_label_of_the_namespace_is_refused() {
    let no_user = Err(MemoryError::NoLabel { key: "user".into() });
    assert_eq!(namespace(&["tenant", "user"], "tenant=acme"), no_user);
    assert_eq!(namespace(&["user"], ""), no_user);
    assert_eq!(namespace(&[], "tenant=acme").unwrap(), namespace(&[], "").unwrap(), "no label: one for all threads");
}

#[test]
fn options_that_cannot_be_meant_are_refused() {
    let check = |options: MemoryOptions| options.check().map_err(|fault| fault.split(':').next().unwrap().to_owned());
    let plain = MemoryOptions::by_labels(["user"]);
    assert_eq!(check(plain.clone()), Ok(()));
    for keys in [vec!["a b"], vec![""], vec!["a", "a"], vec!["a"; 17]] {
        assert_eq!(check(MemoryOptions::by_labels(keys.clone())), Err("namespace".into()), "{keys:?}");
    }
    for memories_max in [0, MEMORIES_MAX + 1] {
        assert_eq!(check(MemoryOptions { memories_max, ..plain.clone() }), Err("memories_max".into()));
    }
    for text_bytes_max in [0, MEMORY_BYTES_MAX + 1] {
        assert_eq!(check(MemoryOptions { text_bytes_max, ..plain.clone() }), Err("text_bytes_max".into()));
    }
}

#[test]
fn memory_over_a_limit_is_refused() {
    let stored = |new: NewMemory| store(new, "call", None, 0).map(|stored| stored.is_some());
    assert_eq!(stored(new(&"x".repeat(MEMORY_BYTES_MAX), None)), Ok(true));
    let too_long = MemoryError::Text { bytes: MEMORY_BYTES_MAX + 1, bytes_max: MEMORY_BYTES_MAX };
    assert_eq!(stored(new(&"x".repeat(MEMORY_BYTES_MAX + 1), None)), Err(too_long));
    assert_eq!(stored(new(" \n", None)), Err(MemoryError::Text { bytes: 2, bytes_max: MEMORY_BYTES_MAX }));
    assert_eq!(stored(new("x", Some(""))), Err(MemoryError::Name { bytes: 0 }));
    assert_eq!(stored(new("x", Some(&"n".repeat(201)))), Err(MemoryError::Name { bytes: 201 }));
    for tags in [vec![String::new()], vec!["t".repeat(65)], vec!["t".to_owned(); 17]] {
        assert_eq!(stored(NewMemory { tags, ..new("x", None) }), Err(MemoryError::Tags));
    }
}

#[test]
fn full_namespace_takes_no_new_memory_and_replaces_one() {
    let named = store(new("blue", Some("colour")), "a", None, 1).unwrap().unwrap();
    assert_eq!(store(new("x", None), "b", None, 2), Err(MemoryError::Full { n: 2 }));
    let replaced = store(new("red", Some("colour")), "b", Some(&named), 2).unwrap().unwrap();
    assert_eq!((replaced.id, &*replaced.text), (named.id, "red"));
}

#[test]
fn call_that_is_repeated_stores_nothing() {
    let first = store(new("x", None), "call", None, 0).unwrap().unwrap();
    assert_eq!(store(new("x", None), "call", Some(&first), 1), Ok(None));
    let other = store(new("x", None), "other call", None, 1).unwrap().unwrap();
    assert_ne!(other.id, first.id, "another call stores another memory");
}

#[test]
fn repeated_call_does_not_undo_a_later_one_of_its_name() {
    let blue = store(new("blue", Some("colour")), "a", None, 0).unwrap().unwrap();
    let red = store(new("red", Some("colour")), "b", Some(&blue), 1).unwrap().unwrap();
    assert_eq!(store(new("blue", Some("colour")), "a", Some(&red), 1), Ok(None));
    assert_eq!(red.id, blue.id);
    let later = (0..8).fold(red, |known, n| {
        store(new("green", Some("colour")), &format!("later {n}"), Some(&known), 1).unwrap().unwrap()
    });
    assert_eq!(store(new("green", Some("colour")), "later 0", Some(&later), 1), Ok(None));
    assert!(store(new("blue", Some("colour")), "a", Some(&later), 1).unwrap().is_some(), "eight calls are known");
}

#[test]
fn stored_memory_is_read_back() {
    let memory = store(NewMemory { tags: vec!["t".into()], ..new("x", Some("n")) }, "a", None, 0).unwrap().unwrap();
    let json = serde_json::to_string(&memory).unwrap();
    assert_eq!(serde_json::from_str::<Memory>(&json).unwrap(), memory);
    assert_eq!(memory.id.to_string().parse(), Ok(memory.id));
    for wrong in ["", "12", "+123456789abcdef", "0123456789abcdeg", "0123456789abcdef0"] {
        wrong.parse::<MemoryId>().unwrap_err();
    }
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_word(text, |word| words.push(word.to_owned()));
    words
}

#[test]
fn words_of_any_script_are_compared_without_case() {
    assert_eq!(words("The user's invoice-No. 42!"), ["the", "user", "s", "invoice", "no", "42"]);
    assert_eq!(words("Straße STRASSE"), ["strasse", "strasse"]);
    assert_eq!(words("ΣΊΣΥΦΟΣ σίσυφος"), ["σίσυφοσ", "σίσυφοσ"]);
    assert_eq!(words("Привет ПРИВЕТ"), ["привет", "привет"]);
    assert_eq!(words("cafe\u{301}"), ["cafe\u{301}"], "an accent does not end a word");
    assert_eq!(words("東京都 x"), ["東", "京", "東京", "都", "京都", "x"]);
    assert_eq!(words(" …!"), Vec::<String>::new());
}

fn memories(texts: &[&str]) -> Vec<Memory> {
    let numbered = texts.iter().zip(0..);
    numbered.map(|(text, n)| store(new(text, None), &format!("{n}"), None, n % 2).unwrap().unwrap()).collect()
}

fn found(memories: &[Memory], words: &str, limit: usize) -> Vec<String> {
    let query = MemoryQuery { words: words.to_owned(), tags: Vec::new(), limit, near: None };
    search(memories.to_vec(), &query).into_iter().map(|found| found.memory.text).collect()
}

#[test]
fn search_ranks_rare_words_and_short_texts_first() {
    let all = memories(&[
        "the user likes tea",
        "the user has a dog",
        "the user wrote that a dog of the neighbour barks at night and in the morning",
        "nothing",
    ]);
    assert_eq!(found(&all, "dog the", 10)[..2], [all[1].text.as_str(), all[2].text.as_str()]);
    assert_eq!(found(&all, "the DOG", 10).len(), 3, "without those that have no word of it");
    assert_eq!(found(&all, "the dog", 1), [all[1].text.as_str()]);
    assert_eq!(found(&all, "cat", 10), Vec::<String>::new());
    assert_eq!(found(&[], "dog", 10), Vec::<String>::new());
}

#[test]
fn search_reads_names_and_tags() {
    let tagged = |text: &str, tag: &str| NewMemory { tags: vec![tag.into()], ..new(text, Some(text)) };
    let all: Vec<_> =
        ["a", "b"].map(|tag| store(tagged(&format!("text of {tag}"), tag), tag, None, 0).unwrap().unwrap()).into();
    assert_eq!(found(&all, "b", 10), ["text of b"]);
    let query = MemoryQuery { words: "text".into(), tags: vec!["a".into()], limit: 10, near: None };
    let only: Vec<_> = search(all, &query).into_iter().map(|found| found.memory.text).collect();
    assert_eq!(only, ["text of a"]);
}

#[test]
fn search_without_words_finds_the_newest() {
    let all: Vec<_> =
        (0..2).map(|n| store(new(&format!("{n}"), None), &format!("{n}"), None, n).unwrap().unwrap()).collect();
    assert_eq!(found(&all, " ?", 10), ["1", "0"]);
    assert_eq!(found(&all, "", 1), ["1"]);
}

fn vector(numbers: &[f32]) -> Embedding {
    Embedding::new("m", numbers).unwrap()
}

#[test]
fn search_finds_what_means_the_same_in_other_words() {
    let texts = ["she drinks tea", "she owns a dog", "the weather"];
    let vectors = [Some(vector(&[1.0, 0.1])), Some(vector(&[-0.2, 1.0])), None];
    let all: Vec<_> = memories(&texts).into_iter().zip(vectors).map(|(memory, it)| memory.with_embedding(it)).collect();
    let found = |words: &str, near: Option<Embedding>, limit| {
        let query = MemoryQuery { words: words.to_owned(), tags: Vec::new(), limit, near };
        search(all.clone(), &query).into_iter().map(|found| found.memory.text).collect::<Vec<_>>()
    };
    assert_eq!(found("beverages", None, 10), Vec::<String>::new());
    assert_eq!(found("beverages", Some(vector(&[1.0, 0.0])), 10), [texts[0]], "nothing that points away");
    assert_eq!(found("beverages", Some(vector(&[1.0, 1.0])), 10), [texts[0], texts[1]]);
    let near = || Some(vector(&[0.3, 1.0]));
    assert_eq!(found("tea weather", near(), 1)[0], found("tea weather", near(), 10)[0], "however many are wanted");
    let both = found("weather", Some(vector(&[0.0, 1.0])), 10);
    assert_eq!(both[2], texts[0], "the other two are the first of a ranking: {both:?}");
    assert_eq!(found("beverages", Some(Embedding::new("other", &[1.0, 0.0]).unwrap()), 10), Vec::<String>::new());
    assert_eq!(found("beverages", Some(vector(&[1.0, 0.0, 0.0])), 10), Vec::<String>::new());
}

#[test]
fn vector_is_stored_exactly_and_has_a_direction() {
    let memory = memories(&["x"]).remove(0).with_embedding(Some(vector(&[0.1, -3.0, 1e-20])));
    let json = serde_json::to_string(&memory).unwrap();
    assert_eq!(serde_json::from_str::<Memory>(&json).unwrap(), memory);
    assert!(serde_json::from_str::<Embedding>(r#"{"model": "m", "vector": "AAAAAAA="}"#).is_err());
    let too_many = vec![1.0; EMBEDDING_DIMENSIONS_MAX + 1];
    for wrong in [&[][..], &[0.0, 0.0], &[f32::NAN], &[1.0, f32::INFINITY], &too_many] {
        assert_eq!(Embedding::new("m", wrong), None);
    }
}
