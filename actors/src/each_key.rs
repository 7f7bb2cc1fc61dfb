//! Work for each of many keys of the log, which are read page by page.

use std::sync::Arc;
use std::time::Duration;

use rethread_store::{LogReader, StoreError};

use crate::blocking::blocking;
use crate::registry::ThreadRegistry;

/// How many keys are read at a time.
const PAGE: usize = 256;
/// How long to wait before a retry if the log cannot be read or written.
pub(crate) const STORE_RETRY: Duration = Duration::from_secs(1);

/// Does `work` for each key that `read` returns: those after the given one, at most as many as the number says. If the log
/// cannot be read, that is said once, and tried again until the runtime stops. `what` says for people whose keys they are.
pub(crate) async fn each_key<K: Copy + Send + 'static>(
    registry: &Arc<ThreadRegistry>,
    what: &'static str,
    read: impl Fn(&dyn LogReader, Option<K>, usize) -> Result<Vec<K>, StoreError> + Clone + Send + 'static,
    mut work: impl AsyncFnMut(K),
) {
    let mut after = None;
    let mut is_said = false;
    while !registry.is_shutting_down() {
        let (of, read) = (registry.clone(), read.clone());
        match blocking(move || read(&*of.services.store, after, PAGE)).await {
            Ok(Ok(page)) => {
                for key in &page {
                    work(*key).await;
                }
                if page.len() < PAGE {
                    return;
                }
                after = page.last().copied();
            }
            Ok(Err(error)) => {
                if !std::mem::replace(&mut is_said, true) {
                    tracing::error!(%error, what, "keys of the log cannot be read: trying again");
                }
                tokio::time::sleep(STORE_RETRY).await;
            }
            Err(_) => return,
        }
    }
}
