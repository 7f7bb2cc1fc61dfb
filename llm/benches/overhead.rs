//! What a client adds to a call: CPU time per whole call on loopback, per streamed chunk, and to build a large request, each
//! beside a floor in the same run; memory of many streams at once, and the speed of counting. The CPU time is that of the
//! thread that runs the client alone; the server has one of its own.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rethread_events::message::{Message, Role, ToolSpec};
use rethread_llm::tokens::Encoding;
use rethread_llm::{CallContext, Client, Delta, Listener, Profile, Profiles, Provider, Request};

const CHUNKS: usize = 2_000;

/// Answers every request on every connection with the same bytes; the path tells which.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::Builder::new().stack_size(64 << 10).spawn(move || answer(stream)).unwrap();
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut buffer = vec![0; 16 << 10];
    let mut have = 0;
    while let Ok(n) = stream.read(&mut buffer[have..]) {
        if n == 0 {
            return;
        }
        have += n;
        let text = String::from_utf8_lossy(&buffer[..have]);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .to_lowercase()
            .split("content-length: ")
            .nth(1)
            .map_or(0, |rest| rest.split("\r\n").next().unwrap().parse::<usize>().unwrap());
        if body.len() < length {
            continue;
        }
        let hold = head.contains("/hold/");
        let form = FORMS.iter().find(|form| head.contains(form.path)).unwrap();
        let is_streamed = body.contains("\"stream\":true") || form.provider == Provider::Gemini;
        have = 0;
        let sent = if is_streamed { stream_answer(&mut stream, form, hold) } else { whole_answer(&mut stream) };
        if sent.is_err() {
            return;
        }
    }
}

fn whole_answer(stream: &mut TcpStream) -> std::io::Result<()> {
    let body = r#"{"id":"c","model":"m","choices":[{"message":{"role":"assistant","content":"The answer is forty-two."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":6,"total_tokens":16}}"#;
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// The events of a stream as a provider sends them: those before the pieces of text, one piece, those after them.
struct Form {
    provider: Provider,
    model: &'static str,
    /// The part of the path that names it.
    path: &'static str,
    before: &'static str,
    piece: &'static str,
    after: &'static str,
}

const FORMS: [Form; 4] = [
    Form {
        provider: Provider::OpenaiChat,
        model: "gpt-4o",
        path: "/chat/completions",
        before: "",
        piece: "data: {\"id\":\"chatcmpl-abcdefghijklmnop\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"gpt-4o-2024-08-06\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_0123456789\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"logprobs\":null,\"finish_reason\":null}],\"obfuscation\":\"abcdef\"}\n\n",
        after: "data: {\"id\":\"chatcmpl-abcdefghijklmnop\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"gpt-4o-2024-08-06\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    },
    Form {
        provider: Provider::OpenaiResponses,
        model: "gpt-6.1-sol",
        path: "/responses",
        before: "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"sequence_number\":2,\"output_index\":0,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",\"status\":\"in_progress\",\"content\":[],\"role\":\"assistant\"}}\n\n",
        piece: "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":5,\"item_id\":\"msg_0123456789abcdef0123456789abcdef\",\"output_index\":0,\"content_index\":0,\"delta\":\" word\",\"logprobs\":[],\"obfuscation\":\"abcdef\"}\n\n",
        after: "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":9,\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"completed\",\"model\":\"gpt-6.1-sol\",\"output\":[{\"id\":\"msg_1\",\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"words\",\"annotations\":[]}]}],\"usage\":{\"input_tokens\":10,\"output_tokens\":6,\"total_tokens\":16}}}\n\n",
    },
    Form {
        provider: Provider::Anthropic,
        model: "claude-sonnet-5-5",
        path: "/messages",
        before: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-sonnet-5-5\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        piece: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" word\"}}\n\n",
        after: "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":2000}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    },
    Form {
        provider: Provider::Gemini,
        model: "gemini-3.8-flash",
        path: ":streamGenerateContent",
        before: "",
        piece: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\" word\"}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":6,\"totalTokenCount\":16,\"promptTokensDetails\":[{\"modality\":\"TEXT\",\"tokenCount\":10}]},\"modelVersion\":\"gemini-3.8-flash\",\"responseId\":\"abcdefghijklmnop\"}\n\n",
        after: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":6,\"totalTokenCount\":16},\"modelVersion\":\"gemini-3.8-flash\"}\n\n",
    },
];

/// Sends the events, some of them to a packet.
fn stream_answer(stream: &mut TcpStream, form: &Form, hold: bool) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
    let chunk = |data: &str| format!("{:x}\r\n{data}\r\n", data.len());
    if !form.before.is_empty() {
        stream.write_all(chunk(form.before).as_bytes())?;
    }
    if hold {
        stream.write_all(chunk(form.piece).as_bytes())?;
        std::thread::sleep(Duration::from_secs(2));
    } else {
        let packet = chunk(form.piece).repeat(4);
        for _ in 0..CHUNKS / 4 {
            stream.write_all(packet.as_bytes())?;
        }
    }
    stream.write_all(chunk(form.after).as_bytes())?;
    stream.write_all(b"0\r\n\r\n")
}

fn client(address: SocketAddr, path: &str, form: &Form) -> Arc<dyn Client> {
    let mut profile = Profile::new(form.provider, form.model);
    profile.base_url = Some(format!("http://{address}{path}"));
    let mut profiles = Profiles::empty().with_env(|_| Some("k".into()));
    profiles.insert("p", profile);
    profiles.client("p").unwrap()
}

fn request(form: &Form, stream: bool) -> Request {
    let messages = vec![
        Arc::new(Message::text(Role::System, "You are a helpful assistant. Be brief.")),
        Arc::new(Message::text(Role::User, "What is the answer to life, the universe and everything?")),
    ];
    Request { stream, ..Request::new(form.model, messages) }
}

/// Counts pieces, as a subscriber would.
struct Pieces(usize);

impl Listener for Pieces {
    fn delta(&mut self, delta: Delta) {
        self.0 += usize::from(matches!(delta, Delta::Text(_)));
    }
}

/// The CPU time this thread has used (Linux; elsewhere the wall clock has to do).
fn cpu() -> Duration {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .map_or_else(|| EPOCH.elapsed(), Duration::from_nanos)
}

static EPOCH: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

fn rss_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|l| l.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

fn calls(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address = serve();
    let [chat, ..] = &FORMS;
    let of_chat = client(address, "/v1", chat);
    let mut group = c.benchmark_group("cpu of the client");
    group.sample_size(20).measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_millis(500));
    let (whole, streamed) = (request(chat, false), request(chat, true));
    // The floor: the HTTP library alone, with bodies of the same size, of which nothing is read.
    let http = reqwest::Client::new();
    let url = format!("http://{address}/v1/chat/completions");
    let body = |request: &Request| serde_json::to_vec(request).unwrap();
    let bodies = [body(&whole), body(&streamed)];
    let mut floor = |name: &str, body: &Vec<u8>| {
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                runtime.block_on(async {
                    let start = cpu();
                    for _ in 0..n {
                        let mut answer = http.post(&url).body(body.clone()).send().await.unwrap();
                        while let Some(piece) = answer.chunk().await.unwrap() {
                            black_box(piece);
                        }
                    }
                    cpu() - start
                })
            });
        });
    };
    floor("floor of a whole call", &bodies[0]);
    floor("floor of 2000 streamed chunks", &bodies[1]);
    group.bench_function("whole call on loopback", |b| {
        b.iter_custom(|n| {
            runtime.block_on(async {
                let start = cpu();
                for _ in 0..n {
                    black_box(of_chat.call(&whole, CallContext::new("k", &mut ())).await.unwrap());
                }
                cpu() - start
            })
        });
    });
    group.throughput(Throughput::Elements(CHUNKS as u64));
    for form in &FORMS {
        let (client, streamed) = (client(address, "/v1", form), request(form, true));
        group.bench_function(format!("2000 streamed chunks of {}", form.provider.name()), |b| {
            b.iter_custom(|n| {
                runtime.block_on(async {
                    let start = cpu();
                    for _ in 0..n {
                        let mut pieces = Pieces(0);
                        client.call(&streamed, CallContext::new("k", &mut pieces)).await.unwrap();
                        assert_eq!(pieces.0, CHUNKS);
                    }
                    cpu() - start
                })
            });
        });
    }
    group.finish();
}

/// A conversation of 1 MB and its tools as a provider is sent them, in bytes. The floor writes the conversation alone as JSON.
fn large_requests(c: &mut Criterion) {
    let text = "A sentence of this conversation, with \"quotes\" and a line.\n".repeat(16);
    let turn = |role| Arc::new(Message::text(role, text.clone()));
    // Odd, so that the user speaks last: no answer is continued.
    let n_messages = ((1 << 20) / text.len()) | 1;
    let messages: Vec<_> =
        (0..n_messages).map(|n| turn(if n % 2 == 0 { Role::User } else { Role::Assistant })).collect();
    let parameters =
        serde_json::json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let tool = |n| ToolSpec {
        name: format!("tool_{n}"),
        description: Some("Does it.".into()),
        parameters: parameters.clone().into(),
    };
    let mut group = c.benchmark_group("request of 1 MB");
    group.sample_size(20).measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_millis(500));
    group.bench_function("floor", |b| b.iter(|| serde_json::to_vec(black_box(&messages)).unwrap()));
    for (provider, model) in [
        (Provider::OpenaiChat, "gpt-4.1"),
        (Provider::OpenaiResponses, "gpt-6.1-sol"),
        (Provider::Anthropic, "claude-sonnet-5-5"),
        (Provider::Gemini, "gemini-3.8-flash"),
    ] {
        let recorded = Profiles::empty().recorded_for(provider, model).unwrap();
        let request = Request { tools: (0..20).map(tool).collect(), ..Request::new(model, messages.clone()) };
        group.bench_function(provider.name(), |b| {
            b.iter(|| recorded.body_bytes(black_box(&request)).unwrap());
        });
    }
    group.finish();
}

/// A thousand streams that have begun and wait. The server's threads are in the same process and in the figure.
fn many_streams(_: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let [chat, ..] = &FORMS;
    let client = client(serve(), "/hold/v1", chat);
    let request = request(chat, true);
    let before = rss_mib();
    let most = runtime.block_on(async {
        let calls = (0..1_000).map(|_| async {
            let mut pieces = Pieces(0);
            client.call(&request, CallContext::new("k", &mut pieces)).await.unwrap();
        });
        let watch = async {
            let mut most = 0.0_f64;
            for _ in 0..30 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                most = most.max(rss_mib());
            }
            most
        };
        futures::future::join(futures::future::join_all(calls), watch).await.1
    });
    let mut out = String::new();
    let _ = writeln!(
        out,
        "1000 concurrent streams: {most:.0} MiB resident in all, {:.0} MiB more than before",
        most - before
    );
    std::io::stdout().write_all(out.as_bytes()).unwrap();
}

fn counting(c: &mut Criterion) {
    let prose =
        "The quick brown fox jumps over the lazy dog, and then (as foxes do) it looks back twice.\n".repeat(1_000);
    let code = "fn main() {\n    let total: u64 = items.iter().map(|i| i.len() as u64).sum();\n    println!(\"{total}\");\n}\n".repeat(1_000);
    let mut group = c.benchmark_group("counting");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    for (name, text) in [("prose", &prose), ("code", &code)] {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("cold {name}"), |b| b.iter(|| Encoding::O200kBase.count(black_box(text))));
    }
    group.finish();
}

criterion_group!(benches, calls, large_requests, counting, many_streams);
criterion_main!(benches);
