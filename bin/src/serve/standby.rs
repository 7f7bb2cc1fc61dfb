//! A server that waits to take a log in a stream over from another process.

use std::future::Future;
use std::net::TcpListener;
use std::pin::pin;
use std::time::Duration;

use actix_web::middleware::NormalizePath;
use actix_web::{App, HttpResponse, HttpServer, web};
use rethread::Runtime;

use super::forward::{self, Forwarder, forward};
use super::health;
use super::problem::Problem;
use crate::exit::Failure;
use crate::interrupt::interrupted;
use crate::open;
use crate::output;
use crate::stream::Standby;

/// How often it looks who has the log.
const LOOK: Duration = Duration::from_millis(100);

/// Waits until the log is open, and passes requests on to the server that has it meanwhile. Prints who has the log, if its
/// own `url` is given.
/// `None` if a signal asks the program to end.
///
/// # Errors
/// Those of opening the log.
pub(super) async fn wait(
    listener: &TcpListener,
    standby: &Standby,
    body_bytes_max: usize,
    url: Option<&str>,
    opening: impl Future<Output = Result<Runtime, Failure>>,
) -> Result<Option<Runtime>, Failure> {
    let forwarder = Forwarder::new(standby.clone(), listener.local_addr()?, body_bytes_max).map_err(Failure::other)?;
    let ending = forwarder.clone();
    let forwarder = web::Data::new(forwarder);
    let http = HttpServer::new(move || {
        App::new()
            .app_data(forwarder.clone())
            .wrap(NormalizePath::trim())
            .route("/health/live", web::get().to(health::live))
            // Those of this server, and not of the one that has the log.
            .route("/health/ready", web::to(stands_by))
            .route("/metrics", web::to(stands_by))
            .default_service(web::to(forward))
    })
    .workers(1)
    .disable_signals()
    .shutdown_timeout(1)
    .listen(listener.try_clone()?)?
    .run();
    let handle = http.handle();
    let http = tokio::spawn(http);
    let mut opening = pin!(opening);
    let mut look = tokio::time::interval(LOOK);
    let mut said = None;
    let opened = loop {
        tokio::select! {
            opened = &mut opening => break opened.map(Some),
            () = interrupted() => {
                standby.end();
                // It may have been opened at this moment.
                if let Ok(runtime) = opening.await {
                    open::close(runtime).await?;
                }
                break Ok(None);
            }
            _ = look.tick() => {
                let holder = standby.holder();
                if holder != said && let (Some(holder), Some(url)) = (&holder, url) {
                    output::print_message(&format!("standing by at {url} while {holder} has the log"));
                }
                said = holder;
            }
        }
    };
    ending.end();
    // What has been answered is sent. Connections that come now wait for the server.
    handle.stop(true).await;
    drop(http.await);
    opened
}

async fn stands_by() -> Result<HttpResponse, Problem> {
    Err(forward::stands_by(""))
}
