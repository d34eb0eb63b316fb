"""What systemd is told, on a real socket as systemd would give it."""

from __future__ import annotations

import os
import socket
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from bot.notify import Notifier

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def systemd(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind("\0" + address[1:] if address.startswith("@") else address)
        ear.settimeout(60)
        yield ear


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"{folder}/notify" if request.param == "path" else f"@kimi/{uuid.uuid4().hex}"


def test_each_word_is_one_datagram(address: str) -> None:
    with systemd(address) as ear:
        notifier = Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000000"})
        notifier.status("starting")
        notifier.ready()
        notifier.alive()
        notifier.status("two\nlines")
        notifier.status("two lines")
        notifier.stopping()
        heard = [ear.recv(4096).decode() for _ in range(5)]
    assert heard == ["STATUS=starting", "READY=1", "WATCHDOG=1", "STATUS=two lines", "STOPPING=1"]


@pytest.mark.parametrize(
    ("environ", "interval"),
    [
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": str(os.getpid())}, 2.5),
        ({"WATCHDOG_USEC": "2500000"}, 2.5),
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_a_watchdog_is_ours_where_it_names_this_process_or_none(
    environ: dict[str, str], interval: float | None
) -> None:
    assert Notifier(environ).interval == interval


def test_where_nobody_waits_for_a_sign_of_life_none_is_given(address: str) -> None:
    with systemd(address) as ear:
        notifier = Notifier({"NOTIFY_SOCKET": address})
        notifier.alive()
        notifier.ready()
        assert ear.recv(4096) == b"READY=1"


def test_without_systemd_nothing_is_sent() -> None:
    with capture_logs() as logs:
        Notifier({}).ready()
        Notifier({"NOTIFY_SOCKET": "vsock:2:1"}).ready()  # of a virtual machine's host: not for us
    assert logs == []


def test_a_systemd_that_is_gone_or_does_not_read_stops_nobody_and_is_logged_once(tmp_path: Path) -> None:
    with capture_logs() as logs:
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "none")})
        notifier.ready()
        notifier.stopping()
    assert [fact["event"] for fact in logs] == ["systemd_not_told"]
    with tempfile.TemporaryDirectory() as folder, systemd(f"{folder}/notify"), capture_logs() as logs:
        full = Notifier({"NOTIFY_SOCKET": str(Path(folder) / "notify")})
        for number in range(5000):  # more than any socket takes in
            full.status(f"line {number}")
    assert [fact["event"] for fact in logs] == ["systemd_not_told"]
