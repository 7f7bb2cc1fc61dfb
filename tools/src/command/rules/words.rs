//! The simple commands in a line of shell, as far as its text tells.

use std::fmt;

/// Words that a shell reads before a command without being one.
const KEYWORDS: [&str; 14] =
    ["if", "then", "else", "elif", "fi", "while", "until", "do", "done", "!", "time", "case", "esac", "in"];

/// The words of one simple command, without what is redirected or assigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Simple(pub(super) Vec<String>);

impl fmt::Display for Simple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.0.join(" ").chars().take(120).collect();
        f.write_str(&text)
    }
}

/// All simple commands of a line, those in `$(…)` and backquotes included, also where these stand in double quotes.
/// What is no valid shell is read as far as it goes: too many commands are found rather than too few.
pub(super) fn simple_commands(line: &str) -> Vec<Simple> {
    let mut reader = Reader::default();
    reader.read(line);
    reader.end_command();
    while reader.close() {
        reader.end_command();
    }
    reader.found
}

#[derive(Default)]
struct Reader {
    found: Vec<Simple>,
    words: Vec<String>,
    word: Option<String>,
    /// The next word is the target of a redirection.
    skips_next: bool,
    in_double: bool,
    /// The commands around this one, the innermost last.
    around: Vec<Around>,
}

/// What a substitution or a bracket interrupts.
struct Around {
    words: Vec<String>,
    word: Option<String>,
    skips_next: bool,
    in_double: bool,
    is_backquoted: bool,
}

impl Reader {
    fn read(&mut self, line: &str) {
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('\n') | None => {}
                    Some(next) => self.push(next),
                },
                '\'' if !self.in_double => {
                    self.word.get_or_insert_default();
                    for quoted in chars.by_ref().take_while(|c| *c != '\'') {
                        self.push(quoted);
                    }
                }
                '"' => {
                    self.word.get_or_insert_default();
                    self.in_double = !self.in_double;
                }
                '`' if self.around.last().is_some_and(|around| around.is_backquoted) => self.end_and_close(),
                '`' => self.substitution(true),
                '$' if chars.peek() == Some(&'(') => {
                    chars.next();
                    self.substitution(false);
                }
                _ if self.in_double => self.push(c),
                '#' if self.word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
                '(' => {
                    self.end_command();
                    self.open(false);
                }
                ')' => self.end_and_close(),
                ';' | '|' | '\n' => self.end_command(),
                '&' if self.skips_next => {}
                '&' if chars.peek() == Some(&'>') => {}
                '&' => self.end_command(),
                '<' | '>' => {
                    // A number before it is a descriptor, no word.
                    if self.word.as_ref().is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit())) {
                        self.word = None;
                    }
                    self.end_word();
                    if chars.peek() == Some(&'(') {
                        // The bracket opens a command of its own.
                        self.push('$');
                        chars.next();
                        self.open(false);
                    } else {
                        self.skips_next = true;
                    }
                }
                c if c.is_whitespace() => self.end_word(),
                c => self.push(c),
            }
        }
    }

    /// What follows is a command of its own, in the middle of a word.
    fn substitution(&mut self, is_backquoted: bool) {
        // What a word becomes that is made by running something cannot be told.
        self.push('$');
        self.open(is_backquoted);
    }

    fn open(&mut self, is_backquoted: bool) {
        self.around.push(Around {
            words: std::mem::take(&mut self.words),
            word: self.word.take(),
            skips_next: std::mem::take(&mut self.skips_next),
            in_double: std::mem::take(&mut self.in_double),
            is_backquoted,
        });
    }

    fn end_and_close(&mut self) {
        self.end_command();
        self.close();
    }

    /// Goes on with the command around this one, if there is one.
    fn close(&mut self) -> bool {
        let Some(around) = self.around.pop() else { return false };
        self.words = around.words;
        self.word = around.word;
        self.skips_next = around.skips_next;
        self.in_double = around.in_double;
        true
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.skips_next) {
            return;
        }
        let is_first = self.words.is_empty();
        if is_first && (KEYWORDS.contains(&word.as_str()) || word == "{" || word == "}" || is_assignment(&word)) {
            return;
        }
        self.words.push(word);
    }

    fn end_command(&mut self) {
        self.end_word();
        self.skips_next = false;
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.found.push(Simple(words));
        }
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
