"""The outbox: brings every queued message to Slack, once and in order, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import structlog

from bot.clients.directory import Directory
from bot.clients.identity import new_owner
from bot.clients.slack_alerts import Alerts
from bot.clients.slack_calls import connect_slack
from bot.clients.slack_outlet import Outlet, Timing
from bot.clients.slack_session import open_session
from bot.clients.slack_thread import Sender
from bot.core.pacing import Pace, Pacing
from bot.errors import OwnershipLost, StoreUnavailable

if TYPE_CHECKING:
    from collections import Counter, deque
    from collections.abc import AsyncIterator, Callable, Iterable

    from slack_sdk.web.async_client import AsyncWebClient

    from bot.clients.store import Store
    from bot.core.events import ChannelId

SENDERS = 4096  # threads at once: one that waits costs next to nothing, and those of one channel may be many
LONGEST_PAUSE = 5.0  # seconds between looks while Redis is gone
_QUIET_WITHIN, _QUIET_POLL = 20.0, 0.1  # real seconds; a call of Slack ends sooner

log = structlog.get_logger()

__all__ = ["Directory", "Outbox", "Pace", "Timing", "connect_slack"]


class Outbox:
    """Looks for threads with something to send, and gives each a worker of its own.

    A thread that waits (for its rate, for Slack, for its root) holds up nobody else. Several processes may
    run an outbox on the same Redis: a thread is sent by one of them at a time, under a lease.
    """

    def __init__(
        self,
        web: AsyncWebClient,
        store: Store,
        *,
        pace: Pace | None = None,
        timing: Timing | None = None,
        fallback: ChannelId | None = None,
    ) -> None:
        """`web` must be built without retries of its own, as `connect_slack` does.

        `fallback`: the channel where is told what Slack refuses elsewhere for good.
        """
        if web.retry_handlers:
            raise ValueError("the outbox owns retries: build the client with retry_handlers=[]")
        self._timing = timing or Timing()
        self._queue = store.queue
        alerts = Alerts(store.queue, fallback)
        self._outlet = Outlet(web, store.queue, Pacing(pace), new_owner(), self._timing, alerts)
        self._senders: dict[str, Sender] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._fresh: set[str] = set()
        self._awake = asyncio.Event()
        self._lost_since: float | None = None
        self.beat = time.monotonic()  # when it last looked; it does so every few seconds, Redis or not
        store.queue.subscribe(self._queued)

    @property
    def counts(self) -> Counter[str]:
        """Messages "sent", "edited", "parked" and calls "failed", since this process began.

        "locked": how often Slack began to refuse the token.
        """
        return self._outlet.counts

    @property
    def delays(self) -> deque[float]:
        """Seconds from the queue to Slack's yes, of the newest thousand messages and edits."""
        return self._outlet.delays

    @property
    def locked(self) -> str | None:
        """Slack's code while it refuses our token and everything waits."""
        return self._outlet.locked

    @property
    def busy(self) -> int:
        """Threads that this process is sending just now."""
        return len(self._senders)

    async def until_quiet(self, thread: str) -> None:
        """A call that is under way brings its message, or not, before Slack is asked what it has."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_QUIET_WITHIN):
                while thread in self._senders:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(_QUIET_POLL)

    def subscribe_delay(self, listener: Callable[[float], None]) -> None:
        """`listener` hears each delay, in seconds, as it comes."""
        self._outlet.listeners.append(listener)

    async def depth(self) -> int:
        """How many messages wait in Redis, edits included, of all processes. Raises StoreUnavailable."""
        return await self._queue.pending()

    def wake(self) -> None:
        """Look now."""
        self._awake.set()

    async def run(self) -> None:
        """Forever, until cancelled; then every thread is let go, for another process to go on with."""
        async with self._session():
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._look_forever(), name="outbox-look")
                    group.create_task(self._renew_forever(), name="outbox-renew")
            finally:
                await self._stop()

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[None]:
        """Meanwhile the client's calls look at their lease once more when their connection stands."""
        web = self._outlet.web
        async with open_session(timeout=web.timeout, trust_env=web.trust_env_in_session) as session:
            before, web.session = web.session, session
            try:
                yield
            finally:
                web.session = before

    async def drain(self, timeout: float) -> bool:  # noqa: ASYNC109 - the public contract
        """True once everything queued was sent or parked; False when `timeout` seconds were not enough."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while await self._pending():  # noqa: ASYNC110 - another process may be the one that sends
                    await asyncio.sleep(min(0.05, self._timing.poll))
                return True
        return False

    async def _pending(self) -> bool:
        try:
            return await self._queue.pending() > 0
        except StoreUnavailable:
            return True

    def _queued(self, thread: str, present: bool) -> None:
        self._fresh.add(thread)
        sender = self._senders.get(thread)
        if sender is None:
            self._awake.set()
        elif not (present and sender.shows):  # it takes the newest when its turn comes
            sender.wake.set()

    async def _look_forever(self) -> None:
        looked = float("-inf")
        while True:
            self._awake.clear()
            self.beat = time.monotonic()
            threads: Iterable[str] = tuple(self._fresh)
            if time.monotonic() - looked >= self._timing.poll:
                threads = await self._look()
                looked = time.monotonic()
            self._start(threads)
            # Not wait_for: up to Python 3.11 it may swallow a cancellation that comes with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._awake.wait()

    async def _look(self) -> list[str]:
        """Every thread that may have something to send; none while Redis is gone."""
        self._outlet.pacing.prune(time.monotonic())
        try:
            threads = await self._queue.threads()
        except StoreUnavailable as error:
            self._lose(error)
            return []
        if self._lost_since is not None:
            log.info("redis_restored", seconds=round(time.monotonic() - self._lost_since, 1))
            self._lost_since = None
        return threads

    def _lose(self, error: StoreUnavailable) -> None:
        if self._lost_since is None:
            self._lost_since = time.monotonic()
            log.error("redis_unavailable", error=str(error))

    def _pause(self) -> float:
        """Longer the longer Redis is gone."""
        if self._lost_since is None:
            return self._timing.poll
        return min(LONGEST_PAUSE, max(self._timing.poll, (time.monotonic() - self._lost_since) / 2))

    def _start(self, threads: Iterable[str]) -> None:
        for thread in threads:
            if len(self._senders) >= SENDERS:
                return
            if thread not in self._senders:
                self._senders[thread] = Sender(thread, self._outlet)
                self._tasks[thread] = asyncio.create_task(self._serve(thread), name=f"outbox-{thread}")

    async def _serve(self, thread: str) -> None:
        """One worker, from its start to its end; its failure is its own."""
        self._fresh.discard(thread)
        try:
            await self._senders[thread].run()
        except StoreUnavailable as error:
            # Whether Redis is gone is for the look to say: this may be old news when Redis is back already.
            log.info("sender_interrupted", thread=thread, error=str(error))
        except OwnershipLost as error:
            log.info("thread_taken_over", thread=thread, error=str(error))
        except Exception:
            log.exception("sender_failed", thread=thread)
        finally:
            del self._senders[thread], self._tasks[thread]
            if thread in self._fresh:
                self._awake.set()

    async def _renew_forever(self) -> None:
        """Keep the leases of threads whose call takes long."""
        while True:
            await asyncio.sleep(self._timing.lease / 3)
            for thread, sender in tuple(self._senders.items()):
                with contextlib.suppress(StoreUnavailable):
                    await self._renew(thread, sender)

    async def _renew(self, thread: str, sender: Sender) -> None:
        before = sender.until
        try:
            until = await self._queue.renew(thread, self._outlet.owner, self._timing.lease)
        except OwnershipLost:
            # It was taken from us, or Redis came back empty; unless it was claimed anew meanwhile.
            if sender.until == before:
                sender.until = float("-inf")
        else:
            sender.until = max(sender.until, until)

    async def _stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
