"""The Home tab: where kimi listens and, for operators, how each service stands."""

from __future__ import annotations

import asyncio
from datetime import UTC
from typing import TYPE_CHECKING, Any

import structlog

from bot.core.access import heard_channels, is_operator, named_groups
from bot.core.answers import render_home
from bot.core.events import ServiceName, UserId, Verb
from bot.core.incident_answers import tell_outage
from bot.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slack_bolt.async_app import AsyncApp

    from handlers.parts import Parts

log = structlog.get_logger()

_WITHIN = 2.0  # seconds


def register(app: AsyncApp, parts: Parts) -> None:
    @app.event("app_home_opened")
    async def open_home(event: dict[str, Any]) -> None:
        if event.get("tab") == "home":
            parts.tasks.spawn("home", _publish(parts, UserId(event["user"])))


async def _publish(parts: Parts, user: UserId) -> None:
    try:
        names = await _operated(parts, user)
        lines, deaf = await _look(parts, names)
        blocks = render_home(lines, channels=heard_channels(parts.configuration), deaf=deaf)
        await parts.client.views_publish(user_id=user, view={"type": "home", "blocks": blocks})
    except Exception:  # the end of this task; the person sees the tab as it was
        log.exception("home_not_published", user=user)


async def _look(parts: Parts, names: Sequence[ServiceName]) -> tuple[list[tuple[ServiceName, str]], bool]:
    """A line for each service, and whether Redis does not answer: a person waits for this."""
    try:
        async with asyncio.timeout(_WITHIN):
            return [(name, await _line(parts, name)) for name in names], False
    except (StoreUnavailable, TimeoutError):
        return [(name, "") for name in names], True


async def _line(parts: Parts, service: ServiceName) -> str:
    """What is wrong now comes first. Raises StoreUnavailable."""
    outage = await parts.incidents.outage_of(service)
    wrong = f"{tell_outage(outage)} · " if outage is not None else ""
    return wrong + await _describe(parts, service) + await _muted(parts, service)


async def _muted(parts: Parts, service: ServiceName) -> str:
    """Raises StoreUnavailable."""
    mute = await parts.incidents.mute_of(service)
    if mute is None:
        return ""
    host = f" with its host {mute.host}" if mute.host is not None else ""
    return f" · muted{host} until {mute.until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


async def _operated(parts: Parts, user: UserId) -> Sequence[ServiceName]:
    """The tab belongs to no channel: only who is an operator sees services there."""
    names = named_groups(parts.configuration, None)
    members = await asyncio.gather(*(parts.directory.members(name) for name in names))
    groups = dict(zip(names, members, strict=True))
    services = [ServiceName(name) for name in parts.configuration.services]
    return [name for name in services if is_operator(parts.configuration, user, name, groups)]


async def _describe(parts: Parts, service: ServiceName) -> str:
    """The last known state in one plain line, from Redis alone. Raises StoreUnavailable."""
    held = await parts.store.holder(service)
    if held is not None:
        return held.headline or "an operation is under way"
    newest = await parts.store.past(service, 1)
    if not newest:
        return "no start on record yet"
    when = newest[0].began.astimezone(UTC)
    doing = "start" if newest[0].verb is Verb.WATCH else newest[0].verb
    return f"last {doing}: {newest[0].verdict or 'under way'}, begun {when:%Y-%m-%d %H:%M} UTC"
