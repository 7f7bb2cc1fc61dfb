"""The client of `openapi-python-client` against our own API. Arguments: the base URL, a token, and a workflow file."""
import importlib
import io
import pkgutil
import sys
import tarfile

import httpx

import rethread_client
from rethread_client import AuthenticatedClient
from rethread_client.api.events import thread_events
from rethread_client.api.interactions import respond, thread_interactions
from rethread_client.api.log import back_up_log
from rethread_client.api.moments import thread_state
from rethread_client.api.threads import run_outcome, show_thread, start_thread, thread_outcome
from rethread_client.api.workflows import put_workflow
from rethread_client.models import Answer, Problem, Start, ThreadEventsTypesItem as Type
from rethread_client.types import File

base_url, token, workflow = sys.argv[1:]
client = AuthenticatedClient(base_url, token=token, timeout=httpx.Timeout(120))

# Every module can be used.
for module in pkgutil.walk_packages(rethread_client.__path__, "rethread_client."):
    importlib.import_module(module.name)

# A workflow in YAML, and one with a fault.
with open(workflow, "rb") as file:
    stored = put_workflow.sync(client=client, body=File(payload=file))
assert stored.name == "greeting" and len(stored.hash_) == 64, stored
refused = put_workflow.sync_detailed(client=client, body=File(payload=io.BytesIO(b"name: x")))
assert refused.status_code == 422 and refused.parsed.type_ == "urn:rethread:problem:invalid-workflow", refused
assert refused.parsed.faults, refused

# Start it once, with a request that is sent twice.
start = Start(workflow="greeting", input_="Ada")
started = start_thread.sync_detailed(client=client, body=start, idempotency_key="order-7")
assert started.status_code == 201, started
thread = started.parsed.thread_id
again = start_thread.sync_detailed(client=client, body=start, idempotency_key="order-7")
assert again.parsed.thread_id == thread and again.headers["idempotency-replayed"] == "true", again


def at_rest():
    while True:
        outcome = thread_outcome.sync(thread, client=client, wait_ms=20_000)
        if outcome.status not in ("pending", "running"):
            return outcome


def follow(from_seq):
    """The types of the events that there are, in pages, and the seq of the next one."""
    types = []
    while True:
        page = thread_events.sync(thread, client=client, from_seq=from_seq, limit=3)
        types += [event.type_ for event in page.events]
        if page.events:
            from_seq = page.events[-1].seq + 1
        if page.next_ is None:
            return types, from_seq
        assert page.next_ == from_seq, page


# Follow it until it asks.
assert at_rest().status == "waiting"
types, seq = follow(0)
assert types[0] == "THREAD_STARTED" and types[-1] == "USER_INTERACTION_REQUESTED", types
assert types.count("LLM_EXECUTION_COMPLETED") == 1, types

# Answer: badly, well, and differently.
(question,) = thread_interactions.sync(thread, client=client).interactions
assert question.prompt == "Is that all?" and question.thread_id == thread and question.node == "ask", question
missing = respond.sync(f"{thread}-999", client=client, body=Answer(answer="yes"))
assert isinstance(missing, Problem) and missing.status == 404, missing
assert respond.sync(question.id, client=client, body=Answer(answer="yes")).status == "answered"
other = respond.sync(question.id, client=client, body=Answer(answer="no"))
assert isinstance(other, Problem) and other.type_ == "urn:rethread:problem:interaction-closed", other

# The result, and what happened since.
outcome = at_rest()
assert outcome.status == "completed" and outcome.success and outcome.thread_id == thread, outcome
assert outcome.usage.llm_calls == 1, outcome.usage
assert run_outcome.sync(thread, 0, client=client).output == outcome.output
assert show_thread.sync(thread, client=client).status == "completed"
state = thread_state.sync(thread, client=client)
assert state.variables["done"] is True, state.variables
assert "Hello, Ada! How are you?" in str(state.to_dict()), state
types, _ = follow(seq)
assert "USER_INTERACTION_RESPONDED" in types and types[-1] == "THREAD_COMPLETED", types
some = thread_events.sync(thread, client=client, types=[Type.THREAD_STARTED, Type.THREAD_COMPLETED])
assert [event.type_ for event in some.events] == ["THREAD_STARTED", "THREAD_COMPLETED"], some

# Bytes.
with tarfile.open(fileobj=back_up_log.sync(client=client).payload) as archive:
    assert archive.getnames()
print("done")
