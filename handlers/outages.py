"""The verbs about incidents and mutes: whoever may has been judged, here they are done and answered."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from bot.core.answers import render_sentence
from bot.core.command import Command, Outcome, Word
from bot.core.incident_state import IncidentId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.core.events import ServiceName
    from handlers.parts import Incidents
    from handlers.turns import Turn

_AN_HOUR = timedelta(hours=1)


async def carry_out(
    incidents: Incidents, command: Command, turn: Turn, *, visible: Sequence[ServiceName]
) -> None:
    """`visible`: the services that may be named here."""
    by, token = turn.intent.user, turn.intent.token
    if command.verb is Word.INCIDENTS:
        await _show(incidents, command, turn, visible=visible)
        return
    if command.verb in {Word.MUTE, Word.UNMUTE}:
        await _change_mute(incidents, command, turn)
        return
    act = incidents.acknowledge if command.verb is Word.ACK else incidents.resolve
    message, outcome = await act(command.service, command.incident, by=by, token=token)
    await turn.conclude(message, outcome)


async def _show(
    incidents: Incidents, command: Command, turn: Turn, *, visible: Sequence[ServiceName]
) -> None:
    """The list in private; the file of one, which Slack shows nobody alone, where it was asked for."""
    if command.incident is None:
        await turn.tell(await incidents.rows(visible, service=command.service))
        return
    speaker = turn.speaker
    if speaker.channel is None:
        await turn.tell(render_sentence("Ask for the file in a channel."))
        return
    message = await incidents.export(
        IncidentId(command.incident),
        by=speaker.user,
        channel=speaker.channel,
        thread_ts=speaker.thread_ts,
        token=turn.intent.token,
    )
    await turn.tell(message)


async def _change_mute(incidents: Incidents, command: Command, turn: Turn) -> None:
    by, token, service = turn.intent.user, turn.intent.token, command.service
    lasting = command.lasting or _AN_HOUR
    if (host := command.host) is not None:
        if command.verb is Word.UNMUTE:
            message, outcome = await incidents.unmute_host(host, by=by, token=token)
        else:
            message, outcome = await incidents.mute_host(
                host, lasting, by=by, reason=command.reason, token=token
            )
        await turn.conclude(message, outcome)
        return
    if service is None:
        which = f"Which service? Say `{command.verb}` and its name."
        await turn.conclude(render_sentence(which), Outcome.DECLINED)
        return
    if command.verb is Word.UNMUTE:
        message, outcome = await incidents.unmute(service, by=by, token=token)
        await turn.conclude(message, outcome)
        return
    message = await incidents.mute(service, lasting, by=by, reason=command.reason, token=token)
    await turn.conclude(message, Outcome.DONE)
