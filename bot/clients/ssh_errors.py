"""Translates what SSH, sudo, systemctl and journalctl say into errors that name the host and the way out."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import asyncssh

from bot.errors import (
    CommandTimedOut,
    HostError,
    HostKeyRejected,
    HostUnreachable,
    LoginRefused,
    PermissionRefused,
    UnitCommandFailed,
    UnitUnknown,
)

if TYPE_CHECKING:
    from bot.core.events import HostName, UnitName, Verb
    from config.services import HostSection

# What sudo says when no sudoers line lets this exact command through without a password.
_SUDO_REFUSED = re.compile(
    r"sudo: (?:a password is required|a terminal is required|no tty present)"
    r"|is not in the sudoers file|is not allowed to (?:execute|run)|may not run sudo"
)
# What `env` says, in whatever marks, and a shell's `exec: sudo: not found`.
_NO_SUDO = re.compile(r"\bsudo\W{0,3}: (?:command )?(?:not found|No such file or directory)")
_SYSTEMD_REFUSED = re.compile(r"Interactive authentication required|Access denied|Permission denied")
_NOT_FOUND = re.compile(r"Unit \S+ (?:not found|could not be found)|Unit \S+ not loaded|Invalid unit name")
_NO_USER_MANAGER = re.compile(r"Failed to connect to (?:user scope )?bus")
# The second is a hint only: journalctl then shows the few entries that user may see, and nothing of the unit.
_JOURNAL_REFUSED = re.compile(r"due to insufficient permissions|not seeing messages from other users")
_QUOTED = 300  # characters of a foreign complaint that are told on


def place(section: HostSection) -> str:
    return f"{section.address}:{section.port}"


def connect_failure(
    error: BaseException, *, name: HostName, section: HostSection, peer: str | None, seconds: float
) -> HostError:
    """Why there is no connection; `peer`: the address that had accepted before it went wrong."""
    match error:
        case TimeoutError():
            return _silent(name, section, accepted=peer is not None, seconds=seconds)
        case socket.gaierror():
            return HostUnreachable(
                name, f"{name}: the name {section.address} is not known; check hosts.{name}.address."
            )
        case ConnectionRefusedError():
            return HostUnreachable(
                name,
                f"{name}: {place(section)} refuses connections; is sshd running there, "
                f"and is hosts.{name}.port right?",
            )
        case asyncssh.Error():
            return _ssh_failure(error, name=name, section=section, peer=peer)
        case OSError():
            why = error.strerror or str(error) or type(error).__name__
            return HostUnreachable(name, f"{name}: no connection to {place(section)}: {why}.")
        case _:
            return HostUnreachable(name, f"{name}: no connection to {place(section)}: {error}.")


def _silent(name: HostName, section: HostSection, *, accepted: bool, seconds: float) -> HostError:
    if accepted:
        return CommandTimedOut(
            name,
            f"{name}: {place(section)} accepts connections and then says nothing for {seconds:g} s; "
            "the host may be out of memory or hung, look at its console.",
        )
    return HostUnreachable(
        name,
        f"{name}: no answer from {place(section)} within {seconds:g} s; "
        "is the host up, and does the network let this machine in?",
    )


def _ssh_failure(
    error: asyncssh.Error, *, name: HostName, section: HostSection, peer: str | None
) -> HostError:
    match error:
        case asyncssh.HostKeyNotVerifiable():
            return host_key_refused(name, section, peer=peer)
        case asyncssh.PermissionDenied():
            return LoginRefused(
                name,
                f"{name}: the key {section.identity_file} is not accepted for {section.user}; add its public "
                f"half to ~{section.user}/.ssh/authorized_keys there (`kimi-bot host-setup` shows how).",
            )
        case asyncssh.KeyExchangeFailed() if "host key" in error.reason:
            return host_key_refused(name, section, peer=peer)
        case asyncssh.ConnectionLost():
            return HostUnreachable(
                name,
                f"{name}: {place(section)} closed the connection before the login was done; "
                "sshd's own log there says why.",
            )
        case _:
            return HostUnreachable(
                name,
                f"{name}: what answers at {place(section)} cannot be talked to over SSH: {error.reason}.",
            )


def host_key_refused(name: HostName, section: HostSection, *, peer: str | None) -> HostKeyRejected:
    """The host showed a key that known_hosts does not have for it: another one, or none at all."""
    known = asyncssh.match_known_hosts(section.known_hosts, section.address, peer or "", section.port)
    if not any(known):
        return _host_key_unknown(name, section)
    return HostKeyRejected(
        name,
        f"{name}: the host key of {place(section)} is not the one in {section.known_hosts}; nothing was "
        "sent. If the host was set up anew, check its fingerprint and replace the line there.",
    )


def _host_key_unknown(name: HostName, section: HostSection) -> HostKeyRejected:
    return HostKeyRejected(
        name,
        f"{name}: {section.known_hosts} has no key for {place(section)}; fetch it with "
        f"`ssh-keyscan -p {section.port} {section.address}`, check its fingerprint, and add it.",
    )


def key_unusable(error: Exception, *, name: HostName, section: HostSection) -> LoginRefused:
    why = _reason(error)
    return LoginRefused(
        name,
        f"{name}: the key file {section.identity_file} cannot be used: {why}; "
        f"check hosts.{name}.identity_file.",
    )


def known_hosts_unusable(error: Exception, *, name: HostName, section: HostSection) -> HostKeyRejected:
    why = _reason(error)
    return HostKeyRejected(
        name, f"{name}: the file {section.known_hosts} cannot be used: {why}; check hosts.{name}.known_hosts."
    )


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error).rstrip(".")


def channel_refused(error: asyncssh.ChannelOpenError, *, name: HostName, what: str) -> HostError:
    """The host did not open a channel, so nothing was carried out."""
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        return PermissionRefused(
            name,
            f"{name}: sshd does not allow {what}; check AllowTcpForwarding, PermitOpen, MaxSessions in its "
            "sshd_config and the restrictions before the key in authorized_keys.",
        )
    full = "; sshd allows MaxSessions of them a connection" if what == "a session" else ""
    return HostUnreachable(name, f"{name}: the host did not open {what}: {error.reason.rstrip('.')}{full}.")


def knock_failure(reason: str) -> str:
    """Why a port of the host could not be reached, in a few words."""
    if "refused" in reason.lower() or "Errno 111" in reason:
        return "connection refused"
    return reason.lower().rstrip(".")


def link_lost(name: HostName, *, during: str, sent: bool = False) -> HostUnreachable:
    return HostUnreachable(name, f"{name}: the connection was lost during `{during}`.", sent=sent)


def command_timed_out(name: HostName, *, during: str, seconds: float, sent: bool = True) -> CommandTimedOut:
    return CommandTimedOut(
        name,
        f"{name}: no end of `{during}` within {seconds:g} s; the host is overloaded or hung.",
        sent=sent,
    )


def is_sudo_refusal(complaint: str) -> bool:
    return _SUDO_REFUSED.search(complaint) is not None


def lacks_sudo(complaint: str) -> bool:
    return _NO_SUDO.search(complaint) is not None


def _no_sudo(*, name: HostName, section: HostSection) -> PermissionRefused:
    return PermissionRefused(
        name,
        f"{name}: there is no sudo; install it there, or set hosts.{name}.sudo = false and let polkit "
        f"allow {section.user} to do it.",
    )


def change_failure(
    complaint: str, *, name: HostName, unit: UnitName, verb: Verb, section: HostSection
) -> HostError:
    """Why systemctl did not take the order."""
    if is_sudo_refusal(complaint):
        return PermissionRefused(
            name,
            f"{name}: sudo does not let {section.user} {verb} {unit} without a password; "
            "`kimi-bot host-setup` prints the sudoers lines it needs.",
        )
    if lacks_sudo(complaint):
        return _no_sudo(name=name, section=section)
    if _SYSTEMD_REFUSED.search(complaint):
        return PermissionRefused(
            name,
            f"{name}: {section.user} may not {verb} {unit}; set hosts.{name}.sudo = true and add the sudoers "
            "lines that `kimi-bot host-setup` prints.",
        )
    return show_failure(complaint, name=name, unit=unit, section=section)


def reload_failure(complaint: str, *, name: HostName, section: HostSection) -> HostError:
    """Why systemd did not read its unit files anew."""
    if lacks_sudo(complaint):
        return _no_sudo(name=name, section=section)
    if is_sudo_refusal(complaint) or _SYSTEMD_REFUSED.search(complaint):
        return PermissionRefused(
            name,
            f"{name}: {section.user} may not reload systemd's unit files; `kimi-bot host-setup` prints the "
            "sudoers line it needs.",
        )
    return UnitCommandFailed(name, f"{name}: systemctl daemon-reload gave an error: {quote(complaint)}.")


def show_failure(complaint: str, *, name: HostName, unit: UnitName, section: HostSection) -> HostError:
    """Why systemctl had nothing to say about the unit."""
    if _NOT_FOUND.search(complaint):
        return unit_unknown(name, unit)
    if _NO_USER_MANAGER.search(complaint):
        return UnitCommandFailed(
            name,
            f"{name}: systemd does not answer {section.user} ({quote(complaint)}); for a unit of scope user, "
            f"`loginctl enable-linger {section.user}` keeps its manager running.",
        )
    if "is masked" in complaint:
        return UnitCommandFailed(name, f"{name}: {unit} is masked; `systemctl unmask {unit}` there frees it.")
    return UnitCommandFailed(name, f"{name}: systemctl gave an error on {unit}: {quote(complaint)}.")


def unit_unknown(name: HostName, unit: UnitName) -> UnitUnknown:
    return UnitUnknown(
        name, f"{name}: systemd there knows no unit {unit}; check the service's unit and scope."
    )


def is_journal_refusal(complaint: str, *, scope: str) -> bool:
    """Whether journalctl says that this user does not see the unit's entries.

    A user always sees the journal of their own units; that other people's is hidden does not matter then.
    """
    if scope == "user":
        return "No journal files were opened" in complaint
    return _JOURNAL_REFUSED.search(complaint) is not None


def journal_failure(complaint: str, *, name: HostName, scope: str, section: HostSection) -> HostError:
    """Why journalctl ended by itself."""
    if is_journal_refusal(complaint, scope=scope):
        return PermissionRefused(
            name,
            f"{name}: {section.user} may not read the journal; `usermod -aG systemd-journal {section.user}` "
            "as root there allows it (`kimi-bot host-setup` prints it too).",
        )
    return HostUnreachable(name, f"{name}: journalctl ended: {quote(complaint) or 'without a word'}.")


def quote(complaint: str) -> str:
    """The first line of a foreign complaint, short enough for a sentence."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    return lines[0].rstrip(".")[:_QUOTED] if lines else ""
