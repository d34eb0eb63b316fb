"""What all senders of one process share: the pace, the token's state, what went out and how fast."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from bot.clients.records import Address
from bot.clients.slack_alerts import Alerts
from bot.clients.slack_files import RESERVE, SEND
from bot.clients.store_queue import Queue
from bot.core.pacing import ANYWHERE, Does, Pacing, Step

if TYPE_CHECKING:
    from bot.clients.records import Outgoing
    from bot.core.events import ChannelId
    from bot.core.pacing import Waiting
    from bot.errors import SlackBusy, TokenRefused

V = TypeVar("V")
RECENT = 1000  # delays kept
_EDITS = "edits"  # the lane of all edits; each channel has one of its own
_CHANNELLESS = frozenset({RESERVE, SEND})

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. A process that dies keeps its threads for `lease`; `settle` is waited before reading back."""

    lease: float = 5.0
    poll: float = 1.0
    settle: float = 1.0
    longest: float = 30.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A message Slack has; `address` where that is the thread's root or its present."""

    address: Address | None = None


class Few(dict[str, V], Generic[V]):
    """A mapping that forgets its oldest entries, so that memory does not grow with the messages ever sent."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: str, value: V) -> None:
        super().__setitem__(key, value)
        while len(self) > self._most:
            del self[next(iter(self))]


@dataclass(slots=True)
class Outlet:
    """`sent`: in Slack, whether or not it is taken out of the queue; what is forgotten here is read back.

    `counts`: messages "sent", "edited", "parked", and calls "failed", since this process began. `delays`: the
    newest, in seconds from the queue to Slack's yes. `locked`: Slack's code, while it refuses our token.
    """

    web: AsyncWebClient
    queue: Queue
    pacing: Pacing
    owner: str
    timing: Timing
    alerts: Alerts
    counts: Counter[str] = field(default_factory=Counter)
    delays: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    listeners: list[Callable[[float], None]] = field(default_factory=list)
    locked: str | None = None
    sent: Few[Sent] = field(default_factory=lambda: Few(4096))
    link_tries: Few[int] = field(default_factory=lambda: Few(4096))
    _locks: int = 0
    _locked_since: float = 0.0
    _locked_until: float = float("-inf")

    async def admit(self, step: Step, waiting: Waiting) -> Step:
        """The step, once the rate that all processes share has room for it; else how long to wait."""
        pace, now = self.pacing.pace, time.monotonic()
        if step.does is Does.EDIT:
            lane, interval, burst = _EDITS, pace.edit_interval, pace.edit_burst
        else:
            lane, interval, burst = f"posts/{waiting.channel}", pace.post_interval, pace.post_burst
        seconds = await self.queue.take_token(lane, interval=interval, burst=burst)
        if seconds <= 0:
            return step
        self.pacing.postpone(waiting, step.does, seconds, now)
        return Step(Does.WAIT, seconds)

    def accepted(self, message: Outgoing) -> None:
        """Slack has the message, or shows the edit."""
        self.counts["edited" if message.kind == "edit" else "sent"] += 1
        if message.queued is not None:
            # Another machine's clock may be ahead of ours.
            delay = max(0.0, (datetime.now(UTC) - message.queued).total_seconds())
            self.delays.append(delay)
            for listener in self.listeners:
                listener(delay)
        if self.locked is not None:
            log.info("slack_token_good_again", seconds=round(time.monotonic() - self._locked_since, 1))
            self.locked, self._locks = None, 0
            self.pacing.open()

    def park(self, error: SlackBusy, channel: ChannelId) -> None:
        """Slack said when to come again."""
        place = ANYWHERE if error.method in _CHANNELLESS else channel
        self.pacing.park(error.method, error.retry_after, time.monotonic(), channel=place)

    def lock(self, refusal: TokenRefused) -> None:
        """Nothing is wrong with the messages: all wait, in order, until the token is good again."""
        now = time.monotonic()
        if self.locked is None:
            self._locked_since = now
            self.counts["locked"] += 1
            log.error("slack_token_refused", method=refusal.method, code=refusal.code)
        self.locked = refusal.code
        if now < self._locked_until:
            return  # a call that was under way when the first came back
        seconds = min(self.timing.longest, self.timing.settle * 2.0 ** min(self._locks, 16))
        self._locks += 1
        self._locked_until = now + seconds
        self.pacing.close(seconds, now)
