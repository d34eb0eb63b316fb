"""What people asked for: kept in Redis before Slack hears that it arrived, settled once it was answered.

Theory. Slack tells a command once and waits three seconds; an event it tells again until it is acknowledged.
Whatever is acknowledged is in Redis first, so that the death of this process loses nothing: another one, or
the next one on this machine, finds the intent and goes on with it. Redis keeps and marks it in one step: a
repeat is known, over all processes, and the repeat of what was never kept is a first time.

A process that waited in vain for Redis does not know whether its intent arrived. Of a command it said that
nothing was done: the next look finds an intent of its own that it does not work at, and settles it. An event
was left to be told again, and the repeat may be known by then: so the next look takes it up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import structlog

from bot.core.answers import REDIS_GONE, render_sentence
from bot.errors import CommandRefused, Leaving, StoreUnavailable
from handlers.dialogue import Dialogue
from handlers.turns import Turn
from handlers.voices import restore_voice

if TYPE_CHECKING:
    from bot.clients.records import Intent
    from handlers.parts import Parts
    from handlers.voices import AckVoice, Voice

log = structlog.get_logger()

GRACE = 0.05  # seconds an acknowledgement waits for its answer to come along
FRESH = timedelta(seconds=60)  # nobody expects a restart long after it was asked for
EVERY = 2.0  # seconds between looks for what dead processes left
_WITHIN = 2.0  # seconds for Redis to take an intent; Slack gives up after 3
_REMEMBERED = 3600  # seconds; Slack repeats an event for some minutes
_DELIVERING = 0.03  # seconds until bolt has noticed an acknowledgement and sent it
_MOST_WAIT = 1.0  # seconds that work waits for those who are not acknowledged yet
_MOST_OWED = 1000
_UNWRITABLE = "There is a character in this that I cannot read. Nothing was done."


class Intents:
    """Keeps, begins, settles; `run` must be running, for what dead processes left."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._dialogue = Dialogue(parts)
        self._mine: Counter[str] = Counter()  # tokens this process keeps or works at, now
        self._owed: dict[str, None] = {}  # tokens of events that may have been kept without our knowing
        self._hearing = 0  # those who are not acknowledged yet
        self._quiet = asyncio.Event()

    @property
    def owner(self) -> str:
        return self._parts.store.leases.owner

    async def receive(self, intent: Intent, voice: AckVoice) -> None:
        """Keep, begin, acknowledge; a quick answer comes with the acknowledgement, a slow one follows it."""
        try:
            first = await self.keep(intent)
        except (StoreUnavailable, CommandRefused) as error:
            sentence = str(error) if isinstance(error, CommandRefused) else REDIS_GONE
            await Turn(self._parts, intent, voice).tell(render_sentence(sentence))
            first = False
        if first:
            alone = self._hearing <= 1
            work = self.begin(intent, voice)
            if alone:
                await asyncio.wait({work}, timeout=GRACE)
        await voice.acknowledge()

    async def keep(self, intent: Intent, *, told_again: bool = False) -> bool:
        """True for the first of its token over all processes: then `begin` it. Raises StoreUnavailable.

        `told_again`: what is not kept now comes again. CommandRefused for what cannot be written down at all.
        """
        self._mine[intent.token] += 1
        self._hear()
        first = False
        try:
            async with asyncio.timeout(_WITHIN):
                first = await self._parts.store.intend(intent, _REMEMBERED)
        except (StoreUnavailable, TimeoutError) as error:
            log.warning("intent_not_kept", by=intent.user, error=str(error) or "no answer in time")
            if told_again:
                self._owe(intent.token)
            raise StoreUnavailable(str(error)) from error
        except ValueError as error:  # half a surrogate pair, which JSON carries and UTF-8 does not
            log.warning("intent_not_readable", by=intent.user, error=str(error))
            raise CommandRefused(_UNWRITABLE) from error
        finally:
            if not first:
                self._leave(intent.token)
            asyncio.get_running_loop().call_later(_DELIVERING, self._heard)
        if first:
            self._owed.pop(intent.token, None)
        return first

    def begin(self, intent: Intent, voice: Voice) -> asyncio.Task[None]:
        """Of what was kept: do it, answer, settle."""
        work = self._see_to(intent, voice, crowded=self._hearing > 1)
        return self._parts.tasks.spawn("intent", work)

    async def _see_to(self, intent: Intent, voice: Voice, *, crowded: bool) -> None:
        try:
            if crowded:
                await self._let_others_be_heard()
            turn = Turn(self._parts, intent, voice)
            if datetime.now(UTC) - intent.at < FRESH:
                await self._dialogue.answer(turn)
            else:
                log.warning("intent_too_late", at=intent.at.isoformat(), by=intent.user)
                await self._dialogue.decline(turn)
            await asyncio.sleep(_DELIVERING)  # an answer may be on its way with the acknowledgement
            await self._settle(intent.token)
        except Leaving as error:
            log.info("intent_left", by=intent.user, why=str(error))
            self._mine[intent.token] += 1  # it stays ours until this process is gone
        finally:
            self._leave(intent.token)

    async def _settle(self, token: str) -> None:
        try:
            await self._parts.store.settle_intent(token)
        except StoreUnavailable as error:  # the next look does it
            log.warning("intent_not_settled", error=str(error))

    # What dead processes left.

    async def run(self) -> None:
        """For ever: take up what dead processes left."""
        while True:
            try:
                await self.adopt()
            except StoreUnavailable as error:
                log.warning("intents_not_looked_at", error=str(error))
            await asyncio.sleep(EVERY)

    async def adopt(self) -> None:
        """Take up what no living process works at. Raises StoreUnavailable."""
        found = await self._parts.store.intents()
        dead = {owner for owner in {each.owner for each in found} if not await self._lives(owner)}
        if dead:  # read anew: the dead may have written down what they decided since, and now no longer can
            found = await self._parts.store.intents()
        for intent in found:
            if intent.owner == self.owner:
                await self._sweep(intent)
            elif intent.owner in dead and await self._parts.store.adopt_intent(intent, self.owner):
                self._take_up(intent.model_copy(update={"owner": self.owner}))

    async def _lives(self, owner: str) -> bool:
        return owner == self.owner or await self._parts.store.leases.alive(owner)

    async def _sweep(self, intent: Intent) -> None:
        """One of our own that nobody works at: given up, or settled while Redis was away."""
        if intent.token in self._mine:
            return
        if intent.token in self._owed:
            del self._owed[intent.token]
            self._take_up(intent)
        else:
            await self._parts.store.settle_intent(intent.token)

    def _take_up(self, intent: Intent) -> None:
        log.info("intent_taken_up", by=intent.user, at=intent.at.isoformat())
        self._mine[intent.token] += 1
        self.begin(intent, restore_voice(self._parts.client, intent))

    def _leave(self, token: str) -> None:
        self._mine[token] -= 1
        if not self._mine[token]:
            del self._mine[token]

    def _owe(self, token: str) -> None:
        self._owed[token] = None
        if len(self._owed) > _MOST_OWED:
            del self._owed[next(iter(self._owed))]

    # Whoever waits for an acknowledgement comes first.

    def _hear(self) -> None:
        self._hearing += 1
        self._quiet.clear()

    def _heard(self) -> None:
        self._hearing -= 1
        if not self._hearing:
            self._quiet.set()

    async def _let_others_be_heard(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MOST_WAIT):
                await self._quiet.wait()
