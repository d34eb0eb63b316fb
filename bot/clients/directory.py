"""Who belongs to a Slack user group; asked of Slack, remembered for five minutes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import structlog

from bot.clients.slack_calls import call
from bot.core.events import UserId
from bot.errors import SlackError

if TYPE_CHECKING:
    from collections.abc import Callable

    from slack_sdk.web.async_client import AsyncWebClient

KEEP = 300.0  # seconds
KEEP_FAILURE = 15.0

log = structlog.get_logger()


class Directory:
    """`now` tells seconds of any clock that never jumps."""

    def __init__(self, web: AsyncWebClient, *, now: Callable[[], float] = time.monotonic) -> None:
        self._web = web
        self._now = now
        self._known: dict[str, tuple[float, frozenset[UserId]]] = {}
        self._asking: dict[str, asyncio.Lock] = {}

    async def members(self, group: str) -> frozenset[UserId]:
        """The people of a group (`S…`). Nobody, when Slack does not tell: who is unknown may do nothing."""
        async with self._asking.setdefault(group, asyncio.Lock()):
            until, people = self._known.get(group, (self._now(), frozenset()))
            if self._now() < until:
                return people
            people, keep = await self._ask(group)
            self._known[group] = (self._now() + keep, people)
            return people

    async def _ask(self, group: str) -> tuple[frozenset[UserId], float]:
        try:
            answer = await call(self._web, "usergroups.users.list", {"usergroup": group})
        except SlackError as error:
            log.warning("group_unknown", group=group, error=str(error))
            return frozenset(), KEEP_FAILURE
        return frozenset(UserId(user) for user in answer.get("users", ())), KEEP
