"""Every side effect of a bot process, named and counted where it leaves: Redis, Slack, SSH, webhook, socket.

Nothing here is listed by hand: what a library sends out passes one of these doors, and what only reads does
not count. At the chosen one the process is killed, or stopped, by its own hand: as from outside, then.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import asyncssh
import httpx
from asyncssh.channel import SSHClientChannel
from redis.asyncio import Redis

from bot.clients import scripts, scripts_lease, scripts_service, scripts_shared, store_watches

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_READS = """
AUTH CLIENT CLUSTER DBSIZE ECHO EXISTS GET HELLO HEXISTS HGET HGETALL HKEYS HLEN HMGET INFO KEYS LINDEX LLEN
LRANGE MGET PING PTTL ROLE SCAN SCARD SCRIPT SELECT SISMEMBER SMEMBERS STRLEN TIME TTL TYPE WAIT XLEN XRANGE
XREVRANGE ZCARD ZCOUNT ZRANGE ZRANGEBYSCORE ZREVRANGE ZSCORE
"""
READS = frozenset(_READS.split())
SLACK_READS = ("api.test", "auth.", "conversations.", "users.", "usergroups.", "chat.getPermalink", "apps.")
SYSTEMD_READS = ("show", "cat", "--version", "list-", "status", "is-")


def _script_names() -> dict[str, str]:
    texts = {
        name.lstrip("_"): value
        for module in (scripts, scripts_lease, scripts_service, scripts_shared, store_watches)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    return {sha1(text.encode()).hexdigest(): name for name, text in texts.items()}  # noqa: S324 - Redis's own


@dataclass(slots=True)
class Doors:
    """`choose`: the point at which `signal` comes, such as `before redis PUSH 3`; None: only told."""

    told: Path
    choose: str | None = None
    signal: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def open(self) -> None:
        """From here on every side effect of this process is a point."""
        names = _script_names()
        _wrap(Redis, "execute_command", self, lambda _, *words, **__: redis_label(words, names))
        _wrap(aiohttp.ClientSession, "_request", self, lambda _, *words, **__: http_label(words))
        _wrap(httpx.AsyncClient, "send", self, lambda _, request, **__: engine_label(request))
        _wrap(aiohttp.ClientWebSocketResponse, "send_str", self, lambda *_, **__: "socket answer")
        _wrap(SSHClientChannel, "_make_request", self, _request_label)
        _wrap(asyncssh.SSHClientProcess, "wait_closed", self, _answer_label)

    def reach(self, when: str, label: str) -> None:
        point = f"{when} {label} {self.counts[when, label]}"
        self.counts[when, label] += 1
        with self.told.open("a") as file:  # survives what comes next
            file.write(f"{point}\n")
        if point == self.choose:
            os.kill(os.getpid(), self.signal)


def _wrap(owner: type, name: str, doors: Doors, label_of: Callable[..., str | None]) -> None:
    sound: Callable[..., Awaitable[Any]] = getattr(owner, name)

    @functools.wraps(sound)
    async def watched(*words: Any, **options: Any) -> Any:
        label = label_of(*words, **options)
        if label is None:
            return await sound(*words, **options)
        doors.reach("before", label)
        answer = await sound(*words, **options)
        doors.reach("after", label)
        return answer

    setattr(owner, name, watched)


def redis_label(words: tuple[Any, ...], names: dict[str, str]) -> str | None:
    command = str(words[0]).split()[0].upper()
    if command in READS:
        return None
    if command in {"EVAL", "EVALSHA"}:
        script = str(words[1])
        known = script if command == "EVALSHA" else sha1(script.encode()).hexdigest()  # noqa: S324 - as above
        return f"redis {names.get(known, command)}"
    return f"redis {command} {_subject(str(words[1]))}"


def _subject(key: str) -> str:
    """`kimi:threads`, or the part of a key that holds a name: `lock`."""
    return key.rpartition(":")[2] if "{" in key else ":".join(key.split(":")[:2])


def http_label(words: tuple[Any, ...]) -> str | None:
    method, url = str(words[0]).upper(), urlsplit(str(words[1]))
    place = url.path.removeprefix("/api/")
    if method == "GET" and not url.path.startswith("/api/"):
        return None  # the socket's own connection
    if place.startswith(SLACK_READS):
        return None
    return f"slack {place.split('/')[1] if place.startswith('/') else place}"


def engine_label(request: httpx.Request) -> str | None:
    """Of a word for other tools; what an engine is asked for, a completion too, changes nothing."""
    if request.method == "GET" or request.url.path.startswith("/v1/"):
        return None
    return f"webhook {request.url.path}"


def ssh_label(command: str) -> str | None:
    """Of an order to systemd; everything else only looks."""
    if "systemctl" not in command:
        return None
    words = command.partition("systemctl")[2].split()
    verbs = [word for word in words if not word.startswith("-")]
    if not verbs or verbs[0].startswith(SYSTEMD_READS) or "-l" in command.split():
        return None
    return f"ssh systemctl {verbs[0]}"


def _request_label(_: SSHClientChannel[bytes], request: bytes, *words: Any) -> str | None:
    """The very packet that carries a command: what was looked at before it cannot stop it any more."""
    return ssh_label(b"".join(words).decode(errors="replace")) if request == b"exec" else None


def _answer_label(process: asyncssh.SSHClientProcess[bytes], *_: Any, **__: Any) -> str | None:
    order = ssh_label(str(process.command or ""))
    return None if order is None else f"{order} answered"
