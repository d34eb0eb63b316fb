"""The root of an incident says what a tired person needs, and never breaks Slack's limits."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.events import InvocationId, OperationId, PhaseId, ServiceName
from bot.core.incident_render import render_incident_root, render_stopped
from bot.core.incident_state import Attempt, Ending, RunRead, Severity, Sign, SignKind
from bot.core.monitor_events import TellStopped
from bot.core.words import Searched
from tests.support.incidents import BEGAN, BOB, MEMBER, SERVICE, Case, make_incident_plan
from tests.support.slack_messages import assert_sendable, kinds, shown

VIEW = replace(Case().view(), worst=None)
READ = RunRead("out of GPU memory", phase=PhaseId.WEIGHTS)
ATTEMPT = Attempt(4, MEMBER, InvocationId("b" * 32), BEGAN, timedelta(minutes=3), READ)


def _text(view: Any) -> str:
    return shown(render_incident_root(view))


def _buttons(view: Any) -> list[str]:
    return [each["action_id"] for each in render_incident_root(view).blocks[-1]["elements"]]


def test_a_service_that_is_down() -> None:
    told = _text(VIEW)
    assert (
        f"🔴 *kimi-k2.5* is *down* since <!date^{int(BEGAN.timestamp())}^{{time_secs}}|03:12:41 UTC>"
        " · host llm-two answers · process died by SIGSEGV · last good check"
    ) in told
    assert "systemd will not start it again (Restart=no)" in told
    assert "Nobody is on it yet" in told


def test_of_a_dead_engine_it_says_what_answers_all_the_same() -> None:
    dead = Sign(SignKind.SMOKE, BEGAN, "a completion fails: no answer", evidence=("/health answers 200",))
    told = _text(replace(VIEW, signs=(dead,), last_healthy=BEGAN))
    assert "a completion fails: no answer, though /health answers 200" in told
    assert "its process lives, so systemd does nothing by itself" in told
    assert "Restart=no" not in told
    assert "last good check" not in told


def test_a_crash_loop_counts() -> None:
    told = _text(replace(VIEW, attempts=4, last_attempt=ATTEMPT, restarts_itself=True))
    assert "attempt 4 died in weights after 3m: out of GPU memory; 4 attempts so far" in told
    assert "Restart=no" not in told


def test_a_host_that_is_gone_names_its_services() -> None:
    names = tuple(ServiceName(f"s{number}") for number in range(30))
    view = replace(VIEW, severity=Severity.HOST, service=None, subject="llm-two", affected=names)
    told = _text(view)
    assert "*llm-two* is gone since" in told
    assert "30 services there cannot be seen: `s0`, `s1`" in told
    assert "and 10 more" in told
    assert _buttons(view) == ["kimi:ack", "kimi:mute", "kimi:resolve"]
    mute = render_incident_root(view).blocks[-1]["elements"][1]
    assert json.loads(mute["value"]) == {"o": view.incident, "h": "llm-two", "m": 60}


def test_degraded_says_so() -> None:
    assert "*kimi-k2.5* is degraded since" in _text(replace(VIEW, severity=Severity.DEGRADED))


def test_down_again_and_again() -> None:
    assert "is *down* again (3 times now)" in _text(replace(VIEW, times=3))


def test_who_is_on_it_and_the_start_under_way() -> None:
    view = replace(
        VIEW,
        acked_by=BOB,
        start=OperationId("op1"),
        start_link="https://slack.example/1",
        muted=BEGAN + timedelta(hours=1),
        escalated=BEGAN,
    )
    told = _text(view)
    assert "<@U0BOB> is on it · muted until" in told
    assert "escalated at" in told
    assert "a start is under way: see <https://slack.example/1|its thread>" in told
    assert _buttons(view) == ["kimi:restart", "kimi:logs", "kimi:resolve"]


def test_the_buttons_of_an_open_one() -> None:
    assert _buttons(VIEW) == ["kimi:ack", "kimi:restart", "kimi:logs", "kimi:mute", "kimi:resolve"]
    restart = render_incident_root(VIEW).blocks[-1]["elements"][1]
    assert "confirm" in restart
    assert json.loads(restart["value"]) == {"s": SERVICE}  # an incident is no operation that it would give up


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        (Ending.RECOVERED, "✅ *kimi-k2.5* was down for 13m until"),
        (Ending.STOPPED, "*kimi-k2.5* was down for 13m; then it was stopped"),
        (Ending.BY_HAND, "*kimi-k2.5*: this incident was closed by <@U0BOB>"),
        (Ending.UNWATCHED, "|03:12:41 UTC>, and is no longer watched: the configuration no longer names it"),
    ],
)
def test_once_it_is_over(ending: Ending, told: str) -> None:
    over = BEGAN + timedelta(minutes=13)
    view = replace(VIEW, ending=ending, ended=over, ended_by=BOB, downtime=timedelta(minutes=13))
    view = replace(view, ended_why="the configuration no longer names it")
    assert told in _text(view)
    assert _buttons(view) == ["kimi:export"]


def test_one_that_is_over_still_tells_what_it_was() -> None:
    assert "First sign: process died by SIGSEGV" in _text(replace(VIEW, ending=Ending.RECOVERED, ended=BEGAN))


def test_a_host_tells_what_was_answered_and_that_it_is_back() -> None:
    refused = Sign(SignKind.SIGHT, BEGAN, "the host does not answer SSH", evidence=("port 22: timed out",))
    view = replace(VIEW, severity=Severity.HOST, service=None, affected=(SERVICE,), signs=(refused,))
    assert "port 22: timed out" in _text(view)
    told = _text(replace(view, ending=Ending.RECOVERED, ended=BEGAN, downtime=timedelta(minutes=2)))
    assert "was gone for 2m until" in told
    assert "1 service there could not be seen" in told


REFUSED = Sign(
    SignKind.HIDDEN,
    BEGAN,
    "SSH is refused (connection refused), so 1 service there cannot be seen",
    evidence=("llm-two: 10.0.0.2:22 refuses connections",),
)
HOST_VIEW = replace(
    VIEW, service=None, subject="llm-two", affected=(SERVICE,), signs=(REFUSED,), down_since=None
)


@pytest.mark.parametrize("severity", [Severity.DEGRADED, Severity.HOST])
def test_a_host_that_is_there_and_tells_nothing_says_what_it_answers_and_whom_it_hides(
    severity: Severity,
) -> None:
    told = _text(replace(HOST_VIEW, severity=severity))
    state = "degraded" if severity is Severity.DEGRADED else "out of sight"
    assert f"*llm-two* is {state} since" in told
    assert "10.0.0.2:22 refuses connections" in told
    assert "1 service there cannot be seen: `kimi-k2.5`" in told
    over = replace(
        HOST_VIEW,
        severity=severity,
        was_hidden=True,
        ending=Ending.RECOVERED,
        ended=BEGAN + timedelta(minutes=2),
    )
    assert f"was {state} for 2m until" in _text(over)


def test_the_headline_tells_how_it_stands_now_and_the_lines_below_how_it_began() -> None:
    gone = Sign(
        SignKind.SIGHT, BEGAN + timedelta(minutes=9), "the host does not answer SSH", evidence=("timed out",)
    )
    view = replace(
        HOST_VIEW,
        severity=Severity.HOST,
        signs=(REFUSED, gone),
        present=gone,
        down_since=gone.at,
        affected=(),
    )
    headline, answered, before = render_incident_root(view).blocks[0]["text"]["text"].split("\n")
    assert "is gone since" in headline
    assert headline.endswith(": the host does not answer SSH")
    assert str(int(gone.at.timestamp())) in headline
    assert answered == "timed out"
    assert before.startswith("Before that: SSH is refused")


def test_what_went_down_again_is_told_with_what_it_died_of_this_time() -> None:
    hung = Sign(SignKind.PROBE, BEGAN + timedelta(minutes=20), "/health answers 503")
    view = replace(VIEW, signs=(*VIEW.signs, hung), present=hung, times=2, down_since=hung.at)
    told = _text(replace(view, last_healthy=None))
    assert "again (2 times now)" in told
    assert "· /health answers 503" in told
    assert "last good check" not in told
    assert "Before that: process died by SIGSEGV" in told


def test_what_broke_the_same_way_before_is_not_told_twice() -> None:
    anew = replace(VIEW.signs[0], at=BEGAN + timedelta(minutes=20), evidence=())
    told = _text(replace(VIEW, signs=(*VIEW.signs, anew), present=anew, times=2, down_since=anew.at))
    assert told.count(anew.sentence) == 1
    assert "Before that" not in told


@pytest.mark.parametrize(
    ("severity", "worst", "told"),
    [
        (Severity.DEGRADED, Severity.DOWN, "was down twice, 13m in all, and degraded until"),
        (Severity.DEGRADED, None, "was degraded twice, 13m in all, until"),
        (Severity.DOWN, None, "was down twice, 13m in all, until"),
        (Severity.HOST, None, "was gone twice, 13m in all, until"),
    ],
)
def test_the_end_tells_the_worst_of_it(severity: Severity, worst: Severity | None, told: str) -> None:
    view = replace(VIEW, severity=severity, worst=worst, times=2, ending=Ending.RECOVERED, ended=BEGAN)
    assert told in _text(replace(view, downtime=timedelta(minutes=13)))


def test_what_was_only_degraded_and_then_stopped_was_not_down() -> None:
    view = replace(
        VIEW, severity=Severity.DEGRADED, ending=Ending.STOPPED, ended=BEGAN + timedelta(minutes=5)
    )
    assert "was degraded for 5m; then it was stopped" in _text(view)


def test_what_is_degraded_after_it_was_down_is_that_since_then() -> None:
    slow = Sign(SignKind.SLOW, BEGAN + timedelta(minutes=20), "12 tokens/s (usual 90)")
    view = replace(
        VIEW,
        severity=Severity.DEGRADED,
        worst=Severity.DOWN,
        present=slow,
        signs=(*VIEW.signs, slow),
        down_since=None,
    )
    assert f"is degraded since <!date^{int(slow.at.timestamp())}^" in _text(view)


def test_whoever_restarts_it_is_told() -> None:
    assert "<@U0BOB> is starting it" in _text(replace(VIEW, started_by=BOB))
    assert "<@U0BOB> is on it" in _text(replace(VIEW, acked_by=BOB, started_by=BOB))
    over = replace(VIEW, ending=Ending.RECOVERED, ended=BEGAN)
    assert "<@U0BOB> started it" in _text(replace(over, started_by=BOB))
    assert "nobody was on it" in _text(over)


SENTENCES = st.text(max_size=400)
VIEWS = st.builds(
    lambda severity, sentences, cause, affected, ending, times: replace(
        VIEW,
        severity=severity,
        signs=tuple(Sign(SignKind.PROBE, BEGAN, each) for each in sentences),
        cause=cause,
        affected=tuple(map(ServiceName, affected)),
        ending=ending,
        times=times,
        attempts=times,
        last_attempt=replace(ATTEMPT, read=replace(READ, cause=cause)) if times > 1 else None,
    ),
    st.sampled_from(list(Severity)),
    st.lists(SENTENCES, max_size=4),
    SENTENCES,
    st.lists(SENTENCES, max_size=40),
    st.sampled_from([None, *Ending]),
    st.integers(1, 5),
)


@settings(deadline=None)
@given(VIEWS)
def test_it_keeps_slacks_limits_and_its_shape(view: Any) -> None:
    message = render_incident_root(view)
    assert_sendable(message)
    assert kinds(message) == ["section", "context", "context", "actions"]


def test_nothing_in_it_is_read_as_markup() -> None:
    hostile = "<!channel> & <@U0EVIL>"
    view = replace(VIEW, subject=hostile, cause=hostile, signs=(Sign(SignKind.PROBE, BEGAN, hostile),))
    told = _text(view)
    assert "<!channel>" not in told
    assert "<@U0EVIL>" not in told


@pytest.mark.parametrize("ending", [None, *Ending])
@pytest.mark.parametrize("severity", list(Severity))
def test_no_word_that_people_search_for_stands_in_it(severity: Severity, ending: Ending | None) -> None:
    view = replace(VIEW, severity=severity, ending=ending, ended=BEGAN, attempts=4, last_attempt=ATTEMPT)
    told = _text(view)
    assert not [word for word in Searched if re.search(rf"\b{word}\b", told)]


def test_a_stop_outside_chat_is_one_message() -> None:
    message = render_stopped(TellStopped(SERVICE, BEGAN, BEGAN, "someone asked systemd to stop it"))
    told = shown(message)
    assert "*kimi-k2.5* is stopped since" in told
    assert "Someone asked systemd to stop it. It stays down until started" in told
    assert not [word for word in Searched if word in told]


def test_the_plan_tells_whether_the_host_answered() -> None:
    assert "does not answer" in _text(Case(make_incident_plan(host_answers=False)).view())
