"""How a startup ends: evidence of failure and the wait for the rest of its story, then the one verdict."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bot.core.account import Failure
from bot.core.actions import Close, SetupChanged, UploadPicture, UploadTail, Verdict, VerdictReached
from bot.core.baseline import WHOLE, phase_key
from bot.core.conclusion import Conclusion, conclude, durations_of
from bot.core.events import Member, Verb
from bot.core.smoke import speeds_of, usual_of
from bot.core.startup_account import has_picture
from bot.core.startup_kernel import killed_cause
from bot.core.startup_markers import say_last
from bot.core.startup_members import Fell, name_member
from bot.core.startup_scene import elapsed
from bot.core.startup_setup import changes_of, stale_members
from bot.core.startup_state import Downfall, Fall
from bot.core.startup_way import phases_of

if TYPE_CHECKING:
    from bot.core.events import UserId
    from bot.core.startup_turn import Turn

FALL_WAIT = timedelta(seconds=10)  # for the first root error and systemd's result
ENDED_WAIT = timedelta(seconds=2)  # once systemd has said how the unit ended
STOPPED_WAIT = timedelta(seconds=5)  # somebody stopped it: a host that goes down is soon out of sight
SMOKE_WAIT = timedelta(seconds=5)  # for the crash that may stand behind a failed smoke test
_STRENGTH = {kind: strength for strength, kind in enumerate(Downfall)}


def take_fall(turn: Turn, fell: Fell, *, name: Member | None, now: datetime) -> None:
    """Remember the strongest evidence of failure; a weaker one adds nothing."""
    fall = turn.state.fall
    turn.changed = turn.changed or fall is None
    if fall is None or fall.kind is Downfall.SMOKE:
        turn.state.fall = fall = Fall(fell.kind, name, now, fell.sentence)
    elif _STRENGTH[fell.kind] > _STRENGTH[fall.kind]:
        fall.kind, fall.member, fall.sentence = fell.kind, name, fell.sentence
    if fell.ended and fall.ended is None:
        fall.ended = now


def check_fall(turn: Turn, now: datetime) -> None:
    """The verdict, once enough of the story is known or has had its time to come."""
    fall = turn.state.fall
    if fall is None:
        return
    if _is_blind(turn, fall):
        return
    if fall.kind is Downfall.SMOKE and _is_out_of_sight(turn):
        _forget_smoke(turn)
        return
    wait = SMOKE_WAIT if fall.kind is Downfall.SMOKE else FALL_WAIT
    enough = STOPPED_WAIT if _was_stopped(turn, fall) else ENDED_WAIT
    early = fall.ended is not None and now - fall.ended >= enough and not _may_loop(turn, fall)
    if not early and now - fall.since < wait:
        return
    likely = turn.suspects.is_proven or turn.suspects.is_likely
    ranks = [each.rank for each in turn.tracker.places()]
    found = killed_cause(turn, fall.member) or (turn.suspects.cause(ranks=ranks) if likely else None)
    fail(turn, conclude(turn.plan, turn.state, fall=fall, found=found, current=turn.current(now)), now)


def _is_blind(turn: Turn, fall: Fall) -> bool:
    """The rest of the story is on a host that cannot be seen; a stop there may be that of the whole host.

    What the engine itself said is enough without it.
    """
    member = turn.state.members.get(fall.member) if fall.member is not None else None
    if member is None or member.lost is None:
        return False
    return member.stopping or (fall.ended is None and fall.kind is not Downfall.FATAL)


def _was_stopped(turn: Turn, fall: Fall) -> bool:
    return fall.member is not None and turn.state.members[fall.member].stopping


def _is_out_of_sight(turn: Turn) -> bool:
    return any(member.lost is not None for member in turn.state.members.values())


def _forget_smoke(turn: Turn) -> None:
    """Its way to the engine may be the one that was lost: it is run again when the host is back."""
    turn.state.fall, turn.changed = None, True
    turn.state.proof.smoke = turn.state.proof.smoke_asked = turn.state.proof.since = None


def _may_loop(turn: Turn, fall: Fall) -> bool:
    """The unit's own policy may start it again: then it is worth knowing how often it did."""
    unit = turn.state.members[fall.member].unit if fall.member is not None else None
    return fall.kind is Downfall.DOWN and unit is not None and unit.restart_policy != "no"


def fail_with(turn: Turn, sentence: str, now: datetime, *, name: Member | None = None) -> None:
    """Failed at once, for a reason that no waiting would mend."""
    told = sentence if name is None else name_member(turn.plan, name, sentence)
    fail(turn, Conclusion(told, *turn.current(now)), now)


def fail(turn: Turn, conclusion: Conclusion, now: datetime) -> None:
    turn.state.failed_phase = phase_key(conclusion.phase, conclusion.role)
    turn.state.failure = _failure(conclusion)
    finish(turn, Verdict.FAILED, now, conclusion=conclusion)


def _failure(conclusion: Conclusion) -> Failure:
    """What is remembered of it, for who asks why."""
    told = Failure(
        conclusion.cause, conclusion.phase, conclusion.role, conclusion.rank, advice=conclusion.advice or ""
    )
    found = conclusion.found
    if found is None:
        return told
    told = replace(told, means=found.means, evidence=found.evidence, seen=found.seen)
    return replace(told, also=found.also or "", also_rank=found.also_rank)


def finish(
    turn: Turn,
    verdict: Verdict,
    now: datetime,
    *,
    conclusion: Conclusion | None = None,
    by: UserId | None = None,
) -> None:
    """The verdict, said once. A failure of what was asked for goes to the channel too, with the whole log.

    A start that nobody asked for is part of an outage, and that one's thread is what the channel hears of.
    """
    state, failed = turn.state, verdict is Verdict.FAILED
    say_last(turn, now)
    if verdict in {Verdict.HEALTHY, Verdict.STOPPED}:
        turn.close_phases(now)
    conclusion = conclusion or Conclusion("", *turn.current(now))
    state.verdict, state.ended, state.cause = verdict, now, conclusion.cause or None
    turn.say(_verdict_reply(turn, conclusion, now, by=by), broadcast=failed and turn.plan.by is not None)
    if failed and state.lines:
        state.sequence += 1
    order_end(turn, now)


def order_end(turn: Turn, now: datetime) -> None:
    """What is left to do after the verdict. Ordered again it is the same: the log keeps its sequence."""
    state = turn.state
    if state.verdict is None:
        return
    if state.verdict is Verdict.FAILED and state.lines:
        turn.order(UploadTail(state.sequence, "The whole log of this start."))
    if has_picture(state, turn.plan.verb):
        turn.order(UploadPicture())
    turn.order(Close(state.verdict, _durations(turn, now), _silences(turn), _speeds(turn)))


def _verdict_reply(turn: Turn, conclusion: Conclusion, now: datetime, *, by: UserId | None) -> VerdictReached:
    plan, state, scene, found = turn.plan, turn.state, turn.scene(now), conclusion.found
    return VerdictReached(
        verdict=state.verdict or Verdict.FAILED,
        phase=conclusion.phase,
        role=conclusion.role,
        took=elapsed(scene),
        usual=plan.usual.whole if plan.verb is not Verb.STOP else None,
        phases=phases_of(scene),
        cause=state.cause,
        root_error=conclusion.root_error,
        rank=conclusion.rank,
        speaker=conclusion.speaker,
        advice=conclusion.advice,
        means=found.means if found is not None else None,
        also=found.also if found is not None else None,
        model=plan.model if state.verdict is Verdict.HEALTHY else None,
        smoke=state.proof.smoke,
        by=by,
        smoke_usual=usual_of(plan.usual),
        setup=_setup(turn) if state.verdict is Verdict.FAILED else None,
        markers=turn.markers.untold(),
        loops=conclusion.loops,
    )


def _setup(turn: Turn) -> SetupChanged | None:
    changes, stale = changes_of(turn.plan, turn.state), stale_members(turn.state)
    last = turn.plan.last
    return SetupChanged(changes, last.at if last else None, stale) if changes or stale else None


def _speeds(turn: Turn) -> dict[str, float]:
    return speeds_of(turn.state.proof.smoke) if turn.state.verdict is Verdict.HEALTHY else {}


def _durations(turn: Turn, now: datetime) -> dict[str, float]:
    if turn.state.verdict is not Verdict.HEALTHY:
        return {}
    durations = durations_of(turn.plan, turn.tracker.phases(), took=elapsed(turn.scene(now)))
    if any(member.boots for member in turn.state.members.values()):
        durations.pop(WHOLE, None)  # a boot in between is no part of what is usual
    return durations


def _silences(turn: Turn) -> dict[str, float]:
    """How long each phase of a healthy start was silent, at most."""
    return dict(turn.state.silence.longest) if turn.state.verdict is Verdict.HEALTHY else {}
