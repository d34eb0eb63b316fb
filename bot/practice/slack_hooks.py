"""`response_url`: five answers within thirty minutes to a command or a pressed button."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import web

from bot.practice.slack_arguments import Arguments
from bot.practice.slack_chat import name_blocks
from bot.practice.slack_faults import (
    RESPONSE_URL,
    ErrorCode,
    FaultPlan,
    RateLimited,
    ResetAfterAccept,
    ResetBeforeAccept,
    Status,
    reset,
)
from bot.practice.slack_limits import POST_CHARACTERS, check_content, read_blocks
from bot.practice.slack_state import PostedMessage, Refused, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_USES = 5
LIFE = 1800.0  # seconds
UNKNOWN, BAD = 404, 400


@dataclass(slots=True)
class Hook:
    """Whose answer it is: the person, the channel, and the message whose button was pressed, if any."""

    channel: str
    user: str
    message: PostedMessage | None
    issued: float
    uses: int = 0


class Hooks:
    """Issues the addresses and takes what is posted to them."""

    def __init__(
        self, workspace: Workspace, faults: FaultPlan, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._workspace = workspace
        self._faults = faults
        self._now = now
        self._hooks: dict[str, Hook] = {}

    def issue(self, channel: str, user: str, message: PostedMessage | None = None) -> str:
        token = secrets.token_urlsafe(16)
        self._hooks[token] = Hook(channel, user, message, self._now())
        kind = "commands" if message is None else "actions"
        return f"{self._workspace.base_url}/{kind}/{self._workspace.team}/{token}"

    async def serve(self, request: web.Request) -> web.Response:
        try:
            payload = json.loads(await request.text())
        except ValueError:
            payload = None
        fault = self._faults.take(RESPONSE_URL)
        match fault:
            case Status(code):
                return web.Response(status=code, text="error")
            case RateLimited(seconds):
                return web.Response(status=429, headers={"Retry-After": str(seconds)}, text="rate_limited")
            case ErrorCode(code):
                return web.json_response({"ok": False, "error": code}, status=UNKNOWN)
            case ResetBeforeAccept():
                return reset(request)
        response = self._take(request.match_info["token"], payload)
        return reset(request) if isinstance(fault, ResetAfterAccept) else response

    def _take(self, token: str, payload: Any) -> web.Response:
        try:
            hook = self._admit(token)
            if not isinstance(payload, dict):
                raise Refused("invalid_payload")  # noqa: TRY301 - one place turns refusals into responses
            self.say(hook, payload)
        except Refused as refused:
            self._workspace.refuse(RESPONSE_URL, refused)
            status = UNKNOWN if refused.code in {"expired_url", "used_url", "no_such_url"} else BAD
            return web.json_response(refused.body(), status=status)
        return web.Response(text="ok")

    def _admit(self, token: str) -> Hook:
        hook = self._hooks.get(token)
        if hook is None:
            raise Refused("no_such_url")
        if self._now() - hook.issued > LIFE:
            raise Refused("expired_url")
        if hook.uses >= MOST_USES:
            raise Refused("used_url")
        hook.uses += 1
        return hook

    def answer(self, channel: str, user: str, payload: dict[str, Any]) -> None:
        """What came with the acknowledgement of a command."""
        self.say(Hook(channel, user, None, self._now()), payload)

    def say(self, hook: Hook, payload: dict[str, Any]) -> None:
        """Delete or replace the original, or speak anew: to the person alone unless `in_channel`."""
        call = Arguments(payload)
        if call.flag("delete_original"):
            self._workspace.delete(self._original(hook))
            return
        text = call.text("text")[:POST_CHARACTERS]
        blocks = read_blocks(call.structure("blocks", broken="invalid_blocks_format"))
        check_content(text, blocks, call.values.get("attachments"))
        if call.flag("replace_original") and hook.message is not None:
            self._workspace.edit(self._original(hook), text, name_blocks(blocks))
            return
        shared = call.text("response_type", "ephemeral") == "in_channel"
        message = PostedMessage(
            channel=hook.channel,
            ts=self._workspace.next_ts(),
            user=self._workspace.bot_user,
            text=text,
            blocks=name_blocks(blocks),
            thread_ts=call.text("thread_ts") or None,
            bot=True,
            seen_by=None if shared else hook.user,
        )
        (self._workspace.post if shared else self._workspace.whisper)(message)

    def _original(self, hook: Hook) -> PostedMessage:
        message = hook.message
        if message is None or message.tombstone:
            raise Refused("message_not_found")
        if message.seen_by is not None and message not in self._workspace.ephemerals:
            raise Refused("message_not_found")
        return message
