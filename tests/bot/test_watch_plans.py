"""What is watched, through which host, how often."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from bot.core.events import HostName, ServiceName
from bot.watch_plans import make_host_plan, watched_services, why_unwatched
from config.loading import parse_configuration
from tests.support.carriers import Backstage

if TYPE_CHECKING:
    from config.services import Configuration

ONE, TWO, OFF = ServiceName("one"), ServiceName("two"), ServiceName("off")


def raw() -> dict[str, Any]:
    host = {"address": "h", "user": "kimi", "identity_file": "/k", "known_hosts": "/h"}

    def service(**changes: Any) -> dict[str, Any]:
        unit = {"host": "a", "unit": "x.service", "url": "http://127.0.0.1:1", "model": "m"}
        return unit | changes

    return {
        "slack": {"channel": "C0LLMOPS"},
        "hosts": {"a": host, "b": host},
        "services": {
            "one": service(
                host=None,
                unit=None,
                members=[{"host": "b", "unit": "x.service"}, {"host": "a", "unit": "y.service"}],
                reach="direct",
                monitor={"every": "30s", "failures": 5, "escalate_after": "20m", "escalate_to": "S0ONCALL"},
            ),
            "two": service(host="b", monitor={"every": "10s", "failures": 2, "successes": 4}),
            "off": service(monitor={"enabled": False}),
        },
    }


def configured() -> Configuration:
    read = raw()
    for section in read["services"].values():
        for key in ("host", "unit"):
            if section[key] is None:
                del section[key]
    return parse_configuration(read, source="test")


@pytest.mark.parametrize(
    ("host", "service", "why"),
    [
        ("b", "one", None),
        ("b", "gone", "the configuration no longer names it"),
        ("a", "off", "its monitoring is switched off in the configuration"),
        ("a", "one", "by the configuration it runs on b now"),
        ("b", None, None),
        ("a", None, "no service there is watched any more"),
        ("c", None, "the configuration no longer names this host"),
    ],
)
def test_why_something_is_not_watched_is_said(host: str, service: str | None, why: str | None) -> None:
    named = ServiceName(service) if service is not None else None
    assert why_unwatched(configured(), HostName(host), named) == why


async def test_a_service_belongs_to_the_host_of_its_first_member() -> None:
    configuration = configured()
    assert watched_services(configuration) == {HostName("b"): [ONE, TWO]}
    stage = Backstage(configuration)
    plan = make_host_plan(stage.ground, HostName("b"), [ONE, TWO])
    assert (plan.every, plan.failures, plan.successes) == (timedelta(seconds=10), 2, 4)
    assert plan.services == (ONE, TWO)
    assert plan.direct == {ONE: timedelta(seconds=30)}
    assert make_host_plan(stage.ground, HostName("a"), [OFF]).others == (ONE,)
    assert (plan.escalate_after, plan.group) == (timedelta(minutes=20), "S0ONCALL")
