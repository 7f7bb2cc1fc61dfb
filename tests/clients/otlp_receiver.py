"""A collector of OpenTelemetry: takes spans and metrics over HTTP and gRPC, and prints each request as a line of JSON.

The messages are those of PyPI's opentelemetry-proto, which are made from the definition of the protocol. Arguments: the
answers to the first requests over HTTP, as statuses; further ones are accepted. `NOT_NOW` in their place refuses the first
request over gRPC. It is also a model that speaks Chat Completions and shows the headers of what it is asked; with `BUSY`,
it refuses the first request. At `/mcp` it is a server of the Model Context Protocol, whose tool says the header of its call.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service

STATUSES = [int(word) for word in sys.argv[1:] if word.isdigit()]
REFUSALS = [word for word in sys.argv[1:] if word == "NOT_NOW"]
BUSY = [word for word in sys.argv[1:] if word == "BUSY"]
LOCK = Lock()


def value(any_value):
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value(one) for one in any_value.array_value.values]
    return getattr(any_value, kind) if kind else None


def attributes(pairs):
    found = {}
    for pair in pairs:
        assert pair.key not in found, f"{pair.key} is said twice"
        found[pair.key] = value(pair.value)
    return found


def told(span):
    return {
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "name": span.name,
        "kind": span.kind,
        "began": span.start_time_unix_nano,
        "ended": span.end_time_unix_nano,
        "attributes": attributes(span.attributes),
        "events": [{"name": event.name, "attributes": attributes(event.attributes)} for event in span.events],
        "links": [{"trace": link.trace_id.hex(), "span": link.span_id.hex()} for link in span.links],
        "status": span.status.code,
        "message": span.status.message,
    }


def show(way, headers, request):
    for resource in request.resource_spans:
        spans = []
        for scope in resource.scope_spans:
            assert scope.scope.name == "rethread" and scope.scope.version
            spans += [told(span) for span in scope.spans]
        for span in spans:
            assert len(span["trace"]) == 32 and len(span["id"]) == 16 and span["began"] <= span["ended"], span
        show_line({"way": way, "headers": headers, "resource": attributes(resource.resource.attributes), "spans": spans})


def show_line(told):
    with LOCK:
        print(json.dumps(told), flush=True)


def completion(asked):
    """Calls the tools that are offered, then says so."""
    message, reason = {"role": "assistant", "content": "Hello!"}, "stop"
    if asked.get("tools") and asked["messages"][-1]["role"] == "user":
        names = [tool["function"]["name"] for tool in asked["tools"]]
        calls = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in names]
        message, reason = {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    answer = {"id": "chat-1", "object": "chat.completion", "created": 1, "model": "gpt-x-1"}
    return {**answer, "choices": choices, "usage": usage}


def mcp(message, headers):
    """The answer to a message; None to a notification."""
    if "id" not in message:
        return None
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "header", "description": "Shows.", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "header " + headers.get("traceparent", "none")}]}
    else:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): text for name, text in self.headers.items()}
        with LOCK:
            status = STATUSES.pop(0) if STATUSES and self.path.startswith("/v1/traces") else 200
            if BUSY and self.path == "/v1/chat/completions":
                status = 503
                BUSY.pop()
        answer, media_type = b"", "application/x-protobuf"
        if self.path == "/mcp":
            said = mcp(json.loads(body), headers)
            status, media_type = (202 if said is None else 200), "application/json"
            answer = b"" if said is None else json.dumps(said).encode()
        elif self.path == "/v1/chat/completions":
            show_line({"chat": headers, "status": status})
            answer = json.dumps(completion(json.loads(body))).encode()
        elif status == 200:
            assert headers["content-type"] == "application/x-protobuf"
            if self.path == "/v1/traces":
                show("http", headers, traces.ExportTraceServiceRequest.FromString(body))
                answer = traces.ExportTraceServiceResponse().SerializeToString()
            elif self.path == "/v1/metrics":
                request = metrics.ExportMetricsServiceRequest.FromString(body)
                show_line({"way": "http", "metrics": MessageToDict(request)})
            else:
                status = 404
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Grpc(service.TraceServiceServicer):
    def Export(self, request, context):
        with LOCK:
            refuses = bool(REFUSALS) and bool(REFUSALS.pop())
        if refuses:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        show("grpc", {name: text for name, text in context.invocation_metadata()}, request)
        return traces.ExportTraceServiceResponse()


server = grpc.server(ThreadPoolExecutor(max_workers=2))
service.add_TraceServiceServicer_to_server(Grpc(), server)
grpc_port = server.add_insecure_port("127.0.0.1:0")
server.start()
http = ThreadingHTTPServer(("127.0.0.1", 0), Http)
Thread(target=http.serve_forever, daemon=True).start()
show_line({"http": http.server_port, "grpc": grpc_port})
# Until the test ends it.
sys.stdin.read()
