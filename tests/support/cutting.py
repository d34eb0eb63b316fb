"""Processes that die between two chosen steps, without a process to kill: from there on they stand still."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any


class Cut:
    """Before and after each call of what it is put around there is a step; at step `at` everything ends.

    None: it never ends, and `steps` tells which there are.
    """

    def __init__(self, at: int | None = None) -> None:
        self._at = at
        self.steps: list[str] = []
        self.reached = asyncio.Event()

    async def step(self, name: str) -> None:
        if len(self.steps) == self._at:
            self.reached.set()
        if self.reached.is_set():
            await asyncio.Event().wait()
        self.steps.append(name)

    def around(self, part: Any) -> Any:
        return _Around(self, part)


class _Around:
    def __init__(self, cut: Cut, part: Any) -> None:
        self._cut = cut
        self._part = part

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*told: Any, **named: Any) -> Any:
            await self._cut.step(f"before {name}")
            answer = await found(*told, **named)
            await self._cut.step(f"after {name}")
            return answer

        return call
