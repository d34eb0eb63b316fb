"""Times as logs write them: with and without a year, a zone, a fraction."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NOMINAL_YEAR = 2000  # where the log names none; a leap year, so that every day exists
_HALF_YEAR = 6  # months

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_DAY_TIME = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
_DATED = re.compile(
    rf"(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)[ T]{_DAY_TIME} ?(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?"
)
_BSD = re.compile(rf"(?P<name>[A-Z][a-z]{{2}}) (?P<day>[ \d]\d) {_DAY_TIME}")
# What engines write before their own lines: `[2026-05-29 23:49:47 TP5]`, `(Worker pid=7) INFO 05-29 23:49`,
# `2026-05-29 23:49:47,180 - INFO`, `[rank3]:[E529 23:50:01.123`, `[05/29/2026-23:49:47]`.
_TAGS = r"(?>(?:\([A-Za-z_][\w ]{0,80} pid=\d{1,10}\) ?)*)(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):? +)?"
_OF_ENGINE = re.compile(
    rf"{_TAGS}\[?(?:(?:(?P<year>\d{{4}})-)?(?P<month>\d\d)-(?P<day>\d\d)[ T]{_DAY_TIME}(?P<zone>Z)?(?!\d)"
    rf"|(?:rank\d{{1,5}}\]:\[)?[IWEF](?P<gmonth>\d\d?)(?P<gday>\d\d) (?P<gtime>[\d:.]{{8,20}})[ \]]"
    rf"|(?P<tmonth>\d\d)/(?P<tday>\d\d)/(?P<tyear>\d{{4}})-(?P<ttime>\d\d:\d\d:\d\d)\])"
)
_TIME = re.compile(_DAY_TIME)


class LogClock:
    """Reads times, and gives those without a year the year that brings them nearest to the last one read."""

    def __init__(self, year: int | None = None) -> None:
        self._year = year or NOMINAL_YEAR
        self._month: int | None = None

    def learn(self, texts: Sequence[str]) -> None:
        """Takes the year from lines to come: from one that begins with a date, else from a date anywhere."""
        for text in texts:
            found = _OF_ENGINE.match(text)
            if found is not None and found["year"] and self._dated(found):
                return
        for text in texts:
            found = _DATED.search(text)
            if found is not None and self._dated(found):
                return

    def read(self, stamp: str) -> datetime | None:
        """`2026-05-29T23:49:47.123456789+02:00` and its kin, or `May 29 23:49:47`."""
        if dated := _DATED.match(stamp):
            return self._dated(dated)
        if bsd := _BSD.match(stamp):
            return self._undated(_MONTHS.get(bsd["name"], 0), int(bsd["day"]), bsd)
        return None

    def read_engine(self, text: str) -> datetime | None:
        """The time in the prefix an engine gives its own lines, taken for UTC."""
        found = _OF_ENGINE.match(text)
        if found is None:
            return None
        if found["month"]:
            if found["year"]:
                return self._dated(found)
            return self._undated(int(found["month"]), int(found["day"]), found)
        if found["tyear"]:
            return self.read(f"{found['tyear']}-{found['tmonth']}-{found['tday']} {found['ttime']}")
        time = _TIME.match(found["gtime"])
        return self._undated(int(found["gmonth"]), int(found["gday"]), time) if time else None

    def _dated(self, found: re.Match[str]) -> datetime | None:
        year, month = int(found["year"]), int(found["month"])
        at = _moment(year, month, int(found["day"]), found, zone=_zone(found["zone"]))
        if at is not None:
            self._year, self._month = year, month
        return at

    def _undated(self, month: int, day: int, found: re.Match[str]) -> datetime | None:
        year = self._year
        if self._month is not None:
            year += (self._month - month > _HALF_YEAR) - (month - self._month > _HALF_YEAR)
        at = _moment(year, month, day, found)
        if at is not None:
            self._year, self._month = year, month
        return at


def read_seconds(seconds: str) -> datetime | None:
    """Seconds since 1970, or since the host booted."""
    try:
        return datetime.fromtimestamp(float(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _moment(
    year: int, month: int, day: int, found: re.Match[str], *, zone: timezone = UTC
) -> datetime | None:
    fraction = int((found["fraction"] or "0")[:6].ljust(6, "0"))
    try:
        at = datetime(year, month, day, int(found["h"]), int(found["m"]), int(found["s"]), fraction, zone)
        return at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _zone(written: str | None) -> timezone:
    if not written or written == "Z":
        return UTC
    digits = written[1:].replace(":", "").ljust(4, "0")
    away = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    if away >= timedelta(days=1):
        return UTC
    return timezone(-away if written[0] == "-" else away)
