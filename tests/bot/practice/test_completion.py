"""The practice engine's completions, streamed and whole."""

from __future__ import annotations

import json

from bot.practice import completion

WEATHER = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["C"]}},
        },
    },
}


def joined(pieces: list[completion.Piece], field: str) -> str:
    return "".join(piece.get(field, "") for piece in pieces)


def test_an_answer_has_a_thought_and_keeps_to_max_tokens() -> None:
    pieces = completion.generate({"max_tokens": 40}, reasoning=True, tool_calls=True)
    assert len(pieces) == 40
    assert joined(pieces, "reasoning_content").startswith("The user wants")
    assert "quicksort" in joined(pieces, "content")
    assert completion.finish_reason(pieces) == "length"
    assert completion.usage(pieces)["completion_tokens"] == 40


def test_one_token_is_one_token() -> None:
    assert len(completion.generate({"max_tokens": 1}, reasoning=True, tool_calls=True)) == 1


def test_without_a_reasoning_parser_the_thought_stays_in_the_content() -> None:
    pieces = completion.generate({}, reasoning=False, tool_calls=True)
    assert joined(pieces, "reasoning_content") == ""
    assert joined(pieces, "content").startswith("The user wants")


def test_an_offered_tool_is_called_with_arguments_of_its_schema() -> None:
    pieces = completion.generate({"tools": [WEATHER]}, reasoning=True, tool_calls=True)
    message = completion.whole("m", pieces)["choices"][0]["message"]
    (call,) = message["tool_calls"]
    assert call["function"]["name"] == "look_up"
    assert json.loads(call["function"]["arguments"]) == {"city": "Beijing", "days": 3, "unit": "C"}
    assert message["content"] is None
    assert completion.finish_reason(pieces) == "tool_calls"


def test_without_a_tool_parser_the_call_is_left_as_text() -> None:
    pieces = completion.generate({"tools": [WEATHER]}, reasoning=True, tool_calls=False)
    message = completion.whole("m", pieces)["choices"][0]["message"]
    assert message["tool_calls"] is None
    assert "functions.look_up" in message["content"]


def test_a_chunk_without_a_delta_carries_no_choice() -> None:
    assert completion.chunk("m", None)["choices"] == []
    assert completion.chunk("m", {"content": "a"})["choices"][0]["delta"] == {"content": "a"}
