//! The simple commands of a shell line, in the part of the shell's grammar that every shell reads in the same way.

use std::fmt;
use std::iter::Peekable;
use std::str::CharIndices;

/// Characters of a word that mean nothing else to a shell, beside letters and digits.
const PLAIN: &str = "_-./:,+=@%";
/// Characters of a program's name, beside letters and digits: no assignment and no job.
const OF_PROGRAMS: &str = "_-./+";
/// Words that are part of the grammar where a program's name could be.
const RESERVED: [&str; 15] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "select", "then", "until",
    "while",
];
/// Words that run other words, or change which program a name means.
const INDIRECT: [&str; 17] = [
    ".", "alias", "builtin", "command", "declare", "enable", "eval", "exec", "export", "fc", "hash", "local", "read",
    "readonly", "source", "trap", "typeset",
];

/// Why a line cannot be compared with patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// A character outside the grammar, and its place, counted from 1.
    Character(char, usize),
    /// A word that cannot be a program's name here.
    Program(String),
    /// The line ends where something must follow, such as a quote.
    End(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(c, place) => write!(f, "`{}` at character {place} is not allowed there", c.escape_debug()),
            Self::Program(word) => {
                let word: String = word.chars().take(80).flat_map(char::escape_debug).collect();
                write!(f, "`{word}` cannot be the name of a program")
            }
            Self::End(what) => write!(f, "the line ends, but {what} must follow"),
        }
    }
}

/// The words of each simple command of a line, without redirections.
///
/// The grammar: words of plain ASCII characters, single quotes, double quotes without `$`, `` ` `` and `\`; `;`, `&&`,
/// `||`, `|` and line breaks between commands; `<`, `>` and `>>` with a file, `<&` and `>&` with a digit, each with at
/// most one digit before it. Anything else is refused.
pub(super) fn simple_commands(line: &str) -> Result<Vec<Vec<String>>, Refused> {
    let mut reader = Reader { line, chars: line.char_indices().peekable() };
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    // Whether the last operator needs a command after it.
    let mut is_open = false;
    while let Some((at, c)) = reader.chars.next() {
        match c {
            ' ' | '\t' => {}
            '\n' if words.is_empty() => {}
            '\n' | ';' | '|' | '&' => {
                let is_double = matches!(c, '|' | '&') && reader.take(c);
                if words.is_empty() || c == '&' && !is_double {
                    return Err(reader.refused(at, c));
                }
                is_open = matches!(c, '|' | '&');
                commands.push(std::mem::take(&mut words));
            }
            '<' | '>' => {
                reader.redirection(c)?;
                // A redirection without a program would cut a file.
                is_open |= words.is_empty();
            }
            _ => {
                let word = reader.word(at, c)?;
                let is_digits = !word.is_quoted && word.text.bytes().all(|byte| byte.is_ascii_digit());
                match reader.chars.peek().copied() {
                    // A number before a redirection is a descriptor where it has one digit, and depends on the shell
                    // where it has more.
                    Some((_, sign @ ('<' | '>'))) if is_digits && word.text.len() == 1 => {
                        reader.chars.next();
                        reader.redirection(sign)?;
                        is_open |= words.is_empty();
                    }
                    Some((at, sign @ ('<' | '>'))) if is_digits => return Err(reader.refused(at, sign)),
                    _ => {
                        if words.is_empty() && !is_program(&word.text) {
                            return Err(Refused::Program(word.text));
                        }
                        words.push(word.text);
                        is_open = false;
                    }
                }
            }
        }
    }
    if is_open {
        return Err(Refused::End("a command"));
    }
    commands.extend((!words.is_empty()).then_some(words));
    Ok(commands)
}

fn is_program(word: &str) -> bool {
    !word.is_empty()
        && word.chars().all(|c| c.is_ascii_alphanumeric() || OF_PROGRAMS.contains(c))
        && !RESERVED.contains(&word)
        && !INDIRECT.contains(&word)
}

struct Reader<'a> {
    line: &'a str,
    chars: Peekable<CharIndices<'a>>,
}

struct Word {
    text: String,
    is_quoted: bool,
}

impl Reader<'_> {
    fn refused(&self, at: usize, c: char) -> Refused {
        Refused::Character(c, self.line[..at].chars().count() + 1)
    }

    fn take(&mut self, c: char) -> bool {
        self.chars.next_if(|(_, next)| *next == c).is_some()
    }

    /// A word from its first character on.
    fn word(&mut self, at: usize, first: char) -> Result<Word, Refused> {
        let mut word = Word { text: String::new(), is_quoted: false };
        let mut next = Some((at, first));
        while let Some((at, c)) = next {
            match c {
                '\'' | '"' => {
                    word.is_quoted = true;
                    loop {
                        match self.chars.next() {
                            Some((_, end)) if end == c => break,
                            Some((at, inside @ ('$' | '`' | '\\'))) if c == '"' => return Err(self.refused(at, inside)),
                            Some((at, '\0')) => return Err(self.refused(at, '\0')),
                            Some((_, inside)) => word.text.push(inside),
                            None => return Err(Refused::End("the end of a quote")),
                        }
                    }
                }
                c if c.is_ascii_alphanumeric() || PLAIN.contains(c) => word.text.push(c),
                c => return Err(self.refused(at, c)),
            }
            next = self.chars.next_if(|(_, next)| !matches!(next, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>'));
        }
        Ok(word)
    }

    /// What follows `<` or `>`.
    fn redirection(&mut self, sign: char) -> Result<(), Refused> {
        if self.take('&') {
            let digit = self.chars.next();
            match (digit, self.chars.peek().copied()) {
                (Some((_, '0'..='9')), None | Some((_, ' ' | '\t' | '\n' | ';' | '&' | '|'))) => return Ok(()),
                (Some((_, '0'..='9')), Some((at, c))) | (Some((at, c)), _) => return Err(self.refused(at, c)),
                (None, _) => return Err(Refused::End("a descriptor")),
            }
        }
        if sign == '>' {
            self.take('>');
        }
        while self.chars.next_if(|(_, c)| matches!(c, ' ' | '\t')).is_some() {}
        let Some((at, c)) = self.chars.next() else { return Err(Refused::End("a file")) };
        self.word(at, c)?;
        // Some shells read digits before the sign as a descriptor.
        match self.chars.peek().copied() {
            Some((at, c @ ('<' | '>'))) => Err(self.refused(at, c)),
            _ => Ok(()),
        }
    }
}
