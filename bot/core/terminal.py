"""A message as a person would see it in a terminal: for the demo, and for reading a thread in a test."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bot.core.blocks import Block, Element, Message

_NARROWEST = 20
_TOKEN = re.compile(r"<([^<>]*)>")
_BOLD = re.compile(r"(?<![\w*])\*([^*\n]+)\*(?![\w*])")


def render_terminal(message: Message, *, width: int = 100, names: Mapping[str, str] | None = None) -> str:
    """Plain lines of at most `width` columns where words allow; log text is never wrapped.

    `names` maps ids of people, groups and channels to what is shown for them.
    """
    known = names or {}
    wide = max(width, _NARROWEST)
    if not message.blocks:
        return _wrap(_read(message.text, known), wide)
    return "\n".join(line for block in message.blocks for line in _block(block, wide, known))


def _block(block: Block, width: int, names: Mapping[str, str]) -> Iterator[str]:
    match block["type"]:
        case "section" | "header":
            yield _wrap(_read(block["text"]["text"], names), width)
        case "context":
            yield _wrap("  ".join(_read(element["text"], names) for element in block["elements"]), width)
        case "rich_text":
            yield from _rich_text(block)
        case "table":
            yield from _table([[_cell(cell, names) for cell in row] for row in block["rows"]])
        case "actions":
            yield _buttons(block["elements"])
        case other:
            yield f"({other})"


def _wrap(text: str, width: int) -> str:
    lines = (
        textwrap.wrap(line, width, break_on_hyphens=False, break_long_words=False)
        for line in text.split("\n")
    )
    return "\n".join("\n".join(wrapped) for wrapped in lines)


def _read(markup: str, names: Mapping[str, str]) -> str:
    """Mrkdwn as plain text."""
    told = _BOLD.sub(r"\1", _TOKEN.sub(lambda token: _unwrap(token.group(1), names), markup))
    return told.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _unwrap(token: str, names: Mapping[str, str]) -> str:
    """What stands between `<` and `>`: a person, a group, a channel, a time, or a link."""
    target, _, label = token.partition("|")
    if target.startswith("!date^"):
        return label
    if target.startswith("!subteam^"):
        name = target.removeprefix("!subteam^")
        return f"@{label.lstrip('@') or names.get(name, name)}"
    if target[:1] in {"@", "#"}:
        return f"{target[0]}{label or names.get(target[1:], target[1:])}"
    return f"{label} ({target})" if label else target


def _rich_text(block: Block) -> Iterator[str]:
    for element in block["elements"]:
        text = "".join(part.get("text", "") for part in element["elements"])
        yield from (f"    {line}" for line in text.split("\n"))


def _cell(cell: Element, names: Mapping[str, str]) -> str:
    """Plain text, or a rich cell's runs: a link by its label, a person by name."""
    if "text" in cell:
        return str(cell["text"])
    runs = [run for part in cell["elements"] for run in part["elements"]]
    return "".join(
        f"@{names.get(run['user_id'], run['user_id'])}" if run["type"] == "user" else str(run.get("text", ""))
        for run in runs
    )


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells.extend(cell.rjust(wide) for cell, wide in zip(row[1:], widths[1:], strict=True))
        yield "    " + "  ".join(cells).rstrip()


def _buttons(elements: Sequence[Element]) -> str:
    return " ".join(f"[{element['text']['text']}]" for element in elements)
