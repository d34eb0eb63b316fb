"""What a host says of its units comes at once, to whom it concerns; what it cannot search it tells whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bot.clients.ssh import Host
from bot.core.events import InvocationId, LogLine, Member, Origin, ServiceName, UnitName
from bot.core.redact import Redactor
from bot.errors import HostUnreachable
from bot.tasks import Tasks
from bot.watch_lines import HostLines
from tests.support.ssh import Said, connect, serve
from tests.support.waiting import until
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from bot.core.monitor_events import UnitLine

OTHER = ServiceName("other")


async def test_lines_come_to_whom_they_concern(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        heard: list[tuple[ServiceName, Member, str]] = []

        async def hear(service: ServiceName, event: UnitLine) -> None:
            heard.append((service, event.member, event.line.reading))

        def whose(invocation: InvocationId) -> list[tuple[ServiceName, Member]]:
            return [(SERVICE, room.member)] if invocation == room.run else []

        host = room.ground.hosts[HOST]
        lines = HostLines(host, "system", hear, whose, Redactor)
        lines.units = {
            room.unit: [(SERVICE, room.member)],
            UnitName("other.service"): [(OTHER, Member("llm-two/other.service"))],
        }
        room.ground.tasks.spawn("lines", lines.follow())
        await until(lambda: any("--grep" in word for command in room.far.commands for word in command))
        room.far.unit.say(None, f"{room.unit}: State 'stop-sigterm' timed out. Killing.")
        process = room.far.unit.process
        assert process is not None
        process.write(b"[2026] INFO nothing that matters\n", pid=process.pid, comm="python")
        process.write(b"[2026] Scheduler hit an exception: Traceback\n", pid=process.pid, comm="python")
        process.kernel("NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus")
        await until(lambda: len(heard) == 4)
        assert [service for service, _, _ in heard] == [SERVICE, SERVICE, SERVICE, OTHER]
        assert "timed out" in heard[0][2]
        assert "hit an exception" in heard[1][2]
        assert "Xid" in heard[2][2]


async def test_a_fault_of_a_gpu_concerns_the_unit_whose_process_the_kernel_names(tmp_path: Path) -> None:
    def xid(rest: str) -> str:
        said = f"NVRM: Xid (PCI:0000:4f:00): 31, {rest}MMU Fault"
        return json.dumps({"__CURSOR": "s=1", "_TRANSPORT": "kernel", "MESSAGE": said}) + "\n"

    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["journalctl --no-pager -n 0"] = Said("-- cursor: s=1\n")
        mine, unknown = xid("pid=4711, name=python3, "), xid("pid=4712, name=python3, ")
        server.answers["journalctl"] = Said(mine + mine + unknown + xid(""))
        server.answers["cat /proc/4711/cgroup"] = Said("0::/system.slice/b.service\n")
        server.answers["cat"] = Said(err="cat: /proc/4712/cgroup: No such file or directory\n", status=1)
        heard: list[ServiceName] = []

        async def hear(service: ServiceName, _: UnitLine) -> None:
            heard.append(service)

        lines = HostLines(host, "system", hear, lambda _: [], Redactor)
        for name, service in (("a.service", SERVICE), ("b.service", OTHER)):
            lines.units[UnitName(name)] = [(service, Member(f"far/{name}"))]
        tasks = Tasks()
        tasks.spawn("lines", lines.follow())
        try:
            await until(lambda: len(heard) >= 6)
        finally:
            await tasks.close(grace=2)
        assert heard[:6] == [OTHER, OTHER, SERVICE, OTHER, SERVICE, OTHER]
        assert sum(words[0] == "cat" for words in server.commands) == 2


async def test_a_process_is_asked_for_again_where_the_host_did_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["cat"] = Said("0::/system.slice/b.service\n")
        lines = HostLines(host, "system", _nobody, lambda _: [], Redactor)
        lines.units = {UnitName(f"{name}.service"): [(SERVICE, Member(f"far/{name}"))] for name in "ab"}
        said = "NVRM: Xid (PCI:0000:4f:00): 31, pid=4711, name=python3, MMU Fault"
        line = LogLine(said, said, origin=Origin.KERNEL)
        with monkeypatch.context() as away:
            away.setattr(Host, "run", refuse)
            assert len(await lines._ask_whose(line)) == 2
        assert [member for _, member in await lines._ask_whose(line)] == ["far/b"]


async def refuse(*_: object) -> None:
    raise HostUnreachable("far", "gone for a moment")


async def test_a_journalctl_without_search_tells_what_systemd_says(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["journalctl --no-pager -n 0"] = Said("-- cursor: s=1\n")
        server.answers["journalctl"] = Said(err="Compiled without pattern matching support\n", status=1)
        lines = HostLines(host, "system", _nobody, lambda _: [], Redactor)
        lines.units = {UnitName("a.service"): [(SERVICE, Member("far/a.service"))]}
        tasks = Tasks()
        tasks.spawn("lines", lines.follow())
        try:
            await until(lambda: any(_is_plain(line) for line in server.lines))
        finally:
            await tasks.close(grace=2)


def _is_plain(line: str) -> bool:
    return "UNIT=a.service" in line and "--grep" not in line


async def _nobody(service: ServiceName, event: UnitLine) -> None:
    raise AssertionError(f"nothing was said of {service}: {event}")
