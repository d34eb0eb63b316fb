"""Turns what an incident orders to be told into messages for the outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bot.clients.records import FileNote, Outgoing
from bot.clients.slack_history import TELLS
from bot.core.incident_actions import AgainTold, EndTold
from bot.core.incident_export import export_name, render_export
from bot.core.incident_remains import tags_of
from bot.core.incident_render import render_incident_reply, render_incident_root, render_stopped
from bot.core.incident_state import Ending

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import ChannelId
    from bot.core.incident_actions import IncidentView, PostIncidentReply, UploadTimeline
    from bot.core.incident_export import People
    from bot.core.incident_state import IncidentPlan, IncidentState
    from bot.core.monitor_events import TellStopped


OVER, AGAIN = "over", "again"  # what a reply says of the incident, in its tag
_ENDS = {ending: f"{OVER}, {ending}" for ending in Ending} | {Ending.RECOVERED: OVER}


def incident_root(view: IncidentView, *, channel: ChannelId, edit: bool = False) -> Outgoing:
    """The first message, or its edit to the present."""
    kind: Literal["root", "edit"] = "edit" if edit else "root"
    return Outgoing.of(
        render_incident_root(view),
        identity=kind,
        thread=view.incident,
        kind=kind,
        channel=channel,
        tags=tags_of(view),
    )


def incident_reply(order: PostIncidentReply, view: IncidentView, *, channel: ChannelId) -> Outgoing:
    return Outgoing.of(
        render_incident_reply(order.reply, view),
        identity=str(order.sequence),
        thread=view.incident,
        kind="reply",
        channel=channel,
        tags=_said(order),
        broadcast=order.broadcast,
    )


def _said(order: PostIncidentReply) -> dict[str, str]:
    """So that whoever finds the thread alone knows whether it is over."""
    match order.reply:
        case EndTold(ending=ending):
            return {TELLS: _ENDS[ending]}
        case AgainTold():
            return {TELLS: AGAIN}
        case _:
            return {}


def read_ending(tag: str) -> Ending | None:
    """What the newest of these tags says of the end; None: it goes on."""
    return next((ending for ending, told in _ENDS.items() if told == tag), None)


def timeline_letter(
    order: UploadTimeline,
    plan: IncidentPlan,
    state: IncidentState,
    now: datetime,
    *,
    channel: ChannelId,
    people: People,
) -> tuple[Outgoing, bytes]:
    """The whole story as a file, and its bytes."""
    thread = plan.incident
    identity = f"{thread}:{order.sequence}"
    return export_letter(plan, state, now, identity=identity, thread=thread, channel=channel, people=people)


def export_letter(
    plan: IncidentPlan,
    state: IncidentState,
    now: datetime,
    *,
    identity: str,
    thread: str,
    channel: ChannelId,
    people: People,
) -> tuple[Outgoing, bytes]:
    text, name = render_export(plan, state, now, people), export_name(plan)
    told = f"The whole timeline: `{name}`"
    note = FileNote(name=name, title=name, comment=told, lines=text.count("\n"), masked=0)
    outgoing = Outgoing.of_file(note, identity=identity, thread=thread, channel=channel)
    return outgoing, text.encode("utf-8", "backslashreplace")


def stopped_message(told: TellStopped, *, thread: str, channel: ChannelId) -> Outgoing:
    """A thread of its own, that holds nothing else."""
    return Outgoing.of(render_stopped(told), identity="root", thread=thread, kind="root", channel=channel)
