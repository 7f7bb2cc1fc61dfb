#!/usr/bin/env python3
"""Providers of models on this machine, which refuse what the providers document as refused in November 2026.

    python3 fake_providers.py PORT LOG [--until-stdin-ends]

Answers Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini generateContent on 127.0.0.1, as JSON
and as streams, and their lists of models. With port 0 it takes a free one; it prints `listening on PORT`. The rules and
their sources are in the modules of `fakes`; the words that choose an answer are in `fakes.common.Script`.

A path may begin with `/lane/NAME`: each lane has its own count of answers and its own prompt cache, so that tests share a
server. A lane whose name begins with `local` is a server of one's own without keys. A key with `wrong` in it is refused.

Each request is a line of LOG before its answer is sent: lane, protocol, path, status, headers, body, the bytes of `system`,
`tools` and `messages` without markers of caching, error, answer, and the thoughts that were dropped. A request that `HOLD`
keeps open has the status 0.
"""

import collections
import gzip
import http.server
import itertools
import json
import os
import re
import select
import sys
import threading
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fakes import anthropic, gemini, openai  # noqa: E402
from fakes.common import Cache, Refused, compact, raw_elements, raw_fields, said_bytes  # noqa: E402

HEADERS = ("anthropic-version", "anthropic-beta", "user-agent", "accept", "idempotency-key", "content-type")
# How long a request is held at most, in seconds.
HELD_MAX = 300
# How many pieces of a stream are sent before it breaks.
N_BEFORE_BREAK = 2


class Lane:
    """What the requests of one test share."""

    def __init__(self):
        self.n_answers, self.held = 0, set()
        self.caches = collections.defaultdict(Cache)
        self.lock = threading.Lock()

    def next(self):
        with self.lock:
            self.n_answers += 1
            return self.n_answers

    def holds(self, text):
        """Whether this is the first request with the text that a word of the script holds or breaks."""
        with self.lock:
            is_new = text not in self.held
            self.held.add(text)
            return is_new


LANES = collections.defaultdict(Lane)
LOCK = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.serve(b"")

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.serve(gzip.decompress(raw) if self.headers.get("content-encoding") == "gzip" else raw)

    def serve(self, raw):
        url = urllib.parse.urlsplit(self.path)
        lane_name, path = re.fullmatch(r"(?:/lane/([^/]+))?(/.*)", url.path).groups()
        with LOCK:
            lane = LANES[lane_name]
        self.record = {"lane": lane_name, "protocol": None, "path": path,
                       "headers": {name: self.headers[name] for name in HEADERS if self.headers.get(name)}}
        pieces = answer = None
        try:
            text = raw.decode()
            self.record["body"] = body = json.loads(text) if text else None
            self.record["sent"] = sent(text)
            status, answer, pieces = self.route(lane, lane_name or "", path, urllib.parse.parse_qs(url.query), body)
        except Refused as refused:
            status, answer = refused.status, refused.body
            self.record["error"] = refused.text
        except Exception as error:  # What is malformed beyond the rules is a 400 as well.
            status, answer = 400, {"type": "error", "error": {"type": "invalid_request_error", "message": f"malformed: {error!r}"}}
            self.record["error"] = f"malformed: {error!r}"
        write({**self.record, "status": status, "answer": answer})
        self.reply(status, answer, pieces)

    def route(self, lane, lane_name, path, query, body):
        if self.command == "GET":
            return 200, self.lists(lane_name, path, query), None
        found = re.fullmatch(r"/v1beta/models/([^/:]+):(generateContent|streamGenerateContent|countTokens)", path)
        if found:
            self.record["protocol"] = "gemini"
            gemini.authenticate(self.headers, query)
            request = gemini.Request(found.group(1), body.get("generateContentRequest", body))
            return self.answer(lane, request, gemini.answer, gemini.stream, found.group(2).startswith("stream"))
        if path in ("/v1/messages", "/v1/messages/count_tokens"):
            self.record["protocol"] = "anthropic"
            anthropic.authenticate(self.headers)
            if path.endswith("count_tokens"):
                request = anthropic.Request({"max_tokens": 1, **body}, self.headers)
                return 200, {"input_tokens": request.usage(Cache(), [])["input_tokens"]}, None
            request = anthropic.Request(body, self.headers)
            return self.answer(lane, request, anthropic.answer, anthropic.stream, body.get("stream"))
        if path == "/v1/responses":
            self.record["protocol"] = "responses"
            openai.authenticate(self.headers)
            request = openai.Responses(body)
            self.record["store"] = body.get("store", True)
            return self.answer(lane, request, openai.respond, openai.stream_response, body.get("stream"))
        if path == "/v1/chat/completions":
            self.record["protocol"] = "chat"
            openai.authenticate(self.headers, not lane_name.startswith("local"))
            request = openai.Chat(body)
            self.record["store"] = body.get("store", False)
            chunks = lambda completion: openai.stream_completion(completion, body)  # noqa: E731
            return self.answer(lane, request, openai.complete, chunks, body.get("stream"))
        if path == "/v1/embeddings":
            openai.authenticate(self.headers)
            if not str(body["model"]).startswith("text-embedding-"):
                openai.refuse("You are not allowed to generate embeddings from this model", "model", "invalid_model", 403)
            vector = [1.0, 0.5, 0.25]
            return 200, {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": vector}], "model": body["model"],
                         "usage": {"prompt_tokens": 1, "total_tokens": 1}}, None
        raise Refused(404, {"error": {"message": f"Invalid URL (POST {path})", "type": "invalid_request_error"}}, "no such path")

    def lists(self, lane_name, path, query):
        if path == "/v1beta/models":
            gemini.authenticate(self.headers, query)
            return gemini.models()
        if path == "/v1/models" and self.headers.get("anthropic-version"):
            anthropic.authenticate(self.headers)
            return anthropic.models()
        if path == "/v1/models":
            is_local = lane_name.startswith("local")
            openai.authenticate(self.headers, not is_local)
            return openai.models(not is_local)
        raise Refused(404, {"error": {"message": f"Invalid URL (GET {path})", "type": "invalid_request_error"}}, "no such path")

    def answer(self, lane, request, make, stream, is_streamed):
        self.record["n_thoughts"] = request.n_thoughts
        self.record["dropped"] = getattr(request, "dropped", None) or getattr(request, "withheld", None) or []
        said = request.script().text
        if re.search(r"\bHOLD\b", said) and lane.holds(said):
            write({**self.record, "status": 0, "answer": None})
            # Readable without a request after it: the client is gone.
            select.select([self.connection], [], [], HELD_MAX)
            raise Refused(503, {"error": {"message": "held", "type": "overloaded"}}, "held")
        model = self.record["body"].get("model", self.record["path"])
        answer = make(request, lane.next(), lane.caches[model])
        pieces = stream(answer) if is_streamed else None
        if re.search(r"\bBREAK\b", said) and is_streamed and lane.holds(said):
            pieces = itertools.islice(pieces, N_BEFORE_BREAK)
        return 200, answer, pieces

    def reply(self, status, answer, pieces):
        streams = status == 200 and pieces is not None
        data = "".join(pieces).encode() if streams else json.dumps(answer).encode()
        try:
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if streams else "application/json")
            self.send_header("content-length", str(len(data)))
            self.send_header("request-id", "req_1")
            if self.record["protocol"] == "gemini":
                # [tiers] The tier that was really used is in a header.
                self.send_header("x-gemini-service-tier", (self.record["body"] or {}).get("serviceTier", "standard"))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            pass  # The client is gone.


def sent(text):
    """The bytes of the parts of a request that have to stay as they are."""
    fields = raw_fields(text) if text else {}
    bytes_of = lambda *names: [said_bytes(raw) for name in names for raw in raw_elements(fields.get(name))]  # noqa: E731
    return {
        "system": bytes_of("system", "instructions", "systemInstruction"),
        "tools": bytes_of("tools"),
        "messages": bytes_of("messages", "input", "contents"),
    }


def write(record):
    with LOCK:
        LOG.write(compact(record) + "\n")
        LOG.flush()


def end_with_stdin():
    """Ends with the process that started this one, however that ends, and takes the log along."""
    sys.stdin.buffer.read()
    if not os.environ.get("RETHREAD_KEEP"):
        os.remove(sys.argv[2])
    os._exit(0)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    LOG = open(sys.argv[2], "a", encoding="utf-8")
    server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
    if "--until-stdin-ends" in sys.argv:
        threading.Thread(target=end_with_stdin, daemon=True).start()
    print(f"listening on {server.server_address[1]}", flush=True)
    server.serve_forever()
