"""Tells a dead man's switch that kimi is well: whoever runs it raises an alarm when that stops."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import structlog

log = structlog.get_logger()

_WITHIN = 10.0  # seconds for one ping, name lookup included


class DeadMan:
    """One address; it stands in no log, since whoever knows it may keep the alarm silent."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: httpx.AsyncClient | None = None
        self._failing = False
        self.counts: Counter[str] = Counter()  # "answered" and "failed"

    async def ping(self) -> bool:
        """Whether it was heard: any 2xx. A failure raises nothing, and is logged once until one succeeds."""
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=_WITHIN)
        try:
            # Whatever comes after the status, without an end perhaps, is not read.
            async with asyncio.timeout(_WITHIN), self._client.stream("GET", self._url) as answer:
                problem = "" if answer.is_success else f"HTTP {answer.status_code}"
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TimeoutError) as error:
            problem = type(error).__name__  # its words may hold the address
        self.counts["failed" if problem else "answered"] += 1
        if problem and not self._failing:
            log.warning("dead_man_not_reached", problem=problem)
        elif self._failing and not problem:
            log.info("dead_man_reached_again")
        self._failing = bool(problem)
        return not problem

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
