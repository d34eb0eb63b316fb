"""What `kimi-bot check` says of hosts: key, login, journal, rights, each unit, log file, and what answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from bot.check_rows import Finding
from bot.clients.probe import Probe
from bot.clients.ssh import Host
from bot.core.events import HostName, UnitName
from bot.errors import CommandTimedOut, HostError, HostKeyRejected, HostUnreachable, KimiError, LoginRefused
from bot.host_setup import rights_on
from bot.standing import doubt_answer
from config.settings import read_api_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.core.events import UnitState
    from config.services import Configuration, ServiceSection

_PROBE_WITHIN = 25.0  # real seconds


def _scope_of(host: str, configuration: Configuration) -> str:
    """A user reads the journal of their own units without being in any group."""
    services = configuration.services.values()
    scopes = {each.scope for each in services if any(member.host == host for member in each.units)}
    return "user" if scopes == {"user"} else "system"


@dataclass(frozen=True, slots=True)
class _Reached:
    """A host, and in short why nothing on it can be looked at; empty where it can."""

    host: Host
    barred: str = ""


async def look_at_hosts(configuration: Configuration, environ: Mapping[str, str]) -> list[Finding]:
    """Each host, then each service with its units, its log file and what answers."""
    hosts = {name: Host(HostName(name), section) for name, section in configuration.hosts.items()}
    try:
        # Side by side: each that is gone takes the whole time-out of a connection.
        looks = [_host(name, host, scope=_scope_of(name, configuration)) for name, host in hosts.items()]
        seen = await asyncio.gather(*looks)
        reached = {name: each for name, (_, each) in zip(hosts, seen, strict=True)}
        services = configuration.services.items()
        told = await asyncio.gather(*(_service(name, each, reached, environ) for name, each in services))
    finally:
        for host in hosts.values():
            await host.close()
    return [*(found for found, _ in seen), *chain.from_iterable(told)]


async def _host(name: str, host: Host, *, scope: str) -> tuple[Finding, _Reached]:
    subject, barred = f"host {name}", ""
    try:
        await host.boot_id()
        await host.journal_end(scope=scope)
    except HostError as error:
        if isinstance(error, (HostUnreachable, CommandTimedOut)):
            barred = f"not looked at: {name} did not answer"
        elif isinstance(error, (HostKeyRejected, LoginRefused)):
            barred = f"not looked at: kimi did not get into {name}"
        return Finding(subject, good=False, words=str(error)), _Reached(host, barred)
    return Finding(subject, good=True, words="key and login accepted, journal readable"), _Reached(host)


async def _service(
    name: str, section: ServiceSection, hosts: Mapping[str, _Reached], environ: Mapping[str, str]
) -> list[Finding]:
    units = [
        await _unit(UnitName(member.unit), hosts[member.host], service=name, scope=section.scope)
        for member in section.units
    ]
    findings = [found for found, _ in units]
    if section.log_file is not None:
        names = dict.fromkeys(member.host for member in section.units)
        findings.extend([await _log_file(section.log_file, hosts[host]) for host in names])
    first = hosts[section.units[0].host] if section.reach == "ssh" else None
    if first is not None and first.barred:
        return [*findings, Finding(f"service {name}", good=False, words=first.barred)]
    stopped = all(_is_stopped(state) for _, state in units)
    return [*findings, await _answer(name, section, first, environ, stopped=stopped)]


def _is_stopped(state: UnitState | None) -> bool:
    return state is not None and state.active == "inactive"


async def _answer(
    name: str,
    section: ServiceSection,
    through: _Reached | None,
    environ: Mapping[str, str],
    *,
    stopped: bool,
) -> Finding:
    subject, silent = f"service {name}", False
    host = through.host if through is not None else None
    probe = Probe(section, host=host, api_key=read_api_key(environ, section.api_key_env))
    try:
        async with asyncio.timeout(_PROBE_WITHIN):
            answer = await probe.check()
        problem, silent = doubt_answer(answer, model=section.model), answer.health is None
    except TimeoutError:
        problem = f"{section.url} does not answer within {_PROBE_WITHIN:g} s."
    finally:
        await probe.close()
    if stopped and silent:
        return Finding(subject, good=True, words=f"stopped: `start {name}` in chat starts it", note=True)
    if stopped and problem is None:
        problem = f"its unit is stopped, and yet {section.url} answers: name the unit that serves there"
    return Finding(subject, good=problem is None, words=problem or f"serves {section.model}")


async def _unit(
    unit: UnitName, reached: _Reached, *, service: str, scope: str
) -> tuple[Finding, UnitState | None]:
    subject, host = f"unit {unit}", reached.host
    if reached.barred:
        return Finding(subject, good=False, words=reached.barred), None
    try:
        state = await host.show(unit, scope=scope)
        if state.load != "loaded":
            words = f"{host.name}: is {state.load}: name one that is there"
            return Finding(subject, good=False, words=words), None
        refused = await _refused_orders(unit, host) if host.section.sudo and scope == "system" else []
    except KimiError as error:
        return Finding(subject, good=False, words=str(error)), None
    if refused:
        words = f"{host.name}: sudo refuses {', '.join(refused)}: see kimi-bot host-setup"
        return Finding(subject, good=False, words=words), state
    return _stands(unit, host.name, state, service=service), state


def _stands(unit: UnitName, host: str, state: UnitState, *, service: str) -> Finding:
    """One that was stopped is as someone wanted it; one that failed is nothing to go live with."""
    subject, failed = f"unit {unit}", state.active == "failed"
    seen = f"{host}: {state.active} ({state.result if failed else state.sub})"
    if not failed and not state.looping:
        return Finding(subject, good=True, words=seen, note=state.active != "active")
    mend = f"`why {service}` in chat, or its journal there, tells of what; mend that and start it anew"
    return Finding(subject, good=False, words=f"{seen}: {mend}")


async def _log_file(path: str, reached: _Reached) -> Finding:
    """One that is not there yet comes with the first start; one that may not be read never will."""
    host = reached.host
    if reached.barred:
        return Finding(f"log file {path}", good=False, words=reached.barred)
    try:
        end = await host.log_end(path)
    except HostError as error:
        return Finding(f"log file {path}", good=False, words=str(error))
    words = "readable" if end.inode else "is not there yet: the unit will make it, or log_file is wrong"
    return Finding(f"log file {path}", good=True, words=f"{host.name}: {words}")


async def _refused_orders(unit: UnitName, host: Host) -> list[str]:
    """`sudo -l` with a command says whether it would be let through, and does nothing."""
    rights = rights_on(unit)
    return [verb for verb, words in rights.items() if (await host.run(("sudo", "-n", "-l", *words))).status]
