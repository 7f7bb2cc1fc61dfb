//! A server of its own log, and a client with a persistent connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rethread_tests::binary::{Running, Scene};
use serde_json::{Value, json};

pub(crate) struct Server {
    scene: Scene,
    running: Running,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(scene: Scene, options: &str) -> Self {
        let words = format!("serve --listen 127.0.0.1:0 {options}");
        let mut running = Running::start(scene.command(words.split_whitespace()));
        let line = running.wait_until_said("serving ");
        let address = line.trim().rsplit_once("http://").unwrap().1.parse().unwrap();
        Self { scene, running, address }
    }

    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.running.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub(crate) fn stop(self) -> Scene {
        self.running.signal("TERM");
        self.running.end().ok();
        self.scene
    }
}

pub(crate) struct Client {
    socket: BufReader<TcpStream>,
    chunked: bool,
}

impl Client {
    pub(crate) fn to(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket: BufReader::with_capacity(1 << 16, socket), chunked: false }
    }

    fn send(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) {
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        self.socket.get_mut().write_all(&[head.as_bytes(), body].concat()).unwrap();
    }

    fn head(&mut self) -> (u16, usize) {
        let (mut line, mut length) = (String::new(), 0);
        self.socket.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        loop {
            line.clear();
            self.socket.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name {
                "content-length" => length = value.parse().unwrap(),
                "transfer-encoding" => self.chunked = true,
                _ => {}
            }
        }
        (status, length)
    }

    fn answer(&mut self) -> Value {
        let (status, length) = self.head();
        let mut body = vec![0; length];
        self.socket.read_exact(&mut body).unwrap();
        assert!((200..300).contains(&status), "{status}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    pub(crate) fn get(&mut self, path: &str) -> Value {
        self.send("GET", path, "", b"");
        self.answer()
    }

    /// Reads the answer and does not look into it; gives how many bytes it has.
    pub(crate) fn read(&mut self, path: &str) -> usize {
        self.send("GET", path, "", b"");
        let (status, length) = self.head();
        assert_eq!(status, 200);
        let read = std::io::copy(&mut self.socket.by_ref().take(length as u64), &mut std::io::sink());
        read.unwrap() as usize
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Value {
        self.post_text(path, "application/json", &body.to_string())
    }

    pub(crate) fn post_text(&mut self, path: &str, media_type: &str, body: &str) -> Value {
        self.send("POST", path, &format!("Content-Type: {media_type}\r\n"), body.as_bytes());
        self.answer()
    }

    /// Starts a thread and waits for its end; gives its id.
    pub(crate) fn run(&mut self, workflow: &str) -> String {
        let started = self.post("/v1/threads", &json!({ "definition": workflow, "input": "Ada" }));
        let thread = started["thread_id"].as_str().unwrap().to_owned();
        loop {
            let outcome = self.get(&format!("/v1/threads/{thread}/outcome?wait_ms=30000"));
            match outcome["status"].as_str() {
                Some("pending" | "running") => {}
                Some("completed") => return thread,
                _ => panic!("{outcome}"),
            }
        }
    }

    pub(crate) fn stream(self, path: &str) -> Self {
        self.stream_as(path, "text/event-stream")
    }

    /// Sends a request whose answer is a stream.
    pub(crate) fn post_stream(mut self, path: &str, body: &Value) -> Self {
        let headers =
            "Content-Type: application/json\r\nAccept: text/event-stream\r\nA2A-Version: 1.0\r\nConnection: close\r\n";
        self.send("POST", path, headers, body.to_string().as_bytes());
        assert_eq!(self.head().0, 200);
        self
    }

    pub(crate) fn stream_as(mut self, path: &str, media_type: &str) -> Self {
        self.send("GET", path, &format!("Accept: {media_type}\r\nConnection: close\r\n"), b"");
        assert_eq!(self.head().0, 200);
        self
    }

    /// Reads up to a line that is this.
    pub(crate) fn line_with(&mut self, text: &str) {
        let mut line = String::new();
        while self.socket.read_line(&mut line).unwrap() > 0 {
            if line.contains(text) {
                return;
            }
            line.clear();
        }
        panic!("no {text}");
    }

    /// How many lines there are to the end; the sizes of chunks are no lines of the body.
    pub(crate) fn count_lines(&mut self) -> u64 {
        assert!(self.chunked);
        let (mut n, mut size, mut piece) = (0, String::new(), Vec::new());
        loop {
            size.clear();
            self.socket.read_line(&mut size).unwrap();
            let length = usize::from_str_radix(size.trim(), 16).unwrap();
            piece.resize(length + 2, 0);
            self.socket.read_exact(&mut piece).unwrap();
            if length == 0 {
                return n;
            }
            n += piece[..length].iter().filter(|byte| **byte == b'\n').count() as u64;
        }
    }
}
