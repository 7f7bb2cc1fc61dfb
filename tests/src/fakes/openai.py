"""OpenAI Responses and Chat Completions as documented in November 2026.

Pages are below https://developers.openai.com/api/docs/guides/ unless another source is named: [checklist]
deployment-checklist, [62] latest-model/gpt-6.2-astra.md, [prefix] keep-prefix-unchanged, [caching] prompt-caching,
[structured] structured-outputs, [reasoning] reasoning, [sdk] the types of the Python package openai 3.57.0, [pyd]
pydantic_ai_slim 2.68 profiles/openai.py, whose authors tried every model, [chat] developers.openai.com/api/reference/chat.
"""

import re

from .common import PNG, SOURCE, WAV, Chain, Refused, Script, compact, tokens, unseal, without_markers

LOW, FULL, MAX = ("low", "medium", "high"), ("none", "low", "medium", "high", "xhigh"), (
    "none", "low", "medium", "high", "xhigh", "max")


class Model:
    """What a family of models takes."""

    def __init__(self, efforts=(), default="medium", tools="always", chat=True, cache="old", bound=False):
        self.efforts, self.default, self.tools, self.chat, self.cache, self.bound = efforts, default, tools, chat, cache, bound


# [pyd] for efforts and defaults; [checklist] for tools over Chat Completions: `never`, or `off`: with the effort none only;
# [caching] for the options of the cache. The first name that begins so holds.
MODELS = [
    ("gpt-6.2-", Model(MAX[1:], tools="never", cache="new", bound=True)),
    ("gpt-6-astra", Model(MAX[1:], tools="never", cache="new")),
    ("gpt-6.1-sol", Model(MAX[1:], tools="never", cache="new")),
    ("gpt-6.1-terra", Model(MAX, tools="off", cache="new")),
    ("gpt-6-", Model(MAX, tools="off", cache="new")),
    ("gpt-5.6", Model(FULL, tools="off", cache="new")),
    ("gpt-5.5-pro", Model(FULL[2:], chat=False)),
    ("gpt-5.4-pro", Model(FULL[2:], chat=False)),
    ("gpt-5.5", Model(FULL, tools="off")),
    ("gpt-5.4", Model(FULL, default="none", tools="off")),
    ("gpt-5.3-chat", Model(("medium",))),
    ("gpt-5.2-chat", Model(("medium",))),
    ("gpt-5.1-chat", Model(("medium",))),
    ("gpt-5.2-pro", Model(FULL[2:], chat=False)),
    ("gpt-5.3", Model(FULL, default="none")),
    ("gpt-5.2", Model(FULL, default="none")),
    ("gpt-5.1", Model(FULL[:4], default="none")),
    ("gpt-5-chat", Model()),
    ("gpt-5-pro", Model(("high",), default="high", chat=False)),
    ("gpt-5", Model(("minimal", *LOW))),
    ("o1", Model(LOW)),
    ("o3", Model(LOW)),
    ("o4", Model(LOW)),
    ("gpt-4", Model()),
]
NAMES = ["gpt-6.2-astra", "gpt-6.2-sol", "gpt-6-astra", "gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-sol", "gpt-6-luna",
         "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna", "gpt-5.5", "gpt-5.5-pro", "gpt-5.4", "gpt-5.1", "gpt-5", "gpt-5-mini",
         "gpt-5-nano", "gpt-5-pro", "o3", "o4-mini", "gpt-4.1", "gpt-4.1-mini", "gpt-4o"]

# [sdk] responses/response_create_params.py, chat/completion_create_params.py
RESPONSES_FIELDS = set(
    "access_programs background background_options context_management conversation image include input instructions "
    "max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt "
    "prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream "
    "stream_options temperature text tool_choice tools top_logprobs top_p truncation user".split())
CHAT_FIELDS = set(
    "messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens "
    "metadata modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key "
    "prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop "
    "store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity "
    "web_search_options".split())
# [sdk] responses/response_input_item_param.py
ITEM_FIELDS = {
    "message": {"id", "role", "content", "status", "phase"},
    "function_call": {"id", "call_id", "name", "arguments", "status", "namespace", "caller"},
    "function_call_output": {"id", "call_id", "output", "status"},
    "reasoning": {"id", "summary", "content", "encrypted_content", "status"},
    "web_search_call": {"id", "status", "action"},
    "image_generation_call": {"id", "status", "result", "output_format", "size", "quality", "background", "action",
                              "revised_prompt"},
    "additional_tools": {"role", "tools"},
    "configuration_update": {"reasoning", "text"},
    "compaction": {"id", "encrypted_content"},
    "item_reference": {"id"},
}
INCLUDES = ("file_search_call.results", "web_search_call.results", "web_search_call.action.sources",
            "message.input_image.image_url", "computer_call_output.output.image_url", "code_interpreter_call.outputs",
            "reasoning.encrypted_content", "message.output_text.logprobs")
TIERS = ("auto", "default", "flex", "priority", "fast", "scale", "ultrafast")


def refuse(text, param=None, code=None, status=400, kind="invalid_request_error"):
    raise Refused(status, {"error": {"message": text, "type": kind, "param": param, "code": code}}, text)


def unsupported(param, more=""):
    refuse(f"Unsupported parameter: '{param}' is not supported with this model.{more}", param, "unsupported_parameter")


def is_own(name):
    """Whether the model is one of OpenAI; others are served by a compatible server, which checks little."""
    return re.match(r"(gpt-\d|o\d|chatgpt-)", name or "") is not None


def model_of(name):
    for known, model in MODELS:
        if name.startswith(known) and not name.endswith("-unknown"):
            return model
    refuse(f"The model `{name}` does not exist or you do not have access to it.", None, "model_not_found", 404)


def authenticate(headers, is_needed=True):
    key = headers.get("api-key") or (headers.get("authorization") or "").removeprefix("Bearer ")
    if key and "wrong" in key:
        refuse(f"Incorrect API key provided: {key[:3]}*****. You can find your API key at "
               "https://platform.openai.com/account/api-keys.", None, "invalid_api_key", 401)
    if not key and is_needed:
        refuse("You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
               "(i.e. Authorization: Bearer YOUR_KEY).", None, None, 401)


def models(own):
    names = NAMES if own else ["qwen3:8b", "some-model"]
    data = [{"id": name, "object": "model", "created": 1, "owned_by": "openai" if own else "library"} for name in names]
    return {"object": "list", "data": data}


def check_fields(body, known):
    for name in body:
        if name not in known:
            refuse(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    for name in ("model", "input" if "input" in known else "messages"):
        if name not in body:
            refuse(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")


def check_effort(model, name, effort, param, over_chat=False):
    """Checks the effort, and returns the one that holds. [reasoning]"""
    if effort is None:
        return model.default if model.efforts else "none"
    if not model.efforts:
        unsupported(param)
    known = [word for word in model.efforts if not (over_chat and word == "max")]
    if effort not in known:
        words = ", ".join(f"'{word}'" for word in known)
        refuse(f"Unsupported value: '{effort}' is not supported with the '{name}' model. Supported values are: {words}.",
               param, "unsupported_value")
    return effort


def check_common(model, body):
    # [caching] Options exist from GPT-5.6 on.
    options = body.get("prompt_cache_options")
    if options is not None:
        if model.cache != "new":
            unsupported("prompt_cache_options")
        for name, words in (("mode", ("implicit", "explicit")), ("ttl", ("30m", "12h"))):
            if options.get(name, words[0]) not in words:
                refuse(f"Invalid value: '{options[name]}'.", f"prompt_cache_options.{name}", "invalid_value")
        unknown = set(options) - {"mode", "ttl", "prewarm", "comparison_response_id"}
        if unknown:
            refuse(f"Unknown parameter: 'prompt_cache_options.{unknown.pop()}'.", None, "unknown_parameter")
    key = body.get("prompt_cache_key")
    if key is not None and len(key) > 64:
        refuse("Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with "
               f"length {len(key)} instead.", "prompt_cache_key", "string_above_max_length")
    tier = body.get("service_tier", "auto")
    # [62] No flex from GPT-6.2 on.
    if tier not in TIERS or tier == "flex" and model.bound:
        refuse(f"Invalid service_tier argument: '{tier}'", "service_tier", "invalid_value")


def check_tool(name, schema, is_strict, param):
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name or ""):
        refuse(f"Invalid '{param}.name': string does not match pattern. Expected a string that matches the pattern "
               "'^[a-zA-Z0-9_-]+$'.", f"{param}.name", "invalid_value")
    # [structured] Also where they are not strict.
    for word in ("oneOf", "anyOf", "allOf", "enum", "not"):
        if word in (schema or {}):
            refuse(f"Invalid schema for function '{name}': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/"
                   "'enum'/'not' at the top level.", f"{param}.parameters", "invalid_function_parameters")
    if schema and schema.get("type") != "object":
        refuse(f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'type: "
               f"\"{schema.get('type')}\"'.", f"{param}.parameters", "invalid_function_parameters")
    if is_strict:
        strict(schema or {}, f"function '{name}'", param)


def check_call(name, id, param, id_param, n_id_max):
    """A call of a conversation, as the errors say that clients report."""
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name or ""):
        refuse(f"Invalid '{param}': string does not match pattern. Expected a string that matches the pattern "
               "'^[a-zA-Z0-9_-]+$'.", param, "invalid_value")
    if len(id) > n_id_max:
        refuse(f"Invalid '{id_param}': string too long. Expected a string with maximum length {n_id_max}, but got a string with "
               f"length {len(id)} instead.", id_param, "string_above_max_length")


def strict(schema, what, param, path=()):
    """[structured] Strict schemas: every object is closed, and all its properties are required."""
    if not isinstance(schema, dict):
        return
    where = f"Invalid schema for {what}: In context={path!r}, "
    if schema.get("type") == "object" or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            refuse(f"{where}'additionalProperties' is required to be supplied and to be false.", f"{param}.parameters",
                   "invalid_function_parameters")
        missing = sorted(set(schema.get("properties") or {}) - set(schema.get("required") or []))
        if missing:
            refuse(f"{where}'required' is required to be supplied and to be an array including every key in properties. "
                   f"Missing '{missing[0]}'.", f"{param}.parameters", "invalid_function_parameters")
    for word in ("allOf", "not", "if", "then", "else", "dependentRequired", "oneOf"):
        if word in schema:
            refuse(f"{where}'{word}' is not permitted.", f"{param}.parameters", "invalid_function_parameters")
    for key, inner in (schema.get("properties") or {}).items():
        strict(inner, what, param, (*path, "properties", key))
    for inner in [schema.get("items"), *(schema.get("anyOf") or [])]:
        strict(inner, what, param, path)


def cache_usage(model, body, cache, blocks):
    """Tokens of the prompt, those that were cached, and those that were written. [caching]"""
    n = tokens(blocks)
    explicit = (body.get("prompt_cache_options") or {}).get("mode") == "explicit"
    ends = [at for at in range(len(blocks) + 1) if tokens(blocks[:at]) >= 1024]
    ends = [] if explicit else ends
    read = tokens(blocks[:cache.read_and_write(blocks, ends)])
    read = read // 128 * 128
    return n, read, (n - read if model.cache == "new" and ends else 0)


class Responses:
    """A request to Responses, checked."""

    def __init__(self, body):
        self.body = body
        check_fields(body, RESPONSES_FIELDS)
        self.model = model = model_of(body["model"])
        reasoning = body.get("reasoning") or {}
        self.effort = check_effort(model, body["model"], reasoning.get("effort"), "reasoning.effort")
        if set(reasoning) - {"effort", "summary", "context", "mode"}:
            refuse("Unknown parameter: 'reasoning." + sorted(set(reasoning) - {"effort", "summary", "context", "mode"})[0] +
                   "'.", None, "unknown_parameter")
        if reasoning and not model.efforts:
            unsupported("reasoning")
        if reasoning.get("summary", "auto") not in ("auto", "concise", "detailed"):
            refuse(f"Invalid value: '{reasoning['summary']}'.", "reasoning.summary", "invalid_value")
        # [checklist] Nothing of sampling while the model reasons.
        if self.effort != "none":
            for name in ("temperature", "top_p", "top_logprobs"):
                if name in body:
                    unsupported(name)
            if "message.output_text.logprobs" in (body.get("include") or []):
                unsupported("include")
        for name in body.get("include") or []:
            if name not in INCLUDES:
                refuse(f"Invalid value: '{name}'.", "include[0]", "invalid_value")
            if name == "reasoning.encrypted_content" and not model.efforts:
                refuse("Encrypted content is not supported with this model.", "include")
        if body.get("max_output_tokens", 16) < 16:
            refuse("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got "
                   f"{body['max_output_tokens']} instead.", "max_output_tokens", "integer_below_min_value")
        check_common(model, body)
        self.text()
        self.tools()
        self.items()
        self.withheld = self.binding()

    def text(self):
        text = self.body.get("text") or {}
        if set(text) - {"format", "verbosity"}:
            refuse(f"Unknown parameter: 'text.{sorted(set(text) - {'format', 'verbosity'})[0]}'.", None, "unknown_parameter")
        words = ("low", "medium", "high") if self.model.efforts else ("medium",)
        if text.get("verbosity", "medium") not in words:
            refuse(f"Unsupported value: '{text['verbosity']}' is not supported with the '{self.body['model']}' model. "
                   f"Supported values are: {words}.", "text.verbosity", "unsupported_value")
        form = text.get("format") or {"type": "text"}
        self.form = form.get("schema") if form["type"] == "json_schema" else None
        if form["type"] == "json_schema":
            if "name" not in form:
                refuse("Missing required parameter: 'text.format.name'.", "text.format.name", "missing_required_parameter")
            if form.get("strict"):
                strict(form["schema"], f"response_format '{form['name']}'", "text.format")

    def tools(self):
        self.offered = {}
        more = [item for item in raw_list(self.body["input"]) if item.get("type") == "additional_tools"]
        tools = (self.body.get("tools") or []) + [tool for item in more for tool in item["tools"]]
        for i, tool in enumerate(tools):
            if tool.get("type") != "function":
                continue
            unknown = set(tool) - {"type", "name", "description", "parameters", "strict", "defer_loading", "allowed_callers",
                                   "output_schema", "async"}
            if unknown:
                refuse(f"Unknown parameter: 'tools[{i}].{unknown.pop()}'.", f"tools[{i}]", "unknown_parameter")
            check_tool(tool.get("name"), tool.get("parameters"), tool.get("strict"), f"tools[{i}]")
            if tool["name"] in self.offered:
                refuse(f"Duplicate tool name: {tool['name']}", "tools")
            self.offered[tool["name"]] = tool.get("parameters") or {}
        choice = self.body.get("tool_choice", "auto")
        self.choice = choice
        if choice not in ("auto", "none") and not tools:
            refuse("Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice")
        if isinstance(choice, dict):
            names = [choice.get("name")]
            if choice["type"] == "allowed_tools":
                names = [tool.get("name") for tool in choice["tools"]]
                self.offered = {name: schema for name, schema in self.offered.items() if name in names}
                self.choice = choice["mode"]
            else:
                self.choice = choice["name"]
            if not set(names) <= {tool.get("name") for tool in tools}:
                refuse(f"Tool choice '{names[0]}' not found in 'tools' parameter.", "tool_choice")

    def items(self):
        """What may follow what. [reasoning], and the errors that clients report."""
        items = self.items_ = raw_list(self.body["input"])
        calls, outputs = [], [item.get("call_id") for item in items if item.get("type") == "function_call_output"]
        for i, item in enumerate(items):
            kind = item.get("type", "message")
            if kind not in ITEM_FIELDS:
                refuse(f"Invalid value: '{kind}'. Supported values are: {', '.join(ITEM_FIELDS)}.", f"input[{i}]",
                       "invalid_value")
            unknown = set(item) - ITEM_FIELDS[kind] - {"type"}
            if unknown:
                refuse(f"Unknown parameter: 'input[{i}].{sorted(unknown)[0]}'.", f"input[{i}].{sorted(unknown)[0]}",
                       "unknown_parameter")
            if kind == "item_reference":
                refuse(f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false. Try "
                       "again with `store` set to true, or remove this item from your input.", "input", status=404)
            if kind == "message":
                self.message(i, item)
            if kind == "function_call":
                calls.append(item["call_id"])
                check_call(item.get("name"), item["call_id"], f"input[{i}].name", f"input[{i}].call_id", 64)
                if item["call_id"] not in outputs:
                    refuse(f"No tool output found for function call {item['call_id']}.", "input")
                if not isinstance(item.get("arguments"), str):
                    refuse(f"Invalid type for 'input[{i}].arguments': expected a string.", f"input[{i}].arguments",
                           "invalid_type")
            if kind == "function_call_output" and item["call_id"] not in calls:
                refuse(f"No tool call found for function call output with call_id {item['call_id']}.", "input")
            if kind == "reasoning":
                self.reasoning(i, item)
            # An item that comes with its id comes with its thoughts.
            made = re.fullmatch(r"(?:fc|msg)_(\d+_\w+)_\d+", item.get("id") or "")
            if made and kind in ("function_call", "message"):
                thought = f"rs_{made.group(1)}"
                if not any(before.get("id") == thought for before in items[:i]):
                    refuse(f"Item '{item['id']}' of type '{kind}' was provided without its required 'reasoning' item: "
                           f"'{thought}'.", "input")

    def message(self, i, item):
        role, content = item.get("role"), item.get("content")
        if role not in ("user", "assistant", "system", "developer"):
            refuse(f"Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
                   f"input[{i}].role", "invalid_value")
        known = {"output_text": {"text", "annotations", "logprobs"}, "refusal": {"refusal"}} if role == "assistant" else {
            "input_text": {"text", "prompt_cache_breakpoint"}, "input_image": {"image_url", "file_id", "detail", "prompt_cache_breakpoint"},
            "input_file": {"file_data", "file_id", "file_url", "filename", "prompt_cache_breakpoint"}}
        for j, part in enumerate(content if isinstance(content, list) else []):
            if part.get("type") not in known:
                refuse(f"Invalid value: '{part.get('type')}'. Supported values are: {', '.join(known)}.",
                       f"input[{i}].content[{j}]", "invalid_value")
            unknown = set(part) - known[part["type"]] - {"type"}
            if unknown:
                refuse(f"Unknown parameter: 'input[{i}].content[{j}].{sorted(unknown)[0]}'.", None, "unknown_parameter")

    def reasoning(self, i, item):
        if item.get("summary") is None:
            refuse(f"Missing required parameter: 'input[{i}].summary'.", f"input[{i}].summary", "missing_required_parameter")
        sealed = unseal(item.get("encrypted_content") or "")
        if item.get("encrypted_content") is None:
            refuse(f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false. Try again "
                   "with `store` set to true, or remove this item from your input.", "input", status=404)
        if sealed is None:
            refuse(f"The encrypted content for item {item.get('id')} could not be verified.", None, "invalid_encrypted_content")
        after = self.items_[i + 1] if i + 1 < len(self.items_) else {}
        led_to = sealed["led_to"]
        kind = after.get("type", "message") if after else None
        fits = kind == "reasoning" or (after.get("call_id") == led_to if led_to.startswith("call_") else (
            kind == "message" and after.get("role") == "assistant" if led_to == "message" else kind == led_to))
        if not fits:
            refuse(f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.", "input")

    def binding(self):
        """[62], [prefix] From GPT-6.2 on, thoughts after another prefix are withheld, and that is said."""
        body = self.body
        instructions = None if self.model.bound else body.get("instructions")
        self.chain = chain = Chain(body.get("tools"), (body.get("text") or {}).get("format"), instructions)
        withheld, self.n_thoughts = [], 0
        for item in self.items_:
            if item.get("type") != "reasoning":
                chain.add({key: value for key, value in without_markers(item).items() if key not in ("id", "status")})
                continue
            self.n_thoughts += 1
            if not chain.takes(unseal(item["encrypted_content"])) and self.model.bound:
                withheld.append({"type": "reasoning", "id": item["id"], "action": "removed", "reason": "prefix_mismatch"})
        return withheld

    def script(self):
        said, n_done, was_call = "", 0, False
        for item in self.items_:
            kind = item.get("type", "message")
            if kind == "message" and item["role"] == "user":
                said, n_done = plain(item["content"]), 0
            elif kind == "function_call":
                n_done += not was_call
            was_call = kind == "function_call"
        return Script(said, n_done, self.offered, self.choice, self.form)

    def blocks(self):
        body = self.body
        gone = {item["id"] for item in self.withheld}
        tools = [compact(tool) for tool in body.get("tools") or []]
        items = [compact(without_markers(item)) for item in self.items_ if item.get("id") not in gone]
        instructions = [body["instructions"]] if body.get("instructions") else []
        # [62] From GPT-6.2 on they come after the input.
        return tools + items + instructions if self.model.bound else tools + instructions + items


def raw_list(value):
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


def plain(content):
    if not isinstance(content, list):
        return content or ""
    return "\n".join(part.get("text", "") for part in content)


def respond(request, number, cache):
    """The response that answers a request to Responses."""
    body, model, script = request.body, request.model, request.script()
    output, text = [], script.answer(number)
    what, more = None, []
    if script.n_calls:
        if body.get("parallel_tool_calls") is False:
            script.n_calls = 1
        what = f"call_{number}_0"
    elif script.has("SEARCH"):
        what = "web_search_call"
    elif script.has("IMAGE"):
        what = "image_generation_call"
    thinks = model.efforts and request.effort != "none"
    if thinks:
        n = 2 if script.has("THINK") else 1
        for i in range(n):
            tag = "abcdef"[i]
            sealed = request.chain.mint(f"{number}_{tag}", led_to=what or "message")
            summary = [{"type": "summary_text", "text": f"thought {number}.{i}"}] if (body.get("reasoning") or {}).get("summary") else []
            output.append({"id": f"rs_{number}_{tag}", "type": "reasoning", "summary": summary, "encrypted_content": sealed})
    owner = f"{number}_{'abcdef'[len(output) - 1]}" if thinks else f"{number}"
    if script.n_calls:
        output += [{"id": f"fc_{owner}_{i}", "type": "function_call", "status": "completed", "call_id": f"call_{number}_{i}",
                    "name": script.tool, "arguments": compact(script.arguments)} for i in range(script.n_calls)]
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    at = text.find(SOURCE["quoted"])
    if script.has("SEARCH"):
        output.append({"id": f"ws_{number}", "type": "web_search_call", "status": "completed",
                       "action": {"type": "search", "query": "sky", "queries": ["sky"]}})
        more.append(("tool_usage", {"web_search": {"num_requests": 1}}))
    if script.has("IMAGE"):
        output.append({"id": f"ig_{number}", "type": "image_generation_call", "status": "completed", "result": PNG,
                       "output_format": "png"})
    if script.has("SEARCH") or script.has("CITE"):
        part["annotations"] = [{"type": "url_citation", "url": SOURCE["url"], "title": SOURCE["title"], "start_index": at,
                                "end_index": at + len(SOURCE["quoted"])}]
        if script.has("CITE"):
            part["annotations"].append({"type": "file_citation", "file_id": "file_1", "filename": "sky.txt", "index": 0})
    if script.has("REFUSE"):
        part = {"type": "refusal", "refusal": "I cannot help with that."}
    if "message.output_text.logprobs" in (body.get("include") or []):
        part["logprobs"] = [{"token": text, "logprob": -0.5, "bytes": list(text.encode()), "top_logprobs": []}]
    if not script.n_calls:
        message = {"id": f"msg_{owner}_0", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        # [sdk] Later models mark the final answer.
        if model.cache == "new":
            message["phase"] = "final_answer"
        output.append(message)
    n, read, written = cache_usage(model, body, cache, request.blocks())
    details = {"cached_tokens": read}
    if model.cache == "new":
        details["cache_write_tokens"] = written
        is_long = (body.get("prompt_cache_options") or {}).get("ttl") == "12h"
        details["cache_write_tokens_details"] = {"ttl_30m_tokens": 0 if is_long else written, "ttl_12h_tokens": written if is_long else 0}
    n_out = 1 + tokens([compact(output)])
    tier = body.get("service_tier", "default")
    usage = {"input_tokens": n, "input_tokens_details": details, "output_tokens": n_out,
             "output_tokens_details": {"reasoning_tokens": 1 if thinks else 0}, "total_tokens": n + n_out}
    transformations = {"input_transformations": request.withheld} if request.withheld else {}
    return {
        "id": f"resp_{number}", "object": "response", "created_at": 1, "status": "completed", "error": None,
        "incomplete_details": None, "model": body["model"], "output": output, "store": body.get("store", True),
        "service_tier": {"auto": "default", "fast": "priority"}.get(tier, tier), "usage": usage, **transformations, **dict(more),
    }


def stream_response(response):
    """The events of a streamed response."""
    number = iter(range(1 << 30))

    def event(kind, **fields):
        return f"event: {kind}\ndata: {compact({'type': kind, 'sequence_number': next(number), **fields})}\n\n"

    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=begun) + event("response.in_progress", response=begun)
    for i, item in enumerate(response["output"]):
        opened = {**item, "status": "in_progress"} if "status" in item else dict(item)
        if item["type"] == "message":
            opened["content"] = []
        if item["type"] == "function_call":
            opened["arguments"] = ""
        # [sdk] What is encrypted is complete in the last event only.
        opened.pop("encrypted_content", None)
        yield event("response.output_item.added", output_index=i, item=opened)
        where = {"item_id": item["id"], "output_index": i, "content_index": 0}
        if item["type"] == "function_call":
            yield event("response.function_call_arguments.delta", item_id=item["id"], output_index=i, delta=item["arguments"])
            yield event("response.function_call_arguments.done", item_id=item["id"], output_index=i, arguments=item["arguments"])
        for part in item["content"] if item["type"] == "message" else []:
            kind = "refusal" if part["type"] == "refusal" else "output_text"
            text = part.get("text") or part.get("refusal")
            empty = {"type": "refusal", "refusal": ""} if kind == "refusal" else {**part, "text": "", "annotations": []}
            yield event("response.content_part.added", part=empty, **where)
            half = len(text) // 2
            for piece in (text[:half], text[half:]):
                yield event(f"response.{kind}.delta", delta=piece, **where)
            for k, annotation in enumerate(part.get("annotations", [])):
                yield event("response.output_text.annotation.added", annotation=annotation, annotation_index=k, **where)
            done = {"refusal": text} if kind == "refusal" else {"text": text}
            yield event(f"response.{kind}.done", **done, **where)
            yield event("response.content_part.done", part=part, **where)
        yield event("response.output_item.done", output_index=i, item=item)
    yield event("response.completed", response=response)


class Chat:
    """A request to Chat Completions, checked."""

    def __init__(self, body):
        self.body, self.is_own = body, is_own(body.get("model"))
        self.withheld, self.n_thoughts = [], 0
        if self.is_own:
            self.own()
        else:
            self.model, self.effort = Model(), "none"
            self.compatible()
        self.tools()
        self.messages()

    def own(self):
        body = self.body
        check_fields(body, CHAT_FIELDS)
        self.model = model = model_of(body["model"])
        if not model.chat:
            refuse("This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use "
                   "v1/responses?", "model", status=404)
        self.effort = check_effort(model, body["model"], body.get("reasoning_effort"), "reasoning_effort", over_chat=True)
        if model.efforts and "max_tokens" in body:
            unsupported("max_tokens", " Use 'max_completion_tokens' instead.")
        if self.effort != "none":
            # [checklist] The texts are those that clients report (QwenLM/qwen-code#921, tmc/langchaingo#1355).
            if body.get("temperature", 1) != 1:
                refuse(f"Unsupported value: 'temperature' does not support {body['temperature']} with this model. Only the "
                       "default (1) value is supported.", "temperature", "unsupported_value")
            for name in ("top_p", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs"):
                if name in body:
                    unsupported(name)
        # [checklist]
        if body.get("tools") and (model.tools == "never" or model.tools == "off" and self.effort != "none"):
            refuse(f"Function tools with reasoning_effort are not supported for {body['model']} in /v1/chat/completions. "
                   "Please use /v1/responses instead.", "tools")
        # [chat] Not supported with o3 and o4-mini.
        if "stop" in body and body["model"].startswith(("o3", "o4")):
            unsupported("stop")
        if body.get("verbosity", "medium") not in (("low", "medium", "high") if model.efforts else ("medium",)):
            refuse(f"Unsupported value: 'verbosity' does not support '{body['verbosity']}' with this model.", "verbosity",
                   "unsupported_value")
        if body.get("stream_options") and not body.get("stream"):
            refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
        check_common(model, body)

    def compatible(self):
        # Templates of open models, such as Qwen's in vLLM.
        for i, message in enumerate(self.body["messages"]):
            if message["role"] in ("system", "developer") and i > 0:
                refuse("System message must be at the beginning.", None, "invalid_request_error")

    def tools(self):
        self.offered = {}
        for i, tool in enumerate(self.body.get("tools") or []):
            function = tool.get("function") or {}
            if self.is_own:
                unknown = set(function) - {"name", "description", "parameters", "strict"} | set(tool) - {"type", "function"}
                if unknown:
                    refuse(f"Unknown parameter: 'tools[{i}].{unknown.pop()}'.", f"tools[{i}]", "unknown_parameter")
                check_tool(function.get("name"), function.get("parameters"), function.get("strict"), f"tools[{i}].function")
            self.offered[function["name"]] = function.get("parameters") or {}
        if not self.offered:
            for name in ("tool_choice", "parallel_tool_calls"):
                if name in self.body:
                    refuse(f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified.", name)
        choice = self.body.get("tool_choice", "auto")
        if isinstance(choice, dict) and choice["type"] == "allowed_tools":
            names = [tool["function"]["name"] for tool in choice["allowed_tools"]["tools"]]
            self.offered = {name: schema for name, schema in self.offered.items() if name in names}
            choice = choice["allowed_tools"]["mode"]
        self.choice = choice["function"]["name"] if isinstance(choice, dict) else choice
        form = self.body.get("response_format") or {"type": "text"}
        self.form = form["json_schema"]["schema"] if form["type"] == "json_schema" else None
        if self.form is not None and self.is_own and form["json_schema"].get("strict"):
            strict(self.form, f"response_format '{form['json_schema']['name']}'", "response_format")

    def messages(self):
        """[chat] Every call is followed by its result, and every result follows its call."""
        waiting = []
        for i, message in enumerate(self.body["messages"]):
            if message["role"] == "tool":
                if message["tool_call_id"] not in waiting:
                    refuse("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                           "'tool_calls'.", f"messages.[{i}].role")
                waiting.remove(message["tool_call_id"])
                continue
            if waiting:
                self.unanswered(i, waiting)
            if message["role"] not in ("system", "developer", "user", "assistant"):
                refuse(f"Invalid value: '{message['role']}'. Supported values are: 'system', 'assistant', 'user', 'function', "
                       "'tool', and 'developer'.", f"messages[{i}].role", "invalid_value")
            waiting = [call["id"] for call in message.get("tool_calls") or []]
            for j, call in enumerate(message.get("tool_calls") or [] if is_own(self.body.get("model")) else []):
                place = f"messages[{i}].tool_calls[{j}]"
                check_call(call["function"]["name"], call["id"], f"{place}.function.name", f"{place}.id", 40)
            if message.get("content") is None and not waiting and not message.get("refusal") and not message.get("audio"):
                refuse("Invalid value for 'content': expected a string, got null.", f"messages.[{i}].content")
        if waiting:
            self.unanswered(len(self.body["messages"]), waiting)

    @staticmethod
    def unanswered(i, waiting):
        refuse("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The "
               f"following tool_call_ids did not have response messages: {', '.join(waiting)}", f"messages.[{i}].role")

    def script(self):
        said, n_done = "", 0
        for message in self.body["messages"]:
            if message["role"] == "user":
                said, n_done = plain(message["content"]), 0
            elif message["role"] == "assistant":
                n_done += bool(message.get("tool_calls"))
        return Script(said, n_done, self.offered, self.choice, self.form)

    def blocks(self):
        tools = [compact(tool) for tool in self.body.get("tools") or []]
        return tools + [compact(without_markers(message)) for message in self.body["messages"]]


def complete(request, number, cache):
    """The completion that answers a request to Chat Completions."""
    body, script = request.body, request.script()
    text = script.answer(number)
    message, finish, choice = {"role": "assistant", "content": text, "refusal": None, "annotations": []}, "stop", {}
    if script.n_calls:
        n = 1 if body.get("parallel_tool_calls") is False else script.n_calls
        function = {"name": script.tool, "arguments": compact(script.arguments)}
        message |= {"content": None}
        message["tool_calls"] = [{"id": script.id(f"call_{number}_{i}"), "type": "function", "function": function} for i in range(n)]
        finish = "tool_calls"
    elif script.has("REFUSE"):
        message |= {"content": None, "refusal": "I cannot help with that."}
    elif script.has("AUDIO"):
        message |= {"content": None, "audio": {"id": "audio_1", "data": WAV, "expires_at": 2, "transcript": text}}
    elif script.has("IMAGE"):
        # As OpenRouter sends pictures.
        message["images"] = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]
    elif script.has("SEARCH") or script.has("CITE"):
        at = text.find(SOURCE["quoted"])
        citation = {"url": SOURCE["url"], "title": SOURCE["title"], "start_index": at, "end_index": at + len(SOURCE["quoted"])}
        message["annotations"] = [{"type": "url_citation", "url_citation": citation}]
    if script.has("THINK") and not request.is_own:
        message["content"] = f"<think>thought {number}</think>{text}"
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [{"token": text, "logprob": -0.5, "bytes": None, "top_logprobs": []}], "refusal": None}
    n, read, written = cache_usage(request.model, body, cache, request.blocks())
    n_out = 1 + tokens([compact(message)])
    details = {"cached_tokens": read, "audio_tokens": 0}
    if request.model.cache == "new":
        details["cache_write_tokens"] = written
    usage = {"prompt_tokens": n, "completion_tokens": n_out, "total_tokens": n + n_out, "prompt_tokens_details": details,
             "completion_tokens_details": {"reasoning_tokens": 1 if request.effort != "none" else 0, "audio_tokens": 0}}
    if "/" in body["model"]:
        # openrouter.ai/docs/use-cases/usage-accounting: the cost comes with every answer.
        usage |= {"cost": 0.0123, "cost_details": {"upstream_inference_cost": None}}
    tier = body.get("service_tier", "default")
    return {
        "id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish, **choice}], "usage": usage,
        "service_tier": {"auto": "default", "fast": "priority"}.get(tier, tier),
    }


def stream_completion(completion, body):
    """The chunks of a streamed completion."""
    choice = completion["choices"][0]
    message, finish = choice["message"], choice["finish_reason"]
    base = {key: completion[key] for key in ("id", "created", "model", "service_tier")} | {"object": "chat.completion.chunk"}

    def chunk(delta=None, reason=None, **fields):
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason, **fields}]
        return f"data: {compact({**base, 'choices': choices})}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    text = message.get("content") or ""
    for piece in (text[:len(text) // 2], text[len(text) // 2:]):
        if piece:
            yield chunk({"content": piece}, **({"logprobs": choice["logprobs"]} if "logprobs" in choice else {}))
    for key in ("refusal", "audio", "images", "annotations"):
        if message.get(key):
            yield chunk({key: message[key]})
    for i, call in enumerate(message.get("tool_calls", [])):
        yield chunk({"tool_calls": [{"index": i, **call, "function": {"name": call["function"]["name"], "arguments": ""}}]})
        yield chunk({"tool_calls": [{"index": i, "function": {"arguments": call["function"]["arguments"]}}]})
    yield chunk({}, finish)
    if (body.get("stream_options") or {}).get("include_usage"):
        yield f"data: {compact({**base, 'choices': [], 'usage': completion['usage']})}\n\n"
    yield "data: [DONE]\n\n"
