"""A small MCP server for tests, with nothing but the standard library.

server.py stdio | http PORTFILE
Every message that comes is a line in the file that LOG names.
"""
import json, os, signal, sys, threading, time

LOG = os.environ.get("LOG")
out_lock, log_lock = threading.Lock(), threading.Lock()
answers, events, extra = {}, {}, json.loads(os.environ.get("EXTRA", "[]"))


def tool(name, schema=None, **more):
    return dict(name=name, description=f"The tool {name}", inputSchema=schema or {"type": "object"}, **more)


NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
TOOLS = [
    tool("add", NUMBERS, annotations={"readOnlyHint": True}),
    tool("fail"), tool("slow"), tool("hang"), tool("big"), tool("die"), tool("ask"), tool("grow"), tool("picture"),
    tool("no.type", {"properties": {}}), tool("env"), tool("flood"), tool("stop"), tool("huge"), tool("refuse"),
    tool("structured", outputSchema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
    tool("broken", {"type": "string"}), tool("add", NUMBERS), tool("raw"),
]


def text(value, **more):
    return dict(content=[{"type": "text", "text": str(value)}], **more)


def line(message):
    """What is sent. The tool `raw` says what its answer is, as it is written."""
    said = message.get("result") or {}
    return said["raw"].replace("$ID", json.dumps(message["id"])) if "raw" in said else json.dumps(message)


def send(message):
    with out_lock:
        sys.stdout.write(line(message) + "\n")
        sys.stdout.flush()


def call(name, arguments, meta):
    token = meta.get("progressToken")
    if name == "add":
        return text(arguments["a"] + arguments["b"])
    if name == "fail":
        return text("it broke", isError=True)
    if name == "slow":
        for step in (1, 2):
            send({"jsonrpc": "2.0", "method": "notifications/progress",
                  "params": {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"}})
            time.sleep(0.05)
        return text("done")
    if name == "hang":
        time.sleep(1000)
    if name == "flood":
        for step in range(2000):
            send({"jsonrpc": "2.0", "method": "notifications/progress",
                  "params": {"progressToken": token, "progress": step}})
        return text("done")
    if name == "stop":
        with open(arguments["id"], "w") as file:
            file.write(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(1000)
    if name == "big":
        return text("x" * arguments["bytes"])
    if name == "huge":
        return text("x" * (40 * 1024 * 1024))
    if name == "die" and arguments.get("lives"):
        os.close(1)
        time.sleep(1000)
    if name == "die":
        os._exit(3)
    if name == "env":
        return text(json.dumps(dict(os.environ)))
    if name == "ask":
        while "after" in arguments and not os.path.exists(arguments["after"]):
            time.sleep(0.01)
        key = f"ask-{threading.get_ident()}"
        events[key] = threading.Event()
        send({"jsonrpc": "2.0", "id": key, "method": "elicitation/create", "params": {
            "message": "Which colour?", "requestedSchema": {
                "type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}}})
        events[key].wait(20)
        return text(json.dumps(answers.get(key), sort_keys=True))
    if name == "grow":
        extra.append(tool("grown"))
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return text("grown")
    if name == "picture":
        return {"content": [{"type": "text", "text": "one"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                            {"type": "resource_link", "uri": "file:///x", "name": "x"}]}
    if name == "structured":
        return dict(text("n"), structuredContent={"n": arguments.get("n", 1)})
    if name == "raw":
        return dict(arguments, raw=arguments["line"])
    if name in ("no.type", "grown"):
        return text(name)
    return None


def answer(message):
    method, params = message.get("method"), message.get("params") or {}
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
                  "serverInfo": {"name": "test", "version": "1"}}
    elif method == "ping":
        result = {}
    elif method == "tools/list":
        tools, at = TOOLS + extra, int(params.get("cursor") or 0)
        result = {"tools": tools[at:at + 5]}
        if at + 5 < len(tools):
            result["nextCursor"] = str(at + 5)
        elif "ENDLESS" in os.environ:
            result["nextCursor"] = "5"
    elif method == "tools/call" and (found := call(params["name"], params.get("arguments") or {},
                                                   params.get("_meta") or {})) is not None:
        result = found
    else:
        code = -32602 if method == "tools/call" else -32601
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": f"not known: {method}"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def log(message):
    if LOG:
        with log_lock, open(LOG, "a") as file:
            file.write(json.dumps(message) + "\n")


def stdio():
    print("ready to serve", file=sys.stderr, flush=True)
    for got in sys.stdin:
        message = json.loads(got)
        log(message)
        if "method" not in message:
            answers[message["id"]] = message.get("result", message.get("error"))
            if message["id"] in events:
                events[message["id"]].set()
        elif "id" in message:
            threading.Thread(target=lambda m=message: send(answer(m)), daemon=True).start()


def http(port_file):
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            log({"authorization": self.headers.get("Authorization"), "message": message})
            if self.headers.get("Authorization") != "Bearer s3cret-token":
                return self.reply(401, b"")
            if "id" not in message or "method" not in message:
                return self.reply(202, b"")
            said = answer(message)
            how = said.get("result") or {}
            self.reply(how.get("status", 200), line(said).encode(), how.get("type", "application/json"))

        def do_GET(self):
            self.reply(405, b"")

        def reply(self, code, body, kind="application/json"):
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(port_file + ".new", "w") as file:
        file.write(str(server.server_port))
    os.rename(port_file + ".new", port_file)
    server.serve_forever()


stdio() if sys.argv[1] == "stdio" else http(sys.argv[2])
