"""Background tasks: supervised, and ended in bounded time."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from bot.tasks import Tasks, end_within


async def fail() -> None:
    raise LookupError("gone")


async def test_a_failure_is_logged_with_the_task_s_name_and_hurts_nobody() -> None:
    tasks = Tasks()
    with capture_logs() as logs:
        task = tasks.spawn("answer", fail())
        await asyncio.wait({task})
        await asyncio.sleep(0)
    assert [(entry["event"], entry["task"]) for entry in logs] == [("task_failed", "answer")]


async def test_the_end_of_a_vital_task_is_told() -> None:
    tasks = Tasks()
    tasks.spawn("outbox", asyncio.sleep(0), vital=True)
    assert await asyncio.wait_for(tasks.died(), 1) == "outbox"


async def test_closing_cancels_and_may_be_done_twice() -> None:
    tasks = Tasks()
    task = tasks.spawn("follow", asyncio.sleep(3600), vital=True)
    await tasks.close(grace=1)
    await tasks.close(grace=1)
    assert task.cancelled()


async def test_a_task_that_will_not_end_is_named_and_left() -> None:
    tasks = Tasks()
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    task = tasks.spawn("stubborn", stubborn())
    await asyncio.sleep(0)
    with capture_logs() as logs:
        await tasks.close(grace=0.01)
    assert [entry["task"] for entry in logs] == ["stubborn"]
    release.set()
    await task


async def test_what_must_end_is_waited_for_so_long_and_then_cancelled() -> None:
    soon = asyncio.create_task(asyncio.sleep(0), name="soon")
    never = asyncio.create_task(asyncio.sleep(3600), name="never")
    assert await end_within(0.05, {soon, never}) == [never]
    await asyncio.wait({never})
    assert (soon.cancelled(), never.cancelled()) == (False, True)
    assert await end_within(0.05, ()) == []
