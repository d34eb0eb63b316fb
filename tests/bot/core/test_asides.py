"""Tests of the replies about changes and markers, and about what nobody saw."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.actions import LogGap, Mark, MarkerSeen, Resumed, SetupChanged, Verdict, VerdictReached
from bot.core.asides import render_marker, render_setup
from bot.core.changes import Change, Kind
from bot.core.events import HostName, Member, PhaseId, Role
from bot.core.marker import Hit
from bot.core.render import render_reply
from bot.core.words import Searched
from tests.support.slack_messages import assert_sendable, button_values, kinds, preformatted, shown
from tests.support.startup_views import mark, midway

SINCE = datetime(2026, 5, 28, 18, 2, tzinfo=UTC)
PARSER = Change(Kind.FLAG, "--tool-call-parser", None, "kimi_k2")
MEMORY = Change(Kind.FLAG, "--mem-fraction-static", "0.85", "0.82")
DEBUG = Change(Kind.ENVIRONMENT, "NCCL_DEBUG", "INFO", None)
HOST = HostName("llm-two")
THEN = datetime(2026, 5, 29, 12, 3, 10, tzinfo=UTC)
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


def second(at: datetime, fallback: str, *, day: bool = True) -> str:
    shown = "{date_short_pretty} {time_secs}" if day else "{time_secs}"
    return f"<!date^{int(at.timestamp())}^{shown}|{fallback} UTC>"


def test_an_absence_of_kimi_is_told_with_the_word_that_is_searched_for() -> None:
    message = render_reply(Resumed(timedelta(seconds=42)), midway())
    assert_sendable(message)
    assert message.text.startswith("*resumed* after 42s: kimi itself was away, not the service.")
    assert [word for word in Searched if word in message.text] == [Searched.RESUMED]


def test_what_a_journal_no_longer_holds_is_told_to_the_second_and_how_long_it_is() -> None:
    until = THEN + timedelta(minutes=6, seconds=31)
    message = render_reply(LogGap(HOST, THEN, until), midway())
    assert_sendable(message)
    span = f"{second(THEN, '29 May 12:03:10')} to {second(until, '12:09:41', day=False)}"
    assert message.text == (
        f"The journal of *llm-two* no longer holds {span} (6m31s): "
        "what was written then is not known. The watch goes on."
    )


def test_a_gap_that_ends_on_another_day_says_which() -> None:
    until = THEN + timedelta(hours=20)
    message = render_reply(LogGap(HOST, THEN, until), midway())
    assert second(until, "30 May 08:03:10") in message.text


def test_a_journal_that_holds_nothing_more_and_a_file_begun_anew() -> None:
    since = second(THEN, "29 May 12:03:10")
    empty = render_reply(LogGap(HOST, THEN, None), midway())
    assert empty.text.startswith(f"The journal of *llm-two* holds nothing that was written after {since}: ")
    file = render_reply(LogGap(HOST, THEN, None, "/var/log/kimi.log"), midway())
    assert file.text.startswith(
        f"`/var/log/kimi.log` on *llm-two* was begun anew while nobody read it, after {since}: "
    )
    for message in (empty, file):
        assert_sendable(message)
        assert not any(word in message.text for word in Searched)
