"""Who belongs to a Slack user group, and what people are called; asked of Slack, remembered for a while."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import structlog

from bot.clients.slack_calls import call
from bot.core.events import UserId
from bot.errors import SlackError, SlackRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from slack_sdk.web.async_client import AsyncWebClient

KEEP = 300.0  # seconds
KEEP_FAILURE = 15.0
_NAMES_MOST = 5000  # that are remembered
_ASKED_MOST = 50  # at once: a file that names more people than that shows the ids of the rest

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


class People:
    """What people are called. A name is remembered for as long as the process lives."""

    def __init__(self, web: AsyncWebClient) -> None:
        self._web = web
        self._names: dict[UserId, str] = {}

    async def names(self, people: Iterable[UserId]) -> dict[UserId, str]:
        """Of those that Slack tells; who is not among them is called by the id. Raises nothing."""
        wanted = list(dict.fromkeys(people))
        for user in [each for each in wanted if each not in self._names][:_ASKED_MOST]:
            try:
                answer = await call(self._web, "users.info", {"user": user})
            except SlackRefused as error:
                log.info("name_unknown", user=user, error=str(error))
                continue
            except SlackError as error:
                log.info("names_not_asked", error=str(error))
                break
            if name := _name_of(answer.get("user") or {}):
                self._names[user] = name
        found = {user: self._names[user] for user in wanted if user in self._names}
        if len(self._names) > _NAMES_MOST:
            self._names.clear()
        return found


def _name_of(user: Mapping[str, Any]) -> str:
    profile = user.get("profile") or {}
    names = (profile.get("display_name"), profile.get("real_name"), user.get("name"))
    return next((str(name) for name in names if name), "")
