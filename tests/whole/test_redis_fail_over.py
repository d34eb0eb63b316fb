"""A master of Redis dies amid a start that one of two bots follows: the thread is the usual one."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from typing import TYPE_CHECKING

import pytest

import bot.app as app_module
from bot.clients.slack import Outbox, Timing
from tests.support.pace import PACE
from tests.support.redis_many import wait_for
from tests.whole.test_redis_gone import USUAL, stage

if TYPE_CHECKING:
    from tests.support.redis_many import Node, RedisCluster, SentinelGroup

LEASE = 5.0


async def follow(servers: SentinelGroup | RedisCluster, master: Node, number: int) -> None:
    """`number`: the signal that `master` gets once ranks are connected."""
    async with stage(servers) as here:
        await here.bring_up()
        practice = await here.bring_up()
        root = await practice.begin()
        await practice.reply(root, "Ranks connected")
        await asyncio.to_thread(strike, master, number)
        assert await here.end() == USUAL
        assert practice.orders() == ["restart"]
        assert here.notices() == []
        assert here.announced() == 0


def strike(master: Node, number: int) -> None:
    """When its replica is not behind: what none confirmed in time dies with its master."""

    def is_confirmed() -> bool:
        facts = master.line.info("replication")
        return bool(facts["slave0"]["offset"] == facts["master_repl_offset"])

    wait_for(is_confirmed)
    os.kill(master.process.pid, number)


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "Outbox", partial(Outbox, pace=PACE, timing=Timing(LEASE, 0.2, 0.2)))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_sentinels_name_another_master(own_sentinels: SentinelGroup, number: int) -> None:
    former = own_sentinels.master()
    await follow(own_sentinels, former, number)
    assert await own_sentinels.change(former) is not former


async def test_a_replica_takes_the_slots_of_its_master(own_cluster: RedisCluster) -> None:
    await follow(own_cluster, own_cluster.nodes[0], signal.SIGKILL)
    role = await asyncio.to_thread(own_cluster.replica.line.execute_command, "ROLE")
    assert role[0] == b"master"
