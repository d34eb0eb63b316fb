"""What the practice unit runs: a scenario's script of the start it is, on a stage of its own."""

from __future__ import annotations

import asyncio
import itertools
import signal
from typing import TYPE_CHECKING

from bot.practice.past import write_past
from bot.practice.process import EXITED, KILLED, Exit, Process
from bot.practice.scenarios import Scenario, Script, Stage
from bot.practice.scenarios.loading import serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from bot.clock import Clock
    from bot.practice.engine import Engine


_IDLE_CORES = 0.6


class ScenarioProgram:
    """Each run plays the scenario's next script; a run resumed from the past just serves."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        engine: Engine,
        stray: Engine,
        clock: Clock,
        pids: Iterator[int],
        cgroup: str,
    ) -> None:
        self.scenario = scenario
        self.settled = asyncio.Event()  # a resumed run answers
        self._engine = engine
        self._stray = stray
        self._clock = clock
        self._pids = pids
        self._cgroup = cgroup
        self._starts = itertools.count()
        self._since: datetime | None = None

    def resume_from(self, since: datetime) -> None:
        """The next run is one that has been serving since then."""
        self._since = since

    async def run(self, process: Process) -> Exit:
        stage = Stage(
            process,
            engine=self._engine,
            stray=self._stray,
            clock=self._clock,
            ranks=self.scenario.ranks,
            pids=self._pids,
            cgroup=self._cgroup,
        )
        try:
            return await self._play(self._next_script(), stage)
        finally:
            await self._engine.close()

    def _next_script(self) -> Script:
        if self._since is None:
            return self.scenario.script(next(self._starts))
        return self._go_on

    async def _go_on(self, stage: Stage) -> None:
        since, self._since = self._since, None
        await stage.open_port()
        stage.up()
        if since is not None:
            stage.process.meter.credit(cores=_IDLE_CORES, since=since)
            write_past(stage.process, since=since, until=self._clock.now(), pid=stage.pids[0])
        stage.busy(cores=_IDLE_CORES)
        self.settled.set()
        await (self.scenario.serving or serve)(stage)

    async def _play(self, script: Script, stage: Stage) -> Exit:
        playing = asyncio.ensure_future(script(stage))
        asked = asyncio.ensure_future(stage.process.terminated.wait())
        try:
            await asyncio.wait({playing, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not playing.done() and not stage.draining:
                return Exit(KILLED, signal.SIGTERM)  # nobody handles SIGTERM before the server runs
            await playing
        finally:
            for task in (playing, asked):
                task.cancel()
            await asyncio.gather(playing, asked, return_exceptions=True)
        return Exit(EXITED, 0)
