"""A real Redis for tests: one a run, emptied before each test; or one of the test's own, to be killed."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import pytest_asyncio

from bot.clients.redis_link import RedisLink
from bot.clients.store import Store
from bot.practice.redis import find_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

MakeLink: TypeAlias = Callable[..., RedisLink]
OpenStore: TypeAlias = Callable[..., Awaitable[Store]]

PATIENCE = 60.0  # seconds, for a busy machine


class RedisServer:
    """A server process on a unix socket, append-only file kept in its folder from one start to the next."""

    def __init__(self) -> None:
        # pytest's own folders have names too long for a unix socket.
        self.folder = Path(tempfile.mkdtemp(prefix="kimi-redis-"))
        self.socket = self.folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = {
            "--port": "0",
            "--databases": "128",
            "--unixsocket": str(self.socket),
            "--dir": str(self.folder),
            "--appendonly": "yes",
            # Synced each second, a write waits while the disk is busy with the last one, and a kill loses it.
            "--appendfsync": "no",
            "--save": "",
            "--logfile": str(self.folder / "redis.log"),
        }
        words = [word for option in options.items() for word in option]
        self._process = subprocess.Popen([find_server(), *words])
        deadline = time.monotonic() + PATIENCE
        while self.ask("PING") != "+PONG":
            assert self._process.poll() is None, (self.folder / "redis.log").read_text()
            assert time.monotonic() < deadline, "Redis does not answer"
            time.sleep(0.01)

    def ask(self, command: str) -> str:
        """The first line of the answer; empty where there is none."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(PATIENCE)
            try:
                line.connect(str(self.socket))
                line.sendall(f"{command}\r\n".encode())
                return line.makefile("rb").readline().decode().strip()
            except OSError:
                return ""

    def kill(self) -> None:
        """As a power cut would: no last write, no goodbye."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """It takes connections and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    async def restart(self) -> None:
        """Killed and started again on the same file."""
        await asyncio.to_thread(self.kill)
        await asyncio.to_thread(self.start)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _serve() -> Iterator[RedisServer]:
    server = RedisServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    yield from _serve()


@pytest.fixture
def redis_url(shared_redis: RedisServer) -> str:
    """Of an empty database."""
    assert shared_redis.ask("FLUSHALL") == "+OK"
    return shared_redis.url


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A server of this test alone: it may be killed."""
    yield from _serve()


@pytest_asyncio.fixture
async def make_link() -> AsyncIterator[MakeLink]:
    """Makes links that are closed however the test ends: what a failed one leaves open fails another."""
    links: list[RedisLink] = []

    def make(url: str, **options: Any) -> RedisLink:
        links.append(RedisLink(url, **options))
        return links[-1]

    yield make
    for link in links:
        await link.close()


@pytest_asyncio.fixture
async def open_store() -> AsyncIterator[OpenStore]:
    """Opens stores that are closed however the test ends."""
    stores: list[Store] = []

    async def opened(url: str, **options: Any) -> Store:
        stores.append(await Store.open(url, **options))
        return stores[-1]

    yield opened
    for store in stores:
        await store.close()
