"""What the fake providers share: scripted answers, sealed values, the simulated prompt cache, raw JSON."""

import base64
import hashlib
import json
import re
import threading

# A picture of one pixel.
PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
       "awAAAABJRU5ErkJggg==")
# A tenth of a second of silence would be longer: the head of a WAV file without samples.
WAV = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80>\x00\x00"
                       b"\x02\x00\x10\x00data\x00\x00\x00\x00").decode()
# What citations point to.
SOURCE = {"url": "https://example.org/sky", "title": "Sky", "quoted": "the sky is blue"}


class Refused(Exception):
    """A request that the provider refuses: the status and the body of its answer."""

    def __init__(self, status, body, text):
        super().__init__(text)
        self.status, self.body, self.text = status, body, text


def digest(value):
    """The hash of a JSON value. Formatting and the order of keys do not matter; values do."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:24]


def seal(value):
    """An opaque text that holds a value, as signatures and encrypted thoughts do."""
    return base64.b64encode(json.dumps(value, separators=(",", ":")).encode()).decode()


def unseal(text):
    """The value of a sealed text; None if the text was made by another provider, or changed."""
    try:
        value = json.loads(base64.b64decode(text, validate=True))
    except ValueError:
        return None
    return value if isinstance(value, dict) and "id" in value else None


def without_markers(value):
    """The value without `cache_control`: markers of caching are no part of what is said."""
    if isinstance(value, dict):
        return {k: without_markers(v) for k, v in value.items() if k not in ("cache_control", "prompt_cache_breakpoint")}
    if isinstance(value, list):
        return [without_markers(v) for v in value]
    return value


class Chain:
    """Thoughts and what they were written after.

    Each thought records the hash of all that preceded it, without other thoughts, and the thought before it. It is
    valid after the same prefix, and after the same thought or none: thoughts may be left out from the first one on or
    from the last one on, but not between two that stay.
    <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks>
    """

    def __init__(self, *head):
        self.said = list(head)
        self.last = None

    def add(self, value):
        self.said.append(value)

    def prefix(self):
        return digest(self.said)

    def mint(self, number, **more):
        """The sealed record of a new thought."""
        made = {"id": f"th_{number}", "after": self.last, "prefix": self.prefix(), **more}
        self.last = made["id"]
        return seal(made)

    def takes(self, thought):
        """Whether a thought fits here. One that does is the last one from now on."""
        fits = self.last in (None, thought["after"]) and thought["prefix"] == self.prefix()
        if fits:
            self.last = thought["id"]
        return fits


class Script:
    """What the last text of the user asks the model to do.

    `CALL [tool]` asks for a tool, `CALL2` for two calls in one answer, `STEPS3 [tool]` for three answers with a call
    each. `INVENT name` asks for a tool by the rest of the line, whether it was declared or not; with `ODDID` calls have ids as
    other servers give them. `THINK`, `CITE`, `SEARCH`, `IMAGE`, `AUDIO`, `REFUSE` and `LONG` are answers of those kinds. `HOLD` keeps the first
    request with this text open until the client disconnects, and `BREAK` ends the first stream with this text at its beginning.
    """

    def __init__(self, text, n_done, tools, choice, form=None):
        """`n_done` is the number of answers with calls since the text; `tools` maps names to schemas; `choice` is auto, none,
        required, or the name of a tool."""
        self.text, self.form = text, form
        asked = re.search(r"\b(CALL|STEPS)(\d*)\b(?: (\w+))?", text)
        self.n_calls = 0
        name = asked and asked.group(3)
        if choice not in ("auto", "none", "required"):
            self.n_calls, name = 1, choice
        elif choice == "required":
            self.n_calls = 1
        elif choice == "auto" and asked and tools:
            n = int(asked.group(2) or 1)
            if asked.group(1) == "CALL":
                self.n_calls = n if n_done == 0 else 0
            else:
                self.n_calls = 1 if n_done < n else 0
        if self.n_calls and tools:
            self.tool = name if name in tools else next(iter(tools))
            self.arguments = sample(tools[self.tool])
        else:
            self.n_calls = 0
        invented = re.search(r"\bINVENT\b(.*)", text)
        if invented and choice == "auto" and tools and n_done == 0:
            self.n_calls, self.tool, self.arguments = 1, invented.group(1).strip(), {}

    def id(self, usual):
        """The id of a call."""
        return f"functions.{self.tool}:{usual}|{'x' * 60}" if self.has("ODDID") else usual

    def has(self, word):
        return re.search(rf"\b{word}\b", self.text) is not None

    def answer(self, number):
        """The text of the answer."""
        if "exactly one word: yes or no" in self.text:
            return "no" if self.has("SAYNO") else "yes"
        if self.form is not None:
            return json.dumps(sample(self.form))
        if self.has("CITE") or self.has("SEARCH"):
            return f"answer {number}: ü {SOURCE['quoted']}."
        return f"answer {number}" + (" and so on" * 400 if self.has("LONG") else "")


def sample(schema, name=""):
    """A value that fits a simple JSON Schema."""
    if not isinstance(schema, dict):
        return "x"
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("anyOf"):
        return sample(schema["anyOf"][0], name)
    kind = schema.get("type", "object" if "properties" in schema or name == "" else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    kind = kind.lower()
    if kind == "object":
        wanted = schema.get("required") or []
        return {key: sample(value, key) for key, value in (schema.get("properties") or {}).items() if key in wanted}
    if kind == "array" and name == "steps":
        return ["CALL list_folder", "Say it."]
    if kind == "array":
        return [sample(schema.get("items"), name)] * max(1, schema.get("minItems", 1))
    if kind in ("integer", "number"):
        return max(1, schema.get("minimum", 1))
    return {"boolean": True, "null": None}.get(kind, {"path": ".", "paths": "."}.get(name, f"some {name or 'word'}"))


class Cache:
    """The prompt cache of one model of one lane: the prefixes that it holds, as lists of blocks."""

    def __init__(self):
        self.held = set()
        self.lock = threading.Lock()

    @staticmethod
    def keys(blocks):
        """The hash of each prefix, the empty one first."""
        hasher, keys = hashlib.sha256(), [b""]
        for block in blocks:
            hasher.update(block.encode() + b"\0")
            keys.append(hasher.digest())
        return keys

    def read_and_write(self, blocks, ends, lookback=None):
        """How many blocks of this prompt are held, looked up from each of the places `ends`; then holds those."""
        keys = self.keys(blocks)
        with self.lock:
            found = 0
            for end in ends:
                low = 0 if lookback is None else max(0, end - lookback)
                found = max([found] + [at for at in range(low, end + 1) if keys[at] in self.held])
            self.held.update(keys[end] for end in ends if end > 0)
        return found


def tokens(texts):
    """The tokens of texts: four characters each."""
    return sum(map(len, texts)) // 4


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def raw_fields(raw):
    """The fields of a JSON object as their bytes were sent."""
    return dict(_walk(raw, "{", "}")) if raw.lstrip()[:1] == "{" else {}


def raw_elements(raw):
    """The elements of a JSON list as their bytes were sent; a text is a list of one."""
    if raw is None:
        return []
    return [value for _, value in _walk(raw, "[", "]")] if raw.lstrip()[:1] == "[" else [raw]


def _walk(raw, begin, end):
    decoder, at, out = json.JSONDecoder(), raw.index(begin) + 1, []

    def skip(at, signs):
        while raw[at] in signs:
            at += 1
        return at

    while True:
        at = skip(at, " \t\r\n,")
        if raw[at] == end:
            return out
        key = None
        if begin == "{":
            key, at = decoder.raw_decode(raw, at)
            at = skip(at, " \t\r\n:")
        _, stop = decoder.raw_decode(raw, at)
        out.append((key, raw[at:stop]))
        at = stop


def said_bytes(raw):
    """An element as it was sent, without markers of caching."""
    if raw is not None and ("cache_control" in raw or "prompt_cache_breakpoint" in raw):
        return compact(without_markers(json.loads(raw)))
    return raw
