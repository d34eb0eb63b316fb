"""Builds every part, runs them, and stops them in reverse order."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import structlog

from bot.accounts import Accounts
from bot.clients.directory import People
from bot.clients.probe import Probe
from bot.clients.slack import Directory, Outbox, connect_slack
from bot.clients.slack_history import Archive
from bot.clients.ssh import Host
from bot.clients.store import Store
from bot.clients.webhook import Webhook
from bot.clock import Clock
from bot.core.events import ChannelId, HostName, ServiceName
from bot.core.redact import Redactor
from bot.ears import NOT_AUTHORIZED, Ears, Listen
from bot.errands import Errands
from bot.errors import ConfigurationInvalid
from bot.ground import Ground
from bot.incident_desk import Desk
from bot.incidents import Incidents
from bot.metrics import Metrics, Sights
from bot.monitor import Monitor
from bot.recovery import Recovery
from bot.retention import Retention
from bot.schedule import ADOPT, RETAIN, Schedule
from bot.startups import Startups
from bot.tasks import Tasks, end_within
from bot.vitals import Organs, Vitals
from bot.watch_acts import Acts
from config.diagnoses import load_diagnoses
from config.engine_file import EngineFile, load_engine
from config.settings import Settings, read_api_key
from handlers import register
from handlers.parts import Parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from slack_sdk.web.async_client import AsyncWebClient

    from config.services import Configuration

log = structlog.get_logger()

__all__ = ["NOT_AUTHORIZED", "UNSIGNED", "App", "Listen", "faults_of_parts", "load_engines_of", "read_keys"]

UNSIGNED = (
    "environment: KIMI_WEBHOOK_SECRET is missing; allowed: the secret that signs what [incidents] webhook is "
    "told, or KIMI_WEBHOOK_SECRET_FILE"
)
_GRACE = 5.0  # real seconds for what is queued, and again for what still runs
_HOSTS_WITHIN = 3.0  # real seconds for all hosts to take leave


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
        if configuration.incidents.webhook and settings.webhook_secret is None:
            raise ConfigurationInvalid((UNSIGNED,))
        self._stack = AsyncExitStack()
        self.tasks = Tasks()
        self.vitals = Vitals()
        self.metrics = Metrics()
        self._startups: Startups | None = None
        self._incidents: Incidents | None = None
        self._monitor: Monitor | None = None

    async def start(self, *, listen: Listen | None = None) -> None:
        """Open Redis, take up what was left, then listen to Slack: nothing that is watched waits for Slack.

        A Slack that is away is tried on beside. Raises StoreUnavailable, SlackRefused, ConfigurationInvalid.
        """
        store = await Store.open(self._settings.redis_url or self._configuration.redis.url)
        self._stack.push_async_callback(store.close)
        client = connect_slack(self._settings.bot_token.get_secret_value(), self._settings.slack_api_url)
        fallback = self._configuration.slack.fallback_channel
        outbox = Outbox(client, store, fallback=ChannelId(fallback) if fallback else None)
        ground = self._lay_ground(
            store, outbox, People(client)
        )  # closed last: to a task, a closed host is a lost one
        self._stack.push_async_callback(self.tasks.close, grace=_GRACE)
        leases = self.tasks.spawn("leases", store.leases.run(), vital=True)
        self._stack.push_async_callback(store.leases.close)
        self._stack.callback(leases.cancel)  # or it would sign once more for a process that is gone
        self._stack.push_async_callback(outbox.drain, _GRACE)
        startups = self._startups = Startups(ground)
        self._stack.push_async_callback(startups.hand_over)
        self.tasks.spawn("outbox", outbox.run(), vital=True)
        recovery = Recovery(ground, startups, Archive(client))
        await recovery.open()
        self.tasks.spawn("recovery", recovery.run(), vital=True)
        taken_up = await startups.adopt()
        schedule = Schedule(startups, clock=self._clock)
        retention = Retention(store, clock=self._clock, tasks=self.tasks)
        schedule.add(RETAIN, retention.prune_soon)
        await self._watch_over(ground, startups, schedule, Archive(client))
        schedule.start()
        self._stack.callback(schedule.close)
        log.info("following", taken_up=taken_up)
        slack = await self._hear(client, ground, startups, listen=listen)
        self.vitals.stage = "running"
        services = len(self._configuration.services)
        log.info("started", services=services, taken_up=taken_up, slack=slack)

    async def _watch_over(
        self, ground: Ground, startups: Startups, schedule: Schedule, archive: Archive
    ) -> None:
        """What happens between startups: incidents are taken up where they stood, services are watched."""
        webhook = self._make_webhook()
        if webhook is not None:
            self._stack.push_async_callback(webhook.close)
        incidents = self._incidents = Incidents(ground, webhook, archive)
        self._stack.push_async_callback(incidents.hand_over)
        await incidents.adopt()
        schedule.add(ADOPT, incidents.adopt_soon)
        schedule.add(RETAIN, incidents.prune_soon)
        monitor = self._monitor = Monitor(ground, Acts(ground, incidents, startups).carry)
        self._stack.push_async_callback(monitor.hand_over)
        self.tasks.spawn("monitor", monitor.run(), vital=True)

    def _make_webhook(self) -> Webhook | None:
        url, secret = self._configuration.incidents.webhook, self._settings.webhook_secret
        return Webhook(url, secret.get_secret_value() if secret else None) if url else None

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
        self.vitals.stage = "stopping"
        await self._stack.aclose()

    def _lay_ground(self, store: Store, outbox: Outbox, people: People | None = None) -> Ground:
        hosts = {
            HostName(name): Host(HostName(name), host) for name, host in self._configuration.hosts.items()
        }
        self._stack.push_async_callback(_close_hosts, tuple(hosts.values()))
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
        told = (self._configuration.health.ping_url, self._configuration.incidents.webhook)
        ours = (*told, *self._keys.values())
        known = (*self._settings.secrets(), *filter(None, ours))
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
            people=people,
        )

    def _parts(self, ground: Ground, startups: Startups, client: AsyncWebClient) -> Parts:
        poke = self._monitor.poke if self._monitor is not None else None
        return Parts(
            configuration=self._configuration,
            startups=startups,
            store=ground.store,
            directory=Directory(client),
            tasks=self.tasks,
            client=client,
            accounts=Accounts(ground),
            errands=Errands(ground, startups),
            incidents=Desk(ground, poke),
            redactor=ground.make_redactor(),
            clock=ground.clock,
        )

    async def _hear(
        self, client: AsyncWebClient, ground: Ground, startups: Startups, *, listen: Listen | None
    ) -> str:
        """In which way; Slack may be away as yet."""
        ears = Ears(client, self._settings, listen=listen, acknowledged=self.metrics.acknowledged)
        self._stack.push_async_callback(ears.close)
        organs = Organs(ground.store, ground.outbox, startups, ears)
        self.vitals.attach(organs)
        self.metrics.attach(
            Sights(self.vitals, organs, ground.hosts, ground.tallies, self._standings, self._severities)
        )
        intents = register(ears.app, self._parts(ground, startups, client))
        self.tasks.spawn("intents", intents.run(), vital=True)
        self.tasks.spawn("vitals", self.vitals.run(), vital=True)
        await ears.open()
        self.tasks.spawn("ears", ears.run(), vital=True)
        _, words = await ears.hear()
        return words

    def _standings(self) -> Counter[str]:
        hosts = self._monitor.watching.values() if self._monitor is not None else ()
        return Counter(entry.watch.state.standing.value for host in hosts for entry in host.entries.values())

    def _severities(self) -> Counter[str]:
        running = self._incidents.running.values() if self._incidents is not None else ()
        states = (each.incident.state for each in running)
        return Counter(state.severity.value for state in states if state.recovered is None)


async def _close_hosts(hosts: Sequence[Host]) -> None:
    """All at once: one that does not answer is not waited for by the others."""
    await end_within(
        _HOSTS_WITHIN, [asyncio.create_task(host.close(), name=f"close {host.name}") for host in hosts]
    )


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
    configuration: Configuration, environ: Mapping[str, str] | None, *, path: Path
) -> tuple[str, ...]:
    """What is wrong with the engine files and the keys that the configuration at `path` names.

    Without an environment the engine files alone.
    """
    faults: list[str] = []
    try:
        load_engines_of(configuration, folder=path.parent)
    except ConfigurationInvalid as error:
        faults.extend(f"{path}: {fault}" for fault in error.faults)
    try:
        if environ is not None:
            read_keys(configuration, environ)
    except ConfigurationInvalid as error:
        faults.extend(error.faults)
    return tuple(faults)
