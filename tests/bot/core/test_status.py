"""What `status` answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.account import Failure
from bot.core.actions import Pace, Progress, Verdict
from bot.core.events import HostName, OperationId, PhaseId, Role, ServiceName, UserId, Verb
from bot.core.request import Held, LastStartup, Outage, Standing, StatusView
from bot.core.status import render_status
from tests.support.slack_messages import assert_sendable, shown
from tests.support.startup_views import hostile, maybe_spans, midway, names, seconds, spans, users, views

quick = settings(max_examples=100, deadline=None)
KIMI = ServiceName("kimi-k2.5")
HELD = Held(
    OperationId("op1"),
    KIMI,
    Verb.RESTART,
    UserId("U0ALICE"),
    seconds(120),
    "weights 12/64",
    "https://slack.example/p1",
)
STATUS = StatusView(KIMI, (HostName("llm-two"),), Standing.SERVING, model="kimi", uptime=timedelta(hours=5))
LAST = LastStartup(Verb.RESTART, Verdict.HEALTHY, seconds(451), timedelta(hours=5), UserId("U0ALICE"))


@pytest.mark.parametrize(
    ("view", "lines"),
    [
        (STATUS, ["*kimi-k2.5* is *healthy* on llm-two · up 5h · serves `kimi`"]),
        (
            StatusView(
                KIMI, (HostName("llm-two"),), Standing.BROKEN, model="kimi", problem="exit code 1", last=LAST
            ),
            [
                "*kimi-k2.5* is down on llm-two",
                "exit code 1",
                "Last restarted by <@U0ALICE> 5h ago, healthy after 7m31s",
            ],
        ),
        (
            StatusView(
                KIMI,
                (HostName("llm-two"),),
                Standing.STOPPED,
                last=replace(LAST, verb=Verb.STOP, verdict=Verdict.STOPPED),
            ),
            ["*kimi-k2.5* is stopped on llm-two", "Last stopped by <@U0ALICE> 5h ago"],
        ),
        (
            StatusView(KIMI, (HostName("llm-two"),), Standing.STOPPING, problem="it is deactivating."),
            ["*kimi-k2.5* is stopping on llm-two", "it is deactivating."],
        ),
        (
            StatusView(KIMI, (HostName("llm-two"),), Standing.STARTING, startup=midway(), held=HELD),
            [
                "*kimi-k2.5* is restarting on llm-two · loading weights 38/64 · about 4 min to ready",
                "It is being restarted by <@U0ALICE>, 2m ago: <https://slack.example/p1|see its thread>",
            ],
        ),
    ],
)
def test_status_of_one(view: StatusView, lines: list[str]) -> None:
    message = render_status([view])
    assert_sendable(message)
    assert message.text.split("\n") == lines


def test_status_tells_why_the_last_start_failed_and_where_to_read_on() -> None:
    failure = Failure("Out of GPU memory: 2.00 GiB more were wanted.", PhaseId.WEIGHTS, Role.TARGET)
    last = replace(LAST, verdict=Verdict.FAILED, link="https://slack.example/p1", failure=failure)
    down = replace(STATUS, standing=Standing.BROKEN, uptime=None, last=last)
    message = render_status([down])
    assert_sendable(message)
    assert message.text.split("\n")[1:] == [
        "Last restarted by <@U0ALICE> 5h ago, failed after 7m31s: <https://slack.example/p1|its thread>",
        "That start failed in weights: Out of GPU memory: 2.00 GiB more were wanted · `/kimi why kimi-k2.5`",
    ]
    stopped = render_status([replace(down, last=replace(last, verb=Verb.STOP))]).text
    assert "That stop failed in weights: " in stopped
    unknown = render_status([replace(down, last=replace(last, failure=None))]).text
    assert unknown.endswith("\nWhy: `/kimi why kimi-k2.5`")
    assert "why" not in render_status([replace(down, last=replace(last, verdict=Verdict.HEALTHY))]).text


def test_status_of_many_stays_sendable() -> None:
    many = [StatusView(ServiceName(f"s{n}"), (), Standing.STOPPED) for n in range(60)]
    message = render_status(many)
    assert_sendable(message)
    assert "and 48 more" in shown(message)
    assert render_status([]).text == "No service may be named here."


_held = st.none() | st.builds(
    Held, service=st.just(KIMI), by=users, age=spans, headline=hostile, link=hostile
)
_last = st.none() | st.builds(LastStartup, took=spans, age=spans, by=users, link=hostile)
_statuses = st.builds(
    StatusView,
    service=st.builds(ServiceName, names),
    hosts=st.lists(st.builds(HostName, hostile), max_size=4).map(tuple),
    model=st.none() | hostile,
    uptime=maybe_spans,
    startup=st.none() | views,
    held=_held,
    last=_last,
    problem=st.none() | hostile,
)


@quick
@given(st.lists(_statuses, max_size=15))
def test_any_status_is_sendable(statuses: list[StatusView]) -> None:
    assert_sendable(render_status(statuses))


def test_progress_in_a_status_is_the_current_phases() -> None:
    view = midway(phases=(), eta=None)
    assert render_status([StatusView(KIMI, (), Standing.STARTING, startup=view)]).text == (
        "*kimi-k2.5* is restarting on its host · loading weights"
    )
    assert Progress(38, 64).fraction > 0.5


def test_a_status_promises_nothing_while_there_is_no_progress() -> None:
    view = midway(pace=Pace.STALLED)
    told = render_status([StatusView(KIMI, (HostName("llm-two"),), Standing.STARTING, startup=view)]).text
    assert told == "*kimi-k2.5* is restarting on llm-two · ⚠️ no progress while loading weights 38/64"


def test_a_status_without_a_startup_tells_what_its_holder_does() -> None:
    told = render_status([replace(STATUS, held=HELD)]).text
    assert "It is being restarted by <@U0ALICE>, 2m ago, weights 12/64: " in told


def test_a_status_tells_of_the_open_incident_and_of_a_mute() -> None:
    outage = Outage(
        "3f9a2c11", "process died by SIGSEGV", timedelta(minutes=13), link="https://slack.example/p1"
    )
    told = render_status([replace(STATUS, outage=outage, muted=datetime(2026, 5, 29, tzinfo=UTC))]).text
    assert (
        "Incident 3f9a2c11, open for 13m: process died by SIGSEGV · nobody is on it yet: "
        "<https://slack.example/p1|its thread>\nMuted until <!date^"
    ) in told
    acked = render_status([replace(STATUS, outage=replace(outage, acked_by=UserId("U0BOB"), link=None))]).text
    assert acked.endswith("<@U0BOB> is on it")
    gone = replace(outage, last_healthy=datetime(2026, 5, 29, tzinfo=UTC))
    told = render_status([replace(STATUS, outage=gone)]).text
    assert "|00:00:00 UTC> · nobody is on it yet" in told
    assert "SIGSEGV · last good check <!date^" in told


def test_a_status_does_not_call_healthy_what_its_incident_tells_to_be_down() -> None:
    outage = Outage("3f9a2c11", "a completion fails: no answer", timedelta(minutes=13), is_down=True)
    serving = replace(STATUS, standing=Standing.SERVING)
    assert (
        "healthy" in render_status([replace(serving, outage=replace(outage, is_down=False), last=None)]).text
    )
    told = render_status([replace(serving, outage=outage, last=None)]).text
    assert "healthy" not in told
    assert "is up, but it does not answer as it should on " in told
    looping = replace(serving, standing=Standing.UNPROVEN, outage=outage, last=None)
    assert render_status([looping]).text.startswith("*kimi-k2.5* is down on ")
