"""What Slack takes and what it refuses, in its own error codes: texts, blocks, metadata, views. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from bot.practice.slack_blocks import MESSAGE, MODAL, check_blocks
from bot.practice.slack_findings import Findings
from bot.practice.slack_state import Block, Refused

POST_CHARACTERS = 40_000
UPDATE_BYTES = 4_000
BLOCKS_BYTES = 13_000
METADATA_BYTES = 4_000
TS = re.compile(r"\d{10}\.\d{6}\Z")


def check_ts(ts: str, code: str) -> None:
    """Raise Refused(code) where `ts` has not the form of a message's ts."""
    if not TS.match(ts):
        raise Refused(code)


def read_blocks(value: Any, *, surface: str = MESSAGE) -> tuple[Block, ...]:
    """Checked blocks; None is none. Raises invalid_blocks_format, invalid_blocks, msg_blocks_too_long."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(block, dict) for block in value):
        raise Refused("invalid_blocks_format")
    if messages := check_blocks(value, surface=surface):
        raise Refused("invalid_blocks", *(f"[ERROR] {line}" for line in messages), errors=messages)
    size = weigh(value)
    if surface == MESSAGE and size > BLOCKS_BYTES:
        raise Refused("msg_blocks_too_long", f"[ERROR] {size} bytes, {BLOCKS_BYTES} allowed")
    return tuple(value)


def weigh(value: Any) -> int:
    """Bytes of compact JSON."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def check_content(text: str, blocks: tuple[Block, ...], attachments: Any = None) -> None:
    if not text and not blocks and not attachments:
        raise Refused("no_text")


def check_update_text(text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > UPDATE_BYTES:
        raise Refused("msg_too_long", f"[ERROR] {size} bytes, {UPDATE_BYTES} allowed")


def check_same_types(before: tuple[Block, ...], after: tuple[Block, ...]) -> None:
    """An edit may add and remove blocks at the end; it may not turn a block into one of another type."""
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if old["type"] != new["type"]:
            raise Refused(
                "block_mismatch", f"[ERROR] {old['type']} became {new['type']} [json-pointer:/blocks/{index}]"
            )


def read_metadata(value: Any) -> dict[str, Any] | None:
    """`{"event_type": …, "event_payload": {…}}` or None."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Refused("invalid_metadata_format")
    event_type, payload = value.get("event_type"), value.get("event_payload")
    named = isinstance(event_type, str) and 0 < len(event_type) <= 255  # noqa: PLR2004 - Slack's own bound
    if not named or not isinstance(payload, dict) or set(value) - {"event_type", "event_payload", "entities"}:
        raise Refused("invalid_metadata_schema")
    if weigh(payload) > METADATA_BYTES:
        raise Refused("metadata_too_large", f"[ERROR] {weigh(payload)} bytes, {METADATA_BYTES} allowed")
    return value


MODAL_KEYS = {
    *("type", "title", "blocks", "close", "submit", "private_metadata", "callback_id"),
    *("clear_on_close", "notify_on_close", "external_id", "submit_disabled"),
}
HOME_KEYS = {"type", "blocks", "private_metadata", "callback_id", "external_id"}


def check_view(view: Any, *, kind: str) -> None:
    """A modal or Home tab as `views.*` and `response_action` take it. Raises invalid_arguments."""
    found = Findings()
    node = found.node(view, "/view")
    if node and node.get("type") != kind:
        found.add(f"must be a valid enum value: {kind}", "/view/type")
    found.keys(node, MODAL_KEYS if kind == MODAL else HOME_KEYS, "/view")
    if kind == MODAL:
        _check_modal_words(found, node)
    for key, most in (("private_metadata", 3000), ("callback_id", 255), ("external_id", 255)):
        found.string(node, key, "/view", most=most, least=0, needed=False)
    messages = found.messages + [
        line.replace("json-pointer:", "json-pointer:/view")
        for line in check_blocks(node.get("blocks"), surface=kind)
    ]
    if messages:
        raise Refused("invalid_arguments", *(f"[ERROR] {line}" for line in messages))


def _check_modal_words(found: Findings, node: dict[str, Any]) -> None:
    plain = ("plain_text",)
    found.text(node.get("title"), "/view/title", most=24, kinds=plain)
    for key in ("submit", "close"):
        if key in node:
            found.text(node[key], f"/view/{key}", most=24, kinds=plain)
    asks = any(isinstance(block, dict) and block.get("type") == "input" for block in node.get("blocks") or ())
    if asks and "submit" not in node:
        found.add("missing required field: submit", "/view")
