"""`kimi-bot check`: looks at everything the bot will need, and says how to mend what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.app import UNSIGNED, faults_of_parts
from bot.check_hosts import look_at_hosts
from bot.check_rows import Finding
from bot.clients.slack import connect_slack
from bot.clients.slack_account import look_up_account
from bot.clients.slack_calls import call
from bot.clients.store import Store
from bot.core.access import named_groups
from bot.core.words import count
from bot.errors import (
    ConfigurationInvalid,
    SlackBusy,
    SlackError,
    SlackUncertain,
    SlackUnreachable,
    StoreUnavailable,
)
from config.loading import load_configuration
from config.settings import Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from slack_sdk.web.async_client import AsyncWebClient

    from bot.clients.records import Parked
    from config.services import Configuration

# Needed by what the bot calls; the manifest asks for the same.
SCOPES = frozenset(
    {
        "commands", "chat:write", "chat:write.public", "files:write", "app_mentions:read", "channels:read",
        "groups:read", "channels:history", "groups:history", "users:read", "usergroups:read",
    }
)  # fmt: skip
_MOST_UNDELIVERED = 5


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
    findings.extend(await look_at_hosts(configuration, environ))
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
        faults = [fault.removeprefix("environment: ") for fault in error.faults]
        findings.extend(Finding("environment", good=False, words=fault) for fault in faults)
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
