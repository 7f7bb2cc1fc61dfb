#!/usr/bin/env python3
"""Makes prices.json: the models that rethread can reach, out of LiteLLM's public price list.

    pip download --no-deps litellm && python3 trim_prices.py litellm-*.whl "$(date -I)" > prices.json

LiteLLM is published under the MIT licence, see LICENSE-litellm. Prices are integers: nano-dollars per million tokens.
"""
import json
import re
import sys
import zipfile
from decimal import Decimal

PROVIDERS = {
    "openai", "anthropic", "gemini", "azure", "deepseek", "mistral", "groq", "xai", "openrouter", "together_ai",
    "fireworks_ai", "moonshot", "minimax", "cerebras",
}
PRICES = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cached_input": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "reasoning": "output_cost_per_reasoning_token",
}
ABILITIES = {
    "tools": "supports_function_calling",
    "vision": "supports_vision",
    "reasoning": "supports_reasoning",
    "json_schema": "supports_response_schema",
}


def nano(value):
    """nano-dollars per million tokens, out of dollars per token"""
    return int((Decimal(str(value)) * 10**15).to_integral_value())


def prices(model, suffix=""):
    out = {name: nano(model[key + suffix]) for name, key in PRICES.items() if model.get(key + suffix) is not None}
    return out if "input" in out and "output" in out else None


def main():
    wheel = zipfile.ZipFile(sys.argv[1])
    name = "litellm/model_prices_and_context_window_backup.json"
    listed = json.loads(wheel.read(name))
    version = re.search(r"litellm-([0-9.]+)", sys.argv[1]).group(1)
    date = sys.argv[2]
    models = {}
    for key, model in sorted(listed.items()):
        provider = model.get("litellm_provider")
        if provider not in PROVIDERS or model.get("mode") not in ("chat", "responses"):
            continue
        base = prices(model)
        if base is None:
            continue
        name = key if key.startswith(provider + "/") else provider + "/" + key
        entry = {"prices": base}
        above = prices(model, "_above_200k_tokens")
        if above:
            entry["above_200k"] = above
        for field, source in (("context", "max_input_tokens"), ("answer", "max_output_tokens")):
            if isinstance(model.get(source), int):
                entry[field] = model[source]
        can = [ability for ability, source in ABILITIES.items() if model.get(source)]
        if can:
            entry["can"] = can
        models[name] = entry
    print('{"source": "LiteLLM %s", "date": "%s", "models": {' % (version, date))
    lines = ['%s: %s' % (json.dumps(k), json.dumps(v, separators=(",", ":"))) for k, v in models.items()]
    print(",\n".join(lines))
    print("}}")


main()
