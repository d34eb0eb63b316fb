"""What every test may ask for, and what every test run needs."""

from __future__ import annotations

import asyncio

import structlog
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.redis", "tests.support.redis_many"]

# How long an example takes, or its making, tells of the machine and not of what is tested.
settings.register_profile("kimi", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kimi")


def pytest_sessionstart() -> None:
    """pytest-asyncio asks for the current loop; Python 3.11 would make one that nobody closes."""
    asyncio.set_event_loop(None)
    # Drawn in colours with all that was in reach, one error takes seconds.
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])
