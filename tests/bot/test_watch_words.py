"""A word from people is heard once, by whichever process has the host."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from bot.clients.store_watches import Watches, Word
from bot.core.events import UserId
from bot.core.monitor import Watch
from bot.core.monitor_events import Muted, OpenIncident
from bot.core.monitor_state import WatchStanding
from bot.watch_machines import Machines
from bot.watch_orders import pack_word
from bot.watch_words import Words
from tests.support.waiting import until
from tests.support.watch_duty import Orders, serving, stands, watch
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import HostName
    from bot.core.monitor_events import WatchEvent


async def test_a_word_is_heard_once_and_kept(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        until_then = room.ground.clock.now() + timedelta(hours=1)
        word = pack_word(Muted(UserId("U0ALICE"), until_then, "tests"), service=SERVICE, name="mute:1")
        await watching.watches.say(HOST, word)
        watching.poke()
        await until(lambda: watching.entries[SERVICE].watch.state.mute is not None)
        room.far.unit.kill()
        await until(lambda: stands(watching) is WatchStanding.DOWN)
        assert orders.of(OpenIncident) == []
        assert await watching.watches.words(HOST) == []


async def test_what_was_said_through_another_process_does_not_wait_for_a_round(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        watching = await watch(room, Orders())
        await serving(watching)
        watching.entries[SERVICE].every = 3600.0
        far = await room.another()
        until_then = room.ground.clock.now() + timedelta(hours=1)
        word = pack_word(Muted(UserId("U0ALICE"), until_then, "tests"), service=SERVICE, name="mute:1")
        await Watches(far.store.link).say(HOST, word)
        await until(lambda: watching.entries[SERVICE].watch.state.mute is not None)


async def test_a_word_that_breaks_the_watch_is_not_met_again(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watchmen(redis_url) as room:
        watching = await watch(room, Orders())
        await serving(watching)
        sound = Watch.handle

        def break_down(self: Watch, event: WatchEvent, now: datetime) -> Any:
            if isinstance(event, Muted):
                raise ZeroDivisionError
            return sound(self, event, now)

        monkeypatch.setattr(Watch, "handle", break_down)
        until_then = room.ground.clock.now() + timedelta(hours=1)
        word = pack_word(Muted(UserId("U0ALICE"), until_then, "tests"), service=SERVICE, name="mute:1")
        await watching.watches.say(HOST, word)
        watching.poke()
        while await watching.watches.words(HOST):  # noqa: ASYNC110 - Redis alone knows
            await asyncio.sleep(0.05)
        assert not watching.is_lost
        room.far.unit.kill()
        await until(lambda: stands(watching) is WatchStanding.DOWN)


class Said(Watches):
    """What Redis holds of words, without Redis."""

    def __init__(self, said: list[Word]) -> None:
        self.said, self.reads = said, 0

    async def words(self, host: HostName) -> list[Word]:
        assert host == HOST
        self.reads += 1
        return list(self.said)


@pytest.mark.looptime
async def test_a_host_is_asked_for_words_every_few_seconds_however_many_its_services_are() -> None:
    said = Said([Word(id="w1", service="gone", kind="Nobody", body="{}")])
    words = Words(said, HOST, Machines(cast("Any", None), cast("Any", None)))
    running = asyncio.ensure_future(words.run())
    await asyncio.sleep(59.5)
    assert said.reads == 20
    words.poke()
    await asyncio.sleep(0.1)
    assert said.reads == 21
    running.cancel()


async def test_of_words_that_were_taken_only_those_are_remembered_that_wait_in_redis() -> None:
    many = [Word(id=f"w{number}", service="gone", kind="Nobody", body="{}") for number in range(50)]
    said = Said(many[:30])
    words = Words(said, HOST, Machines(cast("Any", None), cast("Any", None)))
    await words.listen()
    said.said = many[20:]
    await words.listen()
    assert words._taken == {word.id for word in many[20:]}
