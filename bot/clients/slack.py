"""The outbox: brings every queued message to Slack, once and in order, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from typing import TYPE_CHECKING

import structlog

from bot.clients.directory import Directory
from bot.clients.slack_calls import connect_slack
from bot.clients.slack_thread import Outlet, Sender, Timing
from bot.core.pacing import Pace, Pacing
from bot.errors import OwnershipLost, StoreUnavailable

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

    from slack_sdk.web.async_client import AsyncWebClient

    from bot.clients.store import Store

SENDERS = 256  # threads at once; the others wait for the next look
LONGEST_PAUSE = 5.0  # seconds between looks while Redis is gone

log = structlog.get_logger()

__all__ = ["Directory", "Outbox", "Pace", "Timing", "connect_slack"]


class Outbox:
    """Looks for threads with something to send, and gives each a worker of its own.

    A thread that waits (for its rate, for Slack, for its root) holds up nobody else. Several processes may
    run an outbox on the same Redis: a thread is sent by one of them at a time, under a lease.
    """

    def __init__(
        self, web: AsyncWebClient, store: Store, *, pace: Pace | None = None, timing: Timing | None = None
    ) -> None:
        """`web` must be built without retries of its own, as `connect_slack` does."""
        if web.retry_handlers:
            raise ValueError("the outbox owns retries: build the client with retry_handlers=[]")
        self._timing = timing or Timing()
        self._queue = store.queue
        self._outlet = Outlet(web, store.queue, Pacing(pace), uuid.uuid4().hex, self._timing)
        self._senders: dict[str, Sender] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._fresh: set[str] = set()
        self._awake = asyncio.Event()
        self._lost_since: float | None = None
        store.queue.subscribe(self._queued)

    @property
    def counts(self) -> Counter[str]:
        """Messages "sent", "edited", "parked" and calls "failed", since this process began."""
        return self._outlet.counts

    def wake(self) -> None:
        """Look now."""
        self._awake.set()

    async def run(self) -> None:
        """Forever, until cancelled; then every thread is let go, for another process to go on with."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._look_forever(), name="outbox-look")
                group.create_task(self._renew_forever(), name="outbox-renew")
        finally:
            await self._stop()

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

    def _queued(self, thread: str) -> None:
        self._fresh.add(thread)
        if sender := self._senders.get(thread):
            sender.wake.set()
        self._awake.set()

    async def _look_forever(self) -> None:
        looked = float("-inf")
        while True:
            self._awake.clear()
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
            for thread in tuple(self._senders):
                with contextlib.suppress(StoreUnavailable, OwnershipLost):
                    await self._queue.renew(thread, self._outlet.owner, self._timing.lease)

    async def _stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
