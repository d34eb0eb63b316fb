"""Named tasks: none twice at once, and a fault of one is a fault of all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bot.crew import Crew
from bot.errors import OwnershipLost
from bot.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.looptime


class Losses:
    def __init__(self) -> None:
        self.heard = 0

    def lose(self) -> None:
        self.heard += 1


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    tasks = Tasks()
    yield tasks
    await tasks.close(grace=1)


async def sleep() -> None:
    await asyncio.sleep(10)


async def test_of_one_name_one_runs_and_another_may_once_it_has_ended(tasks: Tasks) -> None:
    crew, begun = Crew(tasks, "kimi", Losses().lose), []

    async def work() -> None:
        begun.append(1)
        await sleep()

    for _ in range(3):
        crew.once("probe", work)
    await crew.wait()
    assert (len(begun), crew.busy) == (1, {})
    crew.once("probe", work)
    assert list(crew.busy) == ["probe"]
    crew.is_over = True
    crew.once("other", work)
    assert list(crew.busy) == ["probe"]


async def test_some_are_waited_for_or_ended_by_how_their_names_begin(tasks: Tasks) -> None:
    crew = Crew(tasks, "kimi", Losses().lose)
    for name in ("order to a", "upload 3", "tick"):
        crew.once(name, sleep)
    await crew.wait("order to ", within=1)
    assert set(crew.busy) == {"order to a", "upload 3", "tick"}
    crew.cancel(but="upload ")
    await asyncio.sleep(0.1)
    assert set(crew.busy) == {"upload 3"}
    crew.cancel("upload ")
    await crew.wait("upload ")
    assert crew.busy == {}


async def test_what_breaks_wakes_the_consumer_and_the_first_fault_counts(tasks: Tasks) -> None:
    crew = Crew(tasks, "kimi", Losses().lose)

    async def divide() -> None:
        raise ZeroDivisionError

    async def look_up() -> None:
        raise LookupError

    crew.once("a", divide)
    await crew.inbox.get()
    crew.spawn("b", look_up)
    await crew.inbox.get()
    assert isinstance(crew.broken, ZeroDivisionError)


async def test_a_full_queue_needs_no_waking(tasks: Tasks) -> None:
    crew = Crew(tasks, "kimi", Losses().lose, asyncio.Queue(1))
    crew.wake()
    crew.wake()
    assert crew.inbox.qsize() == 1


async def test_ownership_that_is_lost_is_no_fault(tasks: Tasks) -> None:
    losses = Losses()
    crew = Crew(tasks, "kimi", losses.lose)

    async def save() -> None:
        raise OwnershipLost("another process has it")

    crew.once("record", save)
    await crew.wait()
    assert (losses.heard, crew.broken, crew.inbox.qsize()) == (1, None, 0)
