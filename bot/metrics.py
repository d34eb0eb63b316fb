"""What `/metrics` shows, in Prometheus' manner: counters and gauges of this process, all of one registry.

Most of it is counted elsewhere anyway and read when somebody asks. Labels are words of the code or of the
configuration, never of a person, a thread or a log: their number is bounded, and none can hold a secret.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from bot.clients.ssh import Host
from bot.core.actions import Verdict
from bot.core.events import HostName, PhaseId
from bot.core.incident_state import Ending, Severity
from bot.core.monitor_state import WatchStanding
from bot.tallies import Tallies
from bot.vitals import Organs, Vitals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

_ACKS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0)  # seconds; Slack gives up after three
_DELIVERIES = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_LEASES = ("claimed", "taken_over", "lost", "let_go")
_OUTCOMES = ("sent", "edited", "parked")
_WEBHOOKS = ("delivered", "failed", "refused", "given_up")
_PUT_OFF = ("startup", "watch", "incident")


@dataclass(frozen=True, slots=True)
class Sights:
    """What is read when somebody asks. `standings`, `incidents`: what this process watches and has open."""

    vitals: Vitals
    organs: Organs
    hosts: Mapping[HostName, Host]
    tallies: Tallies
    standings: Callable[[], Counter[str]] = Counter
    incidents: Callable[[], Counter[str]] = Counter


class Metrics:
    """`show` may be asked from the beginning; most of it is there once `attach` was called."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._began = time.monotonic()
        self._sights: Sights | None = None
        self.pings: Counter[str] = Counter()  # to the dead man's switch: "answered" and "failed"
        self._acks = Histogram(
            "kimi_ack_seconds",
            "From a payload of Slack's to its acknowledgement, by kind of payload.",
            ["kind"],
            buckets=_ACKS,
            registry=self._registry,
        )
        self._deliveries = Histogram(
            "kimi_delivery_seconds",
            "From the queue to Slack's yes, of messages and edits.",
            buckets=_DELIVERIES,
            registry=self._registry,
        )
        ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def attach(self, sights: Sights) -> None:
        self._sights = sights
        sights.organs.outbox.subscribe_delay(self._deliveries.observe)

    def acknowledged(self, kind: str, seconds: float) -> None:
        """`kind`: command, event, action, view or other."""
        self._acks.labels(kind).observe(seconds)

    def show(self) -> tuple[bytes, str]:
        """The text, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4

    def collect(self) -> Iterator[Metric]:
        """What the registry asks for."""
        yield _gauges("kimi_info", "Of this process; always 1.", {_version(): 1}, "version")
        yield _gauge("kimi_up_seconds", "Since this process began.", time.monotonic() - self._began)
        yield _count("kimi_dead_man_pings", "To the dead man's switch.", self.pings, "outcome")
        if self._sights is None:
            return
        yield from _health(self._sights)
        yield from _slack(self._sights)
        yield from _startups(self._sights)
        yield from _outages(self._sights)
        yield from _webhooks(self._sights)
        yield from _leases(self._sights)
        yield from _hosts(self._sights)
        yield from _faults(self._sights)


def _health(sights: Sights) -> Iterator[Metric]:
    report, vitals = sights.vitals.report(), sights.vitals
    yield _gauge("kimi_alive", "0: only a new process would mend it.", float(report.alive))
    yield _gauge("kimi_ready", "0: some part does not do its work.", float(report.ready))
    parts = {part.name: part.good for part in report.parts}
    yield _gauges("kimi_part_good", "Each part of the process.", parts, "part")
    yield _gauge("kimi_loop_lag_seconds", "How late the event loop was last.", vitals.lag)
    errors = sights.organs.store.link.errors
    yield CounterMetricFamily("kimi_redis_errors", "Commands that Redis did not answer.", errors)


def _slack(sights: Sights) -> Iterator[Metric]:
    outbox, depth = sights.organs.outbox, sights.vitals.depth
    told = {outcome: outbox.counts[outcome] for outcome in _OUTCOMES}
    yield _count("kimi_messages", "By what became of them; parked: Slack refused for good.", told, "outcome")
    failed, locked = outbox.counts["failed"], outbox.locked is not None
    yield CounterMetricFamily("kimi_slack_failures", "Calls of the Web API that failed.", failed)
    yield _gauge("kimi_slack_token_refused", "1: everything waits until it is good.", float(locked))
    yield _gauge("kimi_outbox_threads", "That this process is sending now.", outbox.busy)
    if depth is not None:
        yield _gauge("kimi_queue_depth", "Messages that wait in Redis, of all processes.", depth)


def _startups(sights: Sights) -> Iterator[Metric]:
    now = datetime.now(UTC)
    by_phase = Counter(run.startup.phase(now) for run in sights.organs.startups.running.values())
    phases = {phase.value: by_phase[phase] for phase in PhaseId}
    yield _gauges("kimi_startups", "Under way in this process, by phase.", phases, "phase")
    verdicts = {verdict.value: sights.tallies.verdicts[verdict.value] for verdict in Verdict}
    yield _count("kimi_verdicts", "Told by this process.", verdicts, "verdict")
    yield CounterMetricFamily("kimi_stalls", "Told by this process.", sights.tallies.stalls)


def _outages(sights: Sights) -> Iterator[Metric]:
    found, opened = sights.standings(), sights.incidents()
    standings = {word.value: found[word.value] for word in WatchStanding}
    yield _gauges("kimi_services", "Watched by this process, by what they are.", standings, "standing")
    severities = {word.value: opened[word.value] for word in Severity}
    yield _gauges("kimi_incidents", "That are open and this process has.", severities, "severity")
    endings = {ending.value.replace(" ", "_"): sights.tallies.endings[ending.value] for ending in Ending}
    yield _count("kimi_incidents_ended", "Told by this process.", endings, "ending")


def _webhooks(sights: Sights) -> Iterator[Metric]:
    told = {outcome: sights.tallies.webhooks[outcome] for outcome in _WEBHOOKS}
    help_ = "Attempts to tell other tools of incidents; refused, given_up: they will never hear it."
    yield _count("kimi_webhooks", help_, told, "outcome")


def _leases(sights: Sights) -> Iterator[Metric]:
    leases = sights.organs.store.leases
    changes = {change: leases.counts[change] for change in _LEASES}
    help_ = "Of operations; taken_over: the former owner had not let go."
    yield _count("kimi_lease_changes", help_, changes, "change")
    yield _gauge("kimi_leases", "Held by this process.", leases.held)


def _hosts(sights: Sights) -> Iterator[Metric]:
    made = {str(name): host.connects for name, host in sights.hosts.items()}
    yield _count("kimi_ssh_connections", "Made to each host, the first one included.", made, "host")


def _faults(sights: Sights) -> Iterator[Metric]:
    found = {part: sights.tallies.put_off[part] for part in _PUT_OFF}
    yield _count(
        "kimi_put_off", "What broke by a fault of kimi's own, to be begun anew later.", found, "part"
    )


def _gauge(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(name, told, value=value)


def _gauges(name: str, told: str, values: Mapping[str, float], label: str) -> Metric:
    family = GaugeMetricFamily(name, told, labels=[label])
    for word, value in values.items():
        family.add_metric([word], value)
    return family


def _count(name: str, told: str, values: Mapping[str, int], label: str) -> Metric:
    family = CounterMetricFamily(name, told, labels=[label])
    for word, value in values.items():
        family.add_metric([word], value)
    return family


def _version() -> str:
    try:
        return version("kimi-bot")
    except PackageNotFoundError:
        return "unknown"
