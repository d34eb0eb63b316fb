"""What an operator writes: hosts, services, who may do what. Models only; `config.loading` reads the file."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from config.fields import (
    ChannelText,
    Duration,
    GroupText,
    HttpUrl,
    ListenText,
    PersonText,
    PhaseName,
    PingUrl,
    RedisUrl,
    ServiceText,
    Text,
    UnitText,
    VariableText,
)
from config.search_pattern import SearchPattern


class Section(BaseModel):
    """A table of the file: unknown keys refused, values fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SlackSection(Section):
    """`fallback_channel`: where the bot tells what Slack would not take elsewhere."""

    channel: ChannelText
    fallback_channel: ChannelText | None = None


class RedisSection(Section):
    url: RedisUrl = "redis://localhost:6379/0"


class HealthSection(Section):
    """`listen`: where the process tells how it is; "" turns that off. `ping_url` hears that it is well."""

    listen: ListenText = "127.0.0.1:8970"
    ping_url: PingUrl | None = Field(default=None, repr=False)
    ping_every: Duration = timedelta(seconds=60)


class AccessSection(Section):
    operators: tuple[PersonText, ...] = Field(default=(), strict=False)
    channels: tuple[ChannelText, ...] = Field(default=(), strict=False)


class HostSection(Section):
    """A host is trusted by its key alone, so `known_hosts` has no default and cannot be turned off."""

    address: Text
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    user: Text
    identity_file: Text
    known_hosts: Text
    sudo: bool = False


class MemberSection(Section):
    host: Text
    unit: UnitText


class SmokeSection(Section):
    prompt: Text = "Say hello in five words."
    max_tokens: Annotated[int, Field(ge=1, le=4096)] = 64
    timeout: Duration = timedelta(seconds=120)
    tool_call: bool = False
    reasoning: bool = False


class MonitorSection(Section):
    """`escalate_to`: the user group called once nobody has acknowledged an outage for `escalate_after`."""

    enabled: bool = True
    every: Duration = timedelta(seconds=15)
    failures: Annotated[int, Field(ge=1, le=100)] = 3
    successes: Annotated[int, Field(ge=1, le=100)] = 2
    completion_every: Duration | None = None
    escalate_after: Duration | None = None
    escalate_to: GroupText | None = None

    @model_validator(mode="after")
    def _calls_somebody_at_some_time(self) -> Self:
        for name, missing in (("escalate_after", "escalate_to"), ("escalate_to", "escalate_after")):
            if getattr(self, name) is not None and getattr(self, missing) is None:
                raise ValueError(
                    f"has {name} without {missing}, so nobody would be called; allowed: both or none"
                )
        return self


class IncidentsSection(Section):
    """`webhook`: where other tools listen; it gets JSON, signed with KIMI_WEBHOOK_SECRET."""

    webhook: PingUrl | None = Field(default=None, repr=False)


class MarkerSection(Section):
    name: Text
    pattern: SearchPattern


class ServiceSection(Section):
    """One service: a unit on a host, or several `members` that only serve together."""

    host: Text | None = None
    unit: UnitText | None = None
    members: tuple[MemberSection, ...] = Field(default=(), strict=False)
    scope: Literal["system", "user"] = "system"
    engine: Text = "auto"
    url: HttpUrl
    reach: Literal["ssh", "direct"] = "ssh"
    model: Text
    api_key_env: VariableText | None = None
    log_file: Text | None = None
    ranks: Annotated[int, Field(ge=1, le=4096)] | None = None
    stable_for: Duration = timedelta(seconds=30)
    give_up_after: Duration = timedelta(hours=2)
    operators: tuple[PersonText, ...] | None = Field(default=None, strict=False)
    channel: ChannelText | None = None
    smoke: SmokeSection = SmokeSection()
    patience: dict[PhaseName, Duration] = {}
    monitor: MonitorSection = MonitorSection()
    markers: tuple[MarkerSection, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _has_members(self) -> Self:
        if self.members and (self.host or self.unit):
            raise ValueError("has both `members` and `host`/`unit`; allowed: one of the two ways")
        if not self.members and not (self.host and self.unit):
            raise ValueError("names no unit; allowed: `host` and `unit`, or a list of `members`")
        if self.log_file and not self.log_file.startswith("/"):
            raise ValueError(f"log_file is {self.log_file!r}; allowed: a path from the root")
        if self.give_up_after <= self.stable_for:
            raise ValueError("give_up_after is not longer than stable_for; allowed: a longer one")
        return self

    @model_validator(mode="after")
    def _has_distinct_markers(self) -> Self:
        if len({marker.name for marker in self.markers}) != len(self.markers):
            raise ValueError("markers has two of one name; allowed: each name once")
        return self

    @property
    def units(self) -> tuple[MemberSection, ...]:
        """The members, however they were written; the first one's host reaches `url`."""
        return self.members or (MemberSection(host=self.host or "", unit=self.unit or ""),)


class Configuration(Section):
    default_service: Text | None = None
    slack: SlackSection
    redis: RedisSection = RedisSection()
    health: HealthSection = HealthSection()
    incidents: IncidentsSection = IncidentsSection()
    access: AccessSection = AccessSection()
    hosts: dict[ServiceText, HostSection] = Field(min_length=1)
    services: dict[ServiceText, ServiceSection] = Field(min_length=1)

    def channel_of(self, service: str) -> str:
        """Where the startups of `service` are told."""
        return self.services[service].channel or self.slack.channel
