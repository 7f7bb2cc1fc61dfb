//! Who sends a request, and what they may do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::HttpRequest;
use rethread::operate::Labels;
use rethread::{Principal, ThreadHandle, ThreadId};

use crate::serve::guard::{self, By};
use crate::serve::problem::Problem;
use crate::serve::server::Server;
use crate::serve::tokens::Scope;

/// Who sends a request, and what they may do.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    scope: Scope,
    /// The labels that the token is bound to.
    pub(super) labels: Labels,
    principal: Principal,
    pub(super) by: Option<By>,
    /// Whether the server has ended the response.
    is_cut: Arc<AtomicBool>,
}

impl Caller {
    /// The sender of a request, which the guard has admitted.
    pub(super) fn of(server: &Server, request: &HttpRequest) -> Self {
        Self {
            scope: guard::allowed(request),
            labels: guard::bound_to(request),
            principal: guard::principal(server, request),
            by: guard::by(request),
            is_cut: Arc::default(),
        }
    }

    /// The user of this program, who could open the log as well.
    pub(super) fn command() -> Self {
        Self {
            scope: Scope::Admin,
            labels: Labels::new(),
            principal: Principal::Command,
            by: None,
            is_cut: Arc::default(),
        }
    }

    /// Checks that the caller may run threads.
    pub(super) fn check_may_run(&self, server: &Server) -> Result<(), Problem> {
        guard::check(server, self.scope, Scope::Operate)
    }

    /// Checks that the token was not revoked since the request began.
    pub(super) fn check_still_allowed(&self, server: &Server) -> Result<(), Problem> {
        guard::check_still_allowed(server, self.by)
    }

    /// Whether the response may go on. If not, the server ends it, and not the client.
    pub(super) fn may_read_on(&self, server: &Server) -> bool {
        let may = self.check_still_allowed(server).is_ok();
        if !may {
            self.is_cut.store(true, Ordering::Relaxed);
        }
        may
    }

    /// Whether the server has ended the response.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    /// The thread of this id, for the caller.
    ///
    /// # Errors
    /// `NoThread`, also if it has other labels than the token.
    pub(super) async fn thread(&self, server: &Server, id: ThreadId) -> Result<ThreadHandle, Problem> {
        if !self.labels.is_empty() {
            guard::is_of(server, id, &self.labels).await?;
        }
        let thread = server.runtime.thread(id).by(self.principal.clone());
        thread.summary().await?;
        Ok(thread)
    }

    /// The principal of the caller.
    pub(super) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The same thread, for the caller.
    pub(super) fn acting_on(&self, thread: &ThreadHandle) -> ThreadHandle {
        thread.by(self.principal.clone())
    }
}
