"""PyPI `openai` against `/v1/responses` of the OpenAI-compatible door. Arguments: the base URL, and a token."""
import json
import sys
import time

import openai

base_url, token = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key=token, timeout=120)
responses = client.responses

# An answer, the next run of its thread, and the same response again.
hello = responses.create(model="chat", input="Hello, I am Ada.", temperature=0.5, store=False)
assert hello.status == "completed" and hello.output_text == "Hello, Ada!", hello
assert hello.usage.input_tokens > 0 and hello.usage.output_tokens > 0, hello.usage
again = responses.create(model="chat", input="What is my name?", previous_response_id=hello.id)
assert again.output_text == "You are Ada." and again.id != hello.id, again
assert again.conversation.id == hello.conversation.id and again.metadata["thread_id"] == hello.metadata["thread_id"]
assert responses.retrieve(again.id).output_text == "You are Ada."
assert responses.retrieve(hello.id).output_text == "Hello, Ada!"
third = responses.create(model="chat", input="What is my name?", conversation=hello.conversation.id)
assert third.conversation.id == hello.conversation.id and third.output_text == "You are Ada.", third

# After a response that is not the last one: a fork.
fork = responses.create(model="chat", input="What is my name?", previous_response_id=hello.id)
assert fork.output_text == "You are Ada." and fork.conversation.id != hello.conversation.id, fork
assert responses.retrieve(fork.id).output_text == "You are Ada."

# Instructions and items.
items = [
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Ahoy."},
    {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]},
]
assert responses.create(model="pirate", instructions="Speak like a pirate.", input=items).output_text == "Arr, a picture."

# A stream, and its events after one of them.
events = list(responses.create(model="looks", input="Hello, I am Ada.", stream=True))
kinds = [event.type for event in events]
assert kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"], kinds
assert kinds[-4:] == ["response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"], kinds
assert [event.sequence_number for event in events] == list(range(len(events)))
text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
assert text == "I look first.\n\nThere is nothing." == events[-1].response.output_text, text
later = list(responses.retrieve(events[-1].response.id, stream=True, starting_after=4))
assert later[0].sequence_number == 5 and later[-1].response.output_text == text, later
with responses.stream(model="chat", input="Hello, I am Ada.") as stream:
    for _ in stream:
        pass
    assert stream.get_final_response().output_text == "Hello, Ada!"

# An answer that the model cut.
cut = responses.create(model="cut", input="Tell me a story.")
assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens", cut
assert cut.output_text == "Once upon a" and cut.output[0].status == "incomplete", cut
assert responses.retrieve(cut.id).incomplete_details.reason == "max_output_tokens"
events = list(responses.create(model="cut", input="Tell me a story.", stream=True))
assert events[-1].type == "response.incomplete" and events[-2].item.status == "incomplete", events
assert events[-1].response.output_text == "Once upon a", events[-1]

# In the background, and cancelled.
background = responses.create(model="looks", input="Hello, I am Ada.", background=True)
assert background.status == "queued", background
while (now := responses.retrieve(background.id)).status in ("queued", "in_progress"):
    time.sleep(0.05)
assert now.status == "completed" and now.output_text == "There is nothing.", now
hangs = responses.create(model="hangs", input="Hello, I am Ada.", background=True)
responses.cancel(hangs.id)
while (now := responses.retrieve(hangs.id)).status in ("queued", "in_progress"):
    time.sleep(0.05)
assert now.status == "cancelled", now
assert responses.cancel(hello.id).status == "completed"

# Tools of the client.
for model, name in (("pays", "confirm"), ("brings", "pick")):
    tools = [{"type": "function", "name": name, "parameters": {"type": "object"}, "strict": False}]
    called = responses.create(model=model, input="Pay.", tools=tools)
    assert [item.type for item in called.output] == ["message", "function_call", "function_call"], called
    calls = called.output[1:]
    assert called.status == "completed" and called.output_text == "One moment.", called
    assert [json.loads(call.arguments)["what"] for call in calls] == ["5 EUR", "6 EUR"], calls
    assert [item.call_id for item in responses.retrieve(called.id).output if item.type == "function_call"] == [call.call_id for call in calls]
    outputs = [{"type": "function_call_output", "call_id": call.call_id, "output": "yes"} for call in calls]
    paid = responses.create(model=model, input=outputs, tools=tools, previous_response_id=called.id)
    assert paid.output_text == "Paid." and paid.id != called.id and paid.conversation == called.conversation, paid
    assert responses.create(model=model, input=outputs, tools=tools).id == paid.id
    events = list(responses.create(model=model, input="Pay.", tools=tools, stream=True))
    kinds = [event.type for event in events if "function_call" in event.type]
    assert kinds == ["response.function_call_arguments.delta", "response.function_call_arguments.done"] * 2, kinds
    added = [event.item for event in events if event.type == "response.output_item.added"]
    assert [item.type for item in added] == ["message", "function_call", "function_call"], added
    assert [event.output_index for event in events if event.type == "response.output_item.done"] == [0, 1, 2]
    assert [item.type for item in events[-1].response.output] == ["message", "function_call", "function_call"], events[-1]
    with responses.stream(model=model, input="Pay.", tools=tools) as stream:
        calls = [item for item in stream.until_done().get_final_response().output if item.type == "function_call"]
    outputs = [{"type": "function_call_output", "call_id": call.call_id, "output": "no"} for call in calls]
    assert responses.create(model=model, input=outputs).output_text == "Not paid."

# What a response answers.
(item,) = responses.input_items.list(hello.id)
assert item.type == "message" and item.content[0].text == "Hello, I am Ada.", item
(item,) = responses.input_items.list(again.id)
assert item.role == "user" and item.content[0].text == "What is my name?", item
given = list(responses.input_items.list(paid.id, limit=1))
assert [(item.type, item.output) for item in given] == [("function_call_output", "yes")] * 2, given

# A question to a person, a failed run, refused requests.
asked = responses.create(model="asks", input="Hello.")
assert asked.output_text == "Which colour? (one of `red`, `blue`)", asked
told = responses.create(model="asks", input="blue", previous_response_id=asked.id)
assert told.output_text == "Painted blue." and told.id != asked.id, told
failed = responses.create(model="fails", input="Hello.")
assert failed.status == "failed" and "no such key" in failed.error.message, failed
last = list(responses.create(model="fails", input="Hello.", stream=True))[-1]
assert last.type == "response.failed" and last.response.id != failed.id, last


def refused(kind, param, **request):
    try:
        responses.create(**({"model": "chat", "input": "Hello."} | request))
    except openai.APIStatusError as error:
        assert type(error) is kind and error.param == param, error
        return
    raise AssertionError(f"{request} is not refused")


refused(openai.NotFoundError, "model", model="nothing")
refused(openai.NotFoundError, "previous_response_id", previous_response_id="resp_nothing")
refused(openai.NotFoundError, "conversation", conversation="conv_nothing")
refused(openai.BadRequestError, "conversation", conversation=hello.conversation.id, previous_response_id=hello.id)
refused(openai.BadRequestError, "tools", tools=[{"type": "web_search"}])
refused(openai.BadRequestError, "text", text={"format": {"type": "json_object"}})
refused(openai.BadRequestError, "input", input=[])
print("done")
