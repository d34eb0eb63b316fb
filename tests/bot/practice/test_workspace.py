"""Everything embedded: who sits in the practice workspace, and that nothing of it stays behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest

from bot.core.events import HostName, ServiceName
from bot.core.request import Standing
from bot.practice.scenarios import SCENARIOS
from bot.practice.workspace import (
    ALICE,
    API_KEY,
    BOB,
    CHANNEL,
    CHANNEL_NAME,
    ONCALL,
    SERVICE,
    PracticeWorkspace,
)
from tests.support.practice import practise


async def test_the_real_bot_sits_between_the_embedded_parts() -> None:
    async with practise("healthy", speed=100) as practice:
        slack = practice.slack.workspace
        assert {user: slack.users[user].name for user in (ALICE, BOB)} == {ALICE: "alice", BOB: "bob"}
        assert slack.channels[CHANNEL].name == CHANNEL_NAME
        assert slack.groups[ONCALL].users == (ALICE,)
        view = await practice.app.startups.status(ServiceName(SERVICE))
        assert (view.standing, view.model, view.hosts) == (Standing.SERVING, SERVICE, (HostName("llm-two"),))


@pytest.mark.parametrize(("before", "standing"), [("stopped", Standing.STOPPED), ("down", Standing.BROKEN)])
async def test_a_scenario_says_what_was_before(
    before: Literal["stopped", "down"], standing: Standing
) -> None:
    workspace = PracticeWorkspace(replace(SCENARIOS["healthy"], before=before), speed=100)
    try:
        app = await workspace.start()
        assert (await app.startups.status(ServiceName(SERVICE))).standing is standing
    finally:
        await workspace.stop()


async def test_changes_of_a_test_reach_the_configuration() -> None:
    changes: dict[str, Any] = {"service": {"stable_for": "5s"}, "host": {"sudo": False}}
    async with practise("healthy", speed=100, **changes) as practice:
        configuration = practice.workspace.configuration()
        assert configuration.services[SERVICE].stable_for.total_seconds() == 5
        assert configuration.services[SERVICE].api_key_env == "PRACTICE_API_KEY"
        assert not configuration.hosts["llm-two"].sudo


async def test_the_engine_s_key_is_known_to_the_redactor() -> None:
    async with practise("healthy", speed=100) as practice:
        masked, count = practice.app.startups.ground.make_redactor().redact(f"key {API_KEY}")
        assert (API_KEY in masked, count) == (False, 1)


async def test_nothing_stays_behind_even_twice() -> None:
    workspace = PracticeWorkspace(SCENARIOS["healthy"], speed=100)
    await workspace.start()
    places = {workspace.host.identity_file, Path(urlsplit(workspace.redis_url).path)}
    assert _present(places) == places
    await workspace.stop()
    await workspace.stop()
    assert _present(places) == set()


def _present(places: set[Path]) -> set[Path]:
    return {place for place in places if place.exists()}


async def test_what_was_never_started_may_be_stopped() -> None:
    await PracticeWorkspace(SCENARIOS["healthy"], speed=100).stop()
