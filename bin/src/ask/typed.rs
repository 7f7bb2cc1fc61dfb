//! The input of a person, line by line, for the current question: a question may be closed while its line is being
//! read, and the read cannot be cancelled, so there is one reader for the whole program.

use std::io::{self, BufRead, Read};
use std::sync::mpsc;

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A line, or nothing at the end of the input.
type Line = Option<String>;

/// The thread that reads.
struct Reader {
    wanted: mpsc::Sender<()>,
    lines: UnboundedReceiver<Line>,
    /// Whether it is reading a line now.
    is_reading: bool,
}

static READER: Mutex<Option<Reader>> = Mutex::const_new(None);

impl Reader {
    fn start() -> Self {
        let (wanted, wants) = mpsc::channel();
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            while wants.recv().is_ok() {
                if sender.send(read()).is_err() {
                    return;
                }
            }
        });
        Self { wanted, lines, is_reading: false }
    }
}

fn read() -> Line {
    let mut line = Vec::new();
    let read = io::stdin().lock().take(super::ANSWER_BYTES_MAX as u64).read_until(b'\n', &mut line);
    // Invalid UTF-8 does not end the input.
    read.ok().filter(|n| *n > 0).map(|_| String::from_utf8_lossy(&line).into_owned())
}

/// The next line that is typed, with its end; nothing at the end of the input. Dropping this leaves the line to the next
/// who asks for one.
pub(crate) async fn line() -> Line {
    let mut reader = READER.lock().await;
    let reader = reader.get_or_insert_with(Reader::start);
    if !reader.is_reading {
        reader.wanted.send(()).ok()?;
        reader.is_reading = true;
    }
    let line = reader.lines.recv().await;
    reader.is_reading = false;
    line.flatten()
}

/// Whether a line is being read whose question was closed: the next line answers the next question.
pub(crate) async fn is_reading() -> bool {
    READER.lock().await.as_ref().is_some_and(|reader| reader.is_reading)
}

/// Discards a line that was typed before the question was shown: it answers something else.
pub(super) async fn forget() {
    if let Some(reader) = READER.lock().await.as_mut()
        && reader.lines.try_recv().is_ok()
    {
        reader.is_reading = false;
    }
}
