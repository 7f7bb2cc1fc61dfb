"""PyPI `ag-ui-protocol` against the AG-UI door: its models write the requests and read every event.
Arguments: the URL of the door, and a token."""
import json
import sys
import urllib.error
import urllib.request

from ag_ui.core import Context, Event, ResumeEntry, RunAgentInput, RunFinishedEvent, UserMessage
from pydantic import TypeAdapter

base, token = sys.argv[1:]
events = TypeAdapter(Event)


def run(workflow, run_id, messages, **fields):
    """Sends an input and returns the events of its stream, each read strictly."""
    asked = RunAgentInput(
        thread_id=fields.pop("thread_id", "python"), run_id=run_id, messages=messages, state=fields.pop("state", {}),
        tools=[], context=fields.pop("context", []), forwarded_props={}, **fields,
    )
    request = urllib.request.Request(
        f"{base}/{workflow}", asked.model_dump_json(by_alias=True, exclude_none=True).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "text/event-stream"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream", answer.headers
        body = answer.read().decode()
    assert "\r" not in body
    frames = [frame for frame in body.split("\n\n") if frame and not frame.startswith(":")]
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    told = [json.loads(frame.removeprefix("data: ")) for frame in frames]
    for event in told:
        again = json.loads(events.validate_python(event).model_dump_json(by_alias=True, exclude_none=True))
        assert set(event) <= set(again), (event, again)
    return [events.validate_python(event) for event in told]


def user(text, at="1"):
    return UserMessage(id=at, role="user", content=text)


told = run("looks", "run-1", [user("Hello.")])
assert told[0].type == "RUN_STARTED" and told[0].protocol_version == "1.0", told[0]
end = told[-1]
assert isinstance(end, RunFinishedEvent) and end.result == "There is nothing.", end
assert {event.type for event in told} >= {
    "STATE_SNAPSHOT", "STEP_STARTED", "REASONING_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TOOL_CALL_RESULT",
}
assert end.usage[0].total_tokens > 0, end

# Context is a variable of the workflow, or is refused.
told = run("told", "run-1", [user("Where?")], context=[Context(description="city", value="Ulm")], thread_id="told")
assert told[-1].result == "In Ulm.", told[-1]
try:
    run("looks", "run-2", [user("Hello.")], context=[Context(description="city", value="Ulm")])
    raise AssertionError("the context is lost")
except urllib.error.HTTPError as error:
    refused = json.load(error)
    assert error.code == 400 and refused["type"] == "RUN_ERROR" and "context" in refused["message"], refused
    events.validate_python(refused)

told = run("asks", "run-1", [user("Paint.")], thread_id="asks")
(interrupt,) = told[-1].outcome.interrupts
told = run(
    "asks", "run-2", [user("Paint.")], thread_id="asks",
    resume=[ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload="blue")],
)
assert [event.delta for event in told if event.type == "STATE_DELTA"], told
assert told[-1].outcome.interrupts[0].reason == "tool_approval", told[-1]
print("done")
