"""What a service is at present, as far as it can be seen: for `status`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.baselines import read_account
from bot.core.actions import Verdict
from bot.core.events import HostName, Member, ProbeAnswer, ServiceName, UnitState
from bot.core.request import Held, LastStartup, Standing, StatusView
from bot.core.words import end_sentence
from bot.errors import HostError, HostUnreachable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from bot.clients.records import Holder, Past
    from bot.core.actions import StartupView
    from bot.ground import Ground
    from bot.sources import Link

_UNIT_WITHIN = 4.0  # real seconds for a host; a connection that is being made goes on for others
_HEALTH_WITHIN = 8.0  # real seconds: /health generates a token, and a person waits
_OK = 200
_UP = frozenset({"active", "reloading", "refreshing"})
_AMID = {"activating": Standing.STARTING, "deactivating": Standing.STOPPING}


async def look(
    ground: Ground, service: ServiceName, *, startup: StartupView | None, held: Held | None
) -> StatusView:
    """Ask the hosts and the engine now. Raises StoreUnavailable."""
    links = list(ground.links(service).values())
    last = await _last(ground, service)
    hosts = tuple(dict.fromkeys(HostName(link.host.name) for link in links))
    model = ground.section(service).model
    try:
        units = dict(zip((link.member for link in links), await _observe(links), strict=True))
    except HostError as error:
        standing = Standing.STARTING if startup else Standing.UNSEEN
        return StatusView(
            service, hosts, standing, model, startup=startup, held=held, last=last, problem=str(error)
        )
    standing, problem = await _judge(ground, service, units)
    return StatusView(
        service=service,
        hosts=hosts,
        standing=Standing.STARTING if startup else standing,
        model=model,
        uptime=_uptime(ground, units) if standing is Standing.SERVING else None,
        startup=startup,
        held=held,
        last=last,
        problem=None if startup else problem,
    )


async def describe(ground: Ground, holder: Holder) -> Held:
    """Who has a service, since when, and what for. Raises StoreUnavailable."""
    address = await ground.store.address(holder.operation)
    return Held(
        operation=holder.operation,
        service=holder.service,
        verb=holder.verb,
        by=holder.by,
        age=ground.clock.now() - holder.since,
        headline=holder.headline,
        link=address.permalink if address else None,
    )


async def _observe(links: list[Link]) -> list[UnitState]:
    return list(await asyncio.gather(*(_show(link) for link in links)))


async def _show(link: Link) -> UnitState:
    """A host that is gone is known only after the whole time-out of a connection: too long for a person."""
    try:
        async with asyncio.timeout(_UNIT_WITHIN):
            return await link.host.show(link.unit, scope=link.scope)
    except TimeoutError as error:
        name = link.host.name
        raise HostUnreachable(name, f"{name} has not answered for {_UNIT_WITHIN:g}s.") from error


async def _judge(
    ground: Ground, service: ServiceName, units: dict[Member, UnitState]
) -> tuple[Standing, str | None]:
    for member, unit in units.items():
        if unit.load != "loaded" and unit.down:
            said = "has no such unit" if unit.load == "not-found" else f"says {unit.load}"
            return Standing.BROKEN, f"{member}: systemd {said}; mend `unit` in the configuration."
        if unit.looping:
            return Standing.BROKEN, f"systemd starts {member} over and over ({unit.restarts} times so far)."
        if unit.active == "failed":
            return Standing.BROKEN, f"{member} ended with result {unit.result}."
    if all(unit.down for unit in units.values()):
        return Standing.STOPPED, None
    waiting = [(member, unit) for member, unit in units.items() if unit.active not in _UP]
    if waiting:
        member, unit = min(waiting, key=lambda each: each[1].active not in _AMID)
        return _AMID.get(unit.active, Standing.UNPROVEN), f"{member} is {unit.active} ({unit.sub})."
    problem = await doubt(ground, service)
    return (Standing.UNPROVEN, problem) if problem else (Standing.SERVING, None)


async def doubt(ground: Ground, service: ServiceName) -> str | None:
    """What speaks against a service that runs; None when it answers as it should."""
    try:
        async with asyncio.timeout(_HEALTH_WITHIN):
            answer = await ground.probes[service].check()
    except TimeoutError:
        return f"/health has not answered within {_HEALTH_WITHIN:g} s."
    return doubt_answer(answer, model=ground.section(service).model)


def doubt_answer(answer: ProbeAnswer, *, model: str) -> str | None:
    if answer.health is None:
        return end_sentence(f"The engine does not answer: {answer.error or 'no reason given'}")
    if answer.health != _OK:
        return f"/health answers {answer.health}."
    if answer.listener is False:
        return "Its port is served by a process of another unit."
    if answer.models is None:
        return end_sentence(
            f"/v1/models does not answer as it should: {answer.error or answer.models_status}"
        )
    if model not in answer.models:
        return f"/v1/models lists {', '.join(answer.models) or 'nothing'}, not {model}."
    return None


def _uptime(ground: Ground, units: dict[Member, UnitState]) -> timedelta | None:
    since = up_since(units)
    return ground.clock.now() - since if since is not None else None


def up_since(units: Mapping[Member, UnitState]) -> datetime | None:
    """Since the member that started last."""
    return max((unit.active_since for unit in units.values() if unit.active_since is not None), default=None)


async def _last(ground: Ground, service: ServiceName) -> LastStartup | None:
    past = next(iter(await ground.store.past(service, 1)), None)
    if past is None or past.verdict is None:
        return None
    address = await ground.store.address(past.operation)
    return LastStartup(
        verb=past.verb,
        verdict=Verdict(past.verdict),
        took=_took(past),
        age=ground.clock.now() - past.closed,
        by=past.by,
        link=address.permalink if address else past.link,
        failure=read_account(past).failure,
    )


def _took(past: Past) -> timedelta:
    """As its thread told: the record is closed a moment after the verdict, when log and picture are drawn."""
    told = read_account(past).took
    return past.closed - past.began if told is None else timedelta(seconds=told)
