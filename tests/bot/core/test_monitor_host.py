"""A host that is gone is one incident, and one that only SSH does not reach is no outage."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.core.events import HostName, ServiceName, UserId
from bot.core.incident_events import (
    AffectedSeen,
    DownAgain,
    IncidentMuted,
    IncidentUnmuted,
    PresentSeen,
    Recovered,
    SignSeen,
    Worsened,
)
from bot.core.incident_state import LINGER, IncidentId, Severity, SignKind
from bot.core.monitor_events import (
    DirectAsked,
    HostAction,
    HostChecked,
    IncidentClosed,
    IncidentFound,
    Muted,
    OpenIncident,
    TellIncident,
    Unmuted,
)
from bot.core.monitor_host import HostWatch
from bot.core.monitor_state import HostPlan, HostState, Sight

NAMES = tuple(ServiceName(f"s{number}") for number in range(12))
PLAN = HostPlan(HostName("llm-two"), NAMES, direct={NAMES[0]: timedelta(seconds=15)})
BEGAN = datetime(2026, 5, 29, 3, 0, tzinfo=UTC)
SEEN, GONE = HostChecked(None), HostChecked("timed out", silent=NAMES[:1])
HALF = HostChecked("timed out", NAMES[:1])
REFUSED = HostChecked(
    "llm-two: 10.0.0.2:22 refuses connections", barred="SSH is refused (connection refused)"
)


class Room:
    def __init__(self, *, rewritten: bool = False) -> None:
        self.watch, self.now, self.rewritten = HostWatch(PLAN), BEGAN, rewritten
        self.actions: list[HostAction] = []

    def look(self, event: HostChecked, times: int = 1) -> list[HostAction]:
        ordered: list[HostAction] = []
        for _ in range(times):
            self.now += PLAN.every
            if self.rewritten:
                adapter = TypeAdapter(HostState)
                self.watch = HostWatch(PLAN, adapter.validate_json(adapter.dump_json(self.watch.state)))
            ordered += self.watch.handle(event, self.now)
        self.actions += ordered
        return ordered

    def sight(self) -> Sight:
        return self.watch.sight

    def told(self) -> list[object]:
        return [action.event for action in self.actions if isinstance(action, TellIncident)]


def test_a_whole_host_is_one_incident_with_all_its_services() -> None:
    room = Room()
    room.look(SEEN)
    last = room.now
    assert room.look(GONE, 2) == []
    assert room.sight() is Sight.DOUBTFUL
    (opened,) = room.look(GONE, 100)
    assert isinstance(opened, OpenIncident)
    assert opened.plan.severity is Severity.HOST
    assert opened.plan.affected == NAMES
    assert opened.plan.opened - last == PLAN.failures * PLAN.every
    assert opened.plan.last_healthy == last
    assert opened.plan.began == opened.plan.signs[0].at == last + PLAN.every
    assert room.sight() is Sight.GONE
    assert room.look(SEEN) == []
    assert room.sight() is Sight.GONE
    room.look(SEEN)
    assert room.told() == [Recovered(room.now - PLAN.every)]
    assert room.sight() is Sight.SEEN


def test_a_failure_now_and_then_is_none() -> None:
    room = Room()
    for _ in range(20):
        room.look(SEEN)
        room.look(GONE, 2)
    assert room.actions == []


def test_services_that_are_looked_at_one_after_the_other_are_one_look_at_the_host() -> None:
    room = Room()
    room.look(SEEN)
    for _ in NAMES:
        room.now += timedelta(milliseconds=150)
        room.actions += room.watch.handle(GONE, room.now)
    assert room.actions == []
    assert room.sight() is Sight.DOUBTFUL
    assert len(room.look(GONE, 2)) == 1


def test_nor_do_ten_services_that_see_it_again_prove_more_than_one() -> None:
    room = Room()
    room.look(SEEN)
    room.look(GONE, 5)
    for _ in NAMES:
        room.now += timedelta(milliseconds=150)
        room.actions += room.watch.handle(SEEN, room.now)
    assert room.told() == []
    room.look(SEEN)
    assert [type(event) for event in room.told()] == [Recovered]


def test_a_host_that_was_never_seen_is_not_told() -> None:
    room = Room()
    room.look(GONE, 100)
    assert room.actions == []
    assert room.sight() is Sight.GONE


def test_something_on_it_still_answers() -> None:
    room = Room()
    room.look(SEEN)
    (opened,) = room.look(HALF, 50)
    assert isinstance(opened, OpenIncident)
    assert opened.plan.severity is Severity.DEGRADED
    assert room.sight() is Sight.HALF
    room.look(GONE)
    assert room.sight() is Sight.GONE
    worse, affected = room.told()
    assert isinstance(worse, Worsened)
    assert worse.severity is Severity.HOST
    assert worse.sign.at == room.now > opened.plan.began == opened.plan.signs[0].at
    assert opened.plan.affected == NAMES[1:]
    assert affected == AffectedSeen(NAMES)
    room.look(HALF, 2)
    assert len(room.told()) == 2
    room.look(HALF, 9)
    present, fewer = room.told()[2:]  # told before, so the thread shows it and says nothing
    assert isinstance(present, PresentSeen)
    assert present.sign.kind is SignKind.HIDDEN
    assert fewer == AffectedSeen(NAMES[1:])


def test_a_host_that_refuses_ssh_is_told_as_that_and_not_as_gone() -> None:
    room = Room()
    room.look(SEEN)
    (opened,) = room.look(REFUSED, 50)
    assert isinstance(opened, OpenIncident)
    assert opened.plan.severity is Severity.DEGRADED
    [sign] = opened.plan.signs
    assert sign.sentence == "SSH is refused (connection refused), so 11 services there cannot be seen"
    assert sign.evidence == (REFUSED.error,)
    assert opened.plan.affected == NAMES[1:]
    assert room.sight() is Sight.HALF
    room.look(SEEN, 2)
    assert room.told() == [Recovered(room.now - PLAN.every)]


def test_a_refusal_now_and_then_keeps_it_from_being_gone() -> None:
    room = Room()
    room.look(SEEN)
    for _ in range(20):
        room.look(REFUSED)
        room.look(GONE)
    assert room.sight() is Sight.HALF
    assert [type(action) for action in room.actions] == [OpenIncident]
    assert room.look(GONE, 2) == []
    room.look(GONE)
    assert [type(event) for event in room.told()] == [SignSeen, AffectedSeen]


def test_one_that_was_gone_and_comes_back_with_another_key_is_said_to_refuse() -> None:
    room = Room()
    room.look(SEEN)
    room.look(GONE, 5)
    rejected = HostChecked("another key", barred="SSH is refused (host key rejected)")
    room.look(REFUSED, 2)
    assert room.told() == []  # it boots, and its sshd is not there yet
    room.look(rejected, 50)
    seen, affected = room.told()
    assert affected == AffectedSeen(NAMES[1:])
    assert isinstance(seen, SignSeen)
    assert seen.sign.kind is SignKind.HIDDEN
    assert seen.sign.sentence.startswith("SSH is refused (host key rejected)")
    assert seen.sign.evidence == ("another key",)
    assert seen.sign.at == room.now - 49 * PLAN.every  # since it shows that


def test_a_round_of_services_behind_ssh_does_not_make_gone_what_answered_another_way() -> None:
    """The direct one is looked at in a time of its own, between the rounds of the others."""
    room = Room()
    room.look(SEEN)
    room.watch.handle(DirectAsked(answering=NAMES[:1]), room.now)
    behind = HostChecked("timed out")
    for _ in range(50):
        room.look(behind)
        half = timedelta(seconds=7)
        room.watch.handle(HostChecked("timed out", answering=NAMES[:1]), room.now + half)
    assert [action.plan.severity for action in room.actions if isinstance(action, OpenIncident)] == [
        Severity.DEGRADED
    ]
    assert room.told() == []
    room.watch.handle(HostChecked("timed out", silent=NAMES[:1]), room.now)
    assert room.sight() is Sight.GONE


def test_services_with_a_further_member_there_are_affected_too() -> None:
    room = Room()
    room.watch = HostWatch(replace(PLAN, others=(ServiceName("far"),)))
    room.look(SEEN)
    (opened,) = room.look(GONE, 5)
    assert isinstance(opened, OpenIncident)
    assert opened.plan.affected == (*NAMES, ServiceName("far"))


ASKED = st.tuples(st.sampled_from(["ssh", "direct", "other", "wait"]), st.booleans())


@settings(deadline=None)
@given(st.lists(ASKED, max_size=60))
def test_gone_only_where_nothing_answered_within_the_time_that_counts(steps: list[tuple[str, bool]]) -> None:
    """Rounds of services behind SSH and looks at two direct ones, in any order and at any distance."""
    direct = {NAMES[0]: timedelta(seconds=15), NAMES[1]: timedelta(seconds=60)}
    watch, now = HostWatch(replace(PLAN, direct=direct)), BEGAN
    last: dict[ServiceName, datetime] = {}
    watch.handle(SEEN, now)
    for kind, answers in steps:
        now += timedelta(seconds=30 if kind == "wait" else 4)
        named = {"direct": NAMES[:1], "other": NAMES[1:2]}.get(kind, ())
        for name in named:
            last = {**last, name: now} if answers else {k: v for k, v in last.items() if k != name}
        watch.handle(HostChecked("timed out", *((named, ()) if answers else ((), named))), now)
        alive = any(now - at <= direct[name] * 1.5 for name, at in last.items())
        assert watch.sight is not (Sight.GONE if alive else Sight.HALF)


def test_gone_again_within_half_an_hour_is_the_same_incident() -> None:
    room = Room()
    room.look(SEEN)
    for _ in range(3):
        room.look(GONE, 3)
        room.look(SEEN, 3)
    assert len([each for each in room.actions if isinstance(each, OpenIncident)]) == 1
    assert len([each for each in room.told() if isinstance(each, DownAgain)]) == 2


def test_one_closed_by_hand_stays_closed_until_the_host_was_back() -> None:
    room = Room()
    room.look(SEEN)
    (opened,) = room.look(GONE, 3)
    assert isinstance(opened, OpenIncident)
    room.watch.handle(IncidentClosed(opened.plan.incident), room.now)
    assert room.look(GONE, 50) == []
    room.look(SEEN, 2)
    assert len(room.look(GONE, 3)) == 1


def test_one_that_was_closed_while_it_refused_is_told_all_the_same_once_it_is_gone() -> None:
    room = Room()
    room.look(SEEN)
    (opened,) = room.look(HALF, 3)
    assert isinstance(opened, OpenIncident)
    room.watch.handle(IncidentClosed(opened.plan.incident), room.now)
    assert room.look(HALF, 50) == []
    (again,) = room.look(GONE, 3)
    assert isinstance(again, OpenIncident)
    assert again.plan.severity is Severity.HOST


def test_one_that_is_gone_in_the_moment_in_which_somebody_closes_it_goes_on() -> None:
    room = Room()
    room.look(SEEN)
    (opened,) = room.look(HALF, 3)
    assert isinstance(opened, OpenIncident)
    room.look(GONE)
    room.watch.handle(IncidentClosed(opened.plan.incident, Severity.DEGRADED), room.now)
    room.look(SEEN, 2)
    assert isinstance(room.told()[-1], Recovered)


def test_where_ssh_is_the_only_way_a_refusal_pages_as_what_it_is() -> None:
    room = Room()
    room.watch = HostWatch(replace(PLAN, direct={}))
    room.look(SEEN)
    assert room.look(REFUSED, PLAN.failures - 1) == []
    (opened,) = room.look(REFUSED, 50)
    assert isinstance(opened, OpenIncident)
    assert opened.plan.severity is Severity.HOST
    assert opened.plan.host_answers
    assert opened.plan.affected == NAMES
    [sign] = opened.plan.signs
    assert sign.kind is SignKind.HIDDEN
    assert sign.sentence == "SSH is refused (connection refused), so 12 services there cannot be seen"
    assert room.sight() is Sight.HALF
    room.look(HostChecked("timed out"), 50)
    [seen] = room.told()  # gone now: one incident, one more word
    assert isinstance(seen, SignSeen)
    assert seen.sign.kind is SignKind.SIGHT
    room.look(SEEN, 2)
    assert isinstance(room.told()[-1], Recovered)


def test_the_last_service_that_answered_another_way_falls_silent() -> None:
    room = Room()
    room.look(SEEN)
    room.look(replace(HALF, barred=REFUSED.barred), 5)
    room.look(replace(GONE, barred=REFUSED.barred), 2)
    worse = room.told()[0]
    assert isinstance(worse, Worsened)
    assert worse.severity is Severity.HOST
    assert worse.sign.kind is SignKind.HIDDEN


def test_a_port_that_refuses_is_no_silence() -> None:
    room = Room()
    room.look(SEEN)
    (opened,) = room.look(HostChecked("timed out", refusing=NAMES[:1]), 50)
    assert isinstance(opened, OpenIncident)
    assert opened.plan.signs[0].kind is SignKind.HIDDEN
    assert room.sight() is Sight.HALF


def test_a_state_of_a_process_whose_clock_was_ahead_is_no_reason_to_wait() -> None:
    room = Room()
    room.now += timedelta(hours=1)
    room.look(SEEN)
    room.look(GONE, 2)
    room.now -= timedelta(hours=1)
    room.watch = HostWatch(PLAN, room.watch.state)
    room.look(GONE, 3)
    assert [type(action) for action in room.actions] == [OpenIncident]


def test_an_incident_that_outlived_the_watch_goes_on() -> None:
    found = IncidentFound(IncidentId("f" * 32), Severity.HOST)
    room = Room()
    room.look(GONE, 2)
    room.watch.handle(found, room.now)
    room.look(GONE, 20)
    room.look(SEEN, 2)
    assert [type(event) for event in room.told()] == [PresentSeen, AffectedSeen, Recovered]
    (again,) = room.watch.handle(found, room.now)  # its record was lost once more, and the end with it
    assert isinstance(again, TellIncident)
    assert again.event == Recovered(room.now)


def test_only_what_must_survive_is_worth_writing() -> None:
    room = Room()
    room.look(SEEN)
    assert room.watch.dirty
    room.look(SEEN)
    assert not room.watch.dirty
    room.look(GONE)
    assert room.watch.dirty
    room.look(GONE)
    assert not room.watch.dirty


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([SEEN, GONE, HALF, REFUSED]), st.integers(1, 5)), max_size=20))
def test_saved_and_restored_at_any_point_it_orders_the_same(steps: list[tuple[HostChecked, int]]) -> None:
    rooms = Room(), Room(rewritten=True)
    for room in rooms:
        for event, times in steps:
            room.look(event, times)
    assert rooms[0].actions == rooms[1].actions


def test_a_host_whose_services_are_all_muted_opens_nothing_until_the_mute_ends() -> None:
    room = Room(rewritten=True)
    room.look(SEEN)
    assert room.look(replace(GONE, muted=True), 9) == []
    [opened] = room.look(GONE)
    assert isinstance(opened, OpenIncident)
    assert opened.plan.severity is Severity.HOST
    assert opened.plan.began == BEGAN + 2 * PLAN.every  # since it was gone, not since it may be told


def test_a_mute_ends_no_incident_of_the_host() -> None:
    room = Room(rewritten=True)
    room.look(SEEN)
    room.look(GONE, 3)
    room.look(replace(GONE, muted=True), 3)
    room.look(SEEN, 3)
    assert [type(event) for event in room.told()] == [Recovered]


def test_one_that_refused_and_is_gone_while_all_its_services_are_muted_pages_once_they_are_not() -> None:
    room = Room()
    room.look(SEEN)
    room.look(HALF, 3)
    assert room.look(replace(GONE, muted=True), 9) == []
    room.look(GONE)
    assert isinstance(room.told()[0], Worsened)


def test_a_host_that_comes_back_while_its_services_are_muted_was_no_outage() -> None:
    room = Room()
    room.look(SEEN)
    room.look(replace(GONE, muted=True), 9)
    assert room.look(SEEN, 3) == []


def test_a_closing_that_is_heard_late_closes_nothing_that_came_after_it() -> None:
    room = Room(rewritten=True)
    room.look(SEEN)
    [opened] = [each for each in room.look(GONE, 3) if isinstance(each, OpenIncident)]
    closed = IncidentClosed(opened.plan.incident, Severity.HOST, room.now)
    room.look(SEEN, 3)
    room.look(GONE, 3)
    assert isinstance(room.told()[-1], DownAgain)
    assert room.watch.handle(closed, room.now) == []
    room.look(SEEN, 3)
    assert isinstance(room.told()[-1], Recovered)


def test_a_host_that_nobody_watched_for_a_while_is_watched_as_new() -> None:
    room = Room()
    room.look(SEEN, 2)
    room.look(GONE, 3)
    [opened] = [action for action in room.actions if isinstance(action, OpenIncident)]
    room.watch.handle(IncidentClosed(opened.plan.incident, Severity.HOST, room.now, unwatched=True), room.now)
    assert room.watch.state == HostState()
    assert room.watch.dirty
    assert room.look(GONE, 10) == []
    room.look(SEEN, 2)
    [again] = room.look(GONE, 3)
    assert isinstance(again, OpenIncident)


def test_one_that_took_nothing_any_more_when_it_was_told_is_forgotten() -> None:
    room = Room()
    room.look(SEEN, 2)
    [opened] = [action for action in room.look(GONE, 3) if isinstance(action, OpenIncident)]
    at = room.watch.state.told_at
    assert at is not None
    closed = IncidentClosed(opened.plan.incident, Severity.HOST, at - LINGER, unwatched=True)
    room.watch.handle(closed, room.now)
    assert room.watch.state == HostState()


WHO = UserId("U0ALICE")


def hour(room: Room) -> Muted:
    return Muted(WHO, room.now + timedelta(hours=1), "disk swap")


@pytest.mark.parametrize("rewritten", [False, True])
def test_a_host_that_is_muted_opens_nothing_until_the_mute_ends(rewritten: bool) -> None:
    room = Room(rewritten=rewritten)
    room.look(SEEN, 2)
    room.watch.handle(hour(room), room.now)
    assert room.watch.dirty
    assert room.look(GONE, 200) == []
    [opened] = room.look(GONE, 100)
    assert isinstance(opened, OpenIncident)
    assert opened.plan.opened - BEGAN >= timedelta(hours=1)


def test_of_an_open_one_the_mute_and_its_end_are_told() -> None:
    for end in (Unmuted(WHO), None):
        room = Room()
        room.look(SEEN, 2)
        room.look(GONE, 3)
        muted = hour(room)
        [told] = room.watch.handle(muted, room.now)
        assert isinstance(told, TellIncident)
        assert told.event == IncidentMuted(WHO, muted.until, "disk swap")
        room.actions.clear()
        if end is None:
            room.look(GONE, 250)
            assert room.told() == [IncidentUnmuted()]
        else:
            [over] = room.watch.handle(end, room.now)
            assert isinstance(over, TellIncident)
            assert over.event == IncidentUnmuted(WHO)
            assert room.watch.handle(end, room.now) == []


def test_what_only_refuses_ssh_and_is_gone_while_its_host_is_muted_pages_once_it_is_not() -> None:
    room = Room()
    room.look(SEEN, 2)
    room.look(HALF, 3)
    room.watch.handle(hour(room), room.now)
    room.actions.clear()
    room.look(GONE, 9)
    assert not [told for told in room.told() if isinstance(told, Worsened)]
    room.watch.handle(Unmuted(WHO), room.now)
    room.look(GONE)
    assert [type(told) for told in room.told() if isinstance(told, Worsened)] == [Worsened]
