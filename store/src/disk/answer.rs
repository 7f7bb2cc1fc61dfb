//! Answering: waking those who wait takes longer than writing for them, when they are many.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::queue::Answer;
use crate::contract::Appended;

/// Fewer are answered by the writer itself: a lone one waits for one thread less that way.
pub(crate) const OFFLOAD_MIN: usize = 64;

/// How many groups may wait to be answered before the writer waits too.
const GROUPS_MAX: usize = 8;

type Answers = Vec<(Answer, Option<Appended>)>;

/// Answers large groups on a thread of its own, while the next one is being written. The thread begins with the
/// first of them.
#[derive(Default)]
pub(crate) struct Answerer {
    thread: Option<(SyncSender<Answers>, JoinHandle<()>)>,
}

impl Answerer {
    /// Acknowledges all of them.
    pub(crate) fn answer(&mut self, answers: Answers) {
        let answers = match self.sender(answers.len()) {
            Some(sender) => match sender.send(answers) {
                Ok(()) => return,
                Err(unsent) => unsent.0,
            },
            None => answers,
        };
        send_all(answers);
    }

    fn sender(&mut self, n: usize) -> Option<&SyncSender<Answers>> {
        if n < OFFLOAD_MIN {
            return None;
        }
        if self.thread.is_none() {
            let (sender, receiver) = sync_channel::<Answers>(GROUPS_MAX);
            let work = move || receiver.into_iter().for_each(send_all);
            // Without a thread they are answered one after the other, as ever.
            let thread = std::thread::Builder::new().name("log answers".into()).spawn(work).ok()?;
            self.thread = Some((sender, thread));
        }
        self.thread.as_ref().map(|(sender, _)| sender)
    }

    /// Waits until everybody was answered.
    pub(crate) fn finish(&mut self) {
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            // It only passes on what is given to it, and has nothing to panic about.
            let _ = thread.join();
        }
    }
}

fn send_all(answers: Answers) {
    // From the last to the first: a caller with several pending appends waits for the first of them, is woken once, and
    // finds the others acknowledged already.
    for (answer, appended) in answers.into_iter().rev() {
        answer.done(appended);
    }
}
