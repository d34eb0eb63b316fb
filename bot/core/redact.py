"""Masks secrets in log text before anything else sees it."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from bot.core.bars import INVISIBLE, hides
from bot.core.secret_patterns import (
    BODY_LINE,
    BODY_RUN,
    CUT_OFF,
    GATE,
    KEY_BEGIN,
    KEY_END,
    MASK,
    NOTHING,
    NUMBER,
    PATTERNS,
    TRAILING,
    outline_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bot.core.secret_patterns import Look

LEAST_KNOWN = 6  # characters; a shorter known secret would mask ordinary words
BLOCK_LINES = 512  # a key block of more lines is none
BLOCK_SILENCE = 8  # lines in a row that look like no key: the block was never closed
OUTLINES = 4096  # of lines, that are remembered
OUTLINED = 512  # characters; a longer line is hardly ever like another

_Span = tuple[int, int]
_QUOTES = re.compile(r"(?P<quote>\\*[\"'])(?P<v>.*?)(?:(?P=quote))?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class KeyBlock:
    """A PEM private key whose end has not come yet."""

    lines: int = 0
    silence: int = 0

    @property
    def over(self) -> bool:
        return self.lines >= BLOCK_LINES or self.silence >= BLOCK_SILENCE


class Redactor:
    """Masks what looks like a secret, and the exact secrets it was told (of six characters and more)."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        written = {form for secret in known if len(secret) >= LEAST_KNOWN for form in _forms(secret)}
        self._known = tuple(sorted(written, key=lambda form: (-len(form), form)))
        self._block: KeyBlock | None = None
        self._outlines: dict[bytes, bool] = {}  # whether every line of that outline is plain

    def redact(self, text: str) -> tuple[str, int]:
        """`text` with its secrets masked, and how many places that were. Masking twice changes nothing."""
        if self.plain(text):
            return text, 0
        return _mask(text, self._spans(text))

    def redact_beginning(self, text: str, *, block: KeyBlock | None = None) -> tuple[str, int]:
        """As `redact_in`, for text whose rest is not there yet: a secret just begun is masked as well."""
        spans = self._spans(text) if block is None else [*_key_body(text), *self._spans(text)]
        spans.extend(match.span("v") for match in CUT_OFF.finditer(text, _last_word(text)))
        spans.extend(_begun(text, self._known))
        return _mask(text, spans)

    def redact_line(self, text: str) -> tuple[str, int]:
        """As `redact`, for consecutive lines of one stream: remembers an open PEM block."""
        masked, places, self._block = self.redact_in(self._block, text)
        return masked, places

    def redact_in(self, block: KeyBlock | None, text: str) -> tuple[str, int, KeyBlock | None]:
        """As `redact_line`, the memory being the caller's: what it was before, and what it is after."""
        if block is None:
            masked, places = self.redact(text)
            return masked, places, KeyBlock() if _opens(text) else None
        end = KEY_END.search(text)
        inside = text[: end.start()] if end else text
        spans = _key_body(inside)
        grown = KeyBlock(block.lines + 1, 0 if spans else block.silence + 1)
        masked, places = _mask(text, [*spans, *self._spans(text)])
        if _opens(text):
            return masked, places, KeyBlock()
        return masked, places, None if end or grown.over else grown

    def cut_before(self, text: str, at: int) -> int:
        """The last place not behind `at` where `text` may be cut without parting a secret from its mask."""
        for begin, end in _merge(self._spans(text)):
            if begin < at < end:
                return begin
        return at

    def quiet(self, text: str) -> bool:
        """No secret can be in `text`: nothing in it looks like the beginning of one. The cheap look."""
        if GATE.search(text.lower()) is not None:
            return False
        for secret in self._known:  # noqa: SIM110 - every line comes by here, and a generator costs more
            if secret in text:
                return False
        return True

    def plain(self, text: str) -> bool:
        """Printable and quiet: nothing to be done. A log repeats itself in all but its numbers."""
        if len(text) > OUTLINED:
            return text.isprintable() and self.quiet(text)
        try:
            outline = outline_of(text)
        except UnicodeEncodeError:
            return False  # a lone surrogate is not printable
        plain = self._outlines.get(outline)
        if plain is None:
            plain = self._learn(outline)
        if not plain:
            return False
        for secret in self._known:  # noqa: SIM110 - every line comes by here, and a generator costs more
            if secret in text:
                return False
        return True

    def _learn(self, outline: bytes) -> bool:
        if len(self._outlines) >= OUTLINES:
            self._outlines.clear()
        text = outline.decode()
        plain = self._outlines[outline] = text.isprintable() and GATE.search(text.lower()) is None
        return plain

    def _spans(self, text: str) -> list[_Span]:
        view = _View(text)
        if self.quiet(view.text):
            return []
        return [view.span_in_text(span) for span in self._find(view.text)]

    def _find(self, text: str) -> Iterator[_Span]:
        for secret in self._known:
            at = text.find(secret)
            while at >= 0:
                yield at, at + len(secret)
                at = text.find(secret, at + len(secret))
        lowered = text.lower()
        for look in PATTERNS:
            yield from _secrets(look, text, lowered)


class _View:
    """`text` as a terminal shows it, for the patterns; colour codes between key and value hide nothing."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts: list[int] = []  # of each visible piece in the view, with where it stands in the text
        self._origins: list[int] = []
        if not text.isprintable() and ("\0" in text or hides(text)):
            self._strip(text)

    def _strip(self, text: str) -> None:
        pieces: list[str] = []
        at = shown = 0
        for hidden in INVISIBLE.finditer(text):
            if hidden.start() > at:
                pieces.append(text[at : hidden.start()])
                self._starts.append(shown)
                self._origins.append(at)
                shown += hidden.start() - at
            at = hidden.end()
        self._starts.append(shown)
        self._origins.append(at)
        pieces.append(text[at:])
        self.text = "".join(pieces).replace("\0", " ")

    def span_in_text(self, span: _Span) -> _Span:
        if not self._starts:
            return span
        return self._origin(span[0]), self._origin(span[1] - 1) + 1

    def _origin(self, shown: int) -> int:
        piece = bisect_right(self._starts, shown) - 1
        return self._origins[piece] + shown - self._starts[piece]


def _forms(secret: str) -> set[str]:
    """The ways a secret is written: as it is, in a URL, in JSON, in a Python repr."""
    return {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], repr(secret)[1:-1]}


def _opens(text: str) -> bool:
    """A key block begins in `text` and does not end in it."""
    begun = text.rfind("-----BEGIN ")
    if begun < 0:
        return False
    begin = KEY_BEGIN.match(text, begun)
    return begin is not None and KEY_END.search(text, begin.end()) is None


def _secrets(look: Look, text: str, lowered: str) -> Iterator[_Span]:
    for match in look.find(text, lowered):
        span = _bare(text, match.span("v"))
        if _is_secret(text[slice(*span)], number_is_none="number" in look.pattern.groupindex):
            yield span


def _bare(text: str, span: _Span) -> _Span:
    """The span without the quotes around it."""
    quoted = _QUOTES.match(text, *span)
    return quoted.span("v") if quoted else span


def _is_secret(value: str, *, number_is_none: bool) -> bool:
    if not value or value.startswith(MASK) or NOTHING.fullmatch(value):
        return False
    return not (number_is_none and NUMBER.fullmatch(value))


def _key_body(text: str) -> list[_Span]:
    whole = BODY_LINE.fullmatch(text)
    return [match.span("v") for match in ((whole,) if whole else BODY_RUN.finditer(text))]


def _last_word(text: str) -> int:
    """Where the word begins with which the text stops."""
    words = text.rsplit(None, 1)
    return len(text) - len(words[-1]) if words and text.endswith(words[-1]) else len(text)


def _begun(text: str, known: Iterable[str]) -> Iterator[_Span]:
    for secret in known:
        for length in range(min(len(secret), len(text)), TRAILING - 1, -1):
            if text.endswith(secret[:length]):
                yield len(text) - length, len(text)
                break


def _merge(spans: Iterable[_Span]) -> list[_Span]:
    merged: list[_Span] = []
    for begin, end in sorted(spans):
        if merged and begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif begin < end:
            merged.append((begin, end))
    return merged


def _mask(text: str, spans: Iterable[_Span]) -> tuple[str, int]:
    merged = _merge(spans)
    if not merged:
        return text, 0
    pieces: list[str] = []
    at = 0
    for begin, end in merged:
        pieces += (text[at:begin], MASK)
        at = end
    pieces.append(text[at:])
    return "".join(pieces), len(merged)
