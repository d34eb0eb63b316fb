"""Methods that only read: conversations, users, user groups, and who the token belongs to."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, TypeVar

from bot.practice.slack_arguments import Arguments, Method, Methods
from bot.practice.slack_chat import show_message
from bot.practice.slack_limits import check_ts
from bot.practice.slack_state import Channel, PostedMessage, Refused, User, Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

Item = TypeVar("Item")
LARGEST_PAGE = 999


def cut_page(items: Sequence[Item], call: Arguments) -> tuple[list[Item], dict[str, Any]]:
    """One page, and the `response_metadata` that leads to the next."""
    limit = call.number("limit", 100)
    if not 0 < limit <= LARGEST_PAGE + 1:
        raise Refused("invalid_limit")
    start = _read_cursor(call.text("cursor"))
    rest = start + limit < len(items)
    cursor = base64.b64encode(f"next:{start + limit}".encode()).decode() if rest else ""
    return list(items[start : start + limit]), {"response_metadata": {"next_cursor": cursor}}


def _read_cursor(cursor: str) -> int:
    if not cursor:
        return 0
    try:
        return int(base64.b64decode(cursor, validate=True).decode().removeprefix("next:"))
    except ValueError as error:
        raise Refused("invalid_cursor") from error


class Lookups:
    """The methods, over one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def methods(self) -> Methods:
        return {
            "auth.test": Method(self.auth_test),
            "conversations.replies": Method(self.replies),
            "conversations.history": Method(self.history),
            "conversations.info": Method(self.info),
            "conversations.list": Method(self.list_channels),
            "users.info": Method(self.user, "users:read"),
            "users.list": Method(self.list_users, "users:read"),
            "usergroups.list": Method(self.list_groups, "usergroups:read"),
            "usergroups.users.list": Method(self.group_users, "usergroups:read"),
        }

    def auth_test(self, _call: Arguments) -> dict[str, Any]:
        return {
            "url": f"https://{self._workspace.domain}.slack.com/",
            "team": self._workspace.domain,
            "user": self._workspace.bot_name,
            "team_id": self._workspace.team,
            "user_id": self._workspace.bot_user,
            "bot_id": self._workspace.bot,
            "is_enterprise_install": False,
        }

    def replies(self, call: Arguments) -> dict[str, Any]:
        channel = self._readable(call)
        ts = call.needed("ts")
        check_ts(ts, "invalid_ts")
        thread = self._workspace.thread(channel.id, ts)
        if not thread:
            raise Refused("thread_not_found")
        return self._page(self._within(thread, call), call)

    def history(self, call: Arguments) -> dict[str, Any]:
        channel = self._readable(call)
        return self._page(self._within(self._workspace.roots(channel.id), call)[::-1], call)

    def info(self, call: Arguments) -> dict[str, Any]:
        channel = self._workspace.channel(call.needed("channel"))
        self._workspace.require(_scope(channel, "read"))
        return {"channel": self._show_channel(channel)}

    def list_channels(self, call: Arguments) -> dict[str, Any]:
        kinds = {kind.strip() for kind in call.text("types", "public_channel").split(",")}
        for kind, scope in (("public_channel", "channels:read"), ("private_channel", "groups:read")):
            if kind in kinds:
                self._workspace.require(scope)
        found = [
            self._show_channel(channel)
            for channel in self._workspace.channels.values()
            if channel.person is None
            and ("private_channel" if channel.private else "public_channel") in kinds
            and (channel.joined or not channel.private)
            and not (channel.archived and call.flag("exclude_archived"))
        ]
        page, further = cut_page(found, call)
        return {"channels": page, **further}

    def user(self, call: Arguments) -> dict[str, Any]:
        user = self._workspace.users.get(call.needed("user"))
        if user is None:
            raise Refused("user_not_found")
        return {"user": self._show_user(user)}

    def list_users(self, call: Arguments) -> dict[str, Any]:
        page, further = cut_page([self._show_user(user) for user in self._workspace.users.values()], call)
        return {"members": page, **further}

    def list_groups(self, call: Arguments) -> dict[str, Any]:
        groups = [
            {
                "id": group.id,
                "handle": group.handle,
                "name": group.handle,
                "team_id": self._workspace.team,
                "user_count": len(group.users),
                **({"users": list(group.users)} if call.flag("include_users") else {}),
            }
            for group in self._workspace.groups.values()
        ]
        return {"usergroups": groups}

    def group_users(self, call: Arguments) -> dict[str, Any]:
        group = self._workspace.groups.get(call.needed("usergroup"))
        if group is None:
            raise Refused("no_such_subteam")
        return {"users": list(group.users)}

    def _readable(self, call: Arguments) -> Channel:
        channel = self._workspace.channel(call.needed("channel"))
        self._workspace.require(_scope(channel, "history"))
        if not channel.joined:
            raise Refused("not_in_channel")
        return channel

    def _within(self, messages: list[PostedMessage], call: Arguments) -> list[PostedMessage]:
        oldest, latest = call.text("oldest", "0"), call.text("latest", "9" * 10)
        inclusive = call.flag("inclusive")
        try:
            low, high = float(oldest), float(latest)
        except ValueError as error:
            raise Refused("invalid_ts_oldest") from error
        return [
            message
            for message in messages
            if low < float(message.ts) < high or (inclusive and message.ts in {oldest, latest})
        ]

    def _page(self, messages: list[PostedMessage], call: Arguments) -> dict[str, Any]:
        with_metadata = call.flag("include_all_metadata")
        page, further = cut_page(messages, call)
        shown = [self._show(message, metadata=with_metadata) for message in page]
        more = bool(further["response_metadata"]["next_cursor"])
        return {"messages": shown, "has_more": more, **(further if more else {})}

    def _show(self, message: PostedMessage, *, metadata: bool) -> dict[str, Any]:
        shown = show_message(message, self._workspace, metadata=metadata)
        replies = self._workspace.thread(message.channel, message.ts)[1:] if not message.thread_ts else []
        if replies:
            shown |= {
                "thread_ts": message.ts,
                "reply_count": len(replies),
                "latest_reply": replies[-1].ts,
            }
        return shown

    def _show_channel(self, channel: Channel) -> dict[str, Any]:
        return {
            "id": channel.id,
            "name": channel.name,
            "is_channel": not channel.private,
            "is_private": channel.private,
            "is_im": channel.person is not None,
            "is_archived": channel.archived,
            "is_member": channel.joined,
            "context_team_id": self._workspace.team,
        }

    def _show_user(self, user: User) -> dict[str, Any]:
        return {
            "id": user.id,
            "team_id": self._workspace.team,
            "name": user.name,
            "real_name": user.name,
            "tz": "Etc/UTC",
            "is_bot": user.id == self._workspace.bot_user,
            "deleted": False,
            "profile": {"display_name": user.name, "real_name": user.name},
        }


def _scope(channel: Channel, what: str) -> str:
    if channel.person is not None:
        return f"im:{what}"
    return f"{'groups' if channel.private else 'channels'}:{what}"
