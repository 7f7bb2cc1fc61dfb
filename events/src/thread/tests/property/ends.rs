//! Every thread of a family ends after any history, once calls are answered, pauses are ended and time passes.

use super::*;

/// More rounds than any of the generated workflows takes; one answers something in every thread.
const ROUNDS_MAX: usize = 4_000;

/// How often a pause is lifted: a workflow that goes round for ever pauses at its limit each time.
const LIFTED_MAX: usize = 4;

impl Family {
    /// Lets the world do its part until every thread has ended.
    pub(super) fn run_to_the_end(&mut self, yaml: &str) {
        let mut n_lifted = 0;
        for round in 0..ROUNDS_MAX {
            let names: Vec<_> = self.threads.keys().cloned().collect();
            if names.iter().all(|name| self.of(name).state().is_ended()) {
                return;
            }
            for (at, name) in names.iter().enumerate() {
                // A later round of a loop may have taken its name.
                let Some(bench) = self.threads.get_mut(name).filter(|bench| !bench.state().is_ended()) else {
                    continue;
                };
                if bench.state().is_paused() {
                    n_lifted += 1;
                    bench.give(if n_lifted > LIFTED_MAX {
                        Input::Cancel { reason: Some("it goes round for ever".into()) }
                    } else {
                        Input::Raise(more())
                    });
                    // A pause that a person asked for has no limit to raise.
                    bench.give(Input::Resume);
                }
                let act = match (asked(&bench.thread.effects(), round), round % 7) {
                    // Time for retries, and in the end for unanswered questions.
                    (_, 6) => Act::Tick { ms: 2_000 },
                    (Some(_), 5) if round > ROUNDS_MAX / 2 => Act::Withdraw { which: round },
                    (Some(_), 3..) => Act::Reply { which: round, answer: (round / 7) % REPLIES },
                    _ => Act::Answer { which: round + at, n_tools: 0, reason: 4 },
                };
                bench.act(&act, true);
                self.now = self.of(name).now;
                let now = self.now;
                self.threads.values_mut().for_each(|bench| bench.now = now);
                self.settle();
            }
        }
        let open = self.threads.iter().filter(|(_, bench)| !bench.state().is_ended());
        let open: Vec<_> = open.map(|(name, bench)| (name, bench.thread.effects())).collect();
        panic!("of {yaml} did not end: {open:#?}");
    }
}

/// Money and tokens that nothing spends, and a few more rounds.
fn more() -> crate::event::LimitRaised {
    let (tokens, cost_nanousd) = (Some(1 << 50), Some(1 << 50));
    crate::event::LimitRaised { tokens, cost_nanousd, iterations: Some(5), allow_unpriced: true, by: None }
}
