#!/usr/bin/env python3
"""Makes models.json: the facts and prices of the models that rethread can reach.

    pip download --no-deps litellm && python3 models.py litellm-*.whl "$(date -I)" > models.json

The facts come from LiteLLM's public model list. LiteLLM is published under the MIT licence, see LICENSE-litellm.
The section "Overlay" adds documented facts that the list lacks; each rule names its source.
An absent field means unknown: the reader then takes the provider's default.
Prices are integers: nano-dollars per million tokens, per web search or per image.
"""
import json
import re
import sys
import zipfile
from collections import Counter
from datetime import date as calendar
from decimal import Decimal

PROVIDERS = {
    "openai", "anthropic", "gemini", "azure", "deepseek", "mistral", "groq", "xai", "openrouter", "together_ai",
    "fireworks_ai", "moonshot", "minimax", "cerebras",
}
EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"]

# A price tier and its suffix in LiteLLM's keys.
TIERS = {"standard": "", "priority": "_priority", "flex": "_flex", "batch": "_batches", "ultrafast": "_ultrafast"}
# A rate and LiteLLM's key for it, without the suffixes for long context and for the tier.
RATES = {
    "input": ["input_cost_per_token"],
    "output": ["output_cost_per_token"],
    "cached_input": ["cache_read_input_token_cost"],
    "cache_write": ["cache_creation_input_token_cost"],
    "cache_write_long": ["cache_creation_input_token_cost_above_1hr", "cache_creation_input_token_cost_above_12hr"],
    "reasoning": ["output_cost_per_reasoning_token"],
    "audio_input": ["input_cost_per_audio_token"],
    "audio_output": ["output_cost_per_audio_token"],
    "image_output": ["output_cost_per_image_token"],
}
# A boolean field and LiteLLM's flag for it. An explicit false stays false.
FLAGS = {
    "tools": "supports_function_calling",
    "parallel_tools": "supports_parallel_function_calling",
    "forced_tool_choice": "supports_tool_choice",
    "prefill": "supports_assistant_prefill",
    "json_schema": "supports_response_schema",
    "images": "supports_vision",
    "pdfs": "supports_pdf_input",
    "audio": "supports_audio_input",
}


def nano(value, unit=10**15):
    """Returns nano-dollars per million tokens, out of dollars per token."""
    return int((Decimal(str(value)) * unit).to_integral_value())


def rates(model, above="", tier=""):
    """Returns the rates of one tier; `above` is LiteLLM's suffix for long context."""
    out = {}
    for rate, keys in RATES.items():
        for key in keys:
            value = model.get(key + above + tier)
            if value is not None:
                out[rate] = nano(value)
    return out


def tiers(model, above=""):
    found = {tier: rates(model, above, suffix) for tier, suffix in TIERS.items()}
    return {tier: r for tier, r in found.items() if r}


def prices(model, makes):
    out = tiers(model)
    if not {"input", "output"} <= out.get("standard", {}).keys():
        return None
    limits = {int(m.group(1)) for key in model for m in [re.search(r"_per_token_above_(\d+)k_tokens", key)] if m}
    long = [{"above": limit * 1000, **tiers(model, "_above_%dk_tokens" % limit)} for limit in sorted(limits)]
    if long:
        out["long"] = long
    search = (model.get("search_context_cost_per_query") or {}).get("search_context_size_medium")
    if search is not None:
        out["search"] = nano(search, 10**9)
    off_peak = off_peak_of(model)
    if off_peak:
        out["off_peak"] = off_peak
    # A model with a price per image token is billed by tokens: LiteLLM's price per image is then an example.
    image = model.get("output_cost_per_image")
    if image and "image" in makes and "image_output" not in out["standard"]:
        out["image"] = nano(image, 10**9)
    return out


def minutes(window):
    begin, end = (60 * int(part[:2]) + int(part[3:]) for part in window.split("-"))
    return [begin, end or 24 * 60]


def off_peak_of(model):
    """Returns the rates at the hours at which the provider charges less, and these hours, in UTC.

    api-docs.deepseek.com/quick_start/pricing: half the price except on weekdays from 01:00 to 04:00 and from 06:00 to
    10:00. On public holidays of China it is half all day; these days are not in the table, so there the higher price counts.
    """
    block = model.get("off_peak_pricing")
    if not block:
        return None
    assert block.keys() <= {"windows", *(key for keys in RATES.values() for key in keys)}, block
    windows = [
        {"days": window["weekdays"],
         "minutes": [minutes(hours) for hours in ([window["hours_utc"]] if isinstance(window["hours_utc"], str)
                                                  else window["hours_utc"])]}
        for window in block["windows"]
    ]
    return {"rates": rates(block), "windows": windows}


def abilities(model):
    """Returns what LiteLLM says of a model except its prices and its end."""
    out = {}
    for field, key in (("context", "max_input_tokens"), ("output", "max_output_tokens")):
        if isinstance(model.get(key), (int, float)) and model[key] > 0:
            out[field] = int(model[key])
    for field, key in FLAGS.items():
        if isinstance(model.get(key), bool):
            out[field] = model[key]
    if model.get("supports_forced_tool_use") is not None:
        out["forced_tool_choice"] = model["supports_forced_tool_use"]
    taken = model.get("supported_modalities") or []
    out.update({field: True for field, media in (("images", "image"), ("audio", "audio")) if media in taken})
    made = model.get("supported_output_modalities") or []
    makes = [media for media in ("image", "audio", "video") if media in made]
    if model["litellm_provider"] in ("openai", "azure"):
        # LiteLLM lists images for GPT-5 on Azure: the image generation tool makes them, not the model.
        # gpt-4o-audio-preview has no list of modalities. (Gemini's `supports_audio_output` is set on models of text.)
        makes = ["audio"] if "audio" in made or (not made and model.get("supports_audio_output")) else []
    if makes:
        out["makes"] = makes
    if model.get("supports_reasoning") is False or "non-reasoning" in model.get("_name", ""):
        out["thinking"] = "none"
    levels = model.get("reasoning_effort_levels")
    if levels:
        out["thinking"] = "effort"
        out["efforts"] = [effort for effort in EFFORTS if effort in levels]
    if model.get("supports_sampling_params") is False:
        out["sampling"] = "never"
    caching = model.get("supports_prompt_caching")
    if caching is False:
        out["cache"] = "none"
    elif caching or model.get("cache_read_input_token_cost"):
        out["cache"] = "implicit"
    if model.get("prompt_cache_min_tokens") and out.get("cache") != "none":
        out["cache_tokens_min"] = int(model["prompt_cache_min_tokens"])
    if model.get("supports_mid_conversation_system"):
        out["system_messages"] = "anywhere"
    return out


# ---- Overlay: documented facts that LiteLLM lacks --------------------------------------------------------------------

# platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks, `supportedModels` of 2026-11.
# pydantic_ai_slim 2.68 profiles/anthropic.py omits Mythos 5.1 ("doesn't run this check"); the page lists it.
BOUND_THINKING = (
    "claude-fable-5-1", "claude-fable-5-2", "claude-mythos-5-1", "claude-mythos-5-2", "claude-opus-5-5",
    "claude-sonnet-5-5", "claude-haiku-5-5",
)
# github.com/langchain-ai/langchainjs release @langchain/anthropic 1.5.13 (models.dev): Sonnet 5 takes no tool changes.
# Fable 5.2 and Mythos 5.2: platform.claude.com/docs/build-with-claude/preserved-thinking/change-tools-or-instructions.
TOOL_CHANGES = BOUND_THINKING + (
    "claude-fable-5", "claude-mythos-5", "claude-opus-4-8", "claude-opus-5",
)
# whats-new-fable-5-2 (platform.claude.com/docs/zh-TW/models/fable-5-2/whats-new-fable-5-2): 1M tokens of context, 128k of
# output, adaptive thinking that is always on, "the same abilities" for Mythos 5.2. LiteLLM 1.110.2 lacks both models.
# The pages that were read do not give the prices, so there are none here.
LIKE = {"claude-fable-5-2": "claude-fable-5-1", "claude-mythos-5-2": "claude-mythos-5-1"}


def percent(factor):
    value = Decimal(str(factor)) * 100
    assert value == value.to_integral_value(), factor
    return int(value)


# OpenAI's models before the 10 % for one region, "for models released on or after March 5, 2026"
# (developers.openai.com/api/docs/guides/data-residency): GPT-5.4 came on that day.
BEFORE_REGIONAL = re.compile(r"(?:ft:)?(?:gpt-3\.5|gpt-4|gpt-audio(?:-mini)?(?:-2025|$)|computer-use-preview|gpt-5(?!\.)|gpt-5\.[1-3]|o[134](?!\d))")


def surcharges(provider, name, model):
    """Returns the price of tokens by region and speed, in percent of the usual one. None: the prices hold for all.

    Anthropic: `usage.inference_geo` (platform.claude.com/docs/en/manage-claude/data-residency) and `usage.speed`
    (platform.claude.com/docs/en/build-with-claude/fast-mode); both multiply. OpenAI: the address, `regional` or `fedramp`.
    """
    if provider == "anthropic":
        return {word: percent(factor) for word, factor in (model.get("provider_specific_entry") or {}).items()}
    if provider != "openai":
        return None
    out = {}
    regions = {model.get("regional_processing_uplift_multiplier_" + region) for region in ("us", "eu")}
    assert len(regions) == 1, name
    [regional] = regions
    if regional or BEFORE_REGIONAL.match(name):
        out["regional"] = percent(regional or 1)
    if model.get("fedramp_uplift_multiplier"):
        out["fedramp"] = percent(model["fedramp_uplift_multiplier"])
    return out


def anthropic(name, model, entry):
    adaptive = model.get("supports_adaptive_thinking")
    if model.get("thinking_always_on"):
        entry["thinking"] = "always"
    elif adaptive:
        entry["thinking"] = "adaptive"
    elif model.get("supports_reasoning"):
        entry["thinking"] = "budget"
    entry["thinks_by_default"] = bool(model.get("thinking_always_on") or model.get("thinking_on_by_default"))
    # Sonnet 5.5 refuses `disabled`; `between_tools` turns thinking before the answer off
    # (platform.claude.com/docs/en/models/sonnet-5-5/whats-new-sonnet-5-5).
    if name == "claude-sonnet-5-5":
        entry["thinking_off"] = "between_tools"
    # Opus 4.5 takes low, medium and high only: pydantic_ai_slim 2.68 profiles/anthropic.py, anthropic_supports_max_effort.
    if model.get("supports_output_config"):
        levels = {"low", "medium", "high"}
        levels |= {level for level in ("xhigh", "max") if model.get("supports_%s_reasoning_effort" % level)}
        if entry["thinking"] != "always" or "thinking_off" in entry:
            levels.add("none")
        entry["efforts"] = [effort for effort in EFFORTS if effort in levels]
        # platform.claude.com/docs/en/build-with-claude/effort: "Most Claude models default to high effort […];
        # Claude Opus 5.5 and Claude Haiku 5.5 default to medium."
        entry["default_effort"] = "medium" if name in ("claude-opus-5-5", "claude-haiku-5-5") else "high"
    # Only models with the flag refuse sampling parameters (profiles/anthropic.py, anthropic_disallows_sampling_settings).
    entry.setdefault("sampling", "always")
    # Every other model takes `any` and `tool` (profiles/anthropic.py, supports_forced_tool_choice).
    entry.setdefault("forced_tool_choice", True)
    # profiles/anthropic.py: "These models support both structured outputs and strict tool calling."
    if model.get("supports_native_structured_output"):
        entry["strict_tools"] = True
    entry["bound_thinking"] = name in BOUND_THINKING
    entry["tool_changes"] = name in TOOL_CHANGES
    # Sonnet 5 accepts a system message between others and ignores it; Anthropic's page says "not available on Claude
    # Sonnet 5" (profiles/anthropic.py, _INLINE_SYSTEM_PROMPT_MODEL_PREFIXES; claude-code release 2.1.201).
    entry.setdefault("system_messages", "first")
    if name == "claude-sonnet-5":
        entry["system_messages"] = "first"
    if entry.get("cache") == "implicit":
        entry["cache"] = "explicit"
        entry["cache_ttls"] = ["5m", "1h"] if model.get("cache_creation_input_token_cost_above_1hr") else ["5m"]


# OpenAI's families: prefix, efforts, default effort. The first prefix that fits wins. Efforts None: not documented.
# pydantic_ai_slim 2.68 profiles/openai.py, _REASONING_SUPPORT_BY_PREFIX (checked there against the live API in 2026-07 to
# 2026-10); default of gpt-5.5: developers.openai.com/api/docs/guides/deployment-checklist; efforts of gpt-5.6: the API's
# error message in github.com/livekit/agents/pull/7169, and `max`, which only Responses takes, by the calls in
# github.com/NousResearch/hermes-agent/pull/90441; of gpt-6.1-terra: developers.openai.com/api/docs/models/gpt-6.1-terra.
WITH_NONE = "none low medium high xhigh"
OPENAI = [
    ("gpt-6-astra", "low medium high xhigh max", None),
    ("gpt-6.1-sol", "low medium high xhigh max", None),
    ("gpt-6.1-terra", WITH_NONE + " max", "medium"),
    ("gpt-6-sol", WITH_NONE + " max", "medium"),
    ("gpt-6-luna", WITH_NONE + " max", "medium"),
    ("gpt-6-rosalind", "low medium high xhigh max", None),
    ("gpt-6", None, None),
    ("gpt-5.6", WITH_NONE + " max", "medium"),
    ("gpt-5.5-pro", "medium high xhigh", None),
    ("gpt-5.5-cyber", None, None),
    ("gpt-5.5", WITH_NONE, "medium"),
    ("gpt-5.4-pro", "medium high xhigh", None),
    ("gpt-5.4", WITH_NONE, "none"),
    ("gpt-5.3-chat", "medium", "medium"),
    ("gpt-5.3", WITH_NONE, "none"),
    ("gpt-5.2-pro", "medium high xhigh", None),
    ("gpt-5.2-chat", "medium", "medium"),
    ("gpt-5.2", WITH_NONE, "none"),
    ("gpt-5.1-codex", None, None),
    ("gpt-5.1-chat", "medium", "medium"),
    ("gpt-5.1", "none low medium high", "none"),
    ("gpt-5-pro", "high", "high"),
    ("gpt-5-codex", None, None),
    ("gpt-5-search", None, None),
    ("gpt-5", "minimal low medium high", "medium"),
    ("chat-latest", "medium", "medium"),
    ("gpt-chat-latest", "medium", "medium"),
    ("codex-mini", None, None),
    ("o1-mini", None, None),
    ("o1", "low medium high", "medium"),
    ("o3", "low medium high", "medium"),
    ("o4", "low medium high", "medium"),
]
# Models of text that do not reason and take every sampling parameter (profiles/openai.py, _NO_REASONING).
PLAIN = ("gpt-3.5", "gpt-35", "gpt-4", "gpt-5-chat", "gpt-audio")
# Chat Completions takes no function tools at all: developers.openai.com/api/docs/guides/deployment-checklist ("Astra and
# GPT-6.1 Sol require Responses for tool calling"). GPT-6.1 Terra: developers.openai.com/api/docs/models/gpt-6.1-terra, read
# in the translation of 2026-11-19 at w3cschool.cn/openai_api ("tool calling requires the Responses API").
NO_CHAT_TOOLS = ("gpt-6-astra", "gpt-6.1-sol", "gpt-6.1-terra")
# Chat Completions takes function tools with effort none only. GPT-5.6 and GPT-6: the same page and
# github.com/BerriAI/litellm/pull/34569 (also if no effort is sent). GPT-5.4 and 5.5: OpenAI's error "Function tools with
# reasoning_effort are not supported", pipecat-ai/pipecat#4043, openai/openai-openapi#541, charmbracelet/crush#2913.
CHAT_TOOLS_WITHOUT_REASONING = ("gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6")
# Chat Completions takes no `stop`: "Not supported with latest reasoning models o3 and o4-mini" (openai 3.57,
# types/chat/completion_create_params.py; o3-mini takes it, smolagents `supports_stop_parameter`). GPT-5 and GPT-6: LiteLLM
# 1.110.2 llms/openai/chat/gpt_reasoning_transformation.py, and OpenAI's error "'stop' is not supported with this model"
# (huggingface/smolagents#1662 gpt-5, #1868 gpt-5.1, #1893 gpt-5.2). gpt-5-chat is no model that reasons.
NO_STOP = re.compile(r"o3(?!-mini)|o4-mini|gpt-5(?!-chat)|gpt-6")
# `verbosity` came with GPT-5. Older models and gpt-5-chat refuse every value but `medium`: OpenAI's error "'verbosity' does
# not support 'low' with this model. Supported values are: 'medium'" (google-deepmind/concordia#164, enricoros/big-AGI#930).
NO_VERBOSITY = re.compile(r"gpt-3|gpt-4|gpt-5-chat|chatgpt-4o|o\d")


def openai(name, model, entry):
    # The limits of an Azure deployment in a region and of a fine-tuned model are those of the base model.
    base = re.sub(r"^(?:ft:|[a-z-]+/)", "", name)
    family = next((row for row in OPENAI if base.startswith(row[0])), None)
    plain = base.startswith(PLAIN)
    if plain:
        entry["thinking"] = "none"
        entry.pop("efforts", None)
        # Search models refuse sampling parameters, which the pages that were read do not say for each: unknown.
        if "search" not in base:
            entry["sampling"] = "always"
    elif family:
        _, documented, default = family
        levels = set(documented.split()) if documented else set()
        # A level that LiteLLM denies for this very deployment is left out. Azure denies some that OpenAI takes.
        levels = {level for level in levels if model.get("supports_%s_reasoning_effort" % level) is not False}
        if documented and levels:
            entry["efforts"] = [effort for effort in EFFORTS if effort in levels]
        entry["thinking"] = "effort"
        default = model.get("default_reasoning_effort") or default
        if default and (not levels or default in levels):
            entry["default_effort"] = default
        entry["thinks_by_default"] = entry.get("default_effort") != "none"
        # Sampling parameters are taken with effort none only (profiles/openai.py, SAMPLING_PARAMS; OpenAI's deployment
        # checklist). The chat models of GPT-5.1 and later refuse them, unlike gpt-5-chat.
        entry["sampling"] = "without_reasoning" if "none" in levels else "never"
    elif model.get("supports_reasoning"):
        entry["thinking"] = "effort"
    entry["stop"] = not NO_STOP.match(base)
    if NO_VERBOSITY.match(base):
        entry["verbosity"] = False
    endpoints = model.get("supported_endpoints")
    if model["mode"] == "responses" or (endpoints and "/v1/chat/completions" not in endpoints):
        entry["chat_completions"] = "none"
    elif base.startswith(NO_CHAT_TOOLS):
        entry["chat_completions"] = "no_tools"
    elif re.search("cyber|rosalind|daybreak", base):
        pass  # Models for chosen customers: the pages that were read do not say what Chat Completions takes.
    elif base.startswith(CHAT_TOOLS_WITHOUT_REASONING):
        # Azure denies effort none for some deployments: these take no tools.
        entry["chat_completions"] = "tools_without_reasoning" if "none" in entry.get("efforts", []) else "no_tools"
    elif endpoints:
        entry["chat_completions"] = "full"
    entry["system_messages"] = "anywhere"
    # developers.openai.com/api/docs/guides/keep-prefix-unchanged: tools are added by an item `additional_tools`. The oldest
    # models that OpenAI's own program Codex sends it to are those of GPT-5.6; older ones may not know it.
    entry["tool_changes"] = base.startswith(("gpt-5.6", "gpt-6"))
    # developers.openai.com/api/docs/guides/function-calling, "Strict mode": the models of Structured Outputs.
    if entry.get("json_schema") and entry.get("tools"):
        entry["strict_tools"] = True
    # developers.openai.com/api/docs/guides/prompt-caching: automatic for prompts of 1024 tokens or more; a lifetime can
    # be chosen from GPT-5.6 on. LiteLLM has a price for 12 hours only for models that take it.
    if entry.get("cache") == "implicit":
        entry["cache_tokens_min"] = 1024
        if base.startswith(("gpt-5.6", "gpt-6")) and model["litellm_provider"] == "openai":
            long = model.get("cache_creation_input_token_cost_above_12hr")
            entry["cache_ttls"] = ["30m", "12h"] if long else ["30m"]


# profiles/google.py of pydantic_ai_slim 2.68, _MODEL_THINKING_LEVELS (from ai.google.dev/gemini-api/docs/thinking).
GEMINI = [
    ("gemini-3.1-flash-lite-image", "minimal high"),
    ("gemini-3.7-flash", "low medium high"),
    ("gemini-3.8-flash", "low medium high"),
    ("gemini-3.1-pro-preview", "low medium high"),
    ("gemini-3-pro-preview", "low high"),
    ("gemini-4-argon", "low medium high"),
    ("gemini-4-carbon", "low medium high"),
    ("gemini-3", "minimal low medium high"),
]
# docs.cloud.google.com/gemini-enterprise-agent-platform/models/guides/gemini-3-5-flash, "Supported thinking levels".
GEMINI_DEFAULT = {
    "gemini-3.5-flash": "medium", "gemini-3.1-pro-preview": "high", "gemini-3.1-pro-preview-customtools": "high",
    "gemini-3.1-flash-lite": "minimal", "gemini-3.1-flash-lite-preview": "minimal",
}


def gemini(name, model, entry):
    levels = next((set(row[1].split()) for row in GEMINI if name.startswith(row[0])), None)
    # profiles/google.py: Gemini 2.5 takes a budget, later models take a level, earlier models and 2.5 Flash Image none.
    if name.startswith(("gemini-1", "gemini-2.0", "gemini-2.5-flash-image", "gemini-pro-vision")) or "gemma" in name[:9]:
        entry["thinking"] = "none"
    elif name.startswith("gemini-2.5"):
        entry["thinking"] = "budget"
        # docs.cloud.google.com/vertex-ai/generative-ai/docs/thinking: thinking is on by default; Flash-Lite is the exception.
        entry["thinks_by_default"] = "flash-lite" not in name
    elif levels or name.startswith("gemini-4"):
        entry["thinking"] = "effort"
        entry["thinks_by_default"] = True
        # The page gives image models levels of their own, of which only the row above was read.
        if levels and ("image" not in name or name.startswith("gemini-3.1-flash-lite-image")):
            levels = {x for x in levels if model.get("supports_%s_reasoning_effort" % x) is not False}
            entry["efforts"] = [effort for effort in EFFORTS if effort in levels]
        if name in GEMINI_DEFAULT:
            entry["default_effort"] = GEMINI_DEFAULT[name]
    # "Function calling with a response mime type: 'application/json' is unsupported" (googleapis/python-genai#867). Gemini 3
    # and later combine them: profiles/google.py, google_supports_tool_combination.
    if name.startswith(("gemini-1", "gemini-2")):
        entry["schema_with_tools"] = False
    # `systemInstruction` is one field of the request, before the contents.
    if model.get("supports_system_messages") is not False:
        entry["system_messages"] = "first"


# profiles/grok.py of pydantic_ai_slim 2.68; xhigh of 4.7: docs.x.ai/developers/model-capabilities/text/reasoning.
XAI = {
    "grok-4.3": "none low medium high", "grok-4.3-latest": "none low medium high", "grok-4.5": "low medium high",
    "grok-4.5-latest": "low medium high", "grok-build-latest": "low medium high", "grok-4.6": "low medium high",
    "grok-4.7": "low medium high xhigh",
}


def others(provider, name, model, entry):
    last = name.lower().rsplit("/", 1)[-1]
    if provider == "xai" and name in XAI:
        entry["thinking"] = "effort"
        entry["efforts"] = XAI[name].split()
    # providers/deepseek.py and profiles/deepseek.py of pydantic_ai_slim 2.68 (from api-docs.deepseek.com/guides/
    # thinking_mode): R1 and the reasoner always think. Flash and V4 think by default, take low, high and max, and refuse a
    # forced tool choice while they think. Chat Completions refuses `json_schema` ("unavailable now").
    if provider == "deepseek":
        entry["json_schema"] = False
        if last in ("deepseek-r1", "deepseek-reasoner"):
            entry["thinking"] = "always"
            entry["thinks_by_default"] = True
        elif last.startswith(("deepseek-v4-", "deepseek-flash")):
            entry["thinking"] = "effort"
            entry["thinks_by_default"] = True
            entry["efforts"] = ["low", "high", "max"]
            entry["forced_tool_choice"] = False
    # providers/together.py: the same refusal at Together.
    if provider == "together_ai" and name.lower().startswith("deepseek-ai/deepseek-v4-"):
        entry["forced_tool_choice"] = False
    # profiles/mistral.py: Magistral always thinks.
    if provider == "mistral" and last.startswith("magistral"):
        entry["thinking"] = "always"
        entry["thinks_by_default"] = True
    # providers/moonshotai.py: Moonshot's API takes no forced tool choice.
    # K2.5 and later think unless the request says otherwise; K2.7 Code cannot be told not to and takes no level.
    if provider == "moonshot":
        entry["forced_tool_choice"] = False
        if last.startswith(("kimi-k2.5", "kimi-k2.6", "kimi-k2.7", "kimi-k3")):
            entry["thinks_by_default"] = True
        if last.startswith("kimi-k2.7"):
            entry["thinking"] = "always"
    # gpt-oss takes low, medium and high and cannot be told not to think (console.groq.com/docs/reasoning,
    # profiles/groq.py). Cerebras and Together do not force a tool of it (profiles/harmony.py, providers/*.py).
    hosts = ("groq", "cerebras", "together_ai", "fireworks_ai")
    if last.startswith("gpt-oss-") and "safeguard" not in last and provider in hosts:
        entry["thinking"] = "effort"
        entry["efforts"] = ["low", "medium", "high"]
        entry["default_effort"] = "medium"
        entry["thinks_by_default"] = True
        if provider in ("cerebras", "together_ai"):
            entry["forced_tool_choice"] = False
    # java.agentscope.io/v2/en/integration/model/minimax: M2 always thinks; without `reasoning_split`, which rethread does
    # not send, the text of M2 and M3 has the thoughts in tags (skills.sh/terrylica/cc-skills/minimax, vLLM's MiniMax parser).
    if provider == "minimax":
        entry["think_tag"] = True
        if last.startswith("minimax-m2"):
            entry["thinking"] = "always"
            entry["thinks_by_default"] = True
    # docs.sglang.io/docs/advanced_features/separate_reasoning: DeepSeek R1 and its distillations, Qwen3 and Qwen3 Thinking
    # write <think>…</think> (R1 itself may omit the opening tag); QwQ: ericlbuehler.github.io/mistral.rs think_tags;
    # Groq: console.groq.com/docs/reasoning, `reasoning_format` is `raw` unless the request says otherwise.
    if provider in hosts:
        hybrid = re.fullmatch(r"qwen-?3-(?:\dp\d|\d+)b(?:-a\d+b)?(?:-fp8|-fp8-tput|-tput)?", last)
        thinks = re.search(r"deepseek-r1|qwq|qwen3.*thinking", last) or hybrid
        if thinks or (provider == "groq" and last.startswith("qwen3")):
            entry["think_tag"] = True


# ---- The table -------------------------------------------------------------------------------------------------------


def short(provider, name):
    """Returns a model's name without the name of its list."""
    return name.removeprefix(provider + "/")


def base_of(provider, name, listed):
    """Returns the entry of the model that a regional Azure deployment serves."""
    regional = re.match(r"(?:eu|us|apac|global|global-standard)/(.+)", name)
    if provider != "azure" or not regional:
        return {}
    return listed.get("azure/" + regional.group(1)) or listed.get(regional.group(1)) or {}


# What a regional deployment takes over from its model. Limits, prices and ends are its own.
TAKEN_OVER = re.compile(r"supports_|supported_|reasoning_effort_levels|default_reasoning_effort")


def entry_of(provider, name, model, listed):
    taken_over = {k: v for k, v in base_of(provider, name, listed).items() if TAKEN_OVER.match(k)}
    model = {**taken_over, **model, "_name": name}
    entry = abilities(model)
    price = prices(model, entry.get("makes", []))
    if not entry and not price:
        return None
    if provider == "anthropic":
        anthropic(name, model, entry)
    elif provider in ("openai", "azure"):
        openai(name, model, entry)
    elif provider == "gemini":
        gemini(name, model, entry)
    else:
        others(provider, name, model, entry)
    if entry.get("tools") is False:
        for field in ("forced_tool_choice", "parallel_tools", "strict_tools"):
            entry.pop(field, None)
    if price:
        extra = surcharges(provider, name, model)
        if extra is not None:
            price["surcharges"] = extra
        entry["prices"] = price
        served = [tier for tier in ("flex", "priority", "ultrafast") if tier in price]
        if served:
            entry["service_tiers"] = served
    if re.fullmatch(r"\d{4}-\d\d-\d\d", str(model.get("deprecation_date", ""))):
        entry["ends"] = calendar.fromisoformat(model["deprecation_date"]).isoformat()
    # A few successors are a title, not the name of a model.
    if model.get("successor_model") and " " not in model["successor_model"]:
        entry["successor"] = short(provider, model["successor_model"])
    return entry


def wanted(model):
    # Gemini's image models are called by generateContent as its other models are.
    gemini_image = (
        model.get("litellm_provider") == "gemini"
        and model.get("mode") == "image_generation"
        and "/v1/chat/completions" in (model.get("supported_endpoints") or [])
    )
    return model.get("litellm_provider") in PROVIDERS and (model.get("mode") in ("chat", "responses") or gemini_image)


def table(listed):
    models = {}
    # A name with the prefix of its list comes after the bare name of the same model and wins.
    for key in sorted(listed, key=lambda key: ("/" in key, key)):
        model = listed[key]
        if not wanted(model):
            continue
        provider = model["litellm_provider"]
        name = short(provider, key)
        entry = entry_of(provider, name, model, listed)
        if entry:
            models[provider + "/" + name] = entry
    for new, old in LIKE.items():
        if "anthropic/" + new not in models:
            own = {k: v for k, v in models["anthropic/" + old].items() if k not in ("prices", "ends", "successor")}
            models["anthropic/" + new] = {**own, "bound_thinking": True, "tool_changes": True}
    return dict(sorted(models.items()))


def check(models):
    def has(name, **facts):
        entry = models[name]
        for field, value in facts.items():
            assert entry.get(field) == value, "%s: %s is %r, not %r" % (name, field, entry.get(field), value)
        return entry

    sonnet = has(
        "anthropic/claude-sonnet-5-5", context=1000000, output=128000, sampling="never", forced_tool_choice=False,
        prefill=False, thinking="always", thinking_off="between_tools", thinks_by_default=True, bound_thinking=True,
        system_messages="anywhere", tool_changes=True, cache="explicit", cache_tokens_min=512, cache_ttls=["5m", "1h"],
        efforts=["none", "low", "medium", "high", "xhigh", "max"], default_effort="high", strict_tools=True, pdfs=True,
    )
    assert sonnet["prices"]["standard"] == {
        "input": 2 * 10**9, "output": 10 * 10**9, "cached_input": 10**8, "cache_write": 25 * 10**8,
        "cache_write_long": 4 * 10**9,
    }
    assert sonnet["prices"]["batch"]["input"] == 10**9 and sonnet["prices"]["search"] == 10**7
    has("anthropic/claude-opus-4-7", sampling="never", forced_tool_choice=True, prefill=False, thinking="adaptive",
        thinks_by_default=False, bound_thinking=False, system_messages="first", tool_changes=False)
    has("anthropic/claude-opus-5-5", thinking="always", default_effort="medium",
        efforts=["low", "medium", "high", "xhigh", "max"])
    has("anthropic/claude-sonnet-5", system_messages="first", tool_changes=False, forced_tool_choice=True)
    has("anthropic/claude-haiku-5-5", thinking="adaptive", thinks_by_default=True, bound_thinking=True)
    assert [step["above"] for step in models["anthropic/claude-haiku-5-5"]["prices"]["long"]] == [100000]
    has("anthropic/claude-haiku-4-5", thinking="budget", sampling="always", prefill=True)
    has("anthropic/claude-opus-4-5", thinking="budget", efforts=["none", "low", "medium", "high"])
    has("anthropic/claude-fable-5-2", bound_thinking=True, thinking="always", prices=None)
    sol = has(
        "openai/gpt-6.1-sol", chat_completions="no_tools", sampling="never", thinking="effort",
        efforts=["low", "medium", "high", "xhigh", "max"], cache_ttls=["30m", "12h"],
        service_tiers=["flex", "priority", "ultrafast"], system_messages="anywhere", tool_changes=True,
    )
    long = sol["prices"]["long"]
    assert [step["above"] for step in long] == [272000] and long[0]["standard"]["output"] == 15 * 10**9
    assert long[0]["ultrafast"]["cache_write_long"] == 60 * 10**9
    has("openai/gpt-6-astra", chat_completions="no_tools")
    has("openai/gpt-6-sol", chat_completions="tools_without_reasoning", sampling="without_reasoning")
    has("openai/gpt-6.1-terra", chat_completions="no_tools", sampling="without_reasoning")
    has("openai/gpt-5-mini", chat_completions="full", sampling="never", ends="2026-12-11", successor="gpt-5.6-terra",
        efforts=["minimal", "low", "medium", "high"], default_effort="medium", thinks_by_default=True)
    has("openai/gpt-5.6-terra", chat_completions="tools_without_reasoning", sampling="without_reasoning",
        efforts=["none", "low", "medium", "high", "xhigh", "max"], default_effort="medium")
    has("openai/gpt-5-codex", chat_completions="none", sampling="never")
    has("openai/gpt-5-chat-latest", sampling="always", thinking="none")
    has("openai/gpt-4.1", sampling="always", thinking="none", chat_completions="full", tool_changes=False)
    has("openai/o3", sampling="never", chat_completions="full", stop=False, verbosity=False)
    has("openai/o3-mini", stop=True, verbosity=False)
    has("openai/gpt-4o", stop=True, verbosity=False)
    has("openai/gpt-5-mini", stop=False, verbosity=None)
    has("azure/eu/gpt-5", sampling="never", tools=True)
    has("gemini/gemini-3.8-flash", sampling="never", thinking="effort", efforts=["low", "medium", "high"],
        cache="implicit", cache_tokens_min=4096, system_messages="first", audio=True, images=True, pdfs=True)
    has("gemini/gemini-2.5-pro", thinking="budget", schema_with_tools=False)
    has("gemini/gemini-3.8-flash", schema_with_tools=None)
    pro = models["gemini/gemini-3.1-pro-preview"]["prices"]
    assert pro["long"][0]["above"] == 200000 and pro["search"] == 14 * 10**6
    opus = models["anthropic/claude-opus-5-5"]["prices"]
    assert opus["surcharges"] == {"fast": 200, "us": 110} and sonnet["prices"]["surcharges"] == {"us": 110}
    assert sol["prices"]["surcharges"]["regional"] == 110
    assert models["openai/gpt-4.1"]["prices"]["surcharges"]["regional"] == 100
    assert "regional" not in models["openai/gpt-5.6-cyber"]["prices"]["surcharges"]
    flash = models["deepseek/deepseek-flash"]["prices"]
    assert flash["off_peak"]["rates"]["output"] * 2 == flash["standard"]["output"]
    for name, entry in models.items():
        efforts = entry.get("efforts")
        assert efforts is None or efforts == [e for e in EFFORTS if e in efforts] and efforts, name
        assert entry.get("default_effort") in [None] + (efforts or EFFORTS), name


def main():
    wheel = zipfile.ZipFile(sys.argv[1])
    listed = json.loads(wheel.read("litellm/model_prices_and_context_window_backup.json"))
    version = re.search(r"litellm-([0-9.]+)", sys.argv[1]).group(1)
    day = calendar.fromisoformat(sys.argv[2]).isoformat()
    models = table(listed)
    check(models)
    print('{"source": "LiteLLM %s", "date": "%s", "models": {' % (version, day))
    lines = ["%s: %s" % (json.dumps(k), json.dumps(v, sort_keys=True, separators=(",", ":"))) for k, v in models.items()]
    print(",\n".join(lines))
    print("}}")
    counts = Counter(field for entry in models.values() for field in entry)
    print("%d models" % len(models), file=sys.stderr)
    for field, count in sorted(counts.items()):
        print("%5d %s" % (count, field), file=sys.stderr)
    missing = sorted(
        "%s -> %s" % (name, entry["successor"]) for name, entry in models.items()
        if "successor" in entry and name.split("/")[0] + "/" + entry["successor"] not in models
    )
    if missing:
        print("%d successors are not in the table: %s" % (len(missing), "; ".join(missing)), file=sys.stderr)


if __name__ == "__main__":
    main()
