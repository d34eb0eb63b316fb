"""The watch over one service between startups, as a pure state machine: facts and `now` in, orders out.

How it works
============

    unknown ──► serving ──► suspect ──► down ──► serving
                   │  ▲                  ▲
                   │  └── starting ◄─────┤
                   └────► stopped        └ what proves it at once

* **A round.** `Checked` brings what systemd says of each unit and what the engine answers. A good one: every
  unit active under the run that was seen before, `/health` 200, the model in its list. `successes` of them in
  a row make a service that was down serve again, `failures` in a row of the other kind make an outage of one
  that served. See `monitor_outage`.
* **Proof.** A unit that failed, a main process that ended, a line that says what the engine does not survive:
  down at once. Each run ends once, whoever tells it first. See `monitor_units` and `monitor_lines`.
* **Not seeing is not down.** A host that SSH does not reach tells nothing of its services; whether it is gone
  as a whole is for its own watch, in `monitor_host`, which makes one incident of it. A probe that fails past
  SSH is an outage only if the host itself gets no answer either.
* **Only what served can be lost.** Since the watch began, or since someone stopped it, a service has to serve
  once before its end is an outage. So nothing is told of services that are down or loading when kimi starts.
* **Stopped is not down.** Inactive for half a minute, with nobody's crash before it: told once. Amid a
  restart, or on a host that is going down, it passes sooner.
* **Planned work.** While an operation of ours has the service, its own thread tells everything; the watch
  only takes note of runs. Its verdict counts as proof. See `monitor_starts`, where startups that nobody in
  chat asked for are handed over to be followed.
* **Crash loop.** The first start that systemd makes is followed; those behind it are attempts that the
  incident counts.
* **Degraded.** See `monitor_degraded`: told, never paged.
* **Mute.** Opens nothing. What is still down when the mute ends is told then.

The state is plain data. What must survive the process is what `kept` names: counts of checks may be lost, and
then they begin anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from bot.core.events import ServiceName, Ticked, UnitState
from bot.core.incident_events import IncidentUnmuted
from bot.core.incident_state import Sign, SignKind
from bot.core.monitor_degraded import (
    ail,
    check_calm,
    is_mute,
    note_missed,
    take_ailing,
    take_load,
    take_smoke,
)
from bot.core.monitor_events import (
    Checked,
    IncidentClosed,
    IncidentFound,
    LoadSeen,
    Muted,
    OperationEnded,
    OperationUnderWay,
    SmokeChecked,
    UnitLine,
    Unmuted,
    WatchAction,
    WatchEvent,
)
from bot.core.monitor_mutes import end_mutes, take_mute
from bot.core.monitor_outage import (
    doubt_of,
    note_inactive,
    open_if_due,
    serve,
    suspect,
    take_closed,
    take_found,
    tell,
)
from bot.core.monitor_starts import (
    check_limit,
    follow_further,
    reconcile,
    take_began,
    take_died,
    take_operation,
    take_verdict,
)
from bot.core.monitor_state import WatchPlan, WatchStanding, WatchState, kept
from bot.core.monitor_turn import WatchTurn
from bot.core.monitor_units import Ails, RunBegan, RunDied, RunStopped, read_line, read_state
from bot.core.startup_scene import host_of
from bot.core.times import bring_back

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.monitor_units import UnitFact
    from config.engine_file import EngineFile


class Watch:
    """The machine. The carrier feeds it facts, carries out what it orders, and saves `state` when `dirty`."""

    def __init__(self, plan: WatchPlan, engine: EngineFile, state: WatchState | None = None) -> None:
        self._turn = WatchTurn(plan, engine, state or WatchState())
        self._kept = kept(self.state)
        self._begun = False
        self.dirty = False  # what must survive has changed in the last event

    @property
    def plan(self) -> WatchPlan:
        return self._turn.plan

    @property
    def state(self) -> WatchState:
        return self._turn.state

    @property
    def service(self) -> ServiceName:
        return self.plan.service

    def handle(self, event: WatchEvent, now: datetime) -> list[WatchAction]:
        if not self._begun:  # whoever wrote the state may have a clock that is ahead
            self._begun = True
            bring_back(self.state, now)
        if type(event) is Checked and self._is_quiet(event):
            self.state.goods += 1
            self.state.last_healthy = now
            self.dirty = False
            return []
        turn = self._turn
        turn.open()
        self._take(event, now)
        self._look_again(now)
        before, self._kept = self._kept, kept(self.state)
        self.dirty = before != self._kept
        return turn.close()

    def _is_quiet(self, event: Checked) -> bool:
        """A service that serves as it did a round ago: most of all rounds, told with a few looks."""
        state = self.state
        if state.standing is not WatchStanding.SERVING or state.severity is not None or state.fails:
            return False
        if state.operation is not None or state.mute is not None or state.cut or state.stopped is not None:
            return False
        for name, member in state.members.items():
            unit = event.units.get(name)
            if not isinstance(unit, UnitState) or member.unseen is not None or unit.active != "active":
                return False
            if (
                unit.invocation != member.invocation
                or unit.restarts != member.restarts
                or unit.job is not None
            ):
                return False
            if event.boots.get(name, member.boot) != member.boot or unit.restart_policy != member.policy:
                return False
        return doubt_of(self._turn, event.probe) is None

    def _take(self, event: WatchEvent, now: datetime) -> None:
        turn = self._turn
        match event:
            case Checked():
                self._check(event, now)
            case UnitLine() if event.member in self.state.members:
                self._take_facts(read_line(turn, event.member, event.line, now), now)
            case UnitLine():
                pass  # of a member that is configured no more
            case SmokeChecked():
                take_smoke(turn, event.result, now)
            case LoadSeen():
                take_load(turn, event, now)
            case OperationUnderWay():
                take_operation(turn, event, now)
            case OperationEnded():
                take_verdict(turn, event, now)
            case Muted() | Unmuted() | IncidentClosed() | IncidentFound():
                self._take_word(event, now)
            case Ticked():
                pass
            case _:
                assert_never(event)

    def _take_word(self, event: Muted | Unmuted | IncidentClosed | IncidentFound, now: datetime) -> None:
        """What a person said, or who found an incident."""
        match event:
            case Muted() | Unmuted():
                told = take_mute(self._turn.state, event, now)
                if told is not None and self._turn.state.severity is not None:
                    tell(self._turn, told)
            case IncidentClosed():
                take_closed(self._turn, event)
            case IncidentFound():
                take_found(self._turn, event, now)
            case _:
                assert_never(event)

    # ---- a round ------------------------------------------------------------------------------------------

    def _check(self, event: Checked, now: datetime) -> None:
        turn, state = self._turn, self.state
        reconcile(turn, event.operation, now)
        units = self._see(event, now)
        facts = [
            fact
            for name, unit in units.items()
            for fact in read_state(turn, name, unit, event.boots.get(name), now)
        ]
        self._take_facts(facts, now)
        if state.operation is not None:
            good = doubt_of(turn, event.probe) is None and bool(units) and _are_up(units)
            state.good_since = (state.good_since or now) if good else None
            return
        unseen = not any(host_of(name) == turn.plan.host for name in units)
        if unseen and event.probe is None:  # the host tells nothing, of which its own watch tells
            state.goods, state.good_since, state.fails = 0, None, 0
            return
        stopped = [fact for fact in facts if isinstance(fact, RunStopped)]
        if units and len(stopped) == len(turn.plan.members):
            note_inactive(turn, next((fact.sentence for fact in stopped if fact.sentence), ""), now)
            return
        if any(unit.active == "deactivating" for unit in units.values()):
            return  # how that ends, its end tells
        if any(unit.active != "active" for unit in units.values()) and not stopped:
            state.goods, state.good_since = 0, None
            return  # on its way, or awaited after a boot, or dead, which was told
        self._judge(event, stopped, now)

    def _see(self, event: Checked, now: datetime) -> dict[Any, UnitState]:
        """The units that can be seen; what is asked through a host that comes back is counted anew."""
        state = self.state
        units: dict[Any, UnitState] = {}
        for name, member in state.members.items():
            unit = event.units.get(name)
            if not isinstance(unit, UnitState):
                member.unseen = member.unseen or now
                continue
            if member.unseen is not None:
                member.unseen = None
                if self.plan.reach == "ssh" and host_of(name) == self.plan.host:
                    self._count_anew(now)
            units[name] = unit
        return units

    def _count_anew(self, now: datetime) -> None:
        state = self.state
        state.fails = 0
        if state.standing is WatchStanding.SUSPECT:
            state.signs = []
            self._turn.stand(WatchStanding.SERVING, now)

    def _judge(self, event: Checked, stopped: list[RunStopped], now: datetime) -> None:
        turn, state = self._turn, self.state
        doubt = f"{stopped[0].member} is inactive" if stopped else doubt_of(turn, event.probe)
        cut = doubt is not None and not stopped and event.inside is not None
        if cut and doubt_of(turn, event.inside) is None:
            self._note_cut(doubt or "", now)
            doubt = None
        else:
            state.cut = 0
        if doubt is None:
            if not is_mute(turn, now):
                serve(turn, now)
            return
        state.goods, state.good_since = 0, None
        if state.standing in {WatchStanding.SERVING, WatchStanding.SUSPECT}:
            suspect(turn, doubt, event.sight, now)
            note_missed(turn, doubt, event.sight, now)

    def _note_cut(self, doubt: str, now: datetime) -> None:
        """The host itself is answered: it is only kimi that is not."""
        self.state.cut += 1
        if self.state.cut >= self.plan.failures:
            told = f"kimi gets no answer from {self.plan.host} past SSH, though the host itself does"
            ail(self._turn, Sign(SignKind.SIGHT, now, told, evidence=(doubt,)), now)

    def _take_facts(self, facts: list[UnitFact], now: datetime) -> None:
        for fact in facts:
            match fact:
                case RunBegan():
                    take_began(self._turn, fact, now)
                case RunDied():
                    take_died(self._turn, fact, now)
                case Ails():
                    take_ailing(self._turn, fact.sign, now)
                case RunStopped():
                    pass  # of all members together
                case _:
                    assert_never(fact)

    def _look_again(self, now: datetime) -> None:
        """What waits for time."""
        turn, state = self._turn, self.state
        if state.mute is not None and now >= state.mute.until:
            end_mutes(state)
            if state.severity is not None:
                tell(turn, IncidentUnmuted())
        if state.operation is None:
            check_limit(turn, now)
            open_if_due(turn, now)
            follow_further(turn, now)
            check_calm(turn, now)


def _are_up(units: dict[Any, UnitState]) -> bool:
    return all(unit.active == "active" and unit.job is None for unit in units.values())
