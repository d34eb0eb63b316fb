"""The models of the operator's TOML."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from config.services import Configuration, MemberSection, ServiceSection

SERVICE: dict[str, Any] = {"host": "h", "unit": "u.service", "url": "http://127.0.0.1:1", "model": "m"}
HOST = {"address": "a", "user": "u", "identity_file": "/k", "known_hosts": "/kh"}


def configuration(**changes: Any) -> Configuration:
    raw: dict[str, Any] = {"slack": {"channel": "C01"}, "hosts": {"h": HOST}, "services": {"s": SERVICE}}
    return Configuration.model_validate(raw | changes)


def test_what_is_left_out_has_its_default() -> None:
    service = configuration().services["s"]
    assert service.stable_for == timedelta(seconds=30)
    assert service.give_up_after == timedelta(hours=2)
    assert (service.monitor.every, service.monitor.failures) == (timedelta(seconds=15), 3)
    assert service.engine == "auto"


def test_health_is_told_on_this_machine_alone_unless_it_is_said_otherwise() -> None:
    assert configuration().health.listen == "127.0.0.1:8970"
    assert configuration().health.ping_url is None
    told = configuration(health={"listen": "", "ping_url": "https://ping.example/hush", "ping_every": "5m"})
    assert (told.health.listen, told.health.ping_every) == ("", timedelta(minutes=5))
    assert "hush" not in repr(told)


def test_a_service_of_one_unit_is_a_set_of_one() -> None:
    assert configuration().services["s"].units == (MemberSection(host="h", unit="u.service"),)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"host": None}, "names no unit"),
        ({"members": [{"host": "h", "unit": "v.service"}]}, "both `members` and"),
        ({"give_up_after": "30s"}, "not longer than stable_for"),
        ({"log_file": "kimi.log"}, "a path from the root"),
        ({"patience": {"loading": "3m"}}, "weights"),
        ({"ranks": 0}, "greater than or equal to 1"),
        ({"ranks": "8"}, "valid integer"),
        ({"url": "http://127.0.0.1:30000\n"}, "an address such as"),
        ({"monitor": {"escalate_after": "15m"}}, "escalate_after without escalate_to"),
        ({"monitor": {"escalate_to": "S0123456789"}}, "escalate_to without escalate_after"),
        ({"reach": "telnet"}, "'ssh' or 'direct'"),
        ({"markers": [{"name": "a", "pattern": "b"}] * 2}, "each name once"),
        ({"markers": [{"name": "a", "pattern": "(b+)*"}]}, "repeats a repetition"),
    ],
)
def test_a_service_that_makes_no_sense_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        ServiceSection.model_validate(SERVICE | changes)


def test_a_service_may_be_told_in_its_own_channel() -> None:
    told = configuration(services={"s": SERVICE, "t": SERVICE | {"channel": "C02"}})
    assert (told.channel_of("s"), told.channel_of("t")) == ("C01", "C02")
