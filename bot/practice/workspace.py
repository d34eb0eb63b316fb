"""Everything embedded: a Slack, a GPU host with its engine, a Redis, and the real bot between them."""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from bot.app import App
from bot.clock import Clock
from bot.errors import ConfigurationInvalid
from bot.practice.host import PracticeHost
from bot.practice.redis import EmbeddedRedis
from bot.practice.slack import PracticeSlack
from config.loading import parse_configuration
from config.settings import Settings

if TYPE_CHECKING:
    from bot.practice.scenarios import Scenario
    from config.services import Configuration

SERVICE = "kimi-k2.5"
CHANNEL, CHANNEL_NAME = "C0LLMOPS", "llm-ops"
ALICE, BOB = "U0ALICE", "U0BOB"
ONCALL = "S0ONCALL"
NAMES = {ALICE: "alice", BOB: "bob", ONCALL: "llm-oncall", CHANNEL: CHANNEL_NAME}
API_KEY = "sk-practice-4f1d20c9a7"  # the engine wants it, and prints it: no log may show it


class PracticeWorkspace:
    """Alice is an operator, Bob may look; they sit in one channel with the bot."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        speed: float,
        port: int = 0,
        service: dict[str, Any] | None = None,
        host: dict[str, Any] | None = None,
        watched: bool = True,
    ) -> None:
        """`service` and `host` are keys of the configuration that differ from the practice's own.

        `watched`: between startups too, as in production.
        """
        self.clock = Clock(speed)
        self.slack = PracticeSlack()
        self._changes = {"service": service or {}, "host": host or {}}
        self.host = PracticeHost(
            self.clock,
            scenario,
            api_key=API_KEY,
            user_unit=self._changes["service"].get("scope") == "user",
            log_file=self._changes["service"].get("log_file"),
        )
        self._port = port
        self._watched = watched
        self._stack = AsyncExitStack()
        self.redis_url = ""
        self.app: App | None = None

    async def start(self) -> App:
        await self.start_surroundings()
        return await self.start_app()

    async def start_surroundings(self) -> None:
        """Everything but the bot."""
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kimi-practice-")))
        redis = EmbeddedRedis(folder / "redis")
        self._stack.push_async_callback(redis.stop)
        redis_url = await redis.start()
        self._people()
        self._stack.push_async_callback(self.slack.stop)
        try:
            await self.slack.start(self._port)
        except (OSError, OverflowError) as error:
            raise ConfigurationInvalid((f"--port: {self._port} cannot be listened on: {error}",)) from error
        self._stack.push_async_callback(self.host.stop)
        await self.host.start()
        self.redis_url = redis_url

    async def start_app(self) -> App:
        """The bot itself; again after `app.close()`, as a new process would."""
        settings = Settings(
            bot_token=SecretStr(self.slack.bot_token),
            app_token=SecretStr(self.slack.app_token),
            signing_secret=SecretStr(self.slack.signing_secret),
            slack_api_url=self.slack.api_url,
            redis_url=self.redis_url,
        )
        environ = {"PRACTICE_API_KEY": API_KEY}
        self.app = App(self.configuration(), settings, environ=environ, clock=self.clock)
        self._stack.push_async_callback(self.app.close)
        await self.app.start()
        return self.app

    async def stop(self) -> None:
        await self._stack.aclose()

    def _people(self) -> None:
        self.slack.add_user(ALICE, "alice")
        self.slack.add_user(BOB, "bob")
        self.slack.add_group(ONCALL, "llm-oncall", [ALICE])
        self.slack.add_channel(CHANNEL, CHANNEL_NAME)

    def configuration(self) -> Configuration:
        host = {
            "address": self.host.address,
            "port": self.host.port,
            "user": self.host.user,
            "identity_file": str(self.host.identity_file),
            "known_hosts": str(self.host.known_hosts),
            "sudo": True,
        }
        raw: dict[str, Any] = {
            "default_service": SERVICE,
            "slack": {"channel": CHANNEL},
            "access": {"operators": [ALICE, ONCALL], "channels": [CHANNEL]},
            "hosts": {"llm-two": host | self._changes["host"]},
            "services": {SERVICE: self._service() | self._changes["service"]},
        }
        return parse_configuration(raw, source="practice workspace")

    def _service(self) -> dict[str, Any]:
        return {
            "host": "llm-two",
            "unit": self.host.unit_name,
            "engine": "sglang",
            "url": self.host.engine_url,
            "model": SERVICE,
            "api_key_env": "PRACTICE_API_KEY",
            "ranks": self.host.scenario.ranks,
            "smoke": {"prompt": "Write quicksort in Python.", "tool_call": True, "reasoning": True},
            "patience": {"weights": "15m", "graphs": "5m"},
            **self.host.scenario.service,
            "monitor": {**self.host.scenario.service.get("monitor", {}), "enabled": self._watched},
        }
