"""Reads what is known of past startups, for `history` and `why`."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from bot.baselines import read_account, read_usual
from bot.core.account import Account, PastStartup
from bot.core.actions import Verdict
from bot.core.events import Verb
from bot.core.history import make_history
from bot.core.request import operation_of
from bot.core.retrospect import HistoryView, WhyView, render_history_root
from bot.core.startup import Startup
from bot.ground import Ground
from bot.messages import answer_root, name_file
from bot.pictures import history_letter
from bot.running import PLAN, STATE
from bot.standing import describe

if TYPE_CHECKING:
    from bot.clients.records import Operation, Past
    from bot.core.events import ChannelId, MessageTs, ServiceName, UserId
    from bot.core.request import Held
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
        closed = await self.ground.store.past(service, _SEARCHED)
        starts = [each for each in closed if each.verb is not Verb.STOP and each.verdict is not None]
        usual = await read_usual(self.ground.store, service)
        told = [await self._tell(service, each) for each in starts[:_SHOWN]]
        now, held = self.ground.clock.now(), await self._start_under_way(service)
        return HistoryView(service, tuple(told), usual=usual.whole, now=now, held=held)

    async def _start_under_way(self, service: ServiceName) -> Held | None:
        holder = await self.ground.store.holder(service)
        return None if holder is None or holder.verb is Verb.STOP else await describe(self.ground, holder)

    async def why(self, service: ServiceName) -> WhyView:
        """The last failure, and how many starts came to be healthy since."""
        last, since = None, 0
        for past in await self.ground.store.past(service, _SEARCHED):
            if past.verdict == Verdict.FAILED:
                last = await self._tell(service, past)
                break
            since += past.verdict == Verdict.HEALTHY
        return WhyView(service, last, healthy_since=since, now=self.ground.clock.now())

    async def draw_history(
        self,
        view: HistoryView,
        *,
        by: UserId,
        channel: ChannelId,
        thread_ts: MessageTs | None,
        token: str = "",
    ) -> None:
        """The picture as a file into the channel or thread; nothing where there is nothing to draw.

        Asked for again with the same `token`, it is not sent again.
        """
        history = make_history(view.service, view.startups, usual=view.usual)
        if history is None:
            return
        thread = f"history-{operation_of(token or uuid.uuid4().hex)}"
        name = name_file(view.service, view.now, kind="png")
        letter = await history_letter(history, thread=thread, channel=channel, thread_ts=thread_ts, name=name)
        if letter is None:
            return
        title = render_history_root(view.service, by)
        root = [] if thread_ts else [answer_root(title, thread=thread, channel=channel, asker=by)]
        await self.ground.store.enqueue([*root, letter.outgoing], {letter.outgoing.id: letter.content})
        self.ground.outbox.wake()

    async def _tell(self, service: ServiceName, past: Past) -> PastStartup:
        return PastStartup(
            operation=past.operation,
            verb=past.verb,
            verdict=Verdict(past.verdict or Verdict.UNWATCHED),
            began=past.began,
            took=past.closed - past.began,
            by=past.by,
            account=await self._account(service, past),
            link=past.link or await self._link(past),
        )

    async def _account(self, service: ServiceName, past: Past) -> Account:
        """As it was written down; of an operation older than accounts are, what its state still tells."""
        if past.account:
            return read_account(past)
        operation = await self.ground.store.operation(past.operation)
        engine = self.ground.engines.get(service)
        return Account() if operation is None or engine is None else account_of_state(operation, engine)

    async def _link(self, past: Past) -> str | None:
        """Slack had not told it yet when the operation was closed."""
        address = await self.ground.store.address(past.operation)
        return address.permalink if address is not None else None


def account_of_state(operation: Operation, engine: EngineFile) -> Account:
    if operation.closed is None:
        return Account()
    try:
        plan, state = PLAN.validate_json(operation.plan), STATE.validate_json(operation.state)
    except ValueError as error:
        log.warning("state_unreadable", operation=operation.operation, error=str(error))
        return Account()
    return Startup(plan, engine, state).account(operation.closed)
