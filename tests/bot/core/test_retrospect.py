"""History and why, as one person reads them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.account import Account, Changed, Failure
from bot.core.actions import Verdict
from bot.core.events import OperationId, PhaseId, Rank, Role, ServiceName, UserId, Verb
from bot.core.incident_state import RunRead
from bot.core.request import Held, Outage
from bot.core.retrospect import (
    MOST_ROWS,
    HistoryView,
    WhyView,
    render_history,
    render_history_root,
    render_why,
)
from bot.core.terminal import render_terminal
from bot.core.words import Searched
from tests.support.slack_messages import assert_sendable
from tests.support.waterfalls import BEGAN, account, past

if TYPE_CHECKING:
    from bot.core.blocks import Message

KIMI = ServiceName("kimi-k2.5")
FAILURE = Failure(
    cause="Out of GPU memory",
    phase=PhaseId.WEIGHTS,
    role=Role.TARGET,
    rank=Rank("TP3"),
    means="More was asked for than the GPU has.",
    advice="Lower the memory fraction.",
    also="the port was taken",
    evidence=("torch.OutOfMemoryError: CUDA out of memory.", "  File <loader>.py"),
    seen="torch 2.4 to 2.9",
)


def shown(message: Message) -> str:
    return render_terminal(message, width=200, names={"U0ALICE": "alice"})


def why(failure: Failure | None = FAILURE, *, since: int = 0) -> WhyView:
    last = past(1, Verdict.FAILED, known=replace(account(good=False), failure=failure))
    return WhyView(KIMI, last, now=BEGAN, healthy_since=since)


def test_history_is_a_table_newest_first_that_leads_to_the_threads() -> None:
    startups = (past(1), past(2, Verdict.FAILED), past(3, Verdict.UNWATCHED, known=Account()))
    message = render_history(HistoryView(KIMI, startups, now=BEGAN, usual=timedelta(seconds=460)))
    assert_sendable(message)
    lines = shown(message).splitlines()
    assert lines[0] == "kimi-k2.5: the last 3 startups, newest first. Usual: 7m40s."
    rows = [" ".join(line.split()) for line in lines[1:]]
    assert rows == [
        "Began (UTC) Verdict Took Slowest phase By",
        "28 May 23:49 healthy 7m31s weights 5m04s (TP5) @alice",
        "27 May 23:49 failed 3m02s weights 2m39s (TP3) @alice",
        "26 May 23:49 unwatched 3m10s - @alice",
    ]
    assert '"url": "https://practice.slack.example/archives/C1/p1"'.replace('"', "'") in str(message.blocks)


def test_the_searched_words_stand_in_the_table_alone() -> None:
    message = render_history(HistoryView(KIMI, (past(1), past(2, Verdict.FAILED)), now=BEGAN))
    outside = " ".join(str(block) for block in message.blocks if block["type"] != "table")
    assert not any(word in outside for word in Searched)
    told = render_why(why())
    assert not any(word in f"{told.text}{told.blocks}" for word in Searched)


def test_a_single_startup_is_not_called_the_last_of_several() -> None:
    message = render_history(HistoryView(KIMI, (past(1),), now=BEGAN))
    assert shown(message).startswith("kimi-k2.5: the one startup on record.\n")


def test_nobody_in_chat_and_no_link_are_said_plainly() -> None:
    message = render_history(HistoryView(KIMI, (replace(past(link=None), by=None),), now=BEGAN))
    assert_sendable(message)
    assert "nobody in chat" in shown(message)
    assert "url" not in str(message.blocks)


def test_a_long_history_shows_the_newest_rows() -> None:
    message = render_history(HistoryView(KIMI, tuple(past(days) for days in range(1, 31)), now=BEGAN))
    assert_sendable(message)
    assert f"and {30 - MOST_ROWS} older ones, in the picture" in shown(message)


def test_no_history_is_said() -> None:
    message = render_history(HistoryView(KIMI, (), now=BEGAN))
    assert message.text == "No startup of `kimi-k2.5` is on record yet."


def test_a_first_start_that_is_under_way_is_said() -> None:
    held = Held(
        OperationId("op1"),
        KIMI,
        Verb.RESTART,
        UserId("U0ALICE"),
        timedelta(minutes=2),
        "weights 12/64",
        "https://slack.example/p1",
    )
    message = render_history(HistoryView(KIMI, (), now=BEGAN, held=held))
    assert_sendable(message)
    assert message.text == (
        "No startup of `kimi-k2.5` has ended yet. It is being restarted by <@U0ALICE>, 2m ago, "
        "weights 12/64: <https://slack.example/p1|see its thread>"
    )


def test_why_explains_and_leads_to_the_thread() -> None:
    message = render_why(why(since=2))
    assert_sendable(message)
    told = shown(message)
    for words in (
        "the restart of 28 May 23:49 UTC (1d ago) went wrong after 3m02s while loading weights, at TP3.",
        "Out of GPU memory",
        "What it means: More was asked for than the GPU has.",
        "Try: Lower the memory fraction.",
        "Another failure, apart from it: the port was taken",
        "Seen with torch 2.4 to 2.9.",
        "    torch.OutOfMemoryError: CUDA out of memory.",
        "restarted by @alice · 2 starts came through since · Its thread (https://practice",
    ):
        assert words in told


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (WhyView(KIMI, None, now=BEGAN), "No startup of kimi-k2.5 on record went wrong."),
        (WhyView(KIMI, None, now=BEGAN, healthy_since=3), "on record went wrong; 3 starts came through."),
        (why(None), "Why is not on record"),
        (why(Failure("the verb was refused", PhaseId.PROCESS, Role.TARGET)), "No line of its log says why"),
        (why(), "no start came through since"),
    ],
)
def test_why_is_honest_about_what_is_not_known(view: WhyView, words: str) -> None:
    assert words in shown(render_why(view)).replace("`", "")


DIED = Outage(
    "3f9a2c11",
    "A GPU kernel touched memory that is not its own",
    timedelta(minutes=13),
    acked_by=UserId("U0ALICE"),
    link="https://practice.slack.example/archives/C1/p9",
    read=RunRead(
        cause="A GPU kernel touched memory that is not its own",
        means="Mostly a fault in a kernel.",
        advice="Try another backend.",
        evidence=("torch.AcceleratorError: CUDA error", "  File <worker>.py"),
    ),
)


def test_why_it_is_down_now_is_what_is_asked_for() -> None:
    message = render_why(WhyView(KIMI, None, now=BEGAN, outage=DIED))
    assert_sendable(message)
    told = shown(message)
    for words in (
        "kimi-k2.5: Incident 3f9a2c11, open for 13m: A GPU kernel touched memory that is not its own ·",
        "@alice is on it: its thread",
        "What it means: Mostly a fault in a kernel.",
        "Try: Try another backend.",
        "    torch.AcceleratorError: CUDA error",
    ):
        assert words in told
    assert "went wrong" not in told


def test_why_it_was_down_is_told_once_the_outage_is_over() -> None:
    over = replace(DIED, over=timedelta(minutes=3))
    message = render_why(WhyView(KIMI, None, now=BEGAN, before=over, healthy_since=1))
    assert_sendable(message)
    told = shown(message)
    assert "kimi-k2.5: Incident 3f9a2c11, ended 3m ago after 10m: A GPU kernel touched memory" in told
    assert "is on it" not in told
    assert "What it means: Mostly a fault in a kernel." in told
    unread = shown(render_why(WhyView(KIMI, None, now=BEGAN, before=replace(over, read=None))))
    assert "No line of a log says why: this is what the checks saw." in unread
    later = shown(render_why(replace(why(), before=replace(over, age=timedelta(days=2)))))
    assert later.startswith("kimi-k2.5: the restart of 28 May 23:49 UTC")
    assert "Incident" not in later


def test_why_of_an_outage_that_no_log_explains_says_so() -> None:
    message = render_why(WhyView(KIMI, None, now=BEGAN, outage=replace(DIED, read=None)))
    assert "No line of a log says why so far" in shown(message)


def test_a_start_that_failed_before_the_outage_is_one_line_beside_it() -> None:
    told = shown(render_why(replace(why(), outage=DIED)))
    assert "Of the starts before it, the restart of 28 May 23:49 UTC (1d ago) went wrong after 3m02s" in told
    assert told.index("Mostly a fault") < told.index("Of the starts before it")
    assert "Out of GPU memory" not in told


def test_a_start_that_failed_amid_the_outage_is_told_whole_under_it() -> None:
    told = shown(render_why(replace(why(), outage=replace(DIED, age=timedelta(days=2)))))
    assert told.startswith("Incident 3f9a2c11, open for 2d: ")
    assert "Out of GPU memory" in told
    assert "Mostly a fault" not in told


def test_what_is_said_of_a_watch_is_said_of_the_start_it_followed() -> None:
    view = why()
    assert view.last is not None
    told = shown(render_why(replace(view, last=replace(view.last, verb=Verb.WATCH))))
    assert "the start of 28 May 23:49 UTC (1d ago) went wrong" in told


def test_the_versions_it_ran_are_told_where_they_are_known() -> None:
    known = replace(account(good=False), failure=FAILURE, versions={"sglang": "0.5.10", "torch": "2.9"})
    told = shown(render_why(WhyView(KIMI, past(1, Verdict.FAILED, known=known), now=BEGAN)))
    assert "ran sglang 0.5.10 and torch 2.9" in told


def test_why_repeats_what_had_changed() -> None:
    changed = Changed(
        ("--tp 4 → 8", "+ NCCL_DEBUG=INFO", "- --x <y>"), more=3, since=BEGAN - timedelta(days=3)
    )
    known = replace(account(good=False), failure=FAILURE, changed=changed)
    message = render_why(WhyView(KIMI, past(1, Verdict.FAILED, known=known), now=BEGAN))
    assert_sendable(message)
    told = shown(message)
    assert "Changed since the last good start (" in told
    for line in ("• --tp 4 → 8", "• + NCCL_DEBUG=INFO", "• - --x <y>", "• and 3 more"):
        assert line in told.replace("`", "")
    assert "Changed since" not in shown(render_why(why()))


def test_the_picture_in_the_channel_says_who_asked() -> None:
    message = render_history_root(KIMI, UserId("U0ALICE"))
    assert message.text == "Past startups of `kimi-k2.5`, asked for by <@U0ALICE>:"


hostile = st.sampled_from(["<!here>", "```", "x" * 5_000, "\x1b[31m\x00", "*_~", "&lt;", ""]) | st.text()


failures = st.builds(
    Failure,
    cause=hostile,
    phase=st.sampled_from(PhaseId),
    role=st.sampled_from(Role),
    rank=hostile,
    means=hostile,
    advice=hostile,
    also=hostile,
    evidence=st.lists(hostile, max_size=12).map(tuple),
)
changes = st.builds(
    Changed, told=st.lists(hostile, min_size=1, max_size=40).map(tuple), more=st.integers(0, 9)
)


@settings(max_examples=60, deadline=None)
@given(hostile, failures, changes)
def test_whatever_is_on_record_slack_takes_it(name: str, failure: Failure, changed: Changed) -> None:
    known = replace(account(good=False), failure=failure, changed=changed)
    last = past(1, Verdict.FAILED, known=known, link=name)
    last = replace(last, by=UserId(name))
    assert_sendable(render_why(WhyView(ServiceName(name), last, now=BEGAN)))
    assert_sendable(render_history(HistoryView(ServiceName(name), (last,) * 30, now=BEGAN)))
