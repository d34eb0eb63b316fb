"""A real Cluster: slots that are elsewhere, on the move or gone, and the traps of the client under ours."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from typing import TYPE_CHECKING

import pytest
from redis.crc import key_slot
from redis.exceptions import RedisClusterException
from structlog.testing import capture_logs

from bot.errors import StoreUnavailable

if TYPE_CHECKING:
    from bot.clients.redis_link import RedisLink
    from tests.support.redis import MakeLink
    from tests.support.redis_many import RedisCluster

KEY = "kimi:{a}:x"
OTHER = "kimi:{a}:y"
SLOT = key_slot(KEY.encode())
INCREASE = "return redis.call('INCR', KEYS[1])"
BOTH = "return redis.call('INCR', KEYS[1]) + redis.call('INCR', KEYS[2])"


async def test_keys_of_all_nodes(redis_cluster: RedisCluster, make_link: MakeLink) -> None:
    link = make_link(redis_cluster.url, connections=3)
    await asyncio.gather(*(link.run(INCREASE, [f"x{number}"]) for number in range(60)))
    read = await asyncio.gather(*(link.ask(link.redis.get(f"x{number}")) for number in range(60)))
    assert set(read) == {b"1"}
    assert all(node.line.dbsize() for node in redis_cluster.nodes)
    assert await link.ask(link.redis.exists("x1")) == 1
    assert await link.ask(link.redis.delete("x1")) == 1
    assert await link.ask(link.redis.unlink("x1")) == 0


async def test_what_a_script_wrote_is_on_the_replica_when_it_returns(
    redis_cluster: RedisCluster, make_link: MakeLink
) -> None:
    link = make_link(redis_cluster.url)
    first = redis_cluster.nodes[0]
    keys = (f"x{number}" for number in range(1000))
    key = next(key for key in keys if redis_cluster.owner(key_slot(key.encode())) is first)
    for number in range(1, 20):
        before = first.line.info("replication")["master_repl_offset"]
        assert await link.run(INCREASE, [key]) == number
        assert first.line.info("replication")["slave0"]["offset"] > before, "acknowledged"


async def test_a_master_whose_replica_is_late_is_told_once(
    redis_cluster: RedisCluster, make_link: MakeLink
) -> None:
    link = make_link(redis_cluster.url, timeout=20)
    with capture_logs() as logs:
        await asyncio.gather(*(link.run(INCREASE, [f"x{number}"]) for number in range(60)))
        for number in range(60):
            await link.run(INCREASE, [f"x{number}"])
    assert [entry["event"] for entry in logs] == ["redis_replica_behind"] * 2, "two have none at all"


async def test_answers_are_shaped_as_those_of_one_server(
    redis_cluster: RedisCluster, make_link: MakeLink
) -> None:
    link = make_link(redis_cluster.url)
    await link.ask(link.redis.zadd("z", {"a": 1.5}))
    rows = await link.ask(link.redis.zrange("z", 0, -1, withscores=True))
    assert [tuple(row) for row in rows] == [(b"a", 1.5)]
    await link.ask(link.redis.hset("h", "f", "v"))
    assert await link.ask(link.redis.hgetall("h")) == {b"f": b"v"}
    assert await link.ask(link.redis.set("s", "1", nx=True, ex=60)) is True
    assert await link.ask(link.redis.set("s", "2", nx=True, ex=60)) is None


async def test_a_slot_that_moved_is_followed(redis_cluster: RedisCluster, make_link: MakeLink) -> None:
    link = make_link(redis_cluster.url)
    for number in range(1, 8):
        assert await link.run(INCREASE, [KEY]) == number
        assert await link.ask(link.redis.get(KEY)) == str(number).encode()
        redis_cluster.give(SLOT, redis_cluster.another(redis_cluster.owner(SLOT)))


async def test_a_slot_on_the_move_is_reached_by_many_at_once(
    redis_cluster: RedisCluster, make_link: MakeLink
) -> None:
    """Over several connections to the node that gets it: ASKING must go over the same one as its command."""
    link = make_link(redis_cluster.url)
    source = redis_cluster.owner(SLOT)
    target = redis_cluster.another(source)
    await link.run(INCREASE, [KEY])
    redis_cluster.open(SLOT, source, target)
    assert await link.ask(link.redis.get(KEY)) == b"1", "not gone over yet"
    assert redis_cluster.carry(SLOT, source, target) == 1
    counted = await asyncio.gather(*(link.run(INCREASE, [KEY]) for _ in range(30)))
    assert sorted(counted) == list(range(2, 32))
    read = await asyncio.gather(*(link.ask(link.redis.get(KEY)) for _ in range(30)))
    assert set(read) == {b"31"}
    redis_cluster.close(SLOT, source, target)
    assert await link.run(INCREASE, [KEY]) == 32


async def test_a_script_over_keys_of_a_torn_slot_waits_until_it_is_whole(
    redis_cluster: RedisCluster, make_link: MakeLink
) -> None:
    link = make_link(redis_cluster.url, timeout=20)
    source = redis_cluster.owner(SLOT)
    target = redis_cluster.another(source)
    await link.run(INCREASE, [KEY])
    redis_cluster.open(SLOT, source, target)
    waiting = asyncio.create_task(link.run(BOTH, [KEY, OTHER]))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await asyncio.shield(waiting)
    redis_cluster.carry(SLOT, source, target)
    redis_cluster.close(SLOT, source, target)
    assert await waiting == 3
    assert target.line.get(OTHER) == b"1", "once"


async def test_a_script_over_two_slots_is_a_fault_of_ours(
    redis_cluster: RedisCluster, make_link: MakeLink
) -> None:
    link = make_link(redis_cluster.url)
    with pytest.raises(StoreUnavailable, match="same key slot") as caught:
        await link.run(BOTH, ["a", "b"])
    assert isinstance(caught.value.__cause__, RedisClusterException)


async def test_a_node_that_hangs_holds_up_its_own_slots_alone(
    redis_cluster: RedisCluster, make_link: MakeLink
) -> None:
    link = make_link(redis_cluster.url, timeout=1)
    await asyncio.gather(*(link.run(INCREASE, [f"x{number}"]) for number in range(20)))
    hung = redis_cluster.owner(SLOT)
    names = [f"x{n}" for n in range(20) if redis_cluster.owner(key_slot(f"x{n}".encode())) is not hung]
    os.kill(hung.process.pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(60):  # much longer than the link may take
            with pytest.raises(StoreUnavailable, match="cluster://127"):
                await link.run(INCREASE, [KEY])
        assert {await link.run(INCREASE, [name]) for name in names[:3]} == {2}
        other = make_link(redis_cluster.url, timeout=1)
        with pytest.raises(StoreUnavailable):
            await other.describe()
        await other.close()
        assert gc.collect() >= 0, "nothing of it is left open"
    finally:
        os.kill(hung.process.pid, signal.SIGCONT)
    async with asyncio.timeout(60):
        while True:
            try:
                assert await link.run(INCREASE, [KEY])
                break
            except StoreUnavailable:
                pass


async def test_a_cancellation_is_never_swallowed(redis_cluster: RedisCluster, make_link: MakeLink) -> None:
    link = make_link(redis_cluster.url)
    for steps in range(0, 60, 3):
        task = asyncio.create_task(_forever(link))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=60)
        assert done, steps
        assert task.cancelled()
    assert await link.run("return ARGV[1]", [KEY], "in step") == b"in step"


async def _forever(link: RedisLink) -> None:
    await link.run(INCREASE, [KEY])
    await asyncio.Event().wait()


async def test_one_node_asked_as_if_it_were_alone_is_told(
    redis_cluster: RedisCluster, make_link: MakeLink
) -> None:
    node = redis_cluster.another(redis_cluster.owner(SLOT))
    link = make_link(f"redis://127.0.0.1:{node.port}/0")
    with pytest.raises(StoreUnavailable, match="write cluster://"):
        await link.ask(link.redis.get(KEY))
