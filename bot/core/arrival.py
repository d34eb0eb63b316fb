"""Whether an order that a dead process had under way reached systemd: what the unit and its journal show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.core.downfall import Said, read_manager
from bot.core.events import Origin, PhaseId, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.core.events import LogLine, Member, UnitState
    from bot.core.startup_state import Plan, StartupState

# What systemd says when it does what it was told. That a unit ended by itself says nothing of an order.
_DOING = {Said.STARTING, Said.STOPPING, Said.STOPPED, Said.NOT_STARTED, Said.TOO_OFTEN}


def shows_arrival(plan: Plan, state: StartupState, name: Member, unit: UnitState) -> bool:
    """Whether the unit is not as it was before the order, or doubtful; never false where it arrived long ago.

    A restart that a person made by hand counts too: it is the one that was wanted.
    """
    member, before = state.members[name], plan.before.get(name)
    if member.invocation is not None or unit.job is not None or unit.active == "deactivating":
        return True
    if unit.invocation is not None and unit.invocation != before:
        return True
    if not unit.down:
        return False
    stopped = any(record.phase is PhaseId.STOPPING for record in state.tracker.spans.records)
    return plan.verb is Verb.STOP or stopped


def tells_arrival(lines: Iterable[LogLine]) -> bool:
    """Whether systemd, in what was written since the order was planned, carries out something."""
    managers = (line for line in lines if line.origin is Origin.MANAGER)
    return any(read_manager(line) in _DOING for line in managers)
