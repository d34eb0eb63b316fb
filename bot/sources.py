"""The sources of one startup: they put facts on its queue and decide nothing."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import structlog

from bot.clients.ssh import Host
from bot.core.cursor import find_gap, read_cursor
from bot.core.events import (
    Event,
    HostLost,
    HostRestored,
    InvocationId,
    LineRead,
    LogLine,
    LogMissed,
    Member,
    ProbeAnswered,
    SetupSeen,
    SmokeFinished,
    SmokeResult,
    UnitName,
    UnitObserved,
)
from bot.core.journal import Decoder, Position
from bot.core.log_file import FilePosition
from bot.errors import CommandTimedOut, HostError, HostUnreachable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable
    from datetime import datetime

    from bot.clients.probe import Probe
    from bot.core.redact import Redactor
    from bot.core.setup import Setup

log = structlog.get_logger()

_FIRST_RETRY = 0.5  # real seconds; doubled up to the longest
_LONGEST_RETRY = 15.0
_SPREAD = 0.2  # more or less of it: those who lost a host together do not come back to it together
_BRIEF, _BRIEF_MOST = 2.0, 3  # real seconds; so many attempts in a row
_STEADY = 1.0  # real seconds a journal must be followed before a lost link counts as restored
KERNEL, LOG_FILE, LOG_START = "#kernel", "#log", "#log-start"  # places of a member beside its journal's
_RING = 5000  # lines kept for a tail when the host cannot be asked for it
RING_MOST = 16 << 20  # characters of them together: a single line may have millions


@dataclass(frozen=True, slots=True)
class Piece:
    """Events of one source, and where its journal stands after them: saved together or not at all.

    `stream`: which of the member's streams, where it is not its journal.
    """

    events: tuple[Event, ...]
    member: Member | None = None
    position: Position | FilePosition | None = None
    stream: str = ""


Inbox: TypeAlias = asyncio.Queue[Piece]


@dataclass(slots=True)
class Link:
    """One member of the service: its unit, its host, and where its journal is followed from."""

    member: Member
    unit: UnitName
    scope: str
    host: Host
    position: Position | None = None
    invocation: InvocationId | None = None  # followed alone where there is no position
    ring: deque[LogLine] = field(default_factory=deque)
    log_file: str | None = None  # where the unit writes instead of to the journal
    kernel: Position | None = None
    log: FilePosition | None = None
    log_start: FilePosition | None = None  # where the file ended when the order was given
    lost: bool = False
    log_lost: bool = False
    boot: str | None = None  # which the host was in when it was first followed
    following_since: float | None = None  # the loop's time at which the present attempt began
    alive: bool = False  # the present attempt brought something
    _weight: int = 0  # characters in the ring

    def remember(self, lines: Iterable[LogLine]) -> None:
        """Keep whole lines, the newest."""
        for line in lines:
            if not line.partial:
                self.ring.append(line)
                self._weight += len(line.text)
            while len(self.ring) > _RING or self._weight > RING_MOST:
                self._weight -= len(self.ring.popleft().text)


@dataclass(slots=True)
class Backoff:
    """How long to wait before the next attempt, in real seconds."""

    _next: float = _FIRST_RETRY
    _brief: int = 0  # attempts in a row that brought something and were over at once
    _began: float = -math.inf  # the loop's time at which the present attempt did

    def after(self, *, alive: bool) -> float:
        """`alive`: the attempt that ended now had brought something.

        A journalctl that is taken up at its cursor brings that entry at least, be it that a broken journal
        file ends it each time: so what is over at once again and again does not count as alive.
        """
        now = asyncio.get_running_loop().time()
        if alive:
            self._brief = self._brief + 1 if now - self._began < _BRIEF else 0
        pause = _FIRST_RETRY if alive and self._brief <= _BRIEF_MOST else self._next
        self._next = min(pause * 2, _LONGEST_RETRY)
        spread = pause * random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311 - nobody guards anything with it
        self._began = now + spread
        return spread


async def follow_journal(link: Link, inbox: Inbox, *, redactor: Redactor) -> None:
    """Follow the member's journal for ever; a lost link is told, retried with backoff, resumed by cursor."""
    backoff = Backoff()
    while True:
        link.alive = False
        error = await _follow_once(link, inbox, redactor=redactor)
        link.following_since = None
        pause = backoff.after(alive=link.alive)
        log.warning("journal_lost", member=link.member, error=str(error), retry_in=pause)
        await _tell_lost(link, inbox, error=error)
        await asyncio.sleep(pause)


async def _follow_once(link: Link, inbox: Inbox, *, redactor: Redactor) -> HostError:
    """Until the stream ends, and why it did."""
    try:
        await _make_good(link, inbox, redactor=redactor)
        # Before the first whole line there is no cursor to seek to: the start is read from its beginning.
        place = link.position
        known = place if place is not None and (place.cursor is not None or link.invocation is None) else None
        link.following_since = asyncio.get_running_loop().time()
        stream = link.host.follow_journal(
            link.unit, scope=link.scope, position=known, invocation=link.invocation
        )
        await _pour(link, inbox, stream, redactor=redactor)
    except HostError as error:
        return error
    return HostUnreachable(link.host.name, f"{link.host.name}: the journal ended")


async def _make_good(link: Link, inbox: Inbox, *, redactor: Redactor) -> None:
    """What following leaves out: whether lines are gone, and what was written before a reboot."""
    boot = await _ask_boot(link)
    if link.position is None or link.position.cursor is None:
        if link.boot not in {None, boot}:
            link.invocation = None  # no start outlives its boot
            link.position = Position(None)
        link.boot = boot
        return
    cursor = link.position.cursor
    gap = find_gap(cursor, await link.host.journal_at(cursor, scope=link.scope))
    if gap is not None:
        log.warning("journal_gap", member=link.member, since=str(gap.since), until=str(gap.until))
        await inbox.put(Piece((LogMissed(link.member, gap.since, gap.until),)))
    if boot is not None and read_cursor(cursor).boot not in {None, boot}:
        rest = link.host.read_rest(link.unit, scope=link.scope, cursor=cursor)
        await _pour(link, inbox, rest, redactor=redactor)


async def _ask_boot(link: Link) -> str | None:
    """None where the host does not tell; raises HostUnreachable and CommandTimedOut."""
    try:
        return await link.host.boot_id()
    except (HostUnreachable, CommandTimedOut):
        raise
    except HostError as error:
        log.info("boot_not_seen", member=link.member, error=str(error))
        return None


async def _pour(link: Link, inbox: Inbox, stream: AsyncGenerator[bytes, None], *, redactor: Redactor) -> None:
    decoder = Decoder(redactor, position=link.position)
    async with aclosing(stream):  # or the host goes on sending to who was stopped while waiting here
        async for data in stream:
            link.alive = True
            await _tell_restored(link, inbox)
            await _deliver(link, inbox, decoder=decoder, data=data)


async def _tell_lost(link: Link, inbox: Inbox, *, error: HostError) -> None:
    link.lost = True
    await inbox.put(Piece((HostLost(link.member, str(error)),)))


async def _tell_restored(link: Link, inbox: Inbox) -> None:
    """The host is in sight; a log file that cannot be read keeps the member out of it all the same."""
    if link.lost:
        link.lost = False
        if not link.log_lost:
            await inbox.put(Piece((HostRestored(link.member),)))


async def _deliver(link: Link, inbox: Inbox, *, decoder: Decoder, data: bytes) -> None:
    lines = decoder.feed(data)
    link.position = decoder.position
    if not lines:
        return
    link.remember(lines)
    events = tuple(LineRead(link.member, line) for line in lines)
    await inbox.put(Piece(events, link.member, decoder.position))


async def observe_unit(link: Link, inbox: Inbox) -> None:
    """One `systemctl show`; a host that does not answer is a fact too."""
    try:
        boot = await _ask_boot(link)  # first: a look that is older than its boot would be taken for a reboot
        unit = await link.host.show(link.unit, scope=link.scope)
    except HostError as error:
        await _tell_lost(link, inbox, error=error)
        return
    if _follows_steadily(link):
        await _tell_restored(link, inbox)
    await inbox.put(Piece((UnitObserved(link.member, unit, boot),)))


def _follows_steadily(link: Link) -> bool:
    """A quiet journal that is followed again brings no line to tell it by; that it did not end does."""
    since = link.following_since
    return since is not None and asyncio.get_running_loop().time() - since > _STEADY


async def look_at_setup(link: Link, inbox: Inbox, *, redactor: Redactor) -> None:
    """What the member runs with; a host that does not say leaves it unknown."""
    setup: Setup | None = None
    try:
        setup = await link.host.setup(link.unit, scope=link.scope, redactor=redactor)
    except HostError as error:
        log.info("setup_not_seen", member=link.member, error=str(error))
    await inbox.put(Piece((SetupSeen(link.member, setup),)))


async def ask_engine(probe: Probe, inbox: Inbox, *, asked: datetime) -> None:
    await inbox.put(Piece((ProbeAnswered(await probe.check(), asked),)))


async def run_smoke(probe: Probe, inbox: Inbox, *, redactor: Redactor) -> None:
    await inbox.put(Piece((SmokeFinished(await smoke_masked(probe, redactor=redactor)),)))


async def smoke_masked(probe: Probe, *, redactor: Redactor, short: bool = False) -> SmokeResult:
    """A smoke test whose words may be shown: an engine's error may quote a key."""
    result = await (probe.smoke(short=True) if short else probe.smoke())
    error = None if result.error is None else redactor.redact(result.error)[0]
    return replace(result, error=error, answer=redactor.redact(result.answer)[0])
