"""Who the bot token belongs to, and what it was granted."""

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
    scopes: frozenset[str]  # as Slack lists them in the header of each answer


async def look_up_account(web: AsyncWebClient) -> Account:
    """`auth.test`. Raises one of the SlackErrors."""
    with sending("auth.test"):
        answer = await web.auth_test()
    header = next((value for name, value in answer.headers.items() if name.lower() == "x-oauth-scopes"), "")
    scopes = frozenset(scope.strip() for scope in header.split(",") if scope.strip())
    return Account(str(answer.get("user")), str(answer.get("team")), scopes)
