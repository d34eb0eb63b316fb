"""What the kernel's lines mean for a startup: the OOM killer's hand, and GPUs that broke."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.core.cause import Cause, name_cause
from bot.core.events import MAIN_RANK, LogLine, Member, PhaseId, Rank
from bot.core.kernel import belongs, is_kill, matters, names_process, read_pid
from bot.core.startup_members import Fell, Whose, whose
from bot.core.startup_scene import host_now
from bot.core.startup_state import Downfall

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.startup_turn import Turn

_MOST_KILLS = 4
_LOST = "the kernel killed one of its ranks"


def take_kernel(turn: Turn, name: Member, line: LogLine, now: datetime) -> Fell | None:
    """A line about a process of the watched start; all others are somebody else's matter.

    No engine survives the loss of a rank, and some wait for it for ever.
    """
    member = turn.state.members[name]
    if not matters(line.reading) or whose(turn.plan, member, line) is not Whose.WATCHED:
        return None
    pids = _pids(turn, name)
    if not belongs(line.reading, member, pids=pids):
        return None
    if is_kill(line.reading):
        best_first = [line.reading, *member.killed] if names_process(line.reading) else None
        member.killed = (best_first or [*member.killed, line.reading])[:_MOST_KILLS]
        return Fell(Downfall.FATAL, _LOST, ended=False) if read_pid(line.reading) in pids else None
    at = line.at or host_now(turn.state, now)
    findings = turn.tracker.read(line, member=name, at=at)
    phase, role = turn.tracker.current()
    turn.suspects.note(line, findings, phase=phase, role=role, rank=turn.tracker.spoke)
    return None


def killed_cause(turn: Turn, name: Member | None) -> Cause | None:
    """The kernel's own word that it killed a process of the unit, as the cause of what came after.

    Only that word: that a process ended by SIGKILL proves nothing, since engines kill themselves that way.
    """
    member = turn.state.members[name] if name is not None else None
    if member is None or not member.killed:
        return None
    rank = _victim(turn, name or Member(""), member.killed[0])
    phase, role = turn.tracker.current()
    places = turn.tracker.places()
    within = next(((each.phase, each.role) for each in places if each.rank == rank and not each.ended), None)
    phase, role = within or (phase or PhaseId.PROCESS, role)
    return name_cause(member.killed, where=(rank, phase, role), engine=turn.engine.name)


def _victim(turn: Turn, name: Member, reading: str) -> Rank:
    pid = read_pid(reading)
    return turn.tracker.state.who.pids.get(f"{name}:{pid}", MAIN_RANK)


def _pids(turn: Turn, name: Member) -> frozenset[int]:
    """The processes of the member that are known to be a rank."""
    begin = f"{name}:"
    known = (key.removeprefix(begin) for key in turn.tracker.state.who.pids if key.startswith(begin))
    return frozenset(int(pid) for pid in known if pid.isdigit())
