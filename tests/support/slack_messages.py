"""Asserts that a message is one Slack takes, and reads back all its texts."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from slack_sdk.models.blocks import ActionsBlock, Block, ContextBlock, SectionBlock, TableBlock

from bot.core.blocks import MOST_BYTES
from bot.practice.slack_blocks import check_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.core.blocks import Message

_SDK = {"section": SectionBlock, "context": ContextBlock, "actions": ActionsBlock, "table": TableBlock}
_UNESCAPED = re.compile(r"&(?!amp;|lt;|gt;)|<(?![@#!]|https?://)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def assert_sendable(message: Message) -> None:
    """Within every limit, escaped, verbatim, and good to be sent as an edit too."""
    blocks = list(message.blocks)
    assert check_blocks(blocks) == []
    assert len(json.dumps(blocks)) < MOST_BYTES
    assert 0 < len(message.text.encode()) < 4_000
    for block in blocks:
        _ask_sdk(block)
    assert len({block["block_id"] for block in blocks}) == len(blocks)
    for markup in (message.text, *markups(message)):
        assert _UNESCAPED.search(markup) is None, markup
    for text in (message.text, *_all_texts(blocks)):
        assert _CONTROLS.search(text) is None, text


def _ask_sdk(block: dict[str, Any]) -> None:
    known = _SDK.get(block["type"])
    if known is not None:
        fields = {key: value for key, value in block.items() if key != "type"}
        made: Block = known(**fields)
        made.validate_json()


def markups(message: Message) -> list[str]:
    """Every mrkdwn text of the blocks; each must be verbatim."""
    found = list(_nodes(list(message.blocks), "mrkdwn"))
    assert all(node.get("verbatim") is True for node in found)
    return [node["text"] for node in found]


def shown(message: Message) -> str:
    """All that a person can read in the blocks, one text a line."""
    return "\n".join(_all_texts(list(message.blocks)))


def preformatted(message: Message) -> str:
    """The log text of a message."""
    parts = _nodes(list(message.blocks), "rich_text_preformatted")
    return "\n".join(part["text"] for node in parts for part in node["elements"])


def button_values(message: Message) -> dict[str, dict[str, Any]]:
    """What each button carries, by action id."""
    found = _nodes(list(message.blocks), "button")
    return {node["action_id"]: json.loads(node["value"]) for node in found}


def labels(message: Message) -> list[str]:
    return [node["text"]["text"] for node in _nodes(list(message.blocks), "button")]


def kinds(message: Message) -> list[str]:
    return [block["type"] for block in message.blocks]


def _nodes(node: Any, kind: str) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("type") == kind:
            yield node
        for child in node.values():
            yield from _nodes(child, kind)
    elif isinstance(node, list | tuple):
        for child in node:
            yield from _nodes(child, kind)


def _all_texts(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("text"), str):
            yield node["text"]
        for child in node.values():
            yield from _all_texts(child)
    elif isinstance(node, list | tuple):
        for child in node:
            yield from _all_texts(child)
