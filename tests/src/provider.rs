//! A provider of models on this machine, over plain HTTP: it gives scripted answers, and stores every body that it was
//! sent, byte for byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// The models on its list, for providers that speak as OpenAI's.
const MODELS: [&str; 3] = ["some-model", "qwen3:8b", "gpt-6-luna"];

/// How a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI Chat Completions.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini's own.
    Gemini,
}

impl Wire {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::OpenaiChat, Self::OpenaiResponses, Self::Anthropic, Self::Gemini];

    /// The name that a profile gives it.
    pub fn provider(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai_chat",
            Self::OpenaiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    fn of_path(path: &str) -> Option<Self> {
        match path.split('?').next().unwrap_or_default() {
            "/v1/chat/completions" | "/v1/embeddings" => Some(Self::OpenaiChat),
            "/v1/responses" => Some(Self::OpenaiResponses),
            "/v1/messages" => Some(Self::Anthropic),
            path if path.ends_with(":generateContent") => Some(Self::Gemini),
            _ => None,
        }
    }

    /// An answer in its words.
    fn answer(self, number: usize, said: &Said) -> Value {
        match (self, said) {
            (_, Said::Whole(answer)) => answer.clone(),
            (_, Said::Stream(events)) => json!(events),
            (_, Said::Refused(_)) => json!({ "error": { "message": "refused by the test" } }),
            (Self::OpenaiChat, Said::Text(text)) => chat("stop", &json!({ "role": "assistant", "content": text })),
            (Self::OpenaiChat, Said::Call(name, arguments)) => {
                let function = json!({ "name": name, "arguments": arguments.to_string() });
                let call = json!({ "id": format!("call_{number}"), "type": "function", "function": function });
                chat("tool_calls", &json!({ "role": "assistant", "content": null, "tool_calls": [call] }))
            }
            (Self::OpenaiResponses, Said::Text(text)) => responses(&json!({
                "type": "message", "id": format!("msg_{number}"), "role": "assistant", "status": "completed",
                "content": [{ "type": "output_text", "text": text, "annotations": [] }],
            })),
            (Self::OpenaiResponses, Said::Call(name, arguments)) => responses(&json!({
                "type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
                "name": name, "arguments": arguments.to_string(), "status": "completed",
            })),
            (Self::Anthropic, Said::Text(text)) => anthropic("end_turn", &json!({ "type": "text", "text": text })),
            (Self::Anthropic, Said::Call(name, arguments)) => {
                let id = format!("toolu_{number}");
                anthropic("tool_use", &json!({ "type": "tool_use", "id": id, "name": name, "input": arguments }))
            }
            (Self::Gemini, Said::Text(text)) => gemini(&json!({ "text": text })),
            (Self::Gemini, Said::Call(name, arguments)) => {
                gemini(&json!({ "functionCall": { "name": name, "args": arguments }, "thoughtSignature": "c2ln" }))
            }
        }
    }
}

fn chat(reason: &str, message: &Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "some-model",
        "choices": [{ "index": 0, "message": message, "finish_reason": reason }],
        "usage": { "prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11 },
    })
}

fn responses(output: &Value) -> Value {
    json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "some-model",
        "output": [output], "usage": { "input_tokens": 9, "output_tokens": 2, "total_tokens": 11 },
    })
}

fn anthropic(reason: &str, content: &Value) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "some-model", "content": [content],
        "stop_reason": reason, "stop_sequence": null, "usage": { "input_tokens": 9, "output_tokens": 2 },
    })
}

fn gemini(part: &Value) -> Value {
    json!({
        "candidates": [{ "content": { "role": "model", "parts": [part] }, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11 },
        "modelVersion": "some-model",
    })
}

/// What the model says.
#[derive(Debug, Clone)]
pub enum Said {
    /// A text.
    Text(String),
    /// A call of a tool.
    Call(String, Value),
    /// This whole answer, for every protocol.
    Whole(Value),
    /// A stream of these events, for every protocol.
    Stream(Vec<Value>),
    /// An error with this HTTP status, for every protocol.
    Refused(u16),
}

/// A provider that listens. Its thread ends with the process.
#[derive(Debug)]
pub struct Provider {
    port: u16,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Provider {
    /// One that answers what `says` makes of a body and of how many came before it.
    pub fn start(says: impl Fn(usize, &Value) -> Said + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bodies = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let kept = bodies.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A client that disconnects gets no answer.
                let _ = serve(stream, &says, &kept);
            }
        });
        Self { port, bodies }
    }

    /// The base URL for a profile that speaks so.
    pub fn base_url(&self, wire: Wire) -> String {
        match wire {
            Wire::OpenaiChat | Wire::OpenaiResponses => format!("http://127.0.0.1:{}/v1", self.port),
            Wire::Anthropic | Wire::Gemini => format!("http://127.0.0.1:{}", self.port),
        }
    }

    /// The bodies that came, in order; none is given twice.
    pub fn take_bodies(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.bodies.lock().unwrap())
    }
}

/// A provider that answers its second call only when the test releases it.
#[derive(Debug)]
pub struct SlowProvider {
    /// What listens. Its answers are `answer 0`, `answer 1` and so on.
    pub provider: Provider,
    /// Says when the second call has come.
    pub asked: Receiver<()>,
    /// Lets it be answered.
    pub answer: Sender<()>,
}

impl SlowProvider {
    /// One that listens.
    pub fn start() -> Self {
        let (is_asked, asked) = channel();
        let (answer, may_answer) = channel();
        let provider = Provider::start(move |number, _| {
            if number == 1 {
                is_asked.send(()).unwrap();
                // The program may have been killed meanwhile, or called it off.
                let _ = may_answer.recv();
            }
            Said::Text(format!("answer {number}"))
        });
        Self { provider, asked, answer }
    }

    /// A `rethread.toml` in which it is the profile `fast`.
    pub fn config(&self) -> String {
        let url = self.provider.base_url(Wire::OpenaiChat);
        format!("[profiles.fast]\nprovider = \"openai_chat\"\nmodel = \"m\"\nbase_url = \"{url}\"\nauth = \"none\"\n")
    }

    /// The contents of the messages of the last call.
    pub fn last_read(&self) -> Vec<Value> {
        let bodies = self.provider.take_bodies();
        let last: Value = serde_json::from_slice(bodies.last().unwrap()).unwrap();
        last["messages"].as_array().unwrap().iter().map(|message| message["content"].clone()).collect()
    }
}

fn serve(stream: TcpStream, says: &impl Fn(usize, &Value) -> Said, kept: &Mutex<Vec<Vec<u8>>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut n_bytes) = (String::new(), 0);
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                n_bytes = value.trim().parse().unwrap();
            }
            Some(_) => {}
            None => break,
        }
    }
    if path == "/v1/models" {
        let models: Vec<_> = MODELS.iter().map(|id| json!({ "id": id, "object": "model" })).collect();
        return send(
            reader.get_mut(),
            200,
            "application/json",
            &json!({ "object": "list", "data": models }).to_string(),
        );
    }
    let mut body = vec![0; n_bytes];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body).unwrap();
    let wire = Wire::of_path(&path).unwrap_or_else(|| panic!("no protocol at {path}"));
    let number = {
        let mut kept = kept.lock().unwrap();
        kept.push(body);
        kept.len() - 1
    };
    match says(number, &request) {
        Said::Stream(events) => {
            let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
            send(reader.get_mut(), 200, "text/event-stream", &(events + "data: [DONE]\n\n"))
        }
        said => {
            let status = if let Said::Refused(status) = said { status } else { 200 };
            send(reader.get_mut(), status, "application/json", &wire.answer(number, &said).to_string())
        }
    }
}

fn send(stream: &mut TcpStream, status: u16, kind: &str, answer: &str) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\nconnection: close");
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len())
}
