//! Splits the thoughts off the text of a model that writes them before its answer, between `<think>` and `</think>`.
//! Some servers put `<think>` into the prompt, so that only `</think>` comes.

use super::read::Piece;

const BEGIN: &str = "<think>";
const END: &str = "</think>";

/// A text that is being split. The result does not depend on how the text was cut.
#[derive(Debug, Default)]
pub(super) struct ThinkTag {
    state: State,
    /// The text that does not show yet what it is.
    held: String,
    /// How much of it has no end of thoughts in it, in bytes.
    searched: usize,
    /// The characters that came in.
    pub(super) n_chars: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Nothing but blanks, or a text that may turn out to be thoughts.
    #[default]
    Open,
    /// After `<think>` and blanks.
    Begun,
    Thinking,
    /// After `</think>` and blanks.
    Ended,
    Answering,
}

impl ThinkTag {
    pub(super) fn push(&mut self, text: &str, each: &mut dyn FnMut(Piece<'_>)) {
        self.n_chars += text.chars().count();
        if self.state == State::Answering {
            each(Piece::Text(text));
            return;
        }
        self.held.push_str(text);
        while self.step(each) {}
    }

    /// No more text comes: what was held back is what it looks like.
    pub(super) fn end(&mut self, each: &mut dyn FnMut(Piece<'_>)) {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Open if !held.is_empty() => each(Piece::Text(&held)),
            State::Thinking if !held.trim_end().is_empty() => each(Piece::Reasoning(held.trim_end())),
            _ => {}
        }
        self.state = State::Answering;
    }

    /// Takes from what is held; returns whether there may be more to take.
    fn step(&mut self, each: &mut dyn FnMut(Piece<'_>)) -> bool {
        match self.state {
            State::Open => {
                let begin = self.held.trim_start();
                if let Some(rest) = begin.strip_prefix(BEGIN) {
                    self.go(State::Begun, self.held.len() - rest.len());
                    return true;
                }
                if BEGIN.starts_with(begin) {
                    return false;
                }
                let Some(at) = self.find_end() else { return false };
                let thoughts = self.held[..at].trim();
                if !thoughts.is_empty() {
                    each(Piece::Reasoning(thoughts));
                }
                self.go(State::Ended, at + END.len());
                true
            }
            State::Begun | State::Ended => {
                let n_blank = self.held.len() - self.held.trim_start().len();
                if n_blank == self.held.len() {
                    return false;
                }
                self.go(if self.state == State::Begun { State::Thinking } else { State::Answering }, n_blank);
                true
            }
            State::Thinking => {
                let end = self.find_end();
                // Blanks before the end of thoughts are no thoughts, nor is the beginning of the tag.
                let n_tag = (1..END.len()).rev().find(|n| self.held.ends_with(&END[..*n])).unwrap_or(0);
                let thoughts = self.held[..end.unwrap_or(self.held.len() - n_tag)].trim_end();
                if !thoughts.is_empty() {
                    each(Piece::Reasoning(thoughts));
                }
                let n_taken = thoughts.len();
                match end {
                    Some(at) => self.go(State::Ended, at + END.len()),
                    None => self.go(State::Thinking, n_taken),
                }
                end.is_some()
            }
            State::Answering => {
                if !self.held.is_empty() {
                    each(Piece::Text(&self.held));
                }
                self.held = String::new();
                false
            }
        }
    }

    fn go(&mut self, state: State, n_taken: usize) {
        self.state = state;
        self.held.drain(..n_taken);
        self.searched = 0;
    }

    /// Where thoughts end.
    fn find_end(&mut self) -> Option<usize> {
        let from = self.held.floor_char_boundary(self.searched);
        let found = self.held[from..].find(END).map(|at| from + at);
        self.searched = (self.held.len() + 1).saturating_sub(END.len());
        found
    }
}

#[cfg(test)]
mod tests;
