"""Not well though it serves: told once, never paged, over by itself; and a dead engine that answers 200."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.core.baseline import Usual
from bot.core.events import Origin, SmokeResult
from bot.core.incident import Incident
from bot.core.incident_events import Recovered, SignSeen, Worsened
from bot.core.incident_export import render_export
from bot.core.incident_state import Severity, SignKind
from bot.core.monitor_degraded import CALM
from bot.core.monitor_events import CheckSmoke, LoadSeen, OpenIncident, SmokeChecked
from bot.core.monitor_state import WatchStanding
from bot.core.smoke import FIRST_TOKEN, RATE
from bot.core.words import spell_duration
from config.engine_file import load_engine
from tests.support.watches import BUSY, FAILED, GOOD, REFUSED, Room, make_plan

USUAL = Usual(speeds={FIRST_TOKEN: (0.3,), RATE: (90.0,)})
FULL = "[2026-05-29 23:49:47 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 1"
XID = "NVRM: Xid (PCI:0000:4e:00): 63, pid=7, Row Remapper"
SOFT = "[2026-05-29 23:49:47] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)"
GOOD_SMOKE = SmokeResult(passed=True, first_token=0.31, tokens_per_second=84.0)
DEAD_SMOKE = SmokeResult(passed=False, error="no token came within 2m.")


def _serving() -> Room:
    room = Room(make_plan(usual=USUAL))
    room.serve()
    return room


def _smoke(room: Room, result: SmokeResult) -> None:
    room.pass_time(1)
    room.tell(SmokeChecked(result))


def test_a_completion_that_fails_twice_is_an_outage_though_health_says_200() -> None:
    room = _serving()
    _smoke(room, DEAD_SMOKE)
    assert room.actions == [CheckSmoke()]
    first = room.now
    _smoke(room, DEAD_SMOKE)
    (opened,) = room.ordered(OpenIncident)
    assert opened.plan.severity is Severity.DOWN
    assert opened.plan.signs[0].sentence == "a completion fails: no token came within 2m"
    assert opened.plan.began == first
    room.look(20)
    assert room.told(Recovered) == []  # /health alone does not end it
    assert 2 <= len(room.ordered(CheckSmoke)) <= 10
    _smoke(room, GOOD_SMOKE)
    room.look(2)
    assert len(room.told(Recovered)) == 1


def test_a_completion_that_fails_once_is_none() -> None:
    room = _serving()
    for _ in range(10):
        _smoke(room, DEAD_SMOKE)
        _smoke(room, GOOD_SMOKE)
    assert room.ordered(OpenIncident) == []


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (SmokeResult(passed=True, first_token=4.0), "the first token takes 4.0s (usual 0.3s)"),
        (SmokeResult(passed=True, tokens_per_second=12.0), "12 tokens/s (usual 90)"),
    ],
)
def test_far_off_the_usual_twice_is_degraded(result: SmokeResult, told: str) -> None:
    room = _serving()
    _smoke(room, result)
    assert room.actions == [CheckSmoke()]
    _smoke(room, result)
    (opened,) = room.ordered(OpenIncident)
    assert opened.plan.severity is Severity.DEGRADED
    assert opened.plan.signs[0].sentence == told
    room.look(400)
    assert room.told(Recovered) == []  # nothing has shown that it is fast again
    _smoke(room, GOOD_SMOKE)
    room.look()
    assert len(room.told(Recovered)) == 1


def test_a_first_token_that_takes_three_times_nothing_is_not_slow() -> None:
    room = _serving()
    for _ in range(5):
        _smoke(room, SmokeResult(passed=True, first_token=1.0, tokens_per_second=31.0))
    assert room.actions == []


def test_a_queue_that_grows_and_grows() -> None:
    room = _serving()
    for waiting in (0, 3, 9, 20, 40):
        room.tell(LoadSeen(waiting, 8))
    (opened,) = room.ordered(OpenIncident)
    assert opened.plan.signs[0].sentence == "requests pile up: 40 wait, 0 did 4 looks before; 8 run"


def test_a_cache_without_room_while_requests_wait() -> None:
    room = _serving()
    for _ in range(5):
        room.tell(LoadSeen(3, 8, 0.995))
        room.tell(LoadSeen(0, 8, 0.995))
    assert room.actions == []
    for _ in range(5):
        room.tell(LoadSeen(3, 8, 0.995))
    (opened,) = room.ordered(OpenIncident)
    assert opened.plan.signs[0].sentence == "the KV cache is full (100%) with 3 requests waiting"


@pytest.mark.parametrize("waiting", [(40, 40, 41, 42, 43), (0, 1, 2, 3, 4), (50, 40, 60, 70, 80)])
def test_a_queue_that_does_not(waiting: tuple[int, ...]) -> None:
    room = _serving()
    for each in waiting:
        room.tell(LoadSeen(each, 8))
    assert room.actions == []


def test_a_cache_that_is_full_again_and_again() -> None:
    room = _serving()
    room.say(FULL)
    room.pass_time(600)
    room.say(FULL)
    room.say(FULL)
    assert room.actions == []
    room.say(FULL)
    (opened,) = room.ordered(OpenIncident)
    assert opened.plan.signs[0].kind is SignKind.MEMORY


def test_each_kind_is_told_once_and_it_ends_by_itself() -> None:
    room = _serving()
    for _ in range(20):
        room.say(SOFT)
        room.say(XID, origin=Origin.KERNEL)
        room.look()
    last = room.now - room.plan.every
    assert len(room.ordered(OpenIncident)) == 1
    assert [each.sign.kind for each in room.told(SignSeen)] == [SignKind.GPU]
    room.look(int(CALM / room.plan.every) + 1)
    assert room.told(Recovered) == [Recovered(last)]
    assert room.watch.state.severity is None


def test_degraded_and_then_down_is_one_incident() -> None:
    room = _serving()
    room.say(XID, origin=Origin.KERNEL)
    room.unit, room.probe = FAILED, REFUSED
    room.look()
    assert len(room.ordered(OpenIncident)) == 1
    (worse,) = room.told(Worsened)
    assert worse.severity is Severity.DOWN
    assert room.watch.state.severity is Severity.DOWN


def test_amid_an_outage_it_goes_into_that() -> None:
    room = _serving()
    room.unit, room.probe = FAILED, REFUSED
    room.look()
    for _ in range(3):
        room.say(XID, origin=Origin.KERNEL)
    assert [each.sign.kind for each in room.told(SignSeen)] == [SignKind.GPU]


def test_degraded_again_soon_is_the_same_thread() -> None:
    room = _serving()
    room.say(SOFT)
    room.look(int(CALM / room.plan.every) + 2)
    room.say(SOFT)
    assert len(room.ordered(OpenIncident)) == 1


def test_of_a_service_that_loads_nothing_is_told() -> None:
    room = Room(probe=REFUSED)
    room.look(3)
    room.say(SOFT)
    _smoke(room, DEAD_SMOKE)
    _smoke(room, DEAD_SMOKE)
    assert room.ordered(OpenIncident) == []
    assert room.stands() is not WatchStanding.DOWN
    assert timedelta(minutes=15) == CALM


def test_what_went_down_by_a_sign_before_it_was_degraded_is_as_old_as_that_sign() -> None:
    room = _serving()
    room.probe = BUSY
    room.look()
    first = room.now
    room.pass_time(1)
    for waiting in range(20, 120, 20):
        room.tell(LoadSeen(waiting, 8))
    (opened,) = room.ordered(OpenIncident)
    assert (opened.plan.severity, opened.plan.began) == (Severity.DEGRADED, room.now)
    room.look(2)
    (worse,) = room.told(Worsened)
    incident = Incident(opened.plan, load_engine("sglang"))
    incident.begin(opened.plan.opened)
    incident.handle(worse, room.now)
    view = incident.view(room.now)
    assert view.downtime == room.now - first == room.now - view.began
    assert "| First sign | 2026-05-29 03:00:45 |" in render_export(incident.plan, incident.state, room.now)
    incident.handle(Recovered(room.now), room.now)
    assert incident.state.timeline[-1].sentence.startswith(f"resolved after {spell_duration(view.downtime)}")
    assert worse.last_healthy == view.last_healthy == first - room.plan.every


@pytest.mark.parametrize(("bad", "good", "told"), [(2, 1, 1), (1, 1, 1), (1, 2, 1), (1, 5, 0)])
def test_checks_that_fail_over_and_over_and_never_in_a_row_are_degraded(
    bad: int, good: int, told: int
) -> None:
    room = _serving()
    for _ in range(60):
        room.probe = BUSY
        room.look(bad)
        room.probe = GOOD
        room.look(good)
    assert len(room.ordered(OpenIncident)) == told
    assert room.told(SignSeen) == []
    for opened in room.ordered(OpenIncident):
        assert opened.plan.severity is Severity.DEGRADED
        assert opened.plan.signs[0].sentence == (
            "7 checks went wrong within 5m, though not in a row: /health answers 503"
        )
    room.look(int(CALM / room.plan.every) + 2)
    assert len(room.told(Recovered)) == told


def test_checks_that_fail_for_long_at_last_are_an_outage_and_nothing_before() -> None:
    room = Room(make_plan(failures=20))
    room.serve()
    room.probe = BUSY
    room.look(20)
    (opened,) = room.ordered(OpenIncident)
    assert opened.plan.severity is Severity.DOWN


@pytest.mark.parametrize("down", [False, True])
def test_completions_that_are_turned_away_are_degraded_and_end_no_outage(down: bool) -> None:
    room = _serving()
    busy = SmokeResult(passed=False, error="the engine answered HTTP 429: too many requests", busy=True)
    for _ in range(2 * down):
        _smoke(room, DEAD_SMOKE)
    for _ in range(3):
        _smoke(room, busy)
        room.look()
    (opened,) = room.ordered(OpenIncident)
    if down:
        assert opened.plan.severity is Severity.DOWN
        assert room.told(Recovered) == []
        return
    assert opened.plan.severity is Severity.DEGRADED
    assert opened.plan.signs[0].sentence == (
        "completions are turned away: the engine answered HTTP 429: too many requests"
    )
