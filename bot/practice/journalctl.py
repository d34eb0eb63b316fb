"""`journalctl` as systemd 252 behaves: options, selection, following, and its two faults with cursors.

The faults are kept because a reader must live with them: `-f` shows ten old entries and the rest only after
something new was logged, unless `-n all`, `--no-tail` or `--since` is given; and `--after-cursor` skips one
*matching* entry, so it loses one when the cursor's own entry does not match.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.practice.journal import Entry, Journal, parse_cursor, render_json, render_short
from bot.practice.systemctl import Answer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

_VALUE_OPTIONS = {
    "-u": "unit",
    "--unit": "unit",
    "--user-unit": "user_unit",
    "-o": "output",
    "--output": "output",
    "--output-fields": "fields",
    "-c": "cursor",
    "--cursor": "cursor",
    "--after-cursor": "after_cursor",
    "-S": "since",
    "--since": "since",
    "-g": "grep",
    "--grep": "grep",
}
_FLAG_OPTIONS = {
    "-f": "follow",
    "--follow": "follow",
    "-a": "all",
    "--all": "all",
    "-q": "quiet",
    "--quiet": "quiet",
    "--no-tail": "no_tail",
    "--show-cursor": "show_cursor",
    "--no-pager": "no_pager",
    "--system": "system",
    "--user": "user",
    "-b": "boot",
    "--boot": "boot",
    "-k": "kernel",
    "--dmesg": "kernel",
    "-l": "full",
    "--full": "full",
    "--utc": "utc",
}
_FOLLOW_LINES = 10
_AGO = re.compile(r"-?(\d+)\s*(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)(?: ago)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
UNREADABLE = Answer(
    1,
    error=(
        "Hint: You are currently not seeing messages from other users and the system.\n"
        "      Users in groups 'adm', 'systemd-journal' can see all messages.\n"
        "      Pass -q to turn off this notice.\n"
        "No journal files were opened due to insufficient permissions.\n"
    ),
)


class Refused(Exception):
    """The arguments make no sense to journalctl; it exits with 1 and this text."""


@dataclass(slots=True)
class Query:
    """What was asked for. `lines` None is "all"; unset is not the same and stands in `lines_set`."""

    flags: set[str] = field(default_factory=set)
    values: dict[str, list[str]] = field(default_factory=dict)
    lines: int | None = None
    lines_set: bool = False
    groups: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])

    def value(self, name: str) -> str | None:
        given = self.values.get(name)
        return given[-1] if given else None

    @property
    def limit(self) -> int | None:
        """How many old entries; following means ten unless something else was said."""
        if self.lines_set:
            return self.lines
        following = "follow" in self.flags and "no_tail" not in self.flags
        return _FOLLOW_LINES if following and self.value("since") is None else None


def parse_query(words: Sequence[str]) -> Query:
    """Arguments after `journalctl`."""
    query = Query()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, attached = word.partition("=")
        if word == "+":
            query.groups.append([])
        elif not word.startswith("-"):
            _add_match(query, word)
        elif name in {"-n", "--lines"} or re.fullmatch(r"-n\w+", word):
            _set_lines(query, attached if equals else word[2:] if name != "--lines" else "", rest)
        elif name in _FLAG_OPTIONS:
            query.flags.add(_FLAG_OPTIONS[name])
        elif name in _VALUE_OPTIONS:
            value = attached if equals else _next(rest, name)
            query.values.setdefault(_VALUE_OPTIONS[name], []).append(value)
        else:
            raise Refused(f"journalctl: unrecognized option '{word}'")
    _judge(query)
    return query


def _next(rest: list[str], name: str) -> str:
    if not rest:
        raise Refused(f"journalctl: option '{name}' requires an argument")
    return rest.pop(0)


def _add_match(query: Query, word: str) -> None:
    name, equals, value = word.partition("=")
    if not equals or not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
        raise Refused(f"Failed to add match '{word}': Invalid argument")
    query.groups[-1].append((name, value))


def _set_lines(query: Query, attached: str, rest: list[str]) -> None:
    """The number may be attached or be the next word, when that word is one."""
    text = attached
    if not text and rest and (rest[0] == "all" or rest[0].isdecimal()):
        text = rest.pop(0)
    query.lines_set = True
    if text and text != "all" and not text.isdecimal():
        raise Refused(f"Failed to parse lines '{text}'")
    query.lines = None if text == "all" else int(text or _FOLLOW_LINES)


def _judge(query: Query) -> None:
    if sum(query.value(name) is not None for name in ("since", "cursor", "after_cursor")) > 1:
        raise Refused("Please specify only one of --since=, --cursor=, and --after-cursor=.")
    output = query.value("output")
    if output not in {None, "json", "short", "cat"}:
        raise Refused(f"Unknown output format '{output}'.")


class Reader:
    """One run of journalctl over the journal: old entries, then new ones for as long as it follows."""

    def __init__(self, query: Query, journal: Journal) -> None:
        self._query = query
        self._journal = journal
        self._matches = _filter(query, journal)
        self._at = 0  # index of the next entry to look at
        self._last: Entry | None = None
        self._seen = 0  # how many entries there were when it last looked

    async def read(self) -> AsyncGenerator[str, None]:
        """Chunks of output. Refused when the cursor cannot be read."""
        limit = self._query.limit
        shown, stop_at = 0, self._seek(limit)
        following = "follow" in self._query.flags
        while True:
            lines: list[str] = []
            while stop_at is None or shown < stop_at:
                entry = self._next()
                if entry is None:
                    break
                shown += 1
                lines.append(self._render(entry) + "\n")
            if lines:
                yield "".join(lines)
            if not following:
                break
            await self._journal.grown(max(self._seen, self._at))
            self._seen = len(self._journal.entries)
            stop_at = None  # the first change lets everything through
        for line in self._closing(shown):
            yield line

    def _closing(self, shown: int) -> list[str]:
        lines = ["-- No entries --\n"] if not shown and "quiet" not in self._query.flags else []
        if "show_cursor" in self._query.flags and self._last is not None:
            lines.append(f"-- cursor: {self._last.cursor}\n")
        return lines

    def _next(self) -> Entry | None:
        entries = self._journal.entries
        while self._at < len(entries):
            entry = entries[self._at]
            self._at += 1
            if self._matches(entry):
                self._last = entry
                return entry
        return None

    def _seek(self, limit: int | None) -> int | None:
        """Go to the first entry to show; how many old ones to show."""
        self._seen = len(self._journal.entries)
        after, cursor = self._query.value("after_cursor"), self._query.value("cursor")
        if after is not None or cursor is not None:
            self._seek_cursor(after or cursor or "", after=after is not None)
        elif (since := self._query.value("since")) is not None:
            self._seek_time(parse_time(since, self._journal.clock.now()))
        elif limit is not None:
            self._seek_tail(limit)
        return limit

    def _seek_cursor(self, cursor: str, *, after: bool) -> None:
        try:
            self._at = self._journal.seek(parse_cursor(cursor))
        except ValueError as error:
            raise Refused("Failed to seek to cursor: Invalid argument") from error
        if after:
            # 252 skips one matching entry whether or not it is the one the cursor names.
            self._next()

    def _seek_time(self, since: datetime) -> None:
        start = since.timestamp() * 1e6
        entries = self._journal.entries
        self._at = next((i for i, e in enumerate(entries) if e.realtime >= start), len(entries))

    def _seek_tail(self, limit: int) -> None:
        entries = self._journal.entries
        matching = [index for index, entry in enumerate(entries) if self._matches(entry)]
        if matching:
            self._last = entries[matching[-1]]
        first = matching[-limit:] if limit else []
        self._at = first[0] if first else len(entries)

    def _render(self, entry: Entry) -> str:
        everything = "all" in self._query.flags
        match self._query.value("output"):
            case "json":
                named = self._query.value("fields")
                fields = None if named is None else frozenset(named.split(","))
                return render_json(entry, all_fields=everything, output_fields=fields)
            case "cat":
                return entry.text("MESSAGE")
            case _:
                return render_short(entry, all_fields=everything)


def _filter(query: Query, journal: Journal) -> Callable[[Entry], bool]:
    current_boot = {"boot", "follow", "kernel"} & query.flags
    boot = journal.boot if current_boot else None
    units = query.values.get("unit", []) if "user" not in query.flags else []
    user_units = query.values.get("user_unit", []) + (
        query.values.get("unit", []) if "user" in query.flags else []
    )
    groups = [group for group in query.groups if group]
    pattern = _pattern(query.value("grep"))

    def matches(entry: Entry) -> bool:
        return (
            (boot is None or entry.boot == boot)
            and ("kernel" not in query.flags or entry.text("_TRANSPORT") == "kernel")
            and (not units + user_units or _of_units(entry, units, user_units))
            and (not groups or any(_has_all(entry, group) for group in groups))
            and (pattern is None or pattern.search(entry.text("MESSAGE")) is not None)
        )

    return matches


def _pattern(text: str | None) -> re.Pattern[str] | None:
    """All in lower case, it matches upper case too."""
    if text is None:
        return None
    try:
        return re.compile(text, re.IGNORECASE if text == text.lower() else 0)
    except re.error as error:
        raise Refused(f"Failed to compile pattern '{text}': {error}") from error


def _of_units(entry: Entry, units: list[str], user_units: list[str]) -> bool:
    by_manager = entry.text("_PID") == "1" and entry.text("UNIT") in units
    return (
        by_manager
        or entry.text("_SYSTEMD_UNIT") in units
        or entry.text("OBJECT_SYSTEMD_UNIT") in units
        or entry.text("_SYSTEMD_USER_UNIT") in user_units
        or entry.text("USER_UNIT") in user_units
    )


def _has_all(entry: Entry, group: list[tuple[str, str]]) -> bool:
    """All fields named must match; several values of one field are alternatives."""
    names = {name for name, _ in group}
    allowed = {name: {value for key, value in group if key == name} for name in names}
    record = {**entry.fields, "_BOOT_ID": entry.boot.encode()}
    return all(record.get(name, b"").decode(errors="replace") in allowed[name] for name in names)


def parse_time(text: str, now: datetime) -> datetime:
    """`@UNIX`, `-10m`, `10 min ago`, `now`, `YYYY-MM-DD HH:MM:SS [UTC]`."""
    if text == "now":
        return now
    if text.startswith("@") and re.fullmatch(r"@\d+(\.\d+)?", text):
        return datetime.fromtimestamp(float(text[1:]), UTC)
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2][0]])
    try:
        return datetime.fromisoformat(text.removesuffix(" UTC")).replace(tzinfo=UTC)
    except ValueError as error:
        raise Refused(f"Failed to parse timestamp: {text}") from error
