"""The replies of an incident's thread."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.account import Changed
from bot.core.actions import Verdict
from bot.core.events import InvocationId, OperationId, PhaseId, ServiceName, UserId, Verb
from bot.core.incident_actions import (
    AckTold,
    AffectedTold,
    AgainTold,
    AttemptTold,
    ChangesTold,
    EndTold,
    EscalationTold,
    IncidentReply,
    MuteTold,
    RunTold,
    SignTold,
    StartLinked,
    StartOverTold,
    StartsTold,
    WorsenedTold,
)
from bot.core.incident_events import ServiceStart
from bot.core.incident_report import render_incident_reply
from bot.core.incident_state import Attempt, Ending, How, RunRead, Severity, Sign, SignKind
from bot.core.words import Searched
from tests.support.incidents import ALICE, BEGAN, BOB, DIED, MEMBER, Case
from tests.support.slack_messages import assert_sendable, shown

VIEW = Case().view()
MINUTES = timedelta(minutes=3)
LINK = "https://slack.example/1"
READ = RunRead(
    "Out of GPU memory",
    means="It wants more than there is.",
    advice="Lower it.",
    evidence=("torch.OutOfMemoryError",),
    phase=PhaseId.WEIGHTS,
    rank="TP3",
    excerpt=("one", "two"),
)
ATTEMPT = Attempt(4, MEMBER, InvocationId("b" * 32), BEGAN, MINUTES, READ)
GONE = Sign(SignKind.SIGHT, BEGAN, "the host does not answer SSH")
HIDDEN = Sign(
    SignKind.HIDDEN, BEGAN, "SSH is refused (connection refused), so 2 services there cannot be seen"
)
END = EndTold(
    Ending.RECOVERED,
    Severity.DOWN,
    after=timedelta(seconds=782),
    downtime=timedelta(seconds=782),
    loading=timedelta(minutes=8),
    since=BEGAN,
    cause="Out of GPU memory",
)
UNWATCHED = replace(END, ending=Ending.UNWATCHED, sentence="the configuration no longer names it")
REPLIES: list[tuple[IncidentReply, str]] = [
    (SignTold(DIED), "Process died by SIGSEGV."),
    (WorsenedTold(DIED), "🔴 *kimi-k2.5* is *down* now, and was degraded before: process died by SIGSEGV."),
    (
        WorsenedTold(GONE, Severity.HOST),
        "🔴 *kimi-k2.5* is *gone* now, and was degraded before: the host does not answer SSH.",
    ),
    (WorsenedTold(HIDDEN, Severity.HOST), "🔴 *kimi-k2.5* is *out of sight* now, and was degraded before"),
    (AgainTold(DIED, 2, MINUTES), "is down again after it was well for 3m, for the 2nd time"),
    (AgainTold(GONE, 2, MINUTES, Severity.HOST), "is gone again after it was seen for 3m, for the 2nd time"),
    (AgainTold(HIDDEN, 2, None, Severity.HOST), "is out of sight again, for the 2nd time: SSH is refused"),
    (AgainTold(DIED, 1, MINUTES), "is down now after it was well for 3m: process died"),
    (AgainTold(DIED, 1, MINUTES, Severity.DEGRADED), "is degraded now after it was well for 3m: process"),
    (RunTold(READ), "*Out of GPU memory (TP3)*"),
    (RunTold(READ), "Try: Lower it."),
    (RunTold(READ), "The last 2 lines of that run:"),
    (RunTold(replace(READ, cause="")), "Process died by SIGSEGV. No line of its log says why."),
    (ChangesTold(Changed(("+ --flag",))), "Changed since the last good start: `+ --flag`."),
    (AttemptTold(ATTEMPT, 3), "Attempt 4 died the same way, in weights after 3m: Out of GPU memory (TP3)."),
    (StartLinked(Verb.RESTART, BOB, None, LINK), f"<@U0BOB> is restarting it: see <{LINK}|its thread>."),
    (
        StartLinked(Verb.WATCH, None, How.BOOT, None),
        "It was started with its host. That start is told in its own",
    ),
    (StartOverTold(Verdict.HEALTHY, MINUTES, None, LINK), "That start came through after 3m."),
    (StartOverTold(Verdict.FAILED, MINUTES, "no memory", LINK), f"no memory. See <{LINK}|its thread>."),
    (AckTold(BOB, MINUTES), "<@U0BOB> acknowledged after 3m."),
    (MuteTold(BOB, BEGAN, "known"), "Muted by <@U0BOB> until"),
    (MuteTold(None, None), "No longer muted."),
    (
        EscalationTold("S0456", MINUTES),
        "<!subteam^S0456> *kimi-k2.5*: nobody has acknowledged this incident for",
    ),
    (EscalationTold(None, MINUTES), "Somebody is needed here:"),
    (AffectedTold((ServiceName("a"),), 3), "`a` cannot be seen either: 3 services there in all."),
    (
        StartsTold(
            (
                ServiceStart(ServiceName("a"), OperationId("1"), "https://slack.example/1"),
                ServiceStart(ServiceName("b"), OperationId("2")),
            )
        ),
        "Starting again: `a` (<https://slack.example/1|its thread>), `b`.",
    ),
    (END, "✅ *kimi-k2.5* *resolved* after 13m02s. Serves again since"),
    (END, "down 13m02s, 8m of it loading."),
    (END, "Cause: Out of GPU memory"),
    (replace(END, ending=Ending.BY_HAND, by=ALICE), "*resolved* by hand by <@U0ALICE> after 13m02s."),
    (replace(END, ending=Ending.STOPPED, sentence="it was stopped in chat"), "It was stopped in chat."),
    (
        UNWATCHED,
        "⏹ *kimi-k2.5*: closed after 13m02s, as nobody watches it any more. The configuration no longer",
    ),
    (UNWATCHED, "How it is now is not known."),
    (replace(END, severity=Severity.DEGRADED), "Nothing of the kind was seen since"),
    (replace(END, severity=Severity.DEGRADED, worst=Severity.DOWN), "down 13m02s, 8m of it loading."),
    (replace(END, severity=Severity.HOST), "Answers again since"),
    (replace(END, severity=Severity.HOST, hidden=True), "Can be seen again since"),
    (replace(END, severity=Severity.HOST, hidden=True), "out of sight 13m02s"),
]


def _told(reply: IncidentReply) -> str:
    return shown(render_incident_reply(reply, VIEW))


def test_who_is_called_reads_first_what_it_dies_of() -> None:
    view, told = Case().view(), EscalationTold("S0456", MINUTES)
    assert "Process died by SIGSEGV." in shown(render_incident_reply(told, view))
    known = replace(view, cause="Out of GPU memory")
    assert "Out of GPU memory." in shown(render_incident_reply(told, known))
    loops = replace(known, last_attempt=ATTEMPT)
    assert "Attempt 4 died in weights after 3m" in shown(render_incident_reply(told, loops))


@pytest.mark.parametrize(("reply", "words"), REPLIES)
def test_what_it_says(reply: IncidentReply, words: str) -> None:
    assert words in _told(reply)


def test_what_was_said_before_the_log_is_not_said_again() -> None:
    """Down again, or worse than before: the thread has that already."""
    again = replace(VIEW, down_since=BEGAN + MINUTES)
    told = shown(render_incident_reply(RunTold(replace(READ, cause="")), again))
    assert told.startswith("No line of its log says why.")


@pytest.mark.parametrize("reply", [reply for reply, _ in REPLIES], ids=lambda reply: type(reply).__name__)
def test_the_words_people_search_for_stand_where_they_belong(reply: IncidentReply) -> None:
    here = {word for word in Searched if re.search(rf"\b{word}\b", _told(reply))}
    ended = isinstance(reply, EndTold) and reply.ending in {Ending.RECOVERED, Ending.BY_HAND}
    assert here == ({Searched.RESOLVED} if ended else set())


TEXTS = st.text(max_size=3_000)
ANY = st.one_of(
    st.builds(lambda text: SignTold(Sign(SignKind.PROBE, BEGAN, text, evidence=(text, text))), TEXTS),
    st.builds(
        lambda text, lines: RunTold(
            RunRead(text, text, text, tuple(lines), excerpt=tuple(lines), rank=text[:50] or None)
        ),
        TEXTS,
        st.lists(TEXTS, max_size=20),
    ),
    st.builds(lambda lines: ChangesTold(Changed(tuple(lines))), st.lists(TEXTS, min_size=1, max_size=20)),
    st.builds(lambda text: StartOverTold(Verdict.FAILED, MINUTES, text, text), TEXTS),
    st.builds(lambda text: MuteTold(UserId(text), BEGAN, text), TEXTS),
    st.builds(lambda text: replace(END, cause=text, sentence=text, ending=Ending.STOPPED), TEXTS),
    st.builds(lambda names: AffectedTold(tuple(map(ServiceName, names)), 9), st.lists(TEXTS, max_size=40)),
)


@settings(deadline=None)
@given(ANY)
def test_it_keeps_slacks_limits(reply: IncidentReply) -> None:
    assert_sendable(render_incident_reply(reply, VIEW))


def test_nothing_in_it_is_read_as_markup() -> None:
    hostile = "<!channel> <@U0EVIL>"
    for reply in (
        SignTold(Sign(SignKind.PROBE, BEGAN, hostile)),
        RunTold(RunRead(hostile, hostile, hostile)),
        StartOverTold(Verdict.FAILED, MINUTES, hostile, hostile),
        MuteTold(BOB, BEGAN, hostile),
        replace(END, cause=hostile),
    ):
        told = _told(reply)
        assert "<!channel>" not in told
        assert "<@U0EVIL>" not in told
