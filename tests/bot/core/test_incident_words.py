"""What the replies say in plain words, and that the words people search for stand where they belong."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.core.account import Changed
from bot.core.actions import Verdict
from bot.core.events import InvocationId, OperationId, PhaseId, ServiceName, Verb
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
from bot.core.incident_state import Attempt, Ending, How, RunRead, Severity, Sign, SignKind
from bot.core.incident_words import (
    name_some,
    ordinal,
    say_clock,
    say_when,
    tell_attempt,
    tell_how,
    tell_plain,
    tell_run,
)
from bot.core.words import Searched
from tests.support.incidents import ALICE, BEGAN, BOB, DIED, MEMBER

MINUTES = timedelta(minutes=3)
READ = RunRead("out of GPU memory", phase=PhaseId.WEIGHTS, rank="TP3")
ATTEMPT = Attempt(4, MEMBER, InvocationId("b" * 32), BEGAN, MINUTES, READ)
END = EndTold(
    Ending.RECOVERED,
    Severity.DOWN,
    after=timedelta(seconds=782),
    downtime=timedelta(seconds=782),
    loading=timedelta(minutes=8),
    since=BEGAN + timedelta(seconds=782),
)
REPLIES: dict[str, IncidentReply] = {
    "process died by SIGSEGV": SignTold(DIED),
    "the log before it: out of GPU memory (TP3)": RunTold(READ),
    "the log before it: no line of it says why": RunTold(RunRead()),
    "changed since the last good start: + --flag": ChangesTold(Changed(("+ --flag",))),
    "attempt 4 died in weights after 3m: out of GPU memory (TP3)": AttemptTold(ATTEMPT),
    "attempt 4 died the same way, in weights after 3m: out of GPU memory (TP3)": AttemptTold(ATTEMPT, 3),
    "it was started again by systemd itself": StartLinked(Verb.WATCH, None, How.SYSTEMD, None),
    "restarted": StartLinked(Verb.RESTART, BOB, None, None),
    "that start came through after 3m": StartOverTold(Verdict.HEALTHY, MINUTES, None, None),
    "that start came to nothing after 3m: no memory": StartOverTold(
        Verdict.FAILED, MINUTES, "no memory", None
    ),
    "that start is no longer followed, after 3m": StartOverTold(Verdict.UNWATCHED, MINUTES, None, None),
    "stopped after 3m": StartOverTold(Verdict.STOPPED, MINUTES, None, None),
    "acknowledged after 3m": AckTold(BOB, MINUTES),
    "muted until 29 May 03:12 UTC: known": MuteTold(BOB, BEGAN, "known"),
    "the mute is over": MuteTold(None, None),
    "S0456 called: nobody has acknowledged it for 3m": EscalationTold("S0456", MINUTES),
    "escalated: nobody has acknowledged it for 3m": EscalationTold(None, MINUTES),
    "down again after 3m well, for the 2nd time: process died by SIGSEGV": AgainTold(DIED, 2, MINUTES),
    "a and b cannot be seen either: 3 services in all": AffectedTold((ServiceName("a"), ServiceName("b")), 3),
    "starting again: a": StartsTold((ServiceStart(ServiceName("a"), OperationId("1")),)),
    "resolved after 13m02s: serves again since 03:25:43 UTC; down 13m02s, 8m of it loading": END,
    "resolved by hand after 3m": EndTold(Ending.BY_HAND, Severity.DOWN, MINUTES, MINUTES, by=ALICE),
    "closed after 3m: it was stopped; it stays down until started": EndTold(
        Ending.STOPPED, Severity.DOWN, MINUTES, MINUTES
    ),
    "closed after 3m, as nobody watches it any more: it moved; how it is now is not known": EndTold(
        Ending.UNWATCHED, Severity.DOWN, MINUTES, MINUTES, sentence="it moved"
    ),
}


@pytest.mark.parametrize(("told", "reply"), REPLIES.items())
def test_in_plain_words(told: str, reply: IncidentReply) -> None:
    assert tell_plain(reply) == told


@pytest.mark.parametrize("reply", REPLIES.values(), ids=lambda reply: type(reply).__name__)
def test_the_words_people_search_for_stand_where_they_belong(reply: IncidentReply) -> None:
    told = tell_plain(reply)
    here = {word for word in Searched if word in told}
    ended = isinstance(reply, EndTold) and reply.ending in {Ending.RECOVERED, Ending.BY_HAND}
    assert here == ({Searched.RESOLVED} if ended else set())


HIDDEN = Sign(SignKind.HIDDEN, BEGAN, "SSH is refused (connection refused)")


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (WorsenedTold(DIED), f"down now: {DIED.sentence}"),
        (WorsenedTold(HIDDEN, Severity.HOST), f"out of sight now: {HIDDEN.sentence}"),
        (
            AgainTold(HIDDEN, 2, MINUTES, Severity.HOST),
            f"out of sight again after 3m in sight, for the 2nd time: {HIDDEN.sentence}",
        ),
        (AgainTold(DIED, 2, None, Severity.HOST), f"gone again, for the 2nd time: {DIED.sentence}"),
        (AgainTold(DIED, 1, MINUTES, Severity.DEGRADED), f"degraded now after 3m well: {DIED.sentence}"),
    ],
)
def test_how_it_stands_now_is_said_with_its_sign(reply: IncidentReply, told: str) -> None:
    assert tell_plain(reply) == told


def test_of_many_names_the_rest_is_counted() -> None:
    assert name_some(["a", "b"], 2) == "a and b"
    assert name_some([*"abcd"], 2) == "a, b and 2 more"


def test_an_attempt_of_which_nothing_is_known() -> None:
    assert tell_attempt(Attempt(1, MEMBER, InvocationId("b" * 32), BEGAN), 1) == "attempt 1 died"
    assert tell_attempt(Attempt(2, MEMBER, InvocationId("b" * 32), BEGAN), 2) == "attempt 2 died the same way"


def test_the_rank_is_named_once() -> None:
    assert tell_run(RunRead("TP3 is gone", rank="TP3")) == "TP3 is gone"


@pytest.mark.parametrize(
    ("number", "told"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd"), (113, "113th")],
)
def test_ordinals(number: int, told: str) -> None:
    assert ordinal(number) == told


def test_times_are_in_each_readers_own_zone() -> None:
    stamp = int(BEGAN.timestamp())
    assert say_clock(BEGAN) == f"<!date^{stamp}^{{time_secs}}|03:12:41 UTC>"
    assert say_when(BEGAN) == f"<!date^{stamp}^{{date_short_pretty}} {{time}}|29 May 03:12 UTC>"


@pytest.mark.parametrize("how", list(How))
def test_how_it_began_is_said_of_each_kind(how: How) -> None:
    told = tell_how(how, 4)
    assert ("restart counter 4" in told) == (how is How.SYSTEMD)
    assert not [word for word in Searched if word in told]
