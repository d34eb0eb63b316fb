"""The clock's jobs: they submit and end."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from bot.clock import Clock
from bot.schedule import Schedule
from tests.support.waiting import until

if TYPE_CHECKING:
    from bot.startups import Startups


@dataclass
class Counting:
    counts: Counter[str] = field(default_factory=Counter)
    threads: set[bool] = field(default_factory=set)
    broken: str = ""

    def _count(self, name: str) -> None:
        self.counts[name] += 1
        self.threads.add(asyncio.get_running_loop().is_running())
        if name == self.broken:
            raise ZeroDivisionError

    def tick(self) -> None:
        self._count("tick")

    def observe(self) -> None:
        self._count("observe")

    def probe(self) -> None:
        self._count("probe")

    def sample(self) -> None:
        self._count("sample")

    def adopt_soon(self) -> None:
        self._count("adopt_soon")

    def prune_soon(self) -> None:
        self._count("prune_soon")


@pytest.fixture
def counting() -> Counting:
    return Counting()


def make_schedule(counting: Counting, speed: float) -> Schedule:
    return Schedule(cast("Startups", counting), clock=Clock(speed))


@pytest.mark.parametrize(
    ("speed", "seconds"),
    [
        (1, {"tick": 1, "observe": 3, "probe": 10, "sample": 10, "adopt_soon": 2}),
        (100, {"tick": 0.1, "observe": 0.1, "probe": 0.1, "sample": 0.25, "adopt_soon": 2}),
    ],
)
async def test_each_is_due_in_told_time_and_never_faster_than_can_be_followed(
    counting: Counting, speed: float, seconds: dict[str, float]
) -> None:
    jobs = make_schedule(counting, speed)._scheduler.get_jobs()
    assert {job.name: job.trigger.interval.total_seconds() for job in jobs} == seconds
    assert all(job.max_instances == 1 and job.coalesce for job in jobs)
    assert all(job.misfire_grace_time is None for job in jobs)


async def test_all_three_are_submitted_in_the_loop_until_it_is_closed(counting: Counting) -> None:
    schedule = make_schedule(counting, 1000)
    schedule.start()
    await until(lambda: min(counting.counts[name] for name in ("tick", "observe", "probe")) >= 2)
    schedule.close()
    schedule.close()
    seen = counting.counts.copy()
    await asyncio.sleep(0.3)
    assert counting.counts == seen
    assert counting.threads == {True}


async def test_a_submission_that_fails_is_tried_again(counting: Counting) -> None:
    counting.broken = "tick"
    schedule = make_schedule(counting, 1000)
    schedule.start()
    await until(lambda: counting.counts["tick"] >= 3 and counting.counts["observe"] >= 3)
    schedule.close()


async def test_another_job_may_be_added_in_real_seconds(counting: Counting) -> None:
    schedule = make_schedule(counting, 1000)
    schedule.add(600, counting.prune_soon)
    [job] = [job for job in schedule._scheduler.get_jobs() if job.name == "prune_soon"]
    assert job.trigger.interval.total_seconds() == 600


async def test_what_was_never_started_may_be_closed(counting: Counting) -> None:
    make_schedule(counting, 1).close()
    assert counting.counts == {}
