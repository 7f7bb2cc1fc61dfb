"""Gemini generateContent as documented in November 2026.

Pages are below https://ai.google.dev/gemini-api/docs/ unless another source is named: [thinking] thinking, [signatures]
thought-signatures, [functions] function-calling, [grounding] google-search, [caching] caching, [tiers]
priority-inference, [api] ai.google.dev/api/generate-content, [sdk] the types of the Python package google_genai 3.6.1,
[pyd] pydantic_ai_slim 2.68 profiles/google.py and models/google.py, whose authors tried the models.
"""

import base64
import re

from .common import PNG, SOURCE, Refused, Script, compact, seal, tokens, unseal

ALL = ("minimal", "low", "medium", "high")


class Model:
    """What a family of models takes."""

    def __init__(self, levels=(), default=None, budget=None, can_stop=False, third=True, thinks=True):
        self.levels, self.default, self.budget, self.can_stop = levels, default, budget, can_stop
        self.third, self.thinks = third, thinks


# [thinking] and [pyd] _MODEL_THINKING_LEVELS. The first name that begins so holds.
MODELS = [
    ("gemini-4-", Model(ALL[1:], "medium")),
    ("gemini-3.8-flash", Model(ALL[1:])),
    ("gemini-3.7-flash", Model(ALL[1:])),
    ("gemini-3.6-flash", Model(ALL)),
    ("gemini-3.5-flash", Model(ALL, "medium")),
    ("gemini-3.1-flash-lite-image", Model(("minimal", "high"))),
    ("gemini-3.1-flash-lite", Model(ALL, "minimal")),
    ("gemini-3.1-pro", Model(ALL[1:], "high")),
    ("gemini-3-pro", Model(("low", "high"), "high")),
    ("gemini-3-flash", Model(ALL, "high")),
    ("gemini-2.5-flash-image", Model(third=False, thinks=False)),
    ("gemini-2.5-flash-lite", Model(budget=(512, 24576), can_stop=True, third=False)),
    ("gemini-2.5-flash", Model(budget=(0, 24576), can_stop=True, third=False)),
    ("gemini-2.5-pro", Model(budget=(128, 32768), third=False)),
]
NAMES = ["gemini-4-argon", "gemini-4-carbon", "gemini-3.8-flash", "gemini-3.6-flash", "gemini-3.5-flash",
         "gemini-3.1-pro-preview", "gemini-3.1-flash-lite", "gemini-3-flash-preview", "gemini-2.5-pro", "gemini-2.5-flash",
         "gemini-2.5-flash-lite"]

# [api], [sdk]
FIELDS = {
    "": "contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent serviceTier continuationToken",
    "generation_config": "candidateCount maxOutputTokens temperature topP topK seed stopSequences responseMimeType responseSchema "
                         "responseJsonSchema responseModalities presencePenalty frequencyPenalty responseLogprobs logprobs "
                         "thinkingConfig speechConfig imageConfig mediaResolution enableEnhancedCivicAnswers",
    "generation_config.thinking_config": "includeThoughts thinkingBudget thinkingLevel",
    "tools": "functionDeclarations googleSearch urlContext codeExecution fileSearch googleMaps computerUse mcpServers",
    "tools.function_declarations": "name description parameters parametersJsonSchema response responseJsonSchema behavior",
    "tool_config": "functionCallingConfig retrievalConfig includeServerSideToolInvocations",
    "tool_config.function_calling_config": "mode allowedFunctionNames",
    "contents": "role parts",
    "contents.parts": "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult toolCall "
                      "toolResponse thought thoughtSignature partMetadata mediaResolution videoMetadata",
    "contents.parts.function_call": "id name args",
    "contents.parts.function_response": "id name response parts willContinue scheduling",
    # The OpenAPI subset, which has no additionalProperties.
    "schema": "type format title description nullable enum maxItems minItems properties required minProperties maxProperties "
              "minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum",
}
SKIP = ("skip_thought_signature_validator", base64.b64encode(b"skip_thought_signature_validator").decode())


def refuse(text, status=400, kind="INVALID_ARGUMENT", **more):
    raise Refused(status, {"error": {"code": status, "message": text, "status": kind, **more}}, text)


def snake(name):
    return re.sub(r"([A-Z])", lambda sign: "_" + sign.group(1).lower(), name)


def camel(name):
    return re.sub(r"_([a-z])", lambda sign: sign.group(1).upper(), name)


def check_fields(value, place, shown=None):
    known = FIELDS[place].split()
    for name in value:
        if camel(name) not in known:
            at = f" at '{shown if shown is not None else place}'" if place else ""
            refuse(f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.')


def check_schema(schema, shown):
    if isinstance(schema, dict):
        check_fields(schema, "schema", shown)
        for key, inner in (schema.get("properties") or {}).items():
            check_schema(inner, f"{shown}.properties[0].value")
        check_schema(schema.get("items"), f"{shown}.items")


def model_of(name):
    for known, model in MODELS:
        if name.startswith(known) and not name.endswith("-unknown"):
            return model
    refuse(f"models/{name} is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see "
           "the list of available models and their supported methods.", 404, "NOT_FOUND")


def authenticate(headers, query):
    key = headers.get("x-goog-api-key") or (query.get("key") or [""])[0]
    if not key:
        refuse("Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form "
               "of API consumer identity to call this API.", 403, "PERMISSION_DENIED")
    if "wrong" in key:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
        refuse("API key not valid. Please pass a valid API key.", details=[info])


def models():
    methods = ["generateContent", "countTokens"]
    return {"models": [{"name": f"models/{name}", "displayName": name, "inputTokenLimit": 1048576, "outputTokenLimit": 65536,
                        "supportedGenerationMethods": methods} for name in NAMES]}


class Request:
    """A request, checked."""

    def __init__(self, name, body):
        self.name, self.body, self.model = name, body, model_of(name)
        check_fields(body, "")
        self.withheld, self.n_thoughts = [], 0
        if not body.get("contents"):
            refuse("* GenerateContentRequest.contents: contents is not specified\n")
        if body.get("serviceTier", "standard") not in ("standard", "flex", "priority"):
            refuse(f"Invalid value at 'service_tier' (type.googleapis.com/google.ai.generativelanguage.v1beta.ServiceTier), "
                   f'"{body["serviceTier"]}"')
        self.config = body.get("generationConfig") or {}
        check_fields(self.config, "generation_config")
        self.thinking()
        self.tools()
        self.contents()

    def thinking(self):
        """[thinking] Levels from Gemini 3 on, budgets before."""
        thinking = self.config.get("thinkingConfig")
        self.thinks = self.model.thinks and self.model.default != "minimal" and self.name != "gemini-2.5-flash-lite"
        if thinking is None:
            return
        check_fields(thinking, "generation_config.thinking_config")
        level, budget = thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
        if not self.model.thinks:
            refuse("Thinking is not enabled for this model")
        if level is not None and budget is not None:
            refuse("You can only set only one of thinking budget and thinking level.")
        if level is not None and level.lower() not in self.model.levels:
            refuse(f"Thinking level {level.upper()} is not supported for this model. Please retry with other thinking level."
                   if self.model.levels else "Thinking level is not supported for this model.")
        if budget is not None:
            low, high = self.model.budget or (1, 1 << 20)
            if budget == 0 and not self.model.can_stop:
                refuse("Budget 0 is invalid. This model only works in thinking mode.")
            if budget not in (0, -1) and not low <= budget <= high:
                refuse(f"The thinking budget {budget} is invalid. Please choose a value between {low} and {high}.")
        self.thinks = budget != 0 and (level or "").lower() != "minimal"

    def tools(self):
        body = self.body
        self.offered, others = {}, []
        for i, tool in enumerate(body.get("tools") or []):
            check_fields(tool, "tools", f"tools[{i}]")
            others += [name for name in tool if name != "functionDeclarations"]
            for j, function in enumerate(tool.get("functionDeclarations") or []):
                place = f"tools[{i}].function_declarations[{j}]"
                check_fields(function, "tools.function_declarations", place)
                if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", function.get("name") or ""):
                    refuse(f"* GenerateContentRequest.{place}.name: Invalid function name. Must start with a letter or an underscore.")
                if "parameters" in function and "parametersJsonSchema" in function:
                    refuse(f"* GenerateContentRequest.{place}: only one of parameters and parameters_json_schema may be set.")
                check_schema(function.get("parameters"), f"{place}.parameters")
                if function["name"] in self.offered:
                    refuse(f"Duplicate function declaration found: {function['name']}")
                self.offered[function["name"]] = function.get("parametersJsonSchema") or function.get("parameters") or {}
        # [pyd] google_supports_tool_combination
        if others and self.offered and not self.model.third:
            refuse("Built-in tools and Function Calling cannot be combined in the same request.")
        form = self.config.get("responseJsonSchema") or self.config.get("responseSchema")
        check_schema(self.config.get("responseSchema"), "generation_config.response_schema")
        if self.config.get("responseMimeType") == "application/json" and self.offered and not self.model.third:
            refuse("Function calling with a response mime type: 'application/json' is unsupported")
        self.form = form
        config = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
        check_fields(body.get("toolConfig") or {}, "tool_config")
        check_fields(config, "tool_config.function_calling_config")
        mode, names = config.get("mode", "AUTO"), config.get("allowedFunctionNames")
        if mode not in ("AUTO", "ANY", "NONE", "VALIDATED"):
            refuse(f"Invalid value at 'tool_config.function_calling_config.mode', \"{mode}\"")
        if config and not self.offered:
            refuse("Function calling config is set without function_declarations.")
        if names is not None:
            # [functions]
            if mode not in ("ANY", "VALIDATED"):
                refuse("allowed_function_names should be set only when function calling mode is ANY or VALIDATED.")
            unknown = [name for name in names if name not in self.offered]
            if unknown or not names:
                refuse(f"allowed_function_names contains a function that is not declared: {unknown[:1]}")
            self.offered = {name: schema for name, schema in self.offered.items() if name in names}
        self.choice = {"ANY": "required", "NONE": "none"}.get(mode, "auto")

    def contents(self):
        contents = self.body["contents"]
        instruction = self.body.get("systemInstruction")
        if instruction is not None:
            check_fields(instruction, "contents", "system_instruction")
        for i, content in enumerate(contents):
            check_fields(content, "contents", f"contents[{i}]")
            if content.get("role", "user") not in ("user", "model"):
                refuse("Please use a valid role: user, model.")
            if not content.get("parts"):
                refuse(f"* GenerateContentRequest.contents[{i}].parts: contents.parts must not be empty.\n")
            for j, part in enumerate(content["parts"]):
                place = f"contents[{i}].parts[{j}]"
                check_fields(part, "contents.parts", place)
                data = set(part) - {"thought", "thoughtSignature", "partMetadata", "mediaResolution", "videoMetadata"}
                if len(data) != 1:
                    refuse(f"* GenerateContentRequest.{place}.data: required oneof field 'data' must have one initialized field\n")
                for name in ("functionCall", "functionResponse"):
                    if name in part:
                        check_fields(part[name], f"contents.parts.{snake(name)}", f"{place}.{snake(name)}")
                        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", part[name].get("name") or ""):
                            refuse(f"* GenerateContentRequest.{place}.{snake(name)}.name: Invalid function name. Must start with a "
                                   "letter or an underscore.")
                signature = part.get("thoughtSignature")
                if signature is not None and signature not in SKIP and unseal(signature) is None:
                    # [pyd] tried live.
                    refuse("Invalid thought signature.")
        if contents[0].get("role", "user") != "user":
            refuse("Please ensure that the first content is of a user.")
        self.pairs()
        self.signatures()

    def pairs(self):
        """[functions] As many responses as calls, with their ids, right after them."""
        contents = self.body["contents"]
        for i, content in enumerate(contents):
            calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            after = contents[i + 1]["parts"] if i + 1 < len(contents) else []
            responses = [part["functionResponse"] for part in after if "functionResponse" in part]
            if calls:
                if len(calls) != len(responses):
                    refuse("Please ensure that the number of function response parts is equal to the number of function call parts "
                           "of the function call turn.")
                if i == 0 or contents[i - 1].get("role") == "model":
                    refuse("Please ensure that function call turn comes immediately after a user turn or after a function response "
                           "turn.")
                if sorted(call["name"] for call in calls) != sorted(response["name"] for response in responses):
                    refuse("Please ensure that the function response names match the function call names.")
                ids = [call.get("id") for call in calls]
                if self.model.third and sorted(map(str, ids)) != sorted(str(response.get("id")) for response in responses):
                    refuse("Please ensure that the function response ids match the function call ids.")
            mine = [part for part in content["parts"] if "functionResponse" in part]
            before = contents[i - 1]["parts"] if i else []
            if mine and not any("functionCall" in part for part in before):
                refuse("Please ensure that function response turn comes immediately after a function call turn.")

    def signatures(self):
        """[signatures] Each step of the present turn begins with a signed call, from Gemini 3 on."""
        contents = self.body["contents"]
        starts = [i for i, content in enumerate(contents)
                  if content.get("role", "user") == "user" and any("functionResponse" not in part for part in content["parts"])]
        for i in range(starts[-1] if starts else 0, len(contents)):
            calls = [(j, part) for j, part in enumerate(contents[i]["parts"]) if "functionCall" in part]
            if calls and self.model.third and not calls[0][1].get("thoughtSignature"):
                refuse("Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
                       "correctly, and missing thought_signature may lead to degraded model performance. Additional data, function "
                       f"call `default_api:{calls[0][1]['functionCall']['name']}`, position {i + 1}.")

    def script(self):
        said, n_done = "", 0
        for content in self.body["contents"]:
            texts = [part["text"] for part in content["parts"] if "text" in part]
            if content.get("role", "user") == "user":
                if texts:
                    said, n_done = "\n".join(texts), 0
            else:
                n_done += any("functionCall" in part for part in content["parts"])
        return Script(said, n_done, self.offered, self.choice, self.form)

    def blocks(self):
        body = self.body
        head = [compact(body[name]) for name in ("systemInstruction", "tools") if name in body]
        return head + [compact(content) for content in body["contents"]]


def answer(request, number, cache):
    """The response that answers a request."""
    script, thinks = request.script(), request.thinks
    text, parts, more, finish, n_tool_use = script.answer(number), [], {}, "STOP", 0
    if thinks and ((request.config.get("thinkingConfig") or {}).get("includeThoughts") or False):
        parts.append({"text": f"thought {number}", "thought": True})
    signature = {"thoughtSignature": seal({"id": f"sig_{number}"})} if thinks and request.model.third else {}
    at = len(text[:text.find(SOURCE["quoted"])].encode()) if SOURCE["quoted"] in text else 0
    # Bytes, start inclusive, end exclusive. [sdk] Segment
    segment = {"startIndex": at, "endIndex": at + len(SOURCE["quoted"].encode()), "text": SOURCE["quoted"]}
    if script.n_calls:
        for i in range(script.n_calls):
            call = {"name": script.tool, "args": script.arguments}
            if request.model.third:
                call["id"] = script.id(f"call_{number}_{i}")
            # [signatures] Of parallel calls the first is signed.
            parts.append({"functionCall": call, **(signature if i == 0 else {})})
    elif script.has("REFUSE"):
        finish = "SAFETY"
        more["safetyRatings"] = [{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}]
    elif script.has("IMAGE"):
        parts += [{"text": text}, {"inlineData": {"mimeType": "image/png", "data": PNG}, **signature}]
    else:
        parts.append({"text": text, **signature})
    if script.has("SEARCH") or script.has("CITE"):
        # [grounding]
        more["groundingMetadata"] = {
            "groundingChunks": [{"web": {"uri": SOURCE["url"], "title": SOURCE["title"]}}],
            "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0], "confidenceScores": [0.9]}],
        }
        if script.has("SEARCH"):
            more["groundingMetadata"] |= {"webSearchQueries": ["sky"], "searchEntryPoint": {"renderedContent": "<div>sky</div>"}}
        else:
            n_tool_use = 700
            more["citationMetadata"] = {"citationSources": [{"startIndex": segment["startIndex"], "endIndex": segment["endIndex"],
                                                             "uri": SOURCE["url"], "license": ""}]}
    if request.config.get("responseLogprobs"):
        chosen = [{"token": text, "tokenId": 1, "logProbability": -0.5}]
        more |= {"avgLogprobs": -0.5, "logprobsResult": {"chosenCandidates": chosen, "topCandidates": []}}
    blocks = request.blocks()
    n = tokens(blocks)
    # [caching] Implicit, from 4096 tokens on.
    ends = [at for at in range(len(blocks) + 1) if tokens(blocks[:at]) >= 4096]
    read = tokens(blocks[:cache.read_and_write(blocks, ends)])
    n_out, n_thoughts = 1 + tokens([compact(parts)]), 3 if thinks else 0
    usage = {"promptTokenCount": n, "candidatesTokenCount": n_out, "totalTokenCount": n + n_out + n_thoughts + n_tool_use}
    usage |= {"cachedContentTokenCount": read} if read else {}
    usage |= {"thoughtsTokenCount": n_thoughts} if thinks else {}
    usage |= {"toolUsePromptTokenCount": n_tool_use} if n_tool_use else {}
    content = {"content": {"role": "model", "parts": parts}} if parts else {}
    return {"candidates": [{**content, "finishReason": finish, "index": 0, **more}], "usageMetadata": usage,
            "modelVersion": request.name, "responseId": f"resp_{number}"}


def stream(response):
    """The chunks of a streamed response: one for each half of a text, then one with what comes last."""
    candidate = response["candidates"][0]
    same = {key: response[key] for key in ("modelVersion", "responseId")}

    def chunk(parts, **more):
        content = {"content": {"role": "model", "parts": parts}} if parts else {}
        usage = {"promptTokenCount": response["usageMetadata"]["promptTokenCount"]}
        return {"candidates": [{**content, "index": 0, **more}], "usageMetadata": usage, **same}

    for part in candidate.get("content", {}).get("parts", []):
        if "text" in part and not part.get("thought"):
            half = len(part["text"]) // 2
            yield f"data: {compact(chunk([{'text': part['text'][:half]}]))}\r\n\r\n"
            yield f"data: {compact(chunk([{'text': part['text'][half:]}]))}\r\n\r\n"
            # [signatures] A stream may end with an empty text that is signed.
            if "thoughtSignature" in part:
                signed = {"text": "", "thoughtSignature": part["thoughtSignature"]}
                yield f"data: {compact(chunk([signed]))}\r\n\r\n"
        else:
            yield f"data: {compact(chunk([part]))}\r\n\r\n"
    more = {key: value for key, value in candidate.items() if key not in ("content", "index")}
    yield f"data: {compact(chunk([], **more) | {'usageMetadata': response['usageMetadata']})}\r\n\r\n"
