//! The usage of one evaluation, and its limits.

use std::cell::Cell;

use minijinja::{Error, ErrorKind};

/// The most bytes that one evaluation makes, intermediate values included.
pub(super) const MADE_BYTES_MAX: u64 = 64 << 20;
/// The most elements of nested values that one evaluation visits to find how deep they are.
const VISITS_MAX: u64 = 10_000_000;

thread_local! {
    /// What the running evaluation on this OS thread has created, in bytes, and visited, in elements.
    static SPENT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Restores what an outer evaluation has spent.
struct Restore((u64, u64));

impl Drop for Restore {
    fn drop(&mut self) {
        SPENT.set(self.0);
    }
}

/// Runs an evaluation, which may spend all that one may.
pub(super) fn metered<T>(run: impl FnOnce() -> T) -> T {
    let _restore = Restore(SPENT.replace((0, 0)));
    run()
}

/// Charges for bytes that were made.
pub(super) fn charge(bytes: u64) -> Result<(), Error> {
    let (made, visited) = SPENT.get();
    let made = made.saturating_add(bytes);
    SPENT.set((made, visited));
    if made > MADE_BYTES_MAX {
        let what = format!("makes more than {MADE_BYTES_MAX} bytes on the way to its value");
        return Err(Error::new(ErrorKind::InvalidOperation, what));
    }
    Ok(())
}

/// Charges for an element whose depth is looked up.
pub(super) fn visit() -> Result<(), Error> {
    let (made, visited) = SPENT.get();
    SPENT.set((made, visited + 1));
    if visited >= VISITS_MAX {
        let what = format!("visits more than {VISITS_MAX} elements");
        return Err(Error::new(ErrorKind::InvalidOperation, what));
    }
    Ok(())
}
