"""PyPI `a2a-sdk` against the A2A door, in both bindings. Arguments: the base URL of the agents, and a token."""
import asyncio
import sys
from uuid import uuid4

import httpx
from a2a.client import ClientConfig, create_client
from a2a.client.errors import A2AClientError
from a2a.types.a2a_pb2 import (
    CancelTaskRequest, GetTaskRequest, ListTasksRequest, Message, Part, Role, SendMessageRequest,
    SubscribeToTaskRequest, TaskState,
)
from a2a.utils.errors import (
    ContentTypeNotSupportedError, InvalidParamsError, TaskNotCancelableError, TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict

base, token = sys.argv[1:]


def request(text=None, part=None, **fields):
    part = part or Part(text=text)
    message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[part], **fields)
    return SendMessageRequest(message=message)


async def follow(stream):
    """The task, the states and the artifact that a stream tells of."""
    task, states, answer = None, [], ""
    async for response in stream:
        if task is None:
            assert response.HasField("task"), response
            task = response.task
            states.append(task.status.state)
            answer = "".join(part.text for artifact in task.artifacts for part in artifact.parts)
        elif response.HasField("status_update"):
            states.append(response.status_update.status.state)
            task.status.CopyFrom(response.status_update.status)
        else:
            update = response.artifact_update
            piece = "".join(part.text for part in update.artifact.parts)
            answer = answer + piece if update.append else piece
    return task, states, answer


async def refused(awaitable, kind, words=""):
    try:
        await awaitable
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"{kind} was expected")


async def both(binding):
    http = httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60)

    async def connect(agent, **fields):
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], **fields)
        return await create_client(f"{base}/{agent}", config)

    chat = await connect("chat")
    hello, states, answer = await follow(chat.send_message(request("Hello, I am Ada.")))
    assert states == [TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED], states
    assert answer == "Hello, Ada!", answer
    waiting = await connect("chat", streaming=False)
    following = request("What is my name?", context_id=hello.context_id)
    task, states, answer = await follow(waiting.send_message(following))
    assert (states, answer) == ([TaskState.TASK_STATE_COMPLETED], "You are Ada."), (states, answer)
    repeated, _, _ = await follow(waiting.send_message(following))
    assert repeated.id == task.id
    got = await chat.get_task(GetTaskRequest(id=task.id))
    assert got.history[0].message_id == following.message.message_id, got
    listed = await chat.list_tasks(ListTasksRequest(context_id=hello.context_id, include_artifacts=True))
    assert [each.id for each in listed.tasks] == [task.id, hello.id], listed
    assert listed.total_size == 2 and listed.next_page_token == "", listed

    asks = await connect("asks")
    asked, states, _ = await follow(asks.send_message(request("Paint.")))
    assert states[-1] == TaskState.TASK_STATE_INPUT_REQUIRED, states
    question = MessageToDict(asked.status.message.parts[1].data)
    assert question["schema"]["enum"] == ["red", "blue"], question
    await refused(follow(asks.send_message(request("green", task_id=asked.id))), InvalidParamsError, "one of `red`, `blue`")
    painted, _, answer = await follow(asks.send_message(request("blue", task_id=asked.id)))
    assert (painted.id, answer) == (asked.id, "Painted blue."), painted

    polling = await connect("hangs", polling=True, streaming=False)
    began, _, _ = await follow(polling.send_message(request("Hello.")))
    hangs = await connect("hangs")
    stream = hangs.subscribe(SubscribeToTaskRequest(id=began.id))
    async for response in stream:
        if response.HasField("artifact_update"):
            assert response.artifact_update.artifact.parts[0].text == "Well, ", response
            break
    await stream.aclose()
    cancelled = await hangs.cancel_task(CancelTaskRequest(id=began.id))
    assert cancelled.status.state == TaskState.TASK_STATE_CANCELED, cancelled
    await refused(hangs.cancel_task(CancelTaskRequest(id=began.id)), TaskNotCancelableError)
    await refused(follow(hangs.subscribe(SubscribeToTaskRequest(id=began.id))), UnsupportedOperationError)

    await refused(chat.get_task(GetTaskRequest(id="nothing")), TaskNotFoundError)
    await refused(follow(chat.send_message(request("Hello.", task_id=hello.id))), UnsupportedOperationError)
    sound = Part(raw=b"a", media_type="audio/wav")
    await refused(follow(chat.send_message(request(part=sound))), ContentTypeNotSupportedError)
    await refused(chat.list_tasks(ListTasksRequest(page_size=1000)), InvalidParamsError, "pageSize")
    http.headers["Authorization"] = "Bearer wrong"
    await refused(chat.get_task(GetTaskRequest(id=hello.id)), A2AClientError, "401")
    await http.aclose()


asyncio.run(both("JSONRPC"))
asyncio.run(both("HTTP+JSON"))
print("done")
