"""An operation of which nothing is left but its thread: what is taken up, and what is only told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bot.clients.slack_history import FoundRoot, Standing
from bot.core.events import ChannelId, MessageTs, Verb
from bot.found import find_address, holder_of_root, look_back
from tests.support.carriers import SERVICE
from tests.support.configurations import configure
from tests.support.outgoing import operation

CHANNEL = ChannelId("C0OPS")
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Shelf:
    """Slack, as far as it is asked for roots."""

    def __init__(self, *roots: FoundRoot) -> None:
        self.found = list(roots)

    async def roots(self, channel: ChannelId, *, oldest: datetime) -> list[FoundRoot]:
        assert oldest < datetime.now(UTC)
        return [root for root in self.found if root.channel == channel]

    async def read(self, address: object) -> Standing:
        raise AssertionError(address)


def root_of(name: str, **tags: str) -> FoundRoot:
    told = {"state": "open", "service": SERVICE, "verb": "restart", "began": NOW.isoformat()} | tags
    return FoundRoot(operation().channel, MessageTs("1700000000.000001"), name, f"{name}:root", "", told)


def ground() -> Any:
    return cast("Any", SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW)))


def test_a_thread_may_be_as_old_as_the_longest_start() -> None:
    configuration = configure()
    longest = max(section.give_up_after for section in configuration.services.values())
    assert look_back(configuration) == longest + timedelta(hours=1)


async def test_a_root_that_nobody_had_noted_is_found_by_its_operation() -> None:
    shelf = Shelf(root_of("another"), root_of("op1"))
    found = await find_address(cast("Any", shelf), operation())
    assert found is not None
    assert (found.channel, found.ts) == (operation().channel, "1700000000.000001")
    assert await find_address(cast("Any", Shelf()), operation()) is None


def test_the_service_is_held_for_a_watch_since_the_operation_began() -> None:
    holder = holder_of_root(ground(), root_of("op1", by="U1"))
    assert (holder.operation, holder.verb, holder.by, holder.since) == ("op1", Verb.WATCH, "U1", NOW)
    assert holder_of_root(ground(), root_of("op1")).by is None


@pytest.mark.parametrize(
    ("began", "since"),
    [
        ("no time", datetime.fromtimestamp(1700000000.000001, UTC)),
        ((NOW + timedelta(days=1)).isoformat(), NOW),
    ],
)
def test_a_beginning_that_cannot_be_is_set_right(began: str, since: datetime) -> None:
    assert holder_of_root(ground(), root_of("op1", began=began)).since == since
