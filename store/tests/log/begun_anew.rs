//! A thread is deleted and begins anew under the same id while it is read: what is read is of one life, in order,
//! and never damage.

use std::sync::atomic::{AtomicBool, Ordering};

use rethread_events::ids::{Position, Seq};
use rethread_store::testing::{append, put, scratch, thread};
use rethread_store::{Append, KeyChange, KeyRange, LogReader, Options, Record, SledStore, Store, StoreError};

/// How often it begins anew.
const LIVES: u64 = 150;

/// How many records are appended at a time.
const AT_ONCE: usize = 10;

/// The texts of a life; the next may have more or fewer, or as many.
fn life(number: u64) -> Vec<String> {
    (0..40 + number % 3).map(|seq| format!("{number} {seq} {}", "text ".repeat(50))).collect()
}

/// The records are the beginning of one life, up to the end of an append.
fn is_of_one_life(records: &[Record]) -> bool {
    let texts: Vec<String> = records.iter().map(|record| String::from_utf8(record.payload.to_vec()).unwrap()).collect();
    let number = texts[0].split(' ').next().unwrap().parse().unwrap();
    let whole = life(number);
    texts == whole || texts.len().is_multiple_of(AT_ONCE) && whole.starts_with(&texts)
}

/// The keys of a life. Some are those of others, too.
fn keys(number: u64) -> Vec<String> {
    let mut keys: Vec<_> = (number..number + 30).map(|key| format!("{key:05}")).collect();
    keys.insert(0, format!("{number:05} first"));
    keys.sort();
    keys
}

/// The keys are those of one life, or none.
fn are_of_one_life(found: &[Vec<u8>]) -> bool {
    let found: Vec<_> = found.iter().map(|key| String::from_utf8(key.clone()).unwrap()).collect();
    found.first().is_none_or(|first| keys(first.parse().unwrap()) == found)
}

fn is_gone(error: &StoreError) -> bool {
    matches!(error, StoreError::NotFound { .. })
}

/// Lets the others end, also when this test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn reader_of_a_restarted_thread_reads_one_life() {
    let dir = scratch();
    // While it is read, every life is moved into sled, and what was there of the one before is taken away.
    let options = Options { tail_bytes: 4 << 10, ..Options::default() };
    let store = SledStore::open(dir.path(), options).unwrap();
    let ended = AtomicBool::new(false);
    let again_and_again = &|look: &dyn Fn()| {
        while !ended.load(Ordering::Relaxed) {
            look();
        }
    };
    let read = || match store.read_stream(thread(1), Seq(0)..Seq(99), 99) {
        Ok(records) => assert!(is_of_one_life(&records), "{records:?}"),
        Err(error) => assert!(is_gone(&error), "{error}"),
    };
    let verify = || {
        drop(store.read_all(Position(0), usize::MAX).unwrap());
        assert_eq!(store.verify().unwrap().faults, []);
    };
    let list = || {
        assert!(are_of_one_life(&store.keys_of(thread(1)).unwrap()));
        let all = store.keys(&KeyRange::all(), None, 99).unwrap();
        let all: Vec<_> = all.into_iter().map(|(key, _)| key).collect();
        assert!(are_of_one_life(&all), "{all:?}");
    };
    std::thread::scope(|scope| {
        let looks: [&(dyn Fn() + Sync); 3] = [&read, &verify, &list];
        let readers = looks.map(|look| scope.spawn(move || again_and_again(&|| look())));
        let ends = Ends(&ended);
        for number in 0..LIVES {
            for (n, texts) in life(number).chunks(AT_ONCE).enumerate() {
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let append = append(thread(1), (n * AT_ONCE) as u64, &texts);
                let added = keys(number).into_iter().filter(|_| n == 1).map(|key| KeyChange::Add(key.into()));
                put(&store, Append { keys: added.collect(), ..append }).unwrap();
            }
            store.delete(thread(1)).unwrap();
        }
        drop(ends);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}
