"""What looks at a host prove: that it is seen, that it is there and tells nothing, or that it is silent.

Each service is looked at in its own time, so what the others last answered is remembered; ten looks in one
second are one look at the host. Whatever comes from the host itself proves that it is there: an answer past
SSH, an SSH that refuses, and a port that does, for only a kernel that runs refuses a connection.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.core.events import HostName, ServiceName
from bot.core.incident_state import Severity, SignKind
from bot.core.monitor_state import Sight
from bot.core.words import count, join_names

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.monitor_events import DirectAsked, HostChecked
    from bot.core.monitor_state import HostPlan, HostState

_APART = 0.5  # of `every`: looks that count
_FRESH = 1.5  # times the `every` of whom was asked: so long an answer tells that the host is there
_SILENT = "the host does not answer SSH"
_NO_SSH = "SSH does not answer"
_NOTHING = "no host answers"


@dataclass(frozen=True, slots=True)
class Shown:
    """How a host of which SSH tells nothing shows itself at present.

    `what`: what SSH does. `alive`: the host is there. `answering`, `refusing`: services past SSH. `hidden`:
    services that cannot be seen. `severity`: of an incident that says so. `hosts`: all that this process
    watches, where none answers and this one tells it for all.
    """

    what: str
    alive: bool
    answering: tuple[ServiceName, ...]
    refusing: tuple[ServiceName, ...]
    hidden: tuple[ServiceName, ...]
    severity: Severity
    hosts: tuple[HostName, ...] = ()

    @property
    def sight(self) -> Sight:
        return Sight.HALF if self.alive else Sight.GONE

    @property
    def kind(self) -> SignKind:
        if self.hosts:
            return SignKind.NETWORK
        return SignKind.HIDDEN if self.alive else SignKind.SIGHT

    @property
    def sentence(self) -> str:
        """`SSH is refused (connection refused), so 11 services there cannot be seen`."""
        unseen = f"{count(len(self.hidden), 'service')} there cannot be seen" if self.hidden else ""
        if self.hosts:
            lost = "they lost power or network together, or kimi the way to them"
            return f"kimi reaches none of {len(self.hosts)} hosts any more, all since the same moment: {lost}"
        if not self.alive:
            return self.what
        if self.answering:
            reached = f"{count(len(self.answering), 'service')} on it can be reached another way"
            return f"{self.what}, though {reached}"
        if self.refusing:
            names = join_names(self.refusing[:6])
            there = f"{self.what}, though the host is there and refuses connections to {names}"
            return f"{there}; {unseen}" if unseen else there
        return f"{self.what}, so {unseen}" if unseen else self.what


def note_answers(state: HostState, event: HostChecked | DirectAsked, now: datetime) -> None:
    """The newest look at each service that is reached past SSH."""
    if event.answering or event.refusing:
        state.alive_at = now
    looks = (
        (state.answers, event.answering),
        (state.refused, event.refusing),
        (state.silent, event.silent),
    )
    for kept, services in looks:
        for service in services:
            for each, _ in looks:
                each.pop(service, None)
            kept[service] = now


def note_seen(plan: HostPlan, state: HostState, now: datetime) -> None:
    """SSH tells."""
    if state.goods == 0 or state.good is None or now - state.good >= plan.every * _APART:
        state.goods, state.good = state.goods + 1, now
    state.good_since = state.good_since or now
    state.seen, state.last_seen, state.fails, state.failing_since = True, now, 0, None
    state.barred, state.barred_at, state.shows, state.alike = "", None, "", 0


def note_unseen(plan: HostPlan, state: HostState, event: HostChecked, now: datetime) -> Shown:
    """SSH does not."""
    if event.barred is not None:
        state.barred, state.barred_at, state.alive_at = event.barred, now, now
    shown = _show(plan, state, now)
    may_lead = state.leads or state.mute is None  # what is muted calls nobody
    if (dark := event.dark) is not None and not shown.alive and may_lead and dark.leader in {None, plan.host}:
        shown = replace(shown, what=_NOTHING, hidden=dark.services, hosts=dark.hosts)
    if state.fails == 0 or state.failed is None or now - state.failed >= plan.every * _APART:
        state.fails, state.failed = state.fails + 1, now
        state.alike = state.alike + 1 if shown.what == state.shows else 1
        state.shows_since = state.shows_since if shown.what == state.shows else now
        state.shows = shown.what
    state.goods, state.good_since = 0, None
    state.failing_since = state.failing_since or now
    state.error = event.error or ""
    return shown


def _show(plan: HostPlan, state: HostState, now: datetime) -> Shown:
    answering, refusing = _newest(plan, state.answers, now), _newest(plan, state.refused, now)
    barred = _barred(plan, state, now)
    alive = bool(answering or refusing or barred)
    behind = tuple(each for each in plan.services if each not in plan.direct)
    return Shown(
        what=barred or (_NO_SSH if alive else _SILENT),
        alive=alive,
        answering=answering,
        refusing=refusing,
        hidden=tuple(dict.fromkeys((*(behind if alive else plan.services), *plan.others))),
        severity=Severity.DEGRADED if alive and not _is_dark(plan, state, behind) else Severity.HOST,
    )


def is_alive(plan: HostPlan, state: HostState, now: datetime) -> bool:
    """Whether something on it answers, or refuses, at present."""
    looks = (state.answers, state.refused)
    return bool(_barred(plan, state, now)) or any(each and _newest(plan, each, now) for each in looks)


def _newest(plan: HostPlan, looks: dict[ServiceName, datetime], now: datetime) -> tuple[ServiceName, ...]:
    direct = plan.direct
    return tuple(
        service for service, at in looks.items() if now - at <= direct.get(service, plan.every) * _FRESH
    )


def _is_dark(plan: HostPlan, state: HostState, behind: tuple[ServiceName, ...]) -> bool:
    """Whether nothing on it is seen to serve, while something may: nobody can tell that all is well."""
    lost = all(each in state.silent or each in state.refused for each in plan.direct)
    return lost and bool(behind)


def _barred(plan: HostPlan, state: HostState, now: datetime) -> str:
    """What SSH does instead of not answering; "" where nothing does."""
    at = state.barred_at
    return state.barred if at is not None and now - at <= plan.every * _FRESH else ""
