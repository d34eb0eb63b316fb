"""What the practice workspace remembers: people, channels, messages, files, and what it refused."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Block: TypeAlias = dict[str, Any]

BOT_SCOPES = frozenset(
    {
        "commands",
        "chat:write",
        "chat:write.public",
        "files:write",
        "app_mentions:read",
        "channels:read",
        "groups:read",
        "channels:history",
        "groups:history",
        "users:read",
        "usergroups:read",
    },
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that broke one of Slack's rules; `error` is Slack's own code."""

    method: str
    error: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A Web API call as it came in, token left out; `at` is monotonic seconds."""

    method: str
    arguments: dict[str, Any]
    at: float


class Refused(Exception):
    """Slack says no; `messages` go into `response_metadata`, `extra` beside the error code."""

    def __init__(self, code: str, *messages: str, **extra: Any) -> None:
        super().__init__(code)
        self.code = code
        self.messages = messages
        self.extra = extra

    def detail(self) -> str:
        return "; ".join([*self.messages, *(f"{key}={value}" for key, value in self.extra.items())])

    def body(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"ok": False, "error": self.code, **self.extra}
        if self.messages:
            answer["response_metadata"] = {"messages": list(self.messages)}
        return answer


@dataclass(frozen=True, slots=True)
class User:
    id: str
    name: str


@dataclass(slots=True)
class Channel:
    """`joined`: the bot is a member. A DM's id starts with D and has one person in it."""

    id: str
    name: str
    private: bool = False
    archived: bool = False
    joined: bool = True
    person: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    id: str
    handle: str
    users: tuple[str, ...]


@dataclass(slots=True)
class PostedFile:
    id: str
    name: str
    title: str
    content: bytes
    channel: str | None = None
    thread_ts: str | None = None
    ts: str | None = None  # of the message that shows it
    alt: str = ""  # what a screen reader says of a picture

    @property
    def kind(self) -> str:
        """As Slack tells it by the name."""
        return "image/png" if self.name.lower().endswith(".png") else "text/plain"

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")


@dataclass(slots=True)
class PostedMessage:
    """A message as it stands now; `versions` holds what it said before each edit, oldest first."""

    channel: str
    ts: str
    user: str
    text: str
    blocks: tuple[Block, ...] = ()
    thread_ts: str | None = None  # the root's ts, in replies only
    broadcast: bool = False
    metadata: dict[str, Any] | None = None
    bot: bool = False
    files: tuple[PostedFile, ...] = ()
    seen_by: str | None = None  # an ephemeral is for this user alone
    edited: str | None = None  # ts of the last edit
    versions: list[tuple[str, tuple[Block, ...]]] = field(default_factory=list)
    reactions: dict[str, list[str]] = field(default_factory=dict)
    tombstone: bool = False  # deleted, but its replies still hang on it

    @property
    def plain(self) -> str:
        """Every word a reader sees: the blocks' texts where there are blocks, else the text."""
        return "\n".join(_texts(self.blocks)) if self.blocks else self.text

    def action(self, action_id: str, value: str | None = None) -> tuple[Block, Block]:
        """The block and the element with this action id; LookupError where the message has none."""
        return find_action(self.blocks, action_id, value)


def find_action(blocks: Iterable[Block], action_id: str, value: str | None = None) -> tuple[Block, Block]:
    for block in blocks:
        for element in [*block.get("elements", ()), block.get("accessory") or {}, block.get("element") or {}]:
            wanted = value is None or element.get("value") == value
            if element.get("action_id") == action_id and wanted:
                return block, element
    raise LookupError(f"nothing with action_id {action_id!r} here")


def _texts(node: Any) -> Iterator[str]:
    """Texts in reading order; the runs of one rich-text section or preformatted part are one text."""
    if isinstance(node, dict):
        kind = node.get("type", "")
        if kind in {"rich_text_section", "rich_text_preformatted", "rich_text_quote"}:
            yield "".join(run.get("text") or run.get("url", "") for run in node.get("elements", ()))
            return
        if isinstance(node.get("text"), str):
            yield node["text"]
        for key in ("text", "title", "fields", "rows", "elements", "accessory", "label", "element"):
            if not isinstance(node.get(key), str):
                yield from _texts(node.get(key))
    elif isinstance(node, list | tuple):
        for item in node:
            yield from _texts(item)


@dataclass(frozen=True, slots=True)
class Change:
    """Something a person would see; `kind`: posted, edited, deleted, ephemeral, view, reaction, refused."""

    kind: str
    message: PostedMessage | None = None
    user: str | None = None


class Workspace:
    """People, channels and messages, with Slack's rules about who may reach what."""

    team = "T0PRACTICE"
    domain = "practice"
    app = "A0KIMI"
    bot_user = "U0KIMIBOT"
    bot = "B0KIMI"
    bot_name = "kimi"

    def __init__(self, scopes: Iterable[str] = BOT_SCOPES) -> None:
        self.scopes = set(scopes)
        self.revoked = False  # the bot token is good for nothing, until this is False again
        self.edit_window: float | None = None  # seconds within which a message may be edited
        self.base_url = ""
        self.users: dict[str, User] = {self.bot_user: User(self.bot_user, self.bot_name)}
        self.channels: dict[str, Channel] = {}
        self.groups: dict[str, Group] = {}
        self.files: dict[str, PostedFile] = {}
        self.ephemerals: list[PostedMessage] = []
        self.refusals: list[Refusal] = []
        self.warnings: list[Refusal] = []
        self.calls: list[Call] = []
        self._messages: dict[str, dict[str, PostedMessage]] = {}
        self._watchers: list[Callable[[Change], None]] = []
        self._last = 0

    def next_ts(self) -> str:
        """Unique and increasing over the whole workspace."""
        self._last = max(self._last + 1, time.time_ns() // 1000)
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"

    def require(self, scope: str) -> None:
        if scope not in self.scopes:
            raise Refused("missing_scope", needed=scope, provided=",".join(sorted(self.scopes)))

    def channel(self, channel: str) -> Channel:
        """By id only. A private channel the bot is not in does not exist for it."""
        found = self.channels.get(channel)
        if found is None or (found.private and not found.joined):
            raise Refused("channel_not_found")
        return found

    def direct(self, user: str) -> Channel:
        """The DM between the bot and a person, opened by the first message."""
        if user not in self.users or user == self.bot_user:
            raise Refused("channel_not_found")
        return self.channels.setdefault(
            f"D{user[1:]}", Channel(f"D{user[1:]}", self.users[user].name, private=True, person=user)
        )

    def message(self, channel: str, ts: str) -> PostedMessage:
        found = self._messages.get(channel, {}).get(ts)
        if found is None or found.tombstone:
            raise Refused("message_not_found")
        return found

    def messages(self, channel: str) -> list[PostedMessage]:
        """All of a channel, replies and tombstones included, oldest first."""
        return sorted(self._messages.get(channel, {}).values(), key=lambda message: float(message.ts))

    def roots(self, channel: str) -> list[PostedMessage]:
        """What the channel shows: everything that is no reply, and broadcast replies."""
        return [
            message for message in self.messages(channel) if message.thread_ts is None or message.broadcast
        ]

    def thread(self, channel: str, ts: str) -> list[PostedMessage]:
        """The root first; empty where there is no such root."""
        return [message for message in self.messages(channel) if ts in {message.ts, message.thread_ts}]

    def post(self, message: PostedMessage) -> PostedMessage:
        self._messages.setdefault(message.channel, {})[message.ts] = message
        self.changed(Change("posted", message))
        return message

    def whisper(self, message: PostedMessage) -> PostedMessage:
        self.ephemerals.append(message)
        self.changed(Change("ephemeral", message, message.seen_by))
        return message

    def edit(self, message: PostedMessage, text: str, blocks: Iterable[Block]) -> None:
        message.versions.append((message.text, message.blocks))
        message.text, message.blocks = text, tuple(blocks)
        message.edited = self.next_ts()
        self.changed(Change("edited", message, message.seen_by))

    def delete(self, message: PostedMessage) -> None:
        if message.seen_by is not None:
            self.ephemerals.remove(message)
        elif len(self.thread(message.channel, message.ts)) > 1:
            message.tombstone = True
        else:
            del self._messages[message.channel][message.ts]
        self.changed(Change("deleted", message, message.seen_by))

    def watch(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call back on every change; the answer ends that."""
        self._watchers.append(callback)
        return lambda: self._watchers.remove(callback)

    def changed(self, change: Change) -> None:
        for callback in tuple(self._watchers):
            callback(change)

    def refuse(self, method: str, refused: Refused) -> None:
        self.refusals.append(Refusal(method, refused.code, refused.detail()))
        self.changed(Change("refused"))
