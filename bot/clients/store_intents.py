"""What people asked for: each taken up once over all processes, and kept until it was answered."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, cast

from bot.clients.records import Intent, dump, load
from bot.clients.scripts_shared import ADOPT, INTEND
from bot.errors import RecordUnreadable, StoreUnavailable

if TYPE_CHECKING:
    from bot.clients.redis_link import RedisLink

INTENTS = "kimi:{intents}:open"  # hash: token → intent
_MOST_ASKED = 1000  # tokens whose answer was lost; a person's second try comes within seconds


class Intents:
    """All methods raise StoreUnavailable."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._asked: dict[str, tuple[Intent, str]] = {}

    async def intend(self, intent: Intent, ttl_seconds: int) -> bool:
        """True for the first of its token over all processes; then it is kept.

        The same caller's second try, after its first answer was lost, is the first one still.
        """
        asked, caller = self._asked.pop(intent.token, (intent, ""))
        if asked is not intent or not caller:
            caller = uuid.uuid4().hex
        keys = (f"kimi:{{intents}}:once:{intent.token}", INTENTS)
        try:
            first = await self._link.run(INTEND, keys, intent.token, caller, ttl_seconds, dump(intent))
        except BaseException as error:
            # Cancelled, it may have arrived as well: whoever waits for a bounded time asks again.
            if isinstance(error, StoreUnavailable) or not isinstance(error, Exception):
                self._remember(intent, caller)
            raise
        return bool(first)

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
