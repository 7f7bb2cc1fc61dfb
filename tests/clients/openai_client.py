"""PyPI `openai` against the OpenAI-compatible door. Arguments: the base URL, and a token."""
import json
import sys

import openai

base_url, token = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key=token, timeout=120)
hello = [{"role": "user", "content": "Hello, I am Ada."}]


def fails(kind, **request):
    try:
        client.chat.completions.create(**({"model": "chat", "messages": hello} | request))
    except openai.APIStatusError as error:
        assert type(error) is kind, error
        return error
    raise AssertionError(f"{request} is not refused")


# Models.
assert "chat" in [model.id for model in client.models.list()]
assert client.models.retrieve("team/chat").owned_by == "rethread"
try:
    client.models.retrieve("nothing")
    raise AssertionError("there is no such model")
except openai.NotFoundError as error:
    assert error.code == "model_not_found" and error.param == "model", error.body

# An answer, and the next one of the same thread.
raw = client.chat.completions.with_raw_response.create(model="chat", messages=hello, temperature=0.5, user="ada")
answer = raw.parse()
thread = answer.metadata["thread_id"]
assert raw.headers["x-rethread-thread"] == thread
assert answer.object == "chat.completion" and answer.model == "chat", answer
assert answer.choices[0].message.content == "Hello, Ada!" and answer.choices[0].finish_reason == "stop", answer
assert answer.usage.prompt_tokens > 0 and answer.usage.completion_tokens > 0, answer.usage
assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens, answer.usage
again = client.chat.completions.create(
    model="chat", messages=[{"role": "user", "content": "What is my name?"}], metadata={"thread_id": thread}
)
assert again.choices[0].message.content == "You are Ada." and again.metadata["thread_id"] == thread, again
assert again.id != answer.id

# A past that the client has.
past = hello + [{"role": "assistant", "content": "Hello, Ada!"}, {"role": "user", "content": "What is my name?"}]
assert client.chat.completions.create(model="chat", messages=past).choices[0].message.content == "You are Ada."

# Instructions, images, the results of tools.
rich = [
    {"role": "system", "content": "Speak like a pirate."},
    {"role": "user", "content": "What is the weather?"},
    {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    {"role": "assistant", "content": "Sunny."},
    {"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]},
]
assert client.chat.completions.create(model="pirate", messages=rich).choices[0].message.content == "Arr, a picture."

# A stream.
stream = client.chat.completions.create(model="chat", messages=hello, stream=True, stream_options={"include_usage": True})
chunks = list(stream)
assert stream.response.headers["x-rethread-thread"] == chunks[0].metadata["thread_id"]
assert chunks[0].choices[0].delta.role == "assistant"
pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
assert "".join(pieces) == "Hello, Ada!", pieces
assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0, chunks[-1]
assert all(chunk.usage is None for chunk in chunks[:-1])
assert all(chunk.usage is None for chunk in client.chat.completions.create(model="chat", messages=hello, stream=True))

# A question to a person is an answer, and the next message of the thread answers it.
asked = client.chat.completions.create(model="asks", messages=hello)
assert asked.choices[0].message.content == "Which colour? (one of `red`, `blue`)", asked
told = client.chat.completions.create(
    model="asks", messages=[{"role": "user", "content": "blue"}], metadata=asked.metadata, stream=True
)
assert "".join(chunk.choices[0].delta.content or "" for chunk in told) == "Painted blue."

# Tools of the client. The ids of their calls lead to the thread.
# One that the configuration describes, and one that the request describes.
for model, name in (("pays", "confirm"), ("brings", "pick")):
    tools = [{"type": "function", "function": {"name": name, "description": "Asks.", "parameters": {"type": "object"}}}]
    pay = [{"role": "user", "content": "Pay."}]
    called = client.chat.completions.create(model=model, messages=pay, tools=tools, tool_choice="auto")
    choice = called.choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content == "One moment.", called
    calls = choice.message.tool_calls
    assert [json.loads(call.function.arguments)["what"] for call in calls] == ["5 EUR", "6 EUR"], calls
    assert {(call.type, call.function.name) for call in calls} == {("function", name)}, calls
    results = [{"role": "tool", "tool_call_id": call.id, "content": "yes"} for call in calls]
    paid = client.chat.completions.create(model=model, messages=[*pay, choice.message, *results], tools=tools)
    assert paid.choices[0].message.content == "Paid." and paid.choices[0].finish_reason == "stop", paid
    assert paid.metadata["thread_id"] == called.metadata["thread_id"], paid
    chunks = list(client.chat.completions.create(model=model, messages=pay, tools=tools, stream=True))
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert [call.index for call in calls] == [0, 1] and chunks[-1].choices[0].finish_reason == "tool_calls", chunks
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "One moment.", chunks
    results = [{"role": "tool", "tool_call_id": call.id, "content": [{"type": "text", "text": "yes"}]} for call in calls]
    chunks = list(client.chat.completions.create(
        model=model, messages=results, tools=tools, stream=True, metadata={"thread_id": chunks[0].metadata["thread_id"]},
    ))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Paid.", chunks
assert fails(openai.UnprocessableEntityError, model="pays", messages=pay).type == "run_waiting"

# Errors.
assert fails(openai.NotFoundError, model="nothing").code == "model_not_found"
assert fails(openai.NotFoundError, metadata={"thread_id": "0"}).param == "metadata"
assert fails(openai.BadRequestError, n=2).param == "n"
assert fails(openai.BadRequestError, messages=[]).param == "messages"
tools = [{"type": "function", "function": {"name": "f"}}]
assert fails(openai.BadRequestError, tools=tools).param == "tools"
assert fails(openai.BadRequestError, response_format={"type": "json_object"}).param == "response_format"
failed = fails(openai.UnprocessableEntityError, model="fails")
assert failed.type == "run_failed" and failed.code == "authentication", failed.body
assert failed.response.headers["x-should-retry"] == "false"
try:
    list(client.chat.completions.create(model="fails", messages=hello, stream=True))
    raise AssertionError("the run has failed")
except openai.APIError as error:
    assert error.code == "authentication" and "no such key" in error.message, error
try:
    openai.OpenAI(base_url=base_url, api_key="wrong").models.list()
    raise AssertionError("the token is wrong")
except openai.AuthenticationError as error:
    assert error.code == "invalid_api_key", error.body
print("done")
