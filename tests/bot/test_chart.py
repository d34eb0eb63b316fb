"""The pictures: whole PNGs of a phone's width, opaque, with something drawn in each part, for any past."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot import chart
from bot.chart import draw_history, draw_waterfall
from bot.core.account import Account
from bot.core.actions import Verdict
from bot.core.events import PhaseId, Role
from bot.core.history import describe_history, make_history
from bot.core.picture import Bar, Lane, Subject, make_waterfall
from bot.core.picture_words import describe_waterfall
from bot.sheet import BAD, COLOURS, FRAME
from tests.support.pictures import Picture, read_png
from tests.support.waterfalls import failed_waterfall, healthy_waterfall, past, start

WIDTH = 936  # dots: 390 points of a phone, and sharp
NO_TIME = datetime.min.replace(tzinfo=UTC)


def looked_at(content: bytes) -> Picture:
    """What holds of every picture."""
    picture = read_png(content)
    assert picture.width == WIDTH
    assert 300 < picture.height < 2_000
    assert picture.opaque
    assert picture.holds(FRAME)
    assert len(content) < 400_000
    return picture


@pytest.mark.parametrize("ranks", [0, 1, 8, 16, 64])
def test_a_waterfall_of_any_number_of_ranks(ranks: int) -> None:
    picture = looked_at(draw_waterfall(healthy_waterfall(ranks, draft=ranks == 8)))
    for top, bottom in ((0.02, 0.2), (0.3, 0.5), (0.8, 0.97)):
        assert picture.colours(top=top, bottom=bottom) > 8
    assert not picture.holds(BAD)
    assert picture.holds(COLOURS[PhaseId.WEIGHTS])


def test_the_file_says_in_words_what_it_shows() -> None:
    waterfall = replace(healthy_waterfall(), title="kimi-k2.5 模型")
    assert looked_at(draw_waterfall(waterfall)).words == describe_waterfall(waterfall)
    made = make_history("kimi-k2.5", [past(1), past(2, Verdict.FAILED)])
    assert made is not None
    assert looked_at(draw_history(made)).words == describe_history(made)


def test_what_failed_is_framed() -> None:
    assert looked_at(draw_waterfall(failed_waterfall())).holds(BAD)


def test_another_failure_has_a_line_of_its_own_in_the_picture() -> None:
    one = looked_at(draw_waterfall(failed_waterfall()))
    also = looked_at(draw_waterfall(failed_waterfall(also="TP6: A weight file is damaged: " + "x " * 200)))
    assert 0 < also.height - one.height < 100


def test_a_log_without_times_is_drawn_too() -> None:
    records = [replace(each, began=NO_TIME, ended=NO_TIME, ranks={}) for each in start(1)]
    made = make_waterfall(Subject("sglang", "ready"), records)
    assert made is not None
    looked_at(draw_waterfall(made))


@pytest.mark.parametrize("name", ["$x_1$ {\\frac} 100%", "模型-🙂\x00\x1b[31m", "n" * 300, ""])
def test_no_name_is_read_as_anything_else(name: str) -> None:
    looked_at(draw_waterfall(replace(healthy_waterfall(), title=name, verdict=name, note=name)))


@pytest.mark.parametrize("number", [1, 2, 3, 30])
def test_a_history_of_any_length(number: int) -> None:
    verdicts = [Verdict.FAILED if place % 7 == 3 else Verdict.HEALTHY for place in range(number)]
    made = make_history("kimi-k2.5", [past(days, verdict) for days, verdict in enumerate(verdicts, 1)])
    assert made is not None
    picture = looked_at(draw_history(made))
    assert picture.colours(top=0.3, bottom=0.7) > 8
    assert picture.holds(BAD) == (number > 3)


def test_a_history_without_accounts_is_drawn_too() -> None:
    made = make_history("kimi-k2.5", [past(days, known=Account()) for days in range(1, 4)])
    assert made is not None
    looked_at(draw_history(made))


def test_what_took_far_longer_than_the_healthy_ones_is_cut() -> None:
    given_up = replace(
        past(2, Verdict.FAILED), account=Account(7_200.0, past(2, Verdict.FAILED).account.phases)
    )
    made = make_history("kimi-k2.5", [past(1), given_up, past(3)])
    assert made is not None
    assert made.cut
    looked_at(draw_history(made))


def test_a_number_stands_where_no_inner_bar_covers_it() -> None:
    outer = Bar(PhaseId.WARMUP, Role.TARGET, 0, 100)
    inner = Bar(PhaseId.COMPILE, Role.TARGET, 20, 60, inner=True)
    lane = Lane("all", (outer, inner))
    assert chart._free_part(outer, lane) == (60, 100)
    assert chart._free_part(inner, lane) == (20, 60)
    covered = Lane("all", (outer, replace(inner, began=0, ended=100)))
    assert chart._free_part(outer, covered) == (0, 0)


def test_two_at_once_are_drawn_one_after_the_other() -> None:
    drawn: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: drawn.append(draw_waterfall(healthy_waterfall(2)))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 3
    assert len(set(drawn)) == 1
