"""Builds every part, runs them, and stops them in reverse order."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from aiohttp import web
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp

from bot.accounts import Accounts
from bot.clients.probe import Probe
from bot.clients.slack import Directory, Outbox, connect_slack
from bot.clients.slack_account import open_socket
from bot.clients.ssh import Host
from bot.clients.store import Store
from bot.clock import Clock
from bot.core.events import ChannelId, HostName, ServiceName
from bot.core.redact import Redactor
from bot.errands import Errands
from bot.errors import ConfigurationInvalid, SlackError, SlackRefused
from bot.ground import Ground
from bot.schedule import Schedule
from bot.startups import Startups
from bot.tasks import Tasks
from config.diagnoses import load_diagnoses
from config.engine_file import EngineFile, load_engine
from config.settings import Settings, read_api_key
from handlers import register
from handlers.parts import Parts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from slack_sdk.web.async_client import AsyncWebClient

    from config.services import Configuration

log = structlog.get_logger()

_CONNECTIONS = 2  # Socket Mode: while one is refreshed, the other hears
_GRACE = 5.0  # real seconds for what is queued, and again for what still runs
HTTP_PATH = "/slack/events"
# bolt asks Slack who it is before the first command, and would tell people to reinstall the app.
NOT_AUTHORIZED = (
    "Slack did not tell kimi who it is, and nothing was done. Try again in a minute; "
    "where it stays so, `kimi-bot check` says why."
)


@dataclass(frozen=True, slots=True)
class Listen:
    """Where HTTP mode listens; None stands for Socket Mode."""

    host: str
    port: int


class App:
    """One process of the bot."""

    def __init__(
        self,
        configuration: Configuration,
        settings: Settings,
        *,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        folder: Path | None = None,
    ) -> None:
        """Reads engine files and keys: ConfigurationInvalid names all faults. Opens nothing yet."""
        self._configuration = configuration
        self._settings = settings
        self._clock = clock or Clock()
        self._engines = load_engines_of(configuration, folder=folder)
        load_diagnoses()  # now, not when a start has just failed
        self._keys = read_keys(configuration, os.environ if environ is None else environ)
        self._stack = AsyncExitStack()
        self.tasks = Tasks()
        self._startups: Startups | None = None

    async def start(self, *, listen: Listen | None = None) -> None:
        """Open Redis, take up what was left, then listen to Slack. Raises StoreUnavailable, SlackError."""
        store = await Store.open(self._settings.redis_url or self._configuration.redis.url)
        self._stack.push_async_callback(store.close)
        client = connect_slack(self._settings.bot_token.get_secret_value(), self._settings.slack_api_url)
        fallback = self._configuration.slack.fallback_channel
        outbox = Outbox(client, store, fallback=ChannelId(fallback) if fallback else None)
        ground = self._lay_ground(store, outbox)  # closed last: to a task, a closed host is a lost one
        self._stack.push_async_callback(self.tasks.close, grace=_GRACE)
        leases = self.tasks.spawn("leases", store.leases.run(), vital=True)
        self._stack.push_async_callback(store.leases.close)
        self._stack.callback(leases.cancel)  # or it would sign once more for a process that is gone
        self._stack.push_async_callback(outbox.drain, _GRACE)
        startups = self._startups = Startups(ground)
        self._stack.push_async_callback(startups.hand_over)
        self.tasks.spawn("outbox", outbox.run(), vital=True)
        taken_up = await startups.adopt()
        schedule = Schedule(startups, clock=self._clock)
        schedule.start()
        self._stack.callback(schedule.close)
        await self._hear(client, self._parts(ground, startups, client), listen=listen)
        log.info("started", services=len(self._configuration.services), taken_up=taken_up)

    @property
    def startups(self) -> Startups:
        if self._startups is None:
            raise RuntimeError("the app is not started")
        return self._startups

    async def run(self) -> str:
        """Until a vital part dies; its name."""
        return await self.tasks.died()

    async def close(self) -> None:
        """In reverse order, in bounded time; may be called twice."""
        await self._stack.aclose()

    def _lay_ground(self, store: Store, outbox: Outbox) -> Ground:
        hosts = {
            HostName(name): Host(HostName(name), host) for name, host in self._configuration.hosts.items()
        }
        for host in hosts.values():
            self._stack.push_async_callback(host.close)
        probes = {
            ServiceName(name): Probe(
                section,
                host=hosts[HostName(section.units[0].host)] if section.reach == "ssh" else None,
                api_key=self._keys[name],
            )
            for name, section in self._configuration.services.items()
        }
        for probe in probes.values():
            self._stack.push_async_callback(probe.close)
        known = (*self._settings.secrets(), *filter(None, self._keys.values()))
        return Ground(
            configuration=self._configuration,
            clock=self._clock,
            tasks=self.tasks,
            store=store,
            outbox=outbox,
            hosts=hosts,
            probes=probes,
            engines=self._engines,
            make_redactor=lambda: Redactor(known),
        )

    def _parts(self, ground: Ground, startups: Startups, client: AsyncWebClient) -> Parts:
        return Parts(
            configuration=self._configuration,
            startups=startups,
            store=ground.store,
            directory=Directory(client),
            tasks=self.tasks,
            client=client,
            accounts=Accounts(ground),
            errands=Errands(ground, startups),
        )

    async def _hear(self, client: AsyncWebClient, parts: Parts, *, listen: Listen | None) -> None:
        secret = self._settings.signing_secret
        app = AsyncApp(
            client=client,
            signing_secret=secret.get_secret_value() if secret else None,
            request_verification_enabled=listen is not None,
            user_facing_authorize_error_message=NOT_AUTHORIZED,
        )
        self.tasks.spawn("intents", register(app, parts).run(), vital=True)
        if listen is None:
            await self._connect_sockets(app)
        else:
            await self._serve_http(app, listen)

    async def _connect_sockets(self, app: AsyncApp) -> None:
        token = self._settings.app_token.get_secret_value() if self._settings.app_token else ""
        for _ in range(_CONNECTIONS):
            handler = AsyncSocketModeHandler(app, token)
            self._stack.push_async_callback(handler.close_async)
            handler.client.wss_uri = await _ask_for_socket(app.client, token)
            await handler.connect_async()  # type: ignore[no-untyped-call]

    async def _serve_http(self, app: AsyncApp, listen: Listen) -> None:
        runner = web.AppRunner(app.web_app(path=HTTP_PATH))
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, listen.host, listen.port).start()
        except OSError as error:
            raise ConfigurationInvalid((f"--listen: {error.strerror or error}",)) from error
        host, port = runner.addresses[0][:2]
        log.info("listening", host=host, port=port, path=HTTP_PATH)


async def _ask_for_socket(client: AsyncWebClient, token: str) -> str | None:
    """None while Slack is out of reach: the SDK asks on. With a wrong token it would do so for ever."""
    try:
        return await open_socket(client, token)
    except SlackRefused:
        raise
    except SlackError as error:
        log.warning("slack_unreachable", error=str(error))
        return None


def load_engines_of(
    configuration: Configuration, *, folder: Path | None = None
) -> dict[ServiceName, EngineFile]:
    """Each service's engine file; a path is looked up beside the configuration. All faults at once."""
    engines: dict[ServiceName, EngineFile] = {}
    faults: list[str] = []
    for name, section in configuration.services.items():
        try:
            engines[ServiceName(name)] = load_engine(_engine_path(section.engine, folder))
        except ConfigurationInvalid as error:
            faults.extend(f'services."{name}".engine: {fault}' for fault in error.faults)
    if faults:
        raise ConfigurationInvalid(tuple(faults))
    return engines


def _engine_path(engine: str, folder: Path | None) -> str:
    """An operator's own file stands beside the configuration, or at a full path."""
    own = engine.endswith(".toml") and folder is not None
    return str(folder / engine) if own and folder is not None else engine


def read_keys(configuration: Configuration, environ: Mapping[str, str]) -> dict[str, str | None]:
    """The engine key of each service that names one. All faults at once."""
    keys: dict[str, str | None] = {}
    faults: list[str] = []
    for name, section in configuration.services.items():
        try:
            keys[name] = read_api_key(environ, section.api_key_env)
        except ConfigurationInvalid as error:
            faults.extend(error.faults)
    if faults:
        raise ConfigurationInvalid(tuple(dict.fromkeys(faults)))
    return keys


def faults_of_parts(
    configuration: Configuration, environ: Mapping[str, str], *, folder: Path | None
) -> tuple[str, ...]:
    """What is wrong with the engine files and the keys that the configuration names."""
    faults: list[str] = []
    for read in (
        lambda: load_engines_of(configuration, folder=folder),
        lambda: read_keys(configuration, environ),
    ):
        try:
            read()
        except ConfigurationInvalid as error:
            faults.extend(error.faults)
    return tuple(faults)
