//! How long the last steps of a thread took.

use std::time::Duration;

/// A step that takes longer is not short: other threads of its event loop would wait for it.
const SHORT: Duration = Duration::from_micros(200);
/// How many short steps are many. Where each second step takes long, one of 17 of these is taken on the event loop.
const MANY: u32 = 8;

/// How many steps of a thread in a row were short.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShortSteps(u32);

impl ShortSteps {
    /// Records how long a step took.
    pub(crate) fn took(&mut self, time: Duration) {
        self.0 = if time <= SHORT { self.0.saturating_add(1) } else { 0 };
    }

    /// Whether the next step will most likely be short as well.
    pub(crate) fn are_many(self) -> bool {
        self.0 >= MANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_step_ends_the_row() {
        let mut steps = ShortSteps::default();
        let row = |steps: &mut ShortSteps| {
            let mut n = 0;
            while !steps.are_many() {
                steps.took(SHORT);
                n += 1;
            }
            n
        };
        assert_eq!(row(&mut steps), MANY);
        steps.took(SHORT);
        assert!(steps.are_many());
        steps.took(SHORT + Duration::from_nanos(1));
        assert_eq!(row(&mut steps), MANY);
    }
}
