"""The ACP client of PyPI with `rethread acp` as its agent.

Usage: acp_client.py FOLDER PROGRAM ARGUMENT...
With `team.yaml` among the arguments, the agent makes a plan and calls agents.
"""

import asyncio
import os
import sys

import acp
from acp import schema

FOLDER, PROGRAM, *ARGUMENTS = sys.argv[1:]


class Editor(acp.Client):
    """An editor with open files and terminals, whose user allows or rejects."""

    def __init__(self):
        self.files, self.updates, self.asked, self.calls = {}, [], [], []
        self.choice = "allow_once"
        self.said = asyncio.Event()

    def on_connect(self, conn):
        pass

    async def session_update(self, session_id, update, **rest):
        self.updates.append(update)
        self.said.set()

    async def request_permission(self, session_id, tool_call, options, **rest):
        self.asked.append(tool_call)
        chosen = next(option for option in options if option.kind == self.choice)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id, path, line=None, limit=None, **rest):
        self.calls.append(("read", path, line, limit))
        if path not in self.files:
            raise acp.RequestError(-32002, "there is no such file")
        return schema.ReadTextFileResponse(content=self.files[path])

    async def write_text_file(self, session_id, path, content, **rest):
        self.calls.append(("write", path, content))
        self.files[path] = content

    async def create_terminal(self, session_id, command, args=None, cwd=None, **rest):
        self.calls.append(("run", command, args, cwd))
        return schema.CreateTerminalResponse(terminal_id="terminal-1")

    async def wait_for_terminal_exit(self, session_id, terminal_id, **rest):
        return schema.WaitForTerminalExitResponse(exit_code=3)

    async def terminal_output(self, session_id, terminal_id, **rest):
        status = schema.TerminalExitStatus(exit_code=3)
        return schema.TerminalOutputResponse(output="it says hi", truncated=False, exit_status=status)

    async def release_terminal(self, session_id, terminal_id, **rest):
        self.calls.append(("release", terminal_id))

    def told(self, kind):
        return [update for update in self.updates if update.session_update == kind]

    def text(self, kind="agent_message_chunk"):
        return "".join(update.content.text for update in self.told(kind))

    def statuses(self):
        """The statuses of the one call that was told."""
        (call,) = self.told("tool_call")
        changes = [update for update in self.told("tool_call_update") if update.tool_call_id == call.tool_call_id]
        return call, [call.status or "pending", *(update.status for update in changes)], changes


def capabilities():
    files = schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
    return schema.ClientCapabilities(fs=files, terminal=True)


def spawn(editor):
    options = {"stderr": None}
    return acp.spawn_agent_process(
        editor, PROGRAM, *ARGUMENTS, cwd=FOLDER, env=dict(os.environ), transport_kwargs=options
    )


async def refused(code, request):
    try:
        await request
    except acp.RequestError as error:
        assert error.code == code, (error.code, str(error))
        return str(error)
    raise AssertionError(f"{code} was expected")


async def talk(editor, agent):
    began = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=capabilities())
    assert began.protocol_version == 1 and began.agent_info.name == "rethread", began
    assert began.agent_capabilities.load_session, began

    session = (await agent.new_session(cwd=FOLDER)).session_id

    async def prompt(text):
        editor.updates, editor.asked, editor.calls = [], [], []
        return (await agent.prompt(session_id=session, prompt=[acp.text_block(text)])).stop_reason

    assert await prompt("hello") == "end_turn"
    assert editor.text() == "Hello, Ada!", editor.updates
    assert editor.text("agent_thought_chunk") == "A greeting.", editor.updates

    # A file is written through the editor, after its user allowed it, who sees the change.
    path = os.path.join(os.path.realpath(FOLDER), "new.txt")
    assert await prompt("write") == "end_turn"
    call, statuses, _ = editor.statuses()
    assert statuses == ["pending", "in_progress", "completed"], statuses
    assert call.kind == "edit" and call.locations[0].path == path, call
    assert call.content[0].type == "diff" and call.content[0].new_text == "one\nthree\n", call
    (asked,) = editor.asked
    assert asked.tool_call_id == call.tool_call_id and asked.content[0].path == path, asked
    assert editor.calls == [("write", path, "one\nthree\n")], editor.calls
    assert not os.path.exists(path)
    assert editor.text() == "I write.Done.", editor.updates

    # An edit works on what the editor has, which is not saved.
    assert await prompt("edit") == "end_turn"
    assert editor.files == {path: "two\nthree\n"}, editor.files
    assert await prompt("read") == "end_turn"
    assert editor.calls == [("read", path, 1, 2000)] and editor.asked == [], editor.calls
    _, statuses, changes = editor.statuses()
    assert changes[-1].content[0].content.text == "1\ttwo\n2\tthree\n", changes

    # A command runs in a terminal of the editor.
    assert await prompt("run") == "end_turn"
    assert editor.calls == [("run", "echo", ["hi"], os.path.realpath(FOLDER)), ("release", "terminal-1")], editor.calls
    call, statuses, changes = editor.statuses()
    assert call.title == "run_command echo hi" and call.kind == "execute", call
    terminals = [change.content[0] for change in changes if change.content]
    assert [terminal.terminal_id for terminal in terminals] == ["terminal-1"], changes
    assert statuses[-1] == "completed", statuses

    # What the user rejects is not done.
    editor.choice = "reject_once"
    assert await prompt("write") == "end_turn"
    _, statuses, _ = editor.statuses()
    assert statuses == ["pending", "failed"] and editor.calls == [], (statuses, editor.calls)

    # A question of the model is the end of a turn, and the next prompt answers it.
    assert await prompt("ask") == "end_turn"
    assert editor.text().startswith("Which colour?"), editor.updates
    assert await prompt("blue") == "end_turn"
    assert editor.text() == "Done.", editor.updates

    # A prompt is cancelled, and the session goes on.
    editor.updates, editor.said = [], asyncio.Event()
    prompting = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("wait")]))
    while "Well" not in editor.text():
        editor.said.clear()
        await asyncio.wait_for(editor.said.wait(), 60)
    await refused(-32600, agent.prompt(session_id=session, prompt=[acp.text_block("hello")]))
    await agent.cancel(session_id=session)
    assert (await asyncio.wait_for(prompting, 60)).stop_reason == "cancelled"
    assert await prompt("hello") == "end_turn"

    # What a model does not answer is an error, and the session goes on.
    assert "no such key" in await refused(-32603, prompt("fail"))
    assert await prompt("hello") == "end_turn"

    await refused(-32002, agent.prompt(session_id="nobody", prompt=[acp.text_block("hello")]))
    await refused(-32602, agent.prompt(session_id=session, prompt=[acp.image_block("AAAA", "image/png")]))
    await refused(-32602, agent.prompt(session_id=session, prompt=[]))
    await refused(-32602, agent.new_session(cwd="here"))
    await refused(-32602, agent.new_session(cwd=os.path.join(FOLDER, "absent")))
    await refused(-32602, agent.load_session(cwd="/", session_id=session))
    await refused(-32601, agent.set_session_mode(session_id=session, mode_id="code"))
    return session


async def go_on(editor, agent, session):
    """The same session in another process."""
    await agent.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=capabilities())
    await refused(-32002, agent.prompt(session_id=session, prompt=[acp.text_block("hello")]))
    await refused(-32002, agent.load_session(cwd=FOLDER, session_id="018f0000-0000-7000-8000-000000000000"))
    (listed,) = (await agent.list_sessions(cwd=os.path.realpath(FOLDER))).sessions
    assert (listed.session_id, listed.title) == (session, "hello"), listed
    assert (await agent.list_sessions(cwd="/")).sessions == []
    await agent.load_session(cwd=FOLDER, session_id=session)
    users = [update.content.text for update in editor.told("user_message_chunk")]
    assert users[:3] == ["hello", "write", "edit"], users
    assert editor.text().startswith("Hello, Ada!I write.Done."), editor.text()
    calls = {update.tool_call_id: update.title for update in editor.told("tool_call")}
    assert len(calls) == len(editor.told("tool_call")) and "run_command echo hi" in calls.values(), calls
    ends = {update.tool_call_id: update.status for update in editor.told("tool_call_update")}
    assert set(ends) == set(calls), (ends, calls)

    editor.updates = []
    stopped = await agent.prompt(session_id=session, prompt=[acp.text_block("hello")])
    assert stopped.stop_reason == "end_turn" and editor.text() == "Hello, Ada!", editor.updates

    await agent.close_session(session_id=session)
    await refused(-32002, agent.prompt(session_id=session, prompt=[acp.text_block("hello")]))
    editor.updates = []
    await agent.resume_session(cwd=FOLDER, session_id=session)
    assert editor.updates == [], editor.updates
    stopped = await agent.prompt(session_id=session, prompt=[acp.text_block("hello")])
    assert stopped.stop_reason == "end_turn" and editor.text() == "Hello, Ada!", editor.updates


async def erase(agent, session):
    # This version of the client has the method, and no function for it.
    await agent._conn.send_request("session/delete", {"sessionId": session})


async def delete(editor, agent, session):
    """A session is cancelled, and deleted, while its run waits for an answer."""
    asking = (await agent.new_session(cwd=FOLDER)).session_id
    unused = (await agent.new_session(cwd=FOLDER)).session_id
    await agent.prompt(session_id=asking, prompt=[acp.text_block("ask")])
    await agent.cancel(session_id=asking)
    editor.updates = []
    await agent.prompt(session_id=asking, prompt=[acp.text_block("hello")])
    assert editor.text() == "Hello, Ada!", editor.updates
    await agent.prompt(session_id=asking, prompt=[acp.text_block("ask")])
    await erase(agent, asking)
    await refused(-32002, agent.load_session(cwd=FOLDER, session_id=asking))
    await erase(agent, unused)
    await refused(-32002, agent.prompt(session_id=unused, prompt=[acp.text_block("hello")]))
    # Not open, but in the log.
    await agent.close_session(session_id=session)
    await erase(agent, session)
    assert (await agent.list_sessions()).sessions == []
    await refused(-32002, erase(agent, session))


async def plan(editor, agent):
    """A plan whose second step fails, and agents of which one fails."""
    await agent.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=capabilities())
    session = (await agent.new_session(cwd=FOLDER)).session_id
    done = await agent.prompt(session_id=session, prompt=[acp.text_block("Ada")])
    assert done.stop_reason == "end_turn", done
    plans = [[(entry.content, entry.status) for entry in update.entries] for update in editor.told("plan")]
    look, count = "Look.", "Count."
    assert plans == [
        [(look, "pending"), (count, "pending")],
        [(look, "in_progress"), (count, "pending")],
        [(look, "completed"), (count, "pending")],
        [(look, "completed"), (count, "in_progress")],
        [(look, "completed"), (count, "pending")],
        [("Answer.", "pending")],
        [("Answer.", "in_progress")],
        [("Answer.", "completed")],
    ], plans
    # The plans are no messages.
    said = "I looked.FAILED: there is nothing to count.I answered.Let me ask.Tea is fine."
    assert editor.text() == said, editor.text()

    calls = {call.tool_call_id: (call.title, call.raw_input) for call in editor.told("tool_call")}
    assert list(calls.values()) == [("helper", {"topic": "tea"}), ("broken", {"topic": "tea"})], calls
    ends = {}
    for update in editor.told("tool_call_update"):
        text = "".join(part.content.text for part in update.content or [])
        ends.setdefault(calls[update.tool_call_id][0], []).append((update.status, text))
    assert ends["helper"] == [("in_progress", ""), ("completed", "Tea is hot.")], ends
    assert ends["broken"][0] == ("in_progress", "") and ends["broken"][-1][0] == "failed", ends
    assert "no such key" in ends["broken"][-1][1], ends
    # What an agent says is its result, and no message.
    assert "Tea is hot." not in editor.text(), editor.text()

    editor.updates = []
    await agent.load_session(cwd=FOLDER, session_id=session)
    assert [call.title for call in editor.told("tool_call")] == ["helper", "broken"], editor.updates
    statuses = {calls[update.tool_call_id][0]: update.status for update in editor.told("tool_call_update")}
    assert statuses == {"helper": "completed", "broken": "failed"}, statuses


async def main():
    editor = Editor()
    if "team.yaml" in ARGUMENTS:
        async with spawn(editor) as (agent, _):
            await plan(editor, agent)
        return print("done")
    async with spawn(editor) as (agent, _):
        session = await talk(editor, agent)
    editor = Editor()
    async with spawn(editor) as (agent, _):
        await go_on(editor, agent, session)
        await delete(editor, agent, session)
    print("done")


asyncio.run(main())
