"""What a watch orders is done once for each name: a word in the channel, an incident, a startup followed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from bot.core.events import InvocationId, Member, OperationId, UserId
from bot.core.incident_events import Acknowledged
from bot.core.incident_state import How
from bot.core.monitor_events import OpenIncident, TellIncident, TellStopped, WatchStart
from bot.errors import (
    CommandRefused,
    CommandTimedOut,
    HostKeyRejected,
    HostUnreachable,
    KimiError,
    Leaving,
    LoginRefused,
    StoreUnavailable,
)
from bot.watch_acts import Acts
from tests.support.waiting import until
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from tests.support.watchmen import Watchmen

STOPPED = TellStopped(SERVICE, datetime.now(UTC), None, "someone outside chat stopped it")
START = WatchStart(SERVICE, Member("llm-two/x.service"), InvocationId("a" * 32), How.SYSTEMD, 4)


class ScriptedStartups:
    """Raises each of `errors` in turn, then follows."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked: list[tuple[Any, ...]] = []

    async def follow(self, service: str, invocation: str, *, reason: str) -> OperationId:
        self.asked.append((service, invocation, reason))
        if self.errors:
            raise self.errors.pop(0)
        return OperationId("op")


def acts(room: Watchmen, startups: ScriptedStartups | None = None) -> Acts:
    return Acts(room.ground, room.incidents(), startups or ScriptedStartups())  # type: ignore[arg-type]


async def test_a_stop_is_told_once(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        act = acts(room)
        for _ in range(2):
            await act.carry(STOPPED, "name")
        await until(lambda: len(room.roots()) == 1)
        await room.ground.outbox.drain(60)
        assert len(room.roots()) == 1
        assert "stopped" in room.roots()[0].plain


async def test_an_incident_is_opened_and_told_once(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        act, plan = acts(room), room.plan()
        told = TellIncident(plan.incident, Acknowledged(UserId("U0ALICE")))
        for _ in range(2):
            await act.carry(OpenIncident(plan), "one")
            await act.carry(told, "two")
        await until(lambda: len(room.roots()) == 1)
        await until(lambda: any("acknowledged" in text for text in room.thread(room.roots()[0])))
        assert len(room.roots()) == 1


async def test_a_start_is_followed_with_what_began_it_though_redis_was_away(redis_url: str) -> None:
    startups = ScriptedStartups(StoreUnavailable("gone"))
    async with watchmen(redis_url) as room:
        following = await acts(room, startups).carry(START, "name")
        assert following is not None
        assert not following.done()
        assert await following
        assert len(startups.asked) == 2
        service, invocation, reason = startups.asked[-1]
        assert (service, invocation) == (SERVICE, "a" * 32)
        assert "by systemd" in reason


async def test_a_start_is_followed_once_the_first_word_of_its_outage_stands(redis_url: str) -> None:
    """systemd may be quicker than Slack."""
    async with watchmen(redis_url) as room:
        plan = room.plan()
        seen: list[int] = []

        class Startups(ScriptedStartups):
            async def follow(self, service: str, invocation: str, *, reason: str) -> OperationId:
                seen.append(len(room.roots()))
                return await super().follow(service, invocation, reason=reason)

        act = acts(room, Startups())
        following = await act.carry(replace(START, incident=plan.incident), "start")
        await act.carry(OpenIncident(plan), "open")
        assert following is not None
        assert await following
        assert seen == [1]


async def test_a_start_does_not_wait_for_ever_for_the_first_word_of_its_outage(redis_url: str) -> None:
    startups = ScriptedStartups()
    async with watchmen(redis_url) as room:
        following = await acts(room, startups).carry(replace(START, incident=room.plan().incident), "start")
        assert following is not None
        assert await following
        assert len(startups.asked) == 1


async def test_what_cannot_be_followed_is_not_asked_again(redis_url: str) -> None:
    startups = ScriptedStartups(CommandRefused("it does not run"))
    async with watchmen(redis_url) as room:
        following = await acts(room, startups).carry(START, "name")
        assert following is not None
        assert await following
        assert len(startups.asked) == 1


async def test_one_that_is_being_stopped_leaves_it_to_the_next_process(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        following = await acts(room, ScriptedStartups(Leaving("bye"))).carry(START, "name")
        assert following is not None
        assert not await following


@pytest.mark.parametrize("kind", [HostUnreachable, CommandTimedOut, HostKeyRejected, LoginRefused])
async def test_a_host_that_does_not_answer_just_then_is_asked_with_each_round_and_told_once(
    redis_url: str, kind: type[KimiError]
) -> None:
    gone = kind(HOST, "llm-two: no connection")
    async with watchmen(redis_url) as room:
        startups = ScriptedStartups(gone, gone)
        act = acts(room, startups)
        with capture_logs() as logs:
            answers = []
            for _ in range(3):
                following = await act.carry(START, "name")
                assert following is not None
                answers.append(await following)
        assert answers == [False, False, True]
        assert len(startups.asked) == 3
        facts = [fact["event"] for fact in logs if fact["event"].startswith("start_")]
        assert facts == ["start_followed_later", "start_followed"]
