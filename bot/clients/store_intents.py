"""What people asked for: each taken up once over all processes, and kept until it was answered."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from bot.clients.records import Intent, dump, load
from bot.clients.scripts_shared import ADOPT, INTEND
from bot.errors import RecordUnreadable, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.clients.redis_link import RedisLink

INTENTS = "kimi:{intents}:open"  # hash: token → intent
_MOST_ASKED = 1000  # tokens whose answer was lost; a person's second try comes within seconds
_MOST_AT_ONCE = 100  # intents in one call
_LONGEST = 0.05  # seconds that intents wait for the call before theirs


@dataclass(slots=True, eq=False)
class _Waiting:
    token: str
    record: bytes
    caller: str
    seconds: int
    first: asyncio.Future[bool]


class Intents:
    """All methods raise StoreUnavailable.

    What comes while a call is under way goes together in the next one: a crowd of commands costs a few calls.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._asked: dict[str, tuple[Intent, str]] = {}
        self._waiting: list[_Waiting] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def intend(self, intent: Intent, ttl_seconds: int) -> bool:
        """True for the first of its token over all processes; then it is kept.

        The same caller's second try, after its first answer was lost, is the first one still.
        """
        asked, caller = self._asked.pop(intent.token, (intent, ""))
        if asked is not intent or not caller:
            caller = uuid.uuid4().hex
        first = asyncio.get_running_loop().create_future()
        # What cannot be written down fails here, and not the whole call it would go with.
        waiting = _Waiting(intent.token, dump(intent), caller, ttl_seconds, first)
        self._waiting.append(waiting)
        self._call_soon()
        try:
            return await waiting.first
        except BaseException as error:
            # Cancelled, it may have arrived as well: whoever waits for a bounded time asks again.
            if isinstance(error, StoreUnavailable) or not isinstance(error, Exception):
                self._remember(intent, caller)
            raise

    async def close(self) -> None:
        """Nobody who still waits gets an answer."""
        for waiting in self._waiting:
            waiting.first.cancel()
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    def _call_soon(self) -> None:
        """Now, where no call is under way; else when it ends, or takes long."""
        if not self._calls:
            self._call()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LONGEST, self._call)

    def _call(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
        batch = [waiting for waiting in batch if not waiting.first.done()]  # who is cancelled is not kept
        if batch:
            call = asyncio.create_task(self._intend(batch), name=f"intend {len(batch)}")
            self._calls.add(call)
            call.add_done_callback(self._called)
        if self._waiting:
            self._call_soon()

    def _called(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if self._waiting:
            self._call()

    async def _intend(self, batch: Sequence[_Waiting]) -> None:
        """Never raises: each of the batch hears of it."""
        keys = [INTENTS, *(f"kimi:{{intents}}:once:{each.token}" for each in batch)]
        words = [word for each in batch for word in (each.token, each.caller, each.seconds, each.record)]
        try:
            answers = await self._link.run(INTEND, keys, *words, first=True)
        except asyncio.CancelledError:
            for each in batch:
                each.first.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - told to each
            for each in batch:
                if not each.first.done():
                    each.first.set_exception(error)
            return
        for each, first in zip(batch, answers, strict=True):
            if not each.first.done():
                each.first.set_result(bool(first))

    async def settle(self, token: str) -> None:
        """Answered: nobody takes it up again."""
        await self._link.ask(self._link.redis.hdel(INTENTS, token))

    async def open(self) -> list[Intent]:
        """Oldest first."""
        rows = cast("dict[bytes, bytes]", await self._link.ask(self._link.redis.hgetall(INTENTS)))
        found: list[Intent] = []
        for token, raw in rows.items():
            try:
                found.append(load(Intent, raw, key=INTENTS))
            except RecordUnreadable as error:
                await self._link.set_aside(INTENTS, raw, error)
                await self.settle(token.decode())
        return sorted(found, key=lambda intent: intent.at)

    async def adopt(self, intent: Intent, owner: str) -> bool:
        """False when it was settled, or another process took it up first."""
        mine = dump(intent.model_copy(update={"owner": owner}))
        return bool(await self._link.run(ADOPT, [INTENTS], intent.token, intent.owner, owner, mine))

    def _remember(self, intent: Intent, caller: str) -> None:
        self._asked[intent.token] = (intent, caller)
        if len(self._asked) > _MOST_ASKED:
            del self._asked[next(iter(self._asked))]
