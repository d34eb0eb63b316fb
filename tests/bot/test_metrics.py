"""What `/metrics` shows of a process that works, read as Prometheus reads it."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from bot.core.events import ServiceName
from bot.metrics import Metrics
from bot.practice.workspace import API_KEY, SERVICE
from tests.support.practice import WITHIN, practise
from tests.support.twins import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable


def read(metrics: Metrics) -> Callable[..., float | None]:
    """A sample by name and labels, as it is now; None where there is none."""
    body, kind = metrics.show()
    assert kind.startswith("text/plain; version=")
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }
    return lambda name, **labels: samples.get((name, tuple(sorted(labels.items()))))


def test_before_the_start_it_shows_the_process_alone() -> None:
    value = read(Metrics())
    assert (value("kimi_up_seconds") or 0) >= 0
    assert value("process_resident_memory_bytes")
    assert value("kimi_ready") is None


async def test_a_startup_is_seen_in_the_metrics_from_its_command_to_its_verdict() -> None:
    async with practise("healthy", speed=100) as practice:
        metrics, store = practice.app.metrics, practice.app.startups.ground.store
        root = await practice.begin()
        await practice.reply(root, "Old process stopped")
        value = read(metrics)
        assert sum(value("kimi_startups", phase=phase) or 0 for phase in ("stopping", "process")) <= 1
        assert (value("kimi_leases") or 0) >= 1
        assert value("kimi_ssh_connections_total", host="llm-two") == 1
        await practice.verdict()
        await practice.app.vitals.look()
        async with asyncio.timeout(WITHIN):
            while (value := read(metrics))("kimi_queue_depth") != 0:  # the root may be edited once more
                await practice.app.vitals.look()
                await asyncio.sleep(0.05)
        assert value("kimi_verdicts_total", verdict="healthy") == 1
        assert value("kimi_verdicts_total", verdict="failed") == 0
        assert value("kimi_stalls_total") == 0
        assert value("kimi_ack_seconds_count", kind="command") == 1
        assert value("kimi_ack_seconds_bucket", kind="command", le="3.0") == 1
        sent, edited = (value("kimi_messages_total", outcome=word) for word in ("sent", "edited"))
        assert (sent or 0) > 5
        assert value("kimi_delivery_seconds_count") == (sent or 0) + (edited or 0)
        assert value("kimi_messages_total", outcome="parked") == 0
        assert value("kimi_queue_depth") == 0
        assert value("kimi_redis_errors_total") == 0
        assert (value("kimi_lease_changes_total", change="claimed") or 0) >= 1
        assert value("kimi_lease_changes_total", change="taken_over") == 0
        assert value("kimi_part_good", part="redis") == 1
        assert (value("kimi_alive"), value("kimi_ready")) == (1, 1)
        assert await store.holder(ServiceName(SERVICE)) is None


async def test_every_metric_is_described_and_every_one_described_is_there() -> None:
    guide = (ROOT / "docs" / "operations.md").read_text()
    described = set(re.findall(r"kimi_[a-z_]+", guide)) - {"kimi_ack_seconds_bucket"}
    async with practise("healthy", speed=100) as practice:
        await practice.ask("status")
        text = practice.app.metrics.show()[0].decode()
    shown = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(text)
        if family.name.startswith("kimi_") and not family.name.endswith("_created")
    }
    assert described == shown


async def test_a_stall_and_a_failure_count() -> None:
    async with practise("nccl-timeout", speed=200) as practice:
        await practice.begin()
        assert (await practice.verdict()).verdict == "failed"
        value = read(practice.app.metrics)
        assert value("kimi_stalls_total") == 1
        assert value("kimi_verdicts_total", verdict="failed") == 1


async def test_an_outage_is_seen_from_its_first_message_to_its_end() -> None:
    async with practise("dies-at-3am", speed=60, watched=True) as practice:
        metrics = practice.app.metrics

        def shows(*, down: int, serving: int) -> bool:
            value = read(metrics)
            found = value("kimi_incidents", severity="down"), value("kimi_services", standing="serving")
            return found == (down, serving)

        await practice.until(lambda _: shows(down=0, serving=1))
        await practice.until(lambda _: shows(down=1, serving=0))
        await practice.until(lambda _: shows(down=0, serving=1), within=60)


async def test_labels_are_words_of_the_code_and_the_configuration_and_no_secret_is_shown() -> None:
    async with practise("healthy", speed=100) as practice:
        await practice.ask("status")
        text = practice.app.metrics.show()[0].decode()
        labels = {
            (name, value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            for name, value in sample.labels.items()
        }
        assert {name for name, _ in labels} <= {
            "version", "outcome", "part", "phase", "verdict", "change", "host", "kind", "le", "standing",
            "severity", "ending",
        }  # fmt: skip
        assert {value for name, value in labels if name == "host"} == {"llm-two"}
        assert {value for name, value in labels if name == "kind"} == {"command"}
        for secret in (API_KEY, practice.slack.bot_token, practice.slack.app_token, "U0ALICE", SERVICE):
            assert secret not in text
