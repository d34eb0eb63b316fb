"""The restart at the moment of death: real Redis, real SSH, a host that refuses what comes late."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bot.errors import OrderLate
from tests.support.replicas import LEASE, replicas

if TYPE_CHECKING:
    from bot.clients.ssh import Host
    from tests.support.replicas import Replica

SPEED = 20.0


def host_of(replica: Replica) -> Host:
    [host] = replica.startups.ground.hosts.values()
    return host


class Sleeper:
    """The process sleeps behind its last look at the lease; `wake` lets the order go, given up or not.

    What the sleeper's loop learns meanwhile it learns too late: the order is out of reach of any cancelling.
    """

    def __init__(self, replica: Replica) -> None:
        self.asleep = asyncio.Event()
        self.wake = asyncio.Event()
        self.order: asyncio.Task[None] | None = None
        host = host_of(replica)
        self._change = host.change
        host.change = self._sleep  # type: ignore[method-assign]

    async def _sleep(self, *words: Any, **options: Any) -> None:
        options.pop("check")()
        self.asleep.set()
        self.order = asyncio.create_task(self._oversleep(*words, **options))
        await asyncio.shield(self.order)

    async def _oversleep(self, *words: Any, **options: Any) -> None:
        await self.wake.wait()
        await self._change(*words, **options)


async def test_a_process_killed_right_before_its_order_is_sent_costs_no_restart() -> None:
    async with replicas(speed=SPEED) as every:
        first = await every.start()
        sleeper = Sleeper(first)
        operation = await first.begin()
        await sleeper.asleep.wait()
        assert every.orders() == []
        await first.die()
        assert sleeper.order is not None
        sleeper.order.cancel()
        second = await every.start()
        assert (await every.closed(second, operation)).verdict == "healthy"
        assert every.orders() == ["restart"]
        assert every.said("resumed") == every.said("healthy") == 1
        assert every.said("went out") == 0
        assert len(every.replies()) == len(set(every.replies()))


async def test_a_process_that_slept_right_before_its_order_wakes_up_too_late_for_the_host() -> None:
    async with replicas(speed=SPEED) as every:
        first = await every.start(adopts=False)
        sleeper = Sleeper(first)
        operation = await first.begin()
        await sleeper.asleep.wait()
        first.doze()
        second = await every.start()
        await every.until(lambda: operation in second.startups.running)
        await every.until(lambda: every.said("Ranks connected"))
        assert every.orders() == ["restart"]
        sleeper.wake.set()
        assert sleeper.order is not None
        [late] = await asyncio.gather(sleeper.order, return_exceptions=True)
        assert isinstance(late, OrderLate)
        [sent] = every.workspace.host.shell.late  # it was sent, and refused
        assert "restart" in sent
        assert (await every.closed(second, operation)).verdict == "healthy"
        assert every.orders() == ["restart"]
        assert every.said("resumed") == every.said("healthy") == 1
        assert every.said("went out") == every.said("Something broke") == 0


async def test_an_order_that_came_in_time_after_all_is_followed_and_not_repeated() -> None:
    async with replicas(speed=SPEED) as every:
        first = await every.start()
        sleeper = Sleeper(first)
        operation = await first.begin()
        await sleeper.asleep.wait()
        await first.startups.ground.store.leases.close()  # another may have it at once
        first.doze()
        second = await every.start()
        await every.until(lambda: operation in second.startups.running)
        sleeper.wake.set()
        assert sleeper.order is not None
        await sleeper.order
        assert (await every.closed(second, operation)).verdict == "healthy"
        assert every.orders() == ["restart"]
        assert every.workspace.host.shell.late == []
        assert every.said("went out") == 0


async def test_a_host_that_cannot_be_asked_leaves_the_doubt_that_is_told() -> None:
    async with replicas(speed=SPEED) as every:
        every.workspace.host.unkind.no_uptime = True
        first = await every.start()
        sleeper = Sleeper(first)
        operation = await first.begin()
        await sleeper.asleep.wait()
        await first.die()
        assert sleeper.order is not None
        sleeper.order.cancel()
        second = await every.start()
        assert (await every.closed(second, operation)).verdict == "failed"
        assert every.orders() == []
        assert every.said("went out") == 1


async def test_the_host_counts_with_its_own_clock() -> None:
    async with replicas(speed=SPEED) as every:
        replica = await every.start()
        host, practice = host_of(replica), every.workspace.host
        before = await host.uptime()
        assert before is not None
        promise = await host.promise(LEASE)
        assert before < (promise.deadline or 0) / 100 < before + LEASE + 5
        await practice.reboot()
        after = await host.uptime()
        assert after is not None
        assert after < before
