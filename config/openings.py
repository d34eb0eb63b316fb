"""With which characters a text can begin that a pattern matches: the first one rules most patterns out.

Derived from the pattern as it is written, and careful: where that is not understood, any character will do.
Only ASCII is told apart; a text that begins with anything else is for every rule.
"""

from __future__ import annotations

import re
from functools import lru_cache

from config.search_pattern import PIECE

ASCII = tuple(map(chr, range(128)))

_AROUND = frozenset({"(?=", "(?!", "(?<=", "(?<!"})
_PLAIN_GROUP = re.compile(r"\((?:\?:|\?>|\?P<\w+>)?")
_CASELESS_GROUP = "(?i:"
_ZERO_WIDTH = frozenset({"^", "$", r"\b", r"\B", r"\A", r"\Z"})
_NOT_READ = re.compile(r"\\[0-9xuUN]")  # numbers of characters and of groups
_OPTIONAL = re.compile(r"[*?]|\{0*(?:,\d*)?\}")
_REPEATED = re.compile(r"[*+?]|\{\d*,\d*\}|\{\d+\}")


class _NotUnderstoodError(Exception):
    """The pattern uses what is not read here."""


def find_openings(pattern: str) -> frozenset[str] | None:
    """The ASCII characters one of which stands first in whatever `pattern` matches; None: it may be any."""
    pieces = [match[0] for match in PIECE.finditer(pattern)]
    try:
        found, empty, at = _read_alternatives(pieces, 0, re.NOFLAG)
    except _NotUnderstoodError:
        return None
    return None if empty or at < len(pieces) else found


_Read = tuple[frozenset[str], bool, int]  # the characters, whether nothing at all will do, where to read on


def _read_alternatives(pieces: list[str], at: int, flags: re.RegexFlag) -> _Read:
    found, empty, at = _read_sequence(pieces, at, flags)
    while at < len(pieces) and pieces[at] == "|":
        more, nothing, at = _read_sequence(pieces, at + 1, flags)
        found, empty = found | more, empty or nothing
    return found, empty, at


def _read_sequence(pieces: list[str], at: int, flags: re.RegexFlag) -> _Read:
    found: frozenset[str] = frozenset()
    empty = True
    while at < len(pieces) and pieces[at] not in {"|", ")"}:
        more, nothing, at = _read_atom(pieces, at, flags)
        if empty:
            found |= more
        optional = at < len(pieces) and _OPTIONAL.fullmatch(pieces[at]) is not None
        empty = empty and (nothing or optional)
        while at < len(pieces) and _REPEATED.fullmatch(pieces[at]):
            at += 1
    return found, empty, at


def _read_atom(pieces: list[str], at: int, flags: re.RegexFlag) -> _Read:
    piece = pieces[at]
    if piece.startswith("("):
        return _read_group(pieces, at, flags)
    if piece in _ZERO_WIDTH:
        return frozenset(), True, at + 1
    if _NOT_READ.match(piece):
        raise _NotUnderstoodError
    return _characters_of(piece, flags), False, at + 1


def _read_group(pieces: list[str], at: int, flags: re.RegexFlag) -> _Read:
    piece = pieces[at]
    if piece == _CASELESS_GROUP:
        flags |= re.IGNORECASE
    elif piece not in _AROUND and not _PLAIN_GROUP.fullmatch(piece):
        raise _NotUnderstoodError
    found, empty, at = _read_alternatives(pieces, at + 1, flags)
    if piece in _AROUND:
        return frozenset(), True, at + 1
    return found, empty, at + 1


@lru_cache(1024)
def _characters_of(piece: str, flags: re.RegexFlag) -> frozenset[str]:
    """`re` itself tells what a class or an escape stands for."""
    pattern = re.compile(piece if len(piece) > 1 or piece == "." else re.escape(piece), flags)
    return frozenset(character for character in ASCII if pattern.fullmatch(character))
