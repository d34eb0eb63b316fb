"""Tests of the replies about changes and markers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.actions import Mark, MarkerSeen, SetupChanged, Verdict, VerdictReached
from bot.core.asides import render_marker, render_setup
from bot.core.changes import Change, Kind
from bot.core.events import Member, PhaseId, Role
from bot.core.marker import Hit
from bot.core.render import render_reply
from tests.support.slack_messages import assert_sendable, button_values, kinds, preformatted, shown
from tests.support.startup_views import mark, midway

SINCE = datetime(2026, 5, 28, 18, 2, tzinfo=UTC)
PARSER = Change(Kind.FLAG, "--tool-call-parser", None, "kimi_k2")
MEMORY = Change(Kind.FLAG, "--mem-fraction-static", "0.85", "0.82")
DEBUG = Change(Kind.ENVIRONMENT, "NCCL_DEBUG", "INFO", None)
ONE = Member("llm-two/sglang.service")


def test_one_change_stands_in_one_line_with_the_time_of_the_last_good_start() -> None:
    message = render_setup(SetupChanged((PARSER,), SINCE), midway())
    assert_sendable(message)
    stamp = f"<!date^{int(SINCE.timestamp())}^{{date_short_pretty}} {{time}}|28 May 18:02 UTC>"
    assert message.text == f"Changed since the last good start ({stamp}): `+ --tool-call-parser kimi_k2`."
    assert kinds(message) == ["section"]


def test_more_changes_are_a_list() -> None:
    message = render_setup(SetupChanged((PARSER, MEMORY, DEBUG), SINCE), midway())
    assert message.text.splitlines()[1:] == [
        "• `+ --tool-call-parser kimi_k2`",
        "• `--mem-fraction-static 0.85 → 0.82`",
        "• `- NCCL_DEBUG=INFO`",
    ]


def test_a_unit_file_that_was_not_read_anew_has_a_button() -> None:
    message = render_setup(SetupChanged((), None, (ONE,)), midway())
    assert_sendable(message)
    assert message.text.startswith("Unit file changed on disk: daemon-reload needed")
    assert button_values(message)["kimi:reload"]["s"] == "kimi-k2.5"


def test_a_marker_is_told_with_its_lines_and_how_many_more_there_were() -> None:
    message = render_marker(MarkerSeen(Hit("DIAG", ("a", "b ``` <!here>", "DIAG"), 2, others=17)))
    assert_sendable(message)
    assert message.text == "*DIAG* seen, and 17 more lines like it:"
    assert preformatted(message) == "a\nb ``` <!here>\nDIAG"
    assert render_marker(MarkerSeen(Hit("DIAG", ("x",), 0))).text == "*DIAG* seen:"


def test_a_failed_verdict_with_all_it_may_hold_keeps_within_slacks_limits() -> None:
    many = tuple(Change(Kind.ENVIRONMENT, f"NAME_{n}", "\u20ac" * 90, "\U0001f600" * 90) for n in range(90))
    phases = tuple(mark(phase, Mark.DONE, took=3_601, usual=3_601) for phase in PhaseId for _ in range(2))
    verdict = VerdictReached(
        verdict=Verdict.FAILED,
        phase=PhaseId.WEIGHTS,
        role=Role.DRAFT,
        took=timedelta(hours=2),
        usual=None,
        phases=phases,
        cause="\u20ac" * 2_000,
        root_error="\u20ac" * 5_000,
        advice="\u20ac" * 2_000,
        means="\u20ac" * 2_000,
        also="\u20ac" * 2_000,
        setup=SetupChanged(many, SINCE, (ONE,)),
        markers={f"marker {n}": 10**6 for n in range(50)},
    )
    message = render_reply(verdict, midway())
    assert_sendable(message)
    assert "Changed since the last good start" in shown(message)
    assert {"kimi:restart", "kimi:reload", "kimi:logs"} <= set(button_values(message))


def test_markers_that_were_not_told_stand_beside_any_verdict() -> None:
    for verdict in (Verdict.FAILED, Verdict.HEALTHY):
        took = timedelta(minutes=3)
        reply = VerdictReached(verdict, PhaseId.WEIGHTS, Role.TARGET, took, None, (), markers={"DIAG": 12})
        assert "Markers since they were last told: *DIAG* 12 more." in shown(render_reply(reply, midway()))


TEXT = st.text(max_size=400)
CHANGES = st.builds(Change, st.sampled_from(list(Kind)), TEXT, st.none() | TEXT, st.none() | TEXT)


@settings(max_examples=60, deadline=None)
@given(st.lists(CHANGES, max_size=80), st.booleans())
def test_any_changes_keep_within_slacks_limits(changes: list[Change], stale: bool) -> None:
    reply = SetupChanged(tuple(changes), SINCE, (ONE,) if stale else ())
    assert_sendable(render_setup(reply, midway()))


@settings(max_examples=60, deadline=None)
@given(TEXT, st.lists(TEXT, min_size=1, max_size=4), st.integers(0, 10**9))
def test_any_marker_keeps_within_slacks_limits(name: str, lines: list[str], others: int) -> None:
    assert_sendable(render_marker(MarkerSeen(Hit(name, tuple(lines), 0, others))))
