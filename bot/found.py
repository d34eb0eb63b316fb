"""Takes up an operation of which nothing is left but its thread in Slack."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import structlog

from bot.adoption import abandon
from bot.clients.records import Address, Holder, Operation
from bot.core import emptied
from bot.core.events import OperationId, ServiceName, UserId, Verb
from bot.core.request import Request
from bot.errors import CommandRefused, HostError
from bot.messages import notice_message
from bot.planning import make_plan, observe, prepare

if TYPE_CHECKING:
    from bot.clients.leases import Lease
    from bot.clients.records import Outgoing
    from bot.clients.slack_history import Archive, FoundRoot, Standing
    from bot.core.events import Member, UnitState
    from bot.ground import Ground
    from bot.running import Running
    from bot.sources import Link
    from config.services import Configuration

log = structlog.get_logger()

_LATER = timedelta(hours=1)  # how long after it should have ended a thread may still be open
_PAUSE = 2.0  # real seconds between looks at a host that does not answer
_APART = 100  # replies: numbers that a process may have given which Slack never heard of


def look_back(configuration: Configuration) -> timedelta:
    """How old a thread may be that is still open."""
    services = configuration.services.values()
    return max((section.give_up_after for section in services), default=timedelta()) + _LATER


async def find_address(archive: Archive, operation: Operation) -> Address | None:
    """Where its root stands, though nobody had noted it yet. Raises one of the SlackErrors."""
    oldest = datetime.now(UTC) - _LATER
    for root in await archive.roots(operation.channel, oldest=oldest):
        if root.operation == operation.operation and root.id.endswith(":root"):
            return Address(channel=root.channel, ts=root.ts)
    return None


def holder_of_root(ground: Ground, root: FoundRoot) -> Holder:
    """Of the lock, for what is taken up."""
    former = _operation_of(ground, root)
    return Holder(
        operation=former.operation,
        service=former.service,
        verb=Verb.WATCH,
        by=former.by,
        since=former.began,
    )


async def take_up(ground: Ground, archive: Archive, root: FoundRoot, *, lease: Lease) -> Running | None:
    """A watch in the old thread; None where there is nothing to follow, and then its thread says so.

    A host that does not answer is waited for. Raises SlackError, StoreUnavailable, OwnershipLost.
    """
    address = Address(channel=root.channel, ts=root.ts)
    standing = await archive.read(address)
    address = address.model_copy(update={"present": standing.present})
    former = _operation_of(ground, root)

    async def give_up(sentence: str) -> None:
        await ground.store.rebuild(former, lease=lease, address=address, known=standing.ids, holder=None)
        await abandon(ground, former, sentence, lease=lease)

    holder = holder_of_root(ground, root)
    other = await ground.store.take(holder)
    if other is not None:
        reason = "another operation has the service meanwhile"
        await give_up(emptied.say_not_followed(reason))
        return None
    if former.verb is Verb.STOP:
        await give_up(emptied.STOP_LOST)
        return None
    request = Request(former.service, Verb.WATCH, former.by or UserId(""))
    links = ground.links(former.service)
    try:
        units = await _see(links, request)
    except CommandRefused as error:
        await give_up(emptied.say_not_followed(str(error)))
        return None
    plan = await make_plan(ground, request, identity=former.operation, units=units)
    plan = replace(plan, began=former.began, by=former.by)
    running = prepare(ground, plan, links=links, lease=lease)
    running.startup.state.sequence = _numbered(standing) + _APART
    running.ledger.operation = running.operation.model_copy(update={"told": tuple(sorted(standing.tells))})
    running.ledger.address = address
    await ground.store.rebuild(
        running.operation, lease=lease, address=address, known=standing.ids, holder=holder
    )
    running.ledger.note([_notice(ground, former)])
    log.info("operation_taken_up", operation=former.operation, told=len(standing.ids))
    return running


def _operation_of(ground: Ground, root: FoundRoot) -> Operation:
    service, tags = ServiceName(root.tags["service"]), root.tags
    try:
        began = datetime.fromisoformat(tags.get("began", ""))
    except ValueError:
        began = datetime.fromtimestamp(float(root.ts), UTC)
    return Operation(
        operation=OperationId(root.operation),
        service=service,
        verb=Verb(tags["verb"]),
        channel=root.channel,
        by=UserId(tags["by"]) if "by" in tags else None,
        began=min(began, ground.clock.now()),
    )


async def _see(links: dict[Member, Link], request: Request) -> dict[Member, UnitState]:
    """Raises CommandRefused."""
    while True:
        try:
            return await observe(links, request)
        except HostError as error:
            log.warning("take_up_waits_for_host", service=request.service, error=str(error))
            await asyncio.sleep(_PAUSE)


def _notice(ground: Ground, former: Operation) -> Outgoing:
    identity = f"emptied-{ground.store.epoch}"
    return notice_message(
        emptied.TAKEN_UP, operation=former.operation, channel=former.channel, identity=identity
    )


def _numbered(standing: Standing) -> int:
    """The highest number of a reply that Slack has."""
    names = [name.rpartition(":")[2] for name in standing.ids]
    return max((int(name) for name in names if name.isdecimal()), default=0)
