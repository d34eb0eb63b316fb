"""The pictures: whole PNGs of a phone's width, opaque, with something drawn in each part, for any past."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot import chart
from bot.chart import BAD, FRAME, GROUND, draw_history, draw_waterfall
from bot.core.account import Account
from bot.core.actions import Verdict
from bot.core.events import PhaseId
from bot.core.history import make_history
from bot.core.picture import Subject, make_waterfall
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


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", [*chart._COLOURS.values(), chart.BAD_FILL, chart.FRAME, chart._REST])
def test_every_fill_stands_out_from_the_ground(colour: str) -> None:
    assert contrast(colour, GROUND) >= 3


@pytest.mark.parametrize("colour", [chart.TEXT, chart.DIM, BAD])
def test_every_text_can_be_read(colour: str) -> None:
    assert contrast(colour, GROUND) >= 4.5


def test_every_phase_has_a_colour_of_its_own() -> None:
    assert set(chart._COLOURS) == set(PhaseId)
    assert len(set(chart._COLOURS.values())) == len(PhaseId)


@pytest.mark.parametrize("ranks", [0, 1, 8, 16, 64])
def test_a_waterfall_of_any_number_of_ranks(ranks: int) -> None:
    picture = looked_at(draw_waterfall(healthy_waterfall(ranks, draft=ranks == 8)))
    for top, bottom in ((0.02, 0.2), (0.3, 0.5), (0.8, 0.97)):
        assert picture.colours(top=top, bottom=bottom) > 8
    assert not picture.holds(BAD)
    assert picture.holds(chart._COLOURS[PhaseId.WEIGHTS])


def test_what_failed_is_framed() -> None:
    assert looked_at(draw_waterfall(failed_waterfall())).holds(BAD)


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
