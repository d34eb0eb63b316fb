"""The tree of errors: what a caller can tell from one."""

from __future__ import annotations

from bot.errors import (
    ConfigurationInvalid,
    HostError,
    HostKeyRejected,
    KimiError,
    SlackBusy,
    SlackRefused,
    TokenRefused,
)


def test_an_error_of_a_host_names_it() -> None:
    error = HostKeyRejected("llm-two", "llm-two: the host key is not the one in known_hosts")
    assert isinstance(error, HostError)
    assert (error.host, str(error)) == ("llm-two", "llm-two: the host key is not the one in known_hosts")


def test_configuration_faults_are_kept_one_by_one() -> None:
    assert ConfigurationInvalid(("a", "b")).faults == ("a", "b")


def test_a_slack_error_carries_method_and_code() -> None:
    refused = SlackRefused("chat.postMessage", "invalid_blocks", repairable=True)
    assert (refused.method, refused.code, refused.repairable) == ("chat.postMessage", "invalid_blocks", True)
    assert SlackBusy("chat.update", 3.0).retry_after == 3.0
    assert isinstance(refused, KimiError)
    assert not TokenRefused("chat.update", "token_revoked").repairable
