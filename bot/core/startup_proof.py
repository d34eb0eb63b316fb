"""The way to the proof: when the engine is asked, what its answers mean, the smoke test, the hold."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bot.core.actions import ProbeNow, RunSmoke, Verdict
from bot.core.events import PhaseId, Verb
from bot.core.readiness import (
    FOREIGN_ANSWERS,
    OK,
    is_foreign,
    is_smoke_done,
    is_stable,
    missing_proof,
    unlisted_model,
    wrong_model,
)
from bot.core.startup_end import fail_with, finish, take_fall
from bot.core.startup_members import Fell
from bot.core.startup_scene import host_now
from bot.core.startup_state import Downfall

if TYPE_CHECKING:
    from bot.core.events import ProbeAnswer, SmokeResult
    from bot.core.startup_turn import Turn

PROBE_EVERY = timedelta(seconds=1)  # once the log says ready, until the proof stands
HOLD_EVERY = timedelta(seconds=3)  # while it must hold
PROBE_LOST = timedelta(seconds=60)  # an order to probe that nobody answered is given again


def take_ready(turn: Turn, at: datetime, now: datetime) -> None:
    """The log says ready: a claim, to be looked into at once."""
    proof = turn.state.proof
    proof.said, proof.said_on_host, proof.foreign = now, at, 0
    turn.changed = True
    turn.progress("the engine says it is ready", now)
    if turn.plan.verb is not Verb.STOP:
        probe(turn, now)


def probe(turn: Turn, now: datetime, *, every: timedelta = timedelta()) -> None:
    """Order a probe, unless one is out or the last was ordered less than `every` ago."""
    proof = turn.state.proof
    if proof.asked is not None and now - proof.asked < (PROBE_LOST if proof.out else every):
        return
    proof.asked, proof.out = now, True
    turn.order(ProbeNow())


def take_answer(turn: Turn, answer: ProbeAnswer, now: datetime, *, asked: datetime | None = None) -> None:
    """What was asked before the watched start began may have been answered by the process before it."""
    proof = turn.state.proof
    if asked is not None and proof.renewed is not None and asked < proof.renewed:
        proof.out = False
        return
    turn.changed = turn.changed or answer != proof.answer
    proof.answer, proof.answered, proof.out = answer, now, False
    proof.foreign = proof.foreign + 1 if proof.said is not None and is_foreign(answer) else 0
    listed = answer.health != OK or turn.plan.model is None or turn.plan.model in (answer.models or ())
    proof.unlisted = None if listed else proof.unlisted or now
    if turn.plan.verb is not Verb.STOP and turn.state.fall is None:
        _judge_answer(turn, now)


def forget_answer(turn: Turn, now: datetime) -> None:
    """A start took the place of another: what the engine said up to now was said by the one before."""
    proof = turn.state.proof
    proof.answer = proof.answered = proof.unlisted = proof.since = None
    proof.foreign, proof.renewed = 0, now


def _judge_answer(turn: Turn, now: datetime) -> None:
    """Answers that no waiting will mend."""
    phase, _ = turn.current(now)
    wrong = wrong_model(turn.plan, turn.state, phase) or unlisted_model(turn.state, now)
    if turn.state.proof.foreign >= FOREIGN_ANSWERS:
        wrong = "the port is served by another process: the listening socket does not belong to the unit"
    if wrong is not None:
        fail_with(turn, wrong, now)


def take_smoke(turn: Turn, result: SmokeResult, now: datetime) -> None:
    proof = turn.state.proof
    if proof.smoke is not None or proof.smoke_asked is None:
        return
    proof.smoke = result
    at = host_now(turn.state, now)
    turn.end_phase(PhaseId.SMOKE, at, now)
    if result.passed:
        proof.since = now if proof.since is not None else None  # a first request may be what it dies of later
        turn.begin_phase(PhaseId.READY, at, now)
        return
    sentence = f"the smoke test failed: {result.error or 'no reason was given'}"
    take_fall(turn, Fell(Downfall.SMOKE, sentence, ended=False), name=None, now=now)


def check_ready(turn: Turn, now: datetime) -> None:
    """Ask as often as is due, and look whether everything holds."""
    proof = turn.state.proof
    if turn.plan.verb is Verb.STOP or turn.state.fall is not None:
        return
    _prove(turn, now)
    if turn.is_over:
        return
    if proof.since is not None:
        if proof.answered is None or now - proof.answered >= HOLD_EVERY:
            probe(turn, now, every=HOLD_EVERY)
    elif _is_near(turn):
        probe(turn, now, every=PROBE_EVERY)


def _is_near(turn: Turn) -> bool:
    """The log or the engine has said yes at least once: from now on every second counts."""
    proof = turn.state.proof
    return _is_healthy(turn) or proof.said is not None or proof.smoke_asked is not None


def _prove(turn: Turn, now: datetime) -> None:
    """Whether everything holds, since when, and what follows from it."""
    proof = turn.state.proof
    if not _is_proven(turn, now):
        turn.changed = turn.changed or proof.since is not None
        proof.since = None
        return
    if proof.since is None:
        _begin_hold(turn, now)
    if turn.plan.smoke and proof.smoke_asked is None:
        proof.smoke_asked = now
        turn.order(RunSmoke())
    if is_stable(turn.plan, turn.state, now) and is_smoke_done(turn.plan, turn.state):
        finish(turn, Verdict.HEALTHY, now)


def _is_proven(turn: Turn, now: datetime) -> bool:
    """Nothing is missing; without a healthy answer there is no need to look at the rest."""
    if not _is_healthy(turn) or _is_log_behind(turn, now):
        return False
    return missing_proof(turn.plan, turn.state, turn.current(now)[0]) is None


def _is_log_behind(turn: Turn, now: datetime) -> bool:
    """Whether phases that are over may still be told by their own lines: a proof would close them unseen."""
    proof = turn.state.proof
    return proof.said is None and proof.log_first is not None and now < proof.log_first


def _is_healthy(turn: Turn) -> bool:
    answer = turn.state.proof.answer
    return answer is not None and answer.health == OK


def _begin_hold(turn: Turn, now: datetime) -> None:
    """Proven: what is left is ours to do."""
    turn.state.proof.since, turn.changed = now, True
    if all(record.phase not in {PhaseId.SMOKE, PhaseId.READY} for record in turn.tracker.phases()):
        turn.close_phases(now)
        left = PhaseId.SMOKE if turn.plan.smoke else PhaseId.READY
        turn.begin_phase(left, host_now(turn.state, now), now)
