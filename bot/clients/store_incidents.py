"""Incidents in Redis: each a thread of its own, with its record, the facts on their way to it, an index."""

from __future__ import annotations

import asyncio
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

from bot.clients.records import Address, Outgoing, Record, dump, load
from bot.clients.redis_link import service_key, thread_key, thread_keys
from bot.clients.scripts import DROP, MAIL, REBUILD
from bot.clients.store_epoch import EPOCH
from bot.clients.store_queue import GRACE, KEEP, Queue, check_fence
from bot.core.events import ChannelId, HostName, ServiceName  # noqa: TC001 - pydantic reads them
from bot.core.incident_state import IncidentId
from bot.errors import RecordUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bot.clients.leases import Lease
    from bot.clients.redis_link import RedisLink

OPEN = "kimi:incidents"  # sorted set: incidents that may be open, by the time they were opened
PAST = "kimi:incidents:past"  # sorted set: closed ones, by the time they were
MOST_PAST = 5000
REBUILT = "kimi:incidents:rebuilt"  # the mark of the Redis in which all that Slack knows is written down
KEPT = timedelta(days=90)
_PAGE, _SEARCHED = 25, 500


class Delivery(Record):
    """One word for other tools: `body` is the JSON they get, `id` the same however often that is sent."""

    id: str
    event: str
    body: str
    ordered: datetime  # by the real clock


class IncidentRecord(Record):
    """`plan` and `state` are JSON of the core's. `over`: it is resolved, though it may be taken up again.

    `owed`: to other tools, oldest first; while there is any, it is not closed.
    """

    incident: IncidentId
    subject: str  # the service's name, or the host's
    service: ServiceName | None = None
    host: HostName
    channel: ChannelId
    opened: datetime
    plan: str
    state: str
    severity: str
    headline: str = ""  # the present in one plain sentence
    over: datetime | None = None
    closed: datetime | None = None
    owed: tuple[Delivery, ...] = ()


class Fact(Record):
    """One thing on its way to an incident. `body`: JSON of the core's event named by `kind`."""

    id: str
    kind: str
    body: str


def incident_keys(incident: str) -> list[str]:
    """As `thread_keys`, with the incident's record in the place of an operation's."""
    return [thread_key(incident, "incident"), *thread_keys(incident)[1:]]


def _subject_key(subject: str) -> str:
    return service_key(subject, "incidents")


class IncidentStore:
    """All methods raise StoreUnavailable; those that take a lease raise OwnershipLost, StoreEmptied too."""

    def __init__(self, link: RedisLink) -> None:
        self._link, self._queue = link, Queue(link)
        self._saves = itertools.count(time.time_ns() // 1000)  # as a later process's go on, too
        self._listeners: list[Callable[[IncidentId], None]] = []
        self._handed: dict[IncidentId, dict[str, bytes]] = {}  # facts as Redis holds them, by id

    def subscribe(self, listener: Callable[[IncidentId], None]) -> None:
        """`listener` hears of each incident that this process has told a fact."""
        self._listeners.append(listener)

    async def read(self, incident: IncidentId) -> IncidentRecord | None:
        return await self._link.read(IncidentRecord, thread_key(incident, "incident"))

    async def create(self, record: IncidentRecord, outgoing: Sequence[Outgoing], *, lease: Lease) -> bool:
        """False, and nothing is changed, when there is one of that id already."""
        present = await self.read(record.incident)
        if present is not None and present != record:
            return False
        await self.index(record)
        return await self._push(record, outgoing, {}, lease=lease, new=True)

    async def save(
        self,
        record: IncidentRecord,
        outgoing: Sequence[Outgoing] = (),
        files: Mapping[str, bytes] | None = None,
        *,
        lease: Lease,
        heard: Sequence[str] = (),
    ) -> None:
        """State and messages in one transaction. `heard`: ids of the facts that are in the state."""
        await self._push(record, outgoing, files or {}, lease=lease, heard=heard)
        for fact in heard:
            self._handed.get(record.incident, {}).pop(fact, None)
        if record.closed is not None:
            await self.settle(record)

    async def place(self, record: IncidentRecord, address: Address | None) -> None:
        """For a Redis that came back empty, before the record is saved again: where its thread stands."""
        await self.index(record)
        if address is not None:
            key = thread_key(record.incident, "address")
            await self._link.ask(self._link.redis.set(key, dump(address), nx=True, ex=KEEP))
            await self._queue.place(record.incident, address)

    async def rebuild(
        self, record: IncidentRecord, *, lease: Lease, address: Address, known: Sequence[str]
    ) -> None:
        """Of one that Slack alone still knows; `known`: ids of its messages there, never sent twice."""
        await self.place(record, address)
        words = (lease.number, dump(record), "", dump(address), KEEP)
        answer = await self._link.run(REBUILD, incident_keys(record.incident), *words, *known)
        check_fence(answer, record.incident)

    async def epoch(self) -> bytes:
        """Names Redis as it is now; b"" while nobody has marked one that came back empty."""
        return cast("bytes | None", await self._link.ask(self._link.redis.get(EPOCH))) or b""

    async def is_rebuilt(self) -> bool:
        """Whether every incident that Slack shows as open is on record in Redis as it is now."""
        epoch, rebuilt = await self.epoch(), await self._link.ask(self._link.redis.get(REBUILT))
        return bool(epoch) and rebuilt == epoch

    async def settle_rebuilt(self, epoch: bytes) -> None:
        """`epoch`: as it was before Slack was asked."""
        await self._link.ask(self._link.redis.set(REBUILT, epoch))

    def let_go(self, incident: IncidentId) -> None:
        """This process has it no longer."""
        self._handed.pop(incident, None)

    async def settle(self, record: IncidentRecord) -> None:
        """Of a closed one: out of the open ones, into the past."""
        closed, subject = (record.closed or datetime.now(UTC)).timestamp(), _subject_key(record.subject)
        redis, link = self._link.redis, self._link
        await link.ask(redis.zadd(subject, {record.incident: closed}))
        # Who prunes finds a record gone, and with it what it was about: each subject looks after its own.
        await link.ask(redis.zremrangebyscore(subject, "-inf", closed - KEPT.total_seconds()))
        await link.ask(redis.expire(subject, KEPT))
        await link.ask(redis.zadd(PAST, {record.incident: closed}))
        await self.forget_open(record.incident)

    async def tell(self, incident: IncidentId, fact: Fact) -> bool:
        """Once for each `fact.id`; False when the incident is closed or unknown."""
        answer = await self._link.run(MAIL, incident_keys(incident), fact.id, dump(fact), KEEP)
        if answer == b"gone":
            return False
        for listener in self._listeners:
            listener(incident)
        return True

    async def facts(self, incident: IncidentId) -> list[Fact]:
        """Oldest first; the same ones again until a `save` has `heard` them."""
        key = thread_key(incident, "inbox")
        entries = cast("list[bytes]", await self._link.ask(self._link.redis.lrange(key, 0, -1)))
        found: list[Fact] = []
        handed: dict[str, bytes] = {}
        for entry in entries:
            try:
                fact = load(Fact, entry, key=key)
            except RecordUnreadable as error:
                await self._link.set_aside(key, entry, error)
                await self._link.ask(self._link.redis.lrem(key, 1, cast("str", entry)))
                continue
            handed[fact.id] = entry
            found.append(fact)
        if handed:
            self._handed[incident] = handed
        else:
            self._handed.pop(incident, None)
        return found

    async def open_names(self) -> list[IncidentId]:
        """Those that may be open, oldest first."""
        names = cast("list[bytes]", await self._link.ask(self._link.redis.zrange(OPEN, 0, -1)))
        return [IncidentId(name.decode()) for name in names]

    async def forget_open(self, incident: IncidentId) -> None:
        await self._link.ask(self._link.redis.zrem(OPEN, incident))

    async def is_stale(self, incident: IncidentId) -> bool:
        """Whether one without a record has been so for longer than a save takes."""
        score = await self._link.ask(self._link.redis.zscore(OPEN, incident))
        return score is not None and float(score) < time.time() - GRACE

    async def opened(self) -> list[IncidentRecord]:
        """Oldest first, those that are over but not closed among them."""
        found = await self._read_all(await self.open_names())
        return [record for record in found if record.closed is None]

    async def past(self, subject: str, limit: int) -> list[IncidentRecord]:
        """Closed ones of a service or host, newest first."""
        key, redis = _subject_key(subject), self._link.redis
        names = cast("list[bytes]", await self._link.ask(redis.zrange(key, 0, limit - 1, desc=True)))
        return await self._read_all(IncidentId(name.decode()) for name in names)

    async def newest(self, limit: int, wanted: Callable[[IncidentRecord], bool]) -> list[IncidentRecord]:
        """Closed ones that are `wanted`, whatever they are about, newest first; of the newest hundreds."""
        found: list[IncidentRecord] = []
        for first in range(0, _SEARCHED, _PAGE):
            command = self._link.redis.zrange(PAST, first, first + _PAGE - 1, desc=True)
            names = cast("list[bytes]", await self._link.ask(command))
            records = await self._read_all(IncidentId(name.decode()) for name in names)
            found += [record for record in records if wanted(record)]
            if len(found) >= limit or len(names) < _PAGE:
                break
        return found[:limit]

    async def find(self, beginning: str) -> list[IncidentRecord]:
        """Those whose id begins so, of all that are kept."""
        if not beginning:
            return []
        redis = self._link.redis
        past = cast("list[bytes]", await self._link.ask(redis.zrange(PAST, 0, -1)))
        names = dict.fromkeys([*await self.open_names(), *(IncidentId(name.decode()) for name in past)])
        return await self._read_all(name for name in names if name.startswith(beginning.lower()))

    async def _read_all(self, names: Iterable[IncidentId]) -> list[IncidentRecord]:
        """Side by side, in their order; without those that are gone."""
        found = await asyncio.gather(*(self.read(name) for name in names))
        return [record for record in found if record is not None]

    async def prune(self, now: datetime, *, most: int = MOST_PAST) -> None:
        """Drop what is older than is kept, or beyond that many; several processes may do so at once."""
        redis, link, horizon = self._link.redis, self._link, (now - KEPT).timestamp()
        old = cast("list[bytes]", await link.ask(redis.zrangebyscore(PAST, "-inf", horizon)))
        more = cast("list[bytes]", await link.ask(redis.zrange(PAST, 0, -most - 1)))
        for name in dict.fromkeys([*old, *more]):
            incident = IncidentId(name.decode())
            record = await self.read(incident)
            if record is not None:
                await link.ask(redis.zrem(_subject_key(record.subject), incident))
            await link.run(DROP, incident_keys(incident))
            await link.ask(redis.delete(thread_key(incident, "seen")))
            await link.ask(redis.zrem(PAST, incident))

    async def index(self, record: IncidentRecord) -> None:
        """Before the record is written: one that is open is always found."""
        await self._link.ask(self._link.redis.zadd(OPEN, {record.incident: record.opened.timestamp()}))

    async def _push(
        self,
        record: IncidentRecord,
        outgoing: Sequence[Outgoing],
        files: Mapping[str, bytes],
        *,
        lease: Lease,
        new: bool = False,
        heard: Sequence[str] = (),
    ) -> bool:
        handed = self._handed.get(record.incident, {})
        read = [handed[fact] for fact in heard if fact in handed]
        return await self._queue.push(
            record.incident,
            outgoing,
            files,
            state=record,
            fence=lease.number,
            serial=next(self._saves),
            new=new,
            read=read,
        )
