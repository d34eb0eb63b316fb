"""Secrets and addresses from the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.errors import ConfigurationInvalid
from config.settings import DEFAULT_CONFIG, config_path, read_api_key, read_settings

if TYPE_CHECKING:
    from pathlib import Path

GOOD = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}


def test_the_environment_is_read() -> None:
    settings = read_settings(
        GOOD | {"KIMI_REDIS_URL": "redis://r", "SLACK_API_URL": "http://127.0.0.1:1/api"}
    )
    assert settings.bot_token.get_secret_value() == "xoxb-1"
    assert settings.slack_api_url == "http://127.0.0.1:1/api/"
    assert settings.redis_url == "redis://r"
    assert settings.secrets() == ("xoxb-1", "xapp-1")
    assert "xoxb-1" not in repr(settings)


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("xoxb-2\n", encoding="utf-8")
    settings = read_settings({"SLACK_BOT_TOKEN_FILE": str(tmp_path / "token"), "SLACK_APP_TOKEN": "xapp-1"})
    assert settings.bot_token.get_secret_value() == "xoxb-2"


@pytest.mark.parametrize(
    ("environ", "http", "faults"),
    [
        ({}, False, ["SLACK_BOT_TOKEN is missing", "SLACK_APP_TOKEN is missing"]),
        ({"SLACK_BOT_TOKEN": "xoxb-1"}, True, ["SLACK_SIGNING_SECRET is missing"]),
        (GOOD | {"SLACK_BOT_TOKEN": "xoxp-1"}, False, ['SLACK_BOT_TOKEN does not begin with "xoxb-"']),
        (GOOD | {"SLACK_API_URL": "slack"}, False, ["SLACK_API_URL is no http address"]),
        (GOOD | {"KIMI_REDIS_URL": "http://:word@r"}, False, ["KIMI_REDIS_URL has an unknown scheme"]),
        (
            {"SLACK_BOT_TOKEN_FILE": "/none", "SLACK_APP_TOKEN": "xapp-1"},
            False,
            ["SLACK_BOT_TOKEN_FILE names /none"],
        ),
    ],
)
def test_every_fault_names_its_variable(environ: dict[str, str], http: bool, faults: list[str]) -> None:
    with pytest.raises(ConfigurationInvalid) as caught:
        read_settings(environ, http=http)
    assert len(caught.value.faults) == len(faults)
    for found, expected in zip(caught.value.faults, faults, strict=True):
        assert found.startswith(f"environment: {expected}")


def test_the_address_of_redis_may_stand_in_a_file_too_since_it_may_hold_a_password(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("rediss://:hush@r:6380/1\n", encoding="utf-8")
    assert read_settings(GOOD | {"KIMI_REDIS_URL_FILE": str(tmp_path / "url")}).redis_url == (
        "rediss://:hush@r:6380/1"
    )
    both = GOOD | {"KIMI_REDIS_URL_FILE": "/none", "KIMI_REDIS_URL": "redis://r"}
    assert read_settings(both).redis_url == "redis://r"
    with pytest.raises(ConfigurationInvalid, match="KIMI_REDIS_URL_FILE names /none"):
        read_settings(GOOD | {"KIMI_REDIS_URL_FILE": "/none"})


def test_the_address_of_the_dead_man_s_switch_is_a_secret(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("https://ping.example/hush-hush\n", encoding="utf-8")
    settings = read_settings(GOOD | {"KIMI_PING_URL_FILE": str(tmp_path / "url")})
    assert settings.ping_url is not None
    assert settings.ping_url.get_secret_value() == "https://ping.example/hush-hush"
    assert "https://ping.example/hush-hush" in settings.secrets()
    assert "hush" not in repr(settings)
    with pytest.raises(ConfigurationInvalid, match=r"KIMI_PING_URL is no http address") as caught:
        read_settings(GOOD | {"KIMI_PING_URL": "hush-hush"})
    assert "hush" not in str(caught.value)


def test_socket_mode_needs_no_signing_secret_and_http_mode_no_app_token() -> None:
    assert read_settings(GOOD).signing_secret is None
    assert (
        read_settings({"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_SIGNING_SECRET": "s"}, http=True).app_token is None
    )


def test_the_engine_s_key_is_read_from_the_variable_a_service_names() -> None:
    assert read_api_key({"K": "v"}, "K") == "v"
    assert read_api_key({}, None) is None
    with pytest.raises(ConfigurationInvalid, match="K is missing"):
        read_api_key({}, "K")


@pytest.mark.parametrize("value", ["ключ", "two\nlines", "k\0"])
def test_a_key_that_no_header_can_carry_is_refused_before_anything_is_sent(value: str) -> None:
    with pytest.raises(ConfigurationInvalid, match="K cannot be sent as a header; allowed: printable"):
        read_api_key({"K": value}, "K")
    with pytest.raises(ConfigurationInvalid, match="SLACK_BOT_TOKEN cannot be sent"):
        read_settings(GOOD | {"SLACK_BOT_TOKEN": f"xoxb-{value}"})


def test_the_configuration_is_found() -> None:
    assert config_path({"KIMI_CONFIG": "/x"}) == "/x"
    assert config_path({}) == DEFAULT_CONFIG
