"""What Slack tells the app when a person does something: the payloads of commands, events and modals."""

from __future__ import annotations

import re
import secrets
import time
from typing import TYPE_CHECKING, Any

from bot.practice.slack_chat import show_message

if TYPE_CHECKING:
    from bot.practice.slack_state import Block, Channel, PostedMessage, Workspace

VERIFICATION = "practice-verification-token"  # deprecated by Slack, still in every payload
NAME = re.compile(r"(?<![\w&])([@#])([\w.-]*\w)")
REFERENCE = re.compile(r"(<[^<>\s]+>)")
LINK = re.compile(r"https?://[^\s<>|]+")


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def resolve(workspace: Workspace, text: str) -> str:
    """Typed text as Slack hands it over: `&<>` escaped, `@name`, `#channel` and links in angle brackets."""
    linked = LINK.sub(lambda link: f"<{link.group()}>", escape(text))
    return NAME.sub(lambda name: _reference(workspace, name.group(1), name.group(2)) or name.group(), linked)


def _reference(workspace: Workspace, mark: str, name: str) -> str | None:
    if mark == "#":
        found = [channel for channel in workspace.channels.values() if channel.name == name]
        return f"<#{found[0].id}|{name}>" if found else None
    if people := [user for user in workspace.users.values() if user.name == name]:
        return f"<@{people[0].id}>"
    groups = [group for group in workspace.groups.values() if group.handle == name]
    return f"<!subteam^{groups[0].id}|@{name}>" if groups else None


def typed_block(text: str) -> Block:
    """The rich text block that Slack makes of what a person typed; `text` as `resolve` gave it."""
    runs = [_run(part) for part in REFERENCE.split(text) if part]
    section = {"type": "rich_text_section", "elements": runs}
    return {"type": "rich_text", "block_id": secrets.token_hex(3), "elements": [section]}


def _run(part: str) -> dict[str, str]:
    inner, _, label = part[1:-1].partition("|") if REFERENCE.fullmatch(part) else ("", "", "")
    if inner.startswith("@"):
        return {"type": "user", "user_id": inner[1:]}
    if inner.startswith("#"):
        return {"type": "channel", "channel_id": inner[1:]}
    if inner.startswith("!subteam^"):
        return {"type": "usergroup", "usergroup_id": inner.removeprefix("!subteam^")}
    if inner:
        return {"type": "link", "url": unescape(inner), **({"text": label} if label else {})}
    return {"type": "text", "text": unescape(part)}


def slash(
    workspace: Workspace,
    *,
    user: str,
    channel: Channel,
    command: str,
    text: str,
    trigger_id: str,
    response_url: str,
) -> dict[str, Any]:
    """Flat, every value text: in HTTP mode it is a form."""
    name = "directmessage" if channel.person else "privategroup" if channel.private else channel.name
    return {
        "token": VERIFICATION,
        "team_id": workspace.team,
        "team_domain": workspace.domain,
        "channel_id": channel.id,
        "channel_name": name,
        "user_id": user,
        "user_name": workspace.users[user].name,
        "command": command,
        "text": text,
        "api_app_id": workspace.app,
        "is_enterprise_install": "false",
        "response_url": response_url,
        "trigger_id": trigger_id,
    }


def event(workspace: Workspace, inner: dict[str, Any]) -> dict[str, Any]:
    return {
        "token": VERIFICATION,
        "team_id": workspace.team,
        "context_team_id": workspace.team,
        "api_app_id": workspace.app,
        "event": inner,
        "type": "event_callback",
        "event_id": f"Ev{secrets.token_hex(5).upper()}",
        "event_time": int(time.time()),
        "is_ext_shared_channel": False,
        "authorizations": [
            {
                "enterprise_id": None,
                "team_id": workspace.team,
                "user_id": workspace.bot_user,
                "is_bot": True,
                "is_enterprise_install": False,
            },
        ],
    }


def app_mention(workspace: Workspace, message: PostedMessage) -> dict[str, Any]:
    inner = {
        "type": "app_mention",
        "user": message.user,
        "text": message.text,
        "ts": message.ts,
        "channel": message.channel,
        "team": workspace.team,
        "event_ts": message.ts,
        "blocks": list(message.blocks),
    }
    if message.thread_ts:
        inner |= {"thread_ts": message.thread_ts, "parent_user_id": workspace.bot_user}
    return event(workspace, inner)


def app_home_opened(workspace: Workspace, user: str, view: dict[str, Any] | None) -> dict[str, Any]:
    inner: dict[str, Any] = {
        "type": "app_home_opened",
        "user": user,
        "channel": workspace.direct(user).id,
        "tab": "home",
        "event_ts": workspace.next_ts(),
    }
    return event(workspace, inner | ({"view": view} if view else {}))


def _interaction(workspace: Workspace, kind: str, user: str) -> dict[str, Any]:
    name = workspace.users[user].name
    return {
        "type": kind,
        "user": {"id": user, "username": name, "name": name, "team_id": workspace.team},
        "api_app_id": workspace.app,
        "token": VERIFICATION,
        "team": {"id": workspace.team, "domain": workspace.domain},
        "enterprise": None,
        "is_enterprise_install": False,
    }


def action(workspace: Workspace, block: Block, element: Block, option: str | None) -> dict[str, Any]:
    """One entry of `actions`; `option` is the value chosen in a menu."""
    made = {
        "type": element["type"],
        "action_id": element.get("action_id", ""),
        "block_id": block["block_id"],
        "action_ts": workspace.next_ts(),
    }
    for key in ("text", "value", "style"):
        if key in element:
            made[key] = element[key]
    if option is not None:
        chosen = next(item for item in element["options"] if item["value"] == option)
        made["selected_option"] = chosen
    return made


def message_actions(
    workspace: Workspace,
    message: PostedMessage,
    actions: list[dict[str, Any]],
    *,
    user: str,
    trigger_id: str,
    response_url: str,
) -> dict[str, Any]:
    """The message itself is left out when it was ephemeral: Slack keeps no copy."""
    container: dict[str, Any] = {
        "type": "message",
        "message_ts": message.ts,
        "channel_id": message.channel,
        "is_ephemeral": message.seen_by is not None,
    }
    if message.thread_ts:
        container["thread_ts"] = message.thread_ts
    shown = {} if message.seen_by else {"message": show_message(message, workspace, metadata=True)}
    return {
        **_interaction(workspace, "block_actions", user),
        "container": container,
        "channel": {"id": message.channel, "name": workspace.channels[message.channel].name},
        **shown,
        "state": {"values": {}},
        "trigger_id": trigger_id,
        "response_url": response_url,
        "actions": actions,
    }


def view_actions(
    workspace: Workspace, view: dict[str, Any], actions: list[dict[str, Any]], *, user: str, trigger_id: str
) -> dict[str, Any]:
    return {
        **_interaction(workspace, "block_actions", user),
        "container": {"type": "view", "view_id": view["id"]},
        "view": view,
        "trigger_id": trigger_id,
        "actions": actions,
    }


def view_submission(
    workspace: Workspace, view: dict[str, Any], values: dict[str, Any], *, user: str, trigger_id: str
) -> dict[str, Any]:
    return {
        **_interaction(workspace, "view_submission", user),
        "trigger_id": trigger_id,
        "view": {**view, "state": {"values": values}},
        "response_urls": [],
    }


def view_closed(workspace: Workspace, view: dict[str, Any], *, user: str) -> dict[str, Any]:
    return {**_interaction(workspace, "view_closed", user), "view": view, "is_cleared": False}


def message_shortcut(
    workspace: Workspace,
    message: PostedMessage,
    *,
    user: str,
    callback_id: str,
    trigger_id: str,
    response_url: str,
) -> dict[str, Any]:
    return {
        **_interaction(workspace, "message_action", user),
        "callback_id": callback_id,
        "trigger_id": trigger_id,
        "response_url": response_url,
        "message_ts": message.ts,
        "action_ts": workspace.next_ts(),
        "channel": {"id": message.channel, "name": workspace.channels[message.channel].name},
        "message": show_message(message, workspace, metadata=True),
    }
