"""Waits for a condition, never for a while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE = 60.0  # real seconds, for a busy machine


async def until(condition: Callable[[], object]) -> None:
    """Return once the condition holds; TimeoutError when it never does."""
    async with asyncio.timeout(_PATIENCE):
        while not condition():  # noqa: ASYNC110 - any condition, not one that could set an event
            await asyncio.sleep(0.002)
