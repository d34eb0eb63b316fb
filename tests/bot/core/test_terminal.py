"""Messages as a terminal shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings

from bot.core.blocks import Message, make_message, section
from bot.core.render import render_reply, render_root
from bot.core.report import render_stall, render_verdict
from bot.core.terminal import render_terminal
from tests.bot.core.test_report import HEALTHY, STALL
from tests.support.startup_views import MIDWAY, midway, replies, views

if TYPE_CHECKING:
    from bot.core.actions import Reply, StartupView

NAMES = {"U0ALICE": "alice", "S0ONCALL": "oncall", "C0OPS": "ops"}


def test_a_root_reads_as_on_screen() -> None:
    told = render_terminal(render_root(MIDWAY), width=100, names=NAMES)
    assert told.replace("\N{NO-BREAK SPACE}", " ").split("\n") == [
        "kimi-k2.5 is restarting on llm-two · loading weights",
        "▓▓▓▓▓▓▓░░░░░ 38 of 64 shards · 3m10s in this phase (usual 5m) · about 4 min to ready",
        "8 of 8 ranks loading weights",
        "✓ stop 14s   ✓ process 9s   ✓ distributed 22s   ▸ weights   · memory   · graphs   · draft weights",
        "· smoke test",
        "restarted by @alice: “new tool-call parser” · last sign of life 2s ago",
        "[Logs] [Stop watching]",
    ]


def test_the_table_is_aligned() -> None:
    told = render_terminal(render_verdict(HEALTHY, MIDWAY))
    assert "    Phase           Took  Usual\n    weights        5m04s  5m10s\n" in told


def test_log_text_keeps_its_length() -> None:
    told = render_terminal(render_stall(STALL, MIDWAY), width=40)
    assert f"    {STALL.last_lines[0]}" in told.split("\n")


def test_marks_of_slack_become_what_they_mean() -> None:
    markup = (
        "*bold* <@U0ALICE> <@U0X|x> <!subteam^S0ONCALL> <#C0OPS> <https://x.example|there> "
        "<!date^1^{time}|23:49> a &lt;b&gt; &amp; c 2*3*4"
    )
    assert render_terminal(make_message("t", section(markup)), width=200, names=NAMES) == (
        "bold @alice @x @oncall #ops there (https://x.example) 23:49 a <b> & c 2*3*4"
    )


def test_a_message_without_blocks_shows_its_text() -> None:
    assert render_terminal(Message("*plain* text")) == "plain text"


def test_an_unknown_block_is_named() -> None:
    assert render_terminal(Message("t", ({"type": "divider"},))) == "(divider)"


@settings(max_examples=60, deadline=None)
@given(views, replies)
def test_anything_can_be_shown(view: StartupView, reply: Reply) -> None:
    assert render_terminal(render_root(view), width=60)
    assert render_terminal(render_reply(reply, view), width=1)


def test_people_keep_their_ids_where_no_name_is_known() -> None:
    assert "restarted by @U0ALICE" in render_terminal(render_root(midway(reason="")))
