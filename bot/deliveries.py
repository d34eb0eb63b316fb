"""What other tools are still owed of one incident: sent in order, again until it is taken, within a bound.

Theory. Each word for other tools is part of the incident's record and is written together with the state that
it tells of; it leaves the record with the next save after the listener took it. So a process may die
anywhere: the next one sends what is on record, and the same word may come twice, never not at all. Its id
says which one it is. One incident's words come one after the other; one that hangs delays nothing else.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import structlog

from bot.clients.store_incidents import Delivery
from bot.clients.webhook import Answered
from bot.core.incident_actions import IncidentAction, SendWebhook, Told

log = structlog.get_logger()

Send: TypeAlias = Callable[[Delivery], Awaitable[Answered]]

GIVE_UP = timedelta(hours=6)  # after it was ordered, by the real clock; then it is logged and counted
MOST = 100  # of one incident; of more, the oldest that only update are left out
_OURS_EVERY = 0.5  # real seconds
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0  # real seconds


@dataclass(slots=True)
class Deliveries:
    """`send`: one attempt; `counts`: by what became of each; `settled` hears when one is done with.

    `is_ours`: whether nobody else can have the incident. A process that slept must not tell old news after
    what the next one has told.
    """

    send: Send
    counts: Counter[str]
    settled: Callable[[], None]
    is_ours: Callable[[], bool] = lambda: True
    done: set[str] = field(default_factory=set)  # not out of the record yet
    _owed: tuple[Delivery, ...] = ()
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, owed: Sequence[Delivery]) -> None:
        """What is on record now, oldest first."""
        self._owed = tuple(owed)
        self.done &= {each.id for each in owed}
        self._arrived.set()

    async def run(self) -> None:
        """For as long as the incident is this process's."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while (due := next((each for each in self._owed if each.id not in self.done), None)) is not None:
                await self._deliver(due)
                self.done.add(due.id)
                self.settled()

    async def _deliver(self, delivery: Delivery) -> None:
        pause = _FIRST_PAUSE
        while True:
            while not self.is_ours():  # noqa: ASYNC110 - it ends with the lease, or with this task
                await asyncio.sleep(_OURS_EVERY)
            answered = await self.send(delivery)
            self.counts[answered.outcome] += 1
            if answered.outcome == "delivered":
                return
            refused = answered.outcome == "refused"
            if refused or datetime.now(UTC) - delivery.ordered >= GIVE_UP:
                self.counts.update(() if refused else ("given_up",))
                log.error("webhook_not_delivered", id=delivery.id, problem=answered.problem)
                return
            log.info("webhook_delayed", id=delivery.id, problem=answered.problem, again_in=pause)
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - a jitter
            pause = min(pause * 2, _LONGEST_PAUSE)


def owed_of(actions: Sequence[IncidentAction]) -> tuple[Delivery, ...]:
    """What these orders add to what is owed."""
    now = datetime.now(UTC)
    return tuple(
        Delivery(
            id=str(action.payload["id"]),
            event=str(action.told),
            body=json.dumps(action.payload, ensure_ascii=False, separators=(",", ":")),
            ordered=now,
        )
        for action in actions
        if isinstance(action, SendWebhook)
    )


def within_bounds(owed: Sequence[Delivery], *, most: int = MOST) -> tuple[Delivery, ...]:
    """A listener that is away for long hears of the beginning, of the end, and of the newest in between."""
    extra = len(owed) - most
    kept: list[Delivery] = []
    for each in owed:
        if extra > 0 and each.event == Told.UPDATED:
            extra -= 1
            log.warning("webhook_left_out", id=each.id)
            continue
        kept.append(each)
    return tuple(kept)


def still_owed(deliveries: Deliveries | None, owed: Sequence[Delivery]) -> tuple[Delivery, ...]:
    """Of what is on record, what is not delivered; nothing where nobody listens any more."""
    return () if deliveries is None else tuple(each for each in owed if each.id not in deliveries.done)
