"""The sheet: what can be told apart on it, and text of any kind."""

from __future__ import annotations

import pytest

from bot.core.events import PhaseId, Role
from bot.sheet import (
    BAD,
    BAD_FILL,
    COLOURS,
    DIM,
    FRAME,
    GROUND,
    REST,
    SMALLEST,
    TEXT,
    Sheet,
    fill_of,
    round_steps,
    spell,
)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", [*COLOURS.values(), BAD_FILL, FRAME, REST])
def test_every_fill_stands_out_from_the_ground(colour: str) -> None:
    assert contrast(colour, GROUND) >= 3


@pytest.mark.parametrize("colour", [TEXT, DIM, BAD])
def test_every_text_can_be_read(colour: str) -> None:
    assert contrast(colour, GROUND) >= 4.5


def test_every_phase_has_a_colour_of_its_own() -> None:
    assert set(COLOURS) == set(PhaseId)
    assert len(set(COLOURS.values())) == len(PhaseId)


def test_what_looks_alike_in_grey_has_a_hatch_or_a_light_of_its_own() -> None:
    looks = {
        (fill_of(phase, role)["facecolor"], fill_of(phase, role)["hatch"])
        for phase in PhaseId
        for role in Role
    }
    assert len(looks) == len(PhaseId) * len(Role)


@pytest.mark.parametrize(
    ("seconds", "told"), [(451, ["0s", "2m", "4m", "6m"]), (8, ["0s", "2s", "4s", "6s", "8s"])]
)
def test_an_axis_has_few_and_round_numbers(seconds: float, told: list[str]) -> None:
    assert [spell(tick) for tick in round_steps(seconds, 5)] == told


@pytest.mark.parametrize("seconds", [0.2, 1, 59, 3_601, 400_000, 9_000_000])
def test_an_axis_never_has_more_numbers_than_a_phone_shows(seconds: float) -> None:
    assert 1 < len(round_steps(seconds, 5)) <= 6


def test_what_the_font_has_no_sign_for_is_no_empty_box() -> None:
    sheet = Sheet.of(1.0)
    sheet.write(0.1, 0.1, "模型 $x$ 🙂")
    assert [text.get_text() for text in sheet.figure.texts] == ["?? $x$ ?"]


def test_what_is_too_wide_is_made_smaller_then_cut() -> None:
    sheet = Sheet.of(1.0)
    for text, end in (("TP3", True), ("DP1 TP10 EP3", True), ("W" * 90, True), ("W" * 90, False)):
        sheet.write(0.1, 0.1, text, 9.5, within=0.78, end=end)
    short, long, cut, other = sheet.figure.texts
    assert (short.get_text(), short.get_fontsize()) == ("TP3", 9.5)
    assert long.get_text() == "DP1 TP10 EP3"
    assert SMALLEST <= float(long.get_fontsize()) < 9.5
    assert cut.get_text().startswith("…W")
    assert other.get_text().endswith("W…")
    sheet.figure.draw_without_rendering()
    widths = [text.get_window_extent().width / sheet.figure.dpi for text in sheet.figure.texts]
    assert all(width < 0.8 for width in widths)
