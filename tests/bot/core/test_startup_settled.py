"""What becomes of an order that a process had under way when it died: settled, then given once at most."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.core.actions import Noticed, Resumed, SendVerb, SettleVerb, Verdict
from bot.core.events import Verb, VerbMissed, VerbSent, VerbUnanswered
from bot.core.startup_state import Sent
from tests.support.startup_runs import (
    MEMBER,
    OLD,
    OLD_RUNNING,
    OTHER,
    READY_LINE,
    RUNNING,
    UP,
    Run,
    make_plan,
)


def died(run: Run) -> None:
    """Amid the order, and taken up by the next process."""
    run.pass_time(20)
    run.restore()
    run.actions.extend(run.startup.resume(run.now, away=timedelta(seconds=20)))


def run_on(run: Run) -> None:
    run.answer = UP
    run.observe(RUNNING)
    run.say(READY_LINE)
    run.wait_for_verdict()


def test_what_never_arrived_is_ordered_now_without_a_word() -> None:
    run = Run()
    run.begin()
    died(run)
    assert run.orders(SettleVerb) == [SettleVerb(MEMBER)]
    assert len(run.orders(SendVerb)) == 1
    run.tell(VerbMissed(MEMBER, run.now))
    assert run.orders(SendVerb) == [SendVerb(MEMBER, Verb.RESTART)] * 2
    run.tell(VerbSent(MEMBER))
    run_on(run)
    assert run.startup.verdict is Verdict.HEALTHY
    assert run.replies(Noticed) == []
    assert len(run.replies(Resumed)) == 1


def test_what_arrived_is_followed_without_a_word() -> None:
    run = Run()
    run.begin()
    died(run)
    run.tell(VerbSent(MEMBER))
    run_on(run)
    assert run.startup.verdict is Verdict.HEALTHY
    assert run.replies(Noticed) == []
    assert len(run.orders(SendVerb)) == 1


def test_what_remains_in_doubt_is_told_and_never_repeated() -> None:
    run = Run()
    run.begin()
    died(run)
    run.tell(VerbUnanswered(MEMBER, "kimi itself went away before the answer came"))
    assert "not sent again" in run.replies(Noticed)[0].sentence
    run.observe(OLD_RUNNING)
    run.wait_for_verdict(62)
    assert run.startup.verdict is Verdict.FAILED
    assert len(run.orders(SendVerb)) == 1


def test_while_it_is_being_settled_nothing_is_concluded() -> None:
    run = Run()
    run.begin()
    died(run)
    run.observe(OLD_RUNNING)
    run.wait(110)
    assert run.startup.verdict is None


def test_each_death_may_cost_one_more_order() -> None:
    run = Run()
    run.begin()
    for deaths in range(1, 4):
        died(run)
        assert len(run.orders(SettleVerb)) == deaths
        run.tell(VerbMissed(MEMBER, run.now))
        assert len(run.orders(SendVerb)) == deaths + 1


def test_only_what_is_under_way_can_have_been_missed() -> None:
    run = Run()
    run.begin()
    run.tell(VerbUnanswered(MEMBER, "link lost"))  # of this very process: it is never repeated
    run.tell(VerbMissed(MEMBER, run.now))
    died(run)
    assert run.orders(SettleVerb) == []
    assert len(run.orders(SendVerb)) == 1


@pytest.mark.parametrize(("seconds", "given"), [(200, True), (400, False)])
def test_nobody_expects_an_order_long_after_it_was_asked_for(seconds: int, *, given: bool) -> None:
    run = Run()
    run.begin()
    run.pass_time(seconds)
    died(run)
    asked = run.now
    run.pass_time(300)  # the settling itself may take what it takes
    run.tell(VerbMissed(MEMBER, asked))
    assert len(run.orders(SendVerb)) == 1 + given
    assert run.startup.verdict is (None if given else Verdict.FAILED)
    if not given:
        assert "kimi went away before it reached llm-two" in (run.verdict.cause or "")


def test_each_member_is_settled_by_itself() -> None:
    run = Run(make_plan(members=(MEMBER, OTHER), before={MEMBER: OLD, OTHER: OLD}))
    run.begin()
    run.tell(VerbSent(OTHER))
    died(run)
    assert run.orders(SettleVerb) == [SettleVerb(MEMBER)]
    run.tell(VerbMissed(MEMBER, run.now))
    assert run.orders(SendVerb)[2:] == [SendVerb(MEMBER, Verb.RESTART)]
    assert run.startup.state.members[OTHER].sent is Sent.ACCEPTED
