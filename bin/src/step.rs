//! `replay --step`: walks through a thread event by event, forward and back.

mod screen;
mod walk;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{execute, queue};
use rethread::{Seq, ThreadHandle};

use crate::exit::Failure;
use walk::Walk;

/// The action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Next,
    Back,
    NextNode,
    NodeBefore,
    First,
    Last,
    /// Begin to type a seq.
    Type,
    Digit(char),
    /// Go to what was typed.
    Go,
    Leave,
    Nothing,
}

/// Walks until the person quits, starting after event `at`.
///
/// # Errors
/// Where there is no terminal to walk on (exit code 2), or the log fails.
pub(crate) async fn step(thread: &ThreadHandle, at: Seq) -> Result<ExitCode, Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let message = "--step walks on a terminal, and stdin or stdout is none: use `replay --to` and `diff`";
        return Err(Failure::new(2, message));
    }
    let mut walk = Walk::begin(thread, at).await?;
    let _raw = Raw::begin()?;
    let mut typed: Option<String> = None;
    loop {
        show(&walk, typed.as_deref())?;
        // Waiting for a key blocks; the rest of the program waits with it, which is safe because it does not write to
        // the log.
        let wish = tokio::task::spawn_blocking(event::read).await.map_err(Failure::other)??;
        let wish = match wish {
            Event::Key(key) if key.kind != KeyEventKind::Release => wish_of(key, typed.is_some()),
            _ => Wish::Nothing,
        };
        match (wish, &mut typed) {
            (Wish::Leave, None) => return Ok(ExitCode::SUCCESS),
            (Wish::Leave, typed) => *typed = None,
            (Wish::Type, typed) => *typed = Some(String::new()),
            (Wish::Digit(digit), Some(text)) if text.len() < 19 => text.push(digit),
            (Wish::Go, typed) => {
                if let Some(Ok(seq)) = typed.take().map(|text| text.parse()) {
                    walk.go(Seq(seq)).await?;
                }
            }
            (Wish::Next, _) => walk.next().await?,
            (Wish::Back, _) => walk.back().await?,
            (Wish::NextNode, _) => walk.node(true).await?,
            (Wish::NodeBefore, _) => walk.node(false).await?,
            (Wish::First, _) => walk.go(Seq(0)).await?,
            (Wish::Last, _) => walk.go(Seq(u64::MAX)).await?,
            (Wish::Digit(_) | Wish::Nothing, _) => {}
        }
    }
}

fn wish_of(key: KeyEvent, is_typing: bool) -> Wish {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return if key.code == KeyCode::Char('c') { Wish::Leave } else { Wish::Nothing };
    }
    match key.code {
        KeyCode::Char(c) if is_typing && c.is_ascii_digit() => Wish::Digit(c),
        KeyCode::Enter if is_typing => Wish::Go,
        KeyCode::Esc | KeyCode::Char('q') => Wish::Leave,
        _ if is_typing => Wish::Nothing,
        KeyCode::Right | KeyCode::Down | KeyCode::Enter | KeyCode::Char(' ' | 'l' | 'j') => Wish::Next,
        KeyCode::Left | KeyCode::Up | KeyCode::Backspace | KeyCode::Char('h' | 'k') => Wish::Back,
        KeyCode::Char('n') => Wish::NextNode,
        KeyCode::Char('p' | 'N') => Wish::NodeBefore,
        KeyCode::Home => Wish::First,
        KeyCode::End | KeyCode::Char('G') => Wish::Last,
        KeyCode::Char('g') => Wish::Type,
        _ => Wish::Nothing,
    }
}

fn show(walk: &Walk, typed: Option<&str>) -> Result<(), Failure> {
    let (width, height) = terminal::size()?;
    let mut out = io::stdout();
    queue!(out, Clear(ClearType::All))?;
    for (i, line) in screen::of(walk, typed, usize::from(width), usize::from(height)).iter().enumerate() {
        queue!(out, MoveTo(0, u16::try_from(i).unwrap_or(u16::MAX)))?;
        out.write_all(line.as_bytes())?;
    }
    Ok(out.flush()?)
}

/// A terminal that gives keys one by one; restored when this is dropped.
struct Raw;

impl Raw {
    fn begin() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let raw = Self;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(raw)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

#[cfg(test)]
mod tests;
