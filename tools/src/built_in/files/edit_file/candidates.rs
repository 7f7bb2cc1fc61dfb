//! The hints when a text was not found, or found too often: the places that could have been meant.

use memchr::memmem;

/// How many places are shown.
const N_PLACES_MAX: usize = 5;
/// How many lines of each place are shown.
const N_LINES_MAX: usize = 8;
/// The bytes of a line that are shown.
const LINE_BYTES_MAX: usize = 200;

/// The error for a text that is there `n` times instead of `count` times.
pub(super) fn wrong_count(path: &str, file: &[u8], old: &str, n: usize, count: usize) -> String {
    let lines: Vec<&[u8]> = file.split(|byte| *byte == b'\n').collect();
    let n_lines_old = old.trim_end_matches('\n').split('\n').count();
    if n > 0 {
        let asked = if count == 1 { "it must be unique".to_owned() } else { format!("{count} were asked for") };
        let mut message = format!(
            "nothing changed: `old_text` is {n} times in `{path}`, {asked}. Give more of the lines around it, or set \
             `count` to {n} to replace all. The places:\n"
        );
        let places: Vec<_> = memmem::find_iter(file, old.as_bytes()).take(N_PLACES_MAX).collect();
        for number in line_numbers(file, &places) {
            show(&mut message, &lines, number as usize - 1, n_lines_old);
        }
        if n > N_PLACES_MAX {
            message.push_str(&format!("… and {} more\n", n - N_PLACES_MAX));
        }
        return message;
    }

    let (why, similar) = find_similar(&lines, old);
    let mut message = format!("nothing changed: `old_text` is not in `{path}`.");
    if similar.is_empty() {
        message.push_str(" Read the file again and copy the text as it is there.\n");
        return message;
    }
    message.push_str(&format!(" {why}:\n"));
    for start in similar {
        show(&mut message, &lines, start, n_lines_old);
    }
    message
}

/// The number of the line in which each of the places, which are in order, begins.
pub(super) fn line_numbers(file: &[u8], places: &[usize]) -> Vec<u64> {
    let mut numbers = Vec::with_capacity(places.len());
    let (mut number, mut end) = (1, 0);
    for place in places {
        number += memchr::memchr_iter(b'\n', &file[end..*place]).count() as u64;
        end = *place;
        numbers.push(number);
    }
    numbers
}

/// Lines, counted from 0, at which something like `old` begins, and in what it is alike.
fn find_similar(lines: &[&[u8]], old: &str) -> (&'static str, Vec<usize>) {
    let wanted: Vec<String> = old.lines().map(normalize_spaces).collect();
    let Some(first) = wanted.iter().position(|line| !line.is_empty()) else {
        return ("", Vec::new());
    };
    let there: Vec<String> = lines.iter().map(|line| normalize_spaces(&String::from_utf8_lossy(line))).collect();

    let mut same_but_space = Vec::new();
    let mut same_first = Vec::new();
    let mut first_inside = Vec::new();
    for (at, line) in there.iter().enumerate() {
        if line == &wanted[first] {
            if at >= first && there[at - first..].starts_with(&wanted) {
                same_but_space.push(at - first);
            }
            same_first.push(at);
        } else if !line.is_empty() && line.contains(&wanted[first]) {
            first_inside.push(at);
        }
    }
    for (why, mut places) in [
        ("This differs only in white space", same_but_space),
        ("Its first line is here, what follows differs", same_first),
        ("Its first line is part of a line here", first_inside),
    ] {
        if !places.is_empty() {
            places.truncate(N_PLACES_MAX);
            return (why, places);
        }
    }
    ("", Vec::new())
}

/// The words of a line with one space between them.
fn normalize_spaces(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn show(message: &mut String, lines: &[&[u8]], start: usize, n_lines: usize) {
    for (at, line) in lines.iter().enumerate().skip(start).take(n_lines.min(N_LINES_MAX)) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]);
        let cut = if line.len() > LINE_BYTES_MAX { "…" } else { "" };
        message.push_str(&format!("{}\t{text}{cut}\n", at + 1));
    }
    if n_lines > N_LINES_MAX {
        message.push_str("…\n");
    }
}
