"""Slack's building blocks, made so that no text breaks out of its place and no limit is passed."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bot.core.events import ChannelId, OperationId, ServiceName, UserId

Block: TypeAlias = dict[str, Any]
Element: TypeAlias = dict[str, Any]
Cell: TypeAlias = str | Element  # of a table: plain text, or what `link_cell` and `person_cell` make

MOST_BYTES = 12_000  # of a message's blocks as JSON; Slack refuses from about 13 kB on
MOST_BLOCKS = 50
MOST_SECTION = 3_000  # characters
MOST_FALLBACK = 1_200  # bytes of the text beside the blocks; chat.update takes 4,000
_MOST_VALUE = 1_500  # of a button, below Slack's 2,000
_MOST_BUTTON = 75
_MOST_TABLE_ROWS = 26
_MOST_CELL = 60

# ANSI: CSI and OSC sequences, then whatever two-character escape is left.
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]?")
# C0 without tab and newline, DEL and C1, what turns the direction of text round, and half surrogate pairs.
_UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_ADDRESS = re.compile(r"https?://[^\s<>|]{1,500}")
_SLACK_ID = re.compile(r"[A-Z][A-Z0-9]{1,20}")
_HALF_MARKUP = re.compile(r"(?:&[a-z]{0,3}|<[^<>]*)$")


@dataclass(frozen=True, slots=True)
class Message:
    """What goes to Slack: blocks, and the `text` that notifications and plain clients show instead."""

    text: str
    blocks: tuple[Block, ...] = ()


def clean(text: str) -> str:
    """`text` without ANSI, control characters (but tab and newline) and direction marks."""
    return _UNFIT.sub("", _ANSI.sub("", text.replace("\r\n", "\n")))


def weigh(value: object) -> int:
    """Bytes of `value` as the JSON that is sent, where all beyond ASCII is escaped."""
    return len(json.dumps(value))


def _weigh_character(character: str) -> int:
    return len(json.dumps(character)) - 2


def fit(text: str, most: int, *, escaped: bool = True) -> str:
    """`text` cleaned, escaped as mrkdwn unless told not to, and cut with "…" at `most` bytes of JSON.

    A byte of JSON is never less than a character, so the same bound holds for characters. No entity is cut.
    """
    told = clean(text[: most * 4])
    pieces: list[str] = []
    room = most - _weigh_character("…")
    for character in told:
        piece = _ESCAPES.get(character, character) if escaped else character
        room -= len(piece) if piece is not character else _weigh_character(character)
        if room < 0:
            return "".join(pieces) + "…"
        pieces.append(piece)
    return "".join(pieces)


def say(text: str, most: int = 300) -> str:
    """Somebody's words on one line, escaped: names, reasons, sentences."""
    return fit(" ".join(clean(text).split()), most)


def say_name(name: str) -> str:
    """A name in bold; stars of its own would end the bold."""
    return f"*{say(name.replace('*', ''), 120) or '?'}*"


def say_code(name: str) -> str:
    """A name as code; backticks of its own would end it."""
    return f"`{say(name.replace('`', ''), 160) or '?'}`"


def mention(user: UserId | str) -> str:
    """A person; what is no id of Slack's is said, not mentioned."""
    return f"<@{user}>" if _SLACK_ID.fullmatch(user) else say(user, 60)


def mention_group(group: str) -> str:
    return f"<!subteam^{group}>" if _SLACK_ID.fullmatch(group) else say(group, 60)


def mention_channel(channel: ChannelId | str) -> str:
    return f"<#{channel}>" if _SLACK_ID.fullmatch(channel) else say(channel, 60)


def link(address: str, label: str) -> str:
    """A link; an address that is none leaves the label alone."""
    sound = _ADDRESS.fullmatch(address)
    return f"<{address}|{say(label, 80)}>" if sound else say(label, 80)


def cut(markup: str, most: int = MOST_SECTION) -> str:
    """The net under composed mrkdwn: at most `most` bytes of JSON, ending before a half entity or link."""
    if weigh(markup) - 2 <= most:
        return markup
    room, end = most - _weigh_character("…"), 0
    for end, character in enumerate(markup):  # noqa: B007 - the place where room ends is the result
        room -= _weigh_character(character)
        if room < 0:
            break
    return _HALF_MARKUP.sub("", markup[:end]) + "…"


def join_within(parts: Iterable[str], most: int, *, separator: str) -> str:
    """`parts` joined as far as they fit into `most` bytes of JSON; what is left out is counted."""
    listed = list(parts)
    room = most - 24  # of "… and 1234 more"
    kept: list[str] = []
    for part in listed:
        room -= weigh(part) - 2 + weigh(separator) - 2
        if room < 0:
            return separator.join([*kept, f"… and {len(listed) - len(kept)} more"])
        kept.append(part)
    return separator.join(kept)


def section(markup: str, most: int = MOST_SECTION) -> Block:
    """`verbatim`: nothing in it becomes a mention or a link that is not written as one."""
    return {"type": "section", "text": _mrkdwn(markup, most)}


def context(*markups: str, most: int = 1_500) -> Block:
    return {"type": "context", "elements": [_mrkdwn(markup, most) for markup in markups]}


def _mrkdwn(markup: str, most: int) -> Element:
    return {"type": "mrkdwn", "text": cut(markup, most) if markup.strip() else "…", "verbatim": True}


def _plain(text: str, most: int) -> Element:
    return {"type": "plain_text", "text": fit(text, most, escaped=False).strip() or "?", "emoji": False}


def preformatted(text: str, most: int) -> Block:
    """Log text: somebody else's markup, shown as it stands and never read as mrkdwn."""
    shown = fit(text, most, escaped=False).strip("\n") or " "
    inner = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": shown}]}
    return {"type": "rich_text", "elements": [inner]}


def table(rows: Sequence[Sequence[Cell]]) -> Block:
    """Rows of equal length, the first the header; numbers stand right of the first column's names."""
    shown = rows if len(rows) <= _MOST_TABLE_ROWS else [*rows[: _MOST_TABLE_ROWS - 1], ["…"] * len(rows[0])]
    right = [{"align": "right"} for _ in range(len(rows[0]) - 1)]
    return {
        "type": "table",
        "column_settings": [{"align": "left"}, *right],
        "rows": [[_cell(cell) for cell in row] for row in shown],
    }


def _cell(cell: Cell) -> Element:
    return {"type": "raw_text", "text": _short(cell)} if isinstance(cell, str) else cell


def _short(text: str) -> str:
    return fit(text, _MOST_CELL, escaped=False).strip() or "-"


def link_cell(address: str | None, label: str) -> Cell:
    """A table cell that leads somewhere; plain text where there is no sound address."""
    if address is None or not _ADDRESS.fullmatch(address):
        return label
    return _rich_cell({"type": "link", "url": address, "text": _short(label)})


def person_cell(user: UserId | str) -> Cell:
    """A person in a table cell; what is no id of Slack's is said, not mentioned."""
    return _rich_cell({"type": "user", "user_id": str(user)}) if _SLACK_ID.fullmatch(user) else str(user)


def _rich_cell(run: Element) -> Element:
    return {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [run]}]}


def actions(*elements: Element) -> Block:
    return {"type": "actions", "elements": list(elements)}


def button(
    label: str, verb: str, value: str, *, confirm: Element | None = None, style: str | None = None
) -> Element:
    """One button: `verb` names what the handlers do, `value` is from `pack`."""
    made: Element = {
        "type": "button",
        "action_id": f"kimi:{verb}",
        "text": _plain(label, _MOST_BUTTON),
        "value": value,
    }
    if confirm is not None:
        made["confirm"] = confirm
    if style is not None:
        made["style"] = style
    return made


def confirm(title: str, text: str, yes: str) -> Element:
    """The dialogue Slack shows before a button acts."""
    return {
        "title": _plain(title, 100),
        "text": _plain(text, 300),
        "confirm": _plain(yes, 30),
        "deny": _plain("Leave it", 30),
    }


def pack(**fields: str | int | None) -> str:
    """A button's value: compact JSON of the given fields without the empty ones.

    Keys in use: o operation, s service, h host, v verb, r reason, m minutes.
    """
    kept = {key: value for key, value in fields.items() if value not in {None, ""}}
    while weigh(made := json.dumps(kept, separators=(",", ":"))) > _MOST_VALUE and kept:
        kept.pop(max(kept, key=lambda key: weigh(kept[key])))
    return made


def pack_subject(operation: OperationId | str | None, service: ServiceName | str) -> str:
    return pack(o=operation, s=service)


def make_message(text: str, *blocks: Block) -> Message:
    """Blocks with ids of their own: unique in the message, and new whenever anything in it changes."""
    short = cut(text, MOST_FALLBACK) if text.strip() else "…"
    revision = hashlib.sha256(json.dumps([short, blocks]).encode()).hexdigest()[:12]
    return Message(short, tuple({**block, "block_id": f"{revision}-{n}"} for n, block in enumerate(blocks)))
