//! What a server that stands by does with requests: it passes them on to the one that has the log.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use actix_web::http::header::{self, HeaderName};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse, web};
use futures::future::ready;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::problem::{Kind, Problem};
use crate::stream::Standby;

/// How long the other server may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long the body of a request may take.
const BODY_MAX: Duration = Duration::from_secs(60);
/// Says that a request was passed on: one server passes it on, and no second one does.
const FORWARDED: &str = "x-rethread-forwarded";
/// What is between two neighbours, and not passed on. The last two follow from the body.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    header::CONTENT_LENGTH,
];

/// Passes requests on.
#[derive(Debug, Clone)]
pub(super) struct Forwarder {
    standby: Standby,
    /// Where this server listens.
    own: SocketAddr,
    body_bytes_max: usize,
    client: reqwest::Client,
    /// Cancelled once this server has the log: what the other one has not answered it never will.
    over: CancellationToken,
}

impl Forwarder {
    /// # Errors
    /// When no client of HTTP can be made.
    pub(super) fn new(standby: Standby, own: SocketAddr, body_bytes_max: usize) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .redirect(reqwest::redirect::Policy::none())
            // What is compressed stays so, for who asked for it.
            .no_gzip()
            .no_proxy()
            .build()?;
        Ok(Self { standby, own, body_bytes_max, client, over: CancellationToken::new() })
    }

    /// Ends what is passed on now.
    pub(super) fn end(&self) {
        self.over.cancel();
    }

    /// The address of the server that has the log.
    fn target(&self) -> Option<Url> {
        target(&self.standby.holder()?, self.standby.is_holder_near(), self.own.ip())
    }
}

/// The address in what a process that has the log says of itself, if requests to a server with the address `own` may be
/// passed on to it. `is_near` says that both have one loopback network.
fn target(holder: &str, is_near: bool, own: IpAddr) -> Option<Url> {
    let url = holder.strip_prefix("rethread serve at ")?.split([',', ' ']).next()?.parse::<Url>().ok()?;
    let address: IpAddr = match url.host()? {
        url::Host::Ipv4(address) => address.into(),
        url::Host::Ipv6(address) => address.into(),
        url::Host::Domain(_) => return None,
    };
    // Whoever reaches a server at a loopback address is on its machine, and may need no token.
    let is_for_both = own.is_loopback() && is_near || !address.is_loopback();
    (url.scheme() == "http" && !address.is_unspecified() && is_for_both).then_some(url)
}

pub(super) fn stands_by(why: &str) -> Problem {
    Problem::new(Kind::StandingBy, format!("another process has the log{why}: send the request to that, or try again"))
}

/// Passes a request on, and its answer back as it comes. The other server checks it as if it had been sent there: it has the
/// same token, and the name that it was sent to.
pub(super) async fn forward(
    request: HttpRequest,
    body: web::Payload,
    forwarder: web::Data<Forwarder>,
) -> Result<HttpResponse, Problem> {
    if request.headers().contains_key(FORWARDED) {
        return Err(stands_by(""));
    }
    let Some(mut url) = forwarder.target() else { return Err(stands_by("")) };
    url.set_path(request.uri().path());
    url.set_query(request.uri().query());
    let read = tokio::time::timeout(BODY_MAX, body.to_bytes_limited(forwarder.body_bytes_max)).await;
    let body = match read.map_err(|_| Problem::new(Kind::Timeout, "the body of the request did not come in time"))? {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return Err(Problem::new(Kind::InvalidRequest, "the body of the request could not be read")),
        Err(_) => {
            let detail = format!("the body has more than {} bytes", forwarder.body_bytes_max);
            return Err(Problem::new(Kind::TooLarge, detail));
        }
    };
    let method = reqwest::Method::from_bytes(request.method().as_str().as_bytes());
    let method = method.map_err(|_| Problem::new(Kind::InvalidRequest, "the method is not known"))?;
    let mut passed_on = forwarder.client.request(method, url).header(FORWARDED, "1");
    for (name, value) in request.headers() {
        if !HOP_BY_HOP.contains(name) {
            passed_on = passed_on.header(name.as_str(), value.as_bytes());
        }
    }
    let unknown = || {
        let detail = "the server that had the log did not answer; the operation may have been done: check before you \
                      repeat it";
        Problem::new(Kind::Timeout, detail)
    };
    let sent = tokio::select! {
        sent = passed_on.body(body).send() => sent,
        () = forwarder.over.cancelled() => return Err(unknown()),
    };
    let answer = match sent {
        Ok(answer) => answer,
        Err(error) if error.is_connect() => {
            tracing::debug!(%error, "the server that has the log cannot be reached");
            return Err(stands_by(", and cannot be reached from here"));
        }
        Err(error) => {
            tracing::debug!(%error, "the server that has the log did not answer");
            return Err(unknown());
        }
    };
    let status = StatusCode::from_u16(answer.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = HttpResponse::build(status);
    for (name, value) in answer.headers() {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_str().as_bytes()), header::HeaderValue::from_bytes(value.as_bytes()))
            && !HOP_BY_HOP.contains(&name)
        {
            response.append_header((name, value));
        }
    }
    // A length that is known says to clients whether the answer is whole.
    if let Some(n) = answer.content_length().filter(|_| request.method() != Method::HEAD) {
        response.no_chunking(n);
    }
    // An answer that breaks off there breaks off here.
    let (over, is_over) = (forwarder.over.clone().cancelled_owned(), forwarder.over.clone());
    let broken =
        stream::once(async move { is_over.is_cancelled().then(|| Err(io::ErrorKind::ConnectionReset.into())) });
    let answer = answer.bytes_stream().map_err(io::Error::other).take_until(over);
    Ok(response.streaming(answer.chain(broken.filter_map(ready))))
}

#[cfg(test)]
mod tests {
    use super::target;
    use std::net::Ipv6Addr;

    #[test]
    fn requests_are_passed_on_to_the_server_that_has_the_log() {
        let target = |holder: &str, own: &str| target(holder, true, own.parse().unwrap()).map(|url| url.to_string());
        let holder = "rethread serve at http://10.0.0.1:7117, pid 4711";
        for own in ["10.0.0.2", "127.0.0.1", "0.0.0.0"] {
            assert_eq!(target(holder, own).unwrap(), "http://10.0.0.1:7117/");
        }
        let local = "rethread serve at http://[::1]:7117, pid 4711";
        assert_eq!(target(local, "::1").unwrap(), "http://[::1]:7117/");
        // Its loopback address is another server here, or none.
        assert_eq!(super::target(local, false, Ipv6Addr::LOCALHOST.into()), None);
        // Not from other machines to one that only its own machine reaches, nor to where nobody listens.
        assert_eq!(target(local, "0.0.0.0"), None);
        assert_eq!(target("rethread serve at http://127.0.0.1:7117, pid 1", "10.0.0.2"), None);
        assert_eq!(target("rethread serve at http://0.0.0.0:7117, pid 1", "10.0.0.2"), None);
        // A command, and what nobody says of itself.
        for holder in
            ["rethread run, pid 1", "", "rethread serve at file:///etc/passwd", "rethread serve at http://example.com"]
        {
            assert_eq!(target(holder, "127.0.0.1"), None, "{holder}");
        }
    }
}
