"""Who may do what, and where: nobody and nowhere, unless the configuration says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from bot.core.command import Word
from bot.core.events import ChannelId, ServiceName, UserId

if TYPE_CHECKING:
    from config.services import Configuration

_FOR_OPERATORS = frozenset(
    {Word.RESTART, Word.START, Word.STOP, Word.RELOAD, Word.MUTE, Word.UNMUTE, Word.RESOLVE}
)
FOR_STARTERS = frozenset({Word.UNWATCH, Word.SMOKE})  # also for whoever started it; a smoke test costs
ALWAYS_ALLOWED = frozenset(Word) - _FOR_OPERATORS - FOR_STARTERS  # where kimi listens at all


class Denial(StrEnum):
    CHANNEL = "channel"  # kimi does not listen here
    OPERATOR = "operator"  # may look but not touch


@dataclass(frozen=True, slots=True)
class Denied:
    """`people` and `groups` may do it; `channels` are where it may be asked."""

    why: Denial
    verb: Word
    service: ServiceName | None = None
    people: tuple[UserId, ...] = ()
    groups: tuple[str, ...] = ()
    channels: tuple[ChannelId, ...] = ()


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks for what, from where. `channel` None: from kimi's own Home tab, which only one person sees.

    `groups` holds the members of the user groups that the configuration names; one left out has none.
    `starter` is who started the operation that is asked about.
    """

    user: UserId
    channel: ChannelId | None
    verb: Word
    service: ServiceName | None
    groups: Mapping[str, frozenset[UserId]] = field(default_factory=dict)
    starter: UserId | None = None


def visible_services(configuration: Configuration, channel: ChannelId) -> tuple[ServiceName, ...]:
    """The services that may be spoken about in a channel: all, the channel's own, or none."""
    names = [ServiceName(name) for name in configuration.services]
    if channel in configuration.access.channels:
        return tuple(names)
    return tuple(name for name in names if configuration.channel_of(name) == channel)


def judge(configuration: Configuration, asking: Asking) -> Denied | None:
    """None: allowed."""
    if asking.channel is not None and not _heard(configuration, asking.channel, asking.service):
        heard = heard_channels(configuration, asking.service)
        return Denied(Denial.CHANNEL, asking.verb, asking.service, channels=heard)
    if asking.verb in FOR_STARTERS and asking.user == asking.starter:
        return None
    if asking.verb in ALWAYS_ALLOWED:
        return None
    if asking.service is None:
        return _judge_without_service(configuration, asking)
    if is_operator(configuration, asking.user, asking.service, asking.groups):
        return None
    people, groups = _who_may(configuration, asking.service, asking.groups)
    if asking.verb in FOR_STARTERS and asking.starter is not None and asking.starter not in people:
        people = (asking.starter, *people)
    return Denied(Denial.OPERATOR, asking.verb, asking.service, people, groups)


def _judge_without_service(configuration: Configuration, asking: Asking) -> Denied | None:
    """What is about a host, and so about any service: who is an operator in [access] may."""
    wide = configuration.access.operators
    if _is_in(asking.user, wide, asking.groups):
        return None
    people = tuple(UserId(entry) for entry in wide if not is_group(entry))
    return Denied(Denial.OPERATOR, asking.verb, None, people, tuple(filter(is_group, wide)))


def _heard(configuration: Configuration, channel: ChannelId, service: ServiceName | None) -> bool:
    visible = visible_services(configuration, channel)
    return bool(visible) if service is None else service in visible


def heard_channels(configuration: Configuration, service: ServiceName | None = None) -> tuple[ChannelId, ...]:
    """Where kimi listens, for one service or for any."""
    own = (configuration.channel_of(name) for name in configuration.services if service in {None, name})
    return tuple(dict.fromkeys(ChannelId(name) for name in (*configuration.access.channels, *own)))


def is_operator(
    configuration: Configuration,
    user: UserId,
    service: ServiceName,
    groups: Mapping[str, frozenset[UserId]],
) -> bool:
    """A service's own list narrows: who is not an operator in [access] does not become one by it."""
    own = configuration.services[service].operators
    return _is_in(user, configuration.access.operators, groups) and (own is None or _is_in(user, own, groups))


def _is_in(user: UserId, entries: tuple[str, ...], groups: Mapping[str, frozenset[UserId]]) -> bool:
    return user in entries or any(
        user in groups.get(entry, frozenset()) for entry in entries if is_group(entry)
    )


def is_group(entry: str) -> bool:
    """Slack's ids tell their kind by the first letter: S a user group, U or W a person."""
    return entry.startswith("S")


def named_groups(configuration: Configuration, service: ServiceName | None) -> tuple[str, ...]:
    """The user groups whose members must be known to judge about a service, or about any."""
    entries = list(configuration.access.operators)
    for name, section in configuration.services.items():
        if service in {None, name}:
            entries.extend(section.operators or ())
    return tuple(dict.fromkeys(entry for entry in entries if is_group(entry)))


def _who_may(
    configuration: Configuration, service: ServiceName, groups: Mapping[str, frozenset[UserId]]
) -> tuple[tuple[UserId, ...], tuple[str, ...]]:
    """The people and groups to ask. A group stays a group where all of it may."""
    wide = configuration.access.operators
    own = configuration.services[service].operators
    if own is None:
        own = wide
    whole = tuple(entry for entry in own if is_group(entry) and entry in wide)
    covered = frozenset[UserId]().union(*(groups.get(entry, frozenset()) for entry in whole))
    candidates = [UserId(entry) for entry in (*own, *wide) if not is_group(entry)]
    for entry in (*own, *wide):
        candidates.extend(sorted(groups.get(entry, frozenset())) if is_group(entry) else ())
    people = (user for user in dict.fromkeys(candidates) if user not in covered)
    return tuple(user for user in people if is_operator(configuration, user, service, groups)), whole
