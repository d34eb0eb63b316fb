"""What waits for time: a verb without effect, a stall, the end of all patience."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from bot.core.actions import StallReported, UploadStacks
from bot.core.readiness import missing_proof
from bot.core.startup_end import fail_with
from bot.core.startup_members import not_carried_out
from bot.core.startup_scene import last_moved, record_of, time_in_phase
from bot.core.startup_view import evidence_of
from bot.core.words import name_doing, spell_duration

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.startup_turn import Turn

MOVED_TOLD_AFTER = timedelta(seconds=5)  # what dies says new things too


def check_verb(turn: Turn, now: datetime) -> None:
    for name, member in turn.state.members.items():
        if not_carried_out(member, now):
            sentence = f"the {turn.plan.verb} was not carried out: no new start and no job in 60s"
            fail_with(turn, sentence, now, name=name)
            return


def check_limit(turn: Turn, now: datetime) -> None:
    if now < turn.plan.began + turn.plan.give_up_after or now < (turn.state.silence.until or now):
        return
    phase, role = turn.current(now)
    said = turn.state.proof.said is not None
    still = missing_proof(turn.plan, turn.state, phase) if said else None
    waited = spell_duration(now - turn.plan.began)
    told = still or f"still {name_doing(phase, role)}"
    fail_with(turn, f"gave up after {waited}: {told}; the service is left as it is", now)


def check_silence(turn: Turn, now: datetime) -> None:
    silence = turn.state.silence
    if silence.stalled or turn.state.proof.since is not None or turn.state.fall is not None:
        return
    patience = turn.patience(now)
    if silence.lasts(now) < patience or not silence.exceeds(patience, now, moved=last_moved(turn.state)):
        return
    silence.stalled = silence.told = True
    turn.tell_moved()
    # Who asked for it is named in the report; where nobody did, the channel is all there is to tell.
    turn.say(_stall(turn, patience, now), broadcast=turn.plan.by is None)
    turn.upload("The whole log of this start up to the stall.")
    _order_stacks(turn)


def check_moved(turn: Turn, now: datetime) -> None:
    """A stall that ended: told a moment later, unless it was a failure that ended it."""
    moved = turn.state.moved
    if moved is not None and turn.state.fall is None and now - moved.at >= MOVED_TOLD_AFTER:
        turn.tell_moved()


def _order_stacks(turn: Turn) -> None:
    samples = {name: member.trace.sample for name, member in turn.state.members.items()}
    processes = {
        name: sample.ranks for name, sample in samples.items() if sample is not None and sample.ranks
    }
    if processes:
        turn.state.sequence += 1
        turn.order(UploadStacks(turn.state.sequence, processes))


def _stall(turn: Turn, patience: timedelta, now: datetime) -> StallReported:
    scene, tracker = turn.scene(now), turn.tracker
    phase, role = turn.current(now)
    record = record_of(scene, phase, role)
    return StallReported(
        phase=phase,
        role=role,
        silent=turn.state.silence.lasts(now),
        patience=patience,
        in_phase=time_in_phase(scene),
        longest=turn.plan.usual.longest_silence(phase, role),
        progress=record.progress if record is not None else None,
        lagging=tracker.lagging(),
        ranks=tracker.places(),
        last_lines=tuple(turn.state.last_lines),
        evidence=evidence_of(scene),
    )
