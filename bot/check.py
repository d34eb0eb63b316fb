"""`kimi-bot check`: looks at everything the bot will need, and says how to mend what is wrong."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.app import UNSIGNED, faults_of_parts
from bot.clients.probe import Probe
from bot.clients.slack import connect_slack
from bot.clients.slack_account import look_up_account
from bot.clients.slack_calls import call
from bot.clients.ssh import Host
from bot.clients.store import Store
from bot.core.access import named_groups
from bot.core.events import HostName, UnitName
from bot.core.words import count
from bot.errors import (
    CommandTimedOut,
    ConfigurationInvalid,
    HostError,
    HostKeyRejected,
    HostUnreachable,
    KimiError,
    LoginRefused,
    SlackBusy,
    SlackError,
    SlackUncertain,
    SlackUnreachable,
    StoreUnavailable,
)
from bot.host_setup import rights_on
from bot.standing import doubt_answer
from config.loading import load_configuration
from config.settings import Settings, read_api_key, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from slack_sdk.web.async_client import AsyncWebClient

    from bot.clients.records import Parked
    from bot.core.events import UnitState
    from config.services import Configuration, ServiceSection

# Needed by what the bot calls; the manifest asks for the same.
SCOPES = frozenset(
    {
        "commands", "chat:write", "chat:write.public", "files:write", "app_mentions:read", "channels:read",
        "groups:read", "channels:history", "groups:history", "users:read", "usergroups:read",
    }
)  # fmt: skip
_PROBE_WITHIN = 25.0
_MOST_UNDELIVERED = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One row; `words` say what was seen, and where it is not good how to mend it.

    `note`: it is no fault of the setup, and yet not as it is when all serves.
    """

    subject: str
    good: bool
    words: str
    note: bool = False


async def check(path: Path, environ: Mapping[str, str], *, offline: bool) -> list[Finding]:
    """Everything that can be looked at; what hangs on a broken part is left out."""
    findings: list[Finding] = []
    configuration = _configuration(path, None if offline else environ, findings)
    settings = None if offline else _settings(environ, findings)
    if configuration is None or offline:
        return findings
    if settings is not None:
        if configuration.incidents.webhook and settings.webhook_secret is None:
            findings.append(Finding("environment", good=False, words=UNSIGNED))
        findings.extend(await _redis(settings.redis_url or configuration.redis.url))
        findings.extend(await _slack(configuration, settings))
    findings.extend(await _hosts_and_services(configuration, environ))
    return findings


def _configuration(
    path: Path, environ: Mapping[str, str] | None, findings: list[Finding]
) -> Configuration | None:
    faults: list[str] = []
    configuration = None
    try:
        configuration = load_configuration(path)
    except ConfigurationInvalid as error:
        faults.extend(error.faults)
    if configuration is not None:
        faults.extend(faults_of_parts(configuration, environ, path=path))
    findings.extend(Finding("configuration", good=False, words=fault) for fault in faults)
    if configuration is None or faults:
        return None
    counted = f"{count(len(configuration.services), 'service')} on {count(len(configuration.hosts), 'host')}"
    findings.append(Finding("configuration", good=True, words=f"{path}: {counted}"))
    return configuration


def _settings(environ: Mapping[str, str], findings: list[Finding]) -> Settings | None:
    try:
        return read_settings(environ)
    except ConfigurationInvalid as error:
        findings.extend(Finding("environment", good=False, words=fault) for fault in error.faults)
        return None


async def _redis(url: str) -> list[Finding]:
    try:
        store = await Store.open(url)
        try:
            words = await store.link.describe()
            parked = await store.parked()
        finally:
            await store.close()
    except (ConfigurationInvalid, StoreUnavailable) as error:
        return [Finding("redis", good=False, words=str(error))]
    return [Finding("redis", good=True, words=words), *_undelivered(parked)]


def _undelivered(parked: Sequence[Parked]) -> list[Finding]:
    """What Slack has refused for good, the newest first; none of it is wrong any more by itself."""
    newest = sorted(parked, key=lambda entry: entry.at, reverse=True)
    findings = [
        Finding(
            f"undelivered {place}",
            good=True,
            note=True,
            words=f"{entry.at:%Y-%m-%d %H:%M} UTC, {entry.code}: {' '.join(entry.outgoing.text.split())}",
        )
        for place, entry in enumerate(newest[:_MOST_UNDELIVERED], start=1)
    ]
    if len(newest) > _MOST_UNDELIVERED:
        words = f"{len(newest) - _MOST_UNDELIVERED} older ones: kimi's log has each as message_parked"
        findings.append(Finding("undelivered", good=True, words=words, note=True))
    return findings


async def _slack(configuration: Configuration, settings: Settings) -> list[Finding]:
    client = connect_slack(settings.bot_token.get_secret_value(), settings.slack_api_url)
    try:
        account = await look_up_account(client)
    except (SlackUnreachable, SlackUncertain, SlackBusy) as error:
        return [Finding("slack token", good=False, words=f"{error}: nothing is known of it yet")]
    except SlackError as error:
        words = f"{error}: take the bot token from OAuth & Permissions again"
        return [Finding("slack token", good=False, words=words)]
    findings = [Finding("slack token", good=True, words=f"{account.user} in {account.team}")]
    findings.append(judge_scopes(account.scopes))
    channels = dict.fromkeys(map(configuration.channel_of, configuration.services))
    if configuration.slack.fallback_channel is not None:
        channels.setdefault(configuration.slack.fallback_channel)
    findings.extend([await _channel(client, channel) for channel in channels])
    findings.extend([await _group(client, group) for group in _groups(configuration)])
    return findings


def judge_scopes(granted: frozenset[str] | None) -> Finding:
    if granted is None:  # what answers is not Slack itself
        return Finding("slack scopes", good=True, words="not told by what answers in Slack's place")
    missing = sorted(SCOPES - granted)
    words = f"add {', '.join(missing)} and reinstall the app" if missing else "all there"
    return Finding("slack scopes", good=not missing, words=words)


async def _channel(client: AsyncWebClient, channel: str) -> Finding:
    subject = f"channel {channel}"
    try:
        answer = await call(client, "conversations.info", {"channel": channel})
    except SlackError as error:
        return Finding(subject, good=False, words=f"{error}: invite the bot with /invite")
    info = answer.get("channel") or {}
    if info.get("is_archived"):
        return Finding(subject, good=False, words="is archived: name another")
    if not info.get("is_member"):
        return Finding(subject, good=False, words="the bot is no member: invite it with /invite")
    return Finding(subject, good=True, words=f"#{info.get('name')}")


def _groups(configuration: Configuration) -> tuple[str, ...]:
    """Those that may change something, and those that are called in the night."""
    called = [section.monitor.escalate_to for section in configuration.services.values()]
    return tuple(dict.fromkeys([*named_groups(configuration, None), *(each for each in called if each)]))


async def _group(client: AsyncWebClient, group: str) -> Finding:
    subject = f"group {group}"
    try:
        answer = await call(client, "usergroups.users.list", {"usergroup": group})
    except SlackError as error:
        return Finding(subject, good=False, words=f"{error}: is it the id of a user group that is in use?")
    people = len(answer.get("users") or ())
    if not people:
        return Finding(subject, good=False, words="has no members: nobody may act by it, or is called")
    return Finding(subject, good=True, words=f"{people} {'person' if people == 1 else 'people'}")


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


async def _hosts_and_services(configuration: Configuration, environ: Mapping[str, str]) -> list[Finding]:
    findings: list[Finding] = []
    hosts = {name: Host(HostName(name), section) for name, section in configuration.hosts.items()}
    try:
        reached: dict[str, _Reached] = {}
        for name, host in hosts.items():
            found, reached[name] = await _host(name, host, scope=_scope_of(name, configuration))
            findings.append(found)
        for name, section in configuration.services.items():
            findings.extend(await _service(name, section, reached, environ))
    finally:
        for host in hosts.values():
            await host.close()
    return findings


async def _host(name: str, host: Host, *, scope: str) -> tuple[Finding, _Reached]:
    subject, barred = f"host {name}", ""
    try:
        await host.boot_id()
        await host.journal_end(scope=scope)
    except HostError as error:
        if isinstance(error, (HostUnreachable, CommandTimedOut)):
            barred = f"not looked at: {name} did not answer"
        elif isinstance(error, (HostKeyRejected, LoginRefused)):
            barred = f"not looked at: {name} did not let kimi in"
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


def render_findings(findings: Sequence[Finding]) -> str:
    """A table: mark, subject, words."""
    width = max((len(finding.subject) for finding in findings), default=0)
    return "\n".join(
        f"{_mark(finding):<5} {finding.subject:<{width}}  {finding.words}" for finding in findings
    )


def _mark(finding: Finding) -> str:
    if not finding.good:
        return "WRONG"
    return "note" if finding.note else "ok"
