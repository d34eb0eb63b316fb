"""What a process remembers is written down again, unless another one has it meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.clients.records import Holder
from bot.core.events import OperationId, UserId, Verb
from bot.practice.workspace import BOB
from tests.support.replicas import NAME, loading, replicas, watch_over

if TYPE_CHECKING:
    from tests.support.redis import RedisServer


async def test_a_service_that_was_taken_meanwhile_is_left_to_who_took_it(own_redis: RedisServer) -> None:
    async with replicas(redis_url=own_redis.url) as every:
        first = await every.start()
        await watch_over(every, first)
        operation = await first.begin()
        await every.until(lambda: loading(every))
        own_redis.ask("FLUSHALL")
        other = Holder(
            operation=OperationId("op2"),
            service=NAME,
            verb=Verb.STOP,
            by=UserId(BOB),
            since=every.workspace.clock.now(),
        )
        await first.store.leases.claim("op2")
        assert await first.store.take(other) is None
        assert (await every.closed(first, operation)).verdict == "superseded"
        assert every.orders() == ["restart"]
        held = await first.startups.held(NAME)
        assert held is not None
        assert held.operation == "op2"


async def test_what_another_process_has_taken_up_is_given_up_here(own_redis: RedisServer) -> None:
    async with replicas(redis_url=own_redis.url) as every:
        first, second = await every.start(), await every.start(adopts=False)
        await watch_over(every, first)
        operation = await first.begin()
        await every.until(lambda: loading(every))
        record = first.startups.running[operation].ledger.record
        own_redis.ask("FLUSHALL")
        lease = await second.store.leases.claim(operation)
        assert lease is not None
        await second.store.rebuild(record, lease=lease, address=None, known=(), holder=None)
        await every.until(lambda: operation not in first.startups.running)
        assert first.startups.owned == set()
        assert every.said("Something broke") == 0
