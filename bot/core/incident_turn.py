"""The working set of one incident and one turn of it: what is known, what is ordered, what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.core.incident_actions import (
    EditIncident,
    IncidentAction,
    IncidentReply,
    PostIncidentReply,
    ReadRunLog,
    SendWebhook,
    Told,
)
from bot.core.incident_state import Entry, EntryKind
from bot.core.incident_view import view_of
from bot.core.incident_webhook import make_payload
from bot.core.incident_words import tell_plain

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import InvocationId, Member, UserId
    from bot.core.incident_state import IncidentPlan, IncidentState
    from config.engine_file import EngineFile

IN_CHANNEL = 2  # messages of one incident in the channel itself: the root, and one that is shown there too
MOST_ENTRIES = 400  # of the timeline; of more, those in the middle are left out
_MOST_READ = 64


class IncidentTurn:
    """What the parts of the machine share. Only `state` outlives the process."""

    def __init__(self, plan: IncidentPlan, engine: EngineFile, state: IncidentState) -> None:
        self.plan = plan
        self.engine = engine
        self.state = state
        self.changed = False  # the present should be shown
        self._out: list[IncidentAction] = []

    def open(self) -> None:
        self._out, self.changed = [], False

    def close(self, now: datetime) -> list[IncidentAction]:
        """The present comes first, so that it is never older than what is said."""
        shown: list[IncidentAction] = []
        if self.changed:
            shown.append(EditIncident(view_of(self.plan, self.state, now)))
        return [*shown, *self._out]

    def order(self, action: IncidentAction) -> None:
        self._out.append(action)

    def note(self, kind: EntryKind, sentence: str, now: datetime, *, by: UserId | None = None) -> None:
        """A line of the timeline."""
        timeline = self.state.timeline
        timeline.append(Entry(now, kind, sentence, by))
        if len(timeline) > MOST_ENTRIES:
            del timeline[MOST_ENTRIES // 2]
            self.state.dropped += 1

    def say(
        self,
        reply: IncidentReply,
        kind: EntryKind,
        now: datetime,
        *,
        by: UserId | None = None,
        loud: bool = False,
        told: Told = Told.UPDATED,
    ) -> None:
        """A reply, its line of the timeline, the word to other tools. `loud`: in the channel, if it may."""
        state = self.state
        sentence = tell_plain(reply)
        self.note(kind, sentence, now, by=by)
        self.changed = True
        broadcast = loud and state.in_channel < IN_CHANNEL
        state.in_channel += broadcast
        state.sequence += 1
        self.order(PostIncidentReply(state.sequence, reply, broadcast=broadcast))
        self.send(told, sentence, now, by=by)

    def send(self, told: Told, sentence: str, now: datetime, *, by: UserId | None = None) -> None:
        payload = make_payload(self.plan, self.state, told=told, sentence=sentence, now=now, by=by)
        self.order(SendWebhook(told, payload))

    def ask(
        self, member: Member, invocation: InvocationId | None, now: datetime, *, changes: bool = False
    ) -> bool:
        """Have the end of a run's log read, once; whether that is asked for now."""
        key = f"{member} {invocation or now.isoformat()}"
        asked = self.state.asked
        if key in asked:
            return False
        self.state.asked = [*asked, key][-_MOST_READ:]
        self.order(ReadRunLog(member, invocation, now, changes=changes))
        return True
