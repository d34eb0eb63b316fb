"""Slack's rate limits: a bucket of calls for each method, for chat.postMessage one for each channel."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.practice.slack_state import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Rate:
    """`burst` calls at once, then `per_minute`; `by_channel` counts each channel for itself."""

    per_minute: float
    burst: int
    by_channel: bool = False


# Tiers of docs.slack.dev/apis/web-api/rate-limits: 2 is 20 a minute, 3 is 50, 4 is 100, each with some
# tolerance for bursts; chat.postMessage is "special": one a second a channel.
TIER_2, TIER_3, TIER_4 = Rate(20, 20), Rate(50, 50), Rate(100, 100)
RATES: dict[str, Rate] = {
    "chat.postMessage": Rate(60, 5, by_channel=True),
    "chat.update": TIER_3,
    "chat.delete": TIER_3,
    "chat.postEphemeral": TIER_4,
    "conversations.replies": TIER_3,
    "conversations.history": TIER_3,
    "conversations.info": TIER_3,
    "conversations.list": TIER_2,
    "users.info": TIER_4,
    "users.list": TIER_2,
    "usergroups.list": TIER_2,
    "usergroups.users.list": TIER_2,
    "files.getUploadURLExternal": TIER_4,
    "files.completeUploadExternal": TIER_4,
    "files.info": TIER_4,
    "views.open": TIER_4,
    "views.update": TIER_4,
    "views.publish": TIER_4,
    "reactions.add": TIER_3,
}


class Rates:
    """Admits a call or refuses it with the seconds to wait; `limits` may be changed at any time."""

    def __init__(
        self, limits: Mapping[str, Rate] | None = None, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = dict(RATES if limits is None else limits)
        self._now = now
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}

    def admit(self, method: str, channel: str) -> None:
        """Raise Refused("ratelimited", retry_after=whole seconds) where the bucket is empty."""
        rate = self.limits.get(method)
        if rate is None:
            return
        key = (method, channel if rate.by_channel else "")
        now = self._now()
        left, since = self._buckets.get(key, (float(rate.burst), now))
        left = min(float(rate.burst), left + (now - since) * rate.per_minute / 60)
        if left < 1:
            self._buckets[key] = (left, now)
            raise Refused("ratelimited", retry_after=max(1, math.ceil((1 - left) * 60 / rate.per_minute)))
        self._buckets[key] = (left - 1, now)
