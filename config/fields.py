"""The kinds of values an operator writes: durations, ids, addresses; a refusal says what is allowed."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from config.redis_url import parse_redis_url

_DURATION = re.compile(
    r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?", re.ASCII
)
_SPAN_ALLOWED = 'a duration such as "30s", "15m", "2h", "1h30m" or "2d"'
_DURATION_ALLOWED = f"{_SPAN_ALLOWED}, longer than nothing"
_LONGEST = timedelta(days=7)
_MOST_PORT = 65535
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,247}\.service")
_SERVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CHANNEL = re.compile(r"[CG][A-Z0-9]{2,20}")
_PERSON = re.compile(r"[UW][A-Z0-9]{2,20}|S[A-Z0-9]{2,20}")
_GROUP = re.compile(r"S[A-Z0-9]{2,20}")
_NEVER_IN_URLS = re.compile(r"[\s\x00-\x1f\x7f]")  # urlsplit drops some of them silently
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*", re.IGNORECASE)


def parse_duration(text: str) -> timedelta:
    """`"1h30m"` → 1:30:00. ValueError names what is allowed."""
    duration = _read_span(text, allowed=_DURATION_ALLOWED)
    if duration > _LONGEST:
        raise ValueError(f"is {text!r}; allowed: at most 7 days (168h)")
    if not duration:
        raise ValueError(f"is {text!r}; allowed: {_DURATION_ALLOWED}")
    return duration


def parse_age(text: str) -> timedelta:
    """How long ago something was: also just now, and of any length. ValueError names what is allowed."""
    return _read_span(text, allowed=_SPAN_ALLOWED)


def _read_span(text: str, *, allowed: str) -> timedelta:
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"is {text!r}; allowed: {allowed}")
    days, hours, minutes, seconds = (float(part or 0) for part in match.group("d", "h", "m", "s"))
    try:
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        return timedelta.max


def write_duration(duration: timedelta) -> str:
    """The shortest way to write it back: 5400 s → `"1h30m"`."""
    seconds = duration.total_seconds()
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = (f"{int(hours)}h" * bool(hours), f"{int(minutes)}m" * bool(minutes), f"{rest:g}s" * bool(rest))
    return "".join(parts) or "0s"


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        return parse_duration(value)
    raise ValueError(f"is {value!r}; allowed: {_DURATION_ALLOWED}")


def _matching(pattern: re.Pattern[str], allowed: str) -> AfterValidator:
    def check(value: str) -> str:
        if pattern.fullmatch(value) is None:
            raise ValueError(f"is {value!r}; allowed: {allowed}")
        return value

    return AfterValidator(check)


def _http_url(value: str) -> str:
    allowed = 'an address such as "http://127.0.0.1:30000", without a path, user or query'
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise ValueError(f"is {value!r}; allowed: {allowed}") from None
    plain = not (parts.query or parts.fragment or parts.username or parts.path.strip("/"))
    plain = plain and not _NEVER_IN_URLS.search(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or not plain:
        raise ValueError(f"is {value!r}; allowed: {allowed}")
    return value.rstrip("/")


def parse_address(text: str) -> tuple[str, int]:
    """`"127.0.0.1:3000"`, `"[::1]:0"` → host and port. ValueError names what is allowed."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > _MOST_PORT:
        raise ValueError(f"is {text!r}; allowed: HOST:PORT such as 127.0.0.1:3000")
    return host.strip("[]"), int(port)


def _listen(value: str) -> str:
    if value:
        parse_address(value)
    return value


def check_ping_url(value: str) -> str:
    """`value` itself; a ValueError never quotes it, for whoever knows it may silence an alarm."""
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or _NEVER_IN_URLS.search(value):
        raise ValueError("is no http address; allowed: http://… or https://…")
    return value


def check_redis_url(value: str) -> str:
    """`value` itself; a ValueError never quotes it, for it may hold a password."""
    parse_redis_url(value)
    return value


def _not_empty(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty; allowed: some text")
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration), PlainSerializer(write_duration, return_type=str)]
Text = Annotated[str, AfterValidator(_not_empty)]
UnitText = Annotated[str, _matching(_UNIT, 'a unit name ending in ".service"')]
ServiceText = Annotated[
    str, _matching(_SERVICE, "letters, digits, '.', '_' and '-', at most 64, no blanks: it is typed in chat")
]
ChannelText = Annotated[str, _matching(_CHANNEL, 'a channel id such as "C0123456789", not a name')]
PersonText = Annotated[
    str, _matching(_PERSON, 'a user id ("U…", "W…") or a user group id ("S…"), not a name')
]
GroupText = Annotated[str, _matching(_GROUP, 'a user group id such as "S0123456789", not a name')]
VariableText = Annotated[str, _matching(_VARIABLE, "the name of an environment variable")]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
RedisUrl = Annotated[str, AfterValidator(check_redis_url)]
PingUrl = Annotated[str, AfterValidator(check_ping_url)]
ListenText = Annotated[str, AfterValidator(_listen)]
# The canonical phases, the same for every engine.
PhaseName = Literal[
    "stopping",
    "process",
    "distributed",
    "weights",
    "memory",
    "compile",
    "graphs",
    "server",
    "warmup",
    "smoke",
    "ready",
]
