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

/// Where this reader could take for text what a shell runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unclear(pub(super) &'static str);

/// All simple commands of a line, those in `$(…)` and backquotes included, also where these stand in double quotes.
/// What is no valid shell is read as far as it goes: too many commands are found rather than too few. Of what would take
/// a whole shell to find its end, this says so instead.
pub(super) fn simple_commands(line: &str) -> Result<Vec<Simple>, Unclear> {
    let mut reader = Reader::default();
    reader.read(line)?;
    reader.end_command()?;
    while reader.close() {
        reader.end_command()?;
    }
    Ok(reader.found)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

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
    /// Here-documents whose text begins behind the end of this line.
    here: Vec<HereDocument>,
}

/// A text for a command's input that stands among the commands.
struct HereDocument {
    /// The line that ends it.
    end: String,
    /// Whether a shell leaves the text as it is.
    is_quoted: bool,
    strips_tabs: bool,
}

const HERE: &str = "where a here-document ends";

/// What a substitution or a bracket interrupts.
struct Around {
    words: Vec<String>,
    word: Option<String>,
    skips_next: bool,
    in_double: bool,
    is_backquoted: bool,
}

impl Reader {
    fn read(&mut self, line: &str) -> Result<(), Unclear> {
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if self.around.iter().any(|around| around.is_backquoted) => {
                    return Err(Unclear("a backslash in backquotes; write $(…)"));
                }
                '\\' => match chars.next() {
                    Some('\n') | None => {}
                    Some(next) => self.push(next),
                },
                '\'' if !self.in_double => self.quoted(&mut chars)?,
                '"' => {
                    self.word.get_or_insert_default();
                    self.in_double = !self.in_double;
                }
                '`' if self.around.last().is_some_and(|around| around.is_backquoted) => self.end_and_close()?,
                '`' => self.substitution(true),
                '$' if chars.peek() == Some(&'(') => {
                    chars.next();
                    self.substitution(false);
                }
                '$' if chars.peek() == Some(&'{') => self.parameter(&mut chars)?,
                '\n' if !self.here.is_empty() => {
                    self.end_command()?;
                    self.here_documents(&mut chars)?;
                }
                _ if self.in_double => self.push(c),
                '#' if self.word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
                '(' => {
                    self.end_command()?;
                    self.open(false);
                }
                ')' => self.end_and_close()?,
                ';' | '|' | '\n' => self.end_command()?,
                '&' if self.skips_next => {}
                '&' if chars.peek() == Some(&'>') => {}
                '&' => self.end_command()?,
                '<' | '>' => {
                    // A number before it is a descriptor, no word.
                    if self.word.as_ref().is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit())) {
                        self.word = None;
                    }
                    self.end_word()?;
                    if c == '<' && chars.next_if_eq(&'<').is_some() {
                        if chars.next_if_eq(&'<').is_some() {
                            self.skips_next = true;
                        } else {
                            self.here.push(self.here_document(&mut chars)?);
                        }
                    } else if chars.peek() == Some(&'(') {
                        // The bracket opens a command of its own.
                        self.push('$');
                        chars.next();
                        self.open(false);
                    } else {
                        self.skips_next = true;
                    }
                }
                c if c.is_whitespace() => self.end_word()?,
                c => self.push(c),
            }
        }
        Ok(())
    }

    /// Text in single quotes.
    fn quoted(&mut self, chars: &mut Chars<'_>) -> Result<(), Unclear> {
        let text: String = chars.by_ref().take_while(|c| *c != '\'').collect();
        if text.contains('\\') && self.word.as_ref().is_some_and(|word| word.ends_with('$')) {
            return Err(Unclear("a backslash in $'…'"));
        }
        if text.contains('\n') && !self.here.is_empty() {
            return Err(Unclear(HERE));
        }
        self.word.get_or_insert_default().push_str(&text);
        Ok(())
    }

    /// `${…}`, at its bracket.
    fn parameter(&mut self, chars: &mut Chars<'_>) -> Result<(), Unclear> {
        let text: String = chars.by_ref().take_while(|c| *c != '}').collect();
        if text.contains(['\'', '"', '`', '\\', '(', ')', '\n']) {
            return Err(Unclear("quotes or brackets in ${…}"));
        }
        let word = self.word.get_or_insert_default();
        word.push('$');
        word.push_str(&text);
        word.push('}');
        Ok(())
    }

    /// What ends a here-document, behind its `<<`.
    fn here_document(&self, chars: &mut Chars<'_>) -> Result<HereDocument, Unclear> {
        if !self.around.is_empty() {
            return Err(Unclear("<< in brackets"));
        }
        let strips_tabs = chars.next_if_eq(&'-').is_some();
        while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let (mut end, mut is_quoted) = (String::new(), false);
        while let Some(c) = chars.next_if(|c| !c.is_whitespace() && !";&|<>()".contains(*c)) {
            match c {
                '\'' | '"' => {
                    is_quoted = true;
                    end.extend(chars.by_ref().take_while(|quoted| *quoted != c));
                }
                '\\' => {
                    is_quoted = true;
                    end.extend(chars.next());
                }
                c => end.push(c),
            }
        }
        if end.is_empty() || end.contains(['$', '`', '\\', '\n']) {
            return Err(Unclear(HERE));
        }
        Ok(HereDocument { end, is_quoted, strips_tabs })
    }

    /// Passes over the texts of the here-documents of the line that has just ended.
    fn here_documents(&mut self, chars: &mut Chars<'_>) -> Result<(), Unclear> {
        if self.in_double || !self.around.is_empty() {
            return Err(Unclear(HERE));
        }
        for here in std::mem::take(&mut self.here) {
            loop {
                if chars.peek().is_none() {
                    return Err(Unclear(HERE));
                }
                let line: String = chars.by_ref().take_while(|c| *c != '\n').collect();
                let text = if here.strips_tabs { line.trim_start_matches('\t') } else { &line };
                if text == here.end {
                    break;
                }
                if !here.is_quoted && (line.contains('`') || line.contains("$(") || line.ends_with('\\')) {
                    return Err(Unclear("something that is run in a here-document; write its end in quotes, <<'END'"));
                }
            }
        }
        Ok(())
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

    fn end_and_close(&mut self) -> Result<(), Unclear> {
        self.end_command()?;
        self.close();
        Ok(())
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

    fn end_word(&mut self) -> Result<(), Unclear> {
        let Some(word) = self.word.take() else { return Ok(()) };
        if word == "case" && !self.around.is_empty() {
            // The brackets of its patterns open nowhere.
            return Err(Unclear("`case` in brackets"));
        }
        if std::mem::take(&mut self.skips_next) {
            return Ok(());
        }
        let is_first = self.words.is_empty();
        if is_first && (KEYWORDS.contains(&word.as_str()) || word == "{" || word == "}" || is_assignment(&word)) {
            return Ok(());
        }
        self.words.push(word);
        Ok(())
    }

    fn end_command(&mut self) -> Result<(), Unclear> {
        self.end_word()?;
        self.skips_next = false;
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.found.push(Simple(words));
        }
        Ok(())
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
