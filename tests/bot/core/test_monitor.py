"""The watch over one service: what is an outage, what is none, and when each is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.actions import Verdict
from bot.core.events import (
    LogLine,
    Member,
    OperationId,
    Origin,
    ProbeAnswer,
    SmokeResult,
    Ticked,
    UserId,
    Verb,
)
from bot.core.incident_events import DownAgain, IncidentMuted, IncidentUnmuted, Recovered
from bot.core.incident_state import Severity, SignKind
from bot.core.monitor_events import (
    IncidentClosed,
    LoadSeen,
    Muted,
    OpenIncident,
    OperationEnded,
    OperationUnderWay,
    SmokeChecked,
    TellStopped,
    UnitLine,
    Unmuted,
    WatchEvent,
    WatchStart,
)
from bot.core.monitor_state import Sight, WatchStanding
from tests.support.watches import (
    BUSY,
    FAILED,
    GOOD,
    LOOPING,
    MEMBER,
    REFUSED,
    RUNNING,
    SERVICE,
    STOPPED,
    STOPPING,
    Room,
    make_plan,
    run_id,
)

WHO = UserId("U0123")
EXITED = "kimi.service: Main process exited, code=killed, status=11/SEGV"


def test_failures_in_a_row_are_an_outage_and_good_checks_end_it() -> None:
    room = Room()
    room.serve()
    fault = room.now
    room.probe = BUSY
    assert room.look(2) == []
    assert room.stands() is WatchStanding.SUSPECT
    (opened,) = room.look()
    assert isinstance(opened, OpenIncident)
    assert room.now - fault <= room.plan.failures * room.plan.every
    assert opened.plan.severity is Severity.DOWN
    assert opened.plan.signs[0].sentence == "/health answers 503, 3 times in a row"
    assert opened.plan.began == fault + room.plan.every
    assert opened.plan.last_healthy == fault
    room.probe = GOOD
    assert room.look() == []
    room.look()
    (recovered,) = room.told(Recovered)
    assert recovered.since == room.now - room.plan.every
    assert room.stands() is WatchStanding.SERVING


def test_failures_that_are_not_in_a_row_are_no_outage() -> None:
    room = Room()
    room.serve()
    for _ in range(10):
        room.probe = BUSY
        room.look(2)
        room.probe = GOOD
        room.look()
    assert [each.plan.severity for each in room.ordered(OpenIncident)] == [Severity.DEGRADED]


@pytest.mark.parametrize(
    "probe",
    [
        None,
        REFUSED,
        ProbeAnswer(health=200, models=("other",)),
        ProbeAnswer(health=200, models=()),
        replace(GOOD, listener=False),
    ],
)
def test_each_kind_of_wrong_answer_counts(probe: ProbeAnswer | None) -> None:
    room = Room()
    room.serve()
    room.probe = probe
    room.look(3)
    assert len(room.ordered(OpenIncident)) == 1


def test_a_model_list_that_was_not_asked_for_proves_nothing_against_it() -> None:
    room = Room(probe=ProbeAnswer(health=200))
    room.look(20)
    assert room.stands() is WatchStanding.SERVING


@pytest.mark.parametrize("unit", [FAILED, STOPPED, LOOPING, RUNNING])
def test_beside_what_is_down_or_loading_at_the_beginning_nothing_is_told(unit: object) -> None:
    room = Room(unit=unit, probe=REFUSED)  # type: ignore[arg-type]
    room.look(500)
    assert room.actions == []


def test_what_was_never_seen_serving_is_lost_once_it_has_served() -> None:
    room = Room(probe=REFUSED)
    room.look(50)
    room.probe = GOOD
    room.look()
    room.unit, room.probe = FAILED, REFUSED
    room.look()
    assert len(room.ordered(OpenIncident)) == 1


def test_a_line_that_proves_death_opens_at_once_and_once() -> None:
    room = Room()
    room.serve()
    room.pass_time(1)
    room.systemd(EXITED)
    (opened,) = room.ordered(OpenIncident)
    assert opened.plan.opened == room.now
    assert opened.plan.signs[0].kind is SignKind.PROCESS
    assert "SIGSEGV" in opened.plan.signs[0].sentence
    room.systemd("kimi.service: Failed with result 'core-dump'.")
    room.unit, room.probe = FAILED, REFUSED
    room.look(40)
    assert len(room.actions) == 1


def test_a_host_that_ssh_does_not_reach_tells_nothing_of_its_services() -> None:
    room = Room()
    room.serve()
    room.unit, room.probe, room.sight = "connection timed out", None, Sight.GONE
    room.look(100)
    room.unit, room.probe, room.sight = RUNNING, GOOD, Sight.SEEN
    room.look(5)
    assert room.actions == []
    assert room.stands() is WatchStanding.SERVING


def test_a_further_members_host_that_comes_and_goes_does_not_hide_that_it_fails() -> None:
    other = Member("llm-three/kimi.service")
    room = Room(make_plan(members=(MEMBER, other)))
    running = replace(RUNNING, invocation=run_id(1))
    room.look(2, units={MEMBER: running, other: running}, boots={})
    room.probe = REFUSED
    for _ in range(3):
        room.look(units={MEMBER: running, other: "connection timed out"}, boots={})
        room.look(units={MEMBER: running, other: running}, boots={})
    assert len(room.ordered(OpenIncident)) == 1


def test_a_unit_of_which_only_systemd_tells_nothing_is_judged_by_its_probe() -> None:
    """Of one scope of a host, say: the way to the engine is there."""
    room = Room()
    room.serve()
    room.unit = "Failed to connect to bus"
    room.look(20)
    assert room.actions == []
    room.probe = REFUSED
    room.look(3)
    assert len(room.ordered(OpenIncident)) == 1


def test_checks_before_and_after_a_gap_are_not_in_a_row() -> None:
    room = Room()
    room.serve()
    room.probe = BUSY
    room.look(2)
    room.unit, room.probe = "connection timed out", None
    room.look(2)
    room.unit, room.probe = RUNNING, BUSY
    assert room.look(2) == []
    assert len(room.look()) == 1


def test_a_line_of_a_member_that_is_configured_no_more_is_nothing() -> None:
    room = Room()
    line = LogLine(EXITED, EXITED, origin=Origin.MANAGER)
    assert room.tell(UnitLine(Member("gone/kimi.service"), line)) == []


def test_with_its_own_host_out_of_sight_another_members_host_tells_nothing_of_the_probe() -> None:
    other = Member("llm-three/kimi.service")
    room = Room(make_plan(members=(MEMBER, other)))
    running = replace(RUNNING, invocation=run_id(1))
    room.look(2, units={MEMBER: running, other: running}, boots={})
    room.probe = None
    room.look(20, units={MEMBER: "timed out", other: running}, boots={}, sight=Sight.HALF)
    assert room.actions == []


class TestReachedPastSsh:
    def test_it_serves_though_ssh_is_gone(self) -> None:
        room = Room(make_plan(reach="direct"))
        room.serve()
        room.unit, room.sight = "connection timed out", Sight.HALF
        room.look(100)
        assert room.actions == []
        assert room.watch.state.last_healthy == room.now

    @pytest.mark.parametrize(("sight", "opened"), [(Sight.HALF, 1), (Sight.DOUBTFUL, 0), (Sight.GONE, 0)])
    def test_it_fails_with_ssh_gone_too(self, sight: Sight, opened: int) -> None:
        room = Room(make_plan(reach="direct"))
        room.serve()
        room.unit, room.probe, room.sight = "connection timed out", REFUSED, sight
        room.look(10)
        assert len(room.ordered(OpenIncident)) == opened

    def test_the_whole_host_comes_back(self) -> None:
        room = Room(make_plan(reach="direct"))
        room.serve()
        room.unit, room.probe, room.sight = "connection timed out", REFUSED, Sight.GONE
        room.look(10)
        room.unit, room.sight = RUNNING, Sight.SEEN
        assert room.look(2) == []

    def test_a_link_that_comes_and_goes_does_not_hide_that_it_fails(self) -> None:
        room = Room(make_plan(reach="direct"))
        room.serve()
        room.probe = room.inside = REFUSED
        for _ in range(3):
            room.unit, room.sight = "connection timed out", Sight.DOUBTFUL
            room.look()
            room.unit, room.sight = RUNNING, Sight.SEEN
            room.look()
        assert len(room.ordered(OpenIncident)) == 1

    def test_the_host_answers_again_before_its_services_do(self) -> None:
        room = Room(make_plan(reach="direct"))
        room.serve()
        room.unit, room.probe, room.sight = "connection timed out", REFUSED, Sight.GONE
        room.look(20)
        room.unit, room.sight = "refused", Sight.HALF
        assert room.look(2) == []  # it boots
        room.look(1)
        assert len(room.ordered(OpenIncident)) == 1

    def test_the_host_itself_gets_an_answer(self) -> None:
        room = Room(make_plan(reach="direct"))
        room.serve()
        room.probe, room.inside = REFUSED, GOOD
        room.look(30)
        (opened,) = room.ordered(OpenIncident)
        assert opened.plan.severity is Severity.DEGRADED
        assert opened.plan.signs[0].kind is SignKind.SIGHT

    def test_the_host_itself_gets_none_either(self) -> None:
        room = Room(make_plan(reach="direct"))
        room.serve()
        room.probe, room.inside = REFUSED, REFUSED
        room.look(3)
        (opened,) = room.ordered(OpenIncident)
        assert opened.plan.severity is Severity.DOWN


class TestStopped:
    def test_it_is_told_once_and_is_no_outage(self) -> None:
        room = Room()
        room.serve()
        room.systemd("Stopping kimi.service - Kimi...")
        room.unit, room.probe = STOPPING, REFUSED
        room.look(6)
        room.unit = STOPPED
        room.look(40)
        (told,) = room.ordered(TellStopped)
        assert "asked systemd to stop it" in told.sentence
        assert room.stands() is WatchStanding.STOPPED
        assert len(room.actions) == 1

    def test_an_engine_that_kills_itself_when_it_is_stopped_is_told_as_stopped(self) -> None:
        """SGLang drains and then ends with SIGKILL: the unit stays failed, and nothing has broken."""
        room = Room()
        room.serve()
        room.systemd("Stopping kimi.service - Kimi...")
        room.unit, room.probe = FAILED, REFUSED
        room.look(4)
        assert [each.service for each in room.ordered(TellStopped)] == [SERVICE]
        assert room.ordered(OpenIncident) == []
        assert room.stands() is WatchStanding.STOPPED

    def test_a_process_that_a_stop_kills_has_not_died(self) -> None:
        room = Room()
        room.serve()
        room.systemd("Stopping kimi.service - Kimi...")
        room.say("[2026-05-29 03:00:31 TP0] SIGQUIT received. signum=None, frame=None")
        room.systemd(EXITED)
        room.systemd("kimi.service: Failed with result 'signal'.")
        room.unit, room.probe = FAILED, REFUSED
        room.look(40)
        assert room.ordered(OpenIncident) == []

    def test_a_process_that_ends_by_itself_without_an_error(self) -> None:
        room = Room()
        room.serve()
        room.unit, room.probe = STOPPED, REFUSED
        room.look(40)
        (told,) = room.ordered(TellStopped)
        assert "ended without an error" in told.sentence

    def test_a_restart_in_a_terminal_passes_through_it(self) -> None:
        room = Room()
        room.serve()
        room.unit, room.probe = STOPPED, REFUSED
        room.look()
        room.run, room.unit = 2, RUNNING
        room.look()
        (start,) = room.ordered(WatchStart)
        assert room.actions == [start]

    def test_what_was_down_is_closed(self) -> None:
        room = Room()
        room.serve()
        room.unit, room.probe = replace(LOOPING), REFUSED
        room.look(4)
        room.unit = STOPPED
        room.look(4)
        assert room.stands() is WatchStanding.STOPPED
        assert room.watch.state.severity is None
        assert room.ordered(TellStopped) == []


class TestFlapping:
    def test_down_again_within_half_an_hour_is_the_same_incident(self) -> None:
        room = Room()
        room.serve()
        for _ in range(4):
            room.probe = BUSY
            room.look(3)
            room.probe = GOOD
            room.look(60)
        assert len(room.ordered(OpenIncident)) == 1
        assert len(room.told(DownAgain)) == 3
        assert len(room.told(Recovered)) == 4

    def test_each_time_it_has_to_serve_longer(self) -> None:
        room = Room()
        room.serve()
        for _ in range(20):
            room.probe = BUSY
            room.look(3)
            room.probe = GOOD
            room.look(4)
        assert len(room.told(Recovered)) == 1

    def test_much_later_it_is_another_one(self) -> None:
        room = Room()
        room.serve()
        for _ in range(2):
            room.probe = BUSY
            room.look(3)
            room.probe = GOOD
            room.look(130)
        first, second = room.ordered(OpenIncident)
        assert first.plan.incident != second.plan.incident


class TestMuted:
    def mute(self, room: Room, minutes: int = 60) -> None:
        room.tell(Muted(WHO, room.now + timedelta(minutes=minutes), "known"))

    def test_nothing_is_opened_until_it_is_over(self) -> None:
        room = Room()
        room.serve()
        self.mute(room)
        fault = room.now
        room.unit, room.probe = FAILED, REFUSED
        room.look(100)
        assert room.actions == []
        room.look(200)
        (opened,) = room.ordered(OpenIncident)
        assert opened.plan.began == fault + room.plan.every

    def test_unmuted_what_is_down_is_told(self) -> None:
        room = Room()
        room.serve()
        self.mute(room)
        room.unit, room.probe = FAILED, REFUSED
        room.look()
        room.tell(Unmuted(WHO))
        assert len(room.ordered(OpenIncident)) == 1

    def test_what_came_and_went_meanwhile_is_not_told(self) -> None:
        room = Room()
        room.serve()
        self.mute(room)
        room.probe = BUSY
        room.look(30)
        room.probe = GOOD
        room.look(300)
        assert room.actions == []

    def test_an_open_incident_hears_when_somebody_ends_it(self) -> None:
        room = Room()
        room.serve()
        room.probe = BUSY
        room.look(3)
        room.tell(Unmuted(WHO))
        assert room.told(IncidentUnmuted) == []
        self.mute(room)
        room.tell(Unmuted(WHO))
        assert room.told(IncidentUnmuted) == [IncidentUnmuted(WHO)]

    def test_an_open_incident_hears_of_it(self) -> None:
        room = Room()
        room.serve()
        room.probe = BUSY
        room.look(3)
        self.mute(room, minutes=5)
        room.look(30)
        assert len(room.told(IncidentMuted)) == 1
        assert room.told(IncidentUnmuted) == [IncidentUnmuted()]


def test_an_incident_closed_by_hand_is_not_opened_again_while_it_is_down() -> None:
    room = Room()
    room.serve()
    room.unit, room.probe = FAILED, REFUSED
    room.look()
    (opened,) = room.ordered(OpenIncident)
    room.tell(IncidentClosed(opened.plan.incident))
    room.look(300)
    assert len(room.actions) == 1
    room.run, room.unit, room.probe = 2, RUNNING, GOOD
    room.look(10)
    room.unit, room.probe = FAILED, REFUSED
    room.look()
    assert len(room.ordered(OpenIncident)) == 2


def test_only_what_must_survive_is_worth_writing() -> None:
    room = Room()
    room.look()
    assert room.watch.dirty
    room.look()
    assert not room.watch.dirty
    room.probe = BUSY
    room.look()
    assert room.watch.dirty  # suspect
    room.look()
    assert not room.watch.dirty
    room.look()
    assert room.watch.dirty


def test_a_state_of_a_process_whose_clock_was_ahead_is_no_reason_to_wait() -> None:
    room = Room()
    room.serve()
    room.probe = BUSY
    room.look(3)
    room.now -= timedelta(hours=3)
    room.restore()
    room.probe = GOOD
    room.look(3)
    assert len(room.told(Recovered)) == 1


# ---- saved and restored at any point ----

STATES = st.sampled_from([RUNNING, RUNNING, FAILED, STOPPED, STOPPING, LOOPING, "connection timed out"])
PROBES = st.sampled_from([GOOD, GOOD, BUSY, REFUSED, None])
RUNS = st.integers(1, 4)
LINES = st.sampled_from(
    [
        EXITED,
        "kimi.service: Failed with result 'signal'.",
        "kimi.service: Scheduled restart job, restart counter is at 2.",
        "Started kimi.service - Kimi.",
        "Stopping kimi.service - Kimi...",
    ]
)
STEPS = st.one_of(
    st.tuples(st.just("look"), STATES, PROBES, RUNS, st.sampled_from(["one", "one", "two"])),
    st.tuples(st.just("systemd"), LINES, RUNS),
    st.tuples(st.just("wait"), st.integers(1, 2000)),
    st.tuples(
        st.just("tell"),
        st.sampled_from(
            [
                OperationUnderWay(OperationId("op1"), Verb.RESTART, WHO),
                OperationUnderWay(OperationId("op2"), Verb.WATCH),
                OperationEnded(OperationId("op1"), Verb.RESTART, Verdict.FAILED, timedelta(minutes=3), WHO),
                OperationEnded(OperationId("op2"), Verb.WATCH, Verdict.FAILED, timedelta(minutes=3)),
                OperationEnded(OperationId("op2"), Verb.WATCH, Verdict.HEALTHY, timedelta(minutes=3)),
                SmokeChecked(SmokeResult(passed=False, error="no answer")),
                SmokeChecked(SmokeResult(passed=True)),
                LoadSeen(30, 8),
                Unmuted(WHO),
                Ticked(),
            ]
        ),
    ),
)


def _play(steps: list[tuple[object, ...]], *, rewritten: bool) -> Room:
    room = Room(rewritten=rewritten)
    room.serve()
    for step in steps:
        match step:
            case ("look", unit, probe, run, boot):
                room.unit, room.probe, room.run, room.boot = unit, probe, run, boot  # type: ignore[assignment]
                room.look()
            case ("systemd", text, run):
                room.systemd(str(text), run=int(str(run)))
            case ("wait", seconds):
                room.pass_time(float(str(seconds)))
                room.tell(Ticked())
            case ("tell", event):
                told: WatchEvent = event  # type: ignore[assignment]
                room.tell(told)
    return room


@settings(deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_saved_and_restored_at_any_point_it_orders_the_same(steps: list[tuple[object, ...]]) -> None:
    assert _play(steps, rewritten=True).actions == _play(steps, rewritten=False).actions


@settings(deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_one_incident_is_open_at_most(steps: list[tuple[object, ...]]) -> None:
    opened = None
    for action in _play(steps, rewritten=False).actions:
        if isinstance(action, OpenIncident):
            assert opened is None
            opened = action.plan.incident
        elif getattr(action, "event", None).__class__.__name__ in {"Recovered", "ServiceStopped"}:
            opened = None
