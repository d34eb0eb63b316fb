"""The rules of layout blocks, each as Slack checks it, for messages, modals and the Home tab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot.practice.slack_elements import IN_ACTIONS, IN_INPUT, IN_SECTION, check_element, check_image
from bot.practice.slack_findings import Findings, Node
from bot.practice.slack_rich_text import check_rich_text

MESSAGE, MODAL, HOME = "message", "modal", "home"
MOST_BLOCKS = {MESSAGE: 50, MODAL: 100, HOME: 100}
EVERYWHERE = {"actions", "context", "divider", "header", "image", "input", "rich_text", "section", "video"}
ALLOWED = {
    MESSAGE: EVERYWHERE | {"markdown", "table", "plan", "task_card", "context_actions"},
    MODAL: EVERYWHERE,
    HOME: EVERYWHERE,
}
TABLE_CHARACTERS, MARKDOWN_CHARACTERS = 10_000, 12_000  # over all such blocks of one message


def check_blocks(value: Any, *, surface: str = MESSAGE) -> list[str]:
    """Everything wrong with these blocks, in Slack's words; empty when they pass."""
    found = Findings()
    if not isinstance(value, list):
        found.add("must be an array", "/blocks")
        return found.messages
    if len(value) > MOST_BLOCKS[surface]:
        found.add(f"no more than {MOST_BLOCKS[surface]} items allowed", "/blocks")
    ids: set[str] = set()
    for index, block in enumerate(value):
        at = f"/blocks/{index}"
        _block(found, found.node(block, at), at, surface=surface)
        _unique_id(found, block, at, ids)
    _shared_limits(found, value)
    return found.messages


def _block(found: Findings, block: Node, at: str, *, surface: str) -> None:
    kind = str(block.get("type"))
    if kind not in ALLOWED[surface]:
        if block:
            found.add(f"unsupported type: {kind}", at)
        return
    found.string(block, "block_id", at, most=255, needed=False)
    check, keys = BLOCKS[kind]
    if keys is not None:
        found.keys(block, {"type", "block_id", *keys}, at)
    check(found, block, at)


def _unique_id(found: Findings, block: Any, at: str, ids: set[str]) -> None:
    block_id = block.get("block_id") if isinstance(block, dict) else None
    if not isinstance(block_id, str):
        return
    if block_id in ids:
        found.add(f'block_id "{block_id}" already exists', f"{at}/block_id")
    ids.add(block_id)


def _shared_limits(found: Findings, blocks: list[Any]) -> None:
    whole = [block for block in blocks if isinstance(block, dict)]
    markdown = sum(len(str(block.get("text", ""))) for block in whole if block.get("type") == "markdown")
    if markdown > MARKDOWN_CHARACTERS:
        found.add(f"markdown must be less than {MARKDOWN_CHARACTERS + 1} characters together", "/blocks")
    tables = sum(_characters(block.get("rows")) for block in whole if block.get("type") == "table")
    if tables > TABLE_CHARACTERS:
        found.add(f"tables must be less than {TABLE_CHARACTERS + 1} characters together", "/blocks")


def _characters(node: Any) -> int:
    """The characters a reader sees in table cells."""
    if isinstance(node, dict):
        own = node.get("text", "")
        return len(own if isinstance(own, str) else "") + _characters(node.get("elements"))
    return sum(_characters(item) for item in node) if isinstance(node, list) else 0


def _section(found: Findings, block: Node, at: str) -> None:
    if "text" not in block and "fields" not in block:
        found.add("missing required field: text or fields", at)
    if "text" in block:
        found.text(block["text"], f"{at}/text", most=3000)
    if "fields" in block:
        for index, field in enumerate(found.items(block, "fields", at, least=1, most=10)):
            found.text(field, f"{at}/fields/{index}", most=2000)
    if "accessory" in block:
        check_element(found, block["accessory"], f"{at}/accessory", allowed=IN_SECTION)


def _header(found: Findings, block: Node, at: str) -> None:
    found.text(block.get("text"), f"{at}/text", most=150, kinds=("plain_text",))


def _context(found: Findings, block: Node, at: str) -> None:
    for index, value in enumerate(found.items(block, "elements", at, least=1, most=10)):
        here = f"{at}/elements/{index}"
        if isinstance(value, dict) and value.get("type") == "image":
            check_image(found, value, here)
        else:
            found.text(value, here, most=3000)


def _actions(found: Findings, block: Node, at: str) -> None:
    ids: set[str] = set()
    for index, value in enumerate(found.items(block, "elements", at, least=1, most=25)):
        here = f"{at}/elements/{index}"
        check_element(found, value, here, allowed=IN_ACTIONS)
        action_id = value.get("action_id") if isinstance(value, dict) else None
        if isinstance(action_id, str) and action_id in ids:
            found.add(f"`action_id` {action_id} already exists for another action", f"{here}/action_id")
        ids.add(str(action_id))


def _input(found: Findings, block: Node, at: str) -> None:
    found.text(block.get("label"), f"{at}/label", most=2000, kinds=("plain_text",))
    if "hint" in block:
        found.text(block["hint"], f"{at}/hint", most=2000, kinds=("plain_text",))
    found.flag(block, "optional", at)
    found.flag(block, "dispatch_action", at)
    check_element(found, block.get("element"), f"{at}/element", allowed=IN_INPUT)


def _image(found: Findings, block: Node, at: str) -> None:
    check_image(found, block, at)
    if "title" in block:
        found.text(block["title"], f"{at}/title", most=2000, kinds=("plain_text",))


def _markdown(found: Findings, block: Node, at: str) -> None:
    found.string(block, "text", at, most=12_000)


def _table(found: Findings, block: Node, at: str) -> None:
    for index, row in enumerate(found.items(block, "rows", at, least=1, most=100)):
        here = f"{at}/rows/{index}"
        cells = found.items({"cells": row}, "cells", here, least=1, most=20)
        for place, cell in enumerate(cells):
            _cell(found, found.node(cell, f"{here}/{place}"), f"{here}/{place}")
    if "column_settings" in block:
        for index, value in enumerate(found.items(block, "column_settings", at, least=0, most=20)):
            here = f"{at}/column_settings/{index}"
            setting = value if value is None else found.node(value, here)
            found.keys(setting or {}, {"align", "is_wrapped"}, here)
            found.choice(setting or {}, "align", {"left", "center", "right"}, here)
            found.flag(setting or {}, "is_wrapped", here)


def _cell(found: Findings, cell: Node, at: str) -> None:
    kind = cell.get("type")
    if kind == "raw_text":
        found.keys(cell, {"type", "text"}, at)
        found.string(cell, "text", at, most=None)
    elif kind == "rich_text":
        found.keys(cell, {"type", "elements"}, at)
        check_rich_text(found, cell, at)
    elif cell:
        found.add("must be a valid enum value: raw_text, rich_text", f"{at}/type")


def _anything(found: Findings, block: Node, at: str) -> None:
    """Blocks this product has no rules for: divider, and what nobody documents."""


Check = tuple[Callable[[Findings, Node, str], None], set[str] | None]
BLOCKS: dict[str, Check] = {
    "actions": (_actions, {"elements"}),
    "context": (_context, {"elements"}),
    "divider": (_anything, set()),
    "header": (_header, {"text"}),
    "image": (_image, {"image_url", "slack_file", "alt_text", "title"}),
    "input": (_input, {"label", "element", "hint", "optional", "dispatch_action"}),
    "markdown": (_markdown, {"text"}),
    "rich_text": (check_rich_text, {"elements"}),
    "section": (_section, {"text", "fields", "accessory", "expand"}),
    "table": (_table, {"rows", "column_settings"}),
    "video": (_anything, None),
    "plan": (_anything, None),
    "task_card": (_anything, None),
    "context_actions": (_anything, None),
}
