"""Stand-ins in processes of their own: one JSON object a line, an order in, what came of it out.

A child ends with its input, so nothing is left over when whoever started it dies.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import logging
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_LONGEST_LINE = 64 << 20  # bytes


async def serve(carry_out: Callable[[str, dict[str, Any]], Awaitable[Any]]) -> None:
    """The child's side: each order is a task of its own; until the input ends."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it tells of each write to a bot that was killed
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    gc.freeze()
    tasks: set[asyncio.Task[None]] = set()

    async def answer(told: dict[str, Any]) -> None:
        try:
            said = {"id": told["id"], "answer": await carry_out(told["order"], told["with"])}
        except Exception as error:  # noqa: BLE001 - raised again where the order was given
            said = {"id": told["id"], "error": repr(error)}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()

    while line := await reader.readline():
        task = asyncio.create_task(answer(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


class Child:
    """The parent's side."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, module: str) -> Child:
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                module,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
            )
        )

    async def ask(self, order: str, **given: Any) -> Any:
        """What came of it. Raises RuntimeError where the child failed or is gone."""
        assert self.process.stdin is not None  # noqa: S101 - it was asked for
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.process.stdin.write(json.dumps({"id": number, "order": order, "with": given}).encode() + b"\n")
        return await waiting

    async def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            async with asyncio.timeout(5):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - it was asked for
        while line := await self.process.stdout.readline():
            said = json.loads(line)
            waiting = self._waiting.pop(said["id"])
            if "error" in said:
                waiting.set_exception(RuntimeError(said["error"]))
            else:
                waiting.set_result(said["answer"])
        for waiting in self._waiting.values():
            waiting.set_exception(RuntimeError("the stand-in is gone"))
