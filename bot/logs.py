"""The log of a service for a person who asked: read anew from its hosts, masked, posted as files."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.asking import Slow, noticing
from bot.core.events import ChannelId, MessageTs
from bot.core.request import operation_of
from bot.errors import HostError
from bot.messages import logs_root_message, tail_letter
from bot.tails import read_latest

if TYPE_CHECKING:
    from datetime import timedelta

    from bot.core.events import ServiceName, UserId
    from bot.ground import Ground
    from bot.sources import Link


@dataclass(frozen=True, slots=True)
class Place:
    """Where it was asked for; outside of threads the files hang below a message of their own."""

    channel: ChannelId
    thread_ts: MessageTs | None


async def send_logs(
    ground: Ground,
    service: ServiceName,
    *,
    by: UserId,
    place: Place,
    lines: int | None = None,
    since: timedelta | None = None,
    token: str = "",
    slow: Slow | None = None,
) -> str | None:
    """A file for each member as it comes, once for a `token`; a sentence of each host that refuses."""
    thread = f"logs-{operation_of(token or uuid.uuid4().hex)}"
    root = logs_root_message(service, by=by, thread=thread, channel=place.channel)
    before = [] if place.thread_ts else [root]
    links = list(ground.links(service).values())
    shared = Counter(link.host.name for link in links)

    async def send(link: Link) -> str | None:
        try:
            tail = await read_latest(link, make_redactor=ground.make_redactor, lines=lines, since=since)
        except HostError as error:
            return str(error)
        host, unit = link.host.name, link.unit.removesuffix(".service")
        which = f"{host}-{unit}" if shared[host] > 1 else host
        letter = tail_letter(
            tail,
            identity=f"{thread}:{link.member}",
            thread=thread,
            channel=place.channel,
            thread_ts=place.thread_ts,
            name=f"{service}-{which}.log",
            comment=f"Log of {service} on {link.member if shared[host] > 1 else host}, asked for by <@{by}>:",
        )
        # Whichever comes first brings the root along: of the same message Redis takes one.
        await ground.store.enqueue([*before, letter.outgoing], {letter.outgoing.id: letter.content})
        ground.outbox.wake()
        return None

    async with noticing(links, slow):
        refused = await asyncio.gather(*map(send, links))
    return " ".join(dict.fromkeys(filter(None, refused))) or None
