"""Whether all hosts went silent in the same moment: what they share is gone, or kimi's own way to them.

Which of the two nobody here can tell, so neither is claimed. One incident tells it for all of them: that of
the host which first failed often enough leads, and those of the others wait. Each process judges by the hosts
that it watches itself, since that is what it sees from where it stands, and by those of others as long as
these see none either. One host that answers, or is there and refuses, ends it, also if it falls silent again:
what is silent then is a matter of its own. A host that went long before, or was never seen, has no say.

Nobody waits for less than its own incident would be: the one that leads sees the other among those that went
with it, calls the same people as soon, and was not muted before.
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
    from bot.core.monitor_state import HostPlan, HostState

_SAME_MOMENT = 2  # times the longer `every` of two: each is looked at in its own time
_FEWEST = 2  # hosts; of a single one nobody can tell
_MOST_ASKED = 8  # whether they lead; where none of so many does, each host tells for itself


@dataclass(frozen=True, slots=True)
class Dark:
    """`hosts`: all that went, `services`: what cannot be seen there. `leader`: whose incident tells it."""

    hosts: tuple[HostName, ...]
    services: tuple[ServiceName, ...]
    leader: HostName | None = None


def darkness_of(host: HostName, watches: Mapping[HostName, HostWatch], now: datetime) -> Dark | None:
    """For a host that has just not answered; None: one of `watches` does answer."""
    there = _gone_with(host, watches, now)
    if len(there) < _FEWEST:
        return None
    plans = [watch.plan for watch in there.values()]
    services = dict.fromkeys(each for plan in plans for each in (*plan.services, *plan.others))
    return Dark(tuple(sorted(there)), tuple(services), _leader_of(host, there, watches, now))


def _gone_with(
    host: HostName, watches: Mapping[HostName, HostWatch], now: datetime
) -> dict[HostName, HostWatch]:
    """All that went in the same moment, itself among them; none, where another one is there, or was since."""
    own = watches.get(host)
    if own is None or not own.state.seen:
        return {}
    since = own.state.failing_since or now
    there: dict[HostName, HostWatch] = {}
    for name, watch in watches.items():
        within = max(own.plan.every, watch.plan.every) * _SAME_MOMENT
        if name != host and (not watch.state.seen or _went_before(watch.state, since - within)):
            continue
        if _is_there(watch, since + within, now, began=since if name == host else None):
            return {}
        there[name] = watch
    return there


def _went_before(state: HostState, at: datetime) -> bool:
    return state.failing_since is not None and state.failing_since < at


def _is_there(watch: HostWatch, latest: datetime, now: datetime, *, began: datetime | None) -> bool:
    """Whether it answers, or went later than that, or showed a sign of life since."""
    state = watch.state
    since = state.failing_since or began
    if since is None or since > latest or (state.alive_at is not None and state.alive_at > latest):
        return True
    return began is None and is_alive(watch.plan, state, now)


def _leader_of(
    host: HostName,
    there: Mapping[HostName, HostWatch],
    watches: Mapping[HostName, HostWatch],
    now: datetime,
) -> HostName | None:
    """Whose incident says so already; else whose was opened first, before all were known to be silent.

    `there`: all that went with it.
    """
    own = watches[host]
    if _leads(own.state):
        return host
    told = sorted(
        (name for name, watch in there.items() if _may_lead(watch.state)),
        key=lambda name: (not _leads(there[name].state), str(there[name].state.told_at), name),
    )
    for name in told[:_MOST_ASKED]:
        if name == host:
            return host
        its = _gone_with(name, watches, now) if _calls_for(there[name].plan, own.plan) else {}
        if host in its and _leader_of(name, its, watches, now) == name:
            return name
    return None


def _leads(state: HostState) -> bool:
    """Also where somebody closed it, who knows then."""
    return state.leads and (state.severity is Severity.HOST or state.waived)


def _may_lead(state: HostState) -> bool:
    return _leads(state) or (state.severity is Severity.HOST and state.mute is None)


def _calls_for(leader: HostPlan, plan: HostPlan) -> bool:
    """Whether whoever is to be called for the one is called by the other, and no later."""
    if plan.escalate_after is None:
        return True
    soon = leader.escalate_after is not None and leader.escalate_after <= plan.escalate_after
    return soon and leader.group == plan.group
