//! The sessions of a log, for a client that lets its user choose one.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ListSessionsRequest, ListSessionsResponse, SessionInfo};
use rethread::operate::{BranchFilter, ThreadQuery};
use rethread::{Role, State, ThreadId};

use super::error::{invalid, of_failure};
use super::tools::SESSION_LABEL;
use super::turn::Log;

/// How many threads a page has.
const PAGE: usize = 50;
/// The most characters of a title.
const TITLE_CHARS_MAX: usize = 80;

/// Returns a page of the threads that are not branches, the newest first.
pub(super) async fn page(log: &Log<'_>, request: ListSessionsRequest) -> Result<ListSessionsResponse, Error> {
    let after = request.cursor.map(|cursor| cursor.parse::<ThreadId>()).transpose();
    let after = after.map_err(|_| invalid("cursor", "it is not from this agent"))?;
    let query = ThreadQuery { branch_of: BranchFilter::TopLevel, after, limit: PAGE, ..ThreadQuery::default() };
    let page = log.runtime.thread_page(query).await.map_err(|error| of_failure(&error.into()))?;
    let mut sessions = Vec::new();
    for summary in page.threads {
        // One that cannot be read does not hide the others.
        let Ok(state) = log.runtime.thread(summary.thread_id).state().await else { continue };
        let Some(folder) = state.workspace() else { continue };
        if request.cwd.as_ref().is_some_and(|cwd| cwd.as_os_str() != folder) {
            continue;
        }
        // At a server, the thread has another id than its session.
        let label = state.labels().get(SESSION_LABEL).filter(|_| log.server.is_some() && state.forked_from().is_none());
        let id = label.map_or_else(|| summary.thread_id.to_string(), str::to_owned);
        let session = SessionInfo::new(id, folder).title(title(&state)).updated_at(state.last_at().to_string());
        sessions.push(session);
    }
    Ok(ListSessionsResponse::new(sessions).next_cursor(page.next.map(|next| next.to_string())))
}

/// The beginning of the first message.
fn title(state: &State) -> Option<String> {
    let first = state.conversation().entries.iter().find(|entry| entry.message.role == Role::User)?;
    Some(crate::output::sanitize(&first.message.joined_text(), TITLE_CHARS_MAX))
}
