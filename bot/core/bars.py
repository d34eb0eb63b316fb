"""What a person would see of a line: the last redraw of a bar, no colour, no control characters."""

from __future__ import annotations

import re
from itertools import pairwise

# ECMA-48: control sequences (colour, cursor), strings (window titles, links), two-character escapes. A string
# without its end is left to INVISIBLE, or an opening alone would swallow the rest of the line.
ANSI = (
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\r\n]{0,4096}+(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*+[0-OQ-WYZ\\`-~]"
)
# Everything that takes no place on the screen. NUL is no part of it: in a command line it separates words.
_CONTROL = r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
INVISIBLE = re.compile(rf"{ANSI}|{_CONTROL}")
_ANY_CONTROL = re.compile(_CONTROL)
_BLANKS = str.maketrans({"\0": " ", "\n": " "})

# tqdm ends its bar in `28/64 [00:11<00:14,  2.45it/s]`, whatever stands before and behind.
_BAR = re.compile(r"/\S{1,16} \[(?:\d+:)?\d+:\d\d<[^\[\]\r\n]{0,200}+\]")
# vLLM writes the process tag first and the bar's carriage return after it, so the redraw would hide the tag.
_TAG = re.compile(r"(?:\([A-Za-z_][\w ]{0,80} pid=\d{1,10}\) ?)+")
# The tag of a process right behind another's words, whose line was torn or lost its end. A colour is no word,
# and neither is what a tool writes before each line: `[1,0]<stdout>:`, `kimi-1|`.
_GLUED = re.compile(r"(?<!\s)(?<!\dm)(?=\([A-Za-z_][\w ]{0,80} pid=\d{1,10}\)(?: |\(|$))")
_LEADS = frozenset("([|:>")


def hides(text: str) -> bool:
    """Whether anything INVISIBLE is in it: the cheap look, as all of that begins with a control character."""
    return _ANY_CONTROL.search(text) is not None


def _strip(text: str) -> str:
    return INVISIBLE.sub("", text) if hides(text) else text


def read_bar(text: str) -> str:
    """What is left on the screen of `text`: its last redraw, without ANSI and control characters but tab."""
    if text.isprintable():
        return text
    seen = _strip(text).translate(_BLANKS)
    if "\r" not in seen:
        return seen
    redraws = [redraw for redraw in seen.split("\r") if redraw and not redraw.isspace()]
    if not redraws:
        return ""
    tag = redraws[0] if len(redraws) > 1 and _TAG.fullmatch(redraws[0]) else ""
    return tag + redraws[-1]


def split_bar(text: str) -> tuple[str, ...]:
    """Parts bars from what was written on the same physical line; joined, the parts are `text` again.

    A bar leaves the cursor at its end, so the next writer's line begins there:
    `  0%|          | 0/23 [00:00<?, ?it/s][2025-03-07 09:25:12 TP3] Capture cuda graph begin.`
    """
    if ("it/s" not in text and "s/it" not in text and "<" not in text) or not _BAR.search(text):
        return (text,)
    cuts = [0, *_borders(text), len(text)]
    return tuple(text[begin:end] for begin, end in pairwise(cuts))


def split_glued(text: str) -> tuple[str, ...]:
    """Parts what two processes wrote on one physical line; joined, the parts are `text` again."""
    if text.count(" pid=") <= text.startswith("("):
        return (text,)
    first, starts = text.find(" pid="), (found.start() for found in _GLUED.finditer(text))
    cuts = [at for at in starts if at and (at > first or text[at - 1] not in _LEADS)]
    return tuple(text[begin:end] for begin, end in pairwise([0, *cuts, len(text)]))


def _borders(text: str) -> list[int]:
    borders: list[int] = []
    at, told, is_bar = 0, False, False  # `told`: something visible stands since the last border
    for redraw in text.split("\r"):
        end = _bar_end(redraw)
        if _visible(redraw[:end]) and not _TAG.fullmatch(redraw):
            if told and is_bar != bool(end):
                borders.append(max(at - 1, 0))
            told, is_bar = True, bool(end)
        if end and _visible(redraw[end:]):
            borders.append(at + end)
            is_bar = False
        at += len(redraw) + 1
    return borders


def _bar_end(redraw: str) -> int | None:
    """Where the last bar of one redraw ends; None where there is none."""
    end = None
    for bar in _BAR.finditer(redraw):
        end = bar.end()
    return end


def _visible(text: str) -> bool:
    rest = _strip(text)
    return bool(rest) and not rest.isspace()
