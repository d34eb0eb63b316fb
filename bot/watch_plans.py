"""How each service and each host is watched, as it is configured."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from bot.baselines import read_usual
from bot.clients.probe import Probe
from bot.core.events import HostName, ServiceName
from bot.core.monitor_state import HostPlan, HostState, WatchPlan, WatchState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.ground import Ground
    from config.services import Configuration

WATCH_STATE = TypeAdapter(WatchState)
HOST_STATE = TypeAdapter(HostState)


def host_of_service(configuration: Configuration, service: ServiceName) -> HostName:
    """Through which it is asked: that of its first member."""
    return HostName(configuration.services[service].units[0].host)


def watched_services(configuration: Configuration) -> dict[HostName, list[ServiceName]]:
    """By the host they belong to; without those whose monitor is turned off."""
    hosts: dict[HostName, list[ServiceName]] = {}
    for name, section in configuration.services.items():
        if section.monitor.enabled:
            service = ServiceName(name)
            hosts.setdefault(host_of_service(configuration, service), []).append(service)
    return hosts


def why_unwatched(configuration: Configuration, host: HostName, service: ServiceName | None) -> str | None:
    """Why nobody with this configuration watches that service there, or the host itself; None: it is watched.

    One plain sentence, without a mark at its end.
    """
    there = watched_services(configuration).get(host, [])
    if service is None:
        if there:
            return None
        gone = host not in configuration.hosts
        return (
            "the configuration no longer names this host" if gone else "no service there is watched any more"
        )
    if service in there:
        return None
    section = configuration.services.get(service)
    if section is None:
        return "the configuration no longer names it"
    if not section.monitor.enabled:
        return "its monitoring is switched off in the configuration"
    return f"by the configuration it runs on {host_of_service(configuration, service)} now"


def services_on(configuration: Configuration, host: HostName) -> list[ServiceName]:
    """Those that are watched and have a member there, the first one or another."""
    return [
        ServiceName(name)
        for name, section in configuration.services.items()
        if section.monitor.enabled and any(unit.host == host for unit in section.units)
    ]


async def make_watch_plan(ground: Ground, service: ServiceName) -> WatchPlan:
    """Raises StoreUnavailable."""
    section = ground.section(service)
    monitor = section.monitor
    return WatchPlan(
        service=service,
        host=host_of_service(ground.configuration, service),
        members=tuple(ground.links(service)),
        model=section.model,
        reach=section.reach,
        every=monitor.every,
        failures=monitor.failures,
        successes=monitor.successes,
        give_up_after=section.give_up_after,
        usual=await read_usual(ground.store, service),
        escalate_after=monitor.escalate_after,
        group=monitor.escalate_to,
    )


def make_host_plan(ground: Ground, host: HostName, services: Sequence[ServiceName]) -> HostPlan:
    """Whoever of its services is looked at oftenest, or wants to be told soonest, sets the pace."""
    sections = [ground.section(service) for service in services]
    first = min((section.monitor for section in sections), key=lambda monitor: monitor.every)
    escalated = [each.monitor for each in sections if each.monitor.escalate_after is not None]
    soonest = min(escalated, key=lambda monitor: monitor.escalate_after or timedelta.max, default=None)
    return HostPlan(
        host=host,
        services=tuple(services),
        direct={
            service: each.monitor.every
            for service, each in zip(services, sections, strict=True)
            if each.reach == "direct"
        },
        others=tuple(each for each in services_on(ground.configuration, host) if each not in services),
        every=first.every,
        failures=first.failures,
        successes=first.successes,
        escalate_after=soonest.escalate_after if soonest is not None else None,
        group=soonest.escalate_to if soonest is not None else None,
    )


def probe_inside(ground: Ground, service: ServiceName) -> Probe | None:
    """The way through the host itself, for one that is reached past SSH; else None."""
    section = ground.section(service)
    if section.reach != "direct":
        return None
    host = ground.hosts[host_of_service(ground.configuration, service)]
    return Probe(section.model_copy(update={"reach": "ssh"}), host=host, api_key=None)
