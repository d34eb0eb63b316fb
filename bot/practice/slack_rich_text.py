"""The rules of rich text: sections, lists, preformatted text, quotes, and the runs inside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.practice.slack_findings import Findings, Node

STYLES = {"bold", "italic", "strike", "code", "underline", "highlight", "client_highlight", "unlink"}
# A run's own keys, the needed ones first; docs.slack.dev/reference/block-kit/blocks/rich-text-block.
RUNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "text": (("text",), ("style",)),
    "link": (("url",), ("text", "unsafe", "style")),
    "emoji": (("name",), ("unicode", "skin_tone", "url", "style")),
    "user": (("user_id",), ("style",)),
    "usergroup": (("usergroup_id",), ("style",)),
    "channel": (("channel_id",), ("style",)),
    "broadcast": (("range",), ("style",)),
    "color": (("value",), ("style",)),
    "date": (("timestamp", "format"), ("url", "fallback", "style")),
}
PREFORMATTED_RUNS = {"text", "link"}


def check_rich_text(found: Findings, block: Node, at: str) -> None:
    """`elements` of a rich_text block or table cell."""
    for index, value in enumerate(found.items(block, "elements", at, least=1, most=None)):
        here = f"{at}/elements/{index}"
        node = found.node(value, here)
        check = PARTS.get(str(node.get("type")))
        if check is None:
            found.add("must be a valid enum value: " + ", ".join(sorted(PARTS)), f"{here}/type")
        else:
            check(found, node, here)


def _section(found: Findings, node: Node, at: str) -> None:
    found.keys(node, {"type", "elements"}, at)
    _runs(found, node, at)


def _quote(found: Findings, node: Node, at: str) -> None:
    found.keys(node, {"type", "elements", "border"}, at)
    found.choice(node, "border", {0, 1}, at)
    _runs(found, node, at)


def _preformatted(found: Findings, node: Node, at: str) -> None:
    found.keys(node, {"type", "elements", "border", "language"}, at)
    found.choice(node, "border", {0, 1}, at)
    found.string(node, "language", at, most=30, needed=False)
    _runs(found, node, at, kinds=PREFORMATTED_RUNS)


def _list(found: Findings, node: Node, at: str) -> None:
    found.keys(node, {"type", "style", "elements", "indent", "offset", "border"}, at)
    found.choice(node, "style", {"bullet", "ordered"}, at, needed=True)
    found.choice(node, "indent", set(range(9)), at)
    found.choice(node, "border", {0, 1}, at)
    for index, value in enumerate(found.items(node, "elements", at, least=1, most=None)):
        here = f"{at}/elements/{index}"
        item = found.node(value, here)
        if item.get("type") != "rich_text_section":
            found.add("must be a valid enum value: rich_text_section", f"{here}/type")
        else:
            _section(found, item, here)


PARTS: dict[str, Callable[[Findings, Node, str], None]] = {
    "rich_text_section": _section,
    "rich_text_quote": _quote,
    "rich_text_preformatted": _preformatted,
    "rich_text_list": _list,
}


def _runs(found: Findings, node: Node, at: str, *, kinds: set[str] | None = None) -> None:
    for index, value in enumerate(found.items(node, "elements", at, least=0, most=None)):
        here = f"{at}/elements/{index}"
        run = found.node(value, here)
        kind = run.get("type")
        allowed = kinds or set(RUNS)
        if kind not in allowed:
            found.add(f"must be a valid enum value: {', '.join(sorted(allowed))}", f"{here}/type")
            continue
        _run(found, run, here)


def _run(found: Findings, run: Node, at: str) -> None:
    needed, optional = RUNS[run["type"]]
    found.keys(run, {"type", *needed, *optional}, at)
    for key in needed:
        if key == "timestamp":
            _timestamp(found, run, at)
        else:
            found.string(run, key, at, most=None)
    if run["type"] == "link":
        found.string(run, "text", at, most=None, needed=False)
        found.url(run, "url", at)
    if run["type"] == "broadcast":
        found.choice(run, "range", {"here", "channel", "everyone"}, at)
    _style(found, run, at)


def _timestamp(found: Findings, run: Node, at: str) -> None:
    value: Any = run.get("timestamp")
    if not isinstance(value, int) or isinstance(value, bool):
        found.add("must be an integer", f"{at}/timestamp")


def _style(found: Findings, run: Node, at: str) -> None:
    if "style" not in run:
        return
    style = found.node(run["style"], f"{at}/style")
    found.keys(style, STYLES, f"{at}/style")
    for key in style:
        found.flag(style, key, f"{at}/style")
