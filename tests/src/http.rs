//! A request over HTTP to a server that may be paused, or gone.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The status and the body of an answer; `None` if there is none within two seconds. Each header ends with CRLF.
pub fn ask(address: &str, method: &str, path: &str, headers: &str, body: &str) -> Option<(u16, String)> {
    ask_within(Duration::from_secs(2), address, method, path, headers, body)
}

/// As [`ask`], with a silence of this time at most.
pub fn ask_within(
    silence: Duration,
    address: &str,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Option<(u16, String)> {
    let mut connection = TcpStream::connect(address).ok()?;
    connection.set_read_timeout(Some(silence)).ok()?;
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}");
    write!(connection, "{head}content-length: {length}\r\n\r\n{body}").ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split_whitespace().nth(1)?.parse().ok()?, body.to_owned()))
}

/// The status of `GET /health/ready`; `None` as in [`ask`].
pub fn readiness(address: &str) -> Option<u16> {
    ask(address, "GET", "/health/ready", "", "").map(|(status, _)| status)
}

/// The first address in what a server said.
pub fn address(said: &str) -> String {
    said.split("http://").nth(1).unwrap().split(['/', ' ', '?', '\n']).next().unwrap().trim().to_owned()
}
