"""When services are looked at: never later than they want, and together."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.events import ServiceName
from bot.watch_entries import Entry
from bot.watch_times import hasten, take_due

EVERY = 15.0
HOUR = 240 * EVERY


@dataclass
class Day:
    """Ten services and a clock; a look takes `lasts` seconds. `doubt`: until when each is in doubt."""

    everys: list[float] = field(default_factory=lambda: [EVERY] * 10)
    lasts: float = 0.4
    now: float = 100.0
    doubt: dict[str, float] = field(default_factory=dict)
    commands: int = 0
    looks: dict[str, list[float]] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number, every in enumerate(self.everys):
            entry = Entry(cast("Any", None), ServiceName(f"s{number}"), every=every, pace=every, due=self.now)
            self.entries.append(entry)

    def pause(self, entry: Entry) -> float:
        return entry.pace * 0.8 if self.doubt.get(str(entry.service), 0) > self.now else entry.pace

    def pass_time(self, seconds: float) -> None:
        """Rounds that end in order; the next begins when one is due."""
        end = self.now + seconds
        while (due := min(each.due for each in self.entries)) < end:
            self.now = max(due, self.now)
            taken = take_due(self.entries, self.now, pause_of=self.pause)
            if taken:
                self.commands += 1
            for entry in taken:
                self.looks.setdefault(str(entry.service), []).append(self.now)
            self.now += self.lasts
            for entry in taken:
                entry.busy = False
            hasten(self.entries, pause_of=self.pause)
        self.now = end

    def gaps(self, service: str) -> list[float]:
        looks = self.looks[service]
        return [after - before for before, after in pairwise(looks)]


def test_ten_services_of_a_host_are_one_command_for_each_every() -> None:
    day = Day()
    day.pass_time(HOUR)
    assert day.commands == 240
    assert {len(looks) for looks in day.looks.values()} == {240}


def test_those_that_were_in_doubt_join_the_others_again() -> None:
    day = Day()
    draw = random.Random(1)  # noqa: S311 - a day that can be had again
    for _ in range(10):
        for entry in day.entries:
            if draw.random() < 0.3:
                day.doubt[str(entry.service)] = day.now + draw.uniform(1, 60)
        hasten(day.entries, pause_of=day.pause)
        day.pass_time(200)
    day.pass_time(60)
    before = day.commands
    day.pass_time(HOUR)
    assert day.commands - before == 240


def test_services_of_different_pace_go_together_where_they_meet() -> None:
    day = Day([15.0] * 5 + [16.0] * 3 + [60.0] * 2)
    day.pass_time(HOUR)
    assert day.commands <= 250
    assert len(day.looks["s9"]) <= 62  # nobody is looked at as often as those who want it more


def test_whoever_begins_does_so_with_a_shorter_pause_and_all_of_a_host_alike() -> None:
    day = Day()
    taken = take_due(day.entries, day.now, pause_of=day.pause, first=0.6)
    assert len(taken) == 10
    assert {entry.due for entry in taken} == {day.now + 0.6 * EVERY}


def test_one_that_is_still_out_is_not_taken_again() -> None:
    day = Day()
    [one] = take_due(day.entries[:1], day.now, pause_of=day.pause)
    assert take_due([one], day.now + 10 * EVERY, pause_of=day.pause) == []


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.sampled_from([5.0, 15.0, 15.0, 20.0, 60.0]), min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(0, 9), st.floats(1, 100)), max_size=10),
)
def test_nobody_is_looked_at_later_than_wanted(everys: list[float], doubts: list[tuple[int, float]]) -> None:
    day = Day(everys)
    for number, lasting in doubts:
        day.doubt[f"s{number}"] = day.now + lasting
        hasten(day.entries, pause_of=day.pause)
        day.pass_time(90)
    for entry in day.entries:
        gaps = day.gaps(str(entry.service)) if str(entry.service) in day.looks else []
        assert max(gaps, default=0.0) <= entry.every + 10 * day.lasts  # rounds here stand in line


@pytest.mark.parametrize("late", [0.01, 5.0, 40.0])
def test_a_busy_machine_makes_looks_late_but_not_many(late: float) -> None:
    day = Day(lasts=late)
    day.pass_time(HOUR)
    assert day.commands <= 240
