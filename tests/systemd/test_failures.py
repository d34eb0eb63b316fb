"""The bot against a real systemd where starts go wrong: loops, limits, time-outs, users' units, log files."""

from __future__ import annotations

import json
import shlex
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.support.practice import practise
from tests.support.real_workspace import WITHIN, RealWorkspace, real_workspace
from tests.systemd.following import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.systemd.real_host import RealHost

SWIFT = {"distributed": 0.1, "weights": 0.5, "memory": 0.1, "graphs": 0.2, "warmup": 0.2}
PLAIN = {
    "stable_for": "2s",
    "api_key_env": "ENGINE_KEY",
    "smoke": {"prompt": "Say hello.", "max_tokens": 16},
}
AS_USER = "runuser -u kimi -- env XDG_RUNTIME_DIR=/run/user/1000 systemctl --user"
USER_FOLDER = "/home/kimi/.config/systemd/user"
LOG_FILE = "/var/log/kimi/engine.log"


@asynccontextmanager
async def workspace(folder: Path, real: RealHost, **changes: Any) -> AsyncIterator[RealWorkspace]:
    service = real.service_section(**(PLAIN | changes))
    async with real_workspace(folder, host=real.section, service=service) as room:
        yield room


@asynccontextmanager
async def dropped_in(real: RealHost, *settings: str, unit: str = "") -> AsyncIterator[None]:
    """Settings of the unit file that this test alone needs; `unit`: those of its [Unit] section."""
    folder = f"/etc/systemd/system/{real.unit}.d"
    content = shlex.quote(f"[Unit]\n{unit}\n[Service]\n" + "\n".join(settings) + "\n")
    await real.run(f"mkdir -p {folder}; printf %s {content} > {folder}/test.conf; systemctl daemon-reload")
    try:
        yield
    finally:
        await real.attempt(f"systemctl kill -s KILL {real.unit}; systemctl stop {real.unit}")
        await real.run(f"rm -r {folder}; systemctl daemon-reload; systemctl reset-failed || true")


async def told(room: RealWorkspace) -> str:
    assert (await room.verdict()).verdict == "failed"
    return (await room.reply("failed")).plain


async def test_a_unit_that_the_kernels_memory_limit_killed() -> None:
    """Written in the formats of a real host, and read from the practice host.

    The container the real host runs in has no memory controller, so that no limit is enforced there; the
    kernel's lines, systemd's and `systemctl show` of such a kill are played as a host with one has them.
    """
    async with practise("kernel-oom", speed=60) as practice:
        root = await practice.begin()
        assert (await practice.verdict()).verdict == "failed"
        unit = practice.workspace.host.unit
        assert (unit.active, unit.result) == ("failed", "oom-kill")
        verdict = await practice.reply(root, "failed")
        assert "Out of memory: Killed process" in verdict.plain
        assert "RAM" in verdict.plain


async def test_a_crash_loop_is_told_with_its_counter(tmp_path: Path, real_host: RealHost) -> None:
    await real_host.set_scenario(seconds=SWIFT, crash="weights")
    async with (
        dropped_in(real_host, "Restart=always", "RestartSec=200ms"),
        workspace(tmp_path, real_host) as room,
    ):
        await room.begin("restart kimi-k2.5")
        verdict = await told(room)
        assert "starts it again by itself" in verdict
        assert "restart counter" in verdict
        assert "weights" in verdict
        assert "torch.OutOfMemoryError" in verdict


async def test_a_unit_at_its_start_limit_is_told_with_the_way_out(
    tmp_path: Path, real_host: RealHost
) -> None:
    """Systemd keeps the result of the crash before: that the limit was hit stands in its log line alone."""
    await real_host.set_scenario(seconds=SWIFT, crash="distributed")
    limit = "StartLimitIntervalSec=60\nStartLimitBurst=2"
    async with (
        dropped_in(real_host, "Restart=always", "RestartSec=100ms", unit=limit),
        workspace(tmp_path, real_host) as room,
    ):
        await real_host.run(f"systemctl start {real_host.unit}")
        await eventually(lambda: has_failed(real_host))
        await room.begin("start kimi-k2.5")
        verdict = await told(room)
        assert "start-limit-hit" in verdict
        assert f"systemctl reset-failed {real_host.unit}" in verdict


async def has_failed(real_host: RealHost) -> bool:
    return (await real_host.attempt(f"systemctl is-failed {real_host.unit}")).status == 0


async def test_a_stop_that_times_out_is_not_the_new_starts_failure(
    tmp_path: Path, real_host: RealHost
) -> None:
    await real_host.set_scenario(seconds={**SWIFT, "stop": 60})
    async with dropped_in(real_host, "TimeoutStopSec=2s"):
        await real_host.run(f"systemctl start {real_host.unit}; sleep 2")
        async with workspace(tmp_path, real_host) as room:
            await real_host.set_scenario(seconds=SWIFT)
            await room.slack.slash("U0ALICE", "C0LLMOPS", "restart kimi-k2.5")
            [question] = await room.slack.wait_for(lambda slack: slack.ephemerals("U0ALICE"), WITHIN)
            await room.slack.press("U0ALICE", "C0LLMOPS", question.ts, "kimi:confirm")
            await room.slack.wait_for(lambda _: room.roots() or None, WITHIN)
            assert (await room.verdict()).verdict == "healthy"
            journal = await real_host.run(f"journalctl -u {real_host.unit} -o cat --no-pager -n 200")
            assert "State 'stop-sigterm' timed out. Killing." in journal
            assert "Failed with result 'timeout'" in journal
            replies = "\n".join(message.plain for message in room.replies())
            assert "systemd killed it" in replies
            assert "failed" not in replies


async def test_a_users_own_unit_is_restarted_and_proven(tmp_path: Path, real_host: RealHost) -> None:
    scenario = json.dumps({"port": real_host.engine_port, "seconds": {**SWIFT, "stop": 0}})
    unit = f"[Service]\nExecStart=/usr/bin/python3 /opt/fake_engine.py {USER_FOLDER}/engine.json\n"
    await real_host.run(
        f"mkdir -p {USER_FOLDER}; printf %s {shlex.quote(scenario)} > {USER_FOLDER}/engine.json; "
        f"printf %s {shlex.quote(unit)} > {USER_FOLDER}/engine.service; chown -R kimi: /home/kimi/.config; "
        f"{AS_USER} daemon-reload"
    )
    try:
        async with workspace(tmp_path, real_host, unit="engine.service", scope="user") as room:
            await room.begin("restart kimi-k2.5")
            assert (await room.verdict()).verdict == "healthy"
            replies = "\n".join(message.plain for message in room.replies())
            assert "Weights loaded" in replies
            pid = (await real_host.run(f"{AS_USER} show engine.service -p MainPID --value")).strip()
            assert int(pid) > 0
    finally:
        await real_host.run(f"{AS_USER} stop engine.service; rm -r {USER_FOLDER}; {AS_USER} daemon-reload")


async def test_a_log_file_is_followed_through_a_rotation_midway(tmp_path: Path, real_host: RealHost) -> None:
    """The engine has the old file open until it ends, as with every unit that appends to a file."""
    await real_host.set_scenario(seconds={**SWIFT, "distributed": 3.0, "weights": 5.0})
    await real_host.run("mkdir -p /var/log/kimi; rm -f /var/log/kimi/*")
    output = (f"StandardOutput=append:{LOG_FILE}", "StandardError=inherit")
    async with dropped_in(real_host, *output), workspace(tmp_path, real_host, log_file=LOG_FILE) as room:
        root = await room.begin("restart kimi-k2.5")
        await room.reply("Ranks connected")
        await real_host.run(f"mv {LOG_FILE} {LOG_FILE}.1; touch {LOG_FILE}")
        assert (await room.verdict()).verdict == "healthy"
        replies = [message.plain for message in room.replies()]
        assert sum(line.startswith("Weights loaded") for line in replies) == 1
        assert "CUDA graphs captured" in "\n".join(replies)
        run = f"$(systemctl show -p InvocationID --value {real_host.unit})"
        journal = await real_host.run(f"journalctl -o cat --no-pager _SYSTEMD_INVOCATION_ID={run}")
        assert "Load weight end" not in journal
        await room.slack.mention("U0ALICE", "C0LLMOPS", "logs 50", root.ts)
        await room.slack.wait_for(lambda slack: _logs(slack) or None, WITHIN)
        await eventually(lambda: reads_nothing(real_host))


async def reads_nothing(real_host: RealHost) -> bool:
    """Nothing of ours is left on the host once nobody follows any more."""
    return "kimi-log" not in await real_host.run("ps -eo args")


def _logs(slack: Any) -> list[Any]:
    return [file for file in slack.files.values() if b"Started" in file.content]
