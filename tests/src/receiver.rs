//! A receiver of webhooks.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

/// What was posted.
pub struct Post {
    /// Its headers, with names in small letters.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub event: Value,
}

/// Takes what is posted and answers with these statuses, then with 200 for ever. Returns its address, and what it answered with
/// 200.
pub fn receiver(statuses: impl IntoIterator<Item = u16>) -> (String, Receiver<Post>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?key=hunter2", listener.local_addr().unwrap());
    let (sender, posts) = channel();
    let mut statuses: VecDeque<u16> = statuses.into_iter().collect();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut reader = BufReader::new(socket.unwrap());
            loop {
                let (mut line, mut headers) = (String::new(), Vec::new());
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    break;
                }
                loop {
                    line.clear();
                    reader.read_line(&mut line).unwrap();
                    let Some((name, value)) = line.trim_end().split_once(": ") else { break };
                    headers.push((name.to_ascii_lowercase(), value.to_owned()));
                }
                let length = headers.iter().find(|(name, _)| name == "content-length").unwrap().1.parse().unwrap();
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let status = statuses.pop_front().unwrap_or(200);
                write!(reader.get_mut(), "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").unwrap();
                if status == 200
                    && sender.send(Post { headers, event: serde_json::from_slice(&body).unwrap() }).is_err()
                {
                    return;
                }
            }
        }
    });
    (url, posts)
}
