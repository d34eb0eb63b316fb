"""Takes up operations that nobody carries out any more, where their record says they stood."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from bot.core.actions import Pace, StartupView, Verdict
from bot.core.events import PhaseId, Role
from bot.core.startup import WANTED_FOR, Startup
from bot.messages import edit_message, notice_message
from bot.places import restore_places
from bot.running import PLAN, STATE, Running

if TYPE_CHECKING:
    from bot.clients.leases import Lease
    from bot.clients.records import Operation
    from bot.core.events import OperationId
    from bot.ground import Ground

log = structlog.get_logger()

NOT_BEGUN = "kimi went down before it began, and nothing was done. Ask again if it is still wanted."
NOT_RESTORED = (
    "kimi cannot go on from its own record of this operation: it no longer watches, and the service is left "
    "as it is. `watch` takes it up again."
)


async def adopt(ground: Ground, name: OperationId, lease: Lease) -> Running | None:
    """What goes on with the operation; None where nothing is to go on, and then it is settled.

    Raises StoreUnavailable, OwnershipLost; LookupError for a service that this process does not know.
    """
    operation = await ground.store.operation(name)
    if operation is None:
        await _tell_lost_record(ground, name)
        return None
    if operation.closed is not None and not operation.owed:
        await ground.store.finish(operation, lease=lease)
        return None
    if operation.service not in ground.configuration.services:
        raise LookupError(operation.service)
    try:
        running = restore(ground, operation, lease=lease)
    except (ValueError, LookupError) as error:  # pydantic's too: a plan or a state of another shape
        log.error("operation_not_restored", operation=name, error=repr(error))  # noqa: TRY400 - told
        await abandon(ground, operation, NOT_RESTORED, lease=lease)
        return None
    if operation.closed is None and not running.begun and not await _is_wanted(ground, operation):
        log.warning("operation_not_begun", operation=name)
        await abandon(ground, operation, NOT_BEGUN, lease=lease)
        return None
    running.ledger.known |= {message.id: message for message in await ground.store.waiting(name)}
    return running


async def _is_wanted(ground: Ground, operation: Operation) -> bool:
    """Whether a verb never ordered may be now: just asked for, and the service is held for it."""
    holder = await ground.store.holder(operation.service)
    held = holder is not None and holder.operation == operation.operation
    return held and ground.clock.now() - operation.began < WANTED_FOR


def restore(ground: Ground, operation: Operation, *, lease: Lease) -> Running:
    """Raises ValueError for a record of another shape, or of another configuration."""
    plan = PLAN.validate_json(operation.plan)
    state = STATE.validate_json(operation.state)
    links = ground.links(operation.service)
    if set(links) != set(plan.members):
        raise ValueError(f"its members were {', '.join(plan.members)}; they are configured no more")
    for member, link in links.items():
        restore_places(link, operation.positions)
        known = state.members[member]
        # A watch that was just written down has read nothing yet: from the beginning, not from now on.
        followed = known.invocation or plan.follows.get(member)
        link.invocation, link.boot = (followed if link.position is None else None), known.boot
        link.lost = known.lost is not None  # else nobody would tell that it can be seen again
    startup = Startup(plan, ground.engines[operation.service], state)
    return Running.make(ground, operation, startup, links=links, lease=lease)


def view_of(ground: Ground, operation: Operation) -> StartupView | None:
    """The present of an operation that another process carries out, as of its last save."""
    engine = ground.engines.get(operation.service)
    if engine is None or operation.closed is not None:
        return None
    try:
        plan, state = PLAN.validate_json(operation.plan), STATE.validate_json(operation.state)
    except ValueError as error:
        log.warning("state_unreadable", operation=operation.operation, error=str(error))
        return None
    return Startup(plan, engine, state).view(ground.clock.now())


async def abandon(ground: Ground, operation: Operation, sentence: str, *, lease: Lease) -> None:
    """Close what nobody goes on with, and say so in its thread. Raises as `finish` does."""
    channel, now = operation.channel, ground.clock.now()
    notice = notice_message(sentence, operation=operation.operation, channel=channel)
    update = {"closed": now, "verdict": Verdict.UNWATCHED, "owed": ""}
    shown = StartupView(
        operation=operation.operation,
        service=operation.service,
        verb=operation.verb,
        hosts=(),
        by=operation.by,
        reason=operation.reason,
        began=operation.began,
        elapsed=now - operation.began,
        phase=PhaseId.PROCESS,
        role=Role.TARGET,
        in_phase=timedelta(),
        pace=Pace.MOVING,
        phases=(),
        verdict=Verdict.UNWATCHED,
    )
    messages = [notice, edit_message(shown, channel=channel)]
    await ground.store.finish(operation.model_copy(update=update), messages, lease=lease)
    ground.outbox.wake()


async def _tell_lost_record(ground: Ground, name: OperationId) -> None:
    """It could not be read, and was set aside; or it was never written: then no thread of it stands."""
    address = await ground.store.address(name)
    if address is not None:
        log.error("operation_without_record", operation=name)
        await ground.store.enqueue([notice_message(NOT_RESTORED, operation=name, channel=address.channel)])
        ground.outbox.wake()
    await ground.store.forget_open(name)
