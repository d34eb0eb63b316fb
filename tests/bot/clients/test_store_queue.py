"""The queue: one sender a thread, nothing removed that was not accepted, nothing removed by a stranger."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.clients.records import Address, Parked
from bot.clients.redis_link import THREADS, thread_key
from bot.clients.store import Store
from bot.clients.store_queue import Claim, Queue, new_attempt
from bot.core.events import MessageTs
from bot.errors import OwnershipLost
from tests.support.outgoing import BEGAN, CHANNEL, edit, reply, root

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.clients.records import Outgoing

PLACE = Address(channel=CHANNEL, ts=MessageTs("1.2"))


@pytest_asyncio.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    store = await Store.open(redis_url)
    yield store
    await store.close()


@pytest.fixture
def queue(store: Store) -> Queue:
    return store.queue


async def claimed(queue: Queue, owner: str = "me", thread: str = "op1", lease: float = 5.0) -> Claim:
    """Without the moments at which the messages were queued."""
    claim = await queue.claim(thread, owner, lease)
    assert claim is not None
    return replace(claim, head=timeless(claim.head), edit=timeless(claim.edit))


def timeless(message: Outgoing | None) -> Outgoing | None:
    return message and message.model_copy(update={"queued": None})


async def test_a_message_knows_since_when_it_waits(queue: Queue) -> None:
    before = datetime.now(UTC)
    await queue.push("op1", [root()], {})
    claim = await queue.claim("op1", "me", 60)
    assert claim is not None
    assert claim.head is not None
    assert claim.head.queued is not None
    assert before <= claim.head.queued <= datetime.now(UTC)


async def test_of_edits_parked_in_a_row_the_newest_is_kept(queue: Queue) -> None:
    await queue.push("op1", [reply(1)], {})
    for text in ("old", "new"):
        await queue.push("op1", [edit(text)], {})
        claim = await claimed(queue)
        parked = Parked(outgoing=edit(text), method="chat.update", code="is_archived", at=datetime.now(UTC))
        await queue.park(claim, "me", parked)
    claim = await claimed(queue)
    head = Parked(outgoing=reply(1), method="chat.postMessage", code="is_archived", at=datetime.now(UTC))
    await queue.park(claim, "me", head)
    assert [entry.outgoing for entry in await queue.parked()] == [edit("new"), reply(1)]


async def test_an_unreadable_parked_message_is_in_nobody_s_way(store: Store) -> None:
    queue, key = store.queue, thread_key("op1", "parked")
    await queue.push("op1", [root()], {})
    claim = await claimed(queue)
    parked = Parked(outgoing=root(), method="chat.postMessage", code="is_archived", at=BEGAN)
    for garbage in ("{", "[]", '{"outgoing": 1}'):
        await store.link.ask(store.link.redis.rpush(key, garbage))
    await queue.park(claim, "me", parked)
    assert await queue.parked() == [parked]
    assert len(await store.unreadable()) == 3
    assert await queue.parked() == [parked]
    assert len(await store.unreadable()) == 3


async def test_a_thread_has_one_sender(queue: Queue) -> None:
    await queue.push("op1", [root()], {})
    await claimed(queue)
    assert await queue.claim("op1", "other", 5) is None
    await queue.let_go("op1", "other")
    assert await queue.claim("op1", "other", 5) is None
    await queue.let_go("op1", "me")
    assert (await claimed(queue, "other")).head == root()


async def left(store: Store) -> float:
    """Seconds of the lease of who sends the thread."""
    milliseconds = await store.link.redis.pttl(thread_key("op1", "sender"))
    return float(milliseconds) / 1000


async def test_a_lease_runs_out_unless_renewed(store: Store, queue: Queue) -> None:
    await queue.push("op1", [root()], {})
    await claimed(queue, lease=30.0)
    assert 0 < await left(store) <= 30.0
    await queue.renew("op1", "me", 60)
    assert 30.0 < await left(store) <= 60.0
    assert await queue.claim("op1", "other", 5) is None
    await queue.renew("op1", "me", 0.01)
    while await left(store) > 0:  # noqa: ASYNC110 - Redis alone knows
        await asyncio.sleep(0.005)
    await claimed(queue, "other")


async def test_who_lost_the_lease_changes_nothing(queue: Queue) -> None:
    await queue.push("op1", [root(), edit("now")], {})
    claim = await claimed(queue, "paused", lease=0.01)
    await asyncio.sleep(0.05)
    await claimed(queue, "other")
    parked = Parked(outgoing=root(), method="m", code="c", at=datetime.now(UTC))
    for change in (
        queue.accept(claim, "paused", PLACE),
        queue.edited(claim, "paused"),
        queue.attempt("op1", "paused", new_attempt(root())),
        queue.park(claim, "paused", parked),
        queue.anew(claim, "paused", reply(1)),
        queue.renew("op1", "paused", 5),
    ):
        with pytest.raises(OwnershipLost):
            await change
    assert await queue.pending() == 2
    assert await queue.parked() == []
    assert await queue.address("op1") is None


async def test_nothing_to_send_takes_no_lease(queue: Queue) -> None:
    assert (await claimed(queue)).head is None
    assert (await claimed(queue, "other")).head is None


async def test_accepting_twice_removes_once(queue: Queue) -> None:
    """The answer of the first was lost, and the client asked again."""
    await queue.push("op1", [root(), reply(1)], {})
    claim = await claimed(queue)
    await queue.accept(claim, "me", PLACE)
    await queue.accept(claim, "me", PLACE)
    assert (await claimed(queue)).head == reply(1)


async def test_an_attempt_is_seen_by_the_next_sender(queue: Queue) -> None:
    await queue.push("op1", [root()], {})
    await claimed(queue)
    attempt = new_attempt(root())
    await queue.attempt("op1", "me", attempt)
    await queue.let_go("op1", "me")
    assert (await claimed(queue, "next")).attempted == attempt
    await queue.withdraw(root(), "next")
    assert (await claimed(queue, "next")).attempted is None


async def test_what_comes_late_of_one_message_leaves_the_mark_of_the_next(queue: Queue) -> None:
    """Given up after a time-out and asked again, the first still was on its way."""
    await queue.push("op1", [root(), reply(1)], {})
    first = await claimed(queue)
    await queue.accept(first, "me", PLACE)
    await queue.attempt("op1", "me", new_attempt(reply(1)))
    await queue.accept(first, "me", PLACE)
    await queue.withdraw(root(), "me")
    assert (await claimed(queue)).attempted is not None
    await queue.withdraw(reply(1), "me")
    assert (await claimed(queue)).attempted is None


async def test_an_attempt_of_another_message_is_none_of_the_head(queue: Queue) -> None:
    await queue.push("op1", [root()], {})
    await claimed(queue)
    await queue.suspect(reply(9))
    claim = await claimed(queue)
    assert claim.attempt is not None
    assert claim.attempted is None


async def test_a_mark_that_comes_late_leaves_that_of_the_next(queue: Queue) -> None:
    """Twice over the same is the same; of a message that is through, it is nothing."""
    await queue.push("op1", [root(), reply(1)], {})
    first = await claimed(queue)
    late, mark = new_attempt(root()), new_attempt(reply(1))
    await queue.attempt("op1", "me", late)
    await queue.attempt("op1", "me", late)
    assert (await claimed(queue)).attempted == late
    await queue.accept(first, "me", PLACE)
    with pytest.raises(OwnershipLost):
        await queue.attempt("op1", "me", late)
    assert (await claimed(queue)).attempt is None
    await queue.attempt("op1", "me", mark)
    with pytest.raises(OwnershipLost):
        await queue.attempt("op1", "me", late)
    assert (await claimed(queue)).attempted == mark


async def test_of_an_empty_queue_nothing_is_marked(queue: Queue) -> None:
    await queue.push("op1", [edit("now")], {})
    await claimed(queue)
    with pytest.raises(OwnershipLost):
        await queue.attempt("op1", "me", new_attempt(root()))
    assert (await claimed(queue)).attempt is None


async def test_an_edit_that_came_meanwhile_stays(queue: Queue) -> None:
    await queue.push("op1", [edit("old")], {})
    claim = await claimed(queue)
    await queue.push("op1", [edit("new")], {})
    await queue.edited(claim, "me")
    assert (await claimed(queue)).edit == edit("new")


async def test_parking_twice_keeps_one(queue: Queue) -> None:
    await queue.push("op1", [root(), reply(1)], {})
    claim = await claimed(queue)
    parked = Parked(outgoing=root(), method="chat.postMessage", code="is_archived", at=datetime.now(UTC))
    for _ in range(2):
        await queue.park(claim, "me", parked)
    assert await queue.parked() == [parked]
    after = await claimed(queue)
    assert (after.head, after.refused) == (reply(1), "is_archived")


async def test_each_gone_message_is_replaced_once(queue: Queue) -> None:
    await queue.push("op1", [edit("now"), reply(1)], {})
    claim = await claimed(queue)
    takeover = edit("now").model_copy(update={"id": "op1:present:1.2", "kind": "present"})
    assert await queue.anew(claim, "me", takeover)
    assert await queue.anew(claim, "me", takeover)  # the answer of the first was lost
    after = await claimed(queue)
    assert (after.head, after.edit) == (takeover, None)
    await queue.accept(after, "me", PLACE)
    assert not await queue.anew(claim, "me", takeover)


async def test_a_root_goes_before_what_was_queued_earlier(queue: Queue) -> None:
    await queue.push("op1", [reply(1)], {})
    await queue.push("op1", [root()], {})
    assert (await claimed(queue)).head == root()


async def test_the_permalink_is_added_to_whatever_the_address_has_become(queue: Queue) -> None:
    await queue.push("op1", [root()], {})
    claim = await claimed(queue)
    await queue.accept(claim, "me", PLACE.model_copy(update={"present": MessageTs("3.4")}))
    await queue.link_address("op1", "https://slack.example/p12")
    address = await queue.address("op1")
    assert address is not None
    assert (address.present, address.permalink) == ("3.4", "https://slack.example/p12")
    await queue.link_address("unknown", "https://slack.example/p13")
    assert await queue.address("unknown") is None


async def test_a_thread_stays_indexed_while_something_may_be_on_its_way(store: Store) -> None:
    await store.queue.push("op1", [root()], {})
    await store.queue.rest("op1")
    assert await store.queue.threads() == ["op1"]
    await store.link.redis.zadd(THREADS, {"op1": 1.5})
    await store.queue.rest("op1")
    assert await store.queue.threads() == []


@pytest.mark.parametrize("part", ["edit", "address", "attempt"])
async def test_unreadable_parts_are_set_aside(store: Store, part: str) -> None:
    await store.queue.push("op1", [root()], {})
    await store.link.redis.set(thread_key("op1", part), b"rubbish")
    assert (await claimed(store.queue)).head == root()
    assert [aside.key for aside in await store.unreadable()] == [thread_key("op1", part)]


async def test_listeners_hear_of_threads(queue: Queue) -> None:
    heard: list[tuple[str, bool]] = []
    queue.subscribe(lambda thread, present: heard.append((thread, present)))
    await queue.push("op1", [root()], {})
    await queue.push("op2", [], {})
    await queue.push("op1", [edit("now")], {})
    await queue.push("op1", [edit("then"), reply(1)], {})
    assert heard == [("op1", False), ("op1", True), ("op1", False)]


DEAD_SENDER = """
import asyncio, sys
from bot.clients.identity import new_owner
from bot.clients.redis_link import RedisLink
from bot.clients.store_queue import Queue

async def main():
    claim = await Queue(RedisLink(sys.argv[1])).claim("op1", new_owner(), 600.0)
    print(claim.head_id, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""

TAKER = """
import asyncio, sys, time
from bot.clients.redis_link import RedisLink
from bot.clients.store_queue import Queue

async def main():
    queue, taken = Queue(RedisLink(sys.argv[1])), []
    print("ready", flush=True)
    sys.stdin.readline()
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        wait = await queue.take_token("channel", interval=0.05, burst=4)
        if not wait:
            taken.append(time.monotonic())
        else:
            await asyncio.sleep(wait / 2)
    print(*taken, flush=True)

asyncio.run(main())
"""


def other_process(code: str, url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


async def test_a_dead_sender_s_thread_is_taken_at_once(queue: Queue, redis_url: str) -> None:
    await queue.push("op1", [root()], {})
    sender = other_process(DEAD_SENDER, redis_url)
    try:
        assert sender.stdout is not None
        assert (await asyncio.to_thread(sender.stdout.readline)).strip() == root().id
        assert await queue.claim("op1", "me", 60) is None
    finally:
        sender.kill()
        sender.communicate()
    assert (await claimed(queue)).head == root()


async def test_a_claim_knows_how_long_it_surely_holds(queue: Queue) -> None:
    await queue.push("op1", [root()], {})
    before = time.monotonic()
    claim = await claimed(queue, lease=5.0)
    assert before + 5.0 <= claim.until <= time.monotonic() + 5.0
    before = time.monotonic()
    until = await queue.renew("op1", "me", 60.0)
    assert before + 60.0 <= until <= time.monotonic() + 60.0


async def test_two_processes_together_never_exceed_the_rate(redis_url: str) -> None:
    """In any stretch of time there are at most the burst and what the interval allows."""
    takers = [other_process(TAKER, redis_url) for _ in range(2)]
    outputs = [taker.stdout for taker in takers]
    for output in outputs:
        assert output is not None
        assert (await asyncio.to_thread(output.readline)).strip() == "ready"
    said = await asyncio.gather(*(asyncio.to_thread(taker.communicate, "go\n") for taker in takers))
    taken = sorted(float(word) for out, _ in said for word in out.split())
    assert all(out.strip() for out, _ in said), "one of them got nothing at all"
    assert len(taken) >= 4
    # Taken is noted when the answer arrives, up to a scheduler's pause late: over the whole stretch that
    # can only hide in the length of it, so the bound is over all, with the pause allowed once.
    pause = 0.2
    assert len(taken) <= 4 + (taken[-1] - taken[0] + pause) / 0.05 + 1


async def test_lanes_do_not_wait_for_each_other(queue: Queue) -> None:
    assert await queue.take_token("a", interval=60.0, burst=1) == 0.0
    assert 0 < await queue.take_token("a", interval=60.0, burst=1) <= 60.0
    assert await queue.take_token("b", interval=60.0, burst=1) == 0.0


async def test_a_token_comes_back_with_time(queue: Queue) -> None:
    assert await queue.take_token("a", interval=0.05, burst=1) == 0.0
    async with asyncio.timeout(60):
        while wait := await queue.take_token("a", interval=0.05, burst=1):
            assert wait <= 0.05
            await asyncio.sleep(wait)
