"""Anthropic Messages as documented in November 2026.

Pages are below https://platform.claude.com/docs/en/ unless another address is named:
[thinking] build-with-claude/preserved-thinking, [checks] build-with-claude/preserved-thinking/prefix-checks,
[system] build-with-claude/mid-conversation-system-messages, [version] api/versioning (2026-10-21),
[caching] build-with-claude/prompt-caching, [messages] api/messages, [adaptive] build-with-claude/adaptive-thinking,
[effort] build-with-claude/effort, [migration] models/sonnet-5-5/migration-guide, [structured]
build-with-claude/structured-outputs, [sdk] the types of the Python package anthropic 2.14.0.
"""

import re

from .common import SOURCE, Chain, Refused, Script, compact, seal, tokens, unseal, without_markers

VERSIONS = ("2023-06-01", "2026-10-21")
BINDING, INLINE, CHANGES = (
    "thinking-binding-controls-2026-08-01", "inline-tools-2026-09-15", "mid-conversation-tool-changes-2026-07-01")
ALL_EFFORTS = ("low", "medium", "high", "xhigh", "max")


class Model:
    """What a family of models takes. The defaults are those of the present generation."""

    def __init__(self, thinking, on=True, sampling=False, forced=True, prefill=False, bound=False, system="yes",
                 efforts=ALL_EFFORTS, caps=False, cached=1024):
        self.thinking, self.on, self.sampling, self.forced, self.prefill = thinking, on, sampling, forced, prefill
        self.bound, self.system, self.efforts, self.caps, self.cached = bound, system, efforts, caps, cached


ADAPTIVE, OFF, ENABLED = ("adaptive",), ("adaptive", "disabled"), ("adaptive", "disabled", "enabled")
# [adaptive] and [effort] for thinking and effort, [checks] for the models that bind, [system] for those that take
# instructions in the middle, [caching] for the shortest cached prompt. The first name that begins so holds.
MODELS = [
    ("claude-fable-5-1", Model(ADAPTIVE, forced=False, bound=True, cached=512)),
    ("claude-fable-5-2", Model(ADAPTIVE, forced=False, bound=True, cached=512)),
    ("claude-mythos-5-1", Model(ADAPTIVE, forced=False, bound=True, cached=512)),
    ("claude-mythos-5-2", Model(ADAPTIVE, forced=False, bound=True, cached=512)),
    ("claude-fable-5", Model(ADAPTIVE, cached=512)),
    ("claude-mythos-5", Model(ADAPTIVE, cached=512)),
    ("claude-opus-5-5", Model(ADAPTIVE, forced=False, bound=True, cached=512)),
    ("claude-sonnet-5-5", Model(("adaptive", "between_tools"), forced=False, bound=True, caps=True, cached=512)),
    ("claude-haiku-5-5", Model(OFF, bound=True, caps=True, cached=512)),
    ("claude-opus-5", Model(OFF, caps=True, cached=512)),
    # Answers 200 and ignores instructions in the middle (measured by pydantic_ai_slim 2.68, profiles/anthropic.py).
    ("claude-sonnet-5", Model(OFF, system="ignored")),
    ("claude-opus-4-8", Model(OFF, on=False)),
    ("claude-opus-4-7", Model(OFF, on=False, system="no", cached=2048)),
    ("claude-opus-4-6", Model(ENABLED, on=False, sampling=True, system="no", efforts=("low", "medium", "high", "max"),
                              cached=4096)),
    ("claude-sonnet-4-6", Model(ENABLED, on=False, sampling=True, system="no", efforts=("low", "medium", "high", "max"))),
    ("claude-opus-4-5", Model(("disabled", "enabled"), on=False, sampling=True, prefill=True, system="no",
                              efforts=("low", "medium", "high"), cached=4096)),
    ("claude-sonnet-4-5", Model(("disabled", "enabled"), on=False, sampling=True, prefill=True, system="no", efforts=())),
    ("claude-haiku-4-5", Model(("disabled", "enabled"), on=False, sampling=True, prefill=True, system="no", efforts=(),
                               cached=4096)),
]
NAMES = [name for name, _ in MODELS]

# [sdk] message_create_params.py; the second list needs a beta header.
FIELDS = set("model messages system max_tokens metadata stop_sequences stream temperature top_k top_p tools tool_choice "
             "thinking service_tier container output_config cache_control inference_geo diagnostics".split())
BETA_FIELDS = {"context_management": "context-management-", "mcp_servers": "mcp-client-", "speed": "fast-mode-",
               "fallbacks": "server-side-fallback-"}
TOOL_FIELDS = set("name description input_schema type strict defer_loading allowed_callers input_examples "
                  "eager_input_streaming cache_control".split())
# [sdk] types/*_block_param.py
BLOCK_FIELDS = {
    "text": {"text", "citations", "cache_control"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "tool_use": {"id", "name", "input", "caller", "cache_control"},
    "tool_result": {"tool_use_id", "content", "is_error", "cache_control"},
    "image": {"source", "cache_control"},
    "document": {"source", "title", "context", "citations", "cache_control"},
    "search_result": {"source", "title", "content", "citations", "cache_control"},
    "server_tool_use": {"id", "name", "input", "caller", "cache_control"},
    "web_search_tool_result": {"tool_use_id", "content", "caller", "cache_control"},
    "bash_code_execution_tool_result": {"tool_use_id", "content", "cache_control"},
    "container_upload": {"file_id", "cache_control"},
    "tool_addition": {"tool", "cache_control"},
    "tool_removal": {"tool", "cache_control"},
}
CITATION_FIELDS = {
    "char_location": {"cited_text", "document_index", "document_title", "start_char_index", "end_char_index"},
    "web_search_result_location": {"cited_text", "url", "title", "encrypted_index"},
}


def refuse(text, status=400, kind="invalid_request_error"):
    raise Refused(status, {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}, text)


def extra(place):
    refuse(f"{place}: Extra inputs are not permitted")


def model_of(name):
    # A dated name is that of its alias.
    for known, model in MODELS:
        if re.fullmatch(rf"{known}(-\d{{8}})?", name):
            return model
    refuse(f"model: {name}", 404, "not_found_error")


def authenticate(headers):
    key = headers.get("x-api-key") or (headers.get("authorization") or "").removeprefix("Bearer ")
    if not key or "wrong" in key:
        refuse("invalid x-api-key", 401, "authentication_error")


def models():
    data = [{"type": "model", "id": name, "display_name": name, "created_at": "2026-11-01T00:00:00Z"} for name in NAMES]
    return {"data": data, "has_more": False, "first_id": NAMES[0], "last_id": NAMES[-1]}


class Request:
    """A request, checked."""

    def __init__(self, body, headers):
        self.body = body
        self.version = headers.get("anthropic-version")
        self.betas = [beta.strip() for beta in (headers.get("anthropic-beta") or "").split(",")]
        if self.version not in VERSIONS:
            refuse("anthropic-version: header is required" if self.version is None
                   else f'anthropic-version: "{self.version}" is not a valid version')
        self.fields()
        self.model = model_of(body["model"])
        self.sampling()
        self.is_thinking = self.thinking()
        self.tools()
        self.output()
        self.conversation()
        self.markers()
        self.dropped = self.binding()

    def has_beta(self, *names):
        return any(beta.startswith(names) for beta in self.betas)

    def fields(self):
        for name in self.body:
            if name in BETA_FIELDS and self.has_beta(BETA_FIELDS[name]):
                continue
            if name not in FIELDS:
                extra(name)
        for name in ("model", "messages", "max_tokens"):
            if name not in self.body:
                refuse(f"{name}: Field required")
        if not isinstance(self.body["max_tokens"], int) or self.body["max_tokens"] < 1:
            refuse("max_tokens: Input should be greater than or equal to 1")
        if self.body.get("service_tier", "auto") not in ("auto", "standard_only"):
            refuse("service_tier: Input should be 'auto' or 'standard_only'")
        if set(self.body.get("metadata") or {}) - {"user_id"}:
            extra("metadata." + sorted(set(self.body["metadata"]) - {"user_id"})[0])

    def sampling(self):
        for name in ("temperature", "top_p", "top_k"):
            if name not in self.body:
                continue
            # [version] removed them for every model, whatever their value.
            if self.version == "2026-10-21":
                extra(name)
            # [migration] Before, models from Opus 4.7, Sonnet 5 and Haiku 5.5 on take the defaults only.
            if not self.model.sampling and (name == "top_k" or self.body[name] != 1):
                refuse(f"`{name}` is deprecated for this model.")

    def thinking(self):
        """Checks how the model is to think, and returns whether it does."""
        thinking = self.body.get("thinking")
        effort = (self.body.get("output_config") or {}).get("effort")
        if thinking is None:
            return self.model.on
        kind = thinking.get("type")
        known = {"adaptive": {"display", "block_binding"}, "enabled": {"budget_tokens", "display", "block_binding"},
                 "disabled": set(), "between_tools": set()}
        if kind not in known:
            refuse("thinking.type: Field required" if kind is None else f"thinking: Input tag '{kind}' found using 'type' "
                   "does not match any of the expected tags: 'adaptive', 'between_tools', 'disabled', 'enabled'")
        for name in thinking:
            # [checks] The field exists with this beta only.
            if name != "type" and (name not in known[kind] or name == "block_binding" and not self.has_beta(BINDING)):
                extra(f"thinking.{kind}.{name}")
        display = thinking.get("display", "omitted")
        if display not in ("summarized", "omitted") and not (display == "updates" and self.has_beta("thinking-display-")):
            refuse(f"thinking.{kind}.display: Input should be 'summarized' or 'omitted'")
        binding = thinking.get("block_binding") or {}
        if set(binding) - {"prefix_mismatch_behavior"}:
            extra(f"thinking.{kind}.block_binding.{sorted(set(binding) - {'prefix_mismatch_behavior'})[0]}")
        if binding.get("prefix_mismatch_behavior", "error") not in ("error", "drop_block", None):
            refuse(f"thinking.{kind}.block_binding.prefix_mismatch_behavior: Input should be 'error' or 'drop_block'")
        if kind not in self.model.thinking:
            # [migration]
            if kind == "disabled" and "between_tools" in self.model.thinking:
                refuse('To turn thinking off on this model, send "thinking": {"type": "between_tools"} instead of {"type": '
                       '"disabled"}. The model does not think before responding. The short updates it writes between tool '
                       "calls come back as thinking blocks.")
            refuse(f'"thinking.type.{kind}" is not supported for this model. Use "thinking.type.adaptive" and '
                   '"output_config.effort" to control thinking behavior.')
        if kind == "enabled":
            # [messages]
            budget = thinking.get("budget_tokens")
            if not isinstance(budget, int) or budget < 1024:
                refuse("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
            if budget >= self.body["max_tokens"]:
                refuse("`max_tokens` must be greater than `thinking.budget_tokens`.")
            if self.body.get("temperature", 1) != 1:
                refuse("`temperature` may only be set to 1 when thinking is enabled.")
            if "top_k" in self.body:
                refuse("`top_k` must be unset when thinking is enabled.")
        # [effort] Without thinking these models take no more than `high`.
        if kind in ("disabled", "between_tools") and self.model.caps and effort in ("xhigh", "max"):
            refuse(f"output_config.effort: '{effort}' is not supported with thinking.type '{kind}' on this model.")
        return kind in ("adaptive", "enabled")

    def tools(self):
        tools, choice = self.body.get("tools") or [], self.body.get("tool_choice") or {}
        names = [tool.get("name") for tool in tools]
        for i, tool in enumerate(tools):
            kind = tool.get("type", "custom")
            if kind == "custom":
                for name in tool:
                    if name not in TOOL_FIELDS:
                        extra(f"tools.{i}.custom.{name}")
                if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool.get("name") or ""):
                    refuse(f"tools.{i}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
                if (tool.get("input_schema") or {}).get("type") != "object":
                    refuse(f"tools.{i}.custom.input_schema.type: Field required")
                # The errors that clients report.
                if any(word in tool["input_schema"] for word in ("oneOf", "allOf", "anyOf")):
                    refuse(f"tools.{i}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level")
                if not all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key) for key in tool["input_schema"].get("properties") or {}):
                    refuse(f"tools.{i}.custom.input_schema.properties: Property keys should match pattern "
                           "'^[a-zA-Z0-9_.-]{1,64}$'")
                if tool.get("strict"):
                    strict(tool["input_schema"], f"tools.{i}.custom.input_schema")
            if names.index(tool.get("name")) != i:
                refuse("tools: Tool names must be unique.")
        kind = choice.get("type")
        if choice and not tools:
            refuse("tool_choice: may only be specified while providing tools.")
        known = {"auto": {"disable_parallel_tool_use"}, "any": {"disable_parallel_tool_use"}, "none": set(),
                 "tool": {"name", "disable_parallel_tool_use"}}
        for name in choice:
            if name != "type" and name not in known.get(kind, ()):
                extra(f"tool_choice.{kind}.{name}")
        if kind in ("any", "tool"):
            # [migration]
            if not self.model.forced:
                refuse('tool_choice: type "tool" and "any" are not supported for this model.')
            if (self.body.get("thinking") or {}).get("type") in ("enabled", "adaptive"):
                refuse("Thinking may not be enabled when tool_choice forces tool use.")
        if kind == "tool" and choice.get("name") not in names:
            refuse(f"tool_choice: Tool '{choice.get('name')}' not found in provided tools")

    def output(self):
        output = self.body.get("output_config") or {}
        for name in output:
            if name not in ("effort", "format") and not (name == "task_budget" and self.has_beta("task-budgets-")):
                extra(f"output_config.{name}")
        effort = output.get("effort")
        # [effort]
        if effort is not None and effort not in self.model.efforts:
            refuse(f"output_config.effort: '{effort}' is not supported on this model."
                   if self.model.efforts else "This model does not support the effort parameter.")
        form = output.get("format")
        if form:
            if form.get("type") != "json_schema" or set(form) - {"type", "schema"}:
                refuse("output_config.format: Input should be a JSON schema")
            strict(form["schema"], "output_config.format.schema")

    def conversation(self):
        messages = self.body["messages"]
        if not messages:
            refuse("messages: at least one message is required")
        open_calls = []
        for i, message in enumerate(messages):
            role, content = message.get("role"), message.get("content")
            allowed = {"role", "content"}
            if role == "system":
                self.system_message(i)
                allowed |= {"clear_at"} if self.has_beta("mid-conversation-system-clear-at-") else set()
                allowed |= {"output_config"} if self.has_beta("mid-conversation-output-config-") else set()
            elif role not in ("user", "assistant"):
                refuse(f'messages: Unexpected role "{role}". The Messages API accepts a top-level `system` parameter.')
            for name in message:
                if name not in allowed:
                    extra(f"messages.{i}.{name}")
            if content in ("", []) and role != "system" and not (role == "assistant" and i + 1 == len(messages)):
                refuse(f"messages.{i}: {role} messages must have non-empty content")
            blocks = [] if isinstance(content, str) else content
            for j, block in enumerate(blocks):
                self.block(f"messages.{i}.content.{j}", role, block)
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            if role == "user":
                is_first = [block["type"] == "tool_result" for block in blocks]
                if open_calls and is_first != sorted(is_first, reverse=True):
                    refuse(f"messages.{i}: `tool_result` blocks must come first in the content.")
                missing = [call for call in open_calls if call not in results]
                if missing:
                    refuse(f"messages.{i - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                           f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                           "next message.")
            unknown = [call for call in results if call not in open_calls]
            if unknown:
                refuse(f"messages.{i}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {unknown[0]}. Each "
                       "`tool_result` block must have a corresponding `tool_use` block in the previous message.")
            if open_calls and role != "user":
                refuse(f"messages.{i - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                       f"{', '.join(open_calls)}.")
            open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if messages[0]["role"] != "user":
            refuse('messages: first message must use the "user" role')
        said = [message for message in messages if message["role"] != "system"]
        if said[-1]["role"] == "assistant" and not self.model.prefill and not ends_in_server_tool(said[-1]):
            # Models from 4.6 on (supports_assistant_prefill of LiteLLM's table).
            refuse("This model does not support assistant message prefill. The conversation must end with a user message.")
        for i, block in enumerate(self.body.get("system") if isinstance(self.body.get("system"), list) else []):
            self.block(f"system.{i}", "system", block)

    def system_message(self, i):
        """[system] Where instructions may stand among the messages."""
        messages = self.body["messages"]
        if self.model.system == "no":
            refuse("role 'system' is not supported on this model")
        if i == 0:
            refuse("messages.0: a system message may not be the first message; use the top-level `system` parameter.")
        before = next((m for m in reversed(messages[:i]) if m["role"] != "system"), None)
        after = next((m for m in messages[i + 1:] if m["role"] != "system"), None)
        if before is None or before["role"] != "user" and not ends_in_server_tool(before):
            refuse(f"messages.{i}: a system message must immediately follow a user message, or an assistant message that "
                   "ends with a server tool result.")
        if after is not None and after["role"] != "assistant":
            refuse(f"messages.{i}: a system message must immediately precede an assistant message, or end the array.")

    def block(self, place, role, block):
        kind = block.get("type")
        if kind not in BLOCK_FIELDS:
            refuse(f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags")
        for name in block:
            if name != "type" and name not in BLOCK_FIELDS[kind]:
                extra(f"{place}.{kind}.{name}")
        allowed = {
            "user": {"text", "image", "document", "search_result", "tool_result", "container_upload"},
            "assistant": set(BLOCK_FIELDS) - {"tool_result", "tool_addition", "tool_removal", "image", "search_result"},
            "system": {"text", "tool_addition", "tool_removal"},
        }[role]
        # [version] No documents in answers.
        if kind == "document" and role == "assistant" and self.version == "2026-10-21":
            refuse(f"{place}: `document` blocks are not permitted in assistant messages.")
        if kind not in allowed:
            refuse(f"{place}: `{kind}` blocks are not permitted in {role} messages.")
        if kind == "text":
            if not block.get("text"):
                refuse(f"{place}: text content blocks must be non-empty")
            if not block["text"].strip():
                refuse(f"{place}: text content blocks must contain non-whitespace text")
            for k, citation in enumerate(block.get("citations") or []):
                # [version] Only answers cite.
                if role == "user" and self.version == "2026-10-21":
                    refuse(f"{place}.text.citations: citations are not permitted in user messages.")
                for name in citation:
                    # [sdk] A request has no file_id.
                    if name != "type" and name not in CITATION_FIELDS.get(citation.get("type"), ()):
                        extra(f"{place}.text.citations.{k}.{name}")
        if kind == "tool_use" and not isinstance(block.get("input"), dict):
            refuse(f"{place}.tool_use.input: Input should be a valid dictionary")
        if kind == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block.get("name") or ""):
            refuse(f"{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        for name in ("id", "tool_use_id"):
            if name in block and not re.fullmatch(r"[a-zA-Z0-9_-]+", block[name]):
                refuse(f"{place}.{kind}.{name}: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if kind in ("tool_addition", "tool_removal"):
            self.tool_change(place, kind, block["tool"])
        for k, part in enumerate(block["content"] if kind == "tool_result" and isinstance(block.get("content"), list) else []):
            self.block(f"{place}.tool_result.content.{k}", "user", part)

    def tool_change(self, place, kind, tool):
        """[system] Tools that are added and removed in the middle. Definitions need the newer beta."""
        if not self.has_beta(INLINE, CHANGES):
            refuse(f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags: 'text'")
        if tool.get("type") == "tool_definition" and not self.has_beta(INLINE):
            refuse(f"{place}.{kind}.tool: Input tag 'tool_definition' does not match any of the expected tags")
        names = {tool.get("name") for tool in self.body.get("tools") or []} | set(self.defined)
        if tool["type"] == "tool_definition":
            self.defined[tool["definition"]["name"]] = tool["definition"]
        elif tool.get("name") not in names:
            refuse(f"{place}.{kind}.tool: tool_reference_unresolved: '{tool.get('name')}'")

    @property
    def defined(self):
        return self.__dict__.setdefault("_defined", {})

    def markers(self):
        """[caching] Up to four breakpoints, the automatic one included; those of an hour come first."""
        body, found = self.body, []

        def look(value):
            if isinstance(value, dict):
                if value.get("cache_control"):
                    found.append(value["cache_control"])
                for key, inner in value.items():
                    if key not in ("cache_control", "input", "input_schema"):
                        look(inner)
            elif isinstance(value, list):
                for inner in value:
                    look(inner)

        for part in (body.get("tools"), body.get("system"), body["messages"]):
            look(part)
        if body.get("cache_control"):
            found.append(body["cache_control"])
        for marker in found:
            if marker.get("type") != "ephemeral" or marker.get("ttl", "5m") not in ("5m", "1h") or set(marker) - {"type", "ttl"}:
                refuse("cache_control: Input should be {'type': 'ephemeral', 'ttl': '5m' or '1h'}")
        if len(found) > 4:
            refuse(f"A maximum of 4 blocks with cache_control may be provided. Found {len(found)}.")
        ttls = [marker.get("ttl", "5m") for marker in found]
        if "1h" in ttls[ttls.index("5m"):] if "5m" in ttls else False:
            refuse("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.")

    def offered(self):
        """The schemas of the tools that can be called, by name."""
        tools = {tool["name"]: tool.get("input_schema", {}) for tool in self.body.get("tools") or [] if not tool.get("defer_loading")}
        declared = {tool["name"]: tool for tool in self.body.get("tools") or []} | self.defined
        for message in self.body["messages"]:
            for block in message["content"] if message["role"] == "system" and isinstance(message["content"], list) else []:
                if block["type"] == "tool_addition":
                    name = block["tool"].get("name") or block["tool"]["definition"]["name"]
                    tools[name] = declared[name].get("input_schema", {})
                elif block["type"] == "tool_removal":
                    tools.pop(block["tool"]["name"], None)
        return tools

    def binding(self):
        """[checks] Refuses thoughts that were written after something else, or drops them if the request says so."""
        body, dropped = self.body, []
        referenced = compact([message["content"] for message in body["messages"] if message["role"] == "system"])
        # A deferred tool that nothing has referenced is no part of the prefix.
        tools = [tool for tool in body.get("tools") or []
                 if not tool.get("defer_loading") or f'"name":"{tool["name"]}"' in referenced]
        self.chain = chain = Chain(without_markers(body.get("system")), without_markers(tools))
        drops = ((body.get("thinking") or {}).get("block_binding") or {}).get("prefix_mismatch_behavior") == "drop_block"
        self.n_thoughts = 0
        for i, message in enumerate(body["messages"]):
            chain.add(message["role"])
            if isinstance(message["content"], str):
                chain.add(message["content"])
                continue
            is_dropping = False
            for j, block in enumerate(message["content"]):
                if block["type"] not in ("thinking", "redacted_thinking"):
                    chain.add(without_markers(block))
                    is_dropping = False
                    continue
                self.n_thoughts += 1
                place = f"messages.{i}.content.{j}"
                thought = unseal(block.get("signature") or block.get("data") or "")
                if thought is None or thought.get("text", "") != block.get("thinking", ""):
                    refuse(f"{place}: Invalid `signature` in `{block['type']}` block")
                reason = None
                # [thinking] A thought that the model may not read is dropped, whatever the request says.
                if not reads(body["model"], thought["model"]):
                    reason = "model_binding_mismatch"
                elif self.model.bound and (is_dropping or not chain.takes(thought)):
                    reason = "prefix_binding_mismatch"
                    if not drops:
                        text = (f"{place}: Invalid `signature` in `{block['type']}` block. The block is bound to a different "
                                "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
                                '"drop_block".')
                        if not self.has_beta(BINDING):
                            text += f" That setting requires the `{BINDING}` value in the `anthropic-beta` header."
                        refuse(text)
                if reason:
                    # [thinking] It takes the rest of the turn's consecutive thoughts with it.
                    is_dropping = True
                    dropped.append({"type": "thinking_dropped", "path": place, "reason": reason})
        return dropped

    def script(self):
        said = ""
        for message in self.body["messages"]:
            if message["role"] == "user":
                content = message["content"]
                texts = [content] if isinstance(content, str) else [b["text"] for b in content if b["type"] == "text"]
                if texts:
                    said, n_done = "\n".join(texts), 0
            elif message["role"] == "assistant" and not isinstance(message["content"], str):
                n_done += any(block["type"] == "tool_use" for block in message["content"])
        choice = self.body.get("tool_choice") or {"type": "auto"}
        choice = {"any": "required", "tool": choice.get("name")}.get(choice["type"], choice["type"])
        form = ((self.body.get("output_config") or {}).get("format") or {}).get("schema")
        return Script(said, n_done, self.offered(), choice, form)

    def prompt(self):
        """The blocks of the prompt in the order in which they are cached, the ends of the parts that are marked, and how many
        blocks are marked for an hour. [caching]"""
        body, blocks, ends, n_long = self.body, [], [], 0

        def add(value):
            nonlocal n_long
            blocks.append(compact(without_markers(value)))
            marker = value.get("cache_control") if isinstance(value, dict) else None
            if marker:
                ends.append(len(blocks))
                n_long = len(blocks) if marker.get("ttl") == "1h" else n_long

        for tool in body.get("tools") or []:
            add(tool)
        system = body.get("system") or []
        for block in [system] if isinstance(system, str) else system:
            add(block)
        dropped = {drop["path"] for drop in self.dropped}
        for i, message in enumerate(body["messages"]):
            content = message["content"]
            for j, block in enumerate([content] if isinstance(content, str) else content):
                if f"messages.{i}.content.{j}" not in dropped:
                    add(block)
        if body.get("cache_control"):
            ends.append(len(blocks))
            n_long = len(blocks) if body["cache_control"].get("ttl") == "1h" else n_long
        return blocks, ends, n_long

    def usage(self, cache, answer):
        blocks, ends, n_long = self.prompt()
        # Shorter prompts are not cached. [caching]
        ends = [end for end in ends if tokens(blocks[:end]) >= self.model.cached]
        read = cache.read_and_write(blocks, ends, lookback=20)
        last = max(ends, default=0)
        n_read, n_last, n_hour = tokens(blocks[:read]), tokens(blocks[:max(last, read)]), tokens(blocks[:max(n_long, read)])
        n_hour = min(n_hour, n_last) - n_read
        return {
            "input_tokens": tokens(blocks) - n_last,
            "cache_creation_input_tokens": n_last - n_read,
            "cache_read_input_tokens": n_read,
            "cache_creation": {"ephemeral_5m_input_tokens": n_last - n_read - n_hour, "ephemeral_1h_input_tokens": n_hour},
            "output_tokens": 1 + tokens([compact(answer)]),
            "service_tier": "standard",
        }


def reads(model, maker):
    """[thinking] Whose thoughts a model may read: its own, those of Haiku 5.5, and Fable 5.1 those of Opus 5 and 5.5."""
    if maker.startswith("claude-haiku-5-5") and not model.startswith(("claude-fable-5-2", "claude-mythos-5-2")):
        return True
    return maker == model or model.startswith("claude-fable-5-1") and maker.startswith("claude-opus-5")


def ends_in_server_tool(message):
    content = message["content"]
    return isinstance(content, list) and bool(content) and content[-1]["type"].endswith("_tool_result")


def strict(schema, place):
    """[structured] The part of JSON Schema that is enforced."""
    if not isinstance(schema, dict):
        return
    if (schema.get("type") == "object" or "properties" in schema) and schema.get("additionalProperties") is not False:
        refuse(f"{place}: For 'object' type, 'additionalProperties' must be explicitly set to false")
    for name in ("minimum", "maximum", "minLength", "maxLength", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"):
        if name in schema:
            refuse(f"{place}: For '{schema.get('type')}' type, property '{name}' is not supported")
    for key, inner in (schema.get("properties") or {}).items():
        strict(inner, f"{place}.properties.{key}")
    for inner in [schema.get("items"), *(schema.get("anyOf") or []), *(schema.get("$defs") or {}).values()]:
        strict(inner, place)


def answer(request, number, cache):
    """The message that answers a request."""
    body, script, chain = request.body, request.script(), request.chain
    chain.add("assistant")
    content, stop, details, more, server = [], "end_turn", None, {}, {}
    display = (body.get("thinking") or {}).get("display")
    # [adaptive] Newer models show nothing unless they are asked to.
    shown = display == "summarized" or display is None and request.model.sampling
    for i in range((2 if script.has("THINK") else 1) if request.is_thinking else 0):
        text = f"thought {number}.{i}" if shown else ""
        signature = chain.mint(f"{number}_{i}", model=body["model"], text=text)
        content.append({"type": "thinking", "thinking": text, "signature": signature})
    if request.is_thinking and script.has("REDACT"):
        content.append({"type": "redacted_thinking", "data": chain.mint(f"{number}_r", model=body["model"])})
    text = script.answer(number)
    if script.n_calls:
        if (body.get("tool_choice") or {}).get("disable_parallel_tool_use"):
            script.n_calls = 1
        content.append({"type": "text", "text": f"I call {script.tool}."})
        for i in range(script.n_calls):
            content.append({"type": "tool_use", "id": script.id(f"toolu_{number}_{i}"), "name": script.tool, "input": script.arguments})
        stop = "tool_use"
    elif script.has("REFUSE"):
        # [messages] stop_details
        content, stop = content[:0], "refusal"
        details = {"type": "refusal", "category": "cyber", "explanation": "This asks for an attack."}
    elif script.has("SEARCH"):
        result = {"type": "web_search_result", "url": SOURCE["url"], "title": SOURCE["title"],
                  "encrypted_content": seal({"id": "page"}), "page_age": None}
        citation = {"type": "web_search_result_location", "cited_text": SOURCE["quoted"], "url": SOURCE["url"],
                    "title": SOURCE["title"], "encrypted_index": seal({"id": "index"})}
        content += [
            {"type": "server_tool_use", "id": f"srvtoolu_{number}", "name": "web_search", "input": {"query": "sky"}},
            {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{number}", "content": [result]},
            {"type": "text", "text": text, "citations": [citation]},
        ]
        server = {"server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0}}
    elif script.has("CITE"):
        citation = {"type": "char_location", "cited_text": SOURCE["quoted"], "document_index": 0,
                    "document_title": SOURCE["title"], "start_char_index": 0, "end_char_index": 15, "file_id": None}
        content += [{"type": "text", "text": "From the document: "}, {"type": "text", "text": text, "citations": [citation]}]
    elif script.has("IMAGE"):
        # Messages has no pictures in answers: code that runs there leaves files behind.
        output = {"type": "bash_code_execution_output", "file_id": "file_1"}
        result = {"type": "bash_code_execution_result", "stdout": "", "stderr": "", "return_code": 0, "content": [output]}
        content += [
            {"type": "server_tool_use", "id": f"srvtoolu_{number}", "name": "bash_code_execution", "input": {"command": "draw"}},
            {"type": "bash_code_execution_tool_result", "tool_use_id": f"srvtoolu_{number}", "content": result},
            {"type": "text", "text": text},
        ]
        more["container"] = {"id": "container_1", "expires_at": "2026-12-01T00:00:00Z", "skills": None}
    else:
        content.append({"type": "text", "text": text})
    if request.has_beta(BINDING):
        more["input_transformations"] = request.dropped
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "content": content,
        "stop_reason": stop, "stop_sequence": None, "stop_details": details,
        "usage": {**request.usage(cache, content), **server}, **more,
    }


def stream(message):
    """The events of a streamed message. [messages]"""

    def event(kind, **fields):
        return f"event: {kind}\ndata: {compact({'type': kind, **fields})}\n\n"

    late = ("stop_reason", "stop_sequence", "stop_details", "container")
    begin = {key: value for key, value in message.items() if key not in late}
    begin |= {"content": [], "stop_reason": None, "stop_sequence": None}
    begin["usage"] = {**message["usage"], "output_tokens": 1}
    yield event("message_start", message=begin) + event("ping")
    for i, block in enumerate(message["content"]):
        deltas, opened = [], dict(block)
        if block["type"] == "thinking":
            opened |= {"thinking": "", "signature": ""}
            if block["thinking"]:
                deltas.append({"type": "thinking_delta", "thinking": block["thinking"]})
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "text":
            opened = {"type": "text", "text": ""} | ({"citations": []} if "citations" in block else {})
            half = len(block["text"]) // 2
            deltas += [{"type": "text_delta", "text": part} for part in (block["text"][:half], block["text"][half:]) if part]
            deltas += [{"type": "citations_delta", "citation": citation} for citation in block.get("citations", [])]
        elif block["type"] in ("tool_use", "server_tool_use"):
            opened |= {"input": {}}
            deltas.append({"type": "input_json_delta", "partial_json": compact(block["input"])})
        yield event("content_block_start", index=i, content_block=opened)
        for delta in deltas:
            yield event("content_block_delta", index=i, delta=delta)
        yield event("content_block_stop", index=i)
    usage = {key: value for key, value in message["usage"].items() if key not in ("cache_creation", "service_tier")}
    yield event("message_delta", delta={key: message.get(key) for key in late if key in message}, usage=usage)
    yield event("message_stop")
