"""What proves that a host is there, and how one that tells nothing shows itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bot.core.events import HostName, ServiceName
from bot.core.incident_state import Severity, SignKind
from bot.core.monitor_events import DirectAsked, HostChecked
from bot.core.monitor_sight import Shown, note_answers, note_seen, note_unseen
from bot.core.monitor_state import HostPlan, HostState, Sight

NOW = datetime(2026, 5, 29, 3, 12, 41, tzinfo=UTC)
BEHIND, PAST, FAR = ServiceName("behind"), ServiceName("past"), ServiceName("far")
EVERY = timedelta(seconds=15)
MIXED = HostPlan(HostName("llm-two"), (BEHIND, PAST), direct={PAST: EVERY})
ONLY_SSH = HostPlan(HostName("llm-two"), (BEHIND,), others=(FAR,))
ONLY_PAST = HostPlan(HostName("llm-two"), (PAST,), direct={PAST: EVERY})
BARRED = "SSH is refused (connection refused)"
ANSWERS, REFUSES, SILENT = DirectAsked((PAST,)), DirectAsked(refusing=(PAST,)), DirectAsked(silent=(PAST,))


def show(plan: HostPlan, *looks: DirectAsked, barred: str | None = None) -> Shown:
    state = HostState()
    for each in looks:
        note_answers(state, each, NOW)
    return note_unseen(plan, state, HostChecked("in whole", barred=barred), NOW)


@pytest.mark.parametrize(
    ("plan", "looks", "barred", "severity", "sight", "sentence"),
    [
        (MIXED, [SILENT], None, Severity.HOST, Sight.GONE, "the host does not answer SSH"),
        (ONLY_SSH, [], None, Severity.HOST, Sight.GONE, "the host does not answer SSH"),
        (
            MIXED,
            [ANSWERS],
            None,
            Severity.DEGRADED,
            Sight.HALF,
            "SSH does not answer, though 1 service on it can be reached another way",
        ),
        (
            MIXED,
            [REFUSES],
            None,
            Severity.HOST,
            Sight.HALF,
            (
                "SSH does not answer, though the host is there and refuses connections to past;"
                " 1 service there cannot be seen"
            ),
        ),
        (
            ONLY_PAST,
            [REFUSES],
            None,
            Severity.DEGRADED,
            Sight.HALF,
            "SSH does not answer, though the host is there and refuses connections to past",
        ),
        (ONLY_SSH, [], BARRED, Severity.HOST, Sight.HALF, f"{BARRED}, so 2 services there cannot be seen"),
        (MIXED, [SILENT], BARRED, Severity.HOST, Sight.HALF, f"{BARRED}, so 1 service there cannot be seen"),
        (MIXED, [], BARRED, Severity.DEGRADED, Sight.HALF, f"{BARRED}, so 1 service there cannot be seen"),
        (ONLY_PAST, [SILENT], BARRED, Severity.DEGRADED, Sight.HALF, BARRED),
    ],
)
def test_how_it_shows_itself(
    plan: HostPlan,
    looks: list[DirectAsked],
    barred: str | None,
    severity: Severity,
    sight: Sight,
    sentence: str,
) -> None:
    shown = show(plan, *looks, barred=barred)
    assert (shown.severity, shown.sight, shown.sentence) == (severity, sight, sentence)
    assert shown.kind is (SignKind.HIDDEN if shown.alive else SignKind.SIGHT)


def test_only_the_newest_look_at_a_service_counts() -> None:
    assert show(MIXED, ANSWERS, SILENT).sight is Sight.GONE
    assert show(MIXED, ANSWERS, REFUSES).refusing == (PAST,)
    assert show(MIXED, ANSWERS, REFUSES).answering == ()
    assert show(MIXED, SILENT, ANSWERS).severity is Severity.DEGRADED


def test_an_answer_is_worth_no_more_than_its_time() -> None:
    state = HostState()
    note_answers(state, REFUSES, NOW)
    late = NOW + EVERY * 2
    assert note_unseen(MIXED, state, HostChecked("timed out"), late).sight is Sight.GONE


def test_of_all_that_may_hide_the_services_elsewhere_are_named_too() -> None:
    assert show(ONLY_SSH).hidden == (BEHIND, FAR)
    assert show(MIXED, ANSWERS).hidden == (BEHIND,)
    assert show(MIXED, SILENT).hidden == (BEHIND, PAST)


def test_seen_once_all_begins_anew() -> None:
    state = HostState()
    note_unseen(ONLY_SSH, state, HostChecked("refused", barred=BARRED), NOW)
    assert (state.fails, state.shows, state.failing_since) == (1, BARRED, NOW)
    note_seen(ONLY_SSH, state, NOW)
    assert (state.fails, state.shows, state.failing_since, state.goods) == (0, "", None, 1)
