"""What people ask of incidents and mutes, wherever those are carried out; all raises StoreUnavailable."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import structlog

from bot.clients.store_incidents import IncidentRecord
from bot.core.blocks import Message
from bot.core.command import Outcome
from bot.core.incident_answers import (
    IncidentRow,
    render_acknowledged,
    render_ambiguous,
    render_closed,
    render_export_coming,
    render_incidents,
    render_none_open,
    render_unknown,
)
from bot.core.incident_events import Acknowledged, ResolvedByHand
from bot.core.incident_state import IncidentId, Severity, Sign, short_id
from bot.core.incident_view import (
    began_of,
    cause_of,
    downtime_of,
    first_read,
    last_healthy_of,
    present_cause,
    present_read,
    was_hidden,
)
from bot.core.request import Outage, operation_of
from bot.incident_ledger import PLAN, STATE
from bot.incident_messages import export_letter
from bot.incident_mutes import Mutes
from bot.incident_people import read_people
from bot.messages import answer_root
from bot.watch_orders import pack_fact, read_fact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from bot.core.events import ChannelId, MessageTs, ServiceName, UserId

log = structlog.get_logger()

_PAST = 12  # closed ones that a list begins with


@dataclass(frozen=True, slots=True)
class Found:
    """One incident as a person named it; else `problem` says why it is none."""

    record: IncidentRecord | None = None
    problem: Message | None = None


@dataclass(slots=True)
class Desk(Mutes):
    """With what is asked of mutes."""

    # Which one is meant.

    async def at(self, channel: ChannelId, ts: MessageTs) -> IncidentRecord | None:
        """The incident whose thread has its root there."""
        thread = await self.ground.store.queue.thread_at(channel, ts)
        return await self.store.read(IncidentId(thread)) if thread is not None else None

    async def find(self, typed: str, visible: Sequence[ServiceName]) -> Found:
        """`typed`: an id or the beginning of one. `visible`: what may be named here."""
        found = [each for each in await self.store.find(typed) if self._is_visible(each, visible)]
        if not found:
            return Found(problem=render_unknown(typed))
        if len(found) > 1:
            return Found(problem=render_ambiguous(typed, [each.incident for each in found]))
        return Found(found[0])

    def _is_visible(self, record: IncidentRecord, visible: Sequence[ServiceName]) -> bool:
        """A host's own concerns whoever may name one of its services.

        What is configured no longer concerns whoever may name all there are.
        """
        configuration = self.ground.configuration
        if record.service in configuration.services:
            return record.service in visible
        if record.service is not None or record.host not in configuration.hosts:
            return set(visible) >= set(configuration.services)
        hidden = _hidden_by(record)
        return any(name in hidden or record.host in self._hosts_of(name) for name in visible)

    def _concerns(self, record: IncidentRecord, service: ServiceName) -> bool:
        """Is about it, or about a host of it."""
        about_host = record.host in self._hosts_of(service) or service in _hidden_by(record)
        return record.service == service or (record.service is None and about_host)

    def _hosts_of(self, service: ServiceName) -> set[str]:
        """Of all its members: it serves only where all of them are there."""
        section = self.ground.configuration.services.get(service)
        return set() if section is None else {unit.host for unit in section.units}

    async def _open_one(self, service: ServiceName | None, incident: str | None) -> IncidentRecord | None:
        """The one that is named, else the newest of the service that is not over."""
        opened = [record for record in await self.store.opened() if record.over is None]
        if incident is not None:
            return next((record for record in opened if record.incident == incident), None)
        return next((record for record in reversed(opened) if record.service == service), None)

    async def _open_about(self, service: ServiceName | None, incident: str | None) -> IncidentRecord | None:
        """The same, else that of a host of the service: it is what keeps the service from being seen."""
        found = await self._open_one(service, incident)
        if found is not None or incident is not None or service is None:
            return found
        hosts = self._hosts_of(service)
        opened = [each for each in await self.store.opened() if each.over is None and each.service is None]
        about = [each for each in opened if each.host in hosts or service in _hidden_by(each)]
        return about[-1] if about else None

    # What is asked.

    async def rows(self, services: Sequence[ServiceName], *, service: ServiceName | None) -> Message:
        """The open ones first, then the newest; of one service or of all in `services`."""
        named = (service,) if service is not None else tuple(services)
        opened = [
            each
            for each in await self.store.opened()
            if self._is_visible(each, named) and (service is None or self._concerns(each, service))
        ]
        closed = await self._closed(service, named)
        first = sorted(opened, key=lambda each: (each.over is not None, -each.opened.timestamp()))
        rest = sorted(closed, key=lambda each: each.opened, reverse=True)
        rows = [row for each in (*first, *rest) if (row := await self._row(each)) is not None]
        muted = await self.muted(named)
        return render_incidents(rows, service=service, muted=muted)

    async def _closed(
        self, service: ServiceName | None, visible: Sequence[ServiceName]
    ) -> list[IncidentRecord]:
        if service is None:
            return await self.store.newest(_PAST, partial(self._is_visible, visible=visible))
        subjects = (service, *sorted(self._hosts_of(service)))
        return [each for subject in subjects for each in await self.store.past(subject, _PAST)]

    async def _row(self, record: IncidentRecord) -> IncidentRow | None:
        try:
            state = STATE.validate_json(record.state)
            plan = PLAN.validate_json(record.plan)
        except ValueError as error:
            log.error("incident_unreadable", incident=record.incident, error=str(error))  # noqa: TRY400
            return None
        address = await self.ground.store.address(record.incident)
        return IncidentRow(
            incident=record.incident,
            subject=record.subject,
            severity=Severity(record.severity),
            began=began_of(plan, state),
            downtime=downtime_of(state, self.ground.clock.now()),
            ended=record.over,
            cause=present_cause(state) or cause_of(state) or _say_first(state.signs),
            acked_by=state.acked_by,
            link=address.permalink if address is not None else None,
            hidden=was_hidden(plan, state),
            read=present_read(state) or first_read(state),
            last_healthy=last_healthy_of(plan, state) if plan.service is None else None,
        )

    async def outage_of(self, service: ServiceName) -> Outage | None:
        """The open incident of a service, or of a host of it."""
        record = await self._open_about(service, None)
        row = await self._row(record) if record is not None else None
        return None if row is None else _outage(row, self.ground.clock.now())

    async def outage_before(self, service: ServiceName) -> Outage | None:
        """The newest one that is over, and that told of something."""
        ended = [each for each in await self.store.opened() if each.over and self._concerns(each, service)]
        ended += await self._closed(service, (service,))
        for record in sorted(ended, key=lambda each: each.opened, reverse=True):
            row = await self._row(record)
            if row is not None and not row.hidden:
                return _outage(row, self.ground.clock.now())
        return None

    async def export(
        self,
        incident: IncidentId,
        *,
        by: UserId,
        channel: ChannelId,
        thread_ts: MessageTs | None,
        token: str,
    ) -> Message:
        """Sends it as a file into the channel or thread, once for a `token`."""
        record = await self.store.read(incident)
        if record is None:
            return render_unknown(incident)
        plan, state = PLAN.validate_json(record.plan), STATE.validate_json(record.state)
        people = await read_people(self.ground, plan, state, self.ground.clock.now())
        thread, coming = f"export-{operation_of(token)}", render_export_coming(record.incident)
        letter, content = export_letter(
            plan,
            state,
            self.ground.clock.now(),
            identity=f"{thread}:file",
            thread=thread,
            channel=channel,
            people=people,
        )
        letter = letter.model_copy(update={"thread_ts": thread_ts})
        root = [] if thread_ts else [answer_root(coming, thread=thread, channel=channel, asker=by)]
        await self.ground.store.enqueue([*root, letter], {letter.id: content})
        self.ground.outbox.wake()
        return coming

    # What is done.

    async def acknowledge(
        self, service: ServiceName | None, incident: str | None, *, by: UserId, token: str
    ) -> tuple[Message, Outcome]:
        record = await self._open_about(service, incident)
        row = await self._row(record) if record is not None else None
        if record is None or row is None:
            return render_none_open(service), Outcome.NOTHING
        if row.acked_by is not None:
            return render_acknowledged(record.subject, before=row.acked_by), Outcome.NOTHING
        await self.store.tell(record.incident, pack_fact(Acknowledged(by), name=f"ack:{token}"))
        first = await self._acked_by(record.incident)
        if first not in {None, by}:
            return render_acknowledged(record.subject, before=first), Outcome.NOTHING
        return render_acknowledged(record.subject), Outcome.DONE

    async def _acked_by(self, incident: IncidentId) -> UserId | None:
        """Whoever was first of several at once: as the incident has it, or will."""
        for fact in await self.store.facts(incident):
            if fact.kind == Acknowledged.__name__ and isinstance(event := read_fact(fact), Acknowledged):
                return event.by
        record = await self.store.read(incident)
        row = await self._row(record) if record is not None else None
        return row.acked_by if row is not None else None

    async def resolve(
        self, service: ServiceName | None, incident: str | None, *, by: UserId, token: str
    ) -> tuple[Message, Outcome]:
        record = await self._open_one(service, incident)
        if record is None:
            instead = await self._open_about(service, incident)
            other = instead.incident if instead is not None else None
            return render_none_open(service, instead=other), Outcome.NOTHING
        await self.store.tell(record.incident, pack_fact(ResolvedByHand(by), name=f"resolve:{token}"))
        return render_closed(record.subject), Outcome.DONE


def _hidden_by(record: IncidentRecord) -> frozenset[ServiceName]:
    """What it keeps from being seen now: one host may tell it for all."""
    if record.service is not None or record.over is not None:
        return frozenset()
    try:
        plan, state = PLAN.validate_json(record.plan), STATE.validate_json(record.state)
    except ValueError:
        return frozenset()
    return frozenset(plan.affected if state.hidden is None else state.hidden)


def _outage(row: IncidentRow, now: datetime) -> Outage:
    return Outage(
        short_id(row.incident),
        row.cause,
        now - row.began,
        row.acked_by,
        row.link,
        is_down=row.severity is Severity.DOWN,
        read=row.read,
        last_healthy=row.last_healthy,
        over=now - row.ended if row.ended is not None else None,
    )


def _say_first(signs: Sequence[Sign]) -> str:
    return signs[0].brief if signs else ""
