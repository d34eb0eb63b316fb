"""The room in which handlers are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.handler_room import Room, open_room

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def room(redis_url: str) -> AsyncIterator[Room]:
    """One service, heard in #ops; Alice and, through a group, Bob operate it."""
    async with open_room(redis_url) as opened:
        yield opened
