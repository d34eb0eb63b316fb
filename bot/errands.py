"""What people ask for beside startups: a smoke test now, systemd's unit files read anew."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from bot.asking import Slow, ask_each, noticing
from bot.baselines import read_usual
from bot.clients.records import Outgoing
from bot.core.answers import render_sentence
from bot.core.events import ServiceName
from bot.core.request import operation_of
from bot.core.smoke import render_smoke, usual_of
from bot.core.words import join_names
from bot.errors import StoreUnavailable
from bot.ground import Ground
from bot.sources import Link, smoke_masked
from bot.startups import Startups

if TYPE_CHECKING:
    from bot.core.blocks import Message
    from bot.core.events import ChannelId, MessageTs, UserId

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Errands:
    """Every method raises StoreUnavailable."""

    ground: Ground
    startups: Startups
    _smoking: set[ServiceName] = field(default_factory=set)

    async def smoke(self, service: ServiceName, *, slow: Slow | None = None) -> Message:
        """Run the smoke test, unless one of this service runs already, in whatever process that lives."""
        running = self.startups.of(service)
        if service in self._smoking or (running is not None and running.looks.is_smoking):
            return _runs_already(service)
        self._smoking.add(service)  # of one process, all have the same lease
        try:
            async with noticing(self._reached(service), slow):
                return await self._smoke(service)
        finally:
            self._smoking.discard(service)

    def _reached(self, service: ServiceName) -> list[Link]:
        """Through whose host the engine is spoken to, where it is spoken to through one."""
        through = self.ground.section(service).reach == "ssh"
        return list(self.ground.links(service).values())[:1] if through else []

    async def _smoke(self, service: ServiceName) -> Message:
        store = self.ground.store
        lease = await store.leases.claim(f"smoke/{service}")
        if lease is None:
            return _runs_already(service)
        try:
            redactor = self.ground.make_redactor()
            result = await smoke_masked(self.ground.probes[service], redactor=redactor)
        finally:
            with suppress(StoreUnavailable):
                await store.leases.let_go(lease)
        return render_smoke(service, result, usual_of(await read_usual(store, service)))

    async def reload(self, service: ServiceName, *, slow: Slow | None = None) -> Message:
        """`systemctl daemon-reload` on each host of the service. Raises HostError."""
        hosts = {(link.host.name, link.scope): link for link in self.ground.links(service).values()}
        for link in hosts.values():
            await ask_each([link], _reload, slow=slow)
        names = join_names(dict.fromkeys(name for name, _ in hosts))
        told = (
            f"systemd on {names} has read its unit files anew. The next start of `{service}` runs with them."
        )
        return render_sentence(told)

    async def post(
        self, message: Message, *, by: UserId, channel: ChannelId, thread_ts: MessageTs, token: str = ""
    ) -> None:
        """The answer where all who read that thread see it; once for each `token`."""
        identity = f"answer-{operation_of(token or uuid.uuid4().hex)}"
        answer = Outgoing(
            id=identity,
            thread=identity,
            kind="reply",
            channel=channel,
            thread_ts=thread_ts,
            text=f"{message.text} (<@{by}>)",
            blocks=message.blocks,
        )
        await self.ground.store.enqueue([answer])
        self.ground.outbox.wake()


async def _reload(link: Link) -> None:
    await link.host.reload(scope=link.scope)
    log.info("units_reloaded", host=link.host.name, scope=link.scope)


def _runs_already(service: ServiceName) -> Message:
    return render_sentence(f"A smoke test of `{service}` runs already. Nothing was done.")
