"""Draws the pictures: a startup's waterfall by rank, and durations over time. PNG bytes, for a phone.

Nothing here knows a loop: a drawing takes some tenths of a second and belongs into a thread. Figures are
made and drawn without the library's global state, one at a time, since its fonts are not for two threads.

How it is made readable: 390 points of a phone's width are 3.9 inches here, so that a font of nine points is
as large as the text of a message. The background is opaque and dark, with a light frame, and every colour on
it has a contrast of three to one or more; the colours are those of Okabe and Ito, which colour-blind people
can tell apart, and beside them stand numbers, words and hatches that say the same.
"""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import Rectangle

from bot.core.actions import Mark
from bot.core.events import PhaseId, Role
from bot.core.picture import Bar, Lane, Share, Waterfall, named_shares
from bot.core.words import label_phase, spell_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bot.core.history import Column, History, Layer

WIDTH = 3.9  # inches, a hundred points of a phone each
DOTS = 240  # an inch: sharp on a phone, and still a small file
LARGEST, LARGE, NORMAL, SMALL = 12.5, 10.5, 9.5, 8.5  # points

GROUND = "#1f232a"
FRAME = "#9aa3ad"
TEXT = "#f4f6f8"
DIM = "#c3cad2"
GRID = "#474f59"
BAD = "#ff8a4c"  # Okabe and Ito's vermillion, lighter, for text on the dark ground
BAD_FILL = "#d55e00"
DARK = "#101317"

_COLOURS: dict[PhaseId, str] = {
    PhaseId.STOPPING: "#8c949d",
    PhaseId.PROCESS: "#d4d9de",
    PhaseId.DISTRIBUTED: "#cc79a7",
    PhaseId.WEIGHTS: "#56b4e9",
    PhaseId.MEMORY: "#2f93d1",
    PhaseId.COMPILE: "#f0e442",
    PhaseId.GRAPHS: "#e69f00",
    PhaseId.SERVER: "#e3b8d0",
    PhaseId.WARMUP: "#1db98b",
    PhaseId.SMOKE: "#8fd9bf",
    PhaseId.READY: "#aeb6bf",
}
_HATCHES: dict[PhaseId, str] = {
    PhaseId.DISTRIBUTED: "...",
    PhaseId.MEMORY: "\\\\\\",
    PhaseId.COMPILE: "---",
    PhaseId.GRAPHS: "||",
    PhaseId.WARMUP: "ooo",
    PhaseId.SMOKE: "++",
}
_BAD_SIGNS = frozenset({"✗", "!"})
_DRAFT = "////"
_REST = "#69717b"
_DRAWING = threading.Lock()


@dataclass(slots=True)
class _Sheet:
    """A figure whose measures are inches from its upper left corner."""

    height: float
    figure: Figure

    @classmethod
    def of(cls, height: float) -> _Sheet:
        figure = Figure(figsize=(WIDTH, height), dpi=DOTS, facecolor=GROUND)
        FigureCanvasAgg(figure)
        frame = Rectangle(
            (0, 0), 1, 1, transform=figure.transFigure, fill=False, edgecolor=FRAME, linewidth=2.5
        )
        figure.add_artist(frame)
        return cls(height, figure)

    def write(self, left: float, top: float, text: str, size: float = NORMAL, **style: Any) -> None:
        """Never read as mathematics: a name may hold a dollar sign."""
        style = {"color": TEXT, "va": "top", **style}
        self.figure.text(
            left / WIDTH, 1 - top / self.height, _printable(text), fontsize=size, parse_math=False, **style
        )

    def patch(self, left: float, top: float, width: float, height: float, **style: Any) -> None:
        place = (left / WIDTH, 1 - (top + height) / self.height)
        size = (width / WIDTH, height / self.height)
        self.figure.add_artist(_rectangle(place, *size, transform=self.figure.transFigure, **style))

    def axes(self, *, left: float, top: float, right: float, height: float) -> Axes:
        width = (WIDTH - left - right) / WIDTH
        box = (left / WIDTH, 1 - (top + height) / self.height, width, height / self.height)
        axes = self.figure.add_axes(box, facecolor=GROUND)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0, colors=DIM, labelsize=SMALL)
        axes.set_axisbelow(True)
        return axes

    def png(self) -> bytes:
        stream = io.BytesIO()
        self.figure.savefig(stream, format="png", facecolor=GROUND, metadata={"Software": None})
        return stream.getvalue()


def _rectangle(place: tuple[float, float], width: float, height: float, **style: Any) -> Rectangle:
    made = Rectangle(place, width, height, **style)
    made.set_hatch_linewidth(0.7)
    return made


def _printable(text: str) -> str:
    """What the font has no sign for would be an empty box, and a warning."""
    font = get_font(findfont(FontProperties(family="DejaVu Sans")))
    return "".join(sign if font.get_char_index(ord(sign)) else "?" for sign in text)


def _fit(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _fill(phase: PhaseId, role: Role) -> dict[str, Any]:
    """Colour and hatch of a phase; the draft model's are slanted."""
    hatch = _DRAFT if role is Role.DRAFT else _HATCHES.get(phase, "")
    return {"facecolor": _COLOURS[phase], "hatch": hatch, "edgecolor": DARK, "linewidth": 0.6}


# ---- the waterfall -----------------------------------------------------------------------------------------

_LEFT, _RIGHT, _ROW, _HEAD, _KEY = 0.86, 0.16, 0.30, 0.70, 0.215  # inches


def draw_waterfall(waterfall: Waterfall) -> bytes:
    """Rows are ranks, bars their phases by number; below stands what each number is and took."""
    with _DRAWING:
        lanes = (waterfall.whole, *waterfall.lanes)
        shares, rest = named_shares(waterfall)
        keys = len(shares) + (rest.total_seconds() > 0)
        body = _ROW * len(lanes)
        top = _HEAD + (0.22 if waterfall.note else 0)
        sheet = _Sheet.of(top + body + 0.42 + _KEY * keys + 0.12)
        _head(sheet, waterfall)
        numbers = {(share.phase, share.role): number for number, share in enumerate(shares, 1)}
        axes = sheet.axes(left=_LEFT, top=top, right=_RIGHT, height=body)
        _time_axis(axes, waterfall)
        axes.set_ylim(len(lanes), 0)
        for row, lane in enumerate(lanes):
            _draw_lane(axes, row, lane, numbers=numbers, seconds=waterfall.seconds)
            _name_lane(sheet, lane, top + _ROW * (row + 0.5), first=row == 0)
        _draw_keys(sheet, waterfall, top + body + 0.42)
        return sheet.png()


def _head(sheet: _Sheet, waterfall: Waterfall) -> None:
    sheet.write(0.14, 0.13, _fit(waterfall.title, 36), LARGEST, weight="bold")
    colour = BAD if waterfall.sign in _BAD_SIGNS else TEXT
    sheet.write(0.14, 0.40, _fit(f"{waterfall.sign} {waterfall.verdict}", 52), LARGE, color=colour)
    if waterfall.note:
        sheet.write(0.14, 0.65, _fit(waterfall.note, 60), NORMAL)
    if len(waterfall.lanes) < waterfall.ranks:
        told = f"{len(waterfall.lanes)} of {waterfall.ranks} ranks shown"
        sheet.write(WIDTH - 0.14, 0.16, told, SMALL, ha="right", color=DIM)


def _time_axis(axes: Axes, waterfall: Waterfall) -> None:
    axes.set_xlim(0, waterfall.seconds)
    axes.set_yticks([])
    if not waterfall.timed:
        axes.set_xticks([])
        axes.set_xlabel("the log has no times: order alone", color=DIM, fontsize=SMALL, labelpad=3)
        return
    ticks = _round_steps(waterfall.seconds, 5)
    axes.set_xticks(ticks, [_spell(tick) for tick in ticks])
    if ticks[-1] > 0.93 * waterfall.seconds:
        axes.get_xticklabels()[-1].set_horizontalalignment("right")
    axes.grid(axis="x", color=GRID, linewidth=0.6)


_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)


def _round_steps(seconds: float, most: int) -> list[float]:
    step = next((each for each in _STEPS if seconds / each <= most), None)
    if step is None:
        step = int(seconds / most) + 1
    return [float(step * n) for n in range(int(seconds / step) + 1)] if seconds >= 1 else [0.0, seconds]


def _spell(seconds: float) -> str:
    return spell_duration(timedelta(seconds=seconds))


def _draw_lane(
    axes: Axes, row: int, lane: Lane, *, numbers: dict[tuple[PhaseId, Role], int], seconds: float
) -> None:
    room = WIDTH - _LEFT - _RIGHT
    for bar in lane.bars:
        inset = 0.28 if bar.inner else 0.12
        wide = max(bar.ended - bar.began, seconds * 0.006)  # what took no time is still seen
        axes.add_patch(
            _rectangle((bar.began, row + inset), wide, 1 - 2 * inset, **_fill(bar.phase, bar.role))
        )
        if bar.mark is not Mark.DONE:
            _mark_bar(axes, bar, row, wide)
        number = numbers.get((bar.phase, bar.role))
        inches = wide / seconds * room
        if number is not None and inches > 0.14 and bar.mark is Mark.DONE:  # noqa: PLR2004 - a number's width
            _write_in(axes, bar.began + wide / 2, row + 0.5, str(number))


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


def _name_lane(sheet: _Sheet, lane: Lane, middle: float, *, first: bool) -> None:
    wrong = lane.mark is not Mark.DONE
    colour = BAD if wrong else TEXT
    name = f"✗ {lane.name}" if wrong else lane.name
    lift = 0.065 if lane.note else 0.0
    weight = "bold" if first or wrong or lane.note == "slowest" else "normal"
    style = {"ha": "right", "va": "center", "weight": weight}
    sheet.write(_LEFT - 0.08, middle - lift, _fit(name, 12), NORMAL, color=colour, **style)
    if lane.note:
        sheet.write(_LEFT - 0.08, middle + lift, lane.note, 7.0, ha="right", va="center", color=DIM)


def _draw_keys(sheet: _Sheet, waterfall: Waterfall, top: float) -> None:
    """One line a phase: its number, colour and name, what it took and what is usual."""
    shares, rest = named_shares(waterfall)
    for number, share in enumerate(shares, 1):
        _draw_key(sheet, number, share, top + _KEY * (number - 1), timed=waterfall.timed)
    if rest.total_seconds() > 0:
        line = top + _KEY * len(shares)
        sheet.write(0.60, line + 0.085, f"others {spell_duration(rest)}", SMALL, color=DIM, va="center")


def _draw_key(sheet: _Sheet, number: int, share: Share, top: float, *, timed: bool) -> None:
    wrong = share.mark is not Mark.DONE
    colour = BAD if wrong else TEXT
    middle = top + 0.085
    sheet.write(0.26, middle, str(number), NORMAL, ha="right", va="center", weight="bold")
    sheet.patch(0.32, top, 0.22, 0.17, **_fill(share.phase, share.role))
    sign = {Mark.FAILED: "✗ ", Mark.STALLED: "! "}.get(share.mark, "")
    sheet.write(0.60, middle, f"{sign}{share.label}", NORMAL, va="center", color=colour)
    if timed:
        sheet.write(2.42, middle, spell_duration(share.took), NORMAL, ha="right", va="center", color=colour)
    if timed and share.usual is not None:
        told = f"usual {spell_duration(share.usual)}"
        sheet.write(2.52, middle, told, SMALL, va="center", color=DIM)


# ---- durations over time -----------------------------------------------------------------------------------


def draw_history(history: History) -> bytes:
    """A column a startup, oldest left; phases stacked; what failed has a frame and a sign above it."""
    with _DRAWING:
        layers = [*history.layers, None] if any(each.rest for each in history.columns) else [*history.layers]
        rows = (len(layers) + 1) // 2
        sheet = _Sheet.of(3.30 + _KEY * rows + 0.12)
        _history_head(sheet, history)
        axes = sheet.axes(left=0.62, top=0.70, right=0.16, height=2.1)
        for place, column in enumerate(history.columns):
            _draw_column(axes, place, column, history)
        _history_axes(axes, history)
        for index, layer in enumerate(layers):
            _layer_key(sheet, layer, left=0.18 + (index % 2) * 1.85, top=3.30 + _KEY * (index // 2))
        return sheet.png()


def _history_head(sheet: _Sheet, history: History) -> None:
    good = sum(each.good for each in history.columns)
    bad = len(history.columns) - good
    sheet.write(0.14, 0.13, _fit(history.title, 36), LARGEST, weight="bold")
    sheet.write(0.14, 0.41, f"✓ {good} healthy", LARGE)
    sheet.write(1.34, 0.41, f"✗ {bad} failed", LARGE, color=BAD if bad else DIM)
    if history.usual is not None:
        told = f"┄ usual {_spell(history.usual)}"
        sheet.write(WIDTH - 0.14, 0.42, told, NORMAL, ha="right", color=DIM)


def _draw_column(axes: Axes, place: int, column: Column, history: History) -> None:
    left, wide, bottom = place - 0.4, 0.8, 0.0
    pieces = [(layer, seconds) for layer, seconds in zip(history.layers, column.parts, strict=True)]
    for layer, seconds in (*pieces, (None, column.rest)):
        if seconds > 0:
            axes.add_patch(_rectangle((left, bottom), wide, seconds, **_layer_fill(layer)))
            bottom += seconds
    if not column.good:
        axes.add_patch(Rectangle((left, 0), wide, column.total, facecolor=GROUND, alpha=0.45))
        axes.add_patch(
            _rectangle((left, 0), wide, column.total, fill=False, edgecolor=BAD, linewidth=1.8, hatch="x")
        )
        axes.annotate(
            "✗", (place, column.total), xytext=(0, 2), textcoords="offset points", ha="center", va="bottom",
            fontsize=LARGE, color=BAD, weight="bold", annotation_clip=False,
        )  # fmt: skip


def _layer_fill(layer: Layer | None) -> dict[str, Any]:
    if layer is None:
        return {"facecolor": _REST, "edgecolor": DARK, "linewidth": 0.6}
    return _fill(*layer)


def _layer_key(sheet: _Sheet, layer: Layer | None, *, left: float, top: float) -> None:
    sheet.patch(left, top, 0.22, 0.17, **_layer_fill(layer))
    name = "other" if layer is None else label_phase(*layer)
    sheet.write(left + 0.29, top + 0.085, name, NORMAL, va="center")


def _history_axes(axes: Axes, history: History) -> None:
    columns = history.columns
    most = max([*(each.total for each in columns), history.usual or 0.0, 1.0])
    slots = max(len(columns), 4)  # one startup alone is no wall
    axes.set_xlim(len(columns) - 0.5 - slots, len(columns) - 0.5)
    axes.set_ylim(0, most * 1.12)
    ticks = _round_steps(most, 5)
    axes.set_yticks(ticks, [_spell(tick) for tick in ticks])
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
