"""Plays a scenario without a host: unit, journal and engine in a loop whose time passes at once."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bot.clock import Clock
from bot.core.events import Member
from bot.core.journal import Decoder
from bot.core.phases import Tracker
from bot.core.redact import Redactor
from bot.practice.engine import Engine
from bot.practice.journal import Journal, render_json
from bot.practice.process import UnitFile
from bot.practice.program import ScenarioProgram
from bot.practice.units import Unit
from config.engine_file import load_engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bot.core.events import LogLine
    from bot.practice.scenarios import Scenario

NAME = "sglang-kimi.service"
MEMBER = Member(f"llm-two/{NAME}")


class LoopClock(Clock):
    """Told time is the loop's time: under looptime an hour is over as soon as nobody has anything to do."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._from = self._loop.time()

    def now(self) -> datetime:
        return self.origin.told + timedelta(seconds=self._loop.time() - self._from)


class Theatre:
    """One unit that was stopped, and its scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.clock = LoopClock()
        self.journal = Journal(self.clock)
        self.engine = Engine(self.clock, "kimi-k2.5")
        self.stray = Engine(self.clock, "kimi-k2.5")
        file = UnitFile(
            NAME, "Kimi", restart=scenario.restart, restart_after=scenario.restart_after, start_limit=99
        )
        pids = itertools.count(100)
        program = ScenarioProgram(
            scenario, engine=self.engine, stray=self.stray, clock=self.clock, pids=pids, cgroup=file.cgroup
        )
        self.unit = Unit(file, clock=self.clock, journal=self.journal, program=program, pids=pids)

    async def until(self, condition: Callable[[], object], *, hours: float = 2) -> None:
        deadline = self.clock.now() + timedelta(hours=hours)
        while not condition():
            assert self.clock.now() < deadline, "it never came to that"
            await self.clock.sleep(timedelta(seconds=1))

    def said(self, text: str) -> bool:
        return any(text in line for line in self.texts())

    def texts(self) -> list[str]:
        return [entry.text("MESSAGE") for entry in self.journal.entries]

    def lines(self) -> list[LogLine]:
        """All there is, through the product's own decoder."""
        decoder = Decoder(Redactor())
        rendered = (render_json(entry, all_fields=True) + "\n" for entry in self.journal.entries)
        return [*decoder.feed("".join(rendered).encode()), *decoder.close()]

    def track(self) -> Tracker:
        """What the product's own tracker makes of it."""
        tracker = Tracker(load_engine("sglang"))
        for line in self.lines():
            tracker.read(line, member=MEMBER, at=line.at or self.clock.now())
        return tracker


@asynccontextmanager
async def play(scenario: Scenario) -> AsyncIterator[Theatre]:
    """The scenario's first start has just been ordered."""
    theatre = Theatre(scenario)
    theatre.engine.reserve()
    theatre.stray.port = theatre.engine.port
    theatre.unit.open()
    theatre.unit.submit("start")
    try:
        yield theatre
    finally:
        await theatre.unit.close()
        await theatre.stray.close()
        theatre.engine.release()
