"""What `systemctl show` says, and what it says where a host has no accounting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.events import InvocationId, UnitState
from bot.core.unit import SHOW_PROPERTIES, is_unit_name, parse_show, parse_timestamp

RUNNING = """\
LoadState=loaded
ActiveState=active
SubState=running
Result=success
InvocationID=0f3c1d2e4b5a69788796a5b4c3d2e1f0
Job=
NRestarts=2
MainPID=4242
ExecMainCode=0
ExecMainStatus=0
NeedDaemonReload=yes
Restart=on-failure
CPUUsageNSec=61000000500
MemoryCurrent=1073741824
TasksCurrent=812
IOReadBytes=4096
ActiveEnterTimestamp=Fri 2026-05-29 23:49:47 UTC
"""


def test_a_running_unit() -> None:
    assert parse_show(RUNNING) == UnitState(
        load="loaded",
        active="active",
        sub="running",
        result="success",
        invocation=InvocationId("0f3c1d2e4b5a69788796a5b4c3d2e1f0"),
        job=None,
        restarts=2,
        main_pid=4242,
        need_daemon_reload=True,
        restart_policy="on-failure",
        cpu=timedelta(seconds=61),
        memory=1073741824,
        tasks=812,
        read=4096,
        active_since=datetime(2026, 5, 29, 23, 49, 47, tzinfo=UTC),
    )


def test_every_property_is_asked_for_once() -> None:
    assert len(set(SHOW_PROPERTIES)) == len(SHOW_PROPERTIES)
    assert {line.partition("=")[0] for line in RUNNING.splitlines()} == set(SHOW_PROPERTIES)


@pytest.mark.parametrize(
    "absent", ["[not set]", "18446744073709551615", "[no data]", "", "infinity", "-1", "1e3", "٣"]
)
def test_a_counter_the_host_does_not_have(absent: str) -> None:
    text = "".join(
        f"{key}={absent}\n" for key in ("CPUUsageNSec", "MemoryCurrent", "TasksCurrent", "IOReadBytes")
    )
    state = parse_show("LoadState=loaded\n" + text)
    assert (state.cpu, state.memory, state.tasks, state.read) == (None, None, None, None)


def test_no_counter_lines_at_all() -> None:
    state = parse_show("LoadState=loaded\nActiveState=active\nSubState=running\n")
    assert (state.cpu, state.memory, state.tasks, state.read) == (None, None, None, None)
    assert not state.need_daemon_reload
    assert state.restart_policy == "no"


def test_an_unknown_unit() -> None:
    state = parse_show("LoadState=not-found\nActiveState=inactive\nSubState=dead\nInvocationID=\n")
    assert state.load == "not-found"
    assert state.invocation is None
    assert state.down


def test_killed_by_signal() -> None:
    state = parse_show(
        "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=signal\nExecMainCode=2\nExecMainStatus=9\n"
    )
    assert (state.result, state.exec_code, state.exec_status, state.down) == ("signal", 2, 9, True)


def test_a_crash_loop_never_shows_as_failed() -> None:
    state = parse_show("LoadState=loaded\nActiveState=activating\nSubState=auto-restart\nNRestarts=7\n")
    assert state.looping
    assert not state.down
    assert state.restarts == 7


@pytest.mark.parametrize(("text", "job"), [("Job=", None), ("Job=0", None), ("Job=1187", 1187)])
def test_a_pending_job(text: str, job: int | None) -> None:
    assert parse_show(text).job == job


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("Fri 2026-05-29 23:49:47 UTC", datetime(2026, 5, 29, 23, 49, 47, tzinfo=UTC)),
        ("Fri 2026-05-29 23:49:47.123456 UTC", datetime(2026, 5, 29, 23, 49, 47, 123456, tzinfo=UTC)),
        ("Fri 2026-05-29 23:49:47 CEST", None),
        ("n/a", None),
        ("", None),
        ("0", None),
    ],
)
def test_timestamps(text: str, at: datetime | None) -> None:
    assert parse_timestamp(text) == at


@pytest.mark.parametrize("zeros", ["", "0" * 32, "not-hex", "0f3c"])
def test_no_invocation(zeros: str) -> None:
    assert parse_show(f"InvocationID={zeros}").invocation is None


@pytest.mark.parametrize(
    "name", ["sglang-kimi.service", "vllm@kimi-k2.5.service", r"dev-disk\x2dby.mount", "a:b_c.scope"]
)
def test_names_systemd_takes(name: str) -> None:
    assert is_unit_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "sglang-kimi",
        ".service",
        "-H.service",
        "--host=evil.service",
        "a b.service",
        "a;reboot.service",
        "$(reboot).service",
        "a/../b.service",
        "sglang-*.service",
        "sglang-kimi.service\n",
        "kimi\u00e9.service",
        "x" * 260 + ".service",
    ],
)
def test_names_that_are_none(name: str) -> None:
    assert not is_unit_name(name)


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert isinstance(parse_show(text), UnitState)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SHOW_PROPERTIES), st.text(max_size=40))
def test_any_value_is_read(key: str, value: str) -> None:
    assert isinstance(parse_show(f"{key}={value}\n"), UnitState)
