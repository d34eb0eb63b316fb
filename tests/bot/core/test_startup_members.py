"""What facts about one unit mean, before and after its new start."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from bot.core.events import InvocationId, LogLine, Origin, UnitObserved, UnitState, Verb
from bot.core.startup import fresh_state
from bot.core.startup_members import (
    Fell,
    Hopeless,
    StartSeen,
    StopDone,
    StopForced,
    StopSeen,
    Whose,
    hold,
    learn_offset,
    name_member,
    not_carried_out,
    read_new_line,
    read_old_line,
    read_unit,
    take_start,
    whose,
)
from bot.core.startup_state import Downfall, MemberState, Plan, Sent
from tests.support.startup_runs import BEGAN, MEMBER, NEW, NEXT, OLD, OLD_RUNNING, OTHER, RUNNING, make_plan

LATER = BEGAN + timedelta(seconds=30)
STOPPED = replace(OLD_RUNNING, active="inactive", sub="dead")


def member_of(plan: Plan, **changes: Any) -> MemberState:
    member = fresh_state(plan).members[MEMBER]
    for key, value in changes.items():
        setattr(member, key, value)
    return member


def line(invocation: InvocationId | None, text: str = "x", *, at: datetime | None = None) -> LogLine:
    return LogLine(text, text, at=at, origin=Origin.MANAGER, invocation=invocation)


def observe(plan: Plan, member: MemberState, unit: UnitState, now: datetime = LATER) -> list[Any]:
    return list(read_unit(plan, member, UnitObserved(MEMBER, unit), now))


RESTART = make_plan()
START = make_plan(verb=Verb.START)
STOP = make_plan(verb=Verb.STOP)
WATCH = make_plan(verb=Verb.WATCH)


@pytest.mark.parametrize(
    ("plan", "changes", "invocation", "expected"),
    [
        (RESTART, {}, OLD, Whose.OLD),
        (RESTART, {}, NEW, Whose.FIRST),
        (RESTART, {}, None, Whose.OLD),
        (RESTART, {"invocation": NEW}, NEW, Whose.WATCHED),
        (RESTART, {"invocation": NEW}, None, Whose.WATCHED),
        (RESTART, {"invocation": NEW}, OLD, Whose.OLD),
        (RESTART, {"invocation": NEW}, NEXT, Whose.OTHER),
        (RESTART, {"invocation": NEW, "provisional": True}, NEXT, Whose.FIRST),
        (STOP, {}, NEW, Whose.OLD),
        (WATCH, {}, OLD, Whose.FIRST),
    ],
)
def test_whose_a_line_is(
    plan: Plan, changes: dict[str, Any], invocation: InvocationId | None, expected: Whose
) -> None:
    assert whose(plan, member_of(plan, **changes), line(invocation)) is expected


def test_the_old_runs_lines_count_for_stopping_alone() -> None:
    member = member_of(RESTART)
    assert read_old_line(RESTART, member, line(OLD, "Stopping u - U...", at=BEGAN)) == [StopSeen(BEGAN)]
    assert read_old_line(RESTART, member, line(OLD, "u: State 'stop-sigterm' timed out. Killing.")) == [
        StopForced()
    ]
    for text in ("u: Main process exited, code=killed, status=9/KILL", "u: Failed with result 'signal'."):
        assert read_old_line(RESTART, member, line(OLD, text)) == []


def test_a_start_that_systemd_refuses() -> None:
    (fact,) = read_old_line(START, member_of(START), line(OLD, "u: Start request repeated too quickly."))
    assert isinstance(fact, Hopeless)
    assert "systemctl reset-failed sglang-kimi.service" in fact.sentence


def test_the_end_of_a_start_that_may_still_be_the_old_run_is_not_judged_by_lines() -> None:
    member = member_of(RESTART, invocation=NEW, provisional=True)
    assert read_new_line(member, line(NEW, "u: Failed with result 'signal'.")) == []


@pytest.mark.parametrize("load", ["not-found", "masked", "bad-setting", "error"])
def test_a_unit_that_cannot_start(load: str) -> None:
    unit = UnitState(load=load, active="inactive", sub="dead")
    (fact,) = observe(RESTART, member_of(RESTART, sent=Sent.ACCEPTED, sent_at=BEGAN), unit)
    assert isinstance(fact, Hopeless)


def test_a_new_invocation_is_the_start() -> None:
    member = member_of(RESTART, sent=Sent.ACCEPTED, sent_at=BEGAN)
    assert observe(RESTART, member, OLD_RUNNING) == []
    since = LATER - timedelta(seconds=1)
    assert observe(RESTART, member, replace(RUNNING, active_since=since)) == [StartSeen(since)]
    assert (member.invocation, member.sent, member.restarts) == (NEW, Sent.SETTLED, 0)


def test_the_time_of_the_run_before_is_not_the_new_ones() -> None:
    member = member_of(RESTART, sent=Sent.ACCEPTED, sent_at=BEGAN)
    unit = replace(RUNNING, active_since=BEGAN - timedelta(days=3))
    assert observe(RESTART, member, unit) == [StartSeen(None)]


def test_an_old_run_that_stops_is_no_start() -> None:
    member = member_of(RESTART, sent=Sent.ACCEPTED, sent_at=BEGAN)
    stopping = replace(OLD_RUNNING, active="deactivating", sub="stop-sigterm", job=9)
    assert observe(RESTART, member, stopping) == [StopSeen(None)]
    assert member.invocation is None
    assert member.sent_at == LATER


def test_a_run_that_systemd_began_just_before_the_verb_gives_way_to_the_verbs() -> None:
    """Interleaving: `before` is read while the unit waits to be restarted; systemd starts NEW; then our
    restart goes out, stops NEW and begins NEXT.
    """
    member = member_of(RESTART, sent=Sent.UNDERWAY, sent_at=BEGAN)
    assert observe(RESTART, member, RUNNING, BEGAN) == [StartSeen(None)]
    assert member.provisional
    member.sent = Sent.ACCEPTED
    assert observe(RESTART, member, replace(RUNNING, active="deactivating", job=9)) == [StopSeen(None)]
    assert observe(RESTART, member, replace(RUNNING, invocation=NEXT)) == [StartSeen(None, again=True)]
    assert (member.invocation, member.provisional) == (NEXT, False)
    assert whose(RESTART, member, line(NEW)) is Whose.OLD


def test_a_start_seen_before_the_verbs_answer_is_believed_once_it_outlives_it() -> None:
    member = member_of(RESTART, sent=Sent.UNDERWAY, sent_at=BEGAN)
    take_start(RESTART, member, NEW, BEGAN)
    member.sent, member.sent_at = Sent.ACCEPTED, BEGAN
    assert observe(RESTART, member, RUNNING, BEGAN + timedelta(seconds=1)) == []
    assert member.provisional
    assert observe(RESTART, member, RUNNING, BEGAN + timedelta(seconds=3)) == []
    assert (member.provisional, member.sent) == (False, Sent.SETTLED)


def test_a_start_of_a_unit_that_was_running_is_that_run() -> None:
    member = member_of(START, sent=Sent.ACCEPTED, sent_at=BEGAN)
    assert observe(START, member, OLD_RUNNING) == [StartSeen(None)]
    assert whose(START, member, line(OLD)) is Whose.WATCHED


def test_a_start_is_not_taken_for_the_run_before_while_it_is_under_way() -> None:
    member = member_of(START, sent=Sent.UNDERWAY, sent_at=BEGAN)
    assert observe(START, member, OLD_RUNNING) == []


def test_a_start_limit_that_was_hit_before_is_not_judged_by_an_old_look() -> None:
    member = member_of(START, sent=Sent.ACCEPTED, sent_at=BEGAN)
    unit = replace(STOPPED, active="failed", sub="failed", result="start-limit-hit")
    assert observe(START, member, unit, BEGAN + timedelta(seconds=1)) == []
    (fact,) = observe(START, member, unit, BEGAN + timedelta(seconds=3))
    assert isinstance(fact, Hopeless)
    assert "start-limit-hit" in fact.sentence


def test_a_watch_follows_what_runs() -> None:
    member = member_of(WATCH)
    assert member.old == []
    since = BEGAN - timedelta(minutes=4)
    assert observe(WATCH, member, replace(OLD_RUNNING, active_since=since)) == [StartSeen(since)]
    assert not member.provisional


@pytest.mark.parametrize("active", ["failed", "inactive"])
def test_a_watch_of_what_is_down_has_nothing_to_follow(active: str) -> None:
    (fact,) = observe(WATCH, member_of(WATCH), replace(STOPPED, active=active))
    assert isinstance(fact, Hopeless)
    assert active in fact.sentence


def test_a_watch_during_somebodys_restart_waits_for_the_new_run() -> None:
    member = member_of(WATCH)
    stopping = replace(OLD_RUNNING, active="deactivating", sub="stop-sigterm", job=4)
    assert observe(WATCH, member, stopping) == [StopSeen(None)]
    assert observe(WATCH, member, replace(STOPPED, job=4)) == []
    assert whose(WATCH, member, line(OLD)) is Whose.OLD
    assert observe(WATCH, member, RUNNING) == [StartSeen(None)]


def test_a_watch_that_reads_lines_before_it_has_seen_the_unit_follows_the_newest() -> None:
    member = member_of(WATCH)
    take_start(WATCH, member, OLD, BEGAN)
    assert member.provisional
    assert whose(WATCH, member, line(NEW)) is Whose.FIRST
    take_start(WATCH, member, NEW, BEGAN)
    assert observe(WATCH, member, RUNNING) == []
    assert not member.provisional


def test_a_watch_of_a_run_that_was_seen_is_of_that_one_though_systemd_has_begun_the_next() -> None:
    """A loop may be faster than the first look; of the next runs no line is read."""
    follow = make_plan(verb=Verb.WATCH, follows={MEMBER: NEW})
    member = member_of(follow)
    take_start(follow, member, NEW, BEGAN)
    assert not member.provisional
    (fact,) = observe(follow, member, replace(RUNNING, invocation=NEXT, restarts=3))
    assert member.invocation == NEW
    assert isinstance(fact, Fell)
    assert fact.kind is Downfall.LOOPING


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        (replace(RUNNING, active="failed", sub="failed"), Downfall.DOWN),
        (replace(RUNNING, active="inactive", sub="dead"), Downfall.DOWN),
        (replace(RUNNING, active="inactive", sub="dead", invocation=None), Downfall.DOWN),
        (replace(RUNNING, active="activating", sub="auto-restart"), Downfall.LOOPING),
        (replace(RUNNING, active="activating", sub="auto-restart-queued"), Downfall.LOOPING),
        (replace(RUNNING, active="failed", sub="failed-before-auto-restart"), Downfall.LOOPING),
        (replace(RUNNING, invocation=NEXT, restarts=1), Downfall.LOOPING),
        (replace(RUNNING, restarts=1), Downfall.LOOPING),
        (replace(RUNNING, invocation=NEXT), Downfall.REPLACED),
    ],
)
def test_how_a_watched_start_ends(unit: UnitState, kind: Downfall) -> None:
    member = member_of(RESTART, invocation=NEW, restarts=0, sent=Sent.SETTLED)
    (fact,) = observe(RESTART, member, unit)
    assert isinstance(fact, Fell)
    assert fact.kind is kind


@pytest.mark.parametrize(
    "unit",
    [
        RUNNING,
        OLD_RUNNING,
        replace(RUNNING, active="activating", sub="start"),
        replace(RUNNING, active="inactive", sub="dead", job=3),
        replace(RUNNING, active="deactivating", sub="stop-sigterm"),
    ],
)
def test_what_is_no_end(unit: UnitState) -> None:
    member = member_of(RESTART, invocation=NEW, restarts=0, sent=Sent.SETTLED)
    assert observe(RESTART, member, unit) == []


@pytest.mark.parametrize(
    ("sent", "unit", "facts"),
    [
        (Sent.UNDERWAY, STOPPED, []),
        (Sent.ACCEPTED, OLD_RUNNING, []),
        (Sent.ACCEPTED, replace(OLD_RUNNING, active="deactivating", job=5), [StopSeen(None)]),
        (Sent.ACCEPTED, replace(STOPPED, job=5), []),
        (Sent.ACCEPTED, STOPPED, [StopDone()]),
        (Sent.ACCEPTED, replace(STOPPED, active="failed", sub="failed", result="timeout"), [StopDone()]),
        (Sent.UNANSWERED, STOPPED, [StopDone()]),
        (Sent.ACCEPTED, replace(STOPPED, sub="dead-before-auto-restart"), []),
    ],
)
def test_a_stop_is_done_when_the_unit_is_down_without_a_job(
    sent: Sent, unit: UnitState, facts: list[Any]
) -> None:
    assert observe(STOP, member_of(STOP, sent=sent, sent_at=BEGAN), unit) == facts


def test_a_stop_against_something_that_starts_it_again() -> None:
    (fact,) = observe(STOP, member_of(STOP, sent=Sent.ACCEPTED, sent_at=BEGAN), RUNNING)
    assert isinstance(fact, Hopeless)
    assert "something else starts it" in fact.sentence


@pytest.mark.parametrize("sent", [Sent.ACCEPTED, Sent.UNANSWERED])
def test_a_verb_without_effect_is_given_a_minute(sent: Sent) -> None:
    member = member_of(RESTART, sent=sent, sent_at=BEGAN)
    assert not not_carried_out(member, BEGAN + timedelta(minutes=5))
    observe(RESTART, member, OLD_RUNNING, BEGAN + timedelta(seconds=59))
    assert not not_carried_out(member, BEGAN + timedelta(minutes=5))  # not seen since the minute was over
    observe(RESTART, member, OLD_RUNNING, BEGAN + timedelta(seconds=60))
    assert not_carried_out(member, BEGAN + timedelta(seconds=60))
    member.lost = "link lost"
    assert not not_carried_out(member, BEGAN + timedelta(seconds=60))


def test_a_pending_job_shows_that_the_verb_arrived() -> None:
    member = member_of(RESTART, sent=Sent.UNANSWERED, sent_at=BEGAN)
    observe(RESTART, member, replace(OLD_RUNNING, job=7))
    assert (member.sent, member.sent_at) == (Sent.ACCEPTED, LATER)


def heard(plan: Plan, *pairs: tuple[float, float]) -> timedelta | None:
    """The estimate after lines that arrived at, and were stamped with, so many seconds after the command."""
    member = member_of(plan)
    for arrived, stamped in pairs:
        at = BEGAN + timedelta(seconds=stamped)
        learn_offset(plan, member, line(NEW, at=at), BEGAN + timedelta(seconds=arrived))
    return member.offset


@pytest.mark.parametrize(
    ("plan", "pairs", "offset"),
    [
        (RESTART, [(1.0, 0.9)], None),  # the clocks seem to agree
        (RESTART, [(1.0, 301.0)], -300.0),  # the host is ahead
        (RESTART, [(1.0, -299.0)], 299.0),  # the host is behind
        (RESTART, [(1.0, 0.9), (4.0, 3.8), (4.0, 3.9)], 0.1),
        (WATCH, [(1.0, -1200.0), (1.1, -600.0), (1.2, -1.0)], None),  # a backlog tells nothing
        (WATCH, [(1.0, -1200.0), (1.2, -1.0), (9.0, 8.5)], 0.5),
        (WATCH, [(1.0, 61.0)], -60.0),
    ],
)
def test_the_difference_between_the_clocks(
    plan: Plan, pairs: list[tuple[float, float]], offset: float | None
) -> None:
    found = heard(plan, *pairs)
    assert found == (None if offset is None else timedelta(seconds=offset))


def test_members_are_named_where_there_are_several() -> None:
    assert name_member(RESTART, MEMBER, "it fell") == "it fell"
    assert name_member(make_plan(members=(MEMBER, OTHER)), OTHER, "it fell") == f"{OTHER}: it fell"


def test_held_lines_are_few_and_none_is_very_long() -> None:
    member = member_of(RESTART)
    for number in range(1000):
        hold(member, line(None, f"{number} " + "x" * 100_000, at=LATER))
    assert len(member.held) == 256
    assert member.held[-1].reading.startswith("999 x")
    assert {len(each.text) for each in member.held} == {len(each.reading) for each in member.held} == {16_000}
