//! Names of things that one of the runtimes of a log does for all of them.

use std::time::Duration;

use crate::error::RuntimeError;
use crate::runtime::Runtime;
use crate::shared::{Held, place_of};

/// How often a runtime looks whether a name has become its own.
const LOOK: Duration = Duration::from_millis(250);

/// A name that belongs to this runtime alone until this is dropped.
pub struct HeldName(#[expect(dead_code, reason = "it is dropped")] Option<Held>);

impl Runtime {
    /// Waits until a name belongs to this runtime, and keeps it until the result is dropped. For what one process does for the
    /// whole log, such as following a cursor: where several runtimes have the log, each name belongs to one of them, and to
    /// another one when that one shuts down or is taken for dead. One that was taken for dead can go on for a while; nothing
    /// counts that it writes to the log then. Returns at once where this runtime has the log alone. Nothing happens if the future is dropped.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = rethread::Runtime::builder().in_memory().start().await?;
    /// let held = runtime.hold_name("reports").await?;
    /// let next = runtime.cursor("reports").await?;
    /// // Follow the log from there, and save the cursor.
    /// drop(held);
    /// # runtime.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `ShuttingDown`.
    pub async fn hold_name(&self, name: &str) -> Result<HeldName, RuntimeError> {
        let (registry, place) = (self.registry(), place_of(name));
        loop {
            if registry.is_shutting_down() {
                return Err(RuntimeError::ShuttingDown);
            }
            if let Some(held) = registry.hold(place) {
                return Ok(HeldName(held));
            }
            registry.sleep(LOOK).await;
        }
    }
}
