"""What to run on the host of a service: the user, its key's restrictions, and the exact sudoers lines."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bot.errors import ConfigurationInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from config.services import Configuration, HostSection, ServiceSection

_ORDERS = ("start", "stop", "restart")
_RELOAD = "daemon-reload"
_SPECIAL = re.compile(r"([,:=\\])")  # in a sudoers argument these stand behind a backslash


def render_host_setup(configuration: Configuration, names: Sequence[str]) -> str:
    """A shell script for each host of the named services. ConfigurationInvalid where a name is none.

    It has what every service there needs, named or not: its files are written whole, and may be again.
    """
    unknown = [name for name in names if name not in configuration.services]
    if unknown:
        known = ", ".join(configuration.services)
        raise ConfigurationInvalid(
            tuple(f"SERVICE: {name} is not configured; allowed: {known}" for name in unknown)
        )
    hosts = dict.fromkeys(member.host for name in names for member in configuration.services[name].units)
    return "\n".join(_host(host, configuration.hosts[host], configuration.services) for host in hosts)


def sudoers_lines(user: str, units: Sequence[str]) -> list[str]:
    """One line an order and unit, and one to read unit files anew: exactly what the bot runs."""
    rights = (words for unit in units for words in rights_on(_escape(unit)).values())
    lines = [f"{user} ALL=(root) NOPASSWD: /usr/bin/{' '.join(words)}" for words in rights]
    return sorted(dict.fromkeys(lines), key=lambda line: line.endswith(_RELOAD))


def rights_on(unit: str) -> dict[str, tuple[str, ...]]:
    """What sudo must let the bot run, by systemctl's own verbs; to read unit files anew is of no one unit."""
    orders = {order: ("systemctl", order, "--no-block", unit) for order in _ORDERS}
    return {**orders, _RELOAD: ("systemctl", _RELOAD)}


def _escape(unit: str) -> str:
    return _SPECIAL.sub(r"\\\1", unit)


def _host(name: str, host: HostSection, services: Mapping[str, ServiceSection]) -> str:
    own = [service for service in services.values() if any(member.host == name for member in service.units)]
    user = shlex.quote(host.user)
    return "\n".join(
        (
            f"# On {name} ({host.address}), as root. Read it before you run it.",
            f"id {user} >/dev/null 2>&1 || useradd --system --create-home --shell /bin/sh {user}",
            f"usermod --append --groups systemd-journal {user}   # reads the journal, changes nothing",
            "",
            *_authorise(host, own),
            "",
            *_sudo(name, host, own),
        )
    )


def _authorise(host: HostSection, services: Sequence[ServiceSection]) -> tuple[str, ...]:
    """The key may run commands and reach the engines' ports; no terminal, no agent, no other port."""
    ports = dict.fromkeys(_destination(service.url) for service in services if service.reach == "ssh")
    opened = "".join(f',permitopen="{port}"' for port in ports)
    options = f"restrict,port-forwarding{opened}" if ports else "restrict"
    user, home = shlex.quote(host.user), f"~{host.user}"
    return (
        f"install -d -m 700 -o {user} -g {user} {home}/.ssh",
        f"# KEY is the bot's public key: {host.identity_file}.pub on the bot's machine.",
        "# Of two lines with one key sshd takes the first, so one that was written before goes.",
        f"keys={home}/.ssh/authorized_keys; touch $keys",
        f'{{ grep -vF "${{KEY:?set it first}}" $keys; echo {shlex.quote(options)} "$KEY"; }} > $keys.new \\',
        f"    && mv $keys.new $keys && chown {user}: $keys && chmod 600 $keys",
    )


def _destination(url: str) -> str:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{port}"


def _sudo(name: str, host: HostSection, services: Sequence[ServiceSection]) -> tuple[str, ...]:
    units = [
        member.unit
        for service in services
        if service.scope == "system"
        for member in service.units
        if member.host == name
    ]
    if not units:
        return (f"loginctl enable-linger {shlex.quote(host.user)}   # its own units run without a login",)
    if not host.sudo:
        return (
            f"# hosts.{name}.sudo is false: set it to true, else polkit must allow {host.user} to do it.",
        )
    return (
        "cat > /etc/sudoers.d/kimi <<'END'",
        *sudoers_lines(host.user, units),
        "END",
        "chmod 440 /etc/sudoers.d/kimi && visudo --check --file /etc/sudoers.d/kimi",
        *_optional(host.user, units),
        "",
    )


def _optional(user: str, units: Sequence[str]) -> tuple[str, ...]:
    """What a stall is judged better by; kimi does without it."""
    stacks = f"{user} ALL=(root) NOPASSWD: /usr/local/bin/py-spy ^dump --pid [0-9]+$"
    return (
        "",
        "# Optional: bytes read count as progress, also of processes of another user.",
        *(f"# systemctl set-property {unit} IOAccounting=yes" for unit in units),
        "# Optional: a stall comes with the stacks of its ranks. Needs py-spy there, and sudo 1.9.10.",
        f"# echo '{stacks}' > /etc/sudoers.d/kimi-stacks && chmod 440 /etc/sudoers.d/kimi-stacks",
    )
