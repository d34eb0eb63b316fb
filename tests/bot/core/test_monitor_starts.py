"""Startups nobody in chat asked for, crash loops, and operations of ours."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.actions import Verdict
from bot.core.events import OperationId, UserId, Verb
from bot.core.incident_events import (
    AttemptDied,
    Recovered,
    ServiceStopped,
    SignSeen,
    StartFollowed,
    StartOver,
    Worsened,
)
from bot.core.incident_state import How, Sign, SignKind
from bot.core.monitor_degraded import ail
from bot.core.monitor_events import OpenIncident, OperationEnded, OperationUnderWay, TellStopped, WatchStart
from bot.core.monitor_starts import FORGOTTEN
from bot.core.monitor_state import WatchStanding
from bot.core.monitor_turn import WatchTurn
from config.engine_file import load_engine
from tests.support.watches import (
    FAILED,
    GOOD,
    LOOPING,
    MEMBER,
    REFUSED,
    RUNNING,
    STOPPED,
    Room,
    make_plan,
    run_id,
)

WHO, OURS = UserId("U0123"), OperationId("op1")
TOOK = timedelta(minutes=3)


def _serving() -> Room:
    room = Room()
    room.serve()
    return room


def _restart(room: Room, *, restarts: int = 0) -> None:
    room.run += 1
    room.unit, room.probe = replace(RUNNING, restarts=restarts), REFUSED
    room.look()


def test_a_restart_in_a_terminal_is_followed_from_its_own_run_and_is_no_outage() -> None:
    room = _serving()
    _restart(room)
    room.look(100)
    (start,) = room.actions
    assert start == WatchStart(room.plan.service, MEMBER, run_id(2), How.OUTSIDE)
    assert room.stands() is WatchStanding.STARTING


def test_a_line_tells_it_before_the_next_round() -> None:
    room = _serving()
    room.systemd("Stopping kimi.service - Kimi...")
    room.systemd("Stopped kimi.service - Kimi.")
    room.run = 2
    room.systemd("Started kimi.service - Kimi.")
    (start,) = room.ordered(WatchStart)
    assert (start.invocation, start.how) == (run_id(2), How.OUTSIDE)
    room.probe = REFUSED
    room.look(5)
    assert len(room.actions) == 1


def test_a_state_that_was_asked_for_before_the_line_is_old() -> None:
    room = _serving()
    room.run = 2
    room.systemd("Started kimi.service - Kimi.")
    room.run = 1
    room.look()
    room.run = 2
    room.look()
    assert len(room.ordered(WatchStart)) == 1


def test_a_boot_of_the_host_starts_it() -> None:
    room = _serving()
    room.unit, room.probe = "connection timed out", None
    room.look(20)
    room.boot = "two"
    _restart(room)
    (start,) = room.actions
    assert isinstance(start, WatchStart)
    assert start.how is How.BOOT


def test_a_boot_that_does_not_bring_it_up_is_an_outage_after_a_minute() -> None:
    room = _serving()
    room.boot, room.unit, room.probe = "two", replace(STOPPED, invocation=None), REFUSED
    room.look(4)
    assert room.actions == []
    room.look(200)
    (opened,) = room.actions
    assert isinstance(opened, OpenIncident)
    assert opened.plan.signs[0].kind is SignKind.REBOOT


@pytest.mark.parametrize("rewritten", [False, True])
def test_the_first_start_of_what_was_seen_at_rest_is_followed_and_no_outage(rewritten: bool) -> None:
    room = Room(rewritten=rewritten)
    room.unit, room.probe, room.run = STOPPED, REFUSED, 0
    room.look(4)
    _restart(room)
    (start,) = room.actions
    assert isinstance(start, WatchStart)
    assert start.how is How.OUTSIDE


def test_what_is_starting_when_it_is_first_seen_may_be_older_than_the_watch() -> None:
    room = Room()
    _restart(room)
    assert room.actions == []


def test_a_crash_that_systemd_mended_between_two_rounds_is_an_outage_and_followed() -> None:
    room = _serving()
    room.run = 2
    room.unit, room.probe = replace(RUNNING, restarts=1), REFUSED
    room.look()
    opened, start = room.actions
    assert isinstance(opened, OpenIncident)
    assert isinstance(start, WatchStart)
    assert (start.how, start.attempt, start.incident) == (How.SYSTEMD, 1, opened.plan.incident)
    assert opened.plan.invocations == {MEMBER: run_id(1)}  # its log tells the cause, not the new one's


@pytest.mark.parametrize("rewritten", [False, True])
def test_once_it_serves_again_the_run_that_serves_is_the_one_that_breaks(rewritten: bool) -> None:
    room = _serving()
    room.rewritten = rewritten
    _restart(room, restarts=1)
    room.probe = GOOD
    room.look(20)
    room.pass_time(24 * 3600)
    room.unit = replace(FAILED, restarts=1)
    room.look()
    assert room.ordered(OpenIncident)[-1].plan.invocations == {MEMBER: run_id(2)}


def _follow(room: Room, *, verdict: Verdict | None = None) -> None:
    room.tell(OperationUnderWay(OURS, Verb.WATCH))
    if verdict is not None:
        room.tell(OperationEnded(OURS, Verb.WATCH, verdict, TOOK, cause="out of GPU memory"))


def test_the_startup_of_a_recovery_is_linked_and_its_verdict_ends_the_outage() -> None:
    room = _serving()
    _restart(room, restarts=1)
    _follow(room)
    room.probe = GOOD
    room.look(5, operation=OURS)
    assert room.told(Recovered) == []  # its own thread is not done yet
    first = room.now - 4 * room.plan.every
    _follow(room, verdict=Verdict.HEALTHY)
    assert room.told(StartFollowed) == [StartFollowed(OURS, Verb.WATCH, how=How.SYSTEMD)]
    assert [each.verdict for each in room.told(StartOver)] == [Verdict.HEALTHY]
    assert room.told(Recovered) == [Recovered(first)]


class TestCrashLoop:
    def loop(self, room: Room, *, attempts: int, lives: int = 4) -> None:
        for number in range(1, attempts + 1):
            room.unit = replace(LOOPING, restarts=number - 1)
            room.look()
            room.run += 1
            room.unit = replace(RUNNING, restarts=number, restart_policy="always")
            room.probe = REFUSED
            room.look(lives)
            if number == 1:
                _follow(room, verdict=Verdict.FAILED)

    def test_what_an_attempt_says_before_it_dies_is_not_told_beside_it(self) -> None:
        room = _serving()
        self.loop(room, attempts=2)
        before = len(room.told(SignSeen))
        room.say("[2026-05-29 03:00:31 TP0] Scheduler hit an exception: Traceback (most recent call last):")
        assert len(room.told(SignSeen)) == before

    def test_it_is_one_incident_one_startup_and_many_attempts(self) -> None:
        room = _serving()
        self.loop(room, attempts=30)
        assert len(room.ordered(OpenIncident)) == 1
        assert len(room.ordered(WatchStart)) == 1
        assert [each.number for each in room.told(AttemptDied)] == list(range(1, 30))

    def test_one_that_lives_longer_than_any_before_is_followed_again(self) -> None:
        room = _serving()
        self.loop(room, attempts=5)
        room.look(40)
        assert len(room.ordered(WatchStart)) == 2
        _follow(room, verdict=Verdict.HEALTHY)
        assert len(room.told(Recovered)) == 1

    def test_systemd_gives_up(self) -> None:
        room = _serving()
        self.loop(room, attempts=3)
        room.unit = replace(FAILED, result="start-limit-hit", restarts=3)
        room.look(50)
        assert len(room.ordered(OpenIncident)) == 1
        assert room.stands() is WatchStanding.DOWN


class TestAskedForInChat:
    def under_way(self, verb: Verb = Verb.RESTART) -> Room:
        room = _serving()
        room.tell(OperationUnderWay(OURS, verb, WHO))
        return room

    def checked(self, room: Room, times: int) -> None:
        room.look(times, operation=OURS)

    def test_nothing_amid_it_is_an_outage(self) -> None:
        room = self.under_way()
        room.systemd("Stopping kimi.service - Kimi...")
        room.unit, room.probe = STOPPED, REFUSED
        self.checked(room, 10)
        room.run, room.unit = 2, RUNNING
        self.checked(room, 100)
        room.probe = GOOD
        room.tell(OperationEnded(OURS, Verb.RESTART, Verdict.HEALTHY, TOOK, WHO))
        room.look(10)
        assert room.actions == []
        assert room.stands() is WatchStanding.SERVING

    def test_one_that_failed_was_told_in_its_thread(self) -> None:
        room = self.under_way()
        room.run, room.unit, room.probe = 2, FAILED, REFUSED
        self.checked(room, 10)
        room.tell(OperationEnded(OURS, Verb.RESTART, Verdict.FAILED, TOOK, WHO, "out of GPU memory"))
        room.look(100)
        assert room.actions == []
        assert room.stands() is WatchStanding.DOWN

    def test_a_stop_is_told_in_its_thread(self) -> None:
        room = self.under_way(Verb.STOP)
        room.unit, room.probe = STOPPED, REFUSED
        self.checked(room, 3)
        room.tell(OperationEnded(OURS, Verb.STOP, Verdict.STOPPED, TOOK, WHO))
        room.look(100)
        assert room.ordered(TellStopped) == []
        assert room.stands() is WatchStanding.STOPPED

    def test_a_stop_ends_an_outage(self) -> None:
        room = _serving()
        room.unit, room.probe = FAILED, REFUSED
        room.look()
        room.tell(OperationUnderWay(OURS, Verb.STOP, WHO))
        room.tell(OperationEnded(OURS, Verb.STOP, Verdict.STOPPED, TOOK, WHO))
        assert len(room.told(ServiceStopped)) == 1

    def test_a_restart_amid_an_outage_belongs_to_it(self) -> None:
        room = _serving()
        room.unit, room.probe = FAILED, REFUSED
        room.look()
        room.tell(OperationUnderWay(OURS, Verb.RESTART, WHO, "https://slack/1"))
        room.run, room.unit = 2, RUNNING
        self.checked(room, 10)
        room.tell(OperationEnded(OURS, Verb.RESTART, Verdict.FAILED, TOOK, WHO))
        assert room.told(StartFollowed) == [
            StartFollowed(OURS, Verb.RESTART, WHO, link="https://slack/1"),
        ]
        assert len(room.told(StartOver)) == 1
        room.probe = GOOD
        room.look(3)
        assert len(room.told(Recovered)) == 1

    def test_the_old_process_that_still_answers_is_no_end_of_the_outage(self) -> None:
        room = _serving()
        room.unit, room.probe = FAILED, REFUSED
        room.look()
        room.tell(OperationUnderWay(OURS, Verb.RESTART, WHO))
        room.unit, room.probe = replace(RUNNING, active="deactivating"), GOOD
        self.checked(room, 4)
        room.run, room.unit = 2, RUNNING
        self.checked(room, 2)
        first = room.now - room.plan.every
        room.tell(OperationEnded(OURS, Verb.RESTART, Verdict.HEALTHY, TOOK, WHO))
        assert room.told(Recovered) == [Recovered(first)]

    def test_one_of_which_the_end_was_never_told_is_forgotten(self) -> None:
        room = self.under_way()
        room.unit, room.probe = FAILED, REFUSED
        self.checked(room, 10)
        rounds = int(FORGOTTEN / room.plan.every) + 2
        room.look(rounds)
        assert room.watch.state.operation is None
        [opened] = room.ordered(OpenIncident)  # what it would have told
        assert opened.plan.signs[0].sentence == "process died by SIGSEGV"
        assert room.stands() is WatchStanding.DOWN

    def test_the_incident_hears_that_a_forgotten_one_is_no_longer_followed(self) -> None:
        room = Room()
        room.serve()
        room.unit, room.probe = FAILED, REFUSED
        room.look()
        room.tell(OperationUnderWay(OURS, Verb.RESTART, WHO))
        self.checked(room, 10)
        room.look(int(FORGOTTEN / room.plan.every) + 2)
        [over] = room.told(StartOver)
        assert (over.operation, over.verdict) == (OURS, Verdict.UNWATCHED)

    def test_of_two_members_the_start_of_one_does_not_hide_the_end_of_the_other(self) -> None:
        other = type(MEMBER)("llm-three/kimi.service")
        room = Room(make_plan(members=(MEMBER, other)))
        running = replace(RUNNING, invocation=run_id(1))
        room.look(2, units={MEMBER: running, other: running}, boots={})
        room.tell(OperationUnderWay(OURS, Verb.WATCH, WHO))
        room.probe = REFUSED
        died, begun = replace(FAILED, invocation=run_id(1)), replace(RUNNING, invocation=run_id(2))
        room.look(operation=OURS, units={MEMBER: died, other: begun}, boots={})
        room.look(9, units={MEMBER: died, other: begun}, boots={})  # it is never heard of again
        assert len(room.ordered(OpenIncident)) == 1

    def test_what_died_amid_one_that_was_given_up_is_down(self) -> None:
        room = self.under_way(Verb.WATCH)
        room.unit, room.probe = FAILED, REFUSED
        self.checked(room, 1)
        room.tell(OperationEnded(OURS, Verb.WATCH, Verdict.UNWATCHED, TOOK, WHO))
        room.look(10)
        assert len(room.ordered(OpenIncident)) == 1

    def test_an_end_that_was_told_or_outlived_is_not_told_again(self) -> None:
        room = self.under_way()
        room.unit, room.probe = FAILED, REFUSED
        self.checked(room, 1)
        room.run, room.unit, room.probe = 2, RUNNING, GOOD
        self.checked(room, 1)
        room.look(10)  # it is never heard of again, and the new run serves
        assert room.actions == []
        room = self.under_way()
        room.unit, room.probe = FAILED, REFUSED
        self.checked(room, 1)
        room.tell(OperationEnded(OURS, Verb.RESTART, Verdict.FAILED, TOOK, WHO))
        room.tell(OperationUnderWay(OperationId("op2"), Verb.RESTART, WHO))
        room.tell(OperationEnded(OperationId("op2"), Verb.RESTART, Verdict.SUPERSEDED, TOOK, WHO))
        assert room.actions == []

    def test_one_that_fails_for_what_was_degraded_is_told_in_its_incident(self) -> None:
        room = _serving()
        sign = Sign(SignKind.SLOW, room.now, "12 tokens/s (usual 90)")
        turn = WatchTurn(room.plan, load_engine("sglang"), room.watch.state)
        ail(turn, sign, room.now)
        room.tell(OperationUnderWay(OURS, Verb.RESTART, WHO))
        room.run, room.unit, room.probe = 2, FAILED, REFUSED
        self.checked(room, 4)
        room.tell(OperationEnded(OURS, Verb.RESTART, Verdict.FAILED, TOOK, WHO, "out of GPU memory"))
        [worse] = room.told(Worsened)
        assert worse.sign.sentence == "out of GPU memory"
        room.probe, room.unit = GOOD, RUNNING
        room.run = 3
        room.look(5)
        assert len(room.told(Recovered)) == 1


def test_a_restart_that_kimi_itself_had_to_make_and_that_fails_is_an_outage() -> None:
    room = _serving()
    room.tell(OperationUnderWay(OURS, Verb.RESTART))
    room.tell(OperationEnded(OURS, Verb.RESTART, Verdict.FAILED, TOOK, cause="out of GPU memory"))
    assert len(room.ordered(OpenIncident)) == 1


def test_a_start_nobody_asked_for_that_fails_is_an_outage_of_what_served() -> None:
    room = _serving()
    _restart(room)
    _follow(room, verdict=Verdict.FAILED)
    (opened,) = room.ordered(OpenIncident)
    assert opened.plan.signs[0].sentence == "out of GPU memory"


def test_a_start_of_what_was_stopped_that_fails_is_none() -> None:
    room = _serving()
    room.unit, room.probe = STOPPED, REFUSED
    room.look(4)
    _restart(room)
    _follow(room, verdict=Verdict.FAILED)
    assert room.ordered(OpenIncident) == []
    assert len(room.ordered(WatchStart)) == 1


@pytest.mark.parametrize("verdict", [Verdict.UNWATCHED, Verdict.SUPERSEDED])
def test_a_start_that_is_no_longer_followed_is_left_to_the_checks(verdict: Verdict) -> None:
    room = _serving()
    _restart(room)
    _follow(room, verdict=verdict)
    room.look(50)
    assert room.ordered(OpenIncident) == []
    room.probe = GOOD
    room.look()
    assert room.stands() is WatchStanding.SERVING


def test_a_start_that_nobody_follows_and_that_never_serves_is_an_outage() -> None:
    room = Room(make_plan(give_up_after=timedelta(minutes=30)))
    room.serve()
    _restart(room)
    room.look(130)
    (opened,) = room.ordered(OpenIncident)
    assert opened.plan.signs[0].kind is SignKind.START


def test_two_members_that_start_together_are_followed_once() -> None:
    other = type(MEMBER)("llm-three/kimi.service")
    room = Room(make_plan(members=(MEMBER, other)))
    units = {name: replace(RUNNING, invocation=run_id(1)) for name in room.plan.members}
    room.look(2, units=units, boots={})
    units = {name: replace(RUNNING, invocation=run_id(2)) for name in room.plan.members}
    room.probe = REFUSED
    room.look(1, units=units, boots={})
    assert len(room.ordered(WatchStart)) == 1


def test_the_fatal_line_and_the_end_of_the_process_are_two_signs_of_one_outage() -> None:
    room = _serving()
    for rank in range(8):
        room.say(
            f"[2026-05-29 03:00:31 TP{rank}] Scheduler hit an exception: Traceback (most recent call last):"
        )
    room.systemd("kimi.service: Main process exited, code=killed, status=9/KILL")
    (opened,) = room.ordered(OpenIncident)
    assert opened.plan.signs[0].kind is SignKind.FATAL
    assert [each.sign.kind for each in room.told(SignSeen)] == [SignKind.PROCESS]
