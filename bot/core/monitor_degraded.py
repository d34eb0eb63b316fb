"""Not well, though it serves: slow completions, a queue that grows, a full KV cache, a GPU's fault.

Each kind is told once and again only after it was quiet for a while. None of it pages anybody, and the thread
ends by itself when nothing of the kind was seen for a quarter of an hour. While an outage is open, the same
signs go into that. A completion that fails is more than that: a dead engine may go on answering 200.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from bot.core.incident_events import Recovered, SignSeen
from bot.core.incident_state import Severity, Sign, SignKind
from bot.core.monitor_events import CheckSmoke
from bot.core.monitor_outage import fall, open_degraded, tell
from bot.core.monitor_state import Sight, WatchStanding
from bot.core.smoke import FIRST_TOKEN, RATE
from bot.core.words import spell_duration

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import SmokeResult
    from bot.core.monitor_events import LoadSeen
    from bot.core.monitor_turn import WatchTurn

CALM = timedelta(minutes=15)  # without any such sign it is over
ASK_AGAIN = timedelta(minutes=1)
SMOKE_FAILURES = 2  # in a row, before the engine counts as dead
FAR_OFF = 3.0  # times the usual
_LEAST_WAIT = 1.0  # seconds; a first token that comes sooner is never slow
_FULL_WITHIN, _FULL_TIMES = timedelta(minutes=5), 3
_NO_ROOM = 0.98  # of the KV cache
_LOSSY_LOOKS, _LOSSY = 20, 6  # of so many checks more than so many failed
_QUEUE_LOOKS, _QUEUE_LEAST = 5, 16  # a queue that grew with each of so many looks, to so many requests


def take_smoke(turn: WatchTurn, result: SmokeResult, now: datetime) -> None:
    """Asked once more at once before it is told: one answer alone may be anything."""
    state = turn.state
    if state.operation is not None or state.standing in {WatchStanding.STARTING, WatchStanding.STOPPED}:
        return
    if not result.passed and not result.busy:
        _take_failure(turn, result, now)
        return
    if result.passed:
        state.smoke_fails, state.smoke_asked = 0, None
    slow = _say_slow(turn, result)
    state.slow = state.slow + 1 if slow is not None else 0
    if slow is None:
        return
    if state.slow == 1:
        turn.order(CheckSmoke())
    else:
        ail(turn, Sign(SignKind.SLOW, now, slow), now)


def _take_failure(turn: WatchTurn, result: SmokeResult, now: datetime) -> None:
    state = turn.state
    state.smoke_fails += 1
    state.smoke_failed = now if state.smoke_fails == 1 else state.smoke_failed or now
    if state.smoke_fails < SMOKE_FAILURES:
        turn.order(CheckSmoke())
    elif state.standing in {WatchStanding.SERVING, WatchStanding.SUSPECT}:
        told = f"a completion fails: {_why(result)}"
        evidence = ("/health answers 200",) if state.fails == 0 else ()
        fall(turn, Sign(SignKind.SMOKE, state.smoke_failed, told, evidence=evidence), now)


def _why(result: SmokeResult) -> str:
    return (result.error or "no answer").rstrip(".")


def is_mute(turn: WatchTurn, now: datetime) -> bool:
    """It is down because no completion came; the probe alone does not show that one comes again."""
    state = turn.state
    if state.smoke_fails < SMOKE_FAILURES or state.standing is not WatchStanding.DOWN:
        return False
    if state.smoke_asked is None or now - state.smoke_asked >= ASK_AGAIN:
        state.smoke_asked = now
        turn.order(CheckSmoke())
    return True


def _say_slow(turn: WatchTurn, result: SmokeResult) -> str | None:
    if result.busy:
        return f"completions are turned away: {_why(result)}"
    usual = turn.plan.usual
    first, rate = usual.speed(FIRST_TOKEN), usual.speed(RATE)
    if result.first_token is not None and first is not None:
        most = max(first * FAR_OFF, first + _LEAST_WAIT)
        if result.first_token >= most:
            return f"the first token takes {result.first_token:.1f}s (usual {first:.1f}s)"
    speed = result.tokens_per_second
    if speed is not None and rate is not None and speed <= rate / FAR_OFF:
        return f"{speed:.0f} tokens/s (usual {rate:.0f})"
    return None


def take_load(turn: WatchTurn, load: LoadSeen, now: datetime) -> None:
    state = turn.state
    state.waiting = [*state.waiting, load.waiting][-_QUEUE_LOOKS:]
    looks = state.waiting
    grew = all(one < other for one, other in pairwise(looks))
    if len(looks) == _QUEUE_LOOKS and grew and looks[-1] >= _QUEUE_LEAST:
        told = f"requests pile up: {looks[-1]} wait, {looks[0]} did {_QUEUE_LOOKS - 1} looks before; "
        ail(turn, Sign(SignKind.QUEUE, now, f"{told}{load.running} run"), now)
    no_room = load.usage is not None and load.usage >= _NO_ROOM and load.waiting > 0
    state.crowded = state.crowded + 1 if no_room else 0
    if state.crowded >= _QUEUE_LOOKS:
        told = f"the KV cache is full ({load.usage:.0%}) with {load.waiting} requests waiting"
        ail(turn, Sign(SignKind.MEMORY, now, told), now)


def take_ailing(turn: WatchTurn, sign: Sign, now: datetime) -> None:
    """A line of the log or the kernel. A cache that is full now and then is how engines work."""
    state = turn.state
    if sign.kind is SignKind.MEMORY:
        state.full = [*(at for at in state.full if now - at <= _FULL_WITHIN), now][-_FULL_TIMES:]
        if len(state.full) < _FULL_TIMES:
            return
        sign = replace(sign, sentence=f"{sign.sentence}, {len(state.full)} times within 5m")
    ail(turn, sign, now)


def ail(turn: WatchTurn, sign: Sign, now: datetime) -> None:
    state = turn.state
    before = state.worst.get(sign.kind)
    if state.operation is not None or turn.is_muted(now):
        return
    if state.severity is Severity.DOWN:
        state.worst[sign.kind] = now
        if before is None:
            tell(turn, SignSeen(sign))
        return
    if state.standing not in {WatchStanding.SERVING, WatchStanding.SUSPECT}:
        return
    state.worst[sign.kind] = now
    if state.severity is None and before is not None and now - before < CALM:
        return  # somebody closed it, and it has not been well since
    if state.severity is None:
        open_degraded(turn, sign, now)
    elif before is None or now - before >= CALM:
        tell(turn, SignSeen(sign))


def note_missed(turn: WatchTurn, doubt: str, sight: Sight, now: datetime) -> None:
    """One more check that failed: many of them, though never enough in a row, are no good service either."""
    state = turn.state
    if state.standing is not WatchStanding.SUSPECT or sight not in {Sight.SEEN, Sight.HALF}:
        return
    within = turn.plan.every * _LOSSY_LOOKS
    state.missed = [*(at for at in state.missed if now - at < within), now]
    if len(state.missed) > max(_LOSSY, turn.plan.failures):
        often = f"{len(state.missed)} checks went wrong within {spell_duration(within)}"
        told = f"{often}, though not in a row: {doubt}"
        ail(turn, Sign(SignKind.PROBE, now, told), now)


def check_calm(turn: WatchTurn, now: datetime) -> None:
    """What was degraded is well again: it serves, and nothing of the kind has been seen for a while."""
    state = turn.state
    if state.severity is not Severity.DEGRADED or state.standing is not WatchStanding.SERVING:
        return
    last = max(state.worst.values(), default=now)
    if state.slow == 0 and state.cut == 0 and now - last >= CALM:
        tell(turn, Recovered(last))
        state.severity, state.recovered = None, now
        state.worst.clear()
