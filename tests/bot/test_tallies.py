"""What counts of all that the core orders."""

from __future__ import annotations

from datetime import timedelta

from bot.core.actions import Noticed, PostReply, ProbeNow, StallReported, Verdict, VerdictReached
from bot.core.events import PhaseId, Role
from bot.tallies import Tallies

ZERO = timedelta()


def verdict(reached: Verdict) -> PostReply:
    reply = VerdictReached(
        verdict=reached, phase=PhaseId.READY, role=Role.TARGET, took=ZERO, usual=None, phases=()
    )
    return PostReply(1, reply)


def test_verdicts_and_stalls_count_when_they_are_told_and_nothing_else_does() -> None:
    tallies = Tallies()
    stall = StallReported(PhaseId.WEIGHTS, Role.TARGET, silent=ZERO, patience=ZERO, in_phase=ZERO)
    for action in (
        verdict(Verdict.HEALTHY),
        verdict(Verdict.HEALTHY),
        verdict(Verdict.FAILED),
        PostReply(2, stall),
        PostReply(3, Noticed("The host cannot be seen.")),
        ProbeNow(),
    ):
        tallies.note(action)
    assert tallies.verdicts == {"healthy": 2, "failed": 1}
    assert tallies.stalls == 1
    assert tallies.running == 0
