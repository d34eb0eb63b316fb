"""One incident from its opening to its end: each thing told once, two messages in the channel at most."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.account import Changed
from bot.core.actions import Verdict
from bot.core.events import InvocationId, OperationId, ServiceName, Ticked, Verb
from bot.core.incident_actions import (
    AckTold,
    AffectedTold,
    AgainTold,
    ChangesTold,
    CloseIncident,
    EditIncident,
    EndTold,
    EscalationTold,
    IncidentEnded,
    PostIncidentReply,
    ReadRunLog,
    RunTold,
    SignTold,
    StartsTold,
    UploadTimeline,
    WorsenedTold,
)
from bot.core.incident_events import (
    Acknowledged,
    AffectedSeen,
    AttemptDied,
    ChangesSeen,
    DownAgain,
    IncidentEvent,
    IncidentMuted,
    IncidentUnmuted,
    Recovered,
    ResolvedByHand,
    RunLogRead,
    ServiceStart,
    ServiceStopped,
    SignSeen,
    StartFollowed,
    StartOver,
    StartsSeen,
    WatchEnded,
    Worsened,
)
from bot.core.incident_export import render_export
from bot.core.incident_render import render_incident_reply, render_incident_root
from bot.core.incident_state import LINGER, Ending, How, Severity, Sign, SignKind
from tests.support.incidents import (
    ALICE,
    BEGAN,
    BOB,
    DIED,
    MEMBER,
    OUT_OF_MEMORY,
    RUN,
    SERVICE,
    SLOW,
    Case,
    make_incident_plan,
    make_lines,
)
from tests.support.slack_messages import shown

STARTED = StartFollowed(OperationId("op1"), Verb.RESTART, BOB, link="https://slack.example/1")
CAME_THROUGH = StartOver(OperationId("op1"), Verdict.HEALTHY, timedelta(minutes=8))


def test_it_opens_with_the_root_and_asks_what_happened() -> None:
    case = Case()
    root, hook, read = case.actions
    assert isinstance(root, EditIncident)
    assert root.view.is_open
    assert read == ReadRunLog(MEMBER, RUN, BEGAN, changes=True)
    assert case.webhooks()[0]["event"] == "opened"
    assert hook is not root


def test_the_log_names_the_cause_and_shows_the_lines_before() -> None:
    case = Case()
    case.tell(RunLogRead(MEMBER, RUN, make_lines(*OUT_OF_MEMORY)))
    (told,) = case.replies(RunTold)
    assert told.read.cause.startswith("Out of GPU memory (CUDA out of memory)")
    assert told.read.excerpt[-1] == OUT_OF_MEMORY[-1]
    assert case.view().cause == told.read.cause


def test_a_log_that_could_not_be_read_says_nothing() -> None:
    case = Case()
    case.tell(RunLogRead(MEMBER, RUN, ()))
    assert case.posts() == []


def test_of_two_members_the_one_that_knows_is_told() -> None:
    case = Case()
    case.tell(RunLogRead(MEMBER, RUN, make_lines(*OUT_OF_MEMORY)))
    case.tell(RunLogRead(MEMBER, InvocationId("b" * 32), make_lines("something else")))
    assert len(case.replies(RunTold)) == 1


def test_a_whole_outage() -> None:
    case = Case()
    case.tell(Acknowledged(BOB), after=240)
    case.tell(STARTED, after=30)
    case.tell(CAME_THROUGH, after=480)
    case.tell(Recovered(BEGAN + timedelta(seconds=755)), after=30)
    (end,) = case.replies(EndTold)
    assert end.downtime == timedelta(seconds=755)
    assert end.loading == timedelta(seconds=480)
    assert end.after == timedelta(seconds=755)  # until it served again, whenever that was told
    assert [type(post.reply).__name__ for post in case.posts()] == [
        "AckTold",
        "StartLinked",
        "StartOverTold",
        "EndTold",
    ]
    assert [post.broadcast for post in case.posts()] == [False, False, False, True]
    assert isinstance(case.actions[-2], UploadTimeline)
    assert case.actions[-1] == IncidentEnded(Ending.RECOVERED)
    assert [each["event"] for each in case.webhooks()] == [
        "opened",
        "updated",
        "updated",
        "updated",
        "resolved",
    ]
    assert len({each["id"] for each in case.webhooks()}) == 5


def test_it_closes_for_good_once_it_cannot_come_again() -> None:
    case = Case()
    case.tell(Recovered(BEGAN + timedelta(seconds=60)), after=60)
    case.tell(Ticked(), after=(LINGER - timedelta(seconds=5)).total_seconds())
    assert not case.incident.is_closed
    assert case.tell(Ticked(), after=10) == [CloseIncident()]
    assert case.incident.is_closed
    assert case.tell(Acknowledged(BOB)) == []
    assert case.incident.resume(case.now) == []


def test_what_comes_when_it_cannot_come_again_closes_it_and_no_more() -> None:
    """Its watch counts on that: where it hears late that nobody watched, it begins anew."""
    case = Case()
    case.tell(Recovered(BEGAN + timedelta(seconds=60)), after=60)
    again = DownAgain(case.now + LINGER, DIED, Severity.DOWN)
    assert case.tell(again, after=LINGER.total_seconds()) == [CloseIncident()]
    assert case.incident.state.ending is not None


def test_once_it_is_over_people_come_too_late() -> None:
    case = Case()
    case.tell(Recovered(BEGAN), after=60)
    assert case.tell(Acknowledged(BOB)) == []
    assert case.tell(SignSeen(SLOW)) == []
    assert case.tell(Recovered(BEGAN)) == []


def test_degraded_that_becomes_an_outage_is_shown_in_the_channel() -> None:
    case = Case(make_incident_plan(severity=Severity.DEGRADED, signs=(SLOW,)))
    assert case.view().down_since is None
    down = Sign(SignKind.PROCESS, BEGAN + timedelta(minutes=5), "process died by SIGSEGV", MEMBER)
    case.tell(Worsened(Severity.DOWN, down), after=300)
    (post,) = case.posts()
    assert isinstance(post.reply, WorsenedTold)
    assert post.broadcast
    case.tell(Recovered(BEGAN + timedelta(minutes=9)), after=300)
    (end,) = case.replies(EndTold)
    assert end.downtime == timedelta(minutes=4)
    assert not case.posts()[-1].broadcast


def test_flapping_stays_in_one_thread_and_out_of_the_channel() -> None:
    case = Case()
    for _ in range(5):
        case.tell(Recovered(case.now + timedelta(seconds=60)), after=60)
        case.tell(DownAgain(case.now + timedelta(seconds=300), DIED, Severity.DOWN), after=300)
    case.tell(Recovered(case.now + timedelta(seconds=60)), after=60)
    assert [reply.times for reply in case.replies(AgainTold)] == [2, 3, 4, 5, 6]
    assert sum(post.broadcast for post in case.posts()) == 1
    assert case.replies(EndTold)[-1].downtime == timedelta(minutes=6)
    assert case.replies(AgainTold)[0].served == timedelta(seconds=300)


def _root(case: Case) -> str:
    return shown(render_incident_root(case.view()))


def _in_channel(case: Case) -> list[str]:
    """As it was said there, beside the root."""
    return [shown(render_incident_reply(post.reply, case.view())) for post in case.posts() if post.broadcast]


def test_of_what_is_over_and_goes_down_again_each_place_tells_the_truth_at_each_moment() -> None:
    case = Case()
    case.tell(RunLogRead(MEMBER, RUN, make_lines(*OUT_OF_MEMORY)))
    case.tell(AttemptDied(MEMBER, InvocationId("1" * 32), 1, timedelta(minutes=3)), after=180)
    case.tell(RunLogRead(MEMBER, InvocationId("1" * 32), make_lines(*OUT_OF_MEMORY)))
    assert "attempt 1 died" in _root(case)
    case.tell(Acknowledged(BOB))
    case.tell(Recovered(case.now), after=60)
    assert "is *down*" not in _root(case)
    assert "was down for" in _root(case)
    assert "<@U0BOB> was on it" in _root(case)
    [end] = _in_channel(case)
    assert "*resolved*" in end
    assert "this thread's first message shows the present" in end
    killed = Sign(SignKind.PROCESS, case.now + timedelta(minutes=5), "process died by SIGKILL", MEMBER)
    case.tell(DownAgain(killed.at, killed, Severity.DOWN), after=300)
    root = _root(case)
    assert "is *down* again (2 times now)" in root
    assert f"^{int(killed.at.timestamp())}^" in root.split(" · ")[0]
    assert "process died by SIGKILL" in root
    assert "host llm-two answers" not in root  # of that nothing is known this time
    assert "attempt 1" not in root  # that one died the time before
    assert "Cause: not known · first: Out of GPU memory" in root
    assert "Nobody is on it yet" in root
    assert "was down" not in root
    assert "down again after it was well for" in shown(
        render_incident_reply(case.replies(AgainTold)[-1], case.view())
    )
    case.wait(660)  # nobody acknowledges it: who is called is told what is so now
    [call] = case.replies(EscalationTold)
    told = shown(render_incident_reply(call, case.view()))
    assert "Process died by SIGKILL" in told
    assert "attempt 1" not in told
    assert _in_channel(case) == [end]
    case.tell(Recovered(case.now), after=60)
    assert "was down twice" in _root(case)
    assert "again (" not in _root(case)
    assert _in_channel(case) == [end]
    assert case.webhooks()[-1]["status"] == "resolved"


def test_a_person_closes_it() -> None:
    case = Case()
    case.tell(ResolvedByHand(ALICE), after=60)
    assert case.actions[-1] == IncidentEnded(Ending.BY_HAND, ALICE)
    assert case.webhooks()[-1]["event"] == "resolved"


def test_the_service_is_stopped() -> None:
    case = Case()
    case.tell(ServiceStopped(BEGAN + timedelta(seconds=50), "someone stopped it"), after=60)
    (end,) = case.replies(EndTold)
    assert (end.ending, end.downtime) == (Ending.STOPPED, timedelta(seconds=50))


def test_what_nobody_watches_any_more_ends_without_a_word_of_how_it_is() -> None:
    case = Case()
    case.tell(WatchEnded("the configuration no longer names it"), after=60)
    (end,) = case.replies(EndTold)
    assert (end.ending, end.since, end.sentence) == (
        Ending.UNWATCHED,
        None,
        "the configuration no longer names it",
    )
    assert case.actions[-1] == IncidentEnded(Ending.UNWATCHED)
    told = case.webhooks()[-1]
    assert (told["event"], told["status"], told["ending"]) == ("resolved", "resolved", "unwatched")
    assert "resolved" not in told["text"]
    assert "resolved" not in str(render_incident_root(case.view()))
    exported = render_export(case.plan, case.incident.state, case.now)
    assert "nobody watched it any more (the configuration no longer names it)" in exported
    assert "1m, until it was no longer watched" in exported
    assert "serves again" not in exported
    case.wait(3700, step=60)
    assert case.incident.is_closed


def test_what_is_over_is_not_ended_by_a_configuration() -> None:
    case = Case()
    case.tell(Recovered(BEGAN), after=60)
    assert case.tell(WatchEnded("the configuration no longer names it")) == []


def test_what_changed_is_told_once() -> None:
    case = Case()
    for _ in range(2):
        case.tell(ChangesSeen(Changed(("+ --mem-fraction-static 0.9",))))
    assert len(case.replies(ChangesTold)) == 1


def test_of_a_host_what_starts_on_it_again_is_linked_once_though_it_is_over() -> None:
    starts = tuple(ServiceStart(ServiceName(name), OperationId(name), f"https://x/{name}") for name in "abc")
    case = Case(make_incident_plan(severity=Severity.HOST, service=None, members=()))
    case.tell(StartsSeen(starts[:1]))
    assert case.view().start is None
    case.tell(Recovered(case.now))
    case.tell(StartsSeen(starts))
    case.tell(StartsSeen(starts))
    assert [told.starts for told in case.replies(StartsTold)] == [starts[:1], starts[1:]]
    assert case.incident.state.ending is Ending.RECOVERED


def test_of_a_host_the_services_that_cannot_be_seen_either_are_told() -> None:
    services = (SERVICE, ServiceName("qwen"))
    plan = make_incident_plan(severity=Severity.HOST, service=None, members=(), affected=services)
    case = Case(plan)
    case.tell(AffectedSeen(services))
    assert case.posts() == []
    assert case.view().affected == services
    more = (ServiceName("glm"), *services[:1])
    case.tell(AffectedSeen(more))
    case.tell(AffectedSeen(more))
    assert case.replies(AffectedTold) == [AffectedTold(more[:1], 2)]
    assert case.view().affected == more
    case.tell(AffectedSeen(()))
    assert case.view().affected == ()
    case.tell(Recovered(case.now))
    assert case.view().affected == (*services, "glm")  # at some time
    assert "kimi-k2.5, qwen, glm" in render_export(case.plan, case.incident.state, case.now)
    assert not [action for action in case.actions if isinstance(action, ReadRunLog)]


def test_taken_up_by_another_process_it_asks_again_what_it_does_not_know() -> None:
    case = Case()
    case.restore()
    kinds = [type(action) for action in case.incident.resume(case.now)]
    assert kinds == [EditIncident, ReadRunLog]
    case.tell(RunLogRead(MEMBER, RUN, make_lines(*OUT_OF_MEMORY)))
    case.restore()
    assert [type(action) for action in case.incident.resume(case.now)] == [EditIncident]


def test_acknowledged_once() -> None:
    case = Case()
    case.tell(Acknowledged(BOB), after=240)
    case.tell(Acknowledged(ALICE))
    assert case.replies(AckTold) == [AckTold(BOB, timedelta(minutes=4))]


EVENTS: list[IncidentEvent] = [
    SignSeen(SLOW),
    Worsened(Severity.DOWN, DIED),
    RunLogRead(MEMBER, RUN, make_lines(*OUT_OF_MEMORY)),
    RunLogRead(MEMBER, InvocationId("b" * 32), make_lines(*OUT_OF_MEMORY)),
    ChangesSeen(Changed(("+ --flag",))),
    AttemptDied(MEMBER, InvocationId("b" * 32), 1, timedelta(minutes=3)),
    AttemptDied(MEMBER, InvocationId("c" * 32), 2, timedelta(minutes=3)),
    StartFollowed(OperationId("op2"), Verb.WATCH, how=How.SYSTEMD),
    StartOver(OperationId("op2"), Verdict.FAILED, timedelta(minutes=3), "out of GPU memory"),
    STARTED,
    CAME_THROUGH,
    Acknowledged(BOB),
    IncidentMuted(BOB, BEGAN + timedelta(hours=1)),
    IncidentUnmuted(BOB),
    ResolvedByHand(ALICE),
    Recovered(BEGAN + timedelta(seconds=30)),
    DownAgain(BEGAN + timedelta(seconds=90), DIED, Severity.DOWN),
    ServiceStopped(BEGAN, "someone stopped it"),
    AffectedSeen((SERVICE,)),
    StartsSeen((ServiceStart(SERVICE, OperationId("op3")),)),
    Ticked(),
]
STEPS = st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from([0.1, 1, 20, 700, 2000])), max_size=30)
SEVERITIES = st.sampled_from([Severity.DEGRADED, Severity.DOWN])


def _play(severity: Severity, steps: list[tuple[IncidentEvent, float]], *, rewritten: bool) -> Case:
    case = Case(make_incident_plan(severity=severity), rewritten=rewritten)
    for event, after in steps:
        case.tell(event, after=after)
    return case


@settings(deadline=None)
@given(SEVERITIES, STEPS)
def test_saved_and_restored_at_any_point_it_orders_the_same(
    severity: Severity, steps: list[tuple[IncidentEvent, float]]
) -> None:
    plain, rewritten = (_play(severity, steps, rewritten=each) for each in (False, True))
    assert plain.actions == rewritten.actions


@settings(deadline=None)
@given(SEVERITIES, STEPS)
def test_whatever_happens_the_channel_gets_two_messages_at_most(
    severity: Severity, steps: list[tuple[IncidentEvent, float]]
) -> None:
    case = _play(severity, steps, rewritten=False)
    assert 1 + sum(post.broadcast for post in case.posts()) <= 2
    posted = [post.sequence for post in case.actions if isinstance(post, PostIncidentReply | UploadTimeline)]
    assert posted == sorted(set(posted))
    closed = [index for index, each in enumerate(case.actions) if isinstance(each, CloseIncident)]
    assert closed in ([], [len(case.actions) - 1])


@settings(deadline=None)
@given(SEVERITIES, STEPS)
def test_over_and_again_take_turns(severity: Severity, steps: list[tuple[IncidentEvent, float]]) -> None:
    over = False
    for action in _play(severity, steps, rewritten=False).actions:
        if isinstance(action, IncidentEnded):
            assert not over
            over = True
        elif isinstance(action, PostIncidentReply) and isinstance(action.reply, AgainTold):
            assert over
            over = False


@pytest.mark.parametrize("times", [1, 3])
def test_a_sign_is_a_reply_of_its_own(times: int) -> None:
    case = Case()
    for _ in range(times):
        case.tell(SignSeen(SLOW))
    assert len(case.replies(SignTold)) == times
