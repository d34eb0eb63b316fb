"""What is taken up of a watch's record, and what is begun anew."""

from __future__ import annotations

from datetime import timedelta

from bot.clients.store_watches import Owed, Watched, Watches, lease_name
from bot.core.monitor_state import MemberWatch, WatchStanding, WatchState
from bot.watch_entries import open_entry, open_host_entry
from bot.watch_plans import WATCH_STATE
from tests.support.watchmen import HOST, SERVICE, watchmen


async def test_what_is_on_record_is_taken_up_with_what_is_owed(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        watches = Watches(room.ground.store.link)
        lease = await room.ground.store.leases.claim(lease_name(HOST))
        assert lease is not None
        state = WatchState(standing=WatchStanding.DOWN, served=True)
        owed = Owed(id="o1", kind="TellStopped", body="{}")
        kept = Watched(state=WATCH_STATE.dump_json(state).decode(), owed=(owed,))
        await watches.write(lease, SERVICE, kept)
        entry = await open_entry(room.ground, watches, HOST, SERVICE)
        assert (entry.watch.state.standing, entry.owed) == (WatchStanding.DOWN, [owed])
        assert list(entry.links) == [room.member]
        await watches.write(lease, SERVICE, Watched(state='{"standing": "of another version"}'))
        anew = await open_entry(room.ground, watches, HOST, SERVICE)
        assert anew.watch.state.standing is WatchStanding.UNKNOWN
        own = await open_host_entry(room.ground, watches, HOST, [SERVICE])
        assert own.host_watch.plan.services == (SERVICE,)


async def test_what_a_process_wrote_whose_clock_was_ahead_keeps_no_look_from_counting(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        watches, later = Watches(room.ground.store.link), room.ground.clock.now() + timedelta(hours=1)
        lease = await room.ground.store.leases.claim(lease_name(HOST))
        assert lease is not None
        state = WatchState(standing=WatchStanding.DOWN, since=later)
        state.members[room.member] = MemberWatch(since=later)
        await watches.write(lease, SERVICE, Watched(state=WATCH_STATE.dump_json(state).decode()))
        entry = await open_entry(room.ground, watches, HOST, SERVICE)
        assert not entry.is_stale(room.ground.clock.now())


async def test_what_was_asked_before_a_new_run_is_stale(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        entry = await open_entry(room.ground, Watches(room.ground.store.link), HOST, SERVICE)
        now = room.ground.clock.now()
        assert not entry.is_stale(now)
        entry.watch.state.members[room.member] = MemberWatch(since=now)
        assert not entry.is_stale(now)
        assert entry.is_stale(now - timedelta(seconds=1))
