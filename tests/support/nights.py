"""A night of many services in virtual time: faults at random, and a model that knows the truth and judges.

The model is no stand-in for a host: it only says what `systemctl show`, systemd's lines, a probe and a
completion would tell of services whose fate it decides, and it plays the part of the carriers. On each host
one thing happens at a time, so that the truth stays simple: each fault is an outage, or degraded, or neither.

`python -m tests.support.nights [SERVICES [SEED]]` plays one and prints what came of it.
"""

from __future__ import annotations

import heapq
import itertools
import random
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from bot.core.actions import Verdict
from bot.core.baseline import Usual
from bot.core.events import (
    HostName,
    InvocationId,
    LogLine,
    Member,
    OperationId,
    Origin,
    ProbeAnswer,
    ServiceName,
    SmokeResult,
    Ticked,
    UnitState,
    UserId,
    Verb,
)
from bot.core.incident import Incident
from bot.core.incident_actions import PostIncidentReply, ReadRunLog
from bot.core.incident_events import DownAgain, Recovered, RunLogRead, ServiceStopped, Worsened
from bot.core.incident_state import IncidentState, Severity
from bot.core.monitor import Watch
from bot.core.monitor_events import (
    Checked,
    CheckSmoke,
    HostChecked,
    OpenIncident,
    OperationEnded,
    OperationUnderWay,
    SmokeChecked,
    TellIncident,
    TellStopped,
    UnitLine,
    WatchStart,
)
from bot.core.monitor_host import HostWatch
from bot.core.monitor_state import HostPlan, HostState, WatchPlan, WatchState
from bot.core.smoke import FIRST_TOKEN, RATE
from config.engine_file import load_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bot.core.incident_actions import IncidentAction
    from bot.core.incident_state import IncidentId
    from bot.core.monitor_events import HostAction, WatchAction, WatchEvent

BEGAN = datetime(2026, 5, 29, 22, 0, tzinfo=UTC)
EVERY, FAILURES = 15.0, 3
SOON = FAILURES * EVERY + 2  # seconds from the fault to the first word
AT_ONCE = EVERY + 2  # where systemd's word proves it
SMOKE_EVERY = 600.0
MODEL = "kimi"
GOOD = ProbeAnswer(health=200, models=(MODEL,), listener=True)
REFUSED, BUSY = ProbeAnswer(error="connection refused"), ProbeAnswer(health=503)
GONE = ProbeAnswer(error="timed out")
WELL = SmokeResult(passed=True, first_token=0.3, tokens_per_second=90.0)
SLOW = SmokeResult(passed=True, first_token=6.0, tokens_per_second=9.0)
DEAD = SmokeResult(passed=False, error="no token came")
USUAL = Usual(speeds={FIRST_TOKEN: (0.3,), RATE: (90.0,)})
SOMEBODY = UserId("U0123")
_WATCH, _HOST, _INCIDENT = TypeAdapter(WatchState), TypeAdapter(HostState), TypeAdapter(IncidentState)


@dataclass
class Truth:
    """What is to be told once. `within`: seconds from its beginning to the word; `until`: its end."""

    subject: str
    what: str  # down, degraded, host, half, stopped, outside, systemd, boot
    fault: str
    began: float
    within: float
    until: float | None = None
    often: bool = False  # down again and again within it is the same incident
    told: int = 0


@dataclass
class Account:
    """What came of the night."""

    checks: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    truths: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    double: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    unended: list[str] = field(default_factory=list)
    incidents: int = 0
    loudest: int = 0  # messages in the channel of one incident
    slowest: float = 0.0  # seconds from a fault to its first word, smoke tests aside

    def __str__(self) -> str:
        wrong = {name: len(getattr(self, name)) for name in ("missed", "false", "double", "late", "unended")}
        return (
            f"{self.checks:,} checks; faults {dict(self.faults)}; to be told {dict(self.truths)}; "
            f"{self.incidents} incidents, {self.loudest} messages in the channel at most; "
            f"slowest word {self.slowest:.0f}s; {wrong}"
        )


@dataclass
class Service:
    name: ServiceName
    member: Member
    direct: bool
    streams: bool  # systemd's lines arrive as they are written
    watch: Watch
    unit: UnitState
    serving: bool = True
    hung: bool = False
    smoke: SmokeResult = WELL
    operation: OperationId | None = None
    verb: Verb = Verb.WATCH
    by: UserId | None = None
    since: float = 0.0
    busy: bool = False  # a fault is under way, or was a moment ago


@dataclass
class Host:
    name: HostName
    watch: HostWatch
    services: list[Service]
    boot: int = 1
    up: bool = True
    ssh: bool = True
    refuses: bool = False  # it says so where SSH is asked
    wanted: bool = False  # a fault of the whole host waits for its services to be settled


class Night:
    """`run` plays it; `account` is what came of it."""

    def __init__(
        self, services: int, *, hours: float = 8, seed: int = 1, per_host: int = 10, deaths: int = 0
    ) -> None:
        self.deaths = deaths  # of the process that watches, all over the night
        self.saved: dict[str, bytes] = {}  # what is in Redis of each watch
        self.random = random.Random(seed)  # noqa: S311 - a night that can be had again
        self.now, self.end = 0.0, hours * 3600
        self.account = Account()
        self.truths: list[Truth] = []
        self.incidents: dict[IncidentId, tuple[Incident, str]] = {}
        self.loud: Counter[IncidentId] = Counter()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order, self._runs, self._operations = itertools.count(), itertools.count(1), itertools.count(1)
        self._engine = load_engine("sglang")
        self.hosts = [self._make_host(number, per_host) for number in range(-(-services // per_host))]

    # ---- the beginning ------------------------------------------------------------------------------------

    def _make_host(self, number: int, services: int) -> Host:
        name = HostName(f"host-{number}")
        made = [self._make_service(name, each) for each in range(services)]
        names = tuple(each.name for each in made)
        direct = {each.name: timedelta(seconds=EVERY) for each in made if each.direct}
        return Host(name, HostWatch(HostPlan(name, names, direct)), made)

    def _make_service(self, host: HostName, number: int) -> Service:
        name, member = ServiceName(f"{host}-{number}"), Member(f"{host}/{number}.service")
        direct = self.random.random() < 0.3
        plan = WatchPlan(
            name, host, (member,), MODEL, "direct" if direct else "ssh", usual=USUAL, group="S0456"
        )
        policy = self.random.choice(["no", "always"])
        unit = UnitState("loaded", "active", "running", invocation=self._run(), restart_policy=policy)
        streams = self.random.random() < 0.5
        return Service(name, member, direct, streams, Watch(plan, self._engine), unit)

    def _run(self) -> InvocationId:
        return InvocationId(f"{next(self._runs):032x}")

    # ---- time ---------------------------------------------------------------------------------------------

    @property
    def clock(self) -> datetime:
        return BEGAN + timedelta(seconds=self.now)

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + seconds, next(self._order), do))

    def run(self) -> Account:
        for host in self.hosts:
            self.after(self.random.random() * EVERY, lambda host=host: self._round(host))  # type: ignore[misc]
            self.after(self._gap(1800, 3 * 3600), lambda host=host: self._want(host))  # type: ignore[misc]
            for service in host.services:
                self.after(self._gap(60, 3600), lambda h=host, s=service: self._strike(h, s))  # type: ignore[misc]
                self.after(
                    self.random.random() * SMOKE_EVERY,
                    lambda h=host, s=service: self._smoke_round(h, s),  # type: ignore[misc]
                )
        for _ in range(self.deaths):
            self.after(self._gap(0, self.end), self._die_and_resume)
        while self._heap:
            self.now, _, do = heapq.heappop(self._heap)
            if self.now > self.end + 7200:
                break
            do()
        return self._judge()

    def _die_and_resume(self) -> None:
        """The process dies and the next one takes up what is on record."""
        for host in self.hosts:
            state = _HOST.validate_json(self.saved[host.name]) if host.name in self.saved else None
            host.watch = HostWatch(host.watch.plan, state)
            for service in host.services:
                kept = _WATCH.validate_json(self.saved[service.name]) if service.name in self.saved else None
                service.watch = Watch(service.watch.plan, self._engine, kept)
        for name, (incident, subject) in list(self.incidents.items()):
            if not incident.is_closed:
                state_of = _INCIDENT.validate_json(_INCIDENT.dump_json(incident.state))
                self.incidents[name] = Incident(incident.plan, self._engine, state_of), subject
                self._carry(self.incidents[name][0], list(self.incidents[name][0].resume(self.clock)))

    def _gap(self, least: float, most: float) -> float:
        return self.random.uniform(least, most)

    # ---- rounds -------------------------------------------------------------------------------------------

    def _round(self, host: Host) -> None:
        seen = host.up and host.ssh
        answering = tuple(
            each.name for each in host.services if each.direct and host.up and each.serving and not each.hung
        )
        refusing = tuple(
            each.name
            for each in host.services
            if each.direct and host.up and not each.serving and not each.hung
        )
        known = {*answering, *refusing}
        silent = tuple(each.name for each in host.services if each.direct and each.name not in known)
        barred = "SSH is refused (connection refused)" if host.up and host.refuses else None
        told = HostChecked(None if seen else "connection timed out", answering, silent, barred, refusing)
        self._obey_host(host, host.watch.handle(told, self.clock))
        for service in host.services:
            self._check(host, service, seen=seen)
        if self.now < self.end + 5400:
            self.after(EVERY, lambda: self._round(host))

    def _check(self, host: Host, service: Service, *, seen: bool) -> None:
        self.account.checks += 1
        probe = self._probe(host, service)
        units: dict[Member, UnitState | str] = {service.member: service.unit if seen else "timed out"}
        checked = Checked(
            probe,
            units,
            inside=probe if service.direct and seen and probe is not GOOD else None,
            boots={service.member: f"boot-{host.boot}"} if seen else {},
            operation=service.operation,
            sight=host.watch.sight,
        )
        self._tell(host, service, checked)

    def _probe(self, host: Host, service: Service) -> ProbeAnswer | None:
        if not service.direct and not (host.up and host.ssh):
            return None
        if not host.up:
            return GONE
        if service.unit.active != "active" or not service.serving:
            return REFUSED
        return BUSY if service.hung else GOOD

    def _smoke_round(self, host: Host, service: Service) -> None:
        self._smoke(host, service)
        if self.now < self.end + 5400:
            self.after(SMOKE_EVERY, lambda: self._smoke_round(host, service))

    def _smoke(self, host: Host, service: Service) -> None:
        """No completion is asked for where the probe fails already."""
        if self._probe(host, service) is GOOD:
            self._tell(host, service, SmokeChecked(service.smoke))

    # ---- the carriers -------------------------------------------------------------------------------------

    def _tell(self, host: Host, service: Service, event: WatchEvent) -> None:
        ordered = service.watch.handle(event, self.clock)
        if self.deaths and service.watch.dirty:
            self.saved[service.name] = _WATCH.dump_json(service.watch.state)
        for action in ordered:
            self._obey(host, service, action)

    def _obey(self, host: Host, service: Service, action: WatchAction) -> None:
        match action:
            case OpenIncident() | TellIncident():
                self._take_incident(service.name, action)
            case WatchStart():
                self._note(service.name, str(action.how))
                self._begin(host, service, Verb.WATCH, None)
            case TellStopped():
                self._note(service.name, "stopped")
            case CheckSmoke():
                self.after(1.0, lambda: self._smoke(host, service))

    def _obey_host(self, host: Host, actions: list[HostAction]) -> None:
        if self.deaths and host.watch.dirty:
            self.saved[host.name] = _HOST.dump_json(host.watch.state)
        for action in actions:
            self._take_incident(host.name, action)

    def _take_incident(self, subject: str, action: OpenIncident | TellIncident) -> None:
        if isinstance(action, OpenIncident):
            self.account.incidents += 1
            incident = Incident(action.plan, self._engine)
            self.incidents[action.plan.incident] = incident, subject
            self._carry(incident, incident.begin(self.clock))
            self._note(subject, _what(action.plan.severity, subject))
            return
        incident, _ = self.incidents[action.incident]
        event = action.event
        self._carry(incident, incident.handle(event, self.clock))
        if isinstance(event, DownAgain | Worsened):
            self._note(subject, _what(event.severity, subject), again=True)
        elif isinstance(event, Recovered | ServiceStopped):
            self._note_end(subject)

    def _carry(self, incident: Incident, actions: Sequence[IncidentAction]) -> None:
        for action in actions:
            if isinstance(action, PostIncidentReply) and action.broadcast:
                self.loud[incident.plan.incident] += 1
            elif isinstance(action, ReadRunLog):
                told = RunLogRead(action.member, action.invocation, ())
                self._carry(incident, list(incident.handle(told, self.clock)))

    def _begin(self, host: Host, service: Service, verb: Verb, by: UserId | None) -> None:
        if service.operation is not None:
            return
        service.operation = OperationId(f"op-{next(self._operations)}")
        service.verb, service.by, service.since = verb, by, self.now
        self._tell(host, service, OperationUnderWay(service.operation, verb, by))

    def _finish(self, host: Host, service: Service, verdict: Verdict) -> None:
        operation, service.operation = service.operation, None
        if operation is None:
            return
        took = timedelta(seconds=self.now - service.since)
        self._tell(host, service, OperationEnded(operation, service.verb, verdict, took, service.by))

    # ---- what happens to a unit ---------------------------------------------------------------------------

    def _line(self, host: Host, service: Service, text: str) -> None:
        if service.streams and host.up and host.ssh:
            line = LogLine(
                text,
                text,
                at=self.clock,
                origin=Origin.MANAGER,
                invocation=service.unit.invocation,
                boot=f"boot-{host.boot}",
            )
            self._tell(host, service, UnitLine(service.member, line))

    def _die(self, host: Host, service: Service, *, again: float | None) -> None:
        """`again`: after so many seconds systemd starts it anew."""
        service.serving = service.hung = False
        active, sub = ("failed", "failed") if again is None else ("activating", "auto-restart")
        died = replace(service.unit, result="signal", exec_code=2, exec_status=11)
        service.unit = replace(died, active=active, sub=sub)
        self._line(host, service, "u.service: Main process exited, code=killed, status=11/SEGV")
        self._line(host, service, "u.service: Failed with result 'signal'.")
        if service.operation is not None:
            self._finish(host, service, Verdict.FAILED)

    def _rise(self, host: Host, service: Service, loads: float, *, by_systemd: bool = False) -> None:
        """A new run, which serves once it has loaded."""
        restarts = service.unit.restarts + 1 if by_systemd else 0
        if by_systemd:
            self._line(host, service, f"u.service: Scheduled restart job, restart counter is at {restarts}.")
        service.smoke, service.hung, service.serving = WELL, False, False
        service.unit = replace(
            service.unit,
            active="active",
            sub="running",
            result="success",
            exec_code=0,
            exec_status=0,
            restarts=restarts,
            invocation=self._run(),
            active_since=self.clock,
        )
        run = service.unit.invocation
        self._line(host, service, "Started u.service - U.")
        self.after(loads, lambda: self._ready(host, service, run))

    def _ready(self, host: Host, service: Service, run: InvocationId | None) -> None:
        if service.unit.invocation != run or service.unit.active != "active" or not host.up:
            return
        service.serving = True
        self.after(30, lambda: self._prove(host, service, run))

    def _prove(self, host: Host, service: Service, run: InvocationId | None) -> None:
        """`stable_for` is over."""
        if service.unit.invocation == run and service.serving:
            self._finish(host, service, Verdict.HEALTHY)

    def _stop(self, host: Host, service: Service) -> None:
        self._line(host, service, "Stopping u.service - U...")
        service.serving = service.hung = False
        if (
            service.streams and self.random.random() < 0.3
        ):  # an engine that kills itself when it is told to end
            died = replace(service.unit, result="signal", exec_code=2, exec_status=9)
            service.unit = replace(died, active="failed", sub="failed")
            self._line(host, service, "u.service: Main process exited, code=killed, status=9/KILL")
            self._line(host, service, "u.service: Failed with result 'signal'.")
        else:
            service.unit = replace(service.unit, active="inactive", sub="dead", result="success", exec_code=1)
        self._line(host, service, "Stopped u.service - U.")

    def _chat_restart(self, host: Host, service: Service, loads: float) -> None:
        self._begin(host, service, Verb.RESTART, SOMEBODY)
        self._stop(host, service)
        self.after(3, lambda: self._rise(host, service, loads))

    # ---- faults of a service ------------------------------------------------------------------------------

    def _strike(self, host: Host, service: Service) -> None:
        if self.now > self.end:
            return
        if host.wanted or service.busy or service.operation is not None:
            self.after(self._gap(60, 600), lambda: self._strike(host, service))
            return
        faults = _ALWAYS if service.unit.restart_policy == "always" else _NEVER
        name = self.random.choice(faults)
        self.account.faults[name] += 1
        service.busy = True
        getattr(self, f"_fault_{name}")(host, service)

    def _settle(self, host: Host, service: Service, seconds: float) -> None:
        """It is over by then; the next one comes some time after that."""
        self.after(seconds, lambda: self._settled(host, service))

    def _settled(self, host: Host, service: Service) -> None:
        service.busy = False
        self.after(self._gap(60, 2 * 3600), lambda: self._strike(host, service))

    def _expect(
        self, subject: str, what: str, fault: str, within: float, *, until: float | None = None
    ) -> Truth:
        truth = Truth(subject, what, fault, self.now, within, until if until is None else self.now + until)
        self.truths.append(truth)
        self.account.truths[what] += 1
        return truth

    def _fault_crash(self, host: Host, service: Service) -> None:
        """Nobody starts it again but a person, in chat."""
        found, loads = self._gap(120, 1200), self._gap(60, 400)
        self._expect(service.name, "down", "crash", AT_ONCE, until=found + 3 + loads)
        self._die(host, service, again=None)
        self.after(found, lambda: self._chat_restart(host, service, loads))
        self._settle(host, service, found + loads + 200)

    def _fault_crash_mended(self, host: Host, service: Service) -> None:
        loads = self._gap(60, 400)
        self._expect(service.name, "down", "crash_mended", AT_ONCE, until=5 + loads)
        self._expect(service.name, "systemd", "crash_mended", 5 + AT_ONCE)
        self._die(host, service, again=5)
        self.after(5, lambda: self._rise(host, service, loads, by_systemd=True))
        self._settle(host, service, loads + 200)

    def _fault_loop(self, host: Host, service: Service) -> None:
        """Some starts die while loading, then one comes through or a person ends it."""
        attempts, lives, loads = self.random.randint(2, 9), self._gap(30, 150), self._gap(200, 300)
        lasts = attempts * (5 + lives) + 5 + loads
        self._expect(service.name, "down", "loop", AT_ONCE, until=lasts)
        first = self._expect(service.name, "systemd", "loop", 5 + AT_ONCE, until=lasts)
        first.often = True  # the one that comes through may be followed too
        self._die(host, service, again=5)
        for number in range(attempts):
            begins = number * (5 + lives) + 5
            self.after(begins, lambda: self._rise(host, service, 1e9, by_systemd=True))
            self.after(begins + lives, lambda: self._die(host, service, again=5))
        self.after(lasts - loads, lambda: self._rise(host, service, loads, by_systemd=True))
        self._settle(host, service, lasts + 400)

    def _fault_hang(self, host: Host, service: Service) -> None:
        lasts = self._gap(90, 1200)
        self._expect(service.name, "down", "hang", SOON, until=lasts)
        service.hung = True
        self.after(lasts, lambda: self._unhang(service))
        self._settle(host, service, lasts + 700)

    def _unhang(self, service: Service) -> None:
        service.hung = False

    def _fault_blip(self, host: Host, service: Service) -> None:
        """Two checks at most: no outage."""
        service.hung = True
        self.after(self._gap(1, 2 * EVERY - 1), lambda: self._unhang(service))
        self._settle(host, service, 120)

    def _fault_flap(self, host: Host, service: Service) -> None:
        times, on, off = self.random.randint(2, 4), self._gap(70, 200), self._gap(90, 240)
        truth = self._expect(service.name, "down", "flap", SOON, until=times * (on + off) - off)
        truth.often = True
        for number in range(times):
            self.after(number * (on + off), lambda: setattr(service, "hung", True))
            self.after(number * (on + off) + on, lambda: self._unhang(service))
        self._settle(host, service, times * (on + off) + 700)

    def _fault_dead_answers(self, host: Host, service: Service) -> None:
        """`/health` says 200 and no completion comes."""
        found, loads = self._gap(SMOKE_EVERY + 60, 2 * SMOKE_EVERY), self._gap(60, 400)
        self._expect(service.name, "down", "dead_answers", SMOKE_EVERY + 5, until=found + 3 + loads)
        service.smoke = DEAD
        self.after(found, lambda: self._chat_restart(host, service, loads))
        self._settle(host, service, found + loads + 700)

    def _fault_slow(self, host: Host, service: Service) -> None:
        lasts = self._gap(SMOKE_EVERY + 60, 3 * SMOKE_EVERY)
        until = lasts + SMOKE_EVERY + 900
        self._expect(service.name, "degraded", "slow", SMOKE_EVERY + 5, until=until)
        service.smoke = SLOW
        self.after(lasts, lambda: setattr(service, "smoke", WELL))
        self._settle(host, service, until + 60)

    def _fault_terminal_restart(self, host: Host, service: Service) -> None:
        loads = self._gap(20, 400)
        self._expect(service.name, "outside", "terminal_restart", 3 + AT_ONCE)
        self._stop(host, service)
        self.after(3, lambda: self._rise(host, service, loads))
        self._settle(host, service, loads + 200)

    def _fault_terminal_stop(self, host: Host, service: Service) -> None:
        away, loads = self._gap(300, 3000), self._gap(60, 400)
        self._expect(service.name, "stopped", "terminal_stop", 30 + 2 * EVERY + 2)
        self._stop(host, service)
        self.after(away, lambda: self._start_outside(host, service, loads))
        self._settle(host, service, away + loads + 200)

    def _start_outside(self, host: Host, service: Service, loads: float) -> None:
        self._expect(service.name, "outside", "terminal_stop", AT_ONCE)
        self._rise(host, service, loads)

    def _fault_chat_restart(self, host: Host, service: Service) -> None:
        loads = self._gap(60, 900)
        self._chat_restart(host, service, loads)
        self._settle(host, service, loads + 200)

    def _fault_chat_stop(self, host: Host, service: Service) -> None:
        away, loads = self._gap(300, 3000), self._gap(60, 400)
        self._begin(host, service, Verb.STOP, SOMEBODY)
        self._stop(host, service)
        self.after(6, lambda: self._finish(host, service, Verdict.STOPPED))
        self.after(away, lambda: self._begin(host, service, Verb.START, SOMEBODY))
        self.after(away + 1, lambda: self._rise(host, service, loads))
        self._settle(host, service, away + loads + 200)

    def _fault_chat_restart_fails(self, host: Host, service: Service) -> None:
        """Told in its own thread; a person tries again."""
        dies, found, loads = self._gap(20, 200), self._gap(100, 600), self._gap(60, 400)
        self._chat_restart(host, service, 1e9)
        self.after(3 + dies, lambda: self._die(host, service, again=None))
        self.after(3 + dies + found, lambda: self._chat_restart(host, service, loads))
        self._settle(host, service, dies + found + loads + 200)

    # ---- faults of a host ---------------------------------------------------------------------------------

    def _want(self, host: Host) -> None:
        if self.now > self.end:
            return
        host.wanted = True
        if any(each.busy or each.operation is not None for each in host.services):
            self.after(10, lambda: self._want(host))
            return
        name = self.random.choice(["off", "off", "ssh", "ssh_blip", "refuses"])
        self.account.faults[f"host_{name}"] += 1
        lasts = getattr(self, f"_host_{name}")(host)
        self.after(lasts, lambda: setattr(host, "wanted", False))
        self.after(lasts + self._gap(1800, 3 * 3600), lambda: self._want(host))

    def _host_off(self, host: Host) -> float:
        away = self._gap(90, 900)
        self._expect(host.name, "host", "off", SOON, until=away)
        host.up = False
        for service in host.services:
            service.serving = False
        self.after(away, lambda: self._wake(host))
        return away + 700

    def _wake(self, host: Host) -> None:
        """Its kernel answers before its sshd and its services do."""
        host.up, host.ssh, host.refuses = True, False, True
        self.after(self._gap(0, 2 * EVERY - 1), lambda: self._boot(host))

    def _boot(self, host: Host) -> None:
        host.ssh, host.refuses, host.boot = True, False, host.boot + 1
        for service in host.services:
            if service.unit.active != "active":
                continue
            service.unit = replace(service.unit, active="inactive", sub="dead", job=7)
            loads, delay = self._gap(60, 400), self._gap(1, 20)
            self._expect(service.name, "boot", "off", delay + AT_ONCE)
            self.after(delay, lambda s=service, lo=loads: self._come_up(host, s, lo))  # type: ignore[misc]

    def _come_up(self, host: Host, service: Service, loads: float) -> None:
        service.unit = replace(service.unit, job=None)
        self._rise(host, service, loads)

    def _host_ssh(self, host: Host) -> float:
        lasts = self._gap(90, 900)
        half = any(each.direct for each in host.services)
        self._expect(host.name, "half" if half else "host", "ssh", SOON, until=lasts)
        host.ssh = False
        self.after(lasts, lambda: setattr(host, "ssh", True))
        return lasts + 120

    def _host_refuses(self, host: Host) -> float:
        """Its services go on, out of sight but for those that are reached past SSH."""
        lasts = self._gap(90, 900)
        half = any(each.direct for each in host.services)
        self._expect(host.name, "half" if half else "host", "refuses", SOON, until=lasts)
        host.ssh, host.refuses = False, True

        def let_in() -> None:
            host.ssh, host.refuses = True, False

        self.after(lasts, let_in)
        return lasts + 120

    def _host_ssh_blip(self, host: Host) -> float:
        lasts = self._gap(1, 2 * EVERY - 1)
        host.ssh = False
        self.after(lasts, lambda: setattr(host, "ssh", True))
        return lasts + 120

    # ---- judgement ----------------------------------------------------------------------------------------

    def _note(self, subject: str, what: str, *, again: bool = False) -> None:
        """Something was told: to which of the things that are to be told does it belong?"""
        said = f"{what} of {subject} at {self.now:.0f}"
        fitting = [each for each in self.truths if each.subject == subject and each.what == what]
        truth = next((each for each in reversed(fitting) if each.began <= self.now), None)
        if truth is None or (truth.until is not None and self.now > truth.until + SOON):
            self.account.false.append(said)
            return
        truth.told += 1
        if truth.told > 1:
            if not (truth.often and (again or what == "systemd")):
                self.account.double.append(f"{said} ({truth.fault})")
            return
        waited = self.now - truth.began
        if waited > truth.within + (SOON if self.deaths else 0):
            self.account.late.append(f"{said}: after {waited:.0f}s ({truth.fault})")
        if truth.within <= SOON and not self.deaths:
            self.account.slowest = max(self.account.slowest, waited)

    def _note_end(self, subject: str) -> None:
        """It is told to be over: not before it is, and soon after."""
        kinds = {"down", "degraded", "host", "half"}
        truth = next((t for t in reversed(self.truths) if t.subject == subject and t.what in kinds), None)
        if truth is None or truth.until is None:
            self.account.false.append(f"end of {subject} at {self.now:.0f}")
            return
        # Whoever takes over counts anew, and what went down over and over must serve for minutes.
        least, most = truth.until, truth.until + (700 if not self.deaths else 3000)
        if truth.often or truth.what == "degraded":
            least = truth.began
        if not least <= self.now <= most:
            self.account.unended.append(
                f"{subject} ({truth.fault}): told over at {self.now:.0f}, was at {truth.until:.0f}"
            )

    def _judge(self) -> Account:
        account = self.account
        account.missed = [
            f"{each.what} of {each.subject} at {each.began:.0f} ({each.fault})"
            for each in self.truths
            if not each.told
        ]
        for host in self.hosts:
            watches = [(host.name, host.watch.state.severity)]
            watches += [(each.name, each.watch.state.severity) for each in host.services]  # type: ignore[misc]
            account.unended += [f"{name} is still {left}" for name, left in watches if left is not None]
        for incident, _ in self.incidents.values():
            incident.handle(Ticked(), self.clock)
            ended = incident.state.ending is not None
            account.unended += [] if ended else [f"incident of {incident.plan.subject} is open"]
        account.loudest = 1 + max(self.loud.values(), default=0)
        return account


def _what(severity: Severity, subject: str) -> str:
    if severity is Severity.DEGRADED and subject.count("-") == 1:
        return "half"
    return str(severity)


_COMMON = [
    "hang",
    "blip",
    "flap",
    "dead_answers",
    "slow",
    "terminal_restart",
    "terminal_stop",
    "chat_restart",
    "chat_stop",
]
_NEVER = [*_COMMON, "crash", "crash", "chat_restart_fails"]
_ALWAYS = [*_COMMON, "crash_mended", "crash_mended", "loop"]


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else 20260529
    sys.stdout.write(f"{number} services, 8 hours, seed {chosen}: {Night(number, seed=chosen).run()}\n")
