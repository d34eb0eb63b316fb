"""What a claim needs of Slack: the channel, the place in it, the methods. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.clients.slack_files import COMPLETE, RESERVE
from bot.core.events import ChannelId
from bot.core.pacing import POST, Waiting

if TYPE_CHECKING:
    from bot.clients.records import Address, Outgoing
    from bot.clients.store_queue import Claim
    from bot.core.events import MessageTs


def channel_of(claim: Claim) -> ChannelId:
    """Of our own thread as Slack told it, since asked for a person it answers with a conversation."""
    head = claim.head or claim.edit
    own = claim.address is not None and (head is None or (head.kind != "root" and head.thread_ts is None))
    if own and claim.address:
        return claim.address.channel
    return head.channel if head else ChannelId("")


def hangs_on_root(message: Outgoing) -> bool:
    """False for a root, for what goes into another's thread, and for a thread that is one message alone."""
    return message.kind != "root" and message.thread_ts is None and message.thread != message.id


def thread_ts_of(claim: Claim) -> MessageTs | None:
    if claim.head is None or claim.head.kind == "root":
        return None
    return claim.head.thread_ts or (claim.address.ts if claim.address else None)


def address_by(claim: Claim, head: Outgoing, posted: Address) -> Address | None:
    """What the thread's address becomes by this message; None where it stays as it is."""
    if head.kind == "root":
        return posted
    if head.kind == "present" and claim.address:
        return claim.address.model_copy(update={"present": posted.ts})
    return None


def methods_of(claim: Claim) -> tuple[str, ...]:
    """The methods the head needs; none while it has to wait for the root."""
    head = claim.head
    if head is None or (hangs_on_root(head) and thread_ts_of(claim) is None):
        return ()
    own = (RESERVE, COMPLETE) if head.kind == "upload" else (POST,)
    if claim.attempted is None:
        return own
    return (*own, "conversations.replies" if thread_ts_of(claim) else "conversations.history")


def waiting_of(claim: Claim) -> Waiting:
    replacing = claim.head is not None and claim.head.kind in {"root", "present"}
    return Waiting(
        thread=claim.thread,
        channel=channel_of(claim),
        head=methods_of(claim),
        edit=claim.edit is not None and claim.address is not None and not replacing,
    )
