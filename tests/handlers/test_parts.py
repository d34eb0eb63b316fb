"""The real parts fit what the handlers expect; mypy reads this file as the proof."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.parts import Parts

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

    from bot.accounts import Accounts
    from bot.clients.directory import Directory
    from bot.clients.store import Store
    from bot.errands import Errands
    from bot.incident_desk import Desk
    from bot.startups import Startups
    from bot.tasks import Tasks
    from config.services import Configuration


def build(
    configuration: Configuration,
    *,
    startups: Startups,
    store: Store,
    directory: Directory,
    tasks: Tasks,
    client: AsyncWebClient,
    accounts: Accounts,
    errands: Errands,
    incidents: Desk,
) -> Parts:
    return Parts(configuration, startups, store, directory, tasks, client, accounts, errands, incidents)


def test_parts_are_what_they_were_given() -> None:
    assert Parts.__slots__ == (
        "configuration",
        "startups",
        "store",
        "directory",
        "tasks",
        "client",
        "accounts",
        "errands",
        "incidents",
        "redactor",
        "clock",
    )
    assert build.__annotations__["return"] == "Parts"
