"""A sheet of a phone's width to draw on: measures, colours, text that can be read.

How it is made readable: 390 points of a phone's width are 3.9 inches here, so that a font of nine points is
as large as the text of a message. The background is opaque and dark, with a light frame, and every colour on
it has a contrast of three to one or more; the colours are those of Okabe and Ito, which colour-blind people
can tell apart, and beside them stand numbers, words and hatches that say the same.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import Rectangle

from bot.core.events import PhaseId, Role
from bot.core.words import spell_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 3.9  # inches, a hundred points of a phone each
DOTS = 240  # an inch: sharp on a phone, and still a small file
LARGEST, LARGE, NORMAL, SMALL, SMALLEST = 12.5, 10.5, 9.5, 8.5, 6.8  # points

GROUND = "#1f232a"
FRAME = "#9aa3ad"
TEXT = "#f4f6f8"
DIM = "#c3cad2"
GRID = "#474f59"
BAD = "#ff8a4c"  # Okabe and Ito's vermillion, lighter, for text on the dark ground
BAD_FILL = "#d55e00"
DARK = "#101317"

COLOURS: dict[PhaseId, str] = {
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
_DRAFT = "////"
REST = "#69717b"


@dataclass(slots=True)
class Sheet:
    """A figure whose measures are inches from its upper left corner."""

    height: float
    figure: Figure

    @classmethod
    def of(cls, height: float) -> Sheet:
        figure = Figure(figsize=(WIDTH, height), dpi=DOTS, facecolor=GROUND)
        FigureCanvasAgg(figure)
        frame = Rectangle(
            (0, 0), 1, 1, transform=figure.transFigure, fill=False, edgecolor=FRAME, linewidth=2.5
        )
        figure.add_artist(frame)
        return cls(height, figure)

    def write(
        self, left: float, top: float, text: str, size: float = NORMAL, *, within: float | None = None,
        end: bool = False, **style: Any,
    ) -> float:  # fmt: skip
        """Never read as mathematics: a name may hold a dollar sign.

        What is wider than `within` inches is made smaller, then cut: its end, or with `end` its beginning.
        Returns how many inches it is wide.
        """
        style = {"color": TEXT, "va": "top", **style}
        text, bold = _printable(text), style.get("weight") == "bold"
        if within is not None:
            text, size = _squeeze(text, size, within, bold=bold, end=end)
        self.figure.text(left / WIDTH, 1 - top / self.height, text, fontsize=size, parse_math=False, **style)
        return _measure(text, size, bold=bold)

    def patch(self, left: float, top: float, width: float, height: float, **style: Any) -> None:
        place = (left / WIDTH, 1 - (top + height) / self.height)
        size = (width / WIDTH, height / self.height)
        self.figure.add_artist(make_rectangle(place, *size, transform=self.figure.transFigure, **style))

    def axes(self, *, left: float, top: float, right: float, height: float) -> Axes:
        width = (WIDTH - left - right) / WIDTH
        box = (left / WIDTH, 1 - (top + height) / self.height, width, height / self.height)
        axes = self.figure.add_axes(box, facecolor=GROUND)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0, colors=DIM, labelsize=SMALL)
        axes.set_axisbelow(True)
        return axes

    def png(self, words: str) -> bytes:
        """`words` say the same; they go into the file, so that they stay with it wherever it is sent."""
        stream = io.BytesIO()
        about = {"Software": None, "Description": words}
        self.figure.savefig(stream, format="png", facecolor=GROUND, metadata=about)
        return stream.getvalue()


def make_rectangle(place: tuple[float, float], width: float, height: float, **style: Any) -> Rectangle:
    made = Rectangle(place, width, height, **style)
    made.set_hatch_linewidth(0.7)
    return made


def _printable(text: str) -> str:
    """What the font has no sign for would be an empty box, and a warning."""
    font = get_font(findfont(FontProperties(family="DejaVu Sans")))
    return "".join(sign if font.get_char_index(ord(sign)) else "?" for sign in text)


def _squeeze(text: str, size: float, within: float, *, bold: bool, end: bool) -> tuple[str, float]:
    smaller = max(min(size, size * within / max(_measure(text, size, bold=bold), 0.01)), min(SMALLEST, size))
    whole = text
    while len(text) > 1 and _measure(text, smaller, bold=bold) > within:
        whole = whole[1:] if end else whole[:-1].rstrip()
        text = f"…{whole}" if end else f"{whole}…"
    return text, smaller


def _measure(text: str, size: float, *, bold: bool) -> float:
    """Inches."""
    font = get_font(findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")))
    font.set_size(100, 72)  # as large as that no pixel is lost to the rounding of each letter
    font.set_text(text, 0.0)
    return float(font.get_width_height()[0] / 64 / 72) * size / 100


def fill_of(phase: PhaseId, role: Role) -> dict[str, Any]:
    """Colour and hatch of a phase; the draft model's are slanted."""
    hatch = _DRAFT if role is Role.DRAFT else _HATCHES.get(phase, "")
    return {"facecolor": COLOURS[phase], "hatch": hatch, "edgecolor": DARK, "linewidth": 0.6}


_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)


def round_steps(seconds: float, most: int) -> list[float]:
    step = next((each for each in _STEPS if seconds / each <= most), None)
    if step is None:
        step = int(seconds / most) + 1
    return [float(step * n) for n in range(int(seconds / step) + 1)] if seconds >= 1 else [0.0, seconds]


def spell(seconds: float) -> str:
    return spell_duration(timedelta(seconds=seconds))
