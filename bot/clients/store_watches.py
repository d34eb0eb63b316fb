"""What a host's watch remembers: a record for each service and for the host, and words on their way to it."""

from __future__ import annotations

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

# KEYS: fence, record, words. ARGV: number, record, seconds to keep, words that are in the record.
_WRITE = """
local number = redis.call('GET', KEYS[1])
if not number then return 'empty' end
if number ~= ARGV[1] then return 'lost' end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
for i = 4, #ARGV do redis.call('LREM', KEYS[3], 1, ARGV[i]) end
return 'written'
"""

# KEYS: words, set of known ids. ARGV: id, word, how many to keep, seconds to keep.
_SAY = """
if redis.call('SADD', KEYS[2], ARGV[1]) == 1 then
  redis.call('RPUSH', KEYS[1], ARGV[2])
  redis.call('LTRIM', KEYS[1], -ARGV[3], -1)
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('EXPIRE', KEYS[2], ARGV[4])
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
        self._handed: dict[str, list[bytes]] = {}  # as Redis holds them, by id

    async def read(self, host: HostName, service: ServiceName | None) -> Watched | None:
        return await self._link.read(Watched, thread_key(lease_name(host), _part(service)))

    async def write(
        self, lease: Lease, service: ServiceName | None, watched: Watched, *, heard: Sequence[str] = ()
    ) -> None:
        """OwnershipLost, StoreEmptied: nothing was written. `heard`: ids of words that are in the state."""
        tag = lease.name
        keys = [thread_key(tag, part) for part in ("fence", _part(service), "words")]
        taken = [entry for word in heard for entry in self._handed.get(word, [])]
        answer = await self._link.run(_WRITE, keys, lease.number, dump(watched), KEEP, *taken)
        check_fence(answer, tag)
        for word in heard:
            self._handed.pop(word, None)

    async def say(self, host: HostName, word: Word) -> None:
        """Once for each `word.id`."""
        keys = [thread_key(lease_name(host), part) for part in ("words", "said")]
        await self._link.run(_SAY, keys, word.id, dump(word), _WORDS_MOST, KEEP)

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
            self._handed[word.id] = [entry]
            found.append(word)
        return found
