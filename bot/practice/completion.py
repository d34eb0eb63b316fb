"""What the practice engine generates: a thought, then an answer or a call of the tool it was offered."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Piece = dict[str, Any]  # one delta, about a token

_THOUGHT = "The user wants something short and correct, so a plain answer will do."
_ANSWER = (
    "def quicksort(items): return items if len(items) < 2 else quicksort([x for x in items[1:] "
    "if x < items[0]]) + [items[0]] + quicksort([x for x in items[1:] if x >= items[0]])"
)
_SAMPLES: Mapping[str, Any] = {"integer": 3, "number": 0.5, "boolean": True, "array": [], "object": {}}


def generate(asked: Mapping[str, Any], *, reasoning: bool, tool_calls: bool) -> list[Piece]:
    """All deltas of one completion, at most `max_tokens` unless a tool is called.

    Without `reasoning` the thought stays in `content`; without `tool_calls` the call stays there as text,
    as when an engine runs without its parsers.
    """
    limit = int(asked.get("max_tokens") or 64)
    field = "reasoning_content" if reasoning else "content"
    thought = [{field: f"{word} "} for word in _THOUGHT.split()[: max(limit // 3, 1)]]
    tool = _offered(asked)
    if tool is None:
        words = _ANSWER.split() * (1 + limit // len(_ANSWER.split()))
        return [*thought, *({"content": f"{word} "} for word in words[: max(limit - len(thought), 0)])]
    if not tool_calls:
        return [*thought, {"content": f"<|tool_call_begin|>functions.{tool[0]}:0{json.dumps(tool[1])}"}]
    return [*thought, *_call(*tool)]


def _offered(asked: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The first tool's name, with arguments its schema would take."""
    tools = asked.get("tools")
    if not isinstance(tools, list) or not tools or asked.get("tool_choice") == "none":
        return None
    function = tools[0].get("function", {}) if isinstance(tools[0], dict) else {}
    wanted = function.get("parameters", {}).get("properties", {})
    arguments = {name: _sample(schema) for name, schema in wanted.items()}
    return function.get("name", "get_weather"), arguments


def _sample(schema: Mapping[str, Any]) -> Any:
    return schema["enum"][0] if schema.get("enum") else _SAMPLES.get(schema.get("type", ""), "Beijing")


def _call(name: str, arguments: Mapping[str, Any]) -> list[Piece]:
    """The name first, then the arguments in three parts, as they are streamed."""
    function = {"name": name, "arguments": ""}
    begin = {"index": 0, "id": f"functions.{name}:0", "type": "function", "function": function}
    text = json.dumps(arguments)
    cuts = (0, len(text) // 3, 2 * len(text) // 3, len(text))
    parts = [text[start:end] for start, end in itertools.pairwise(cuts)]
    rest = [{"index": 0, "function": {"arguments": part}} for part in parts]
    return [{"tool_calls": [call]} for call in [begin, *rest]]


def finish_reason(pieces: Sequence[Piece]) -> str:
    return "tool_calls" if any("tool_calls" in piece for piece in pieces) else "length"


def usage(pieces: Sequence[Piece]) -> dict[str, int]:
    return {"prompt_tokens": 31, "completion_tokens": len(pieces), "total_tokens": 31 + len(pieces)}


def chunk(model: str, delta: Piece | None, *, finish: str | None = None) -> dict[str, Any]:
    """One event of a stream; without a delta, the one that carries the usage."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model, "choices": choices}


def whole(model: str, pieces: Sequence[Piece]) -> dict[str, Any]:
    """The answer that is not streamed."""
    calls = [call for piece in pieces for call in piece.get("tool_calls", ())]
    choice = {"index": 0, "message": _message(pieces, calls), "finish_reason": finish_reason(pieces)}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": model,
        "choices": [choice],
        "usage": usage(pieces),
    }


def _message(pieces: Sequence[Piece], calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
    joined: list[dict[str, Any]] = []
    if calls:
        arguments = "".join(call["function"]["arguments"] for call in calls)
        joined = [{**calls[0], "function": {"name": calls[0]["function"]["name"], "arguments": arguments}}]
    return {
        "role": "assistant",
        "content": "".join(piece.get("content", "") for piece in pieces) or None,
        "reasoning_content": "".join(piece.get("reasoning_content", "") for piece in pieces) or None,
        "tool_calls": joined or None,
    }
