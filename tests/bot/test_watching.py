"""The life of a watch in its process: it begins, it is closed, it is lost."""

from __future__ import annotations

from bot.clients.store_watches import lease_name
from tests.support.waiting import until
from tests.support.watch_duty import Orders, serving, watch
from tests.support.watchmen import HOST, SERVICE, watchmen


async def test_closed_it_looks_no_more(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        watching = await watch(room, Orders())
        await serving(watching)
        await watching.close()
        rounds, commands = watching.rounds, len(room.far.commands)
        again = await watch(room, Orders())
        await until(lambda: again.rounds > 1)
        assert watching.rounds == rounds
        assert len(room.far.commands) > commands
        await again.close()
        assert not watching.is_lost


async def test_lost_to_another_process_it_ends(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        watching = await watch(room, Orders())
        await serving(watching)
        await room.ground.store.leases.let_go(watching.lease)
        other = await room.another()
        assert await other.store.leases.claim(lease_name(HOST)) is not None
        room.far.unit.kill()
        await until(lambda: watching.is_lost)
        rounds = watching.rounds
        watching.poke()
        await watching.close()
        assert watching.rounds == rounds
        assert list(watching.entries) == [SERVICE]
