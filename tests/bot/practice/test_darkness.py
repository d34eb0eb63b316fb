"""Who connects to a dark port gets no answer, not even no."""

from __future__ import annotations

import asyncio

import pytest

from bot.practice.darkness import DarkPort


async def test_nothing_answers_until_it_is_closed() -> None:
    dark = DarkPort("127.0.0.1", 0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await asyncio.open_connection("127.0.0.1", dark.port)
    dark.close()
    dark.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", dark.port)
    again = DarkPort("127.0.0.1", dark.port)
    assert again.port == dark.port
    again.close()
