"""A regular expression that may be searched for in every line of a log: none that takes too long over one.

Python's `re` tries again for each way in which repetitions can share the text, and nothing interrupts it. So
a repetition of a repetition (`(a+)*`) is refused, and more than two repetitions of nearly anything (`.*`):
with two, a line of 500 characters takes a fifth of a second at the very worst.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

MOST_BROAD = 2
_MANY = 10  # `{0,10}` counts as a repetition without bound
PIECE = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]"
    r"|\((?:\?(?:[:=!>]|<[=!]|P<\w+>|\(\w+\)|P=\w+|#[^)]*|[aiLmsux-]+:?))?"
    r"|\)|\{\d*,\d*\}|\{\d+\}|[*+?]|.",
    re.DOTALL,
)
_BROAD = re.compile(r"\.|\\[SDW]|\[\^.*|\[.*\\[SDW].*", re.DOTALL)
_RANGE = re.compile(r"\{\d*,(\d*)\}")


def check_search_pattern(value: str) -> str:
    """`value` itself, where it is a regular expression that is sure to end soon. ValueError says why not."""
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"is no regular expression ({error}); allowed: Python's `re` syntax") from None
    fault = _fault(value)
    if fault is not None:
        raise ValueError(f"{fault}: one line could keep it busy for ever")
    return value


def _fault(pattern: str) -> str | None:
    pieces = [match[0] for match in PIECE.finditer(pattern)]
    groups: list[tuple[bool, bool]] = []  # atomic, and whether something in it is repeated
    repeats, broad = False, 0
    for index, piece in enumerate(pieces):
        atom = pieces[index - 1] if index else ""
        if piece.startswith("("):
            groups.append((piece == "(?>", repeats))
            repeats = False
        elif piece == ")" and groups:
            atomic, outer = groups.pop()
            if repeats and not atomic and _is_many(pieces, index + 1):
                return "repeats a repetition, as in `(a+)*`"
            repeats = outer or (repeats and not atomic)
        elif _is_repetition(piece) and not _is_repetition(atom):
            repeats = True
            broad += _BROAD.fullmatch(atom) is not None
    return f"has more than {MOST_BROAD} of `.*` and the like" if broad > MOST_BROAD else None


def _is_many(pieces: list[str], index: int) -> bool:
    return index < len(pieces) and _is_repetition(pieces[index])


def _is_repetition(piece: str) -> bool:
    if piece in {"*", "+"}:
        return True
    bounds = _RANGE.fullmatch(piece)
    return bounds is not None and (not bounds[1] or int(bounds[1]) >= _MANY)


SearchPattern = Annotated[str, AfterValidator(check_search_pattern)]
