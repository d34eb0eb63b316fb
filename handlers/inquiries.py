"""What is only asked, and changes nothing: help, status, logs, history, why."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.core.access import is_operator
from bot.core.answers import render_help, render_logs_coming, render_sentence
from bot.core.command import Command, Word
from bot.core.retrospect import render_history, render_why
from bot.core.status import render_status
from bot.core.words import count, spell_duration

if TYPE_CHECKING:
    from bot.core.events import ServiceName
    from bot.core.request import StatusView
    from handlers.parts import Parts
    from handlers.turns import Turn
    from handlers.understanding import Understanding


class Inquiries:
    """Whoever asks may: that was judged before."""

    def __init__(self, parts: Parts, who: Understanding) -> None:
        self._parts = parts
        self._who = who

    async def overview(self, command: Command, turn: Turn) -> None:
        """Of `help`, and of `status`, which without a service is of all that may be named here."""
        if command.verb is Word.HELP:
            await self._help(turn)
        else:
            named = (command.service,) if command.service is not None else self._who.visible(turn.speaker)
            await self._status(named, turn)

    async def _help(self, turn: Turn) -> None:
        services, groups = self._who.visible(turn.speaker), await self._who.groups(None)
        configuration = self._parts.configuration
        operated = [name for name in services if is_operator(configuration, turn.intent.user, name, groups)]
        await turn.tell(render_help(services=services, operated=operated))

    async def _status(self, services: tuple[ServiceName, ...], turn: Turn) -> None:
        views = await asyncio.gather(*(self._view(name) for name in services))
        await turn.tell(render_status(views))

    async def _view(self, service: ServiceName) -> StatusView:
        incidents = self._parts.incidents
        view = await self._parts.startups.status(service)
        outage, mute = await incidents.outage_of(service), await incidents.mute_of(service)
        if mute is None:
            return replace(view, outage=outage)
        return replace(view, outage=outage, muted=mute.until, muted_with=mute.host)

    async def logs(self, command: Command, service: ServiceName, turn: Turn) -> None:
        speaker = turn.speaker
        if speaker.channel is None:
            await turn.tell(render_sentence("Ask for logs in a channel."))
            return
        await turn.tell(render_logs_coming(service, _amount(command)))
        refused = await self._parts.startups.logs(
            service,
            lines=command.lines,
            since=command.since,
            by=speaker.user,
            channel=speaker.channel,
            thread_ts=speaker.thread_ts,
            token=turn.intent.token,
            slow=turn.tell_slow,
        )
        if refused is not None:
            await turn.tell(render_sentence(refused))

    async def history(self, service: ServiceName, turn: Turn) -> None:
        """The table in private; the picture, which Slack shows nobody alone, where it was asked for."""
        speaker = turn.speaker
        view = await self._parts.accounts.history(service)
        await turn.tell(render_history(view))
        if speaker.channel is not None:
            await self._parts.accounts.draw_history(
                view,
                by=speaker.user,
                channel=speaker.channel,
                thread_ts=speaker.thread_ts,
                token=turn.intent.token,
            )

    async def why(self, service: ServiceName, turn: Turn) -> None:
        incidents = self._parts.incidents
        outage = await incidents.outage_of(service)
        before = await incidents.outage_before(service) if outage is None else None
        view = replace(await self._parts.accounts.why(service), outage=outage, before=before)
        await turn.tell(render_why(view))


def _amount(command: Command) -> str:
    if command.since is not None:
        return f"the last {spell_duration(command.since)}"
    return "the end" if command.lines is None else f"the last {count(command.lines, 'line')}"
