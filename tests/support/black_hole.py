"""A way to a TCP port that can be made to swallow every byte, as a network that drops what it carries."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class BlackHole:
    """Listens on `port`; connections stay open, and nobody is told that nothing comes through."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.passed = 0  # connections that were let through
        self._target = target
        self._through = asyncio.Event()
        self._through.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def swallow(self) -> None:
        """From now on nothing comes through, of old connections for ever."""
        self._through.clear()
        self._through = asyncio.Event()

    def let_through(self) -> None:
        """New connections come through."""
        self._through.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        through = self._through
        with suppress(OSError, asyncio.CancelledError):
            await through.wait()
            self.passed += 1
            back, forth = await asyncio.open_connection("127.0.0.1", self._target)
            pumps = (_pump(reader, forth, through), _pump(back, writer, through))
            try:
                await asyncio.gather(*pumps)
            finally:
                forth.close()
        writer.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, through: asyncio.Event) -> None:
    while data := await source.read(65536):
        if through.is_set():
            sink.write(data)
            await sink.drain()
    if through.is_set():
        sink.close()


@asynccontextmanager
async def black_hole(target: int) -> AsyncIterator[BlackHole]:
    way = BlackHole(target)
    await way.start()
    try:
        yield way
    finally:
        await way.stop()
