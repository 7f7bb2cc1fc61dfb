"""The MCP client of PyPI against rethread, in one generation of the protocol: over HTTP, or over stdio.

Usage: mcp_client.py legacy|auto http URL TOKEN [sizes]
       mcp_client.py legacy|auto stdio PROGRAM ARGUMENT...
"""

import asyncio
import os
import sys

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

MODE, TRANSPORT, *REST = sys.argv[1:]
ASKED = []


async def answer(context, params):
    """The user, who chooses blue."""
    ASKED.append((params.message, params.requested_schema))
    field = params.requested_schema["properties"]["answer"]
    value = "blue" if "enum" in field or "oneOf" in field else True
    return types.ElicitResult(action="accept", content={"answer": value})


def client(**options):
    if TRANSPORT == "stdio":
        env = {**os.environ}
        return Client(StdioServerParameters(command=REST[0], args=REST[1:], env=env), mode=MODE, **options)
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {REST[1]}"}, timeout=60)
    return Client(streamable_http_client(REST[0], http_client=http), mode=MODE, **options)


def text(result):
    return result.content[0].text


async def reads(c):
    """The debugging tools, on a thread that was run before."""
    tools = {tool.name: tool for tool in (await c.list_tools()).tools}
    for name in ["threads", "explain", "events", "state", "diff", "bisect", "questions"]:
        assert tools[name].annotations.read_only_hint is True, name
    assert tools["respond"].annotations.read_only_hint is False
    assert tools["chat"].annotations.read_only_hint is False

    done = await c.call_tool("chat", {"input": "Hello"})
    assert not done.is_error and text(done) == "Hello, Ada!", done
    thread = done.structured_content["thread_id"]
    assert done.structured_content == {"thread_id": thread, "status": "completed", "output": "Hello, Ada!"}, done

    listed = (await c.call_tool("threads", {"limit": 1})).structured_content
    assert listed["threads"][0]["thread_id"] == thread, listed
    for name in [thread, "last"]:
        explained = text(await c.call_tool("explain", {"thread": name}))
        assert thread in explained and "completed in" in explained, explained
    first = (await c.call_tool("events", {"thread": thread, "limit": 2})).structured_content
    assert [event["type"] for event in first["events"]][0] == "THREAD_STARTED" and first["next"] == 2, first
    called = (await c.call_tool("events", {"thread": thread, "types": "LLM_CALL_COMPLETED"})).structured_content
    assert len(called["events"]) == 1, called
    state = (await c.call_tool("state", {"thread": thread, "part": "/variables"})).structured_content
    assert state["input"] == "Hello", state
    assert "status" in text(await c.call_tool("diff", {"thread": thread, "from": 0}))
    found = (await c.call_tool("bisect", {"thread": thread, "when": "output is defined"})).structured_content
    assert found["events_looked_at"] > 1, found
    asked = (await c.call_tool("questions", {"thread": thread})).structured_content
    assert asked["questions"] == [], asked

    for address in [f"rethread://threads/{thread}/explain", f"rethread://threads/{thread}/state"]:
        read = await c.read_resource(address)
        assert thread in read.contents[0].text, read
    templates = (await c.list_resource_templates()).resource_templates
    assert len(templates) == 3, templates


async def refuses(c):
    """What is refused, as errors that a model can read."""
    missing = "00000000-0000-7000-8000-000000000000"
    for name, arguments, part in [
        ("explain", {"thread": missing}, "no thread"),
        ("explain", {"thread": "nothing"}, "named by its id"),
        ("events", {"thread": "last", "limit": 0}, "limit"),
        ("events", {"thread": "last", "types": "NOTHING"}, "unknown event type"),
        ("state", {"thread": "last", "part": "/nothing"}, "/variables"),
        ("state", {"thread": "last", "at": "nothing"}, "checkpoint"),
        ("bisect", {"thread": "last", "when": "1 +"}, "when"),
        ("threads", {"nothing": 1}, "nothing"),
        ("respond", {"interaction": "nothing", "answer": True}, "question"),
        ("chat", {"nothing": 1}, "nothing"),
        ("typed", {"colour": 7}, "input/colour"),
        ("fails", {"input": "Hello"}, "no such key"),
    ]:
        refused = await c.call_tool(name, arguments)
        assert refused.is_error and part in text(refused), (name, arguments, refused)
    try:
        await c.call_tool("nothing", {})
    except Exception as error:
        assert "unknown tool" in str(error), error
    else:
        raise AssertionError("a tool that does not exist was called")


async def asks():
    """A run that asks: the user is asked where the client can, otherwise the model answers."""
    async with client(elicitation_callback=answer) as c:
        painted = await c.call_tool("asks", {"input": "x"})
        assert text(painted) == "Painted blue.", painted
        assert ASKED[0][0].startswith("Which colour?"), ASKED
        looked = await c.call_tool("approves", {"input": "Hello"})
        assert text(looked) == "Looked.", looked
        assert "list_folder" in ASKED[1][0], ASKED
    async with client() as c:
        waits = await c.call_tool("asks", {"input": "x"})
        assert not waits.is_error and waits.structured_content["status"] == "waiting", waits
        interaction = waits.structured_content["questions"][0]["id"]
        assert interaction in text(waits), waits
        wrong = await c.call_tool("respond", {"interaction": interaction, "answer": "green"})
        assert wrong.is_error and "red" in text(wrong), wrong
        painted = await c.call_tool("respond", {"interaction": interaction, "answer": "blue"})
        assert text(painted) == "Painted blue.", painted


async def sizes():
    """A tool of a run asks in the middle of a call."""
    for action, said in [("accept", "Size m."), ("decline", "No size.")]:
        asked = []

        async def chooses(context, params):
            asked.append((params.message, params.requested_schema["properties"]["size"]["enum"]))
            return types.ElicitResult(action=action, content={"size": "m"} if action == "accept" else None)

        async with client(elicitation_callback=chooses) as c:
            sized = await c.call_tool("sizes", {"input": "x"})
            assert text(sized) == said, sized
            assert len(asked) == 1 and "Which size?" in asked[0][0] and asked[0][1] == ["s", "m"], asked


async def reports(c):
    """Progress: a report for each node."""
    nodes = []

    async def seen(progress, total, message):
        nodes.append((progress, message))

    done = await c.call_tool("two", {"input": "x"}, progress_callback=seen)
    assert text(done) == "second", done
    # The last one may be handled after the result.
    for _ in range(100):
        if len(nodes) == 2:
            break
        await asyncio.sleep(0.05)
    assert nodes == [(1.0, "node one"), (2.0, "node two")], nodes


async def cancels(c):
    """A cancelled request cancels its run."""

    async def statuses():
        page = (await c.call_tool("threads", {"workflow": "hangs"})).structured_content
        return {thread["thread_id"]: thread["status"] for thread in page["threads"]}

    async def until(is_wanted):
        for _ in range(600):
            now = await statuses()
            if is_wanted(now):
                return now
            await asyncio.sleep(0.1)
        raise AssertionError(now)

    before = await statuses()
    call = asyncio.create_task(c.call_tool("hangs", {"input": "x"}))
    now = await until(lambda now: len(now) > len(before))
    (thread,) = now.keys() - before.keys()
    call.cancel()
    await until(lambda now: now[thread] == "cancelled")


async def main():
    if REST[-1] == "sizes":
        await sizes()
        print("done")
        return
    async with client() as c:
        assert c.server_info.name == "rethread", c.server_info
        assert (c.protocol_version == "2026-07-28") == (MODE != "legacy"), c.protocol_version
        await reads(c)
        await refuses(c)
        await reports(c)
        await cancels(c)
    await asks()
    print("done")


asyncio.run(main())
