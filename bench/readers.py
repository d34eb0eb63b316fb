"""The two ways lines are read: by tracker and suspects alone, and by a startup followed live."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bench.lines import RANKS, UNIT
from bot.core.diagnosis import Suspects
from bot.core.events import InvocationId, LineRead, Member, OperationId, Origin, ServiceName, Verb
from bot.core.journal import Decoder
from bot.core.phases import Tracker
from bot.core.redact import Redactor
from bot.core.startup import Startup
from bot.core.startup_state import Plan
from config.engine_file import load_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.core.events import LogLine

CHUNK = 64 << 10  # bytes, as they come over SSH
MEMBER = Member(f"llm-two/{UNIT}")
_LONG = timedelta(days=365)


class Parts:
    """Tracker and suspects, new for each start of the unit."""

    def __init__(self, *, one: bool = False) -> None:
        self._engine = load_engine("sglang")
        self._one = one  # whatever starts, it is read as the same
        self.run: InvocationId | None = None
        self.tracker, self.suspects = Tracker(self._engine), Suspects(engine=self._engine)

    def read(self, line: LogLine) -> None:
        if line.invocation != self.run and not self._one:
            self.run = line.invocation
            self.tracker, self.suspects = Tracker(self._engine), Suspects(engine=self._engine)
        assert line.at is not None  # noqa: S101 - the journal tells it
        phase, role = self.tracker.current()
        findings = self.tracker.read(line, member=MEMBER, at=line.at)
        if line.origin is not Origin.MANAGER:
            self.suspects.note(line, findings, phase=phase, role=role, rank=self.tracker.spoke)


class Live:
    """A startup that is followed, new for each start of the unit."""

    def __init__(self, *, one: bool = False) -> None:
        self._engine = load_engine("sglang")
        self._one = one
        self.run: InvocationId | None = None
        self.startup = self._fresh(datetime(2026, 1, 1, tzinfo=UTC))

    def read(self, line: LogLine) -> None:
        assert line.at is not None  # noqa: S101 - the journal tells it
        if line.invocation != self.run and not (self._one and self.run):
            self.run = line.invocation
            self.startup = self._fresh(line.at)
        self.startup.handle(LineRead(MEMBER, line), line.at)

    def _fresh(self, began: datetime) -> Startup:
        plan = Plan(
            OperationId("bench"),
            ServiceName("kimi"),
            Verb.WATCH,
            (MEMBER,),
            by=None,
            reason="",
            began=began,
            ranks=RANKS,
            give_up_after=_LONG,
        )
        startup = Startup(plan, self._engine)
        startup.begin(began)
        return startup


def decode(data: bytes, decoder: Decoder) -> Iterator[LogLine]:
    for at in range(0, len(data), CHUNK):
        yield from decoder.feed(data[at : at + CHUNK])


def new_decoder() -> Decoder:
    return Decoder(Redactor(["the-key-of-this-service"]))


def read_parts(data: bytes) -> Parts:
    parts = Parts()
    for line in decode(data, new_decoder()):
        parts.read(line)
    return parts


def read_live(data: bytes) -> Live:
    live = Live()
    for line in decode(data, new_decoder()):
        live.read(line)
    return live
