"""Fetches what a startup posts as files: its log, its stacks, its picture; each once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pydantic import TypeAdapter

from bot import samples
from bot.core.actions import UploadStacks, UploadTail
from bot.core.events import Member
from bot.core.startup import Startup
from bot.ground import Ground
from bot.messages import name_file, stacks_letter, tail_letter
from bot.pictures import waterfall_letter
from bot.saving import Ledger
from bot.sources import Link
from bot.tails import read_start

if TYPE_CHECKING:
    from bot.clients.records import Outgoing
    from bot.messages import Letter

Fetched: TypeAlias = UploadTail | UploadStacks
OWED = TypeAdapter(tuple[Fetched, ...])


@dataclass(slots=True)
class Uploads:
    """`owed`: ordered and not queued yet. It is on record, so that the next owner fetches it."""

    ground: Ground
    ledger: Ledger
    startup: Startup
    links: dict[Member, Link]
    owed: dict[int, Fetched] = field(default_factory=dict)
    given: dict[str, Fetched] = field(default_factory=dict)  # by id of its message: what is queued

    @property
    def record(self) -> str:
        return OWED.dump_json(tuple(self.owed.values())).decode() if self.owed else ""

    def owe(self, order: Fetched) -> None:
        self.owed[order.sequence] = order

    async def fetch(self, order: Fetched) -> None:
        letter = await self._fetch(order)
        if letter is not None:
            self.given[letter.outgoing.id] = order
        # Owed no more, and queued (or known to be missing), in the same transaction.
        self.owed.pop(order.sequence, None)
        self._post(letter)

    async def draw(self) -> None:
        """An extra: a start that cannot be drawn has its verdict all the same."""
        letter = await self._draw()
        if letter is not None:
            self._post(letter)

    async def anew(self, message: Outgoing) -> bytes | None:
        """What an upload that Redis has lost held; None where it cannot be had once more."""
        order = self.given.get(message.id)
        letter = await self._draw() if order is None else await self._fetch(order)
        return letter.content if letter is not None and letter.outgoing.id == message.id else None

    async def _draw(self) -> Letter | None:
        waterfall = self.startup.waterfall(self.ground.clock.now())
        if waterfall is None:
            return None
        operation = self.ledger.operation
        return await waterfall_letter(
            waterfall,
            operation=operation.operation,
            channel=operation.channel,
            name=name_file(operation.service, operation.began, kind="png"),
        )

    async def _fetch(self, order: Fetched) -> Letter | None:
        match order:
            case UploadTail():
                return await self._tail(order)
            case UploadStacks():
                return await self._stacks(order)

    async def _tail(self, order: UploadTail) -> Letter:
        members, operation = self.startup.state.members, self.ledger.operation
        invocations = {member: state.invocation for member, state in members.items()}
        begun = {member: state.begun for member, state in members.items()}
        tail = await read_start(self.links, invocations, make_redactor=self.ground.make_redactor, begun=begun)
        return tail_letter(
            tail,
            identity=f"{operation.operation}:{order.sequence}",
            thread=operation.operation,
            channel=operation.channel,
            name=name_file(operation.service, operation.began),
            comment=order.why,
        )

    async def _stacks(self, order: UploadStacks) -> Letter | None:
        operation = self.ledger.operation
        redactor = self.ground.make_redactor()
        stacks = await samples.read_stacks(self.links, order.processes, redactor=redactor)
        if stacks is None:
            return None
        identity = f"{operation.operation}:{order.sequence}"
        return stacks_letter(*stacks, identity=identity, operation=operation)

    def _post(self, letter: Letter | None) -> None:
        if letter is None:
            self.ledger.note()
        else:
            self.ledger.note([letter.outgoing], {letter.outgoing.id: letter.content})
