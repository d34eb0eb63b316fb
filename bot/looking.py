"""Looks at the hosts and the engine of one startup when clock or core want it; nothing here waits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bot import log_sources, samples, sources
from bot.core.events import Member, ServiceName, Ticked
from bot.core.startup import Startup
from bot.crew import Crew
from bot.ground import Ground
from bot.sources import Link

if TYPE_CHECKING:
    import asyncio

_SMOKE = "smoke"


@dataclass(frozen=True, slots=True)
class Looks:
    ground: Ground
    service: ServiceName
    startup: Startup
    links: dict[Member, Link]
    crew: Crew

    @property
    def is_smoking(self) -> bool:
        """The smoke test runs."""
        return _SMOKE in self.crew.busy

    def follow(self) -> list[asyncio.Task[None]]:
        """The streams of each member, each with a redactor of its own: it remembers an open key."""
        return [task for link in self.links.values() for task in self._follow(link)]

    def _follow(self, link: Link) -> list[asyncio.Task[None]]:
        followers = {"journal": sources.follow_journal, "kernel": log_sources.follow_kernel}
        if link.log_file is not None:
            followers["log file"] = log_sources.follow_log_file
        return [
            self.crew.spawn(
                f"{name} {link.member}",
                partial(follow, link, self.crew.inbox, redactor=self.ground.make_redactor()),
            )
            for name, follow in followers.items()
        ]

    def tick(self) -> None:
        self.crew.once("tick", partial(self.crew.inbox.put, sources.Piece((Ticked(),))))

    def observe(self) -> None:
        for link in self.links.values():
            self.crew.once(f"unit {link.member}", partial(sources.observe_unit, link, self.crew.inbox))

    def probe(self) -> None:
        probe, asked = self.ground.probes[self.service], self.ground.clock.now()
        self.crew.once("probe", partial(sources.ask_engine, probe, self.crew.inbox, asked=asked))

    def sample(self) -> None:
        at, model = self.ground.clock.now(), self.startup.state.weights
        for link in self.links.values():
            work = partial(samples.sample_unit, link, self.crew.inbox, at=at, model=model)
            self.crew.once(f"sample {link.member}", work)

    def setup(self, member: Member) -> None:
        redactor = self.ground.make_redactor()
        work = partial(sources.look_at_setup, self.links[member], self.crew.inbox, redactor=redactor)
        self.crew.once(f"setup {member}", work)

    def smoke(self) -> None:
        probe, redactor = self.ground.probes[self.service], self.ground.make_redactor()
        self.crew.once(_SMOKE, partial(sources.run_smoke, probe, self.crew.inbox, redactor=redactor))
