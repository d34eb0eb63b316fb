"""The outbox as a whole: killed, resumed, doubled, without Redis; and always each message once, in order."""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import pytest_asyncio
from slack_sdk.web.async_client import AsyncWebClient
from structlog.testing import capture_logs

from bot.clients.redis_link import THREADS, thread_key
from bot.clients.slack import Outbox, Pace, Timing
from bot.clients.slack_outlet import Few
from bot.clients.slack_thread import Sender
from bot.clients.store import Store
from bot.errors import OwnershipLost
from bot.practice.slack_faults import FaultPlan
from tests.support.outbox import BRISK, PATIENCE, QUICK, Stage, open_slack, open_stage, until
from tests.support.outgoing import CHANNEL, OTHER_CHANNEL, edit, operation, reply, root, upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from structlog.typing import EventDict

    from bot.practice.slack import PracticeSlack
    from bot.practice.slack_faults import Fault
    from tests.support.redis import OpenStore, RedisServer

T = TypeVar("T")
POST = "chat.postMessage"
AT_ONCE = 16


@pytest_asyncio.fixture
async def stage(redis_url: str) -> AsyncIterator[Stage]:
    async with open_stage(redis_url) as stage:
        yield stage


async def test_a_client_with_retries_of_its_own_is_refused(stage: Stage) -> None:
    with pytest.raises(ValueError, match="retry_handlers"):
        Outbox(AsyncWebClient(token="xoxb"), stage.store)


async def test_what_this_process_queues_goes_out_at_once(stage: Stage) -> None:
    """Long before the next look: the queue tells the outbox."""
    timing = Timing(lease=5, poll=60, settle=0.02)
    async with stage.outbox(timing=timing) as outbox:
        await asyncio.sleep(0.05)
        await stage.store.enqueue([root()])
        assert await outbox.drain(PATIENCE)
        await stage.store.enqueue([reply(1)])
        assert await outbox.drain(PATIENCE)
    assert stage.thread() == ["restarting", "reply 1"]


async def test_what_another_process_queued_is_found(stage: Stage, open_store: OpenStore) -> None:
    other = await open_store(f"unix://{stage.store.link.place.removeprefix('unix://')}")
    async with stage.outbox() as outbox:
        await other.enqueue([root(), reply(1)])
        assert await outbox.drain(PATIENCE)
    assert stage.thread() == ["restarting", "reply 1"]


async def test_killed_between_acceptance_and_record(stage: Stage) -> None:
    """Slack has the message, the process dies before Redis hears of it; the next one reads back."""
    for message in (root(), reply(1)):
        await stage.store.enqueue([message])
        outbox = stage.idle_outbox()
        outbox._queue.accept = never  # type: ignore[method-assign]
        running = asyncio.create_task(outbox.run())
        await until(partial(shows, stage, message.text))
        await kill(running)
        del outbox._queue.accept
        await stage.deliver()
    assert stage.thread() == ["restarting", "reply 1"]
    assert stage.calls(POST) == 2


def shows(stage: Stage, text: str) -> bool:
    return text in stage.thread()


async def never(*_: object, **__: object) -> None:
    await asyncio.Event().wait()


async def kill(running: asyncio.Task[Any]) -> None:
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_killed_at_any_point(own_redis: RedisServer) -> None:
    """Before and after each thing one thread's sender does to Redis or Slack, found by counting them."""
    async with open_slack() as slack:
        points = await _live_and_die(slack, f"{own_redis.url}?db=0", "C0WHOLE", None)
        assert points >= 40
        lives = (
            _live_and_die(slack, f"{own_redis.url}?db={point + 1}", f"C0{point}", point)
            for point in range(points)
        )
        await _a_few_at_once(lives)
        for channel in ("C0WHOLE", *(f"C0{point}" for point in range(points))):
            (found,) = slack.channel_messages(channel)
            texts = [message.text for message in slack.thread(channel, found.ts)]
            assert texts == ["healthy", "reply 1", "3 lines, 1 secret masked", "reply 3"], channel
        assert len(slack.files) == points + 1


async def test_killed_at_any_point_while_a_refused_thread_is_told_elsewhere(own_redis: RedisServer) -> None:
    async with open_slack() as slack:
        points = await _live_and_die(slack, f"{own_redis.url}?db=0", "C0NOWHERE", None, fallback="C0WHOLE")
        assert points >= 80
        points = min(points, 126)  # each has a database of its own
        lives = (
            _live_and_die(slack, f"{own_redis.url}?db={point + 1}", "C0NOWHERE", point, fallback=f"C0{point}")
            for point in range(points)
        )
        await _a_few_at_once(lives)
        for channel in ("C0WHOLE", *(f"C0{point}" for point in range(points))):
            (found,) = slack.channel_messages(channel)
            alert, *told = slack.thread(channel, found.ts)
            assert alert.plain.endswith("healthy"), channel
            assert [message.text for message in told] == ["reply 1", "3 lines, 1 secret masked", "reply 3"]
        assert len(slack.files) == points + 1


async def _a_few_at_once(lives: Iterable[Awaitable[int]]) -> None:
    """All together they would spend their leases waiting for the processor."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(life: Awaitable[int]) -> None:
        async with room:
            await life

    async with asyncio.TaskGroup() as group:
        for life in lives:
            group.create_task(one(life))


async def _live_and_die(
    slack: PracticeSlack, url: str, channel: str, point: int | None, *, fallback: str | None = None
) -> int:
    """One process that dies at the point, then one that lives; how many points there were."""
    store = await Store.open(url)
    slack.add_channel(fallback or channel, channel)
    messages = [root(), reply(1), upload(2), reply(3), edit("healthy")]
    here = [message.model_copy(update={"channel": channel}) for message in messages]
    await store.save(operation(), here, {"op1:2": b"log"})
    stage = Stage(slack, store)
    timing = Timing(lease=0.4, poll=0.05, settle=0.02)
    mortal = Mortal(stage.idle_outbox(timing=timing, fallback=fallback), point)
    running = asyncio.create_task(mortal.outbox.run())
    drained = asyncio.create_task(mortal.outbox.drain(PATIENCE))
    died = asyncio.create_task(mortal.died.wait())
    await asyncio.wait([died, drained], return_when=asyncio.FIRST_COMPLETED)
    for task in (running, died, drained):
        await kill(task)
    mortal.revive()
    async with stage.outbox(timing=timing, fallback=fallback) as outbox:
        assert await outbox.drain(30)
    await store.close()
    return mortal.passed


class Mortal:
    """An outbox that does nothing any more, not even let go, once it has passed so many points."""

    def __init__(self, outbox: Outbox, point: int | None) -> None:
        self.outbox = outbox
        self.died = asyncio.Event()
        self.passed = 0
        self._point = point
        self._link, self._web = outbox._queue._link, outbox._outlet.web
        self._run, self._call = self._link.run, self._web.api_call
        self._link.run = self._before_and_after(self._run)  # type: ignore[method-assign, assignment]
        self._web.api_call = self._before_and_after(self._call)  # type: ignore[method-assign, assignment]

    def revive(self) -> None:
        """Redis' link is shared with the next process."""
        self._link.run = self._run  # type: ignore[method-assign]

    def _before_and_after(self, does: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        async def mortal(*arguments: Any, **named: Any) -> T:
            self._pass()
            answer = await does(*arguments, **named)
            self._pass()
            return answer

        return mortal

    def _pass(self) -> None:
        if self.passed == self._point:
            self.died.set()
            raise asyncio.CancelledError
        self.passed += 1


async def test_a_dead_process_keeps_its_thread_no_longer_than_its_lease(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    assert await stage.store.queue.claim("op1", "dead", 0.3) is not None
    began = time.monotonic()
    await stage.deliver()
    assert time.monotonic() - began > 0.2
    assert stage.thread() == ["restarting"]


async def test_a_lease_that_is_gone_before_its_time_stops_the_next_call(stage: Stage) -> None:
    """Redis came back empty: what follows is for who rebuilds it."""
    await stage.store.enqueue([root()])
    outbox = stage.idle_outbox()
    sender = Sender("op1", outbox._outlet)
    claim = await stage.store.queue.claim("op1", outbox._outlet.owner, 60)
    assert claim is not None
    sender.until = claim.until
    await outbox._renew("op1", sender)
    sender.assure()
    await stage.store.link.redis.flushdb()
    await outbox._renew("op1", sender)
    with pytest.raises(OwnershipLost):
        sender.assure()


async def test_two_outboxes_send_each_message_once(stage: Stage) -> None:
    async with stage.outbox() as one, stage.outbox() as two:
        for number in range(5):
            thread = f"op{number}"
            await stage.store.save(operation(thread), [root(thread, thread=thread)])
            await stage.store.enqueue([reply(1, thread=thread), reply(2, thread=thread)])
        assert await one.drain(PATIENCE)
        assert await two.drain(PATIENCE)
    roots = stage.slack.channel_messages(CHANNEL)
    assert sorted(message.text for message in roots) == [f"op{number}" for number in range(5)]
    for message in roots:
        texts = [entry.text for entry in stage.slack.thread(CHANNEL, message.ts)]
        assert texts == [message.text, "reply 1", "reply 2"]


async def test_a_channel_that_hangs_holds_up_nobody_else(stage: Stage) -> None:
    stage.slack.faults.add(POST, FaultPlan.hang(0.4, accept=False))
    await stage.store.enqueue([root(thread="slow")])
    async with stage.outbox() as outbox:
        await stage.slack.wait_for(lambda slack: slack.calls, 60)
        await stage.store.enqueue([root(thread="quick", channel=OTHER_CHANNEL)])
        await stage.slack.wait_for(lambda slack: slack.channel_messages(OTHER_CHANNEL), 60)
        assert stage.slack.channel_messages(CHANNEL) == []
        assert await outbox.drain(PATIENCE)
    assert stage.thread() == ["restarting"]


SLOW: dict[str, Fault] = {"429": FaultPlan.rate_limited(30), "hangs": FaultPlan.hang(30, accept=False)}


@pytest.mark.parametrize("fault", SLOW.values(), ids=SLOW.keys())
async def test_nobody_waits_for_a_slow_channel(stage: Stage, fault: Fault) -> None:
    """A crowd of threads in it, all stuck; one elsewhere, with the pace of every day."""
    everything = stage.slack.faults
    everything.add("*", fault, times=None, where=lambda arguments: arguments.get("channel") == CHANNEL)
    async with stage.outbox(pace=Pace(), call_seconds=60.0) as outbox:
        for number in range(40):
            name = f"slow{number}"
            await stage.store.enqueue([root(thread=name), reply(1, thread=name), edit("x", thread=name)])
        await stage.slack.wait_for(lambda slack: slack.calls, 60)
        for number in (1, 2, 3):
            thread = {"thread": "quick", "channel": OTHER_CHANNEL}
            messages = [root(**thread), reply(number, **thread), edit(f"now {number}", **thread)]
            await stage.store.enqueue(messages)
            await stage.slack.wait_for(partial(lies_there, stage, f"reply {number}"), PATIENCE)
        await stage.slack.wait_for(partial(lies_there, stage, "now 3"), PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while await outbox.depth() > 40 * 3:  # noqa: ASYNC110 - Slack has it before the queue lets it go
                await asyncio.sleep(0.01)
        assert stage.slack.channel_messages(CHANNEL) == []
        assert len(outbox.delays) >= 5
        assert max(outbox.delays) < 15  # the pace alone takes some of it
    assert stage.thread(OTHER_CHANNEL) == ["now 3", "reply 1", "reply 2", "reply 3"]


def lies_there(stage: Stage, text: str, _: PracticeSlack) -> bool:
    return text in stage.thread(OTHER_CHANNEL)


async def test_the_rate_of_a_channel_is_that_of_all_processes_together(stage: Stage) -> None:
    pace = Pace(post_interval=0.15, post_burst=2, edit_interval=0.1, edit_burst=2, root_interval=0.1)
    async with stage.outbox(pace=pace) as one, stage.outbox(pace=pace) as two:
        await stage.store.enqueue([root(thread=f"op{number}") for number in range(8)])
        assert await one.drain(PATIENCE)
        assert one.counts["sent"] + two.counts["sent"] == 8
    moments = [call.at for call in stage.slack.calls if call.method == POST]
    for first, last in zip(moments, moments[2:], strict=False):
        assert last - first > 0.12


async def test_numbers_for_whoever_measures(stage: Stage) -> None:
    heard: list[float] = []
    async with stage.outbox() as outbox:
        outbox.subscribe_delay(heard.append)
        await stage.store.enqueue([root(), reply(1), reply(2, channel="C0NOWHERE", thread_ts="1.2")])
        await stage.store.enqueue([edit("now")])
        assert await outbox.drain(PATIENCE)
        await until(lambda: outbox.busy == 0)
        assert dict(outbox.counts) == {"sent": 2, "edited": 1, "parked": 1}
        assert list(outbox.delays) == heard
        assert len(heard) == 3
        assert await outbox.depth() == 0
        assert outbox.locked is None


async def test_memory_does_not_grow_with_the_threads_ever_sent(stage: Stage) -> None:
    stage.slack.faults.add("chat.getPermalink", FaultPlan.error("message_not_found"), times=None)
    async with stage.outbox() as outbox:
        outbox._outlet.sent = Few(8)
        for number in range(20):
            await stage.store.enqueue([root(thread=f"op{number}")])
        assert await outbox.drain(PATIENCE)
    assert len(outbox._outlet.sent) == 8
    assert len(stage.slack.channel_messages(CHANNEL)) == 20
    assert 0 < len(outbox._outlet.link_tries) <= 20


async def test_meanwhile_the_client_has_a_session_and_then_none(stage: Stage) -> None:
    async with stage.outbox() as outbox:
        web = outbox._outlet.web
        await until(lambda: web.session is not None)
        session = web.session
    assert session is not None
    assert session.closed
    assert web.session is None
    await web.chat_postMessage(channel=CHANNEL, text="as before")


async def test_messages_of_a_channel_are_spaced(stage: Stage) -> None:
    pace = Pace(post_interval=0.1, post_burst=2, edit_interval=0.1, edit_burst=2, root_interval=0.1)
    await stage.store.enqueue([root(), *(reply(number) for number in range(5))])
    await stage.deliver(pace=pace)
    moments = [call.at for call in stage.slack.calls if call.method == POST]
    for first, last in zip(moments, moments[2:], strict=False):
        assert last - first > 0.08


async def test_slack_gone_and_back(redis_url: str, open_store: OpenStore) -> None:
    store = await open_store(redis_url)
    async with open_slack() as gone:
        await gone.stop()
        stage = Stage(gone, store)
        async with stage.outbox() as outbox:
            await store.enqueue([root(), reply(1)])
            assert not await outbox.drain(0.3)
            await gone.start(int(gone.url.rpartition(":")[2]))
            assert await outbox.drain(PATIENCE)
        assert stage.thread() == ["restarting", "reply 1"]


def events(logs: Sequence[EventDict]) -> list[str]:
    return [str(entry["event"]) for entry in logs]


async def test_redis_killed_in_the_middle(own_redis: RedisServer) -> None:
    async with open_stage(own_redis.url) as stage:
        with capture_logs() as logs:
            async with stage.outbox() as outbox:
                await stage.store.enqueue([root(), reply(1)])
                await stage.slack.wait_for(lambda slack: slack.channel_messages(CHANNEL), 60)
                await asyncio.to_thread(own_redis.kill)
                await until(lambda: "redis_unavailable" in events(logs))
                assert not await outbox.drain(0.1)
                await asyncio.to_thread(own_redis.start)
                outbox.wake()
                await stage.store.enqueue([reply(2), edit("healthy")])
                assert await outbox.drain(PATIENCE)
        assert stage.thread() == ["healthy", "reply 1", "reply 2"]
    assert [event for event in events(logs) if event.startswith("redis_")] == [
        "redis_unavailable",
        "redis_restored",
    ]


async def test_redis_gone_at_the_acceptance(own_redis: RedisServer) -> None:
    """Slack accepts while Redis is away: once it is back, the message is known and not sent again."""
    async with open_stage(own_redis.url) as stage:
        stage.slack.faults.add(POST, FaultPlan.hang(0.3))
        async with stage.outbox(timing=Timing(lease=30, poll=0.05, settle=0.02)) as outbox:
            await stage.store.enqueue([root(), reply(1)])
            await stage.slack.wait_for(lambda slack: slack.calls, 60)
            await asyncio.to_thread(own_redis.kill)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(own_redis.start)
            assert await outbox.drain(PATIENCE)
        assert stage.thread() == ["restarting", "reply 1"]
        assert stage.calls(POST) == 2


async def test_an_unreadable_message_is_set_aside_and_the_rest_goes_on(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    key = thread_key("op1", "queue")
    await stage.store.link.redis.rpush(key, b'{"schema_version": 7}')
    await stage.store.enqueue([reply(1)])
    await stage.deliver()
    assert stage.thread() == ["restarting", "reply 1"]
    (aside,) = await stage.store.unreadable()
    assert (aside.key, aside.raw) == (key, '{"schema_version": 7}')


async def no_threads(stage: Stage) -> bool:
    return await stage.store.link.redis.zcard(THREADS) == 0


async def test_threads_at_rest_leave_the_index(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.clients.store_queue.GRACE", 0.1)
    await stage.store.enqueue([root()])
    async with stage.outbox():
        await until(lambda: no_threads(stage))
    assert stage.thread() == ["restarting"]


async def test_a_fault_of_our_own_ends_one_sender_and_not_the_outbox(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {"op1"}

    async def fails_once(*_: object, **__: object) -> None:
        """Stands where the thread is read back."""
        broken.clear()
        raise ZeroDivisionError

    monkeypatch.setattr("bot.clients.slack_thread.read_back", fails_once)
    stage.slack.faults.add(POST, FaultPlan.status(500))
    with capture_logs() as logs:
        async with stage.outbox() as outbox:
            await stage.store.enqueue([root()])
            await until(lambda: not broken)
            monkeypatch.undo()
            assert await outbox.drain(PATIENCE)
    assert "sender_failed" in events(logs)
    assert stage.thread() == ["restarting"]


async def test_stopping_hands_the_thread_over_at_once(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    stage.slack.faults.add(POST, FaultPlan.hang(0.4, accept=False), times=None)
    async with stage.outbox(timing=Timing(lease=60, poll=0.05, settle=0.02)):
        await stage.slack.wait_for(lambda slack: slack.calls, 60)
    stage.slack.faults.clear()
    await stage.deliver()
    assert stage.thread() == ["restarting"]


async def test_many_threads_in_many_channels(stage: Stage) -> None:
    names = [f"op{number}" for number in range(30)]
    for number, name in enumerate(names):
        stage.slack.add_channel(f"C0{number}", name)
        outgoing = [
            root(thread=name),
            reply(1, thread=name),
            reply(2, thread=name),
            edit("done", thread=name),
        ]
        here = [message.model_copy(update={"channel": f"C0{number}"}) for message in outgoing]
        await stage.store.save(operation(name), here)
    await stage.deliver(pace=BRISK)
    for number in range(30):
        assert stage.thread(f"C0{number}") == ["done", "reply 1", "reply 2"]
    assert QUICK.lease > 0
