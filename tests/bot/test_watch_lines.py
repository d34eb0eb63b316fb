"""What a host says of its units comes at once, to whom it concerns; what it cannot search it tells whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.core.events import InvocationId, Member, ServiceName, UnitName
from bot.core.redact import Redactor
from bot.tasks import Tasks
from bot.watch_lines import HostLines
from tests.support.ssh import Said, connect, serve
from tests.support.waiting import until
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from pathlib import Path

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
