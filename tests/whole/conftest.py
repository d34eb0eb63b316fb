"""What the tests of the whole bot share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.support.killing import Nursery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def nursery() -> AsyncIterator[Nursery]:
    nursery = await Nursery.open()
    try:
        yield nursery
    finally:
        await nursery.close()
