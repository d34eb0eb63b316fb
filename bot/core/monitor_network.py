"""Whether it may be kimi's own network: all hosts that this process watches went silent in the same moment.

Then one incident tells it for all of them: that of the host which first failed often enough leads, and those
of the others wait. Each process judges by the hosts that it watches itself, since that is what it sees from
where it stands. One host that answers, or is there and refuses, ends it: what is silent then is a matter of
its own. A host that went long before, or was never seen, has no say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.core.events import HostName, ServiceName
from bot.core.incident_state import Severity
from bot.core.monitor_sight import is_alive

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from bot.core.monitor_host import HostWatch
    from bot.core.monitor_state import HostState

_SAME_MOMENT = 2  # times the longest `every`: each is looked at in its own time
_FEWEST = 2  # hosts; of a single one nobody can tell


@dataclass(frozen=True, slots=True)
class Dark:
    """`hosts`: all that went, `services`: what cannot be seen there. `leader`: whose incident tells it."""

    hosts: tuple[HostName, ...]
    services: tuple[ServiceName, ...]
    leader: HostName | None = None


def darkness_of(host: HostName, watches: Mapping[HostName, HostWatch], now: datetime) -> Dark | None:
    """For a host that has just not answered; None: one of `watches`, those of this process, does answer."""
    if host not in watches or not watches[host].state.seen:
        return None
    within = max(watch.plan.every for watch in watches.values()) * _SAME_MOMENT
    since = watches[host].state.failing_since or now
    there = {
        name: watch
        for name, watch in watches.items()
        if name == host or (watch.state.seen and not _went_before(watch.state, since - within))
    }
    others = [watch for name, watch in there.items() if name != host]
    if len(there) < _FEWEST or not all(_went_with(watch, since + within, now) for watch in others):
        return None
    plans = [watch.plan for watch in there.values()]
    services = dict.fromkeys(each for plan in plans for each in (*plan.services, *plan.others))
    return Dark(tuple(sorted(there)), tuple(services), _leader_of(host, there))


def _went_before(state: HostState, at: datetime) -> bool:
    return state.failing_since is not None and state.failing_since < at


def _went_with(watch: HostWatch, latest: datetime, now: datetime) -> bool:
    since = watch.state.failing_since
    return since is not None and since <= latest and not is_alive(watch.plan, watch.state, now)


def _leader_of(host: HostName, there: Mapping[HostName, HostWatch]) -> HostName | None:
    """Whose incident says so already; else whose was opened first, before all were known to be silent."""
    states = {name: watch.state for name, watch in there.items()}
    leading = [name for name, state in states.items() if state.leads and _is_told(state)]
    opened = [name for name, state in states.items() if state.severity is Severity.HOST]
    told = leading or sorted(opened, key=lambda name: (str(states[name].told_at), name))
    return host if host in leading else next(iter(told), None)


def _is_told(state: HostState) -> bool:
    """Also where somebody closed it, who knows then."""
    return state.severity is Severity.HOST or state.waived
