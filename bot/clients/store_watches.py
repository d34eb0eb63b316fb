"""What a host's watch remembers: a record for each service and for the host, and words on their way to it.

Beside them stands for a while which services are watched there, by whichever process has the host.
"""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING, cast

from pydantic import Field

from bot.clients.records import Record, dump, load
from bot.clients.redis_link import thread_key
from bot.clients.store_queue import KEEP, check_fence
from bot.errors import RecordUnreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.clients.leases import Lease
    from bot.clients.redis_link import RedisLink
    from bot.core.events import HostName, ServiceName

_WORDS_MOST = 1000  # that wait for a host nobody watches
MARK_FOR = 120  # seconds that the mark of what is watched stands

# KEYS: fence, record, words, numbers of saves. ARGV: number, record, seconds to keep, part, number of the
# save, ids of words that are in the record. A save that comes after a later one of the same owner (given up
# after a time-out, it still was on its way) undoes nothing.
_WRITE = """
local number = redis.call('GET', KEYS[1])
if not number then return 'empty' end
if number ~= ARGV[1] then return 'lost' end
local under, newest = string.match(redis.call('HGET', KEYS[4], ARGV[4]) or '', '^(%d+) (%d+)$')
if under == number and tonumber(ARGV[5]) < tonumber(newest) then return 'late' end
redis.call('HSET', KEYS[4], ARGV[4], number .. ' ' .. ARGV[5])
redis.call('EXPIRE', KEYS[4], ARGV[3])
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
if #ARGV == 5 then return 'written' end
local heard = {}
for i = 6, #ARGV do heard[ARGV[i]] = true end
for _, entry in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do
  local readable, word = pcall(cjson.decode, entry)
  if readable and type(word) == 'table' and heard[word.id] then redis.call('LREM', KEYS[3], 1, entry) end
end
return 'written'
"""

# KEYS: words, mark of this one. ARGV: word, how many to keep, seconds to keep.
_SAY = """
if redis.call('SET', KEYS[2], 1, 'NX', 'EX', ARGV[3]) then
  redis.call('RPUSH', KEYS[1], ARGV[1])
  redis.call('LTRIM', KEYS[1], -ARGV[2], -1)
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 'said'
"""


class Owed(Record):
    """An order of a watch that is on record and may not have been carried out; `id` makes it once.

    `body`: JSON of the core's action named by `kind`.
    """

    id: str
    kind: str
    body: str


class Watched(Record):
    """`state`: JSON of the core's, of one service or of the host."""

    state: str
    owed: tuple[Owed, ...] = Field(default=())


class Word(Record):
    """What a person said to the watch over a service. `body`: JSON of the core's event named by `kind`."""

    id: str
    service: str
    kind: str
    body: str


def lease_name(host: HostName) -> str:
    return f"monitor/{host}"


def _part(service: ServiceName | None) -> str:
    return "host" if service is None else f"service/{service}"


class Watches:
    """All methods raise StoreUnavailable. `service` None: of the host itself."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._saves = itertools.count(time.time_ns() // 1000)

    async def read(self, host: HostName, service: ServiceName | None) -> Watched | None:
        return await self._link.read(Watched, thread_key(lease_name(host), _part(service)))

    async def write(
        self, lease: Lease, service: ServiceName | None, watched: Watched, *, heard: Sequence[str] = ()
    ) -> None:
        """OwnershipLost, StoreEmptied: nothing was written. `heard`: ids of words that are in the state."""
        tag, part, serial = lease.name, _part(service), next(self._saves)
        keys = [thread_key(tag, each) for each in ("fence", part, "words", "saves")]
        words = (lease.number, dump(watched), KEEP, part, serial)
        check_fence(await self._link.run(_WRITE, keys, *words, *heard), tag)

    async def mark(self, host: HostName, services: Sequence[ServiceName]) -> None:
        """These are watched there; to be said again within `MARK_FOR`."""
        key = thread_key(lease_name(host), "watched")
        await self._link.ask(self._link.redis.set(key, json.dumps(services), ex=MARK_FOR))

    async def marked(self, host: HostName) -> frozenset[str] | None:
        """What somebody watches there; None: nobody watches the host."""
        key = thread_key(lease_name(host), "watched")
        found = cast("bytes | None", await self._link.ask(self._link.redis.get(key)))
        return frozenset(json.loads(found)) if found is not None else None

    async def say(self, host: HostName, word: Word) -> None:
        """Once for each `word.id`."""
        keys = [thread_key(lease_name(host), part) for part in ("words", f"said:{word.id}")]
        await self._link.run(_SAY, keys, dump(word), _WORDS_MOST, KEEP)

    async def words(self, host: HostName) -> list[Word]:
        """Oldest first; the same again until a `write` has `heard` them."""
        key = thread_key(lease_name(host), "words")
        entries = cast("list[bytes]", await self._link.ask(self._link.redis.lrange(key, 0, -1)))
        found: list[Word] = []
        for entry in entries:
            try:
                word = load(Word, entry, key=key)
            except RecordUnreadable as error:
                await self._link.set_aside(key, entry, error)
                await self._link.ask(self._link.redis.lrem(key, 1, cast("str", entry)))
                continue
            found.append(word)
        return found
