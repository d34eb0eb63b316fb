"""What every test may ask for, and what every test run needs."""

from __future__ import annotations

import asyncio

pytest_plugins = ["tests.support.redis"]


def pytest_sessionstart() -> None:
    """pytest-asyncio asks for the current loop; until one was set, Python 3.11 makes one that nobody closes."""
    asyncio.set_event_loop(None)
