"""What differs between the setup of this start and that of the last healthy one.

Flags are compared as flags: their order does not matter, `-` and `_` in a name are the same, `--a=b` is
`--a b`; a value is compared as it stands. What every start has anew (ports the engine chooses, seeds, process
ids) is no change. What one of the two does not know is not compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from bot.core.events import Member
from bot.core.setup import Setup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LONGEST_TOLD = 80  # characters of one value
_FLAG = re.compile(r"--[A-Za-z0-9].*|-[A-Za-z].*")
# Of the arguments as the engine prints them; what an operator writes into the unit counts all the same.
_ANEW = re.compile(r"(?:.*_)?(?:ports?|pids?|seed|uds|ipc|ipc_name|instance_id|uuid|timestamp)")
_ADDRESS = re.compile(r"(?:.*_)?(?:addr|address|endpoint)")
_PORT = re.compile(r":\d+$")


class Kind(StrEnum):
    COMMAND = "command"  # the program and what stands before its flags
    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    VERSION = "version"
    ARGUMENT = "argument"  # as the engine prints them: what a flag did not tell already


@dataclass(frozen=True, slots=True)
class Change:
    """`before` or `after` None: it was not there. `members`: where, when not everywhere."""

    kind: Kind
    name: str
    before: str | None
    after: str | None
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class LastHealthy:
    """What the last healthy start ran with, and when it was proven."""

    at: datetime
    setups: dict[Member, Setup] = field(default_factory=dict)


def compare_all(before: Mapping[Member, Setup], after: Mapping[Member, Setup]) -> tuple[Change, ...]:
    """Over all members that both know; what changed everywhere is told once."""
    common = [member for member in after if member in before]
    where: dict[Change, list[Member]] = {}
    for member in common:
        for change in compare(before[member], after[member]):
            where.setdefault(change, []).append(member)
    return tuple(
        change
        if len(members) == len(common)
        else Change(change.kind, change.name, change.before, change.after, tuple(members))
        for change, members in where.items()
    )


def compare(before: Setup, after: Setup) -> tuple[Change, ...]:
    flags = tuple(_compare_commands(before.command, after.command))
    told = {_plain(change.name): change for change in flags if change.kind is Kind.FLAG}
    arguments = (each for each in _compare_arguments(before, after) if not _is_told(each, told))
    return (
        *flags,
        *_compare_named(Kind.ENVIRONMENT, before.environment, after.environment),
        *_compare_files(before.files, after.files),
        *_compare_versions(before.versions, after.versions),
        *arguments,
    )


def _compare_commands(before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> Iterator[Change]:
    if before is None or after is None:
        return
    (program, old), (other, new) = read_flags(before), read_flags(after)
    if program != other:
        yield Change(Kind.COMMAND, "command", program, other)
    for plain in _in_order(old, new):
        was, now = old.get(plain), new.get(plain)
        if (was and was.value) != (now and now.value) or (was is None) != (now is None):
            name = now.name if now is not None else was.name if was is not None else plain
            yield Change(Kind.FLAG, name, was.value if was else None, now.value if now else None)


@dataclass(frozen=True, slots=True)
class Flag:
    name: str  # as it was written
    value: str  # all its words; "" for a switch


def read_flags(command: tuple[str, ...]) -> tuple[str, dict[str, Flag]]:
    """What stands before the first flag, and the flags by their plain names; repeated ones add up."""
    before: list[str] = []
    flags: dict[str, Flag] = {}
    last: str | None = None
    for word in command:
        if _FLAG.fullmatch(word):
            name, _, value = word.partition("=")
            last = _plain(name)
            _add(flags, last, Flag(name, value))
        elif last is None:
            before.append(word)
        else:
            _add(flags, last, Flag(flags[last].name, word))
    return " ".join(before), flags


def _add(flags: dict[str, Flag], plain: str, flag: Flag) -> None:
    known = flags.get(plain)
    value = " ".join(filter(None, (known.value if known else "", flag.value)))
    flags[plain] = Flag(known.name if known else flag.name, value)


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _in_order(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """What is there now in its order, then what is gone."""
    return list(dict.fromkeys([*after, *before]))


def _compare_named(
    kind: Kind, before: Mapping[str, str] | None, after: Mapping[str, str] | None
) -> Iterator[Change]:
    if before is None or after is None:
        return
    for name in _in_order(before, after):
        was, now = before.get(name), after.get(name)
        if was != now:
            yield Change(kind, name, was, now)


def _compare_files(before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> Iterator[Change]:
    if before is None or after is None:
        return
    yield from (Change(Kind.FILE, path, None, path) for path in after if path not in before)
    yield from (Change(Kind.FILE, path, path, None) for path in before if path not in after)


def _compare_versions(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name, now in after.items():
        if name in before and before[name] != now:
            yield Change(Kind.VERSION, name, before[name], now)


def _compare_arguments(before: Setup, after: Setup) -> Iterator[Change]:
    """A whole list gains and loses names with the engine's version; that is nobody's doing here."""
    if before.arguments is None or after.arguments is None or before.whole != after.whole:
        return
    for change in _compare_named(Kind.ARGUMENT, before.arguments, after.arguments):
        name = _plain(change.name)
        only_here = change.before is None or change.after is None
        if _ANEW.fullmatch(name) or (after.whole and only_here) or _is_same_address(name, change):
            continue
        yield change


def _is_same_address(name: str, change: Change) -> bool:
    if not _ADDRESS.fullmatch(name) or change.before is None or change.after is None:
        return False
    return _PORT.sub("", change.before) == _PORT.sub("", change.after)


def _is_told(argument: Change, told: Mapping[str, Change]) -> bool:
    """A flag told it already: `--tp 8` is what the engine calls `tp_size`."""
    name = _plain(argument.name)
    if name in told:
        return True
    return any(name.startswith(f"{flag}_") and argument.after == told[flag].after for flag in told)


def spell_change(change: Change) -> str:
    """`+ --tool-call-parser kimi_k2`, `--mem-fraction-static 0.85 → 0.82`, `- NCCL_DEBUG=INFO`."""
    told = _spell(change)
    where = ", ".join(change.members)
    return f"{told} ({where})" if where else told


def _spell(change: Change) -> str:
    name, before, after = change.name, change.before, change.after
    if change.kind is Kind.FILE:
        return f"+ {name}" if before is None else f"- {name}"
    glue = "=" if change.kind is Kind.ENVIRONMENT else " "
    if before is None or after is None:
        value = _cut(after if before is None else before)
        return f"{'+' if before is None else '-'} {name}{glue if value else ''}{value}"
    was, now = _cut(before), _cut(after)
    if was == now:
        return f"{name} changed"
    return f"{name}{glue}{was or '(nothing)'} → {now or '(nothing)'}"


def _cut(value: str | None) -> str:
    told = value or ""
    return told if len(told) <= _LONGEST_TOLD else f"{told[: _LONGEST_TOLD - 1]}…"
