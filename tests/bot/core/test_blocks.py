"""Escaping, cutting and the shapes of blocks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.blocks import (
    MOST_FALLBACK,
    actions,
    button,
    clean,
    confirm,
    context,
    cut,
    fit,
    join_within,
    link,
    make_message,
    mention,
    mention_channel,
    mention_group,
    pack,
    pack_subject,
    preformatted,
    say,
    say_code,
    say_name,
    section,
    table,
    weigh,
)
from bot.practice.slack_blocks import check_blocks
from tests.support.slack_messages import assert_sendable
from tests.support.startup_views import hostile

quick = settings(max_examples=100, deadline=None)


def test_only_three_characters_are_escaped() -> None:
    assert fit("a & b <c> \"d\" 'e' *f*", 200) == "a &amp; b &lt;c&gt; \"d\" 'e' *f*"


@pytest.mark.parametrize(
    ("dirty", "kept"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;https://x.example\x07label\x1b]8;;\x07", "label"),
        ("bell\x07 nul\x00 del\x7f c1\x9b", "bell nul del c1"),
        ("a\tb\nc\r\nd\re", "a\tb\nc\nde"),
        ("\u202eevil\u2066", "evil"),
        ("half \ud83d pair", "half  pair"),
    ],
)
def test_what_a_terminal_would_obey_is_dropped(dirty: str, kept: str) -> None:
    assert clean(dirty) == kept


@quick
@given(hostile, st.integers(10, 400), st.booleans())
def test_fitted_text_never_passes_its_bound(text: str, most: int, escaped: bool) -> None:
    told = fit(text, most, escaped=escaped)
    assert weigh(told) - 2 <= most
    assert len(told) <= most


@quick
@given(hostile, st.integers(30, 300))
def test_a_cut_never_leaves_half_an_entity(text: str, most: int) -> None:
    told = cut(fit(text, 2_000), most)
    rest = told.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")
    assert not set("&<>") & set(rest)
    assert weigh(told) - 2 <= most


def test_short_text_is_not_touched() -> None:
    assert fit("all of it", 12 + 6) == "all of it"
    assert cut("all of it", 9) == "all of it"


def test_words_stay_on_one_line() -> None:
    assert say("two\nlines  and\ttabs") == "two lines and tabs"
    assert say_name("a*b\nc") == "*ab c*"
    assert say_code("a`b") == "`ab`"
    assert say_code("``") == "`?`"


def test_only_ids_become_mentions() -> None:
    assert mention("U0ALICE") == "<@U0ALICE>"
    assert mention("<!here>") == "&lt;!here&gt;"
    assert mention_group("S0ONCALL") == "<!subteam^S0ONCALL>"
    assert mention_channel("C0OPS") == "<#C0OPS>"
    assert mention_channel("ops>") == "ops&gt;"


def test_only_web_addresses_become_links() -> None:
    assert link("https://x.example/p1", "the <thread>") == "<https://x.example/p1|the &lt;thread&gt;>"
    assert link("javascript:alert(1)", "it") == "it"
    assert link("https://x.example/a|b", "it") == "it"


def test_what_is_left_out_of_a_list_is_counted() -> None:
    assert join_within(["one", "two"], 100, separator=", ") == "one, two"
    assert (
        join_within(["x" * 30] * 10, 124, separator=" ") == f"{'x' * 30} {'x' * 30} {'x' * 30} … and 7 more"
    )


def test_a_table_keeps_to_its_rows_and_fills_empty_cells() -> None:
    made = table([("Phase", "Took"), *[("", "1s")] * 200])
    assert check_blocks([made]) == []
    assert made["rows"][1][0]["text"] == "-"
    assert made["rows"][-1][0]["text"] == "…"


def test_log_text_is_shown_as_it_stands() -> None:
    made = preformatted("<!here> ``` & *not bold*\n", 500)
    assert made["elements"][0]["elements"] == [{"type": "text", "text": "<!here> ``` & *not bold*"}]


@quick
@given(hostile, hostile)
def test_a_button_value_stays_within_its_limit_and_reads_back(operation: str, service: str) -> None:
    value = pack_subject(operation, service)
    assert len(value) <= 2_000
    assert set(json.loads(value)) <= {"o", "s"}


def test_a_button_carries_what_it_is_about() -> None:
    assert pack(o="op", s="kimi", m=30, r="") == '{"o":"op","s":"kimi","m":30}'
    made = button("Stop", "stop", pack_subject("op", "kimi"), confirm=confirm("Stop?", "Sure?", "Stop"))
    assert made["action_id"] == "kimi:stop"
    assert made["confirm"]["confirm"]["text"] == "Stop"
    assert check_blocks([actions(made)]) == []


def test_block_ids_are_new_whenever_anything_changes() -> None:
    one = make_message("text", section("a"), section("b"))
    same = make_message("text", section("a"), section("b"))
    other = make_message("text", section("a"), section("c"))
    ids = [block["block_id"] for block in one.blocks]
    assert len(set(ids)) == 2
    assert ids == [block["block_id"] for block in same.blocks]
    assert not set(ids) & {block["block_id"] for block in other.blocks}


@quick
@given(hostile)
def test_any_text_makes_a_sendable_message(text: str) -> None:
    told = fit(text, 20_000) or "empty"
    message = make_message(told, section(told), context(told), preformatted(text, 2_000))
    assert_sendable(message)
    assert weigh(message.text) - 2 <= MOST_FALLBACK
