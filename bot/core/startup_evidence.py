"""What the samples of a host change: progress where the log shows none, ranks that vanish, slowness told."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from bot.core.actions import Noticed, Pace, Progress
from bot.core.baseline import phase_key
from bot.core.events import PhaseId, Role, Verb
from bot.core.ranks import in_order
from bot.core.startup_end import take_fall
from bot.core.startup_members import Fell, name_member, reads_on
from bot.core.startup_scene import pace, record_of, time_in_phase
from bot.core.startup_state import Downfall
from bot.core.trace import Trace, say_reading, say_shard
from bot.core.words import count, name_doing, name_ranks, spell_duration

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import Member, Rank
    from bot.core.evidence import Sample
    from bot.core.startup_turn import Turn

VANISHED_FOR = timedelta(seconds=20)  # before a rank that is gone is a failure: the unit may say more itself
_WORTH_TELLING = timedelta(seconds=30)  # a phase that usually takes less may be slow without a word
_HANGS = {"sglang": "SGLang ≤0.5.9 hangs for ever on that"}


def take_sample(turn: Turn, name: Member, sample: Sample, now: datetime) -> None:
    """One look at a member; one at another start than the watched one tells nothing about it."""
    member = turn.state.members[name]
    if member.invocation is None or member.provisional or sample.invocation != member.invocation:
        return
    if member.trace.invocation != member.invocation:
        member.trace = Trace(member.invocation)
    member.trace.take(sample)
    turn.changed = True
    if turn.current(now) == (PhaseId.WEIGHTS, Role.TARGET):
        _read_on(turn, name, member.trace, now)


def _read_on(turn: Turn, name: Member, trace: Trace, now: datetime) -> None:
    """Weights that are read are progress, whether the log shows a bar or none."""
    if trace.started is None:
        trace.started = trace.before.read or 0 if trace.before is not None else 0
    bars, shard = turn.state.silence, trace.sample.shard if trace.sample is not None else None
    read = int((trace.share or 0.0) * 100)
    if read > _known(turn, f"read/{name}"):
        bars.is_grown_bar(f"read/{name}", Progress(read, 100))
        turn.progress(say_reading(trace), now)
    elif shard is not None and shard.number > _known(turn, f"mapped/{name}"):
        bars.is_grown_bar(f"mapped/{name}", Progress(shard.number, shard.total))
        turn.progress(say_shard(trace), now)


def _known(turn: Turn, key: str) -> int:
    bar = turn.state.silence.bars.get(key)
    return 0 if bar is None else bar.done


def check_ranks(turn: Turn, now: datetime) -> None:
    """A rank's process that vanished while others live is told at once, and ends the start if it stays so."""
    for name, member in turn.state.members.items():
        trace, unit = member.trace, member.unit
        if trace.sample is None or turn.state.fall is not None:
            continue
        if unit is None or unit.active != "active" or unit.job is not None:
            continue
        gone = sorted(trace.gone, key=in_order)
        new = [rank for rank in gone if rank not in trace.missed]
        trace.missed = gone
        if new:
            told = _say_gone(turn, new, living=trace.living)
            turn.say(Noticed(name_member(turn.plan, name, told)))
        lasting = [rank for rank in gone if trace.sample.at - trace.gone[rank] >= VANISHED_FOR]
        if lasting:
            fell = Fell(Downfall.VANISHED, _say_hang(turn, lasting), ended=False)
            take_fall(turn, fell, name=name, now=now)


def _say_gone(turn: Turn, ranks: list[Rank], *, living: int) -> str:
    process = "process is" if len(ranks) == 1 else "processes are"
    others = f"{count(living, 'other rank')} {'is' if living == 1 else 'are'}"
    said = "" if turn.suspects.is_proven else ", and the log does not say why"
    return f"{name_ranks(ranks)}: the {process} gone{said}. {others} still there."


def _say_hang(turn: Turn, ranks: list[Rank]) -> str:
    owned = f"{ranks[0]}'s process is" if len(ranks) == 1 else f"the processes of {name_ranks(ranks)} are"
    return f"{owned} gone; {_HANGS.get(turn.engine.name, 'the other ranks wait for it, perhaps for ever')}"


def check_slowness(turn: Turn, now: datetime) -> None:
    """Beyond the usual and still moving: told once a phase, so that nobody takes it for a stall."""
    if not turn.plan.usual.samples:
        return
    scene, (phase, role) = turn.scene(now), turn.current(now)
    key, usual = phase_key(phase, role), turn.plan.usual.of(phase, role)
    if usual is None or usual < _WORTH_TELLING or key in turn.state.slow or turn.plan.verb is Verb.STOP:
        return
    record = record_of(scene, phase, role)
    begun = record is not None and record.ended is None  # else the time told would be that of the whole start
    if turn.state.fall is not None or turn.state.proof.since is not None or not begun:
        return
    if any(reads_on(member, now) for member in turn.state.members.values()):
        return
    if pace(scene) is Pace.SLOW:
        spent = time_in_phase(scene)
        turn.state.slow.append(key)
        times = f"usual {spell_duration(usual)}, now {spell_duration(spent)}"
        turn.say(Noticed(f"Slower than usual {name_doing(phase, role)}: {times}, and still moving."))
