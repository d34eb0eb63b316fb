"""Leases, on a real Redis: one owner at a time, and one that was paused too long writes nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from bot.clients.leases import PROCESSES, Lease, Leases
from bot.clients.redis_link import RedisLink, thread_key
from bot.clients.scripts_lease import LEASE_PARTS, RENEW_LEASE
from bot.clients.store_epoch import EPOCH
from bot.errors import StoreUnavailable
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from tests.support.redis import RedisServer

SHORT = 0.3  # seconds: a lease that a test lets run out
LONG = 60.0

OTHER_PROCESS = """
import asyncio, sys
from bot.clients.leases import Leases
from bot.clients.redis_link import RedisLink

async def main():
    leases = Leases(RedisLink(sys.argv[1]), seconds=60.0)
    lease = await leases.claim("op1")
    await leases.renew()
    print(lease.number, leases.owner, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest_asyncio.fixture
async def link(redis_url: str) -> AsyncIterator[RedisLink]:
    link = RedisLink(redis_url)
    yield link
    await link.close()


@pytest.fixture
def first(link: RedisLink) -> Leases:
    return Leases(link, owner="first", seconds=LONG)


@pytest.fixture
def second(link: RedisLink) -> Leases:
    return Leases(link, owner="second", seconds=LONG)


@pytest.fixture
def other_process(redis_url: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, redis_url], stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


@asynccontextmanager
async def renewing(leases: Leases) -> AsyncIterator[None]:
    task = asyncio.create_task(leases.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def claimed(leases: Leases, name: str = "op1") -> Lease:
    lease = await leases.claim(name)
    assert lease is not None
    return lease


async def until_not(ask: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(60):
        while await ask():  # noqa: ASYNC110 - Redis tells nobody when a key runs out
            await asyncio.sleep(0.01)


async def expired(link: RedisLink, name: str = "op1") -> None:
    await until_not(lambda: link.ask(link.redis.exists(thread_key(name, "owner"))))


async def test_one_of_many_has_it(link: RedisLink) -> None:
    all_ = [Leases(link, owner=f"owner {number}", seconds=LONG) for number in range(20)]
    answers = await asyncio.gather(*(leases.claim("op1") for leases in all_))
    holding = [
        (leases, lease) for leases, lease in zip(all_, answers, strict=True) if lease and leases.holds(lease)
    ]
    assert len(holding) == 1
    assert answers.count(None) == 19


async def test_the_first_owner_follows_nobody(first: Leases) -> None:
    lease = await claimed(first)
    assert (lease.name, lease.away, lease.clean) == ("op1", None, True)
    assert first.holds(lease)


async def test_claiming_again_is_the_same_lease(first: Leases, link: RedisLink) -> None:
    lease = await claimed(first)
    assert await first.claim("op1") == lease
    # The answer to the first claim was lost, or the process forgot.
    assert await Leases(link, owner="first", seconds=LONG).claim("op1") == lease


async def test_let_go_in_order_is_told_to_the_next(first: Leases, second: Leases) -> None:
    before = await claimed(first)
    await first.let_go(before)
    assert not first.holds(before)
    after = await claimed(second)
    assert after.number > before.number
    assert after.clean
    assert after.away is not None
    assert timedelta() <= after.away < timedelta(minutes=1)


async def test_given_back_untouched_the_next_is_told_of_the_one_before(
    first: Leases, second: Leases, link: RedisLink
) -> None:
    brief = Leases(link, owner="brief", seconds=SHORT)
    await claimed(brief)
    await expired(link)
    await asyncio.sleep(0.3)  # it is away for longer than what follows takes
    found = await claimed(second)
    assert (found.clean, found.away is not None) == (False, True)
    await second.renew()
    await second.let_go(found, untouched=True)
    assert not await first.is_owned("op1")
    late = (f"second|{found.number}", found.number, 60_000, 60)
    assert await link.run(RENEW_LEASE, [thread_key("op1", part) for part in LEASE_PARTS], *late) == b"free"
    after = await claimed(first)
    assert not after.clean
    assert after.away is not None
    assert found.away is not None
    assert after.away >= found.away
    await first.let_go(after)
    ordered = await claimed(second)
    assert ordered.clean
    await second.let_go(ordered, untouched=True)
    assert (await claimed(first)).clean


async def test_what_becomes_of_leases_is_counted(first: Leases, second: Leases, link: RedisLink) -> None:
    await claimed(first, "op1")
    given = await claimed(first, "op2")
    assert first.held == 2
    await first.let_go(given)
    await link.ask(link.redis.delete(thread_key("op1", "owner")))  # as it runs out
    await claimed(second, "op1")
    await claimed(second, "op2")
    await first.renew()
    assert (first.held, first.counts) == (0, {"claimed": 2, "let_go": 1, "lost": 1})
    assert (second.held, second.counts) == (2, {"taken_over": 1, "claimed": 1})


async def test_what_another_has_cannot_be_let_go(link: RedisLink, second: Leases) -> None:
    paused = Leases(link, owner="paused", seconds=0.05)
    before = await claimed(paused)
    await expired(link)
    after = await claimed(second)
    await paused.let_go(before)
    await second.renew()
    assert second.holds(after)
    assert await paused.claim("op1") is None


async def test_a_lease_that_ran_out_is_taken_and_the_old_owner_hears_it(
    link: RedisLink, second: Leases
) -> None:
    paused, lost = Leases(link, owner="paused", seconds=SHORT), list[Lease]()
    paused.subscribe_lost(lost.append)
    before = await claimed(paused)
    await expired(link)
    after = await claimed(second)
    assert not paused.holds(before)
    assert (after.clean, after.number > before.number) == (False, True)
    assert after.away is not None
    assert after.away >= timedelta(seconds=SHORT)
    await paused.renew()
    await paused.renew()
    assert lost == [before]
    assert second.holds(after)


async def test_what_ran_out_while_nobody_wanted_it_goes_on(link: RedisLink) -> None:
    leases = Leases(link, owner="slow", seconds=SHORT)
    lease = await claimed(leases)
    await expired(link)
    assert not leases.holds(lease)
    leases.seconds = LONG
    await leases.renew()
    assert leases.holds(lease)
    assert await leases.claim("op1") == lease


async def test_renewal_keeps_it_as_long_as_the_process_runs(link: RedisLink, second: Leases) -> None:
    leases = Leases(link, owner="busy", seconds=1.5)
    lease = await claimed(leases)
    async with renewing(leases):
        for _ in range(20):
            await asyncio.sleep(0.1)
            assert await second.claim("op1") is None
        assert leases.holds(lease)
    await expired(link)
    assert (await claimed(second)).number > lease.number


async def test_a_renewal_that_overtakes_letting_go_does_not_take_it_back(
    link: RedisLink, first: Leases, second: Leases
) -> None:
    """Sent before the lease was let go, run after: Redis had it in its hands in the other order."""
    lease = await claimed(first)
    held = first._held["op1"]
    await first.let_go(lease)
    await first._renew(held)
    assert await link.ask(link.redis.exists(thread_key("op1", "owner"))) == 0
    assert (await claimed(second)).clean


async def test_a_dead_process_s_lease_is_taken_at_once(
    first: Leases, other_process: subprocess.Popen[str]
) -> None:
    assert other_process.stdout is not None
    number, owner = (await asyncio.to_thread(other_process.stdout.readline)).split()
    assert await first.claim("op1") is None
    assert await first.is_owned("op1")
    assert await first.alive(owner)
    assert owner in await first.processes()
    other_process.kill()
    other_process.wait()
    assert not await first.is_owned("op1")
    assert not await first.alive(owner)
    assert owner not in await first.processes()
    lease = await claimed(first)
    assert lease.number > int(number)
    assert (lease.clean, lease.away is not None) == (False, True)


async def test_of_many_that_find_the_dead_one_takes(
    link: RedisLink, other_process: subprocess.Popen[str]
) -> None:
    assert other_process.stdout is not None
    await asyncio.to_thread(other_process.stdout.readline)
    other_process.kill()
    other_process.wait()
    all_ = [Leases(link, owner=f"owner {number}", seconds=LONG) for number in range(10)]
    answers = await asyncio.gather(*(leases.claim("op1") for leases in all_))
    assert answers.count(None) == 9


async def test_numbers_grow_whatever_happens(own_redis: RedisServer) -> None:
    own = RedisLink(own_redis.url)
    numbers: list[int] = []
    for number in range(12):
        leases = Leases(own, owner=f"owner {number}", seconds=LONG)
        lease = await claimed(leases)
        numbers.append(lease.number)
        if number % 3 == 0:
            own_redis.ask("FLUSHALL")
        elif number % 3 == 1:
            await leases.let_go(lease)
        else:
            await own_redis.restart()
            await own.ask(own.redis.delete(thread_key("op1", "owner")))
    assert numbers == sorted(set(numbers))
    await own.close()


async def test_a_pause_of_redis_beyond_the_lease_costs_nothing_where_nobody_came(
    own_redis: RedisServer,
) -> None:
    link = RedisLink(own_redis.url, timeout=0.2)
    leases = Leases(link, owner="patient", seconds=SHORT)
    lease, lost = await claimed(leases), list[Lease]()
    leases.subscribe_lost(lost.append)
    async with renewing(leases):
        await until(lambda: leases.holds(lease))
        assert own_redis.ask(f"CLIENT PAUSE {int(SHORT * 5000)} ALL") == "+OK"
        await until(lambda: not leases.holds(lease))
        await until(lambda: leases.holds(lease))
    assert lost == []
    await link.close()


async def test_renewal_goes_on_after_redis_was_killed(own_redis: RedisServer) -> None:
    link = RedisLink(own_redis.url, timeout=0.5)
    leases = Leases(link, owner="patient", seconds=SHORT)
    lease = await claimed(leases)
    async with renewing(leases):
        await asyncio.to_thread(own_redis.kill)
        await until(lambda: not leases.holds(lease))
        with pytest.raises(StoreUnavailable):
            await leases.claim("op2")
        await asyncio.to_thread(own_redis.start)
        await until(lambda: leases.holds(lease))
    assert await leases.claim("op1") == lease
    await link.close()


async def test_closing_without_redis_is_quiet(own_redis: RedisServer) -> None:
    link = RedisLink(own_redis.url, timeout=0.2)
    leases = Leases(link, seconds=SHORT)
    lease = await claimed(leases)
    await leases.renew()
    await asyncio.to_thread(own_redis.kill)
    await leases.close()
    assert not leases.holds(lease)
    asked = link.errors
    await leases.close()  # a second time takes no more of the time that is left
    assert link.errors == asked
    await link.close()


@pytest.mark.parametrize("how", ["gone", "another's"])
async def test_a_redis_that_came_back_empty_is_told_once(first: Leases, link: RedisLink, how: str) -> None:
    told: list[str] = []
    await first.renew()
    before = await claimed(first)
    first.subscribe_emptied(lambda: told.append("still ours" if first.holds(before) else "emptied"))
    await link.ask(link.redis.flushall())
    if how == "another's":
        await link.ask(link.redis.set(EPOCH, "another's"))
    await first.renew()
    await first.renew()
    assert told == ["emptied"]
    assert not first.holds(before)
    await first.epoch.renew()
    after = await claimed(first)
    await first.renew()
    assert (told, first.holds(after), after.number > before.number) == (["emptied"], True, True)
    await link.ask(link.redis.flushall())
    await first.renew()
    assert told == ["emptied"] * 2


async def test_an_empty_redis_gives_no_old_lease(first: Leases, link: RedisLink) -> None:
    """Before any round of renewal has noticed."""
    before = await claimed(first)
    await link.ask(link.redis.flushall())
    after = await claimed(first)
    assert after.number > before.number
    assert not first.holds(before)


async def test_processes_are_those_that_live(link: RedisLink, first: Leases, second: Leases) -> None:
    assert await first.processes() == []
    passing = Leases(link, owner="passing", seconds=0.05)
    for leases in (second, first, passing):
        await leases.renew()
    await until_not(lambda: first.alive("passing"))
    assert await first.processes() == ["first", "second"]
    await second.close()
    assert await first.processes() == ["first"]
    await link.ask(link.redis.zadd(PROCESSES, {"passing": 1.5}))
    assert await first.processes() == ["first"]
    assert await link.ask(link.redis.zscore(PROCESSES, "passing")) is None


async def test_closing_lets_go_of_everything(first: Leases, second: Leases) -> None:
    for name in ("op1", "op2", "service/kimi"):
        await claimed(first, name)
    await first.renew()
    await first.close()
    for name in ("op1", "op2", "service/kimi"):
        assert (await claimed(second, name)).clean


async def test_a_round_renews_everything_and_tells_what_did_not_get_through(
    first: Leases, link: RedisLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = [await claimed(first, f"op{number}") for number in range(40)]
    for held in first._held.values():
        held.confirmed -= LONG
    assert not any(first.holds(lease) for lease in leases)
    run: Callable[..., Any] = link.run

    async def fail_for_one(script: str, keys: list[str], *words: Any) -> Any:
        if keys[0] == thread_key("op0", "owner"):
            raise StoreUnavailable("that node does not answer")
        return await run(script, keys, *words)

    monkeypatch.setattr(link, "run", fail_for_one)
    with pytest.raises(StoreUnavailable):
        await first.renew()
    assert [first.holds(lease) for lease in leases] == [False] + [True] * 39
