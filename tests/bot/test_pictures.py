"""Pictures as uploads: bytes, words, place; and a drawing that breaks is logged, no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from structlog.testing import capture_logs

from bot import chart
from bot.core.actions import Verdict
from bot.core.events import ChannelId, MessageTs, OperationId
from bot.core.history import make_history
from bot.core.picture_words import describe_waterfall
from bot.pictures import history_letter, waterfall_letter
from tests.support.pictures import read_png
from tests.support.waterfalls import healthy_waterfall, past

if TYPE_CHECKING:
    import pytest

OPS = ChannelId("C0OPS")


async def test_the_waterfall_goes_into_the_thread_of_its_startup_once() -> None:
    waterfall = healthy_waterfall()
    letter = await waterfall_letter(waterfall, operation=OperationId("op1"), channel=OPS, name="start.png")
    assert letter is not None
    assert read_png(letter.content).width == 936
    outgoing = letter.outgoing
    assert (outgoing.id, outgoing.thread, outgoing.kind) == ("op1:picture", "op1", "upload")
    assert outgoing.file is not None
    assert outgoing.file.alt == describe_waterfall(waterfall)
    assert "healthy" not in outgoing.text


async def test_a_history_is_an_answer_where_it_was_asked_for() -> None:
    history = make_history("kimi-k2.5", [past(1), past(2, Verdict.FAILED)])
    assert history is not None
    letter = await history_letter(
        history, thread="history-1", channel=OPS, thread_ts=MessageTs("17.1"), name="past.png"
    )
    assert letter is not None
    assert read_png(letter.content).width == 936
    assert (letter.outgoing.thread, letter.outgoing.thread_ts) == ("history-1", "17.1")
    assert letter.outgoing.file is not None
    assert letter.outgoing.file.alt.startswith("kimi-k2.5: 2 startups, 1 healthy and 1 failed.")


async def test_a_drawing_that_breaks_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(_waterfall: object) -> bytes:
        raise RuntimeError("no font")

    monkeypatch.setattr(chart, "draw_waterfall", break_down)
    with capture_logs() as logs:
        letter = await waterfall_letter(
            healthy_waterfall(), operation=OperationId("op1"), channel=OPS, name="start.png"
        )
    assert letter is None
    assert [entry["event"] for entry in logs] == ["picture_not_drawn"]
