"""A word from people is heard once, by whichever process has the host."""

from __future__ import annotations

from datetime import timedelta

from bot.core.events import UserId
from bot.core.monitor_events import Muted, OpenIncident
from bot.core.monitor_state import WatchStanding
from bot.watch_orders import pack_word
from tests.support.waiting import until
from tests.support.watch_duty import Orders, serving, stands, watch
from tests.support.watchmen import HOST, SERVICE, watchmen


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
