"""The root message and the one-line replies of a startup's thread."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from bot.core.actions import (
    Mark,
    MovedAgain,
    Noticed,
    Pace,
    PhaseFinished,
    PhaseView,
    Progress,
    RankTime,
    RankView,
    Reply,
    StartupView,
    Verdict,
)
from bot.core.events import MAIN_RANK, PhaseId, Rank, Role, UserId, Verb
from bot.core.render import render_reply, render_root
from bot.core.words import Searched
from tests.support.slack_messages import (
    assert_sendable,
    button_values,
    kinds,
    labels,
    markups,
    preformatted,
    shown,
)
from tests.support.startup_views import MIDWAY, mark, midway, ranks_in, replies, seconds, views

quick = settings(max_examples=100, deadline=None)


def test_the_root_midway() -> None:
    message = render_root(midway(notes=("412 GB of 547 GB read, 1.9 GB/s",)))
    headline, bar, ranks, note = markups(message)[0].split("\n")
    assert headline == "*kimi-k2.5* is restarting on llm-two · loading weights"
    assert bar == "▓▓▓▓▓▓▓░░░░░ 38 of 64 shards · 3m10s in this phase (usual 5m) · about 4 min to ready"
    assert ranks == "8 of 8 ranks loading weights"
    assert note == "412 GB of 547 GB read, 1.9 GB/s"
    assert markups(message)[1].replace("\N{NO-BREAK SPACE}", " ").split("   ") == [
        "✓ stop 14s",
        "✓ process 9s",
        "✓ distributed 22s",
        "*▸ weights*",
        "· memory",
        "· graphs",
        "· draft weights",
        "· smoke test",
    ]
    assert markups(message)[2] == (
        "restarted by <@U0ALICE>: “new tool-call parser” · last sign of life 2s ago"
    )
    assert labels(message) == ["Logs", "Stop watching"]
    assert button_values(message)["kimi:logs"] == {"o": "op1", "s": "kimi-k2.5"}
    assert message.text == (
        "*kimi-k2.5* is restarting on llm-two · loading weights 38/64 · about 4 min to ready"
    )


@quick
@given(views)
def test_any_root_is_sendable_and_keeps_its_block_types(view: StartupView) -> None:
    message = render_root(view)
    assert_sendable(message)
    assert kinds(message) == ["section", "context", "context", "actions"]


@quick
@given(replies, views)
def test_any_reply_is_sendable(reply: Reply, view: StartupView) -> None:
    assert_sendable(render_reply(reply, view))


def test_an_edit_has_new_block_ids() -> None:
    before, after = render_root(MIDWAY), render_root(midway(last_sign=seconds(5)))
    ids = [{block["block_id"] for block in message.blocks} for message in (before, after)]
    assert not ids[0] & ids[1]


def test_the_laggard_is_named() -> None:
    late = ranks_in(PhaseId.WEIGHTS, ended=(0, 1, 2, 4, 5, 6, 7))
    assert "7 of 8 ranks have finished weight loading; waiting for TP3" in shown(
        render_root(midway(ranks=late))
    )


def test_ranks_left_behind_in_another_phase_are_named() -> None:
    ranks = (*ranks_in(PhaseId.WEIGHTS)[1:], RankView(Rank("TP0"), PhaseId.DISTRIBUTED, Role.TARGET))
    assert "7 of 8 ranks loading weights; TP0 still in rank connection" in shown(
        render_root(midway(ranks=ranks))
    )


def test_ranks_not_seen_yet_are_waited_for_once_the_process_runs() -> None:
    parent = RankView(MAIN_RANK, PhaseId.PROCESS, Role.TARGET)
    assert "waiting for 8 ranks" in shown(render_root(midway(ranks=(parent,), phase=PhaseId.PROCESS)))
    assert "waiting for" not in shown(render_root(midway(ranks=(), phase=PhaseId.STOPPING)))


def test_a_phase_that_no_rank_is_in_says_nothing_about_ranks() -> None:
    told = shown(render_root(midway(phase=PhaseId.WARMUP, ranks=ranks_in(PhaseId.GRAPHS))))
    assert "ranks" not in told


@pytest.mark.parametrize("verdict", [None, Verdict.HEALTHY, Verdict.FAILED])
def test_a_notification_says_that_nobody_here_asked_for_the_start(verdict: Verdict | None) -> None:
    asked, found = (midway(verb=Verb.WATCH, by=by, verdict=verdict) for by in (UserId("U0ALICE"), None))
    assert "started outside chat" in render_root(found).text
    assert "started outside chat" not in render_root(asked).text


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"pace": Pace.SLOW}, "slower than usual: usual 5m, now 3m10s"),
        ({"pace": Pace.STALLED}, "⚠️ no progress while loading weights"),
        ({"lost": "llm-two does not answer"}, "⚠️ llm-two does not answer"),
        ({"last_sign": None}, "no sign of life yet"),
        ({"verb": Verb.WATCH, "by": None}, "started outside chat"),
        (
            {"verb": Verb.WATCH, "by": None, "reason": "with its host"},
            "started outside chat: with its host",  # nobody said that: no marks of speech
        ),
        ({"verb": Verb.STOP}, "*kimi-k2.5* is stopping on llm-two"),
        ({"by": None, "reason": "nightly"}, "restarted by kimi: “nightly”"),
        ({"eta": None}, "3m10s in this phase (usual 5m)"),
        ({"eta_span": (seconds(180), seconds(360))}, "about 3 to 6 min to ready"),
        ({"eta": None, "eta_after": seconds(130)}, "about 2 min to ready once this phase is done"),
        ({"eta": None, "eta_phase": seconds(200)}, "3m10s in this phase (usual 5m) · about 3 min left of it"),
        ({"measured": "412 GB of 547 GB read, 1.9 GB/s"}, "412 GB of 547 GB read, 1.9 GB/s"),
        ({"phases": ()}, "no phase yet"),
        ({"hosts": ()}, "on its host"),
    ],
)
def test_what_the_root_says(changes: dict[str, object], told: str) -> None:
    assert told in shown(render_root(midway(**changes)))


def test_where_the_log_shows_no_bar_the_bytes_do() -> None:
    phases = (PhaseView(PhaseId.WEIGHTS, Role.TARGET, Mark.NOW, took=seconds(190)),)
    told = shown(render_root(midway(phases=phases, share=0.753)))
    assert "▓▓▓▓▓▓▓▓▓░░░ 75% read · " in told


def test_a_full_bar_is_not_the_end() -> None:
    for done, told in (
        (64, "64 of 64 shards, but not done yet"),
        (63, "63 of 64 shards ·"),
    ):
        phases = (mark(PhaseId.WEIGHTS, Mark.NOW, 190, progress=Progress(done, 64)),)
        assert told in shown(render_root(midway(phases=phases)))


def test_a_stalled_root_promises_nothing() -> None:
    for changes in ({}, {"eta": None, "eta_after": seconds(130)}, {"eta": None, "eta_phase": seconds(130)}):
        message = render_root(midway(pace=Pace.STALLED, **changes))
        assert "to ready" not in shown(message) + message.text
        assert "left of it" not in shown(message)


def test_a_failed_root_names_the_phase_that_failed_not_the_one_it_came_out_in() -> None:
    phases = (mark(PhaseId.SERVER, Mark.FAILED, 7), mark(PhaseId.READY, Mark.DONE, 1))
    message = render_root(midway(verdict=Verdict.FAILED, phase=PhaseId.READY, phases=phases))
    assert message.text.endswith("after 3m55s while opening the server")


def test_between_two_phases_no_time_is_told_for_the_next() -> None:
    phases = (mark(PhaseId.WARMUP, Mark.DONE, 15), PhaseView(PhaseId.READY, Role.TARGET, Mark.NOW))
    between = midway(phase=PhaseId.READY, phases=phases, usual_phase=None, eta=None)
    assert "in this phase" not in shown(render_root(between))
    first = midway(phase=PhaseId.STOPPING, phases=(PhaseView(PhaseId.STOPPING, Role.TARGET, Mark.NOW),))
    assert "3m10s in this phase" in shown(render_root(first))


def test_the_rest_of_the_time_it_must_hold_is_no_mark_once_it_is_over() -> None:
    phases = (mark(PhaseId.SMOKE, Mark.DONE, 26), mark(PhaseId.READY, Mark.NOW, 1))
    assert "*▸\N{NO-BREAK SPACE}stays\N{NO-BREAK SPACE}up*" in shown(render_root(midway(phases=phases)))
    over = (phases[0], mark(PhaseId.READY, Mark.DONE, 4))
    assert "stays" not in shown(render_root(midway(phases=over)))


def test_one_rank_has_finished() -> None:
    told = shown(render_root(midway(ranks=ranks_in(PhaseId.WEIGHTS, ended=(2,)))))
    assert "1 of 8 ranks has finished weight loading\n" in told


def test_ranks_connect() -> None:
    told = shown(render_root(midway(phase=PhaseId.DISTRIBUTED, ranks=ranks_in(PhaseId.DISTRIBUTED))))
    assert "8 of 8 ranks connecting\n" in told + "\n"


@pytest.mark.parametrize(
    ("verdict", "headline"),
    [
        (Verdict.HEALTHY, "✅ *kimi-k2.5* is *healthy* on llm-two after 3m55s (usual 7m40s)"),
        (Verdict.FAILED, "❌ *kimi-k2.5* *failed* on llm-two after 3m55s while loading weights"),
        (Verdict.STOPPED, "*kimi-k2.5* is stopped on llm-two after 3m55s"),
        (Verdict.UNWATCHED, "*kimi-k2.5* is no longer watched; the service is left alone"),
        (Verdict.SUPERSEDED, "*kimi-k2.5*: this thread is over, another operation was begun"),
    ],
)
def test_the_root_at_the_end(verdict: Verdict, headline: str) -> None:
    message = render_root(midway(verdict=verdict))
    assert markups(message)[0] == message.text == headline
    assert "to ready" not in shown(message)
    assert "sign of life" not in shown(message)
    assert labels(message) == ["Logs"]


def test_the_cause_stands_in_the_failed_root() -> None:
    told = shown(render_root(midway(verdict=Verdict.FAILED, cause="TP3 ran out of GPU memory.")))
    assert "TP3 ran out of GPU memory." in told


def test_a_root_under_way_says_no_word_that_is_searched_for() -> None:
    for pace in Pace:
        message = render_root(midway(pace=pace))
        assert not any(word in shown(message) + message.text for word in Searched)


def test_what_people_wrote_cannot_mention_or_link() -> None:
    message = render_root(midway(reason="<!here> see <https://evil.example|this> & that"))
    assert "&lt;!here&gt; see &lt;https://evil.example|this&gt; &amp; that" in markups(message)[2]


def test_a_finished_phase_is_one_line() -> None:
    reply = PhaseFinished(
        PhaseId.WEIGHTS,
        Role.TARGET,
        seconds(304),
        seconds(310),
        RankTime(Rank("TP5"), seconds(304)),
        RankTime(Rank("TP2"), seconds(251)),
    )
    message = render_reply(reply, MIDWAY)
    assert message.text == "Weights loaded in 5m04s (usual 5m10s). Slowest: TP5, 5m04s; fastest: TP2, 4m11s."
    assert markups(message) == [message.text]


def test_no_finished_phase_says_a_word_that_is_searched_for() -> None:
    for phase in PhaseId:
        for role in Role:
            message = render_reply(PhaseFinished(phase, role, seconds(3)), MIDWAY)
            assert not any(word in shown(message) + message.text for word in Searched)


def test_moving_again_shows_what_moved_as_log_text() -> None:
    reply = MovedAgain(PhaseId.GRAPHS, Role.TARGET, seconds(720), "[TP0] <b>Capturing</b> 12/23")
    message = render_reply(reply, MIDWAY)
    assert message.text == "*moving again* after 12m without progress, in graph capture."
    assert preformatted(message) == "[TP0] <b>Capturing</b> 12/23"
    assert "<b>" not in "".join(markups(message))


def test_a_notice_names_its_person() -> None:
    message = render_reply(Noticed("Waiting 30m longer.", UserId("U0BOB")), MIDWAY)
    assert message.text == "Waiting 30m longer. (<@U0BOB>)"


def test_the_end_of_a_long_row_of_marks_is_kept() -> None:
    many = (*[mark(PhaseId.WEIGHTS, Mark.DONE, 1)] * 60, mark(PhaseId.SMOKE, Mark.NOW, 1))
    assert markups(render_root(midway(phases=many)))[1].endswith(
        "*▸\N{NO-BREAK SPACE}smoke\N{NO-BREAK SPACE}test*"
    )
