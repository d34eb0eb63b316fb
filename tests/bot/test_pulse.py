"""Who hears that the process lives, and when nobody does."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import pytest
from structlog.testing import capture_logs

from bot.clients.dead_man import DeadMan
from bot.notify import Notifier
from bot.pulse import Pulse
from bot.vitals import Part, Report, Vitals
from tests.support.http_engine import reply, serve_http
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

READY = (
    Part("process", good=True, words="running"),
    Part("redis", good=True, words="answers"),
    Part("startups", good=True, words="2 under way"),
)
AWAY = (*READY[:1], Part("redis", good=False, words="has not answered for 7 s"), *READY[2:])
STUCK = (*READY, Part("outbox", good=False, words="has not looked for 90 s", fatal=True))
MINUTE = timedelta(seconds=60)


class Said:
    """Vitals that say what a test says."""

    def __init__(self) -> None:
        self.parts: tuple[Part, ...] = READY

    def report(self) -> Report:
        return Report(self.parts)


class Systemd:
    def __init__(self, ear: socket.socket, path: str) -> None:
        self._ear = ear
        self.notifier = Notifier({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "300000"})

    def heard(self) -> list[str]:
        """What came since the last call."""
        words: list[str] = []
        try:
            while True:
                words.append(self._ear.recv(4096).decode())
        except BlockingIOError:
            return words


@pytest.fixture
def systemd() -> Iterator[Systemd]:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(f"{folder}/notify")
        ear.setblocking(False)
        yield Systemd(ear, f"{folder}/notify")


async def test_a_beat_that_broke_is_not_the_last(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Said()
    pulse = make_pulse(said, systemd)
    monkeypatch.setattr(said, "report", lambda: 1 / 0)
    with capture_logs() as logs:
        beating = asyncio.create_task(pulse.run())
        await until(lambda: [entry["event"] for entry in logs].count("beat_broke") > 1)
        assert systemd.heard() == []
        monkeypatch.undo()
        await until(lambda: "WATCHDOG=1" in systemd.heard())
    beating.cancel()


def make_pulse(said: Said, systemd: Systemd, dead_man: DeadMan | None = None) -> Pulse:
    return Pulse(cast("Vitals", said), systemd.notifier, dead_man=dead_man, ping_every=MINUTE)


def test_the_watchdog_hears_of_a_process_whose_redis_is_gone_and_not_of_one_that_is_stuck(
    systemd: Systemd,
) -> None:
    said = Said()
    pulse = make_pulse(said, systemd)
    pulse.beat()
    assert systemd.heard() == ["WATCHDOG=1", "STATUS=ready; startups: 2 under way"]
    said.parts = AWAY
    pulse.beat()
    assert systemd.heard() == ["WATCHDOG=1", "STATUS=not ready: redis has not answered for 7 s"]
    said.parts = STUCK
    with capture_logs() as logs:
        pulse.beat()
        pulse.beat()
    assert systemd.heard() == ["STATUS=not ready: outbox has not looked for 90 s"]
    assert [(fact["event"], fact["problems"]) for fact in logs] == [
        ("not_alive", ("outbox: has not looked for 90 s",))
    ]
    said.parts = READY
    pulse.beat()
    assert systemd.heard()[0] == "WATCHDOG=1"


async def test_it_beats_several_times_in_the_watchdog_s_interval(systemd: Systemd) -> None:
    beating = asyncio.create_task(make_pulse(Said(), systemd).run())
    heard: list[str] = []

    def beats() -> bool:
        heard.extend(systemd.heard())
        return heard.count("WATCHDOG=1") >= 3

    await until(beats)
    beating.cancel()
    await asyncio.wait({beating})


async def test_the_dead_man_s_switch_hears_only_of_a_process_that_is_ready(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_http() as engine:
        engine.answers["/ping"] = reply(200, b"")
        said, dead_man = Said(), DeadMan(f"{engine.url}/ping")
        pulse = make_pulse(said, systemd, dead_man)
        for parts in (AWAY, STUCK):
            said.parts = parts
            pulse.beat()
            assert pulse._ping is None
        said.parts = READY
        pulse.beat()
        await until(lambda: dead_man.counts["answered"] == 1)
        pulse.beat()  # a minute has not passed
        monkeypatch.setattr(pulse, "_ping_every", 0.0)
        pulse.beat()
        await until(lambda: dead_man.counts["answered"] == 2)
        await pulse.close()
        assert len(engine.requests) == 2


async def test_a_switch_that_does_not_answer_holds_up_neither_the_beat_nor_the_end(systemd: Systemd) -> None:
    async def hang(_: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with serve_http() as engine:
        engine.answers["/ping"] = hang
        pulse = make_pulse(Said(), systemd, DeadMan(f"{engine.url}/ping"))
        pulse.beat()
        await until(lambda: engine.requests)
        pulse.beat()
        assert systemd.heard().count("WATCHDOG=1") == 2
        await pulse.close()
        await pulse.close()
        assert len(engine.requests) == 1
