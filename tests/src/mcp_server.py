"""A server of the Model Context Protocol on standard streams, for tests. Tools: echo, ask (asks the person), die, hang,
pay (writes a line into `ledger` and then reports an error)."""
import json
import os
import sys


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(text):
    return {"content": [{"type": "text", "text": text}]}


def tool(name, properties):
    return {"name": name, "description": "For tests.", "inputSchema": {"type": "object", "properties": properties}}


TOOLS = [tool("echo", {"text": {"type": "string"}}), tool("ask", {}), tool("die", {}), tool("hang", {}), tool("pay", {})]
asking = {}


def call(id, name, arguments):
    if name == "echo":
        send({"id": id, "result": text("echo: " + arguments.get("text", ""))})
    elif name == "ask":
        asking["q%s" % id] = id
        schema = {"type": "object", "properties": {"size": {"type": "string", "enum": ["s", "m"]}}, "required": ["size"]}
        params = {"mode": "form", "message": "Which size?", "requestedSchema": schema}
        send({"id": "q%s" % id, "method": "elicitation/create", "params": params})
    elif name == "die":
        os._exit(1)
    elif name == "pay":
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ledger"), "a") as ledger:
            ledger.write("paid\n")
        result = text("payment sent, but the receipt could not be fetched: 504")
        send({"id": id, "result": {**result, "isError": True}})


for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "test", "version": "1"}
        send({"id": id, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
    elif method == "tools/list":
        send({"id": id, "result": {"tools": TOOLS}})
    elif method == "tools/call":
        call(id, message["params"]["name"], message["params"].get("arguments") or {})
    elif method is None and id in asking:
        answer = message.get("result") or {}
        said = answer.get("action", "error")
        if said == "accept":
            said += " " + answer["content"]["size"]
        send({"id": asking.pop(id), "result": text("the person: " + said)})
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "no such method"}})
