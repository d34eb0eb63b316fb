"""Turns what the core orders to be told into messages for the outbox."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from bot.clients.records import FileNote, Outgoing
from bot.clients.slack_history import TELLS
from bot.core.actions import EditRoot, MarkerSeen, PhaseFinished, PostReply, VerdictReached
from bot.core.answers import render_logs_root, render_sentence
from bot.core.baseline import phase_key
from bot.core.render import render_reply, render_root
from bot.core.words import count, name_doing, name_units

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from bot.clients.records import Operation
    from bot.core.actions import Action, Reply, StartupView
    from bot.core.blocks import Message
    from bot.core.events import ChannelId, MessageTs, OperationId, ServiceName, UserId
    from bot.core.tail import TailFile


def describe_present(view: StartupView) -> str:
    """The present in a few plain words, for who meets a held service: `loading weights, 12 of 64 shards`."""
    doing = name_doing(view.phase, view.role)
    for seen in view.phases:
        if (seen.phase, seen.role) == (view.phase, view.role) and seen.progress:
            counted = f"{seen.progress.done} of {seen.progress.total} {name_units(view.phase)}"
            return f"{doing}, {counted}"
    return doing


STACKS = "stacks.txt"


@dataclass(frozen=True, slots=True)
class Letter:
    """An upload with its bytes; the outbox keeps the two together."""

    outgoing: Outgoing
    content: bytes


def root_message(view: StartupView, *, channel: ChannelId) -> Outgoing:
    return Outgoing.of(
        render_root(view),
        identity="root",
        thread=view.operation,
        kind="root",
        channel=channel,
        tags=_tags(view),
        asker=view.by,
    )


def edit_message(view: StartupView, *, channel: ChannelId) -> Outgoing:
    return Outgoing.of(
        render_root(view),
        identity="edit",
        thread=view.operation,
        kind="edit",
        channel=channel,
        tags=_tags(view),
    )


def _tags(view: StartupView) -> dict[str, str]:
    """What Slack keeps beside the root, for a Redis that came back empty."""
    by = {} if view.by is None else {"by": view.by}
    return {
        "state": "open" if view.verdict is None else "closed",
        "service": view.service,
        "verb": view.verb,
        "began": view.began.isoformat(),
        **by,
    }


def messages_of(
    actions: Iterable[Action], view: StartupView, *, channel: ChannelId, run: str = ""
) -> list[Outgoing]:
    """Replies in their order, then the newest edit alone. `run`: which start they are about."""
    replies, edits = [], []
    for order in actions:
        if isinstance(order, PostReply):
            replies.append(reply_message(order, view, channel=channel, run=run))
        elif isinstance(order, EditRoot):
            edits = [edit_message(order.view, channel=channel)]
    return [*replies, *edits]


def reply_message(order: PostReply, view: StartupView, *, channel: ChannelId, run: str = "") -> Outgoing:
    return Outgoing.of(
        render_reply(order.reply, view),
        identity=str(order.sequence),
        thread=view.operation,
        kind="reply",
        channel=channel,
        broadcast=order.broadcast,
        tags={TELLS: tells} if (tells := name_told(order.reply, run)) else None,
    )


def name_told(reply: Reply, run: str) -> str:
    """What a reply tells that is told once in each start, in one word; empty for what may come again.

    A watch that takes up an old thread from Slack alone reads the log from the beginning of the start, and
    knows by this word what was told already. `run`: which start it is about.
    """
    match reply:
        case PhaseFinished():
            return f"{phase_key(reply.phase, reply.role)}@{run}"
        case MarkerSeen():
            lines = hashlib.sha1("\n".join(reply.hit.lines).encode(), usedforsecurity=False).hexdigest()
            return f"marker-{lines[:12]}@{run}"
        case VerdictReached():
            return f"verdict@{run}"
        case _:
            return ""


def notice_message(
    sentence: str, *, operation: OperationId, channel: ChannelId, identity: str = "notice"
) -> Outgoing:
    """A word in a thread from outside its startup: the last one, or one with a name of its own."""
    message = render_sentence(sentence)
    return Outgoing.of(message, identity=identity, thread=operation, kind="reply", channel=channel)


def logs_root_message(service: ServiceName, *, by: UserId, thread: str, channel: ChannelId) -> Outgoing:
    """What a log hangs under that was asked for outside a thread: a file alone has no place of its own."""
    return answer_root(render_logs_root(service, by), thread=thread, channel=channel, asker=by)


def answer_root(
    message: Message, *, thread: str, channel: ChannelId, asker: UserId | None = None
) -> Outgoing:
    """The root of a thread that holds one answer."""
    return Outgoing.of(message, identity="root", thread=thread, kind="root", channel=channel, asker=asker)


def name_file(service: ServiceName, began: datetime, *, kind: str = "log") -> str:
    """`kimi-k2.5-2026-05-29T2349Z.log`: sorts by time, and no character a shell or Slack minds."""
    return f"{service}-{began.astimezone(UTC):%Y-%m-%dT%H%MZ}.{kind}"


def describe_tail(tail: TailFile) -> str:
    """`4,212 lines, 2 secrets masked`."""
    lines = "1 line" if tail.lines == 1 else f"{tail.lines:,} lines"
    if not tail.masked:
        return lines
    return f"{lines}, {'1 secret' if tail.masked == 1 else f'{tail.masked:,} secrets'} masked"


def tail_letter(
    tail: TailFile,
    *,
    identity: str,
    thread: OperationId | str,
    channel: ChannelId,
    name: str,
    comment: str,
    thread_ts: MessageTs | None = None,
) -> Letter:
    """`tail` as a file, introduced by `comment` and by how long it is and how many secrets were masked."""
    described = f"{comment} `{name}` ({describe_tail(tail)})"
    note = FileNote(name=name, title=name, comment=described, lines=tail.lines, masked=tail.masked)
    outgoing = Outgoing.of_file(note, identity=identity, thread=thread, channel=channel, thread_ts=thread_ts)
    return Letter(outgoing, tail.text.encode("utf-8", "surrogateescape"))


def stacks_letter(text: str, ranks: int, *, identity: str, operation: Operation) -> Letter:
    """Where the ranks stand in their code, as a file below the log."""
    described = f"Where {count(ranks, 'rank')} stood in the code: `{STACKS}`"
    note = FileNote(name=STACKS, title=STACKS, comment=described, lines=text.count("\n"), masked=0)
    outgoing = Outgoing(
        id=identity,
        thread=operation.operation,
        kind="upload",
        channel=operation.channel,
        text=described,
        file=note,
    )
    return Letter(outgoing, text.encode("utf-8", "surrogateescape"))
