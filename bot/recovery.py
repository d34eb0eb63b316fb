"""Goes on after a Redis that came back empty: with what this process remembers, and with what Slack tells.

Theory. What Redis held is known elsewhere. A process that lives has its operations in memory (`rebuilding`).

An operation whose process died as well is known from its root alone: Slack keeps beside it which operation it
is of, and whether it is open. Such a one is taken up as a watch in its old thread. Whoever lives is given
the time of a lease to come for what is theirs; after that the lease on the operation decides who takes it up.
A mark in Redis tells all processes, and those that start later, that this was done.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from bot.clients.slack_history import Archive
from bot.core import emptied
from bot.core.answers import render_sentence
from bot.core.events import ChannelId, OperationId, Verb
from bot.errors import OwnershipLost, SlackError, StoreEmptied, StoreUnavailable
from bot.found import holder_of_root, look_back, take_up
from bot.ground import Ground
from bot.messages import answer_root
from bot.rebuilding import Rebuilding
from bot.startups import Startups

if TYPE_CHECKING:
    from bot.clients.slack_history import FoundRoot
    from bot.running import Running

log = structlog.get_logger()

_EVERY = 2.0  # real seconds between looks, where nothing happens
_AGAIN = 3.0  # between looks at Slack while another process takes something up
_LONGEST_PAUSE = 10.0


@dataclass(slots=True)
class Recovery:
    """`open` before anything is begun, then `run` for as long as the process lives."""

    ground: Ground
    startups: Startups
    archive: Archive
    rebuilding: Rebuilding = field(init=False)
    _noticed: float = field(default_factory=time.monotonic)
    _lived: bool = False  # it was this process that saw Redis lose something
    _blank: bool = False  # Redis knew nothing when this process began
    _settled: bool = False
    _searched: bool = False
    _work: asyncio.Event = field(default_factory=asyncio.Event)
    _taking: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rebuilding = Rebuilding(self.ground, self.startups, self.archive)
        self.ground.store.leases.subscribe_emptied(self._notice)

    async def open(self) -> None:
        """Nothing is begun beside a Redis that may have lost what is under way. Raises StoreUnavailable."""
        self._settled = await self.ground.store.is_rebuilt()
        if not self._settled:
            self._blank = await self.ground.store.is_blank()
            self.startups.bar(emptied.BARRED)

    async def run(self) -> None:
        """For ever."""
        pause = 1.0
        while True:
            self._work.clear()
            try:
                if self._settled and not await self.ground.store.check_epoch():
                    self._notice()
                if not self._settled:
                    await self._recover()
                await self._look_after_own()
            except (StoreUnavailable, SlackError) as error:
                log.warning("recovery_delayed", error=str(error), again_in=pause)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            pause = 1.0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY):
                    await self._work.wait()

    def _notice(self) -> None:
        log.error("redis_came_back_empty", under_way=len(self.startups.recent))
        self._lived, self._settled, self._searched = True, False, False
        self._noticed = time.monotonic()
        for running in self.startups.recent.values():
            running.ledger.strand()
        self.startups.bar(emptied.BARRED)
        self._work.set()

    async def _look_after_own(self) -> None:
        """What came to be while Redis was emptied; and those that have nothing on its way are forgotten."""
        for name, running in tuple(self.startups.recent.items()):
            if running.ledger.is_stranded and not running.is_lost:
                await self.rebuilding.rebuild(running)
            elif running.is_lost or await self._is_told(name):
                self.startups.recent.pop(name, None)

    async def _is_told(self, name: OperationId) -> bool:
        """Whether it is over, and nothing of it waits; after a Redis was emptied nobody can say so."""
        if name in self.startups.owned or await self.ground.store.waiting(name):
            return False
        return await self.ground.store.check_epoch()

    async def _recover(self) -> None:
        store = self.ground.store
        if not await store.check_epoch():
            await store.renew_epoch()
            self._searched = False
        if not self._searched:
            await self._rebuild_own()
            await self._search_and_take_up()
        if not self._taking and self._searched and await store.check_epoch():
            await store.settle_epoch()
            self._settled, self._lived = True, False
            log.info("redis_rebuilt")

    async def _rebuild_own(self) -> None:
        own = tuple(self.startups.recent.values()) if self._lived else ()
        for running in own:
            running.ledger.strand()
        await asyncio.gather(*(self.rebuilding.rebuild(running) for running in own))
        if any(running.ledger.is_stranded and not running.is_lost for running in own):
            raise StoreEmptied("Redis came back empty once more")

    async def _search_and_take_up(self) -> None:
        self._searched = True  # unless something says otherwise meanwhile
        try:
            await self._take_up_lost()
        except BaseException:
            self._searched = False  # what was found is not taken up yet
            raise

    async def _take_up_lost(self) -> None:
        found, lost = await self._search()
        if self._lived or (self._blank and found) or lost:
            await self._announce()
        while lost:
            await self._wait_for_others()
            for root in (await self._search())[1]:
                if await self._hold(root):
                    name = f"take up {root.operation}"
                    task = self.ground.tasks.spawn(name, self._take_up(root))
                    self._taking.add(task)
                    task.add_done_callback(self._taking.discard)
            self.startups.unbar()
            lost = (await self._search())[1]  # those that another process just takes up
        if self._searched:
            self.startups.unbar()

    async def _announce(self) -> None:
        """Once, whichever process does it."""
        slack, thread = self.ground.configuration.slack, f"emptied-{self.ground.store.epoch}"
        channel = ChannelId(slack.fallback_channel or slack.channel)
        words = render_sentence(emptied.ANNOUNCED)
        await self.ground.store.enqueue([answer_root(words, thread=thread, channel=channel)])
        self.ground.outbox.wake()

    # What Slack alone still knows.

    async def _search(self) -> tuple[int, list[FoundRoot]]:
        """How many roots of ours there are; and those of open operations that Redis knows nothing of."""
        oldest = datetime.now(UTC) - look_back(self.ground.configuration)
        channels = dict.fromkeys(map(self.ground.channel, self.ground.engines))
        roots = await self.archive.readable_roots(channels, oldest=oldest)
        opened = [root for root in roots if _is_open(root, self.ground)]
        return len(roots), [root for root in opened if await self._is_unknown(OperationId(root.operation))]

    async def _is_unknown(self, name: OperationId) -> bool:
        return name not in self.startups.owned and await self.ground.store.operation(name) is None

    async def _wait_for_others(self) -> None:
        """Whoever lives and has them notices within the time of a lease."""
        patience = self._noticed + self.ground.store.leases.seconds - time.monotonic()
        await asyncio.sleep(max(patience, _AGAIN))

    async def _hold(self, root: FoundRoot) -> bool:
        """Whether it is ours to take up."""
        name = OperationId(root.operation)
        lease = await self.ground.store.leases.claim(name)
        if lease is None:
            return False
        if await self.ground.store.operation(name) is not None:
            await self.ground.store.leases.let_go(lease)
            return False
        await self.ground.store.take(holder_of_root(self.ground, root))
        return True

    async def _take_up(self, root: FoundRoot) -> None:
        name, pause = OperationId(root.operation), 1.0
        self.startups.owned.add(name)
        running: Running | None = None
        try:
            while (lease := await self.ground.store.leases.claim(name)) is not None:
                try:
                    running = await take_up(self.ground, self.archive, root, lease=lease)
                    break
                except SlackError as error:
                    log.warning("take_up_delayed", operation=name, error=str(error), again_in=pause)
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
            if running is not None:
                self.startups.carry(running)
            elif lease is not None:
                await self.ground.store.leases.let_go(lease)
        except OwnershipLost as error:
            log.warning("taken_up_elsewhere", operation=name, error=str(error))
        except StoreUnavailable as error:
            log.warning("take_up_begins_anew", operation=name, error=str(error))
            self._searched = False
        finally:
            if running is None:
                self.startups.owned.discard(name)


def _is_open(root: FoundRoot, ground: Ground) -> bool:
    tags = root.tags
    known = tags.get("service") in ground.configuration.services and tags.get("verb") in set(Verb)
    return known and tags.get("state") == "open" and root.id == f"{root.operation}:root"
