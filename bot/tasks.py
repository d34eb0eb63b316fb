"""Every background task of the process: named, supervised, ended in bounded time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine

log = structlog.get_logger()


async def end_within(seconds: float, tasks: Collection[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """Wait for all of them at most so long; those that are late are cancelled, and returned."""
    if not tasks:
        return []
    _, late = await asyncio.wait(tuple(tasks), timeout=seconds)
    for task in late:
        task.cancel()
    return list(late)


class Tasks:
    """A vital task that ends, however it ends, stops the whole; any other failure is logged and forgotten."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._vital: set[asyncio.Task[Any]] = set()
        self._died: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()

    def spawn(self, name: str, work: Coroutine[Any, Any, Any], *, vital: bool = False) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        self._running.add(task)
        if vital:
            self._vital.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("task_failed", task=task.get_name(), error=repr(error), exc_info=error)
        if task in self._vital:
            self._vital.discard(task)
            self._died.put_nowait(task)

    async def died(self) -> str:
        """Wait until a vital task ended; its name."""
        return (await self._died.get()).get_name()

    async def close(self, *, grace: float) -> None:
        """Cancel what still runs and wait at most `grace` seconds for it; may be called twice."""
        tasks = tuple(self._running)
        self._vital.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                log.warning("task_did_not_end", task=task.get_name(), grace=grace)
