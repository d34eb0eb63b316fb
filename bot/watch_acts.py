"""Carries out what watches order: incidents, startups to be followed, a word in the channel."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import Task
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

import structlog

from bot.core.incident_words import tell_how
from bot.core.monitor_events import OpenIncident, TellIncident, TellStopped, WatchStart
from bot.errors import (
    CommandTimedOut,
    HostKeyRejected,
    HostUnreachable,
    KimiError,
    Leaving,
    LoginRefused,
    StoreUnavailable,
)
from bot.ground import Ground
from bot.incident_messages import stopped_message
from bot.incidents import Incidents
from bot.startups import Startups

if TYPE_CHECKING:
    from bot.core.incident_state import IncidentId
    from bot.watch_orders import Order

log = structlog.get_logger()

_RETRY = 1.0  # real seconds
_TRIES = 30  # at a time
_LOOK_EVERY = 0.05  # real seconds: whether the first word of an outage stands, for which its start waits
_ROOT_LOOKS = 60
_UNSEEN = (HostUnreachable, CommandTimedOut, HostKeyRejected, LoginRefused)


@dataclass(frozen=True, slots=True)
class Acts:
    ground: Ground
    incidents: Incidents
    startups: Startups
    _waiting: set[str] = field(default_factory=set)  # for their hosts, and told of in the log

    async def carry(self, order: Order, name: str) -> Task[bool] | None:
        """Once for each `name`, however often it is tried. Raises StoreUnavailable to be asked again.

        What takes long goes on beside; the order is done once the task says True, and until then it is owed.
        """
        match order:
            case OpenIncident():
                await self.incidents.open(order.plan)
            case TellIncident():
                await self.incidents.tell(order.incident, order.event, name=name)
            case TellStopped():
                thread, channel = f"stopped-{name}", self.ground.channel(order.service)
                await self.ground.store.enqueue([stopped_message(order, thread=thread, channel=channel)])
                self.ground.outbox.wake()
            case WatchStart():
                # Hosts are asked for it, and what else the watch orders does not wait for them.
                return self.ground.tasks.spawn(f"follow {order.service}", self._follow(order, name))
            case _:
                assert_never(order)
        return None

    async def _follow(self, order: WatchStart, name: str) -> bool:
        """Whether it is followed, or need not be.

        One that begins while Redis is away is a little later; one whose host does not answer just then is
        with a round that comes, once it does.
        """
        reason = tell_how(order.how, order.attempt)
        if order.incident is not None:
            await self._await_root(order.incident)
        for _ in range(_TRIES):
            try:
                operation = await self.startups.follow(order.service, order.invocation, reason=reason)
            except StoreUnavailable:
                await asyncio.sleep(_RETRY)
            except Leaving:
                return False
            except _UNSEEN as error:
                self._wait(order, name, error)
                return False
            except KimiError as error:
                log.warning("start_not_followed", service=order.service, error=str(error))
                return self._done(name)
            else:
                told = "start_followed" if operation is not None else "start_need_not_be_followed"
                log.info(told, service=order.service, operation=operation, how=order.how)
                return self._done(name)
        return False

    async def _await_root(self, incident: IncidentId) -> None:
        """A channel is to read first what happened: systemd may start it anew 0.1 s after it died."""
        with contextlib.suppress(StoreUnavailable):
            for _ in range(_ROOT_LOOKS):
                if await self.ground.store.address(incident) is not None:
                    return
                await asyncio.sleep(_LOOK_EVERY)

    def _wait(self, order: WatchStart, name: str, error: KimiError) -> None:
        """Each round tries it; the log has it once."""
        if name not in self._waiting:
            self._waiting.add(name)
            log.warning("start_followed_later", service=order.service, error=str(error))

    def _done(self, name: str) -> bool:
        self._waiting.discard(name)
        return True
