//! Mutated bytes for every parser of bytes from outside. A test tries some inputs of each kind, always the same;
//! `RETHREAD_FUZZ_SECONDS` makes each target run for this long, from the seed in `RETHREAD_FUZZ_SEED` on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::random::Random;

/// Bytes that have a special meaning for parsers.
const TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b":",
    b",",
    b"null",
    b"-1",
    b"1e999",
    b"0",
    b"\n",
    b"\r\n\r\n",
    b"\0",
    b"\xff",
    b"\xf0\x9f\x92\xa9",
    b"18446744073709551616",
    b"9223372036854775807",
    b"data: ",
    b"{{",
    b"}}",
    b"{%",
    b"%}",
    b"&a ",
    b"*a ",
    b"- ",
    b"<<: ",
    b"!!",
    b"--- ",
    b"[DONE]",
];

/// The largest input, in bytes.
const BYTES_MAX: usize = 256 << 10;

/// Calls `target` with `n` mutations of the seeds.
///
/// # Panics
/// Where the target does, with the seed of the input, which is written to a file beside the build.
pub fn fuzz(name: &str, seeds: &[Vec<u8>], n: u64, mut target: impl FnMut(&[u8])) {
    assert!(!seeds.is_empty(), "{name} has seeds");
    let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("RETHREAD_FUZZ_SEED").unwrap_or(1);
    let until = number("RETHREAD_FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    for seed in first.. {
        match until {
            Some(until) if Instant::now() >= until => break,
            None if seed - first >= n => break,
            _ => {}
        }
        let input = mutated(&mut Random::new(seed), seeds);
        if catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() {
            let file = std::env::temp_dir().join(format!("rethread-fuzz-{name}-{seed}"));
            let _ = std::fs::write(&file, &input);
            panic!("{name}: RETHREAD_FUZZ_SEED={seed} fails as said above; the input is in {}", file.display());
        }
    }
}

/// A seed with some changes.
fn mutated(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len() as u64) as usize].clone();
    for _ in 0..=random.below(8) {
        let place = |random: &mut Random, bytes: &[u8]| random.below(bytes.len() as u64 + 1) as usize;
        let (a, b) = (place(random, &bytes), place(random, &bytes));
        let (from, to) = (a.min(b), a.max(b));
        match random.below(8) {
            0 if !bytes.is_empty() => {
                let at = a.min(bytes.len() - 1);
                bytes[at] ^= 1 << random.below(8);
            }
            1 if !bytes.is_empty() => {
                let at = a.min(bytes.len() - 1);
                bytes[at] = random.number() as u8;
            }
            2 => drop(bytes.drain(from..to.min(from + 64))),
            3 => drop(bytes.drain(from..to)),
            4 => {
                let again = bytes[from..to].to_vec();
                bytes.splice(to..to, again);
            }
            5 => {
                let other = &seeds[random.below(seeds.len() as u64) as usize];
                let (c, d) = (place(random, other), place(random, other));
                bytes.splice(a..a, other[c.min(d)..c.max(d)].iter().copied());
            }
            6 => {
                let token = TOKENS[random.below(TOKENS.len() as u64) as usize];
                bytes.splice(a..a, token.repeat(1 + random.below(3) as usize));
            }
            _ => {
                let token = TOKENS[random.below(TOKENS.len() as u64) as usize];
                bytes.splice(from..to.min(from + token.len()), token.iter().copied());
            }
        }
        bytes.truncate(BYTES_MAX);
    }
    bytes
}
