"""The shapes saved logs come in, and how to tell them apart."""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from bot.core.bars import INVISIBLE
from bot.core.tail import HEADER
from bot.core.transcript_csv import CSV_ROW
from bot.core.transcript_json import TEXTS
from bot.core.transcript_verbose import VERBOSE_HEADER

if TYPE_CHECKING:
    from collections.abc import Iterable


class Format(StrEnum):
    PLAIN = "plain"  # what the engine wrote, and nothing else
    SHORT = "short"  # journalctl's short, -iso, -precise, -full, -unix, -monotonic, with-unit; syslog files
    JSON = "json"  # journalctl's json, json-pretty, json-seq, json-sse
    EXPORT = "export"  # journalctl's export
    VERBOSE = "verbose"  # journalctl's verbose
    DOCKER_JSON = "docker-json"  # the json-file driver's own files
    JSON_LINES = "json-lines"  # an engine's own, or a collector's: each has its own fields
    DOCKER = "docker"  # `docker logs --timestamps`, `kubectl logs --timestamps`
    COMPOSE = "compose"  # `docker compose logs`, `kubectl logs --prefix`
    KUBERNETES = "kubernetes"  # the container runtime's files under /var/log/pods
    CSV = "csv"  # `timestamp,message`, as a cloud's log service gives it for download
    TAIL = "tail"  # our own


_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_OFFSET = r"(?:Z|[+-]\d\d:?\d\d)"

SHORT_HEADER = re.compile(
    rf"""(?:(?P<stamp>[A-Z][a-z]{{2}}\ [ \d]\d\ \d\d:\d\d:\d\d(?:\.\d{{1,9}})?
          |{_STAMP}(?:[.,]\d{{1,9}})?{_OFFSET}?)
       |[A-Z][a-z]{{2}}\ (?P<full>\d{{4}}-\d\d-\d\d\ \d\d:\d\d:\d\d(?:\.\d{{1,9}})?
          \ ?(?:[+-]\d\d(?::?\d\d)?)?)(?:\ [A-Z]{{1,5}})?
       |\[?\s*(?P<seconds>\d{{1,11}}\.\d{{3,6}})\]?
    )\ (?!(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b)(?P<host>[\w.-]{{1,255}})
    \ (?P<ident>[^\s:\[\]][^:\[\]]{{0,255}}?(?=\[)|[^\s:\[\]()]{{1,255}})
    (?:\[(?P<pid>\d{{1,10}})\])?:(?:\ |$)""",
    re.VERBOSE,
)
TAIL_ROW = re.compile(
    r"(?P<stamp>\S+) (?P<host>\S+) (?P<ident>[^\s:\[\]]+)(?:\[(?P<pid>\d{1,10})\])?: (?P<text>.*)", re.DOTALL
)
# Docker always writes nine digits; an engine that begins its lines with such a time writes six or fewer.
DOCKER_HEADER = re.compile(rf"(?P<stamp>{_STAMP}\.\d{{7,9}}{_OFFSET})(?: |$)")
KUBERNETES_HEADER = re.compile(
    rf"(?P<stamp>{_STAMP}(?:\.\d{{1,9}})?{_OFFSET}) (?P<stream>stdout|stderr) (?P<tag>[FP])\S{{0,20}}(?: |$)"
)
# Compose colours the name.
COMPOSE_HEADER = re.compile(
    r"(?:\x1b\[[\d;]*m)*(?P<name>[\w./-]{1,128}) +\|(?:\x1b\[[\d;]*m)*(?: |$)"
    r"|\[(?P<pod>pod/[\w./-]{1,256})\](?: |$)"
)
_JSON = re.compile(r'\s*\x1e?(?:data: )?\{.*"(?:__REALTIME_TIMESTAMP|__CURSOR|MESSAGE)"\s*:', re.DOTALL)
_JSON_PRETTY = re.compile(r'\s*"__(?:CURSOR|REALTIME_TIMESTAMP)"\s*:')
_DOCKER_JSON = re.compile(r'\s*\{"log":')
_JSON_LINE = re.compile(rf'\s*\{{.*"(?:{"|".join(TEXTS)})"\s*:\s*"', re.DOTALL)
_EXPORT = re.compile(r"__(?:CURSOR|REALTIME_TIMESTAMP)=")

_SURE = 3  # lines
_FIRST = 3  # lines, of which one shows the verbose format: journalctl may say something before
_MOST_HOSTS = 3  # of which one log has most of its lines
# A quotation, an indentation, the numbers of `grep -n` and `cat -n`.
_OUTER = (r"(?:> ?)+", r"[ \t]+", r" {0,8}\d{1,7}(?:[:-] ?|\t)")

_MARKS: tuple[tuple[Format, re.Pattern[str]], ...] = (
    (Format.DOCKER_JSON, _DOCKER_JSON),
    (Format.JSON, _JSON),
    (Format.JSON_LINES, _JSON_LINE),
    (Format.KUBERNETES, KUBERNETES_HEADER),
    (Format.DOCKER, DOCKER_HEADER),
    (Format.SHORT, SHORT_HEADER),
    (Format.COMPOSE, COMPOSE_HEADER),
    (Format.CSV, CSV_ROW),
)


def recognise(head: Iterable[str]) -> Format:
    """The format of a log by its first lines: the one that half of them have."""
    lines = [line for line in head if line and not line.isspace()]
    if not lines:
        return Format.PLAIN
    if lines[0].startswith(HEADER):
        return Format.TAIL
    if _EXPORT.match(lines[0]):
        return Format.EXPORT
    if any(map(VERBOSE_HEADER.match, lines[:_FIRST])):
        return Format.VERBOSE
    if lines[0].strip() == "{" and any(map(_JSON_PRETTY.match, lines[1:])):
        return Format.JSON
    votes = Counter(filter(None, map(_vote, lines)))
    best, count = votes.most_common(1)[0] if votes else (Format.PLAIN, 0)
    return best if count >= _needed(best, lines, count) else Format.PLAIN


def _needed(kind: Format, lines: list[str], count: int) -> float:
    """Half of the lines. `systemctl status` has a dozen lines of its own before those of the journal.

    Docker's times look like no engine's, and stand before some lines only where several sources were joined.
    """
    if kind is Format.DOCKER and count >= _SURE:
        return 0
    if kind is not Format.SHORT or count < _SURE:
        return len(lines) / 2
    return len(lines) / 4 if _come_of_few_hosts(lines) else len(lines) + 1


def _come_of_few_hosts(lines: Iterable[str]) -> bool:
    """A time, a word and a word with a colon stand before much else; a host's name comes again."""
    hosts = Counter(found["host"] for found in map(SHORT_HEADER.match, lines) if found is not None)
    return _MOST_HOSTS * hosts.most_common(1)[0][1] >= hosts.total() if hosts else True


def find_outer(head: Iterable[str]) -> re.Pattern[bytes] | None:
    """What a person's tool put before nearly every line of a log whose format shows only behind it."""
    lines = [line for line in head if line and not line.isspace()]
    if not lines or recognise(lines) is not Format.PLAIN:
        return None
    for outer in _OUTER:
        found = [re.match(outer, line) for line in lines]
        peeled = [line[each.end() :] for line, each in zip(lines, found, strict=True) if each is not None]
        if 10 * len(peeled) >= 9 * len(lines) and recognise(peeled) is not Format.PLAIN:
            return re.compile(outer.encode())
    return None


def _vote(line: str) -> Format | None:
    seen = INVISIBLE.sub("", line) if "\x1b" in line else line
    return next((kind for kind, mark in _MARKS if mark.match(seen)), None)
