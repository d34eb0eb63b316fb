"""An incident read back from its root alone: what broke first, since when, who is on it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.blocks import say
from bot.core.events import Ticked
from bot.core.incident import Incident
from bot.core.incident_actions import EditIncident, GapTold, IncidentView, PostIncidentReply
from bot.core.incident_events import Acknowledged, DownAgain, Recovered, RunLogRead
from bot.core.incident_remains import UNREAD, is_open, read_causes, read_first, read_plan, read_state, tags_of
from bot.core.incident_render import render_incident_root
from bot.core.incident_state import Ending, IncidentPlan, IncidentState, Severity, Sign, SignKind
from bot.core.incident_view import first_cause, present_cause
from config.engine_file import load_engine
from tests.support.incidents import (
    ALICE,
    BEGAN,
    DIED,
    MEMBER,
    OUT_OF_MEMORY,
    RUN,
    Case,
    make_incident_plan,
    make_lines,
)

LATER = BEGAN + timedelta(minutes=1)
GONE = {
    "service": None,
    "subject": "llm-two",
    "severity": Severity.HOST,
    "signs": (Sign(SignKind.SIGHT, BEGAN, "the host does not answer SSH"),),
    "members": (),
}


def body_of(view: IncidentView) -> str:
    text: str = render_incident_root(view).blocks[0]["text"]["text"]
    return text


def read_back(case: Case, **changes: object) -> tuple[IncidentPlan, IncidentState]:
    view = case.view()
    tags, body = tags_of(view), body_of(view)
    assert is_open(tags)
    plan = read_plan(tags, body, posted=BEGAN, now=case.now)
    return plan, read_state(plan, tags, body, sequence=3, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("severity", [Severity.DOWN, Severity.DEGRADED, Severity.HOST])
@given(sentence=st.text(min_size=1, max_size=80).filter(lambda text: say(text, 300).strip()))
def test_what_broke_first_is_read_as_it_was_said(severity: Severity, sentence: str) -> None:
    view = Case(make_incident_plan(severity=severity, signs=(replace(DIED, sentence=sentence),))).view()
    told = " ".join(read_first(body_of(view)).split())
    assert say(told, 300) == say(sentence, 300)


def test_all_that_stands_there_comes_back() -> None:
    case = Case()
    case.tell(RunLogRead(MEMBER, RUN, make_lines(*OUT_OF_MEMORY)))
    case.tell(Acknowledged(ALICE), after=60)
    plan, state = read_back(case)
    told = case.plan
    assert (plan.incident, plan.subject, plan.service, plan.host) == (
        told.incident,
        told.subject,
        told.service,
        told.host,
    )
    assert (plan.began, plan.opened, plan.last_healthy) == (told.began, told.opened, told.last_healthy)
    assert plan.signs[0].sentence == DIED.sentence
    assert state.read is not None
    assert (state.read.cause, state.read.cause) == read_causes(body_of(case.view()))
    assert state.read.cause == case.view().cause
    assert (state.acked_by, state.down_since, state.downtime) == (ALICE, BEGAN, timedelta())
    assert state.sequence > 3


def test_a_hosts_own_comes_back_as_that() -> None:
    plan, _ = read_back(Case(make_incident_plan(**GONE)))
    assert (plan.service, plan.severity, plan.signs[0].kind) == (None, Severity.HOST, SignKind.SIGHT)


def test_the_downtime_of_the_times_before_is_not_forgotten() -> None:
    case = Case()
    case.tell(Recovered(BEGAN + timedelta(minutes=5)), after=310)
    case.tell(DownAgain(BEGAN + timedelta(minutes=10), DIED, Severity.DOWN), after=300)
    _, state = read_back(case)
    assert (state.times, state.downtime) == (2, timedelta(minutes=5))
    assert state.down_since == BEGAN + timedelta(minutes=10)


def test_what_it_dies_of_now_comes_back_beside_what_it_died_of_first() -> None:
    case = Case()
    case.tell(RunLogRead(MEMBER, RUN, make_lines(*OUT_OF_MEMORY)))
    first = case.view().cause
    case.tell(Recovered(BEGAN + timedelta(minutes=5)), after=310)
    case.tell(DownAgain(BEGAN + timedelta(minutes=10), DIED, Severity.DOWN), after=300)
    assert read_causes(body_of(case.view())) == ("", first)
    assert present_cause(read_back(case)[1]) == ""
    case.tell(RunLogRead(MEMBER, None, make_lines("OSError: [Errno 28] No space left on device")))
    now = case.view().cause
    assert read_causes(body_of(case.view())) == (now, first)
    _, state = read_back(case)
    assert (present_cause(state), first_cause(state)) == (now, first)


def test_its_thread_is_told_once_and_nothing_is_asked_again() -> None:
    case = Case()
    plan, state = read_back(case)
    incident = Incident(plan, load_engine("sglang"), state)
    actions = incident.resume(LATER)
    assert [type(each.reply) for each in actions if isinstance(each, PostIncidentReply)] == [GapTold]
    assert [type(each).__name__ for each in actions] == ["EditIncident", "PostIncidentReply", "SendWebhook"]
    again = Incident(plan, load_engine("sglang"), incident.state).resume(LATER)
    assert [type(each).__name__ for each in again] == ["EditIncident"]


def test_one_whose_end_was_told_is_over_and_closes() -> None:
    plan, state = read_back(Case(), ended=LATER)
    assert (state.ending, state.over) == (Ending.RECOVERED, LATER)
    incident = Incident(plan, load_engine("sglang"), state)
    assert [type(each).__name__ for each in incident.resume(LATER)] == ["EditIncident"]
    incident.handle(Ticked(), LATER + timedelta(hours=1))
    assert incident.is_closed


def test_of_one_that_nobody_watched_any_more_nothing_better_is_said() -> None:
    plan, state = read_back(Case(), ended=LATER, ending=Ending.UNWATCHED)
    [shown] = Incident(plan, load_engine("sglang"), state).resume(LATER)
    assert isinstance(shown, EditIncident)
    assert "is no longer watched: why is told in its thread" in render_incident_root(shown.view).text


def test_what_cannot_be_read_is_no_reason_to_fail() -> None:
    tags = tags_of(Case().view()) | {"times": "many", "began": "once", "muted": "2026-05-29", "shown": "-"}
    plan = read_plan(tags, "words of another release", posted=BEGAN, now=LATER)
    state = read_state(plan, tags, "words of another release", sequence=0)
    assert (plan.signs[0].sentence, plan.began) == (UNREAD, BEGAN)
    assert (state.times, state.muted, state.in_channel) == (1, None, 1)


@pytest.mark.parametrize("missing", ["incident", "subject", "host", "began", "severity", "state"])
def test_tags_of_something_else_are_left_alone(missing: str) -> None:
    tags = tags_of(Case().view())
    assert is_open(tags)
    del tags[missing]
    assert not is_open(tags)


def test_one_that_is_over_is_not_taken_up() -> None:
    case = Case()
    case.tell(Recovered(BEGAN), after=60)
    assert not is_open(tags_of(case.view()))
