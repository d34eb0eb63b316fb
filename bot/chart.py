"""Draws the pictures: a startup's waterfall by rank, and durations over time. PNG bytes, for a phone.

Nothing here knows a loop: a drawing takes some tenths of a second and belongs into a thread. Figures are
made and drawn without the library's global state, one at a time, since its fonts are not for two threads.
"""

from __future__ import annotations

import threading
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from matplotlib.patches import Polygon, Rectangle

from bot.core.actions import Mark
from bot.core.history import describe_history
from bot.core.picture_words import describe_waterfall, named_shares
from bot.core.words import label_phase, spell_duration
from bot.sheet import (
    BAD,
    BAD_FILL,
    DARK,
    DIM,
    FRAME,
    GRID,
    GROUND,
    LARGE,
    LARGEST,
    NORMAL,
    REST,
    SMALL,
    TEXT,
    WIDTH,
    Sheet,
    fill_of,
    make_rectangle,
    round_steps,
    spell,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bot.core.events import PhaseId, Role
    from bot.core.history import Column, History, Layer
    from bot.core.picture import Bar, Lane, Share, Waterfall

_BAD_SIGNS = frozenset({"✗", "!"})
_DRAWING = threading.Lock()

# ---- the waterfall -----------------------------------------------------------------------------------------

_LEFT, _RIGHT, _ROW, _LOW_ROW, _HEAD, _LINE, _KEY = 0.86, 0.16, 0.30, 0.215, 0.70, 0.22, 0.215  # inches
_HIGH_ROWS = 9  # more are lower, so that sixteen ranks still fit a phone
_WIDE = WIDTH - 0.28  # inches, of a line of text
_LETTERS = 56  # of one, mostly
_SHORT_NAME = 5  # letters, beside which a word has room
_SIGNS = {Mark.FAILED: "✗ ", Mark.STALLED: "! "}


def draw_waterfall(waterfall: Waterfall) -> bytes:
    """Rows are ranks, bars their phases by number; below stands what each number is and took."""
    with _DRAWING:
        lanes = (waterfall.whole, *waterfall.lanes)
        shares, rest = named_shares(waterfall)
        keys = len(shares) + (rest.total_seconds() > 0)
        row_height = _ROW if len(lanes) <= _HIGH_ROWS else _LOW_ROW
        body = row_height * len(lanes)
        remarks = _remarks(waterfall)
        top = _HEAD + _LINE * len(remarks)
        sheet = Sheet.of(top + body + 0.42 + _KEY * keys + 0.12)
        _head(sheet, waterfall, remarks)
        numbers = {(share.phase, share.role): number for number, share in enumerate(shares, 1)}
        axes = sheet.axes(left=_LEFT, top=top, right=_RIGHT, height=body)
        _time_axis(axes, waterfall)
        axes.set_ylim(len(lanes), 0)
        for row, lane in enumerate(lanes):
            _draw_lane(axes, row, lane, numbers=numbers, seconds=waterfall.seconds)
            _name_lane(sheet, lane, top + row_height * (row + 0.5), first=row == 0, low=row_height < _ROW)
        _draw_keys(sheet, waterfall, top + body + 0.42)
        return sheet.png(describe_waterfall(waterfall))


def _remarks(waterfall: Waterfall) -> list[str]:
    """Why it failed, on two lines at most, what else did, and who was slow."""
    also = f"also {waterfall.also}" if waterfall.also else ""
    why = [*_wrapped(waterfall.cause, 2), *_wrapped(also, 1)]
    return [*why, waterfall.note] if waterfall.note else why


def _wrapped(text: str, most: int) -> list[str]:
    return wrap(text, _LETTERS, max_lines=most, placeholder=" …")


def _head(sheet: Sheet, waterfall: Waterfall, remarks: list[str]) -> None:
    few = len(waterfall.lanes) < waterfall.ranks
    sheet.write(0.14, 0.13, waterfall.title, LARGEST, weight="bold", within=_WIDE - few * 1.4)
    colour = BAD if waterfall.sign in _BAD_SIGNS else TEXT
    sheet.write(0.14, 0.40, f"{waterfall.sign} {waterfall.verdict}", LARGE, color=colour, within=_WIDE)
    for place, remark in enumerate(remarks):
        sheet.write(0.14, 0.65 + _LINE * place, remark, NORMAL, within=_WIDE)
    if few:
        told = f"{len(waterfall.lanes)} of {waterfall.ranks} ranks shown"
        sheet.write(WIDTH - 0.14, 0.16, told, SMALL, ha="right", color=DIM)


def _time_axis(axes: Axes, waterfall: Waterfall) -> None:
    axes.set_xlim(0, waterfall.seconds)
    axes.set_yticks([])
    if not waterfall.timed:
        axes.set_xticks([])
        axes.set_xlabel(f"{waterfall.untimed}: order alone", color=DIM, fontsize=SMALL, labelpad=3)
        return
    ticks = round_steps(waterfall.seconds, 5)
    axes.set_xticks(ticks, [spell(tick) for tick in ticks])
    if ticks[-1] > 0.93 * waterfall.seconds:
        axes.get_xticklabels()[-1].set_horizontalalignment("right")
    axes.grid(axis="x", color=GRID, linewidth=0.6)


def _draw_lane(
    axes: Axes, row: int, lane: Lane, *, numbers: dict[tuple[PhaseId, Role], int], seconds: float
) -> None:
    room = WIDTH - _LEFT - _RIGHT
    for bar in lane.bars:
        inset = 0.28 if bar.inner else 0.12
        wide = max(bar.ended - bar.began, seconds * 0.006)  # what took no time is still seen
        axes.add_patch(
            make_rectangle((bar.began, row + inset), wide, 1 - 2 * inset, **fill_of(bar.phase, bar.role))
        )
        if bar.mark is not Mark.DONE:
            _mark_bar(axes, bar, row, wide)
        number = numbers.get((bar.phase, bar.role))
        left, right = _free_part(bar, lane)
        inches = (right - left) / seconds * room
        if number is not None and inches > 0.14 and bar.mark is Mark.DONE:  # noqa: PLR2004 - a number's width
            _write_in(axes, (left + right) / 2, row + 0.5, str(number))


def _free_part(bar: Bar, lane: Lane) -> tuple[float, float]:
    """The widest stretch of a bar that no other lies upon, for its number."""
    above = lane.bars[lane.bars.index(bar) + 1 :]
    edges = {each.began for each in above} | {each.ended for each in above}
    cuts = sorted({bar.began, bar.ended, *(edge for edge in edges if bar.began < edge < bar.ended)})
    free = [
        (left, right)
        for left, right in pairwise(cuts)
        if not any(each.began <= left and right <= each.ended for each in above)
    ]
    return max(free, key=lambda part: part[1] - part[0], default=(bar.began, bar.began))


def _write_in(axes: Axes, x: float, y: float, text: str) -> None:
    plate = {"boxstyle": "round,pad=0.12", "facecolor": TEXT, "edgecolor": "none", "alpha": 0.85}
    axes.text(x, y, text, ha="center", va="center", fontsize=SMALL, color=DARK, weight="bold", bbox=plate)


def _mark_bar(axes: Axes, bar: Bar, row: int, wide: float) -> None:
    """Where it went wrong: a thick frame and a sign at the end of the bar."""
    frame = Rectangle(
        (bar.began, row + 0.06), wide, 0.88, fill=False, edgecolor=BAD, linewidth=2.0, clip_on=False, zorder=5
    )
    axes.add_patch(frame)
    sign = "✗" if bar.mark is Mark.FAILED else "!"
    plate = {"boxstyle": "round,pad=0.15", "facecolor": BAD_FILL, "edgecolor": "none"}
    axes.text(
        bar.began + wide, row + 0.5, sign, ha="right", va="center", fontsize=NORMAL, color="#ffffff",
        weight="bold", bbox=plate, zorder=6,
    )  # fmt: skip


def _name_lane(sheet: Sheet, lane: Lane, middle: float, *, first: bool, low: bool) -> None:
    wrong = lane.mark is not Mark.DONE
    lift = 0.065 if lane.note and not low else 0.0
    weight = "bold" if first or wrong or lane.note == "slowest" else "normal"
    style: dict[str, Any] = {"ha": "right", "va": "center", "weight": weight, "color": BAD if wrong else TEXT}
    size = SMALL if low else NORMAL
    right, top, room = _LEFT - 0.08, middle - lift, _LEFT - (0.27 if wrong else 0.12)
    wide = sheet.write(right, top, lane.name, size, within=room, end=True, **style)
    if wrong:
        sheet.write(right - wide - 0.05, top, _SIGNS[lane.mark].strip(), size, **style)
    elif lane.note and low and len(lane.name) <= _SHORT_NAME:
        sheet.write(0.06, middle, lane.note, 6.5, ha="left", va="center", color=DIM)
    if lane.note and not low:
        sheet.write(right, middle + lift, lane.note, 7.0, ha="right", va="center", color=DIM)


def _draw_keys(sheet: Sheet, waterfall: Waterfall, top: float) -> None:
    """One line a phase: its number, colour and name, what it took and what is usual."""
    shares, rest = named_shares(waterfall)
    for number, share in enumerate(shares, 1):
        _draw_key(sheet, number, share, top + _KEY * (number - 1), timed=waterfall.timed)
    if rest.total_seconds() > 0:
        line = top + _KEY * len(shares)
        sheet.write(0.60, line + 0.085, f"others {spell_duration(rest)}", SMALL, color=DIM, va="center")


def _draw_key(sheet: Sheet, number: int, share: Share, top: float, *, timed: bool) -> None:
    wrong = share.mark is not Mark.DONE
    colour = BAD if wrong else TEXT
    middle = top + 0.085
    sheet.write(0.26, middle, str(number), NORMAL, ha="right", va="center", weight="bold")
    sheet.patch(0.32, top, 0.22, 0.17, **fill_of(share.phase, share.role))
    sign = _SIGNS.get(share.mark, "")
    sheet.write(0.60, middle, f"{sign}{share.label}", NORMAL, va="center", color=colour)
    if timed and share.took is not None:
        sheet.write(2.42, middle, spell_duration(share.took), NORMAL, ha="right", va="center", color=colour)
    if timed and share.usual is not None:
        told = f"{'▲ ' if share.slow else ''}usual {spell_duration(share.usual)}"
        sheet.write(2.52, middle, told, SMALL, va="center", color=TEXT if share.slow else DIM)


# ---- durations over time -----------------------------------------------------------------------------------


def draw_history(history: History) -> bytes:
    """A column a startup, oldest left; phases stacked; what failed has a frame and a sign above it."""
    with _DRAWING:
        layers = [*history.layers, None] if any(each.rest for each in history.columns) else [*history.layers]
        rows = (len(layers) + 1) // 2
        sheet = Sheet.of(3.30 + _KEY * rows + 0.12)
        _history_head(sheet, history)
        axes = sheet.axes(left=0.62, top=0.70, right=0.16, height=2.1)
        for place, column in enumerate(history.columns):
            _draw_column(axes, place, column, history)
        _history_axes(axes, history)
        for index, layer in enumerate(layers):
            _layer_key(sheet, layer, left=0.18 + (index % 2) * 1.85, top=3.30 + _KEY * (index // 2))
        return sheet.png(describe_history(history))


def _history_head(sheet: Sheet, history: History) -> None:
    good = sum(each.good for each in history.columns)
    bad = len(history.columns) - good
    room = _WIDE - 1.7 if history.cut else _WIDE
    sheet.write(0.14, 0.13, history.title, LARGEST, weight="bold", within=room)
    sheet.write(0.14, 0.41, f"✓ {good} healthy", LARGE)
    sheet.write(1.34, 0.41, f"✗ {bad} failed", LARGE, color=BAD if bad else DIM)
    if history.usual is not None:
        told = f"┄ usual {spell(history.usual)}"
        sheet.write(WIDTH - 0.14, 0.42, told, NORMAL, ha="right", color=DIM)
    if history.cut:
        longest = spell(max(column.total for column in history.cut))
        told = f"cut at {spell(history.ceiling)}: up to {longest}"
        sheet.write(WIDTH - 0.14, 0.16, told, SMALL, ha="right", color=DIM)


def _draw_column(axes: Axes, place: int, column: Column, history: History) -> None:
    left, wide, bottom, top = place - 0.4, 0.8, 0.0, min(column.total, history.ceiling)
    pieces = [(layer, seconds) for layer, seconds in zip(history.layers, column.parts, strict=True)]
    for layer, seconds in (*pieces, (None, column.rest)):
        height = min(seconds, top - bottom)
        if height > 0:
            axes.add_patch(make_rectangle((left, bottom), wide, height, **_layer_fill(layer)))
            bottom += height
    if not column.good:
        axes.add_patch(Rectangle((left, 0), wide, top, facecolor=GROUND, alpha=0.45))
        axes.add_patch(
            make_rectangle((left, 0), wide, top, fill=False, edgecolor=BAD, linewidth=1.8, hatch="x")
        )
    if column.total > top:
        _break(axes, left, wide, top)
    if not column.good:
        axes.annotate(
            "✗", (place, top), xytext=(0, 2), textcoords="offset points", ha="center", va="bottom",
            fontsize=LARGE, color=BAD, weight="bold", annotation_clip=False,
        )  # fmt: skip


def _break(axes: Axes, left: float, wide: float, top: float) -> None:
    """A slanted gap below the top of a column that goes on beyond the picture."""
    low, high = top * 0.90, top * 0.94
    corners = [(left - 0.1, low), (left + wide + 0.1, high), (left + wide + 0.1, high + top * 0.03)]
    gap = Polygon([*corners, (left - 0.1, low + top * 0.03)], facecolor=GROUND, edgecolor="none", zorder=5)
    axes.add_patch(gap)


def _layer_fill(layer: Layer | None) -> dict[str, Any]:
    if layer is None:
        return {"facecolor": REST, "edgecolor": DARK, "linewidth": 0.6}
    return fill_of(*layer)


def _layer_key(sheet: Sheet, layer: Layer | None, *, left: float, top: float) -> None:
    sheet.patch(left, top, 0.22, 0.17, **_layer_fill(layer))
    name = "other" if layer is None else label_phase(*layer)
    sheet.write(left + 0.29, top + 0.085, name, NORMAL, va="center")


def _history_axes(axes: Axes, history: History) -> None:
    columns = history.columns
    most = history.ceiling
    slots = max(len(columns), 4)  # one startup alone is no wall
    axes.set_xlim(len(columns) - 0.5 - slots, len(columns) - 0.5)
    axes.set_ylim(0, most * 1.12)
    ticks = round_steps(most, 5)
    axes.set_yticks(ticks, [spell(tick) for tick in ticks])
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.axhline(0, color=FRAME, linewidth=1.0)
    if history.usual is not None:
        axes.axhline(history.usual, color=TEXT, linewidth=1.3, linestyle=(0, (4, 3)), zorder=4)
    places = _label_places(len(columns))
    axes.set_xticks(places, [_date(columns[place]) for place in places])
    if len(columns) > 8:  # noqa: PLR2004 - narrow columns: a date in the middle of one would be cut
        axes.get_xticklabels()[0].set_horizontalalignment("left")
        axes.get_xticklabels()[-1].set_horizontalalignment("right")


def _label_places(number: int) -> list[int]:
    """At most three dates: more would not be read on a phone."""
    return sorted({0, number // 2, number - 1}) if number != 2 else [0, 1]  # noqa: PLR2004 - two are two


def _date(column: Column) -> str:
    return f"{column.began:%d %b}\n{column.began:%H:%M}"
