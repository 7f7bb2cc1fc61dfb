//! A client of HTTP/1.1 that hides nothing: what is sent is what the test says, what comes is what it gets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rethread_tests::binary::HANG;
use serde_json::Value;

/// A request to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

/// The response.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) bytes: Vec<u8>,
}

impl Request {
    pub(crate) fn new(address: SocketAddr, method: &str, path: &str) -> Self {
        Self { address, method: method.into(), path: path.into(), headers: Vec::new(), body: None }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    pub(crate) fn body(mut self, media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self.header("Content-Type", media_type)
    }

    /// Sends it, and gives what comes as it comes.
    pub(crate) fn open(self) -> std::io::Result<Stream> {
        let mut socket = TcpStream::connect(self.address)?;
        socket.set_read_timeout(Some(HANG))?;
        socket.set_nodelay(true)?;
        let mut head = format!("{} {} HTTP/1.1\r\nConnection: close\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let body = self.body.unwrap_or_default();
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        socket.write_all(&[head.as_bytes(), &body].concat())?;
        Stream::read_head(socket)
    }

    /// Sends it and reads the whole answer.
    #[track_caller]
    pub(crate) fn send(self) -> Response {
        let what = format!("{} {}", self.method, self.path);
        let stream = self.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        stream.whole().unwrap_or_else(|error| panic!("{what}: {error}"))
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Checks the status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }

    #[track_caller]
    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Checks that it is a problem of this kind, and gives it.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, kind: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.value();
        assert_eq!(problem["type"], format!("urn:rethread:problem:{kind}"), "{problem}");
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().is_some_and(|text| text.len() > 10), "{problem}");
        problem
    }
}

/// An answer that is read as it comes.
pub(crate) struct Stream {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
    chunked: bool,
    left: usize,
    ended: bool,
    line: Vec<u8>,
}

impl Stream {
    fn read_head(socket: TcpStream) -> std::io::Result<Self> {
        let mut reader = BufReader::new(socket);
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        let mut headers = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_owned(), value.to_owned()));
        }
        let find = |wanted: &str| headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let chunked = find("transfer-encoding").is_some();
        let left = find("content-length").map_or(0, |(_, value)| value.parse().unwrap());
        let ended = !chunked && left == 0;
        Ok(Self { status, headers, reader, chunked, left, ended, line: Vec::new() })
    }

    fn byte(&mut self) -> std::io::Result<Option<u8>> {
        if self.chunked && self.left == 0 && !self.ended {
            let mut size = String::new();
            self.reader.read_line(&mut size)?;
            if size.trim().is_empty() {
                size.clear();
                self.reader.read_line(&mut size)?;
            }
            if size.is_empty() {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            self.left = usize::from_str_radix(size.trim(), 16).unwrap();
            self.ended = self.left == 0;
        }
        if self.ended {
            return Ok(None);
        }
        let mut byte = [0];
        self.reader.read_exact(&mut byte)?;
        self.left -= 1;
        self.ended = !self.chunked && self.left == 0;
        Ok(Some(byte[0]))
    }

    /// The next line without its end; `None` when there is no more.
    pub(crate) fn line(&mut self) -> std::io::Result<Option<String>> {
        loop {
            match self.byte()? {
                Some(b'\n') => return Ok(Some(String::from_utf8(std::mem::take(&mut self.line)).unwrap())),
                Some(byte) => self.line.push(byte),
                None if self.line.is_empty() => return Ok(None),
                None => return Ok(Some(String::from_utf8(std::mem::take(&mut self.line)).unwrap())),
            }
        }
    }

    fn whole(mut self) -> std::io::Result<Response> {
        let mut bytes = Vec::new();
        while let Some(byte) = self.byte()? {
            bytes.push(byte);
        }
        let body = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Response { status: self.status, headers: self.headers, body, bytes })
    }

    /// The next server-sent event that has data; `None` at the end of the stream.
    pub(crate) fn event(&mut self) -> std::io::Result<Option<SentEvent>> {
        let mut event = SentEvent::default();
        while let Some(line) = self.line()? {
            match line.split_once(": ") {
                Some(("id", value)) => event.id = Some(value.to_owned()),
                Some(("event", value)) => value.clone_into(&mut event.name),
                Some(("data", value)) => value.clone_into(&mut event.data),
                _ if line.is_empty() && event.data.is_empty() => event = SentEvent::default(),
                _ if line.is_empty() => return Ok(Some(event)),
                _ => {}
            }
        }
        Ok(None)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// A server-sent event.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SentEvent {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: String,
}

impl SentEvent {
    pub(crate) fn position(&self) -> u64 {
        self.id.as_ref().unwrap().parse().unwrap()
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}
