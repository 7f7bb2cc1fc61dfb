#!/usr/bin/env python3
"""Checks that each documented rule of the fake providers refuses what it is for, and takes what is next to it."""

import copy
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from fakes import anthropic, gemini, openai  # noqa: E402
from fakes.common import Cache, Refused, raw_elements, raw_fields, said_bytes  # noqa: E402

N = iter(range(1, 1 << 20))
TOOL = {"name": "list_folder", "description": "d", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}},
                                                                   "required": ["path"]}}
OTHER = {**TOOL, "name": "read_file"}
BETA = anthropic.BINDING
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def ask(body=None, model="claude-sonnet-5-5", version="2023-06-01", beta="", cache=None, **fields):
    body = {"model": model, "max_tokens": 4096, "messages": [{"role": "user", "content": "hi"}], **(body or {}), **fields}
    body = {key: value for key, value in body.items() if value is not None}
    request = anthropic.Request(copy.deepcopy(body), {"anthropic-version": version, "anthropic-beta": beta})
    answer = anthropic.answer(request, next(N), cache or Cache())
    assert "".join(anthropic.stream(answer)).count("event: content_block_stop") == len(answer["content"])
    return answer


def respond(model="gpt-5.6-terra", cache=None, **fields):
    request = openai.Responses({"model": model, "input": "hi", **copy.deepcopy(fields)})
    answer = openai.respond(request, next(N), cache or Cache())
    assert "response.completed" in "".join(openai.stream_response(answer))
    return answer


def chat(model="gpt-5.6-terra", cache=None, **fields):
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **copy.deepcopy(fields)}
    answer = openai.complete(openai.Chat(body), next(N), cache or Cache())
    assert "[DONE]" in "".join(openai.stream_completion(answer, body))
    return answer


def generate(model="gemini-3.8-flash", cache=None, **fields):
    body = {"contents": [user("hi")], **copy.deepcopy(fields)}
    answer = gemini.answer(gemini.Request(model, body), next(N), cache or Cache())
    assert "usageMetadata" in "".join(gemini.stream(answer))
    return answer


def user(text):
    return {"role": "user", "parts": [{"text": text}]}


def refused(part, function, *args, **fields):
    try:
        function(*args, **fields)
    except Refused as error:
        assert part in error.text, f"`{part}` is not in `{error.text}`"
        return error
    raise AssertionError(f"not refused: {part} {fields}")


def check_prefixes():
    system, tools = "You write.", [TOOL]
    base = {"system": system, "tools": tools}
    messages = [{"role": "user", "content": "one"}]
    first = ask(base, messages=messages)
    messages = [*messages, {"role": "assistant", "content": first["content"]}, {"role": "user", "content": "two"}]
    second = ask(base, messages=messages)
    longer = [*messages, {"role": "assistant", "content": second["content"]}, {"role": "user", "content": "three"}]
    ask(base, messages=longer)
    bound = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
    hint = "That setting requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."
    refused(hint, ask, base, messages=longer, system="You review.")
    error = refused(bound, ask, base, messages=longer, system="You review.", beta=BETA)
    assert error.status == 400 and hint not in error.text
    for change in ({"tools": [TOOL, OTHER]}, {"tools": None}, {"system": None}, {"system": [{"type": "text", "text": system}]}):
        refused(bound, ask, base, messages=longer, **change)
    # What may differ: parameters, markers of caching, deferred tools, appended messages.
    marked = [{**TOOL, "cache_control": {"type": "ephemeral"}}]
    ask(base, messages=longer, tools=marked, max_tokens=9, metadata={"user_id": "u"}, tool_choice={"type": "none"})
    ask(base, messages=longer, tools=[TOOL, {**OTHER, "defer_loading": True}])
    ask(base, messages=longer, thinking={"type": "adaptive", "display": "summarized"}, output_config={"effort": "low"})
    edited = [{"role": "user", "content": "One"}, *longer[1:]]
    refused(bound, ask, base, messages=edited)
    # Thoughts go from the front, from the end or all of them, but not from the middle.
    third = ask(base, messages=longer)
    whole = [*longer, {"role": "assistant", "content": third["content"]}, {"role": "user", "content": "four"}]

    def without(*gone):
        said = copy.deepcopy(whole)
        for i in gone:
            said[i]["content"] = [block for block in said[i]["content"] if block["type"] != "thinking"]
        return said

    for gone in ((), (1,), (1, 3), (5,), (3, 5), (1, 3, 5)):
        ask(base, messages=without(*gone))
    refused("messages.5.content.0", ask, base, messages=without(3))
    # A thought made while another one was gone does not take it back.
    fourth = ask(base, messages=without(1, 3, 5))
    later = [*without(), {"role": "assistant", "content": fourth["content"]}, {"role": "user", "content": "five"}]
    refused("messages.7.content.0", ask, base, messages=later)
    # What does not fit is dropped if the request says so, and that is said.
    kept = ask(base, messages=longer, system="You review.", thinking=DROP, beta=BETA)
    paths = [drop["path"] for drop in kept["input_transformations"]]
    assert paths == ["messages.1.content.0", "messages.3.content.0"], paths
    assert {drop["reason"] for drop in kept["input_transformations"]} == {"prefix_binding_mismatch"}
    again = [*longer, {"role": "assistant", "content": kept["content"]}, {"role": "user", "content": "six"}]
    after = ask(base, messages=again, system="You review.", thinking=DROP, beta=BETA)
    assert [drop["path"] for drop in after["input_transformations"]] == paths
    assert ask(base, messages=longer, beta=BETA)["input_transformations"] == []
    refused("thinking.adaptive.block_binding: Extra inputs are not permitted", ask, thinking=DROP)
    refused("Extra inputs", ask, thinking={"type": "between_tools", "block_binding": {}}, beta=BETA)
    # A dropped block takes the rest of the turn's thoughts with it.
    thinks = ask(base, messages=[{"role": "user", "content": "THINK"}])
    said = [{"role": "user", "content": "THINK"}, {"role": "assistant", "content": thinks["content"]}, {"role": "user", "content": "x"}]
    assert len(ask(base, messages=said, system="B", thinking=DROP, beta=BETA)["input_transformations"]) == 2
    # Models that do not bind take another prefix; tampering is refused everywhere.
    for model in ("claude-opus-5", "claude-sonnet-5", "claude-fable-5"):
        made = ask(base, model=model, messages=[{"role": "user", "content": "one"}])
        said = [{"role": "user", "content": "one"}, {"role": "assistant", "content": made["content"]}, {"role": "user", "content": "x"}]
        ask(base, model=model, messages=said, system="B")
        said[1]["content"][0]["thinking"] = "other"
        refused("Invalid `signature` in `thinking` block", ask, base, model=model, messages=said)
    # Thoughts of another model are dropped without an error.
    other = ask(base, model="claude-opus-5-5", messages=longer, beta=BETA)
    assert {drop["reason"] for drop in other["input_transformations"]} == {"model_binding_mismatch"}


def check_anthropic_parameters():
    for name in ("temperature", "top_p", "top_k"):
        refused(f"{name}: Extra inputs are not permitted", ask, model="claude-sonnet-4-5", version="2026-10-21", **{name: 1})
        refused(f"`{name}` is deprecated for this model.", ask, **{name: 0.2})
        refused(f"`{name}` is deprecated for this model.", ask, model="claude-opus-4-7", **{name: 0.2})
        ask(model="claude-sonnet-4-6", **{name: 1})
    ask(temperature=1, top_p=1)
    refused("anthropic-version: header is required", ask, version=None)
    refused("not a valid version", ask, version="2025-01-01")
    refused("nonsense: Extra inputs are not permitted", ask, nonsense=1)
    refused("speed: Extra inputs", ask, speed="fast")
    refused("model: claude-none", ask, model="claude-none")
    refused("max_tokens: Field required", ask, max_tokens=None)
    for model in ("claude-opus-5-5", "claude-fable-5-2", "claude-sonnet-5-5"):
        for kind in ("any", "tool"):
            refused('type "tool" and "any" are not supported', ask, model=model, tools=[TOOL],
                    tool_choice={"type": kind, **({"name": "list_folder"} if kind == "tool" else {})})
        refused("thinking.type.enabled", ask, model=model, thinking={"type": "enabled", "budget_tokens": 2048})
    for model in ("claude-haiku-5-5", "claude-opus-5", "claude-opus-4-7"):
        ask(model=model, tools=[TOOL], tool_choice={"type": "any"})
        ask(model=model, thinking={"type": "disabled"})
    refused("Thinking may not be enabled", ask, model="claude-sonnet-4-6", tools=[TOOL], tool_choice={"type": "any"},
            thinking={"type": "enabled", "budget_tokens": 2048})
    refused('send "thinking": {"type": "between_tools"}', ask, thinking={"type": "disabled"})
    refused("thinking.type.disabled", ask, model="claude-opus-5-5", thinking={"type": "disabled"})
    off = ask(thinking={"type": "between_tools"})
    assert [block["type"] for block in off["content"]] == ["text"]
    refused("not supported with thinking.type", ask, thinking={"type": "between_tools"}, output_config={"effort": "max"})
    refused("thinking.type.adaptive", ask, model="claude-haiku-4-5", thinking={"type": "adaptive"})
    refused("greater than or equal to 1024", ask, model="claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 9})
    refused("max_tokens", ask, model="claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 4096})
    assert ask(model="claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 1024})["content"][0]["type"] == "thinking"
    assert len(ask(model="claude-opus-4-7")["content"]) == 1
    refused("effort", ask, model="claude-opus-4-6", output_config={"effort": "xhigh"})
    refused("effort", ask, model="claude-haiku-4-5", output_config={"effort": "low"})
    refused("output_config.effort", ask, output_config={"effort": "none"})
    refused("output_config.budget: Extra inputs", ask, output_config={"budget": 1})
    form = {"type": "json_schema", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
                                             "additionalProperties": False}}
    assert ask(output_config={"format": form})["content"][1]["text"] == '{"a": 1}'
    refused("additionalProperties", ask, output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}})
    prefill = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    refused("does not support assistant message prefill", ask, messages=prefill)
    refused("does not support assistant message prefill", ask, model="claude-opus-4-6", messages=prefill)
    ask(model="claude-sonnet-4-5", messages=prefill)
    refused("may only be specified while providing tools", ask, tool_choice={"type": "auto"})
    refused("Extra inputs", ask, tools=[{**TOOL, "parameters": {}}])


def check_anthropic_messages():
    u, a, s = ({"role": role, "content": text} for role, text in (("user", "u"), ("assistant", "a"), ("system", "s")))
    for messages in ([u, s], [u, s, a, u], [u, a, u, s], [u, s, s, a, u]):
        ask(messages=messages)
        ask(model="claude-sonnet-5", messages=messages)
    refused("may not be the first", ask, messages=[s, u])
    refused("immediately precede an assistant", ask, messages=[u, s, u])
    refused("immediately follow a user", ask, messages=[u, a, s, a, u])
    refused("role 'system' is not supported on this model", ask, model="claude-opus-4-7", messages=[u, s])
    call = {"type": "tool_use", "id": "t1", "name": "list_folder", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "r"}
    turn = [u, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    ask(messages=turn, tools=[TOOL])
    ask(messages=[*turn, s], tools=[TOOL])
    refused("immediately follow a user", ask, messages=[*turn[:2], s, turn[2]], tools=[TOOL])
    refused("ids were found without `tool_result`", ask, messages=[*turn[:2], u], tools=[TOOL])
    refused("unexpected `tool_use_id`", ask, messages=[u, a, turn[2]], tools=[TOOL])
    refused("must come first", ask, messages=[*turn[:2], {"role": "user", "content": [{"type": "text", "text": "x"}, result]}], tools=[TOOL])
    refused("non-empty", ask, messages=[{"role": "user", "content": ""}])
    refused("non-whitespace", ask, messages=[{"role": "user", "content": [{"type": "text", "text": " "}]}])
    refused("messages.0.content.0.text.foo: Extra inputs", ask, messages=[{"role": "user", "content": [{"type": "text", "text": "x", "foo": 1}]}])
    refused("Unexpected role", ask, messages=[{"role": "developer", "content": "x"}])
    change = {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_definition", "definition": OTHER}}]}
    refused("does not match any", ask, messages=[u, change], tools=[TOOL])
    refused("does not match any", ask, messages=[u, change], tools=[TOOL], beta=anthropic.CHANGES)
    ask(messages=[u, change], tools=[TOOL], beta=anthropic.INLINE)
    added = ask(messages=[{"role": "user", "content": "CALL read_file"}, change], tools=[TOOL], beta=anthropic.INLINE)
    assert added["content"][-1]["name"] == "read_file"
    reference = {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "no"}}]}
    refused("tool_reference_unresolved", ask, messages=[u, reference], tools=[TOOL], beta=anthropic.INLINE)
    cited = ask(messages=[{"role": "user", "content": "CITE"}])
    back = [{"role": "user", "content": "CITE"}, {"role": "assistant", "content": cited["content"]}, u]
    refused("citations.0.file_id: Extra inputs", ask, messages=back)
    del back[1]["content"][-1]["citations"][0]["file_id"]
    ask(messages=back)
    searched = ask(messages=[{"role": "user", "content": "SEARCH"}])
    ask(messages=[{"role": "user", "content": "SEARCH"}, {"role": "assistant", "content": searched["content"]}, u])
    assert searched["usage"]["server_tool_use"]["web_search_requests"] == 1
    assert ask(messages=[{"role": "user", "content": "REFUSE"}])["stop_details"]["category"] == "cyber"
    assert len(ask(messages=[{"role": "user", "content": "CALL2"}], tools=[TOOL])["content"]) == 4
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
    refused("not permitted in assistant", ask, version="2026-10-21", messages=[u, {"role": "assistant", "content": [document]}, u])


def check_caching():
    marker = {"type": "ephemeral"}
    text = {"type": "text", "text": "word " * 1000, "cache_control": marker}
    refused("A maximum of 4 blocks", ask, system=[text] * 4, cache_control=marker)
    ask(system=[text] * 3, cache_control=marker)
    refused("must not come after", ask, system=[text, {**text, "cache_control": {**marker, "ttl": "1h"}}])
    refused("cache_control", ask, system=[{**text, "cache_control": {"type": "ephemeral", "ttl": "2h"}}])
    refused("Extra inputs", ask, messages=[{"role": "user", "content": "x"}, {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "", "signature": "s", "cache_control": marker}]}])
    cache = Cache()
    first = ask(system=[text], cache=cache)["usage"]
    second = ask(system=[text], cache=cache)["usage"]
    assert first["cache_creation_input_tokens"] > 1000 and first["cache_read_input_tokens"] == 0, first
    assert second["cache_read_input_tokens"] == first["cache_creation_input_tokens"], second
    hour = ask(system=[{**text, "cache_control": {**marker, "ttl": "1h"}}])["usage"]
    assert hour["cache_creation"] == {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": hour["cache_creation_input_tokens"]}
    assert ask(system=[{"type": "text", "text": "word " * 1000}])["usage"]["cache_creation_input_tokens"] == 0
    cache = Cache()
    long = [{"role": "user", "content": "word " * 2000}]
    assert respond(input=long, cache=cache)["usage"]["input_tokens_details"]["cached_tokens"] == 0
    assert respond(input=[*long, long[0]], cache=cache)["usage"]["input_tokens_details"]["cached_tokens"] > 2000
    assert generate(cache=Cache())["usageMetadata"].get("cachedContentTokenCount") is None
    cache = Cache()
    generate(contents=[user("word " * 9000)], cache=cache)
    assert generate(contents=[user("word " * 9000)], cache=cache)["usageMetadata"]["cachedContentTokenCount"] > 4096


def check_responses():
    tool = {"type": "function", "name": "list_folder", "parameters": TOOL["input_schema"], "strict": False}
    refused("Unknown parameter: 'nonsense'.", respond, nonsense=1)
    refused("does not exist", respond, model="gpt-0")
    for model in ("gpt-5-mini", "gpt-5.6-terra", "gpt-6.1-sol", "gpt-6-sol"):
        for name in ("temperature", "top_p", "top_logprobs"):
            refused(f"Unsupported parameter: '{name}' is not supported with this model.", respond, model=model, **{name: 1})
    respond(model="gpt-6-sol", temperature=0.2, reasoning={"effort": "none"})
    respond(model="gpt-5.4", temperature=0.2)
    respond(model="gpt-4.1", temperature=0.2)
    for model, effort in (("gpt-6.2-sol", "none"), ("gpt-6.1-sol", "none"), ("gpt-5-mini", "none"), ("gpt-5.6-terra", "minimal"),
                          ("gpt-5.6-terra", "max"), ("gpt-5.1", "xhigh"), ("gpt-5-pro", "low"), ("o3", "minimal")):
        refused(f"Unsupported value: '{effort}'", respond, model=model, reasoning={"effort": effort})
    refused("Unsupported parameter: 'reasoning.effort'", respond, model="gpt-4.1", reasoning={"effort": "low"})
    refused("Encrypted content is not supported", respond, model="gpt-4.1", include=["reasoning.encrypted_content"])
    refused("'prompt_cache_options' is not supported", respond, model="gpt-5-mini", prompt_cache_options={"ttl": "30m"})
    respond(prompt_cache_options={"ttl": "12h", "mode": "implicit"}, prompt_cache_key="k" * 64)
    refused("string too long", respond, prompt_cache_key="k" * 65)
    refused("service_tier", respond, model="gpt-6.2-sol", service_tier="flex")
    refused(">= 16", respond, max_output_tokens=5)
    assert respond()["store"] is True and respond(store=False)["store"] is False
    refused("additionalProperties", respond, tools=[{**tool, "strict": True}])
    refused("'tools' parameter", respond, tool_choice="required")
    assert respond(model="gpt-6.1-sol", tools=[tool], tool_choice="required")["output"][-1]["type"] == "function_call"
    question = {"role": "user", "content": "CALL2"}
    items = respond(input=[question], tools=[tool])["output"]
    outputs = [{"type": "function_call_output", "call_id": item["call_id"], "output": "r"} for item in items[1:]]
    respond(input=[question, *items, *outputs], tools=[tool])
    refused("No tool output found for function call", respond, input=[question, *items, outputs[0]], tools=[tool])
    refused("No tool call found", respond, input=[question, *outputs], tools=[tool])
    refused("without its required following item", respond, input=[question, items[0]], tools=[tool])
    refused("without its required following item", respond, input=[question, items[0], question], tools=[tool])
    refused("without its required 'reasoning' item", respond, input=[question, *items[1:], *outputs], tools=[tool])
    bare = [{key: value for key, value in item.items() if key not in ("id", "status")} for item in items]
    respond(input=[question, *bare[1:], *outputs], tools=[tool])
    refused("not found", respond, input=[question, {**items[0], "encrypted_content": None}, *items[1:], *outputs], tools=[tool])
    refused("Unknown parameter: 'input[1].name'", respond, input=[question, {**question, "name": "x"}])
    refused("Supported values are: output_text", respond, input=[{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}])
    # From GPT-6.2 on, thoughts after another prefix are withheld, and said.
    hi = {"role": "user", "content": "hi"}
    said = [hi, *respond(model="gpt-6.2-sol", input=[hi])["output"], hi]
    assert "input_transformations" not in respond(model="gpt-6.2-sol", input=said)
    assert "input_transformations" not in respond(model="gpt-6.2-sol", input=said, instructions="x")
    changed = respond(model="gpt-6.2-sol", input=said, tools=[tool])["input_transformations"]
    assert changed == [{"type": "reasoning", "id": said[1]["id"], "action": "removed", "reason": "prefix_mismatch"}]
    for word, kind in (("SEARCH", "web_search_call"), ("IMAGE", "image_generation_call")):
        answer = respond(input=[{"role": "user", "content": word}])["output"]
        assert answer[1]["type"] == kind
        respond(input=[{"role": "user", "content": word}, *answer, hi])
    assert respond(input="REFUSE")["output"][-1]["content"][0]["type"] == "refusal"


def check_chat():
    function = {"name": "list_folder", "parameters": TOOL["input_schema"]}
    tools = [{"type": "function", "function": function}]
    refused("Unknown parameter: 'top_k'.", chat, top_k=1)
    for model in ("gpt-5-mini", "o3", "gpt-6-sol"):
        refused("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
                chat, model=model, temperature=0.2)
        chat(model=model, temperature=1)
        refused("Use 'max_completion_tokens' instead.", chat, model=model, max_tokens=100)
        refused("'top_p' is not supported", chat, model=model, top_p=0.5)
    for model in ("gpt-6-astra", "gpt-6.1-sol", "gpt-6.2-sol"):
        refused("Function tools with reasoning_effort are not supported", chat, model=model, tools=tools)
    for model in ("gpt-6-sol", "gpt-5.6-terra", "gpt-5.5"):
        refused("Function tools with reasoning_effort are not supported", chat, model=model, tools=tools)
        chat(model=model, tools=tools, reasoning_effort="none", temperature=0.2)
    for model in ("gpt-5-mini", "gpt-5.4", "gpt-4.1"):
        chat(model=model, tools=tools)
    refused("not a chat model", chat, model="gpt-5.5-pro")
    refused("Unsupported value: 'max'", chat, model="gpt-6-sol", reasoning_effort="max")
    refused("only allowed when 'tools'", chat, tool_choice="auto")
    refused("only allowed when 'tools'", chat, parallel_tool_calls=True)
    refused("stream_options", chat, stream_options={"include_usage": True})
    refused("prompt_cache_options", chat, model="gpt-5", prompt_cache_options={"mode": "explicit"})
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "list_folder", "arguments": "{}"}}]}
    hi, result = {"role": "user", "content": "hi"}, {"role": "tool", "tool_call_id": "c1", "content": "r"}
    chat(model="gpt-4.1", messages=[hi, call, result], tools=tools)
    refused("did not have response messages: c1", chat, messages=[hi, call, hi])
    refused("must be a response to a preceeding message", chat, messages=[hi, result])
    # Servers of open models check little, but their templates want the instructions first.
    chat(model="qwen3:8b", top_k=3, temperature=0.2, tools=tools)
    refused("System message must be at the beginning.", chat, model="qwen3:8b", messages=[hi, {"role": "system", "content": "s"}])
    assert chat(model="some/model")["usage"]["cost"] == 0.0123
    assert chat(model="qwen3:8b", messages=[{"role": "user", "content": "AUDIO"}])["choices"][0]["message"]["audio"]["transcript"]
    assert chat(messages=[{"role": "user", "content": "CITE"}])["choices"][0]["message"]["annotations"]


def check_gemini():
    tools = [{"functionDeclarations": [{"name": "list_folder", "description": "d", "parametersJsonSchema": TOOL["input_schema"]}]}]
    refused('Unknown name "nonsense": Cannot find field.', generate, nonsense=1)
    refused("Unknown name \"foo\" at 'generation_config': Cannot find field.", generate, generationConfig={"foo": 1})
    refused("is not found for API version", generate, model="gemini-0")

    def think(model, **config):
        return generate(model=model, generationConfig={"thinkingConfig": config})

    for model in ("gemini-4-argon", "gemini-3.8-flash", "gemini-3.1-pro-preview"):
        refused("MINIMAL is not supported", think, model, thinkingLevel="minimal")
        refused("Budget 0 is invalid", think, model, thinkingBudget=0)
        think(model, thinkingLevel="LOW", includeThoughts=True)
    think("gemini-3.5-flash", thinkingLevel="minimal")
    refused("MEDIUM is not supported", think, "gemini-3-pro-preview", thinkingLevel="medium")
    refused("only set only one", think, "gemini-3.8-flash", thinkingLevel="low", thinkingBudget=100)
    refused("Thinking level is not supported", think, "gemini-2.5-flash", thinkingLevel="low")
    think("gemini-2.5-flash", thinkingBudget=0)
    refused("Budget 0 is invalid", think, "gemini-2.5-pro", thinkingBudget=0)
    refused("between 512", think, "gemini-2.5-flash-lite", thinkingBudget=100)
    refused("Thinking is not enabled", think, "gemini-2.5-flash-image", thinkingBudget=100)
    choose = lambda **config: generate(tools=tools, toolConfig={"functionCallingConfig": config})  # noqa: E731
    refused("only when function calling mode is ANY or VALIDATED", choose, mode="AUTO", allowedFunctionNames=["list_folder"])
    choose(mode="VALIDATED", allowedFunctionNames=["list_folder"])
    assert "functionCall" in choose(mode="ANY")["candidates"][0]["content"]["parts"][0]
    refused("without function_declarations", generate, toolConfig={"functionCallingConfig": {"mode": "AUTO"}})
    refused("Unknown name \"additionalProperties\"", generate, tools=[{"functionDeclarations": [
        {"name": "f", "parameters": {"type": "object", "additionalProperties": False}}]}])
    both = {"tools": [*tools, {"googleSearch": {}}]}
    refused("cannot be combined", generate, model="gemini-2.5-flash", **both)
    generate(**both)
    ask_tool = user("CALL2")
    called = generate(contents=[ask_tool], tools=tools)["candidates"][0]["content"]
    ids = [part["functionCall"]["id"] for part in called["parts"]]
    results = [{"functionResponse": {"id": i, "name": "list_folder", "response": {"output": "r"}}} for i in ids]
    turn = [ask_tool, called, {"role": "user", "parts": results}]
    generate(contents=turn, tools=tools)
    refused("number of function response parts", generate, contents=[*turn[:2], {"role": "user", "parts": results[:1]}], tools=tools)
    refused("ids match", generate, contents=[*turn[:2], {"role": "user", "parts": [results[0], results[0]]}], tools=tools)
    refused("immediately after a function call turn", generate, contents=[turn[0], turn[2]], tools=tools)
    unsigned = copy.deepcopy(turn)
    del unsigned[1]["parts"][0]["thoughtSignature"]
    refused("Function call is missing a thought_signature in functionCall parts.", generate, contents=unsigned, tools=tools)
    generate(contents=[*unsigned, {"role": "model", "parts": [{"text": "a"}]}, user("next")], tools=tools)
    generate(model="gemini-2.5-flash", contents=unsigned, tools=tools)
    unsigned[1]["parts"][0]["thoughtSignature"] = gemini.SKIP[1]
    generate(contents=unsigned, tools=tools)
    unsigned[1]["parts"][0]["thoughtSignature"] = "Zm9v"
    refused("Invalid thought signature.", generate, contents=unsigned, tools=tools)
    refused("valid role: user, model", generate, contents=[{"role": "assistant", "parts": [{"text": "x"}]}])
    refused("required oneof field 'data'", generate, contents=[{"role": "user", "parts": [{}]}])
    refused("parts must not be empty", generate, contents=[{"role": "user", "parts": []}])
    grounded = generate(contents=[user("SEARCH")])["candidates"][0]
    segment = grounded["groundingMetadata"]["groundingSupports"][0]["segment"]
    assert grounded["content"]["parts"][0]["text"].encode()[segment["startIndex"]:segment["endIndex"]].decode() == segment["text"]
    assert generate(contents=[user("REFUSE")])["candidates"][0]["finishReason"] == "SAFETY"
    usage = generate(contents=[user("CITE")])["usageMetadata"]
    assert usage["totalTokenCount"] == sum(usage[name] for name in (
        "promptTokenCount", "candidatesTokenCount", "toolUsePromptTokenCount", "thoughtsTokenCount"))


def check_names_ids_and_schemas():
    for name in ("functions.list_folder", "", "x" * 129, "my tool"):
        turn = [{"type": "tool_use", "id": "t1", "name": name, "input": {}}], [{"type": "tool_result", "tool_use_id": "t1"}]
        said = [{"role": role, "content": content} for role, content in zip(("user", "assistant", "user"), ("hi", *turn))]
        refused("tool_use.name: String should match pattern", ask, messages=said, tools=[TOOL])
    items = [{"role": "user", "content": "hi"}, {"type": "function_call", "call_id": "c", "name": "a", "arguments": "{}"},
             {"type": "function_call_output", "call_id": "c", "output": "r"}]
    respond(model="gpt-4.1", input=items)
    refused("input[1].name", respond, model="gpt-4.1", input=[items[0], {**items[1], "name": "a.b"}, items[2]])
    long = {"call_id": "c" * 65}
    refused("maximum length 64", respond, model="gpt-4.1", input=[items[0], {**items[1], **long}, {**items[2], **long}])
    for id, name, text in (("c" * 40, "a", None), ("c" * 41, "a", "maximum length 40"), ("c", "a b", "does not match pattern")):
        said = [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": id, "content": "r"}]
        refused(text, chat, model="gpt-4.1", messages=said) if text else chat(model="gpt-4.1", messages=said)
        chat(model="qwen3:8b", messages=said)
    function = {"type": "function", "function": {"name": "pick", "parameters": {"type": "object", "oneOf": []}}}
    refused("at the top level", chat, model="gpt-4.1", tools=[function])
    refused("at the top level", ask, tools=[{"name": "pick", "input_schema": {"type": "object", "anyOf": []}}])
    refused("Property keys", ask, tools=[{"name": "pick", "input_schema": {"type": "object", "properties": {"$top": {}}}}])
    parts = [{"functionCall": {"name": "a b", "args": {}}}], [{"functionResponse": {"name": "a b", "response": {}}}]
    refused("Invalid function name", generate, contents=[user("hi"), {"role": "model", "parts": parts[0]},
                                                         {"role": "user", "parts": parts[1]}])


def check_common():
    raw = '{"system": [ {"type":"text","text":"a\\u00fc", "cache_control":{"type":"ephemeral"}}], "messages":"x"}'
    fields = raw_fields(raw)
    assert [said_bytes(element) for element in raw_elements(fields["system"])] == ['{"type":"text","text":"aü"}']
    assert raw_elements(fields["messages"]) == ['"x"']
    for check, headers in ((anthropic.authenticate, {"x-api-key": "wrong"}), (openai.authenticate, {"authorization": "Bearer wrong"})):
        assert refused("API" if check is openai.authenticate else "invalid x-api-key", check, headers).status == 401
    assert refused("API key not valid", gemini.authenticate, {"x-goog-api-key": "wrong"}, {}).status == 400


if __name__ == "__main__":
    checks = [check for name, check in list(globals().items()) if name.startswith("check_")]
    for check in checks:
        check()
    print(f"{len(checks)} checks passed")
