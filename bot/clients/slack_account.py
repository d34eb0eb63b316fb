"""What the tokens are good for: whose the bot token is, and a socket for the app token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.clients.slack_calls import sending

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient


@dataclass(frozen=True, slots=True)
class Account:
    user: str
    team: str
    scopes: frozenset[str] | None  # as Slack lists them in the header of each answer; None: it does not


async def look_up_account(web: AsyncWebClient) -> Account:
    """`auth.test`. Raises one of the SlackErrors."""
    with sending("auth.test"):
        answer = await web.auth_test()
    header = next((value for name, value in answer.headers.items() if name.lower() == "x-oauth-scopes"), None)
    scopes = None if header is None else frozenset(filter(None, map(str.strip, header.split(","))))
    return Account(str(answer.get("user")), str(answer.get("team")), scopes)


async def open_socket(web: AsyncWebClient, app_token: str) -> str:
    """`apps.connections.open`: the address of one Socket Mode connection. Raises one of the SlackErrors."""
    with sending("apps.connections.open"):
        answer = await web.apps_connections_open(app_token=app_token)
    return str(answer["url"])
