"""Logs read to their suspects: what the tests of the diagnosis share."""

from __future__ import annotations

from bot.core.diagnosis import Suspects
from bot.core.events import LogLine, Member
from bot.core.phases import Tracker
from config.engine_file import load_engine
from tests.support.journals import BEGAN, Journal, journal

ENGINE = load_engine("sglang")
HERE = Member("llm-two/sglang.service")
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has no more"


def accuse(log: Journal, suspects: Suspects | None = None) -> Suspects:
    tracker = Tracker(ENGINE)
    suspects = suspects or Suspects(engine=ENGINE)
    for text in log.lines:
        line = LogLine(text=text, reading=text)
        findings = tracker.read(line, member=HERE, at=BEGAN)
        phase, role = tracker.current()
        suspects.note(line, findings, phase=phase, role=role, rank=tracker.spoke)
    return suspects


def loading() -> Journal:
    return journal().launched().connected().loading().bars(upto=2)
