"""What Redis holds, as pydantic records: operations, outgoing messages, addresses, locks."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_serializer, model_validator

from bot.core.events import ChannelId, HostName, Member, MessageTs, OperationId, ServiceName, UserId, Verb
from bot.errors import RecordUnreadable

if TYPE_CHECKING:
    from bot.core.blocks import Message


_VERSION = "schema_version"


class Record(BaseModel):
    """Unknown keys are ignored, so that an older process reads what a newer one has added to."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: Literal[1] = 1


class Operation(Record):
    """One startup, stop or watch. `plan` and `state` are JSON of the core's dataclasses."""

    operation: OperationId
    service: ServiceName
    verb: Verb
    channel: ChannelId
    by: UserId | None = None
    reason: str = ""
    began: datetime
    plan: str = "{}"
    state: str = "{}"
    positions: dict[Member, str] = Field(default_factory=dict)  # where each member's journal is resumed
    closed: datetime | None = None
    verdict: str | None = None
    headline: str = ""  # the present in one line
    account: str = ""  # JSON too, once it is closed: where the time went and why it failed
    owed: str = ""  # JSON of files that were ordered for its thread and are not queued yet
    told: tuple[str, ...] = ()  # what its thread was told before an earlier record of it was lost


class Past(Record):
    """What `history` and `why` need of a closed operation, without its plan and its state.

    `account`: as in the operation. `link`: to its thread, where that was known when it was closed.
    """

    operation: OperationId
    verb: Verb
    by: UserId | None = None
    began: datetime
    closed: datetime
    verdict: str | None = None
    account: str = ""
    link: str | None = None


class Memory(Record):
    """What is remembered of a service: `content` is a JSON object of one of the core's dataclasses.

    It is written beside the version, not within: a process of an earlier release, which wrote it alone,
    reads it, and does not begin anew over it.
    """

    content: str

    @model_validator(mode="before")
    @classmethod
    def _part(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "content" in value:
            return value
        content = {name: each for name, each in value.items() if name != _VERSION}
        return {_VERSION: value.get(_VERSION, 1), "content": json.dumps(content)}

    @model_serializer
    def _join(self) -> dict[str, Any]:
        return {_VERSION: self.schema_version, **json.loads(self.content)}


class FileNote(Record):
    """A file of an upload; its bytes lie beside the entry, compressed. `alt`: a picture in words."""

    name: str
    title: str
    comment: str = ""
    lines: int = 0
    masked: int = 0
    alt: str = ""


class Outgoing(Record):
    """One message on its way. `thread` is an operation id or any other key; `id` is unique among all.

    An edit has no place in the queue: each thread holds one, the newest. `present` is an edit whose message
    can no longer be edited: it goes out as a reply, and that reply is edited from then on.
    """

    id: str
    thread: str
    kind: Literal["root", "edit", "reply", "upload", "present"]
    channel: ChannelId
    thread_ts: MessageTs | None = None  # for an answer into a thread that is not ours
    text: str
    blocks: tuple[dict[str, Any], ...] = ()
    broadcast: bool = False
    file: FileNote | None = None
    tags: dict[str, str] = Field(default_factory=dict)  # metadata beside the message's own id
    queued: datetime | None = None  # when it was put into the queue
    asker: UserId | None = None  # of a root: who is told in private when Slack refuses the thread for good

    @classmethod
    def of(
        cls,
        message: Message,
        *,
        identity: str,
        thread: str,
        kind: Literal["root", "edit", "reply"],
        channel: ChannelId,
        broadcast: bool = False,
        tags: dict[str, str] | None = None,
        asker: UserId | None = None,
    ) -> Outgoing:
        """`identity`: what it is called in its thread."""
        return cls(
            id=f"{thread}:{identity}",
            thread=thread,
            kind=kind,
            channel=channel,
            text=message.text,
            blocks=message.blocks,
            broadcast=broadcast,
            tags=tags or {},
            asker=asker,
        )

    @classmethod
    def of_file(
        cls,
        note: FileNote,
        *,
        identity: str,
        thread: str,
        channel: ChannelId,
        thread_ts: MessageTs | None = None,
    ) -> Outgoing:
        """A file, whose bytes go beside it; `identity`: its whole id."""
        return cls(
            id=identity,
            thread=thread,
            kind="upload",
            channel=channel,
            thread_ts=thread_ts,
            text=note.comment,
            file=note,
        )


class Address(Record):
    """Where a thread's root is in Slack. `present` is what is edited, once that is no longer the root."""

    channel: ChannelId
    ts: MessageTs
    permalink: str | None = None
    present: MessageTs | None = None

    @property
    def edited(self) -> MessageTs:
        return self.present or self.ts


class Holder(Record):
    """Who holds a service."""

    operation: OperationId
    service: ServiceName
    verb: Verb
    by: UserId | None = None
    since: datetime
    headline: str = ""


class Attempt(Record):
    """Written before a message goes out: whoever finds it must read back before sending again."""

    id: str
    at: datetime
    file: str | None = None  # Slack's id of the uploaded bytes, once nothing but `complete` is missing


class Parked(Record):
    """A message that Slack refused for good."""

    outgoing: Outgoing
    method: str
    code: str
    at: datetime


class Mail(Record):
    """What a person said to an operation, on its way to the process that runs it."""

    id: str
    kind: Literal["wait", "unwatch", "superseded"]
    by: UserId
    until: datetime | None = None  # of a wait
    verb: Verb | None = None  # of what supersedes
    at: datetime


class Intent(Record):
    """What a person asked for, kept until it was answered; `owner`: the process that took it up.

    `words`: as they were typed. `command`: JSON of the core's, where a button was pressed.
    """

    token: str
    owner: str
    at: datetime
    user: UserId
    channel: ChannelId | None = None
    thread_ts: MessageTs | None = None
    words: str | None = None
    command: str | None = None
    confirmed: bool = False
    operation: OperationId | None = None
    minutes: int | None = None  # how much longer to wait
    view: str | None = None  # the modal it was asked in, which shows the answer
    decided: str = ""  # JSON: what is left to be told, once it is decided


class AuditEntry(Record):
    """Who asked for what, and what came of it."""

    at: datetime
    user: UserId | None = None
    channel: ChannelId | None = None
    verb: str
    service: ServiceName | None = None
    host: HostName | None = None  # where that was about a whole host
    operation: OperationId | None = None
    reason: str = ""
    outcome: str


class Unreadable(Record):
    """A record of another shape, set aside as it was."""

    key: str
    raw: str  # undecodable bytes escaped
    error: str
    at: datetime


RecordT = TypeVar("RecordT", bound=Record)


def past_of(operation: Operation, address: Address | None) -> Past:
    return Past(
        operation=operation.operation,
        verb=operation.verb,
        by=operation.by,
        began=operation.began,
        closed=operation.closed or operation.began,
        verdict=operation.verdict,
        account=operation.account,
        link=address.permalink if address is not None else None,
    )


def dump(record: Record) -> bytes:
    return record.model_dump_json(exclude_defaults=False).encode()


def load(kind: type[RecordT], raw: bytes, *, key: str) -> RecordT:
    """Raises RecordUnreadable, naming the key and the first thing that is wrong."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise RecordUnreadable(f"{key}: {place}: {first['msg']}") from error


def set_aside(key: str, raw: bytes, error: RecordUnreadable) -> Unreadable:
    return Unreadable(
        key=key, raw=raw.decode("utf-8", "backslashreplace"), error=str(error), at=datetime.now(UTC)
    )
