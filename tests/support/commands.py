"""`kimi-bot` as a real process, its configuration and its environment."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bot.practice.slack import PracticeSlack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

KIMI = (sys.executable, "-m", "bot")
PATIENCE = 60.0  # real seconds, for a busy machine
TOML = """
[slack]
channel = "C0OPS"

[health]
listen = "127.0.0.1:0"

[access]
operators = ["U0ALICE"]
channels = ["C0OPS"]

[hosts.llm-two]
address = "127.0.0.1"
port = 1
user = "kimi"
identity_file = "{folder}/id"
known_hosts = "{folder}/known_hosts"

[services."kimi-k2.5"]
host = "llm-two"
unit = "sglang-kimi.service"
url = "http://127.0.0.1:9"
model = "kimi-k2.5"
"""


@dataclass(frozen=True, slots=True)
class Ended:
    status: int
    out: str
    err: str


@dataclass
class Process:
    """One that runs: its facts as they are logged."""

    process: asyncio.subprocess.Process
    facts: list[dict[str, Any]] = field(default_factory=list)

    async def fact(self, event: str) -> dict[str, Any]:
        """The next logged fact of that name; fails with all that was said when the process ends first."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while line := await self.process.stderr.readline():
                with contextlib.suppress(ValueError):
                    self.facts.append(json.loads(line))
                    if self.facts[-1].get("event") == event:
                        return self.facts[-1]
        raise AssertionError(f"{event} was never logged: {self.facts}")

    async def ended(self) -> int:
        """Its exit status; what it still logs on its way is read."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            async for line in self.process.stderr:
                with contextlib.suppress(ValueError):
                    self.facts.append(json.loads(line))
            return await self.process.wait()

    def events(self) -> list[str]:
        return [fact["event"] for fact in self.facts]


def clean_environment(**changes: str) -> dict[str, str]:
    """Ours without what would configure a bot."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLACK_", "KIMI_"))}
    return kept | changes


def write_configuration(folder: Path, *, text: str = TOML) -> Path:
    path = folder / "kimi.toml"
    path.write_text(text.replace("{folder}", str(folder)))
    return path


async def kimi(*words: str, given: bytes = b"", environment: Mapping[str, str] | None = None) -> Ended:
    """Run one command to its end."""
    process = await asyncio.create_subprocess_exec(
        *KIMI,
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(**environment or {}),
    )
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate(given)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ended(process.returncode or 0, out.decode(), err.decode())


@asynccontextmanager
async def started(*words: str, **environment: str) -> AsyncIterator[Process]:
    """A process that goes on by itself; killed at the end where it still does."""
    process = await asyncio.create_subprocess_exec(
        *KIMI,
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(**environment),
    )
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def slack_environment(slack: PracticeSlack, redis_url: str) -> dict[str, str]:
    return {
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_APP_TOKEN": slack.app_token,
        "SLACK_SIGNING_SECRET": slack.signing_secret,
        "SLACK_API_URL": slack.api_url,
        "KIMI_REDIS_URL": redis_url,
    }


@asynccontextmanager
async def workspace() -> AsyncIterator[PracticeSlack]:
    """Slack with Alice in the one channel of the configuration."""
    slack = PracticeSlack()
    slack.add_user("U0ALICE", "alice")
    slack.add_channel("C0OPS", "ops")
    await slack.start()
    try:
        yield slack
    finally:
        await slack.stop()
