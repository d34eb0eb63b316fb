"""What Redis keeps is bounded, by time and by count: this drops what is beyond."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, cast

import structlog

from bot.clients.records import Unreadable, load
from bot.clients.redis_link import (
    PARKED,
    THREADS,
    UNREADABLE,
    RedisLink,
    service_key,
    thread_key,
    thread_keys,
)
from bot.clients.scripts import DROP, FORGET
from bot.clients.store_audit import Audits
from bot.clients.store_intents import Intents
from bot.errors import RecordUnreadable

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import ServiceName

SERVICES = "kimi:services"  # set: services that have a history
HISTORY = 500  # operations kept for each service
ASIDE = 1000  # parked messages, and unreadable records, that are kept
KEPT = timedelta(days=90)
_UNANSWERED = timedelta(days=1)  # intents that nobody took up
_RESTING = timedelta(hours=1)  # threads that have nothing to send leave the index
log = structlog.get_logger()


async def prune(link: RedisLink, now: datetime, *, history: int = HISTORY, aside: int = ASIDE) -> None:
    """May run in several processes at once. Raises StoreUnavailable."""
    horizon = (now - KEPT).timestamp()
    for service in cast("set[bytes]", await link.ask(link.redis.smembers(SERVICES))):
        await _prune_history(link, cast("ServiceName", service.decode()), horizon, most=history)
    await _prune_parked(link, horizon, most=aside)
    await _prune_unreadable(link, now - KEPT, most=aside)
    await Audits(link).prune(horizon)
    await _prune_intents(link, now - _UNANSWERED)
    await _prune_threads(link, (now - _RESTING).timestamp())


async def _prune_history(link: RedisLink, service: ServiceName, horizon: float, *, most: int) -> None:
    key, redis = service_key(service, "history"), link.redis
    old = cast("list[bytes]", await link.ask(redis.zrangebyscore(key, "-inf", horizon)))
    more = cast("list[bytes]", await link.ask(redis.zrange(key, 0, -most - 1)))
    for name in dict.fromkeys([*old, *more]):
        operation = name.decode()
        await drop_operation(link, operation)
        await link.ask(redis.hdel(service_key(service, "past"), operation))
        await link.ask(redis.zrem(key, operation))


async def drop_operation(link: RedisLink, operation: str) -> None:
    """All that is known of a closed one; what is still to be sent for it stays."""
    if await link.run(DROP, thread_keys(operation)) == b"dropped":
        await link.ask(link.redis.delete(thread_key(operation, "seen")))


async def _prune_parked(link: RedisLink, horizon: float, *, most: int) -> None:
    """The oldest threads first, each by the last time something of it was parked."""
    rows = await link.ask(link.redis.zrange(PARKED, 0, -1, desc=True, withscores=True))
    kept = 0
    for member, score in cast("list[tuple[bytes, float]]", rows):
        thread = member.decode()
        key = thread_key(thread, "parked")
        room = most - kept if score > horizon else 0
        if room > 0:
            await link.ask(link.redis.ltrim(key, -room, -1))
        else:
            await link.ask(link.redis.delete(key))
        left = cast("int", await link.ask(link.redis.llen(key)))
        kept += left
        if not left:
            await link.run(FORGET, [PARKED], thread, repr(score))


async def _prune_unreadable(link: RedisLink, horizon: datetime, *, most: int) -> None:
    await link.ask(link.redis.ltrim(UNREADABLE, -most, -1))
    for raw in cast("list[bytes]", await link.ask(link.redis.lrange(UNREADABLE, 0, -1))):
        try:
            if load(Unreadable, raw, key=UNREADABLE).at >= horizon:
                return
        except RecordUnreadable:
            log.warning("unreadable_dropped")
        await link.ask(link.redis.lrem(UNREADABLE, 1, cast("str", raw)))


async def _prune_intents(link: RedisLink, horizon: datetime) -> None:
    intents = Intents(link)
    for intent in await intents.open():
        if intent.at < horizon:
            log.error("intent_dropped", token=intent.token, user=intent.user, words=intent.words)
            await intents.settle(intent.token)


async def _prune_threads(link: RedisLink, horizon: float) -> None:
    rows = await link.ask(link.redis.zrangebyscore(THREADS, "-inf", horizon, withscores=True))
    for member, score in cast("list[tuple[bytes, float]]", rows):
        thread = member.decode()
        # An edit may become a reply meanwhile, never the other way round.
        waits = await link.ask(link.redis.exists(thread_key(thread, "edit")))
        waits = waits or await link.ask(link.redis.llen(thread_key(thread, "queue")))
        if not waits:
            await link.run(FORGET, [THREADS], thread, repr(score))
