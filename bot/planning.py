"""Looks before anything is touched, and plans the operation a person asked for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bot.asking import Slow, ask_each
from bot.baselines import read_last, read_usual
from bot.clients.records import Holder, Operation
from bot.core.events import Member, PhaseId, UnitState, Verb
from bot.core.journal import Position
from bot.core.marker import Marker
from bot.core.request import nothing_starts, refusal_of
from bot.core.startup import Startup
from bot.core.startup_state import Plan
from bot.errors import CommandRefused
from bot.places import places_of
from bot.running import PLAN, STATE, Running
from bot.standing import doubt, up_since

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from bot.clients.leases import Lease
    from bot.core.events import InvocationId, OperationId
    from bot.core.request import Request
    from bot.ground import Ground
    from bot.sources import Link

_HEALTH_WITHIN = 4.0  # real seconds: a service that answers slower is restarted without a question


async def observe(
    links: dict[Member, Link], request: Request, *, slow: Slow | None = None
) -> dict[Member, UnitState]:
    """Look before touching. Raises HostError, and CommandRefused for what makes no sense at present."""

    async def look(link: Link) -> UnitState:
        unit = await link.host.show(link.unit, scope=link.scope)
        cursor = await link.host.journal_end(scope=link.scope)
        link.position = Position(cursor) if cursor else None
        link.invocation, link.kernel = unit.invocation, link.position
        if link.log_file is not None:
            link.log = link.log_start = await link.host.log_end(link.log_file)
        if request.verb is not Verb.WATCH:
            await link.host.check_sudo(link.unit, request.verb, scope=link.scope)
        return unit

    seen = await ask_each(list(links.values()), look, slow=slow)
    units = dict(zip(links, seen, strict=True))
    if refusal := refusal_of(request, units):
        raise CommandRefused(refusal)
    return units


async def costs(ground: Ground, request: Request) -> bool:
    """Whether the verb would take away a service that answers, and nobody said yes to that yet."""
    if request.confirmed or request.verb not in {Verb.RESTART, Verb.STOP}:
        return False
    try:
        async with asyncio.timeout(_HEALTH_WITHIN):
            answer = await ground.probes[request.service].check()
    except TimeoutError:
        return False
    return answer.health == 200  # noqa: PLR2004 - HTTP's own number


async def nothing_to_watch(ground: Ground, request: Request, units: Mapping[Member, UnitState]) -> str | None:
    """In a sentence, why no startup is under way: all of it serves, and is up longer than a proof takes.

    A start that nobody in chat asked for was noticed, and is followed in any case.
    """
    if request.verb is not Verb.WATCH or not request.by:
        return None
    since, now, section = up_since(units), ground.clock.now(), ground.section(request.service)
    # Of several members the one that answers need not be the one that started last.
    proven = section.stable_for if len(units) == 1 else section.give_up_after
    settled = since is not None and now - since >= proven
    if since is None or not settled or any(unit.active != "active" or unit.job for unit in units.values()):
        return None
    return None if await doubt(ground, request.service) else nothing_starts(request.service, since, now)


def holder_of(request: Request, identity: OperationId, *, now: datetime) -> Holder:
    by = request.by or None  # nobody asked for what is followed by itself
    return Holder(operation=identity, service=request.service, verb=request.verb, by=by, since=now)


async def make_plan(
    ground: Ground, request: Request, *, identity: OperationId, units: dict[Member, UnitState]
) -> Plan:
    """Raises StoreUnavailable."""
    section = ground.section(request.service)
    watching = request.verb is Verb.WATCH
    return Plan(
        operation=identity,
        service=request.service,
        verb=request.verb,
        members=tuple(units),
        by=request.by or None,
        reason=request.reason,
        began=ground.clock.now(),
        model=section.model,
        ranks=section.ranks,
        stable_for=section.stable_for,
        give_up_after=section.give_up_after,
        patience={PhaseId(phase): patience for phase, patience in section.patience.items()},
        usual=await read_usual(ground.store, request.service),
        last=await read_last(ground.store, request.service),
        markers=tuple(Marker(each.name, each.pattern) for each in section.markers),
        before={member: None if watching else unit.invocation for member, unit in units.items()},
        follows={member: run for member, unit in units.items() if watching and (run := _run_of(unit))},
        ran=tuple(member for member, unit in units.items() if not unit.down),
    )


def _run_of(unit: UnitState) -> InvocationId | None:
    """That nobody is about to end: a watch is of this one, whatever systemd starts behind it."""
    up = unit.active in {"active", "activating"} and unit.job is None and not unit.looping
    return unit.invocation if up else None


def prepare(ground: Ground, plan: Plan, *, links: dict[Member, Link], lease: Lease) -> Running:
    """What carries the plan out, with nothing of it done yet."""
    for link in links.values():
        if plan.verb is Verb.WATCH:
            # From the beginning of the start that is under way.
            link.position = link.kernel = link.log = link.log_start = None
        else:
            link.invocation = None  # from here on, whatever start it is
    startup = Startup(plan, ground.engines[plan.service])
    operation = Operation(
        operation=plan.operation,
        service=plan.service,
        verb=plan.verb,
        channel=ground.channel(plan.service),
        by=plan.by,
        reason=plan.reason,
        began=plan.began,
        plan=PLAN.dump_json(plan).decode(),
        state=STATE.dump_json(startup.state).decode(),
        positions={place: json for link in links.values() for place, json in places_of(link)},
    )
    return Running.make(ground, operation, startup, links=links, lease=lease)
