"""A real host rebooted, its sshd gone, its journal vacuumed: each ends with the right thread."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bot.clients.ssh import Host
from bot.core.events import LineRead, Member, PhaseId
from bot.core.redact import Redactor
from bot.sources import Inbox, Link, follow_journal
from tests.support.real_workspace import RealWorkspace, real_workspace
from tests.systemd.following import eventually, here, read_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.core.events import Cursor
    from tests.systemd.real_host import RealHost

SWIFT = {"distributed": 0.2, "weights": 2.0, "memory": 0.1, "graphs": 0.4, "warmup": 0.3}
VACUUM = "journalctl --rotate; sleep 1.2; journalctl --vacuum-time=1s"
NO_SESSIONS = "pkill -KILL -u kimi -x sshd"


@asynccontextmanager
async def workspace(folder: Path, real: RealHost) -> AsyncIterator[RealWorkspace]:
    plain = {"stable_for": "1s", "api_key_env": "ENGINE_KEY", "smoke": {"prompt": "Hi.", "max_tokens": 4}}
    service = real.service_section(**plain)
    async with real_workspace(folder, host=real.section, service=service) as room:
        yield room


@asynccontextmanager
async def enabled(real: RealHost) -> AsyncIterator[None]:
    """The unit comes up with its host."""
    await real.run(f"systemctl enable {real.unit}")
    try:
        yield
    finally:
        await real.attempt(f"systemctl disable {real.unit}")


class Ear:
    """A follower of its own, to hold every line against what the host's journal has in the end."""

    def __init__(self, real: RealHost) -> None:
        self.host = Host(real.name, real.section)
        self.link = Link(Member(f"{real.name}/{real.unit}"), real.unit, "system", self.host)
        self.heard: list[Cursor | None] = []

    async def listen(self) -> None:
        inbox: Inbox = asyncio.Queue()
        following = asyncio.create_task(follow_journal(self.link, inbox, redactor=Redactor()))
        try:
            while True:
                lines = [event.line for event in (await inbox.get()).events if isinstance(event, LineRead)]
                self.heard += [line.cursor for line in lines if not line.partial]
        finally:
            following.cancel()

    async def has_heard_all(self, since: Cursor) -> bool:
        rest = self.host.read_rest(self.link.unit, scope="system", cursor=since)
        return self.heard == [line.cursor for line in await read_all(rest)]


@asynccontextmanager
async def every_line_once(real: RealHost) -> AsyncIterator[None]:
    """What is written meanwhile reaches a follower in order, once, and all of it."""
    ear = Ear(real)
    since = (await here(ear.host)).cursor
    assert since is not None
    ear.link.position = await here(ear.host)
    task = asyncio.create_task(ear.listen())
    try:
        yield
        await eventually(lambda: ear.has_heard_all(since))
    finally:
        task.cancel()
        await asyncio.wait({task})
        await ear.host.close()


def read_thread(room: RealWorkspace) -> list[str]:
    """As it is read, the root's last state first; a failing test shows it."""
    thread = [room.root().plain, *(message.plain for message in room.replies())]
    print("\n".join(thread))  # noqa: T201 - pytest keeps it for whoever must look
    return thread


async def restarts(real: RealHost) -> int:
    """How often somebody told systemd to restart the unit, in all boots."""
    asked = await real.run(
        "journalctl -o cat --no-pager | grep -c 'COMMAND=/usr/bin/systemctl restart' || true"
    )
    return int(asked.strip())


async def loading(room: RealWorkspace) -> bool:
    """It loads weights now: the root is edited too seldom to be asked."""
    startups = room.app.startups
    views = (each.startup.view(startups.ground.clock.now()) for each in startups.running.values())
    return any(view.phase is PhaseId.WEIGHTS for view in views)


async def test_a_host_that_reboots_is_followed_into_the_start_after_its_boot(
    tmp_path: Path, real_host: RealHost
) -> None:
    await real_host.set_scenario(seconds=SWIFT)
    asked = await restarts(real_host)
    async with enabled(real_host), every_line_once(real_host), workspace(tmp_path, real_host) as room:
        await room.begin("restart kimi-k2.5")
        await room.reply("Weights loaded")
        await real_host.reboot()
        assert (await room.verdict()).verdict == "healthy"
        thread = read_thread(room)
        [boot] = [at for at, reply in enumerate(thread) if "was rebooted" in reply]
        assert thread[boot].startswith("real was rebooted in the midst of this start")
        weights = [at for at, reply in enumerate(thread) if reply.startswith("Weights loaded")]
        assert len(weights) == 2  # of the start before it, and of the one after
        assert weights[0] < boot < weights[1]
        assert not any("failed" in reply or "stopped outside chat" in reply for reply in thread)
        assert await restarts(real_host) == asked + 1


async def test_sessions_that_die_and_an_sshd_that_restarts_cost_no_line(
    tmp_path: Path, real_host: RealHost
) -> None:
    await real_host.set_scenario(seconds=SWIFT)
    asked = await restarts(real_host)
    async with every_line_once(real_host), workspace(tmp_path, real_host) as room:
        await room.begin("restart kimi-k2.5")
        await eventually(lambda: loading(room))
        await real_host.run(f"systemctl restart ssh; {NO_SESSIONS}")
        await asyncio.sleep(0.5)
        await real_host.run(f"systemctl stop ssh; {NO_SESSIONS}; sleep 1; systemctl start ssh")
        assert (await room.verdict()).verdict == "healthy"
        thread = read_thread(room)
        for phase in ("Weights loaded", "CUDA graphs captured"):
            assert sum(reply.startswith(phase) for reply in thread) == 1
        assert not any("no longer holds" in reply or "out of sight" in reply for reply in thread)
        assert await restarts(real_host) == asked + 1


async def test_a_journal_that_was_vacuumed_while_nobody_read_it_is_told_once(
    tmp_path: Path, real_host: RealHost
) -> None:
    await real_host.set_scenario(seconds={**SWIFT, "weights": 5.0})
    async with workspace(tmp_path, real_host) as room:
        await room.begin("restart kimi-k2.5")
        await eventually(lambda: loading(room))
        await room.stop()
        await real_host.run(f"sleep 1; {VACUUM}")
        for _ in range(2):
            await room.start_anew()
            await room.reply("no longer holds")
            await room.stop()
        await room.start_anew()
        assert (await room.verdict()).verdict == "healthy"
        thread = read_thread(room)
        [gap] = [reply for reply in thread if "no longer holds" in reply]
        assert "what was written then is not known. The watch goes on." in gap
        assert sum(reply.startswith("Weights loaded") for reply in thread) == 1


async def test_a_journal_that_is_vacuumed_while_it_is_followed_has_lost_nothing(
    tmp_path: Path, real_host: RealHost
) -> None:
    await real_host.set_scenario(seconds=SWIFT)
    async with workspace(tmp_path, real_host) as room:
        await room.begin("restart kimi-k2.5")
        await eventually(lambda: loading(room))
        await real_host.run(f"sleep 1; {VACUUM}; {NO_SESSIONS}")
        assert (await room.verdict()).verdict == "healthy"
        thread = read_thread(room)
        assert sum(reply.startswith("Weights loaded") for reply in thread) == 1
