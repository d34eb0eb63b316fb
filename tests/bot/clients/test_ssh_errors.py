"""Every sentence names the host and a way out; the words behind it are those of real hosts."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import asyncssh
import pytest

from bot.clients import ssh_errors
from bot.core.events import HostName, UnitName, Verb
from bot.errors import CommandTimedOut, HostKeyRejected, HostUnreachable, LoginRefused, PermissionRefused
from config.services import HostSection

if TYPE_CHECKING:
    from pathlib import Path

NAME = HostName("llm-two")
UNIT = UnitName("sglang-kimi.service")
# What systemd 252 prints on standard error to a user of no group, and when not even one file is readable.
HINT = (
    "Hint: You are currently not seeing messages from other users and the system.\n"
    "      Users in groups 'adm', 'systemd-journal' can see all messages.\n"
    "      Pass -q to turn off this notice.\n"
)
NOT_ONE = HINT + "No journal files were opened due to insufficient permissions.\n"


@pytest.fixture
def section(tmp_path: Path) -> HostSection:
    (tmp_path / "known_hosts").write_text("")
    return HostSection(
        address="llm-two.example",
        port=2222,
        user="kimi",
        identity_file="/etc/kimi/id_ed25519",
        known_hosts=str(tmp_path / "known_hosts"),
    )


@pytest.mark.parametrize(
    ("error", "peer", "kind", "part"),
    [
        (TimeoutError(), None, HostUnreachable, "no answer from llm-two.example:2222 within 15 s"),
        (TimeoutError(), "10.0.0.7", CommandTimedOut, "accepts connections and then says nothing"),
        (socket.gaierror(-2, "unknown"), None, HostUnreachable, "check hosts.llm-two.address"),
        (ConnectionRefusedError(111, "refused"), None, HostUnreachable, "hosts.llm-two.port"),
        (OSError(113, "No route to host"), None, HostUnreachable, "No route to host"),
        (asyncssh.PermissionDenied("no"), "10.0.0.7", LoginRefused, "authorized_keys"),
        (asyncssh.HostKeyNotVerifiable("no"), "10.0.0.7", HostKeyRejected, "has no key for"),
        (asyncssh.ConnectionLost("gone"), "10.0.0.7", HostUnreachable, "before the login was done"),
        (
            asyncssh.ProtocolNotSupported("old"),
            "10.0.0.7",
            HostUnreachable,
            "cannot be talked to over SSH: old",
        ),
        (asyncssh.KeyExchangeFailed("No matching host key algorithm"), "10.0.0.7", HostKeyRejected, "no key"),
        (
            asyncssh.KeyExchangeFailed("No matching MAC algorithm"),
            "10.0.0.7",
            HostUnreachable,
            "MAC algorithm",
        ),
    ],
)
def test_why_there_is_no_connection(
    section: HostSection, error: Exception, peer: str | None, kind: type[Exception], part: str
) -> None:
    told = ssh_errors.connect_failure(error, name=NAME, section=section, peer=peer, seconds=15)
    assert type(told) is kind
    assert str(told).startswith("llm-two: ")
    assert part in str(told)
    assert told.host == NAME


@pytest.mark.parametrize(("scope", "refused"), [("system", True), ("user", False)])
def test_the_hint_matters_for_other_peoples_units_only(scope: str, *, refused: bool) -> None:
    assert ssh_errors.is_journal_refusal(HINT, scope=scope) is refused


@pytest.mark.parametrize("scope", ["system", "user"])
def test_no_journal_file_at_all(section: HostSection, scope: str) -> None:
    assert ssh_errors.is_journal_refusal(NOT_ONE, scope=scope)
    told = ssh_errors.journal_failure(NOT_ONE, name=NAME, scope=scope, section=section)
    assert isinstance(told, PermissionRefused)
    assert "usermod -aG systemd-journal kimi" in str(told)


def test_journalctl_ends_for_another_reason(section: HostSection) -> None:
    complaint = "Failed to seek to cursor: Invalid argument\n"
    told = ssh_errors.journal_failure(complaint, name=NAME, scope="system", section=section)
    assert isinstance(told, HostUnreachable)
    assert str(told) == "llm-two: journalctl ended: Failed to seek to cursor: Invalid argument."


def test_a_long_complaint_is_quoted_in_short(section: HostSection) -> None:
    complaint = "\n\n" + "x" * 5000 + "\nsecond line"
    told = ssh_errors.change_failure(complaint, name=NAME, unit=UNIT, verb=Verb.STOP, section=section)
    assert len(str(told)) < 400
    assert "second line" not in str(told)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("Connection refused", "connection refused"),
        ("[Errno 111] Connect call failed ('127.0.0.1', 1)", "connection refused"),
        ("Network is unreachable.", "network is unreachable"),
    ],
)
def test_why_a_knock_was_not_answered(reason: str, told: str) -> None:
    assert ssh_errors.knock_failure(reason) == told


def test_only_what_went_out_counts_as_sent() -> None:
    assert ssh_errors.link_lost(NAME, during="x", sent=True).sent
    assert not ssh_errors.link_lost(NAME, during="x").sent
    assert ssh_errors.command_timed_out(NAME, during="x", seconds=1).sent
