"""Operations and messages as tests need them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from bot.clients.records import FileNote, Holder, Operation, Outgoing
from bot.core.events import ChannelId, OperationId, ServiceName, UserId, Verb

BEGAN = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)
JUST_NOW = datetime(2100, 1, 1, tzinfo=UTC)  # never so long ago that a lock without a record is nobody's
CHANNEL = ChannelId("C0123456789")
OTHER_CHANNEL = ChannelId("C0987654321")
SERVICE = ServiceName("kimi-k2.5")
PERSON = UserId("U0123")


def operation(name: str = "op1", **changes: Any) -> Operation:
    record = Operation(
        operation=OperationId(name),
        service=SERVICE,
        verb=Verb.RESTART,
        channel=CHANNEL,
        by=PERSON,
        reason="new weights",
        began=BEGAN,
        headline="loading weights, 12/64",
    )
    return record.model_copy(update=changes)


def holder(name: str = "op1", **changes: Any) -> Holder:
    record = Holder(
        operation=OperationId(name), service=SERVICE, verb=Verb.RESTART, by=PERSON, since=JUST_NOW
    )
    return record.model_copy(update=changes)


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "plain_text", "text": text}}


def message(
    kind: Literal["root", "edit", "reply", "upload"],
    name: str,
    text: str,
    thread: str = "op1",
    **changes: Any,
) -> Outgoing:
    record = Outgoing(
        id=f"{thread}:{name}", thread=thread, kind=kind, channel=CHANNEL, text=text, blocks=(section(text),)
    )
    return record.model_copy(update=changes)


def root(text: str = "restarting", thread: str = "op1", **changes: Any) -> Outgoing:
    return message("root", "root", text, thread, **changes)


def edit(text: str, thread: str = "op1", **changes: Any) -> Outgoing:
    return message("edit", "edit", text, thread, **changes)


def reply(number: int, text: str = "", thread: str = "op1", **changes: Any) -> Outgoing:
    return message("reply", str(number), text or f"reply {number}", thread, **changes)


def upload(number: int, thread: str = "op1", **changes: Any) -> Outgoing:
    note = FileNote(
        name="tail.log", title="the whole log", comment="3 lines, 1 secret masked", lines=3, masked=1
    )
    return message("upload", str(number), "", thread, blocks=(), file=note, **changes)
