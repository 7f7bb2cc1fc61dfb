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
enum Action {
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
            Event::Key(key) if key.kind != KeyEventKind::Release => action_of(key, typed.is_some()),
            _ => Action::Nothing,
        };
        match (wish, &mut typed) {
            (Action::Leave, None) => return Ok(ExitCode::SUCCESS),
            (Action::Leave, typed) => *typed = None,
            (Action::Type, typed) => *typed = Some(String::new()),
            (Action::Digit(digit), Some(text)) if text.len() < 19 => text.push(digit),
            (Action::Go, typed) => {
                if let Some(Ok(seq)) = typed.take().map(|text| text.parse()) {
                    walk.go(Seq(seq)).await?;
                }
            }
            (Action::Next, _) => walk.next().await?,
            (Action::Back, _) => walk.back().await?,
            (Action::NextNode, _) => walk.node(true).await?,
            (Action::NodeBefore, _) => walk.node(false).await?,
            (Action::First, _) => walk.go(Seq(0)).await?,
            (Action::Last, _) => walk.go(Seq(u64::MAX)).await?,
            (Action::Digit(_) | Action::Nothing, _) => {}
        }
    }
}

fn action_of(key: KeyEvent, is_typing: bool) -> Action {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return if key.code == KeyCode::Char('c') { Action::Leave } else { Action::Nothing };
    }
    match key.code {
        KeyCode::Char(c) if is_typing && c.is_ascii_digit() => Action::Digit(c),
        KeyCode::Enter if is_typing => Action::Go,
        KeyCode::Esc | KeyCode::Char('q') => Action::Leave,
        _ if is_typing => Action::Nothing,
        KeyCode::Right | KeyCode::Down | KeyCode::Enter | KeyCode::Char(' ' | 'l' | 'j') => Action::Next,
        KeyCode::Left | KeyCode::Up | KeyCode::Backspace | KeyCode::Char('h' | 'k') => Action::Back,
        KeyCode::Char('n') => Action::NextNode,
        KeyCode::Char('p' | 'N') => Action::NodeBefore,
        KeyCode::Home => Action::First,
        KeyCode::End | KeyCode::Char('G') => Action::Last,
        KeyCode::Char('g') => Action::Type,
        _ => Action::Nothing,
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
