"""The operator's TOML: hosts, services, who may do what; pydantic models and the loader."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Duration = Annotated[timedelta, Field(gt=timedelta(0))]  # written "30s", "15m", "2h", "1h30m"


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SlackSection(Section):
    channel: str


class RedisSection(Section):
    url: str = "redis://localhost:6379/0"


class AccessSection(Section):
    operators: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()


class HostSection(Section):
    address: str
    port: int = 22
    user: str
    identity_file: str
    known_hosts: str
    sudo: bool = False


class MemberSection(Section):
    host: str
    unit: str


class SmokeSection(Section):
    prompt: str = "Say hello in five words."
    max_tokens: int = 64
    timeout: Duration = timedelta(seconds=120)
    tool_call: bool = False
    reasoning: bool = False


class MonitorSection(Section):
    every: Duration = timedelta(seconds=15)
    failures: int = 3
    successes: int = 2


class MarkerSection(Section):
    name: str
    pattern: str


class ServiceSection(Section):
    host: str | None = None  # with `unit`: a service of one member
    unit: str | None = None
    members: tuple[MemberSection, ...] = ()  # or several
    scope: Literal["system", "user"] = "system"
    engine: str = "auto"
    url: str
    reach: Literal["ssh", "direct"] = "ssh"
    model: str
    api_key_env: str | None = None
    log_file: str | None = None
    ranks: int | None = None
    stable_for: Duration = timedelta(seconds=30)
    give_up_after: Duration = timedelta(hours=2)
    operators: tuple[str, ...] | None = None  # narrows [access]
    channel: str | None = None
    smoke: SmokeSection | None = SmokeSection()
    patience: dict[str, Duration] = {}
    monitor: MonitorSection = MonitorSection()
    markers: tuple[MarkerSection, ...] = ()


class Configuration(Section):
    default_service: str | None = None
    slack: SlackSection
    redis: RedisSection = RedisSection()
    access: AccessSection = AccessSection()
    hosts: dict[str, HostSection]
    services: dict[str, ServiceSection]
