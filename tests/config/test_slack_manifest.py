"""The app manifest grants what the bot needs, and keeps to Slack's limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bot.core.command import Word
from bot.practice.slack_state import BOT_SCOPES
from handlers.commands import COMMAND


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    file = Path(__file__).parents[2] / "config" / "slack-manifest.json"
    read: dict[str, Any] = json.loads(file.read_text())
    return read


def test_the_command_is_the_one_the_handlers_hear(manifest: dict[str, Any]) -> None:
    (command,) = manifest["features"]["slash_commands"]
    assert command["command"] == COMMAND
    assert command["should_escape"] is True
    assert len(command["command"]) <= 32
    assert len(command["description"]) <= 2_000
    assert len(command["usage_hint"]) <= 1_000
    assert all(word in command["usage_hint"] for word in Word)


def test_scopes_and_events(manifest: dict[str, Any]) -> None:
    assert set(manifest["oauth_config"]["scopes"]["bot"]) == set(BOT_SCOPES)
    assert manifest["settings"]["event_subscriptions"]["bot_events"] == ["app_home_opened", "app_mention"]


def test_how_it_is_reached(manifest: dict[str, Any]) -> None:
    assert manifest["settings"]["socket_mode_enabled"] is True
    assert manifest["settings"]["interactivity"]["is_enabled"] is True
    home = manifest["features"]["app_home"]
    assert home["home_tab_enabled"] is True
    assert home["messages_tab_enabled"] is True, "else Slack refuses what it tells one person alone"
    assert home["messages_tab_read_only_enabled"] is True, "it hears nothing there"


def test_the_words_about_it_fit(manifest: dict[str, Any]) -> None:
    shown = manifest["display_information"]
    assert len(shown["name"]) <= 35
    assert len(shown["description"]) <= 140
    assert 174 <= len(shown["long_description"]) <= 4_000
