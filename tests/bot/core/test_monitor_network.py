"""All hosts of a process that go together are one incident; what one of them shows by itself is its own."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.core.events import HostName, ServiceName, UserId
from bot.core.incident import Incident
from bot.core.incident_events import AffectedSeen, Recovered, SignSeen
from bot.core.incident_render import render_incident_root
from bot.core.incident_state import Severity, SignKind
from bot.core.monitor_events import HostChecked, IncidentClosed, Muted, OpenIncident
from bot.core.monitor_host import HostWatch
from bot.core.monitor_network import darkness_of
from bot.core.monitor_state import HostPlan, HostState, Sight
from config.engine_file import load_engine
from tests.support.slack_messages import shown

BEGAN = datetime(2026, 5, 29, 3, 0, tzinfo=UTC)
EVERY = timedelta(seconds=15)
STATE = TypeAdapter(HostState)


def told_of(hosts: int) -> str:
    lost = "they lost power or network together, or kimi the way to them"
    return f"kimi reaches none of {hosts} hosts any more, all since the same moment: {lost}"


@dataclass
class Fleet:
    """Some hosts that one process watches; each is looked at in its own time."""

    count: int = 4
    failures: int = 3
    every: dict[int, timedelta] = field(default_factory=dict)
    calls: dict[int, tuple[str, int]] = field(default_factory=dict)  # a group, after so many minutes
    rewritten: bool = False
    now: datetime = BEGAN
    silent: set[int] = field(default_factory=set)
    barred: set[int] = field(default_factory=set)
    opened: list[OpenIncident] = field(default_factory=list)
    told: list[tuple[HostName, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watches = {self.name(each): HostWatch(self.plan(each)) for each in range(self.count)}
        self.due = {each: BEGAN + timedelta(seconds=each * 3 % 15) for each in range(self.count)}
        self.look(60)

    @staticmethod
    def name(number: int) -> HostName:
        return HostName(f"host-{number}")

    def plan(self, number: int) -> HostPlan:
        service = ServiceName(f"service-{number}")
        every = self.every.get(number, EVERY)
        group, minutes = self.calls.get(number, (None, None))
        after = timedelta(minutes=minutes) if minutes is not None else None
        return HostPlan(
            self.name(number),
            (service,),
            every=every,
            failures=self.failures,
            escalate_after=after,
            group=group,
        )

    def look(self, seconds: float) -> None:
        until = self.now + timedelta(seconds=seconds)
        while min(self.due.values()) <= until:
            number = min(self.due, key=lambda each: self.due[each])
            self.now = self.due[number]
            self.due[number] += self.watches[self.name(number)].plan.every
            self.round(number)
        self.now = until

    def round(self, number: int) -> None:
        name = self.name(number)
        if self.rewritten:
            state = STATE.validate_json(STATE.dump_json(self.watches[name].state))
            self.watches[name] = HostWatch(self.plan(number), state)
        error = "timed out" if number in self.silent | self.barred else None
        dark = darkness_of(name, self.watches, self.now) if error else None
        barred = "SSH is refused" if number in self.barred else None
        for action in self.watches[name].handle(HostChecked(error, barred=barred, dark=dark), self.now):
            if isinstance(action, OpenIncident):
                self.opened.append(action)
            else:
                self.told.append((name, action.event))

    def open_now(self) -> list[HostName]:
        return [name for name, watch in self.watches.items() if watch.state.severity is Severity.HOST]

    def is_told(self, number: int) -> bool:
        """By its own incident, or by that of one that tells it for all."""
        states = [watch.state for watch in self.watches.values()]
        leading = [state for state in states if state.leads and state.severity is Severity.HOST]
        own = self.watches[self.name(number)].state.severity is Severity.HOST
        return own or any(f"service-{number}" in state.affected for state in leading)

    def leader(self) -> HostWatch:
        [name] = [name for name, watch in self.watches.items() if watch.state.leads]
        return self.watches[name]


@pytest.mark.parametrize("rewritten", [False, True])
def test_when_no_host_answers_one_incident_says_so(rewritten: bool) -> None:
    fleet = Fleet(rewritten=rewritten)
    fleet.silent = {0, 1, 2, 3}
    fleet.look(47)
    [opened] = fleet.opened
    assert opened.plan.opened - opened.plan.began <= 3 * EVERY
    [sign] = opened.plan.signs
    assert (sign.kind, opened.plan.severity) == (SignKind.NETWORK, Severity.HOST)
    assert sign.sentence == told_of(4)
    assert len(opened.plan.affected) == 4
    told = shown(render_incident_root(Incident(opened.plan, load_engine("auto")).view(fleet.now)))
    assert "is out of sight since" in told
    assert told_of(4) in told
    assert "no answer from host-0, host-1, host-2 and host-3" in told
    assert "is gone" not in told
    fleet.look(3600)
    assert fleet.opened == [opened]
    assert fleet.told == []
    assert {watch.sight for watch in fleet.watches.values()} == {Sight.GONE}
    fleet.silent = set()
    fleet.look(60)
    assert [type(event) for _, event in fleet.told] == [Recovered]
    assert fleet.opened == [opened]
    assert not any(watch.state.leads or watch.state.waits for watch in fleet.watches.values())


@pytest.mark.parametrize("order", [*itertools.permutations(range(4))])
def test_who_takes_the_hosts_up_one_after_the_other_goes_on_with_that_incident(
    order: tuple[int, ...],
) -> None:
    fleet = Fleet(rewritten=True)
    fleet.silent = {0, 1, 2, 3}
    fleet.look(120)
    taken = {number: fleet.watches.pop(fleet.name(number)) for number in range(4)}
    fleet.due.clear()
    for number in order:
        fleet.watches[fleet.name(number)], fleet.due[number] = taken[number], fleet.now
        fleet.look(2)
    fleet.look(120)
    assert len(fleet.opened) == 1
    assert all(fleet.is_told(number) for number in range(4))


def test_what_does_not_come_back_with_the_others_becomes_its_own() -> None:
    fleet = Fleet()
    fleet.silent = {0, 1, 2, 3}
    fleet.look(120)
    leader = fleet.leader().plan.host
    left = [each for each in range(4) if fleet.name(each) != leader][:2]
    fleet.silent = set(left)
    came_back = fleet.now
    fleet.look(30)
    assert len(fleet.opened) == 1  # a look that was under way meanwhile proves nothing
    fleet.look(60)
    assert sorted(fleet.open_now()) == sorted(fleet.name(each) for each in left)
    for opened in fleet.opened[1:]:
        assert opened.plan.signs[0].sentence == "the host does not answer SSH"
        assert opened.plan.began < came_back < opened.plan.opened <= came_back + 5 * EVERY
    fleet.silent = set()
    fleet.look(60)
    assert fleet.open_now() == []
    assert len(fleet.opened) == 3


def test_the_one_that_told_it_for_all_may_be_the_one_that_stays_away() -> None:
    fleet = Fleet()
    fleet.silent = {0, 1, 2, 3}
    fleet.look(120)
    leader = fleet.leader().plan.host
    fleet.silent = {each for each in range(4) if fleet.name(each) == leader}
    fleet.look(120)
    assert fleet.open_now() == [leader]
    assert len(fleet.opened) == 1
    [sign] = [event for _, event in fleet.told if isinstance(event, SignSeen)]
    assert sign.sign.sentence == "the host does not answer SSH"
    [affected] = [event for _, event in fleet.told if isinstance(event, AffectedSeen)]
    assert len(affected.services) == 1


def test_one_host_that_answers_or_refuses_shows_that_the_network_is_there() -> None:
    for kind in ("seen", "refuses"):
        fleet = Fleet()
        fleet.silent = {0, 1, 2}
        fleet.barred = {3} if kind == "refuses" else set()
        fleet.look(120)
        assert {each.plan.signs[0].kind for each in fleet.opened if each.plan.host != "host-3"} == {
            SignKind.SIGHT
        }
        assert {"host-0", "host-1", "host-2"} <= set(fleet.open_now())


def test_a_single_host_says_nothing_of_the_network() -> None:
    fleet = Fleet(count=1)
    fleet.silent = {0}
    fleet.look(60)
    [opened] = fleet.opened
    assert opened.plan.signs[0].kind is SignKind.SIGHT


def test_one_that_was_gone_long_before_has_no_say_and_keeps_its_own() -> None:
    fleet = Fleet()
    fleet.silent = {0}
    fleet.look(600)
    fleet.silent = {0, 1, 2, 3}
    fleet.look(120)
    first, second = fleet.opened
    assert (first.plan.host, first.plan.signs[0].kind) == ("host-0", SignKind.SIGHT)
    assert second.plan.signs[0].sentence == told_of(3)
    pair = Fleet(count=2)
    pair.silent = {0}
    pair.look(600)
    pair.silent = {0, 1}
    pair.look(120)
    assert [each.plan.signs[0].kind for each in pair.opened] == [SignKind.SIGHT] * 2


def test_closed_by_hand_it_is_known_for_all() -> None:
    fleet = Fleet()
    fleet.silent = {0, 1, 2, 3}
    fleet.look(120)
    [opened] = fleet.opened
    closed = IncidentClosed(opened.plan.incident, Severity.HOST, fleet.now)
    fleet.leader().handle(closed, fleet.now)
    fleet.look(600)
    assert fleet.opened == [opened]
    fleet.silent = {each for each in range(4) if fleet.name(each) != opened.plan.host}
    fleet.look(120)
    assert len(fleet.open_now()) == 3


def test_a_muted_host_does_not_tell_it_for_all() -> None:
    fleet = Fleet()
    muted = Muted(UserId("U0ALICE"), fleet.now + timedelta(hours=1))
    fleet.watches[fleet.name(0)].handle(muted, fleet.now)
    fleet.silent = {0, 1, 2, 3}
    fleet.look(120)
    [opened] = fleet.opened
    assert opened.plan.host != fleet.name(0)
    assert opened.plan.signs[0].kind is SignKind.NETWORK


def test_where_each_is_looked_at_in_its_own_time_what_was_opened_first_becomes_it() -> None:
    fleet = Fleet(count=2, every={1: timedelta(seconds=60)})
    fleet.look(5)  # the second one is seen, and is looked at a minute later
    fleet.silent = {0, 1}
    fleet.look(50)
    assert [each.plan.signs[0].kind for each in fleet.opened] == [SignKind.SIGHT]
    fleet.look(190)
    [opened] = fleet.opened
    assert opened.plan.host == "host-0"
    [(_, sign)] = [(name, event) for name, event in fleet.told if isinstance(event, SignSeen)]
    assert sign.sign.kind is SignKind.NETWORK
    assert fleet.watches[HostName("host-1")].state.waits


@settings(deadline=None)
@given(gaps=st.lists(st.integers(1, 40), min_size=3, max_size=6), failures=st.integers(1, 4))
@example(gaps=[1, 20, 1], failures=1)
def test_hosts_that_go_one_after_the_other_are_each_told(gaps: list[int], failures: int) -> None:
    fleet = Fleet(count=len(gaps), failures=failures)
    for number, gap in enumerate(gaps):
        fleet.silent = set(range(number + 1))
        fleet.look(gap)
    fleet.look(200)
    assert [number for number in range(len(gaps)) if not fleet.is_told(number)] == []


@pytest.mark.parametrize("looping", [0, 1])
def test_one_that_refuses_in_between_shows_that_the_other_is_gone_for_itself(looping: int) -> None:
    """A host that boots over and over is silent most of the time."""
    fleet = Fleet(count=2)
    fleet.silent = {0, 1}
    fleet.look(120)
    assert len(fleet.open_now()) == 1
    for _ in range(4):
        fleet.barred = {looping}
        fleet.look(20)
        fleet.barred = set()
        fleet.look(60)
    assert len(fleet.open_now()) == 2
    assert not any(watch.state.waits or watch.state.leads for watch in fleet.watches.values())


def test_one_that_is_seldom_looked_at_makes_no_moment_longer_for_the_others() -> None:
    fleet = Fleet(every={3: timedelta(minutes=10)})
    fleet.look(1100)
    fleet.silent = {0}
    fleet.look(640)
    [first] = fleet.opened
    fleet.silent = {0, 1, 2, 3}
    fleet.look(120)
    assert fleet.told == []  # who is on it may know of that one alone
    assert [each.plan.signs[0].kind for each in fleet.opened] == [SignKind.SIGHT, SignKind.NETWORK]
    assert "service-0" not in fleet.opened[1].plan.affected
    assert first.plan.host == "host-0"


def test_nobody_waits_for_an_incident_that_was_muted_before() -> None:
    fleet = Fleet(count=2, failures=2)
    fleet.silent = {0}
    fleet.look(30)
    assert fleet.open_now() == ["host-0"]
    fleet.watches[HostName("host-0")].handle(
        Muted(UserId("U0ALICE"), fleet.now + timedelta(hours=1)), fleet.now
    )
    fleet.told.clear()
    fleet.silent = {0, 1}
    fleet.look(60)
    assert fleet.open_now() == ["host-0", "host-1"]
    assert fleet.leader().plan.host == "host-1"
    assert fleet.told == []


def test_who_is_called_for_a_host_is_called_for_it() -> None:
    alike = dict.fromkeys(range(4), ("S0A", 10))
    for calls, number in ((alike, 1), ({**alike, 3: ("S0B", 10)}, 2), ({**alike, 3: ("S0A", 5)}, 2)):
        fleet = Fleet(calls=calls)
        fleet.look(3)  # the last one is the last to be sure
        fleet.silent = {0, 1, 2, 3}
        fleet.look(120)
        assert len(fleet.opened) == number
        called = {(each.plan.group, each.plan.escalate_after) for each in fleet.opened}
        assert (calls[3][0], timedelta(minutes=calls[3][1])) in called or number == 1
    nobody = Fleet(calls={0: ("S0A", 10)})
    nobody.silent = {0, 1, 2, 3}
    nobody.look(120)
    assert "S0A" in {each.plan.group for each in nobody.opened}


@settings(deadline=None)
@given(
    count=st.integers(2, 5),
    failures=st.integers(1, 4),
    steps=st.lists(
        st.tuples(
            st.sets(st.integers(0, 4)), st.sets(st.integers(0, 4)), st.sampled_from([1, 7, 20, 50, 400])
        ),
        max_size=12,
    ),
    rewritten=st.booleans(),
)
def test_nothing_that_is_lost_stays_untold_and_nothing_that_is_seen_stays_open(
    count: int, failures: int, steps: list[tuple[set[int], set[int], int]], rewritten: bool
) -> None:
    fleet = Fleet(count=count, failures=failures, rewritten=rewritten)
    for silent, barred, seconds in steps:
        fleet.silent, fleet.barred = (
            {each for each in silent if each < count},
            {each for each in barred if each < count},
        )
        fleet.look(seconds)
        subjects = [each.plan.incident for each in fleet.opened]
        assert len(set(subjects)) == len(subjects)
    lost = fleet.silent - fleet.barred
    fleet.look(2 * failures * 15 + 120)
    for number in lost:
        assert fleet.is_told(number), number
        if len(lost) < count and not fleet.barred:
            assert fleet.name(number) in fleet.open_now(), "another one answers"
    fleet.silent = fleet.barred = set()
    fleet.look(120)
    assert all(watch.state == HostState() or watch.sight is Sight.SEEN for watch in fleet.watches.values())
    assert all(watch.state.severity is None for watch in fleet.watches.values())
    fleet.look(2 * 3600)
    fleet.silent, before = set(range(count)), len(fleet.opened)
    fleet.look(failures * 15 + 30)
    assert len(fleet.opened) > before
    assert failures < 3 or len(fleet.opened) == before + 1  # enough looks, so that all have failed by then
