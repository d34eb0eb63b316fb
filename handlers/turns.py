"""One thing a person asked for, on its way to an answer: decided, kept, told, noted, in this order."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from pydantic import TypeAdapter

from bot.clients.records import AuditEntry, Intent
from bot.core.answers import REDIS_GONE, render_sentence, render_slow
from bot.core.blocks import Message
from bot.core.command import ACTING, Command, Outcome
from bot.core.events import ChannelId, MessageTs, ServiceName, UserId
from bot.errors import KimiError, Leaving, StoreUnavailable
from handlers.parts import Parts
from handlers.voices import Voice

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from bot.core.events import HostName, OperationId

log = structlog.get_logger()

WAIT = "wait"  # the button "Keep waiting", which is no verb that can be typed
_BROKE = "Something broke inside kimi; its log says what. See `status` before trying again."
_KEEP_WITHIN = 1.0  # seconds; an answer that cannot be kept is told all the same


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who speaks, and where. `channel` None: in the bot's own Home tab or its modals."""

    user: UserId
    channel: ChannelId | None
    thread_ts: MessageTs | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """What is left to do of an intent once it is decided: to tell it, and to note it."""

    text: str
    blocks: tuple[dict[str, object], ...]
    entry: AuditEntry


DECIDED = TypeAdapter(Decided)


@dataclass(slots=True)
class Turn:
    """`command`: once the words are understood; `service`: what it is about, where no command says so."""

    parts: Parts
    intent: Intent
    voice: Voice
    command: Command | None = None
    service: ServiceName | None = None

    @property
    def speaker(self) -> Speaker:
        return Speaker(self.intent.user, self.intent.channel, self.intent.thread_ts)

    async def tell(self, message: Message) -> None:
        """A person who cannot be reached breaks nothing: what was done stays done."""
        try:
            await self.voice.tell(message)
        except Exception:
            log.warning("answer_not_delivered", by=self.intent.user, text=message.text, exc_info=True)

    async def tell_slow(self, hosts: Sequence[HostName], seconds: float) -> None:
        """What is known already of hosts that keep silent; the answer itself comes in any case."""
        if self.command is None or self.command.service is None:
            return
        outage = None
        with suppress(StoreUnavailable):
            outage = await self.parts.incidents.outage_of(self.command.service)
        await self.tell(render_slow(self.command.verb, self.command.service, hosts, seconds, outage=outage))

    async def conclude(
        self, message: Message, outcome: Outcome, *, operation: OperationId | None = None
    ) -> None:
        """Tell what was decided; of a verb that acts, keep it first and note it afterwards.

        Whoever takes this up from a dead process then repeats the answer and does not decide anew: a service
        that was busy may have become free, and nobody expects a restart after "Nothing was done".
        """
        if not self._acts:
            await self.tell(message)
            return
        entry = self._entry(outcome, operation)
        if await self._keep(Decided(message.text, message.blocks, entry)):
            await self.tell(message)
            await self._write(entry)

    async def repeat(self, decided: str) -> None:
        """What a process decided that died before it had told it."""
        found = DECIDED.validate_json(decided)
        await self.tell(Message(found.text, found.blocks))
        await self._write(found.entry)

    async def note(self, outcome: Outcome) -> None:
        """What came of it, where the answer was not told from here."""
        if self._acts:
            await self._write(self._entry(outcome, None))

    async def _write(self, entry: AuditEntry) -> None:
        """Into the audit; that Redis does not take it is no reason to fail."""
        try:
            await self.parts.store.audit(entry)
        except StoreUnavailable as error:
            log.warning("audit_not_written", entry=entry.model_dump(mode="json"), error=str(error))

    async def fail(self, sentence: str, *, keep: bool) -> None:
        """`keep`: not where Redis is what failed, which would only delay the answer."""
        if keep:
            await self.conclude(render_sentence(sentence), Outcome.FAILED)
            return
        await self.tell(render_sentence(sentence))
        await self.note(Outcome.FAILED)

    @property
    def _acts(self) -> bool:
        return self.intent.minutes is not None or (self.command is not None and self.command.verb in ACTING)

    def _entry(self, outcome: Outcome, operation: OperationId | None) -> AuditEntry:
        command = self.command
        return AuditEntry(
            at=self.parts.clock.now(),  # what it is about is told by that clock too
            user=self.intent.user,
            channel=self.intent.channel,
            verb=WAIT if command is None else command.verb,
            service=self.service if command is None else command.service,
            host=command.host if command is not None else None,
            operation=operation or self.intent.operation,
            reason=command.reason if command is not None else "",
            outcome=outcome,
        )

    async def _keep(self, decided: Decided) -> bool:
        """False: another process took this for dead, took it up, and answers in our place."""
        kept = self.intent.model_copy(update={"decided": DECIDED.dump_json(decided).decode()})
        try:
            async with asyncio.timeout(_KEEP_WITHIN):
                return await self._replace(kept)
        except (StoreUnavailable, TimeoutError) as error:
            log.warning("decision_not_kept", token=self.intent.token, error=str(error))
            return True

    async def _replace(self, kept: Intent) -> bool:
        store = self.parts.store
        if await store.adopt_intent(kept, self.intent.owner):
            return True
        # In nobody's hands: Redis came back empty, or it was answered. Twice is better than never.
        return all(other.token != kept.token for other in await store.intents())


@asynccontextmanager
async def ending(turn: Turn) -> AsyncIterator[None]:
    """Where the work of a task ends: the person learns of everything, and nothing escapes it but Leaving."""
    by = turn.intent.user
    try:
        yield
    except Leaving:
        raise
    except StoreUnavailable:
        log.warning("store_unavailable_for_command", by=by)
        await turn.fail(REDIS_GONE, keep=False)
    except KimiError as error:
        log.warning("command_not_done", by=by, error=str(error))
        await turn.fail(str(error), keep=True)
    except Exception:
        log.exception("handler_failed", by=by)
        await turn.fail(_BROKE, keep=True)
