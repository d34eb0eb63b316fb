"""The pace all processes share, the lock of the token, and numbers for whoever measures."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

import bot.clients.slack_outlet as outlet_module
from bot.clients.slack_outlet import Few, Outlet
from bot.core.pacing import POST, UPDATE, Does, Pace, Step, Waiting
from bot.errors import SlackBusy, TokenRefused
from tests.support.outbox import QUICK, Stage, open_stage
from tests.support.outgoing import CHANNEL, OTHER_CHANNEL, edit, reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SLOW = Pace(post_interval=30.0, post_burst=2, edit_interval=30.0, edit_burst=1, root_interval=0.0)
REPLY = Waiting("op1", CHANNEL, head=(POST,))


@pytest_asyncio.fixture
async def stage(redis_url: str) -> AsyncIterator[Stage]:
    async with open_stage(redis_url) as stage:
        yield stage


def outlet(stage: Stage) -> Outlet:
    return stage.idle_outbox(pace=SLOW, timing=QUICK)._outlet


async def ask(outlet: Outlet, waiting: Waiting) -> Step:
    """As a sender does."""
    step = outlet.pacing.choose(waiting, time.monotonic())
    return await outlet.admit(step, waiting) if step.does is not Does.WAIT else step


async def test_two_processes_share_the_rate_of_a_channel(stage: Stage) -> None:
    one, two = outlet(stage), outlet(stage)
    assert [(await ask(each, REPLY)).does for each in (one, two)] == [Does.HEAD, Does.HEAD]
    late = await ask(one, REPLY)
    assert late.does is Does.WAIT
    assert 20 < late.seconds <= 30
    elsewhere = Waiting("op2", OTHER_CHANNEL, head=(POST,))
    assert (await ask(two, elsewhere)).does is Does.HEAD


async def test_two_processes_share_the_rate_of_edits(stage: Stage) -> None:
    edits = Waiting("op1", CHANNEL, edit=True)
    one, two = outlet(stage), outlet(stage)
    assert (await ask(one, edits)).does is Does.EDIT
    late = await ask(two, Waiting("op2", OTHER_CHANNEL, edit=True))
    assert late.does is Does.WAIT
    assert 20 < late.seconds <= 30


async def test_while_the_token_is_refused_each_try_comes_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(outlet_module, "time", SimpleNamespace(monotonic=lambda: now))
    room = outlet(stage)
    for _ in range(2):
        room.lock(TokenRefused(POST, "token_revoked"))  # the second was under way already
    first = room.pacing.choose(REPLY, now)
    assert first.does is Does.WAIT
    assert first.seconds <= QUICK.settle
    now += QUICK.settle * 1.5
    room.lock(TokenRefused(POST, "token_revoked"))
    assert room.pacing.choose(REPLY, now).seconds > QUICK.settle
    assert (room.locked, room.counts["locked"]) == ("token_revoked", 1)
    room.accepted(reply(1))
    assert room.locked is None
    assert room.pacing.choose(REPLY, now).does is Does.HEAD


async def test_a_retry_after_parks_the_channel_it_came_from(stage: Stage) -> None:
    room = outlet(stage)
    room.park(SlackBusy(UPDATE, 30.0), CHANNEL)
    now = time.monotonic()
    assert room.pacing.choose(Waiting("op1", CHANNEL, edit=True), now).does is Does.WAIT
    assert room.pacing.choose(Waiting("op2", OTHER_CHANNEL, edit=True), now).does is Does.EDIT


async def test_a_retry_after_of_a_method_that_names_no_channel_parks_it_everywhere(stage: Stage) -> None:
    room = outlet(stage)
    room.park(SlackBusy("files.getUploadURLExternal", 30.0), CHANNEL)
    upload = Waiting("op2", OTHER_CHANNEL, head=("files.getUploadURLExternal",))
    assert room.pacing.choose(upload, time.monotonic()).does is Does.WAIT


async def test_delays_are_told_in_seconds_from_the_queue(stage: Stage) -> None:
    heard: list[float] = []
    room = outlet(stage)
    room.listeners.append(heard.append)
    queued = datetime.now(UTC) - timedelta(seconds=40)
    room.accepted(reply(1, queued=queued))
    room.accepted(edit("now", queued=datetime.now(UTC) + timedelta(hours=1)))
    room.accepted(reply(2))
    assert list(room.delays) == heard
    assert heard == [pytest.approx(40, abs=10), 0.0]
    assert (room.counts["sent"], room.counts["edited"]) == (2, 1)


def test_few_forgets_the_oldest() -> None:
    few = Few[int](3)
    for number in range(5):
        few[str(number)] = number
    few["2"] = 7
    assert few == {"2": 7, "3": 3, "4": 4}
