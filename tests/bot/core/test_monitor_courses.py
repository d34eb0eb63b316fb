"""Whatever happens to a service and its host, in whatever order it is heard of: one story for each outage.

The watch of a service with two members on two hosts, that of its host, and their incidents, as the carriers
connect them: words from an incident to its watch come late, lines come before rounds, after them or not at
all, an operation may end without a word. Each machine runs twice, once saved and restored before each event.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bot.core.actions import Verdict
from bot.core.events import (
    HostName,
    InvocationId,
    LogLine,
    Member,
    OperationId,
    Origin,
    ProbeAnswer,
    SmokeResult,
    Ticked,
    UnitState,
    UserId,
    Verb,
)
from bot.core.incident import Incident
from bot.core.incident_actions import (
    IncidentAction,
    IncidentEnded,
    PostIncidentReply,
    ReadRunLog,
)
from bot.core.incident_events import (
    Acknowledged,
    ResolvedByHand,
    RunLogRead,
    WatchEnded,
)
from bot.core.incident_export import render_export
from bot.core.incident_render import render_incident_reply, render_incident_root
from bot.core.incident_state import FLAP_WINDOW, Ending, IncidentId, Severity
from bot.core.monitor import Watch
from bot.core.monitor_events import (
    Checked,
    CheckSmoke,
    DirectAsked,
    HostChecked,
    HostEvent,
    IncidentClosed,
    LoadSeen,
    Muted,
    OpenIncident,
    OperationEnded,
    OperationUnderWay,
    SmokeChecked,
    TellIncident,
    UnitLine,
    Unmuted,
    WatchEvent,
)
from bot.core.monitor_host import HostWatch
from bot.core.monitor_state import HostPlan, WatchPlan, WatchStanding
from tests.support.incidents import OUT_OF_MEMORY, make_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

from tests.support.stories import (
    BEGAN,
    ENGINE,
    EVERY,
    FAR,
    GOOD,
    HOST,
    HOST_WATCH,
    LINES,
    PROBES,
    SERVICE,
    UNITS,
    WATCH,
    WHO,
    Story,
)


class Courses(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = BEGAN
        self.members = (Member(f"{HOST}/u.service"), Member(f"{FAR}/u.service"))
        self.units = dict.fromkeys(self.members, "running")
        self.runs = dict.fromkeys(self.members, 1)
        self.restarts = dict.fromkeys(self.members, 0)
        self.boots = dict.fromkeys(self.members, 1)
        self.probe, self.ssh, self.far = "good", "seen", True
        self.operation: OperationId | None = None
        self.verb, self.number = Verb.RESTART, 0
        self.by: UserId | None = None
        self.stories: dict[IncidentId, Story] = {}
        self.words: list[tuple[bool, IncidentClosed]] = []  # on their way; True: to the host's watch

    @initialize(reach=st.sampled_from(["ssh", "direct"]), failures=st.integers(1, 3))
    def begin(self, reach: Any, failures: int) -> None:
        plan = WatchPlan(
            SERVICE,
            HOST,
            self.members,
            "kimi",
            reach,
            failures=failures,
            escalate_after=timedelta(minutes=5),
            group="S0456",
        )
        direct = {SERVICE: EVERY} if reach == "direct" else {}
        of_host = HostPlan(HOST, (SERVICE,), direct, failures=failures, escalate_after=timedelta(minutes=5))
        self.watch, self.watch_twin = Watch(plan, ENGINE), Watch(plan, ENGINE)
        self.host, self.host_twin = HostWatch(of_host), HostWatch(of_host)
        self.rounds(2)

    # ---- as the carriers do it ----------------------------------------------------------------------------

    def tell(self, event: WatchEvent) -> None:
        plan, state = self.watch.plan, WATCH.validate_json(WATCH.dump_json(self.watch_twin.state))
        self.watch_twin = Watch(plan, ENGINE, state)
        ordered = self.watch.handle(event, self.now)
        assert self.watch_twin.handle(event, self.now) == ordered
        for action in ordered:
            if isinstance(action, OpenIncident | TellIncident):
                self.carry(action)
            elif isinstance(action, CheckSmoke):
                pass  # `smoke` asks at any time

    def tell_host(self, event: HostEvent) -> None:
        state = HOST_WATCH.validate_json(HOST_WATCH.dump_json(self.host_twin.state))
        self.host_twin = HostWatch(self.host.plan, state)
        ordered = self.host.handle(event, self.now)
        assert self.host_twin.handle(event, self.now) == ordered
        for action in ordered:
            self.carry(action)

    def carry(self, action: OpenIncident | TellIncident) -> None:
        if isinstance(action, TellIncident):
            story = self.stories[action.incident]
            self.follow(story, story.tell(action.event, self.now))
            return
        plan = action.plan
        opened = [each for each in self.stories.values() if each.plan.subject == plan.subject]
        assert all(each.state.ending is not None for each in opened), "one incident is open at most"
        assert plan.incident not in self.stories
        story = self.stories[plan.incident] = Story(plan, Incident(plan, ENGINE), Incident(plan, ENGINE))
        self.follow(story, story.begin(self.now))

    def follow(self, story: Story, actions: Sequence[IncidentAction]) -> None:
        for action in actions:
            if isinstance(action, ReadRunLog) and self.number % 2:
                told = RunLogRead(action.member, action.invocation, make_lines(*OUT_OF_MEMORY))
                self.follow(story, story.tell(told, self.now))
            elif isinstance(action, IncidentEnded) and (action.by or action.ending is Ending.UNWATCHED):
                unwatched = action.ending is Ending.UNWATCHED
                severity = story.state.severity
                word = IncidentClosed(story.plan.incident, severity, self.now, unwatched=unwatched)
                self.words.append((story.plan.service is None, word))

    def is_out(self) -> bool:
        return self.ssh != "seen"

    def rounds(self, times: int) -> None:
        for _ in range(times):
            self.now += EVERY
            self.round()

    def round(self) -> None:
        direct = self.watch.plan.reach == "direct"
        probe = PROBES[self.probe] if self.ssh != "off" else ProbeAnswer(error="timed out")
        past = DirectAsked()
        if direct:
            how = "answering" if probe.health is not None else "refusing" if probe.is_refused else "silent"
            past = DirectAsked(**{how: (SERVICE,)})
        if self.is_out():
            barred = "SSH is refused (connection refused)" if self.ssh == "refused" else None
            told = HostChecked("no SSH", past.answering, past.silent, barred, past.refusing)
            self.tell_host(told)
        else:
            self.tell_host(HostChecked(None))
            self.tell_host(past)
        seen = {HOST: not self.is_out(), FAR: self.far}
        units: dict[Member, UnitState | str] = {
            each: self.unit(each) if seen[HostName(each.split("/")[0])] else "timed out"
            for each in self.members
        }
        boots = {each: f"{self.boots[each]}" for each, unit in units.items() if isinstance(unit, UnitState)}
        asked = probe if direct or not self.is_out() else None
        inside = probe if direct and not self.is_out() and asked is not GOOD else None
        self.tell(Checked(asked, units, inside, boots, self.operation, self.host.sight))
        for story in self.stories.values():
            self.follow(story, story.tell(Ticked(), self.now))

    def unit(self, name: Member) -> UnitState:
        shown = UNITS[self.units[name]]
        return replace(shown, invocation=self.run(name), restarts=self.restarts[name])

    def run(self, name: Member) -> InvocationId:
        return InvocationId(f"{self.members.index(name)}{self.runs[name]:031x}")

    def say(self, name: Member, line: str) -> None:
        text = LINES[line].format(self.restarts[name] + 1)
        boot = f"{self.boots[name]}"
        told = LogLine(text, text, at=self.now, origin=Origin.MANAGER, invocation=self.run(name), boot=boot)
        self.tell(UnitLine(name, told))

    # ---- what happens -------------------------------------------------------------------------------------

    @rule(times=st.sampled_from([1, 1, 2, 3, 4, 8, 40, 130]))
    def look(self, times: int) -> None:
        self.rounds(times)

    @rule(seconds=st.sampled_from([1, 5, 31, 300, 1900]))
    def nobody_looks(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.tell(Ticked())

    @rule(probe=st.sampled_from(list(PROBES)))
    def engine(self, probe: str) -> None:
        self.probe = probe

    @rule(ssh=st.sampled_from(["seen", "silent", "refused", "off"]))
    def reach_of_host(self, ssh: str) -> None:
        self.ssh = ssh

    @rule(seen=st.booleans())
    def reach_of_the_other(self, *, seen: bool) -> None:
        self.far = seen

    @rule(which=st.integers(0, 1), lines=st.booleans(), again=st.booleans(), round_first=st.booleans())
    def crash(self, which: int, *, lines: bool, again: bool, round_first: bool) -> None:
        name = self.members[which]
        self.units[name], self.probe = ("looping" if again else "failed"), "refused"
        if round_first:
            self.rounds(1)
        if lines:
            self.say(name, "died")
            self.say(name, "failed")

    @rule(which=st.integers(0, 1), lines=st.booleans(), by_systemd=st.booleans(), round_first=st.booleans())
    def start(self, which: int, *, lines: bool, by_systemd: bool, round_first: bool) -> None:
        name = self.members[which]
        if by_systemd and lines:
            self.say(name, "restarting")
        self.restarts[name] = self.restarts[name] + 1 if by_systemd else 0
        self.runs[name], self.units[name], self.probe = self.runs[name] + 1, "running", "refused"
        if round_first:
            self.rounds(1)
        if lines:
            self.say(name, "started")

    @rule(which=st.integers(0, 1), lines=st.booleans(), kills_itself=st.booleans())
    def stop(self, which: int, *, lines: bool, kills_itself: bool) -> None:
        name = self.members[which]
        if lines:
            self.say(name, "stopping")
        self.units[name], self.probe = "stopping", "refused"
        self.rounds(1)
        self.units[name] = "failed" if kills_itself else "stopped"
        if lines:
            self.say(name, "died" if kills_itself else "stopped")

    @rule(comes_up=st.booleans())
    def reboot(self, *, comes_up: bool) -> None:
        name = self.members[0]
        self.boots[name] += 1
        self.restarts[name], self.probe = 0, "refused"
        self.units[name] = "running" if comes_up else "stopped"
        self.runs[name] += comes_up

    @rule(passed=st.booleans())
    def smoke(self, *, passed: bool) -> None:
        self.tell(SmokeChecked(SmokeResult(passed=passed, error=None if passed else "no token came")))

    @rule()
    def queue_grows(self) -> None:
        for waiting in range(20, 120, 20):
            self.tell(LoadSeen(waiting, 8))

    @rule(down=st.booleans(), closed=st.booleans())
    def degraded_and_worse(self, *, down: bool, closed: bool) -> None:
        """Somebody may close it in the moment in which it goes down."""
        self.queue_grows()
        if closed:
            self.close()
        if down:
            self.probe = "busy"
            self.rounds(self.watch.plan.failures)

    @precondition(lambda self: self.operation is not None and self.is_running())
    @rule(which=st.integers(0, 1))
    def it_dies_amid_an_operation_of_which_nothing_is_heard_again(self, which: int) -> None:
        self.crash(which, lines=False, again=False, round_first=True)
        self.operation = None
        self.what_has_failed_is_known()

    def is_running(self) -> bool:
        return set(self.units.values()) == {"running"} and self.ssh == "seen" and self.far

    @precondition(is_running)
    @rule(which=st.integers(0, 1), lines=st.booleans())
    def it_dies(self, which: int, *, lines: bool) -> None:
        """With both hosts in sight that is known soon, and told unless somebody knows of it."""
        self.crash(which, lines=lines, again=False, round_first=True)
        if self.operation is None:
            self.what_has_failed_is_known()

    def what_has_failed_is_known(self) -> None:
        self.rounds(8)
        state = self.watch.state
        assert state.standing is WatchStanding.DOWN
        assert state.severity is Severity.DOWN or state.waived or state.mute is not None

    # ---- what people do -----------------------------------------------------------------------------------

    @precondition(lambda self: self.operation is None)
    @rule(verb=st.sampled_from([Verb.RESTART, Verb.STOP, Verb.WATCH]), asked=st.booleans())
    def operation_begins(self, verb: Verb, *, asked: bool) -> None:
        self.number += 1
        self.operation, self.verb = OperationId(f"op{self.number}"), verb
        self.by = WHO if asked or verb is Verb.STOP else None
        self.tell(OperationUnderWay(self.operation, verb, self.by))

    @precondition(lambda self: self.operation is not None)
    @rule(verdict=st.sampled_from(list(Verdict)))
    def operation_ends(self, verdict: Verdict) -> None:
        assert self.operation is not None
        operation, self.operation = self.operation, None
        if verdict is Verdict.HEALTHY:
            self.mend()
        elif verdict is Verdict.STOPPED:
            self.units = dict.fromkeys(self.members, "stopped")
            self.probe = "refused"
        self.tell(OperationEnded(operation, self.verb, verdict, timedelta(minutes=3), self.by, "no memory"))

    @precondition(lambda self: self.operation is not None)
    @rule()
    def operation_is_forgotten(self) -> None:
        self.operation = None

    @rule(minutes=st.sampled_from([1, 60]))
    def mute(self, minutes: int) -> None:
        self.tell(Muted(WHO, self.now + timedelta(minutes=minutes), "known"))

    @rule()
    def unmute(self) -> None:
        self.tell(Unmuted(WHO))

    @rule(minutes=st.sampled_from([1, 60]))
    def mute_the_host(self, minutes: int) -> None:
        until = self.now + timedelta(minutes=minutes)
        self.tell_host(Muted(WHO, until, "disk swap"))
        self.tell(Muted(WHO, until, "disk swap", HOST))

    @rule()
    def unmute_the_host(self) -> None:
        self.tell_host(Unmuted(WHO))
        self.tell(Unmuted(WHO, HOST))

    @rule(seconds=st.sampled_from([1, 1900, 7200]), rounds=st.sampled_from([0, 0, 1, 20]))
    def nobody_watches_for_a_while(self, seconds: int, rounds: int) -> None:
        """It left the configuration and came back; its watches may be told a little late."""
        self.now += timedelta(seconds=1)
        for story in self.stories.values():
            self.follow(story, story.tell(WatchEnded("the configuration no longer names it"), self.now))
        self.now += timedelta(seconds=seconds)
        for story in self.stories.values():
            self.follow(story, story.tell(Ticked(), self.now))
        self.rounds(rounds)
        self.hear()

    @rule()
    def acknowledge(self) -> None:
        for story in self.stories.values():
            self.follow(story, story.tell(Acknowledged(WHO), self.now))

    @rule()
    def close(self) -> None:
        self.now += timedelta(seconds=1)  # a person takes their time
        for story in self.stories.values():
            self.follow(story, story.tell(ResolvedByHand(WHO), self.now))

    @rule()
    def hear(self) -> None:
        """Words reach the watches a little later."""
        words, self.words = self.words, []
        for of_host, word in words:
            if of_host:
                self.tell_host(word)
            else:
                self.tell(word)

    # ---- what holds ---------------------------------------------------------------------------------------

    @invariant()
    def the_watch_and_its_incident_agree(self) -> None:
        if not hasattr(self, "watch") or self.words:
            return
        for state, subject in ((self.watch.state, SERVICE), (self.host.state, HOST)):
            opened = [
                each
                for each in self.stories.values()
                if each.plan.subject == subject and each.state.ending is None
            ]
            assert [each.plan.incident for each in opened] == ([state.incident] if state.severity else [])
            assert [each.state.severity for each in opened] == ([state.severity] if state.severity else [])
        if self.watch.state.severity is Severity.DOWN:
            assert self.watch.state.standing is WatchStanding.DOWN

    @invariant()
    def each_story_is_sound(self) -> None:
        for story in self.stories.values():
            state = story.state
            posts = [each for each in story.actions if isinstance(each, PostIncidentReply)]
            assert 1 + sum(each.broadcast for each in posts) == state.in_channel <= 2
            assert [each.sequence for each in posts] == sorted({each.sequence for each in posts})
            assert state.downtime == story.downtime
            assert state.down_since == story.down_since
            view = story.incident.view(self.now)
            assert timedelta() <= view.downtime <= max(self.now - view.began, timedelta())
            assert state.ending is None or state.down_since is None

    def teardown(self) -> None:
        if hasattr(self, "watch"):
            self.tell_all()
            self.it_ends_well()
            self.and_the_next_outage_is_told()

    def tell_all(self) -> None:
        for story in self.stories.values():
            view = story.incident.view(self.now)
            render_incident_root(view)
            for each in story.actions:
                if isinstance(each, PostIncidentReply):
                    render_incident_reply(each.reply, view)
            assert render_export(story.plan, story.state, self.now)

    def mend(self) -> None:
        self.probe, self.ssh, self.far = "good", "seen", True
        for name, unit in self.units.items():
            if unit != "running":
                self.units[name], self.runs[name] = "running", self.runs[name] + 1

    def it_ends_well(self) -> None:
        """All serves, nobody is at work on it: nothing stays open, and the watch knows that it serves."""
        self.hear()
        self.operation = None
        self.unmute()
        self.unmute_the_host()
        self.mend()
        for _ in range(3):
            self.tell(SmokeChecked(SmokeResult(passed=True)))
            self.rounds(60)
        assert self.watch.state.standing is WatchStanding.SERVING
        assert self.watch.state.severity is None
        assert self.host.state.severity is None
        assert all(each.state.ending is not None for each in self.stories.values())
        self.now += FLAP_WINDOW * 3
        self.rounds(1)
        assert all(each.closed or each.incident.is_closed for each in self.stories.values())

    def and_the_next_outage_is_told(self) -> None:
        """Whatever was waived, muted or closed before: what serves and is lost is an outage."""
        before = len(self.stories)
        self.probe = "busy"
        self.rounds(self.watch.plan.failures)
        assert len(self.stories) == before + 1
        assert self.watch.state.severity is Severity.DOWN
        self.probe = "good"
        self.rounds(3)
        self.ssh = "off"
        self.rounds(self.host.plan.failures)
        assert self.host.state.severity is Severity.HOST


TestCourses = Courses.TestCase
EXAMPLES = int(os.environ.get("KIMI_COURSES", "50"))
TestCourses.settings = settings(
    deadline=None, max_examples=EXAMPLES, stateful_step_count=30, derandomize="KIMI_COURSES" not in os.environ
)
TestCourses.pytestmark = [pytest.mark.timeout(300)]  # type: ignore[attr-defined]
