"""Reads what is known of past startups, for `history` and `why`."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from bot.baselines import read_usual
from bot.core.account import Account, PastStartup
from bot.core.actions import Verdict
from bot.core.events import Verb
from bot.core.history import make_history
from bot.core.retrospect import HistoryView, WhyView, render_history_root
from bot.core.startup import Startup
from bot.ground import Ground
from bot.messages import answer_root, name_file
from bot.pictures import history_letter
from bot.running import ACCOUNT, PLAN, STATE

if TYPE_CHECKING:
    from bot.clients.records import Operation
    from bot.core.events import ChannelId, MessageTs, ServiceName, UserId
    from config.engine_file import EngineFile

log = structlog.get_logger()

_SHOWN = 30  # startups of one history
_SEARCHED = 200  # operations looked through, stops among them


@dataclass(frozen=True, slots=True)
class Accounts:
    """Answers about the past. Every method raises StoreUnavailable."""

    ground: Ground

    async def history(self, service: ServiceName) -> HistoryView:
        """The newest startups, newest first."""
        closed = await self.ground.store.history(service, _SEARCHED)
        starts = [each for each in closed if each.verb is not Verb.STOP and each.verdict is not None]
        usual = await read_usual(self.ground.store, service)
        told = [await self._past(each) for each in starts[:_SHOWN]]
        return HistoryView(service, tuple(told), usual=usual.whole, now=self.ground.clock.now())

    async def why(self, service: ServiceName) -> WhyView:
        """The last failure, and how many starts came to be healthy since."""
        last, since = None, 0
        for operation in await self.ground.store.history(service, _SEARCHED):
            if operation.verdict == Verdict.FAILED:
                last = await self._past(operation)
                break
            since += operation.verdict == Verdict.HEALTHY
        return WhyView(service, last, healthy_since=since, now=self.ground.clock.now())

    async def draw_history(
        self, view: HistoryView, *, by: UserId, channel: ChannelId, thread_ts: MessageTs | None
    ) -> None:
        """The picture as a file into the channel or thread; nothing where there is nothing to draw."""
        history = make_history(view.service, view.startups, usual=view.usual)
        if history is None:
            return
        thread = f"history-{uuid.uuid4().hex}"
        name = name_file(view.service, view.now, kind="png")
        letter = await history_letter(history, thread=thread, channel=channel, thread_ts=thread_ts, name=name)
        if letter is None:
            return
        title = render_history_root(view.service, by)
        root = [] if thread_ts else [answer_root(title, thread=thread, channel=channel)]
        await self.ground.store.enqueue([*root, letter.outgoing], {letter.outgoing.id: letter.content})
        self.ground.outbox.wake()

    async def _past(self, operation: Operation) -> PastStartup:
        address = await self.ground.store.address(operation.operation)
        closed = operation.closed or operation.began
        return PastStartup(
            operation=operation.operation,
            verb=operation.verb,
            verdict=Verdict(operation.verdict or Verdict.UNWATCHED),
            began=operation.began,
            took=closed - operation.began,
            by=operation.by,
            account=read_account(operation, self.ground.engines.get(operation.service)),
            link=address.permalink if address else None,
        )


def read_account(operation: Operation, engine: EngineFile | None) -> Account:
    """As it was written down; of a record older than accounts are, what its state still tells."""
    try:
        if operation.account:
            return ACCOUNT.validate_json(operation.account)
        plan, state = PLAN.validate_json(operation.plan), STATE.validate_json(operation.state)
    except ValueError as error:  # pydantic's too
        log.warning("account_unreadable", operation=operation.operation, error=str(error))
        return Account()
    if engine is None or operation.closed is None:
        return Account()
    return Startup(plan, engine, state).account(operation.closed)
