"""What `kimi-bot check` looks at: a world in which everything is right, to be spoilt."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from bot.check import check
from bot.clock import Clock
from bot.practice.host import PracticeHost
from bot.practice.scenarios import SCENARIOS
from tests.support.commands import slack_environment, workspace, write_configuration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.check_rows import Finding
    from bot.practice.slack import PracticeSlack

TOML = """
[slack]
channel = "C0OPS"
{slack_keys}

[access]
channels = ["C0OPS"]

[hosts.llm-two]
address = "127.0.0.1"
port = {port}
user = "kimi"
identity_file = "{identity}"
known_hosts = "{known}"
sudo = true

[services."kimi-k2.5"]
host = "llm-two"
unit = "{unit}"
url = "{url}"
model = "kimi-k2.5"
api_key_env = "ENGINE_KEY"
"""


class Bench:
    """A world in which everything is right, to be spoilt."""

    def __init__(self, slack: PracticeSlack, host: PracticeHost, *, folder: Path, redis_url: str) -> None:
        self.slack, self.host, self._folder = slack, host, folder
        self.environ = slack_environment(slack, redis_url) | {"ENGINE_KEY": "sk-of-the-engine"}
        self.unit = host.unit_name
        self.slack_keys = ""  # lines of the table of Slack
        self.more = ""  # lines of the service's table

    def write(self) -> Path:
        text = TOML.format(
            port=self.host.port,
            identity=self.host.identity_file,
            known=self.host.known_hosts,
            unit=self.unit,
            url=self.host.engine_url,
            slack_keys=self.slack_keys,
        )
        text += self.more
        return write_configuration(self._folder, text=text)

    async def check(self) -> dict[str, Finding]:
        return {found.subject: found for found in await check(self.write(), self.environ, offline=False)}

    async def wrong(self) -> dict[str, str]:
        return {subject: found.words for subject, found in (await self.check()).items() if not found.good}


@asynccontextmanager
async def bench(
    folder: Path, redis_url: str, *, before: Literal["healthy", "stopped", "down"] = "healthy", **changes: Any
) -> AsyncIterator[Bench]:
    scenario = replace(SCENARIOS["healthy"], before=before)
    host = PracticeHost(Clock(100), scenario, api_key="sk-of-the-engine", **changes)
    async with workspace() as slack:
        await host.start()
        try:
            yield Bench(slack, host, folder=folder, redis_url=redis_url)
        finally:
            await host.stop()
