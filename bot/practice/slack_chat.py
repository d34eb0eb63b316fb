"""`chat.*` and `reactions.add`: posting, editing, whispering, deleting, with Slack's refusals."""

from __future__ import annotations

import secrets
import time
from typing import Any

from bot.practice.slack_arguments import Arguments, Method, Methods
from bot.practice.slack_limits import (
    POST_CHARACTERS,
    check_content,
    check_same_types,
    check_ts,
    check_update_text,
    read_blocks,
    read_metadata,
)
from bot.practice.slack_state import Block, Change, Channel, PostedMessage, Refusal, Refused, Workspace

MOST_ATTACHMENTS = 100


def name_blocks(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Blocks with a block_id each and an action_id on each element, as Slack fills them in."""
    return tuple(
        {**_name_elements(block), "block_id": block.get("block_id") or secrets.token_hex(3)}
        for block in blocks
    )


def _name_elements(block: Block) -> Block:
    if block["type"] != "actions":
        return block
    elements = [
        {**element, "action_id": element.get("action_id") or secrets.token_hex(3)}
        for element in block["elements"]
    ]
    return {**block, "elements": elements}


def show_message(message: PostedMessage, workspace: Workspace, *, metadata: bool = False) -> dict[str, Any]:
    """A message as the Web API gives it back."""
    if message.tombstone:
        return {
            "type": "message",
            "subtype": "tombstone",
            "text": "This message was deleted.",
            "ts": message.ts,
        }
    shown: dict[str, Any] = {
        "type": "message",
        "user": message.user,
        "text": message.text,
        "ts": message.ts,
        "team": workspace.team,
        "blocks": list(message.blocks),
    }
    if message.bot:
        shown |= {"bot_id": workspace.bot, "app_id": workspace.app}
    if message.thread_ts:
        shown |= {"thread_ts": message.thread_ts, "parent_user_id": workspace.bot_user}
        shown |= {"subtype": "thread_broadcast"} if message.broadcast else {}
    if message.edited:
        shown["edited"] = {"user": message.user, "ts": message.edited}
    if message.files:
        shown["files"] = [{"id": file.id, "name": file.name, "title": file.title} for file in message.files]
    if metadata and message.metadata:
        shown["metadata"] = message.metadata
    return shown


class Chat:
    """The methods, over one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def methods(self) -> Methods:
        return {
            "chat.postMessage": Method(self.post_message, "chat:write"),
            "chat.update": Method(self.update, "chat:write"),
            "chat.postEphemeral": Method(self.post_ephemeral, "chat:write"),
            "chat.delete": Method(self.delete, "chat:write"),
            "chat.getPermalink": Method(self.get_permalink),
            "reactions.add": Method(self.react, "reactions:write"),
        }

    def post_message(self, call: Arguments) -> dict[str, Any]:
        channel = self.writable(call.needed("channel"))
        text, blocks = self._content(call)
        message = PostedMessage(
            channel=channel.id,
            ts=self._workspace.next_ts(),
            user=self._workspace.bot_user,
            text=text,
            blocks=name_blocks(blocks),
            thread_ts=self.root(channel.id, call),
            broadcast=call.flag("reply_broadcast") and "thread_ts" in call,
            metadata=read_metadata(call.structure("metadata", broken="invalid_metadata_format")),
            bot=True,
        )
        self._workspace.post(message)
        return {
            "channel": channel.id,
            "ts": message.ts,
            "message": show_message(message, self._workspace, metadata=True),
        }

    def update(self, call: Arguments) -> dict[str, Any]:
        channel = self._workspace.channel(call.needed("channel"))
        message = self._own(channel.id, call.needed("ts"), "cant_update_message")
        if channel.archived:
            raise Refused("is_archived")
        self._check_edit_window(message)
        text = call.text("text")
        blocks = read_blocks(call.structure("blocks", broken="invalid_blocks_format"))
        check_content(text, blocks, call.values.get("attachments"))
        check_update_text(text)
        check_same_types(message.blocks, blocks)
        if "metadata" in call:  # left out: kept; {}: removed
            given = call.structure("metadata", broken="invalid_metadata_format")
            message.metadata = read_metadata(given or None)
        self._workspace.edit(message, text, name_blocks(blocks))
        shown = show_message(message, self._workspace, metadata=True)
        return {"channel": channel.id, "ts": message.ts, "text": message.text, "message": shown}

    def post_ephemeral(self, call: Arguments) -> dict[str, Any]:
        channel = self._workspace.channel(call.needed("channel"))
        self._reach(channel, public=False)
        user = call.needed("user")
        if user not in self._workspace.users:
            raise Refused("user_not_in_channel")
        text, blocks = self._content(call)
        message = PostedMessage(
            channel=channel.id,
            ts=self._workspace.next_ts(),
            user=self._workspace.bot_user,
            text=text,
            blocks=name_blocks(blocks),
            thread_ts=self.root(channel.id, call),
            bot=True,
            seen_by=user,
        )
        self._workspace.whisper(message)
        return {"message_ts": message.ts}

    def delete(self, call: Arguments) -> dict[str, Any]:
        channel = self._workspace.channel(call.needed("channel"))
        message = self._own(channel.id, call.needed("ts"), "cant_delete_message")
        self._workspace.delete(message)
        return {"channel": channel.id, "ts": message.ts}

    def get_permalink(self, call: Arguments) -> dict[str, Any]:
        channel = self._workspace.channel(call.needed("channel"))
        message = self._workspace.message(channel.id, call.needed("message_ts"))
        place = f"{self._workspace.base_url}/archives/{channel.id}/p{message.ts.replace('.', '')}"
        thread = f"?thread_ts={message.thread_ts}&cid={channel.id}" if message.thread_ts else ""
        return {"channel": channel.id, "permalink": place + thread}

    def react(self, call: Arguments) -> dict[str, Any]:
        channel = self._workspace.channel(call.needed("channel"))
        self._reach(channel, public=False)
        check_ts(call.needed("timestamp"), "bad_timestamp")
        message = self._workspace.message(channel.id, call.needed("timestamp"))
        people = message.reactions.setdefault(call.needed("name"), [])
        if self._workspace.bot_user in people:
            raise Refused("already_reacted")
        people.append(self._workspace.bot_user)
        self._workspace.changed(Change("reaction", message))
        return {}

    def writable(self, channel_id: str) -> Channel:
        """A channel the bot may post into; a person's id means the DM with them."""
        if channel_id.startswith("U"):
            return self._workspace.direct(channel_id)
        channel = self._workspace.channel(channel_id)
        self._reach(channel, public=True)
        return channel

    def root(self, channel: str, call: Arguments) -> str | None:
        """The `thread_ts` of a call: a root's, or none."""
        ts = call.text("thread_ts")
        if not ts:
            return None
        check_ts(ts, "invalid_thread_ts")
        thread = self._workspace.thread(channel, ts)
        if not thread or thread[0].ts != ts or thread[0].thread_ts is not None:
            raise Refused("thread_not_found")
        return ts

    def _reach(self, channel: Channel, *, public: bool) -> None:
        if channel.archived:
            raise Refused("is_archived")
        if not channel.joined and not (public and "chat:write.public" in self._workspace.scopes):
            raise Refused("not_in_channel")

    def _check_edit_window(self, message: PostedMessage) -> None:
        """An administrator may set after how long nobody edits a message any more."""
        window = self._workspace.edit_window
        if window is not None and time.time() - float(message.ts) > window:
            raise Refused("edit_window_closed")

    def _own(self, channel: str, ts: str, code: str) -> PostedMessage:
        message = self._workspace.message(channel, ts)
        if not message.bot:
            raise Refused(code)
        return message

    def _content(self, call: Arguments) -> tuple[str, tuple[Block, ...]]:
        """Text and blocks of a new message; text beyond Slack's limit is cut, with a warning for us."""
        attachments = call.structure("attachments", broken="invalid_attachments")
        if isinstance(attachments, list) and len(attachments) > MOST_ATTACHMENTS:
            raise Refused("too_many_attachments")
        text = call.text("text")
        blocks = read_blocks(call.structure("blocks", broken="invalid_blocks_format"))
        check_content(text, blocks, attachments)
        if len(text) > POST_CHARACTERS:
            cut = Refusal("chat.postMessage", "text_cut", f"{len(text)} characters, {POST_CHARACTERS} kept")
            self._workspace.warnings.append(cut)
        return text[:POST_CHARACTERS], blocks
