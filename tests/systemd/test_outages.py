"""What happens to a service on a real host between startups: killed, stopped, restarted, powered off."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from bot.clients.store_incidents import IncidentRecord, IncidentStore
from bot.clients.store_watches import Watches
from bot.clock import Clock
from bot.core.events import ServiceName
from bot.incident_ledger import PLAN, STATE
from bot.watch_plans import WATCH_STATE
from tests.support.real_workspace import CHANNEL, SERVICE, WITHIN, RealWorkspace, real_workspace
from tests.systemd.following import eventually
from tests.systemd.test_failures import dropped_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.practice.slack_state import Change, PostedMessage
    from tests.systemd.real_host import RealHost

SWIFT = {"distributed": 0.2, "weights": 0.8, "memory": 0.1, "graphs": 0.2, "warmup": 0.2}
EVERY, FAILURES = timedelta(seconds=1), 3
SELDOM = timedelta(seconds=10)  # so that a busy machine's seconds weigh little against a round
BUSY = timedelta(seconds=15)  # the machine's, beside what is promised


class Outage:
    """The bot beside a service that serves, and what the channel shows of what becomes of it."""

    def __init__(self, room: RealWorkspace) -> None:
        self.room = room
        self.states: dict[str, list[str]] = {}  # of each root, all that it ever was
        room.slack.on_change(self._note)

    def _note(self, change: Change) -> None:
        message = change.message
        if message is not None and message.bot and message.thread_ts is None:
            self.states.setdefault(message.ts, []).append(message.plain)

    @property
    def incidents(self) -> IncidentStore:
        return IncidentStore(self.room.app.startups.ground.store.link)

    def thread(self, root: PostedMessage) -> list[PostedMessage]:
        return self.room.slack.thread(CHANNEL, root.ts)

    def replies(self, root: PostedMessage) -> list[str]:
        return [message.plain for message in self.thread(root)[1:]]

    def count(self, root: PostedMessage) -> int:
        """Its messages in the channel itself."""
        return 1 + sum(message.broadcast for message in self.thread(root)[1:])

    async def now(self, real: RealHost) -> datetime:
        """By the host's clock, which is this machine's."""
        return datetime.fromtimestamp(float(await real.run("date +%s.%N")), tz=UTC)

    @staticmethod
    def posted(message: PostedMessage) -> datetime:
        return datetime.fromtimestamp(float(message.ts), tz=UTC)

    async def root(self, *words: str) -> PostedMessage:
        """The first message into the channel with all these words."""

        def find(_: Any) -> PostedMessage | None:
            return next((m for m in self.room.roots() if all(word in m.plain for word in words)), None)

        return await self.room.slack.wait_for(find, WITHIN)

    async def reply(self, root: PostedMessage, word: str) -> str:
        def find(_: Any) -> str | None:
            return next((text for text in self.replies(root) if word in text), None)

        return await self.room.slack.wait_for(find, WITHIN)

    async def record(self) -> IncidentRecord:
        """The only incident there is."""
        [record] = await self.incidents.opened()
        return record

    async def settled(self) -> None:
        await self.room.slack.wait_for(lambda _: not self.room.app.startups.running or None, WITHIN)
        assert await self.room.app.startups.ground.outbox.drain(WITHIN)

    def show(self) -> None:
        """As it is read; a failing test shows it."""
        for root in self.room.roots():
            shown = [f"> {message.plain}" for message in self.thread(root)[1:]]
            print("", *self.states.get(root.ts, ()), *shown, sep="\n")  # noqa: T201


@pytest.fixture
async def enabled(real_host: RealHost) -> AsyncIterator[None]:
    """The unit comes up with its host."""
    await real_host.run(f"systemctl enable {real_host.unit}")
    yield
    await real_host.attempt(f"systemctl disable {real_host.unit}")


@pytest.fixture
async def failing_next(real_host: RealHost) -> AsyncIterator[str]:
    """What makes the unit fail whenever it is started from then on."""
    folder = f"/etc/systemd/system/{real_host.unit}.d"
    drop_in = "[Service]\\nExecStartPre=/bin/false\\n"
    yield f"mkdir -p {folder}; printf '{drop_in}' > {folder}/fails.conf"
    await real_host.run(f"rm -rf {folder}; systemctl daemon-reload")


@asynccontextmanager
async def watched(
    folder: Path, real: RealHost, *, speed: float = 1.0, reach: str = "ssh", every: timedelta = EVERY
) -> AsyncIterator[Outage]:
    """It serves, and the bot has seen that; of the startups before, nothing is told."""
    await real.set_scenario(seconds=SWIFT)
    await real.run(f"systemctl start {real.unit}")
    service = real.service_section(
        reach=reach,
        stable_for="1s",
        api_key_env="ENGINE_KEY",
        smoke={"prompt": "Hi.", "max_tokens": 4},
        monitor={"every": every * speed, "failures": FAILURES},
    )
    async with real_workspace(folder, host=real.section, service=service, clock=Clock(speed)) as room:
        outage = Outage(room)

        watches = Watches(room.app.startups.ground.store.link)

        async def serves() -> bool:
            found = await watches.read(real.name, ServiceName(SERVICE))
            return found is not None and WATCH_STATE.validate_json(found.state).served

        await eventually(serves)
        try:
            yield outage
        finally:
            outage.show()


async def test_a_main_process_that_is_killed_is_told_at_once(tmp_path: Path, real_host: RealHost) -> None:
    async with watched(tmp_path, real_host, every=4 * SELDOM) as outage:
        killed = await outage.now(real_host)
        await real_host.run(f"kill -9 {await real_host.main_pid()}")
        root = await outage.root("is *down*")
        plan = PLAN.validate_json((await outage.record()).plan)
        # The next round comes half of `every` after the first at the soonest: nothing has waited for it.
        assert killed < plan.opened <= outage.posted(root) < killed + BUSY


async def test_a_main_process_that_is_killed_is_one_incident(tmp_path: Path, real_host: RealHost) -> None:
    async with watched(tmp_path, real_host) as outage:
        await real_host.run(f"kill -9 {await real_host.main_pid()}")
        root = await outage.root("is *down*")
        assert "process died by SIGKILL" in root.plain
        assert "systemd will not start it again (Restart=no)" in root.plain
        plan = PLAN.validate_json((await outage.record()).plan)
        assert plan.last_healthy is not None
        assert plan.last_healthy < plan.began
        log = await outage.reply(root, "The last ")
        assert "Main process exited, code=killed, status=9/KILL" in log
        await outage.room.begin(f"restart {SERVICE}")
        await outage.reply(root, "came through")
        assert "; down " in await outage.reply(root, "resolved")
        await outage.settled()
        assert outage.count(root) == 2
        assert len(outage.room.roots()) == 2  # and the thread of the restart
        shown = outage.states[root.ts][-1]
        assert "was down" in shown
        assert "First sign: process died by SIGKILL" in shown
        state = STATE.validate_json((await outage.record()).state)
        assert state.over is not None
        assert state.downtime == state.over - plan.began


async def test_what_systemd_starts_again_at_once_is_told_first_as_an_outage_and_then_as_a_start(
    tmp_path: Path, real_host: RealHost
) -> None:
    async with (
        dropped_in(real_host, "Restart=on-failure", "RestartSec=100ms"),
        watched(tmp_path, real_host) as outage,
    ):
        await real_host.run(f"kill -SEGV {await real_host.main_pid()}")
        root = await outage.root("is *down*")
        assert "process died by SIGSEGV" in root.plain
        await outage.reply(root, "started again by systemd itself")
        assert "; down " in await outage.reply(root, "resolved")
        await outage.settled()
        [told, start] = outage.room.roots()
        assert told == root
        assert "by systemd, after a crash (restart counter 1)" in outage.states[start.ts][-1]
        assert (await outage.room.verdict()).verdict == "healthy"
        assert outage.count(root) == 2


async def test_a_crash_loop_is_one_incident_that_counts_until_a_start_comes_through(
    tmp_path: Path, real_host: RealHost
) -> None:
    async with (
        dropped_in(real_host, "Restart=always", "RestartSec=1s"),
        watched(tmp_path, real_host) as outage,
    ):
        await real_host.set_scenario(seconds=SWIFT, crash="weights")
        await real_host.run(f"kill -9 {await real_host.main_pid()}")
        root = await outage.root("is *down*")
        attempt = await outage.reply(root, "Attempt ")
        assert "in weights" in attempt
        assert "Out of GPU memory" in attempt
        assert "ut of GPU memory" in await outage.reply(
            root, "came to nothing"
        )  # faster than it is looked at
        await real_host.set_scenario(seconds=SWIFT)
        end = await outage.reply(root, "resolved")
        assert "Out of GPU memory" in end
        await outage.settled()
        shown = outage.states[root.ts][-1]
        assert "was down for" in shown
        assert "by systemd" in shown  # so many attempts
        assert outage.room.roots()[0] == root
        assert outage.count(root) == 2
        assert len(await outage.incidents.opened()) == 1


async def test_a_process_that_hangs_is_down_and_serves_again_as_it_was(
    tmp_path: Path, real_host: RealHost
) -> None:
    async with watched(tmp_path, real_host) as outage:
        await real_host.run(f"systemctl kill -s STOP {real_host.unit}")
        try:
            root = await outage.root("is *down*")
            assert "/health: " in root.plain
            assert "its process lives, so systemd does nothing by itself" in root.plain
        finally:
            await real_host.run(f"systemctl kill -s CONT {real_host.unit}")
        assert "; down " in await outage.reply(root, "resolved")
        await outage.settled()
        assert outage.room.roots() == [root]
        assert outage.count(root) == 2


async def test_a_unit_stopped_in_a_terminal_is_told_once_and_no_incident(
    tmp_path: Path, real_host: RealHost
) -> None:
    async with watched(tmp_path, real_host, speed=5.0) as outage:  # half a minute may be a restart
        await real_host.run(f"systemctl stop {real_host.unit}")
        root = await outage.root("is stopped")
        assert "outside chat asked systemd to stop it" in root.plain
        await asyncio.sleep(3 * EVERY.total_seconds())  # it goes on being stopped
        await outage.settled()
        assert outage.room.roots() == [root]
        assert outage.replies(root) == []
        assert await outage.incidents.opened() == []


async def test_a_unit_restarted_in_a_terminal_is_a_startup_by_itself(
    tmp_path: Path, real_host: RealHost
) -> None:
    async with watched(tmp_path, real_host) as outage:
        await real_host.run(f"systemctl restart {real_host.unit}")
        root = await outage.root("started outside chat")
        await outage.settled()
        operation = await outage.room.verdict()
        assert (operation.verdict, operation.by) == ("healthy", None)
        shown = outage.states[root.ts][-1]
        assert "by a person, a timer or a tool" in shown
        for phase in ("distributed", "weights", "memory", "graphs"):  # from the beginning of its journal
            assert f"✓\N{NO-BREAK SPACE}{phase}" in shown or f"✓ {phase}" in shown
        weights = [text for text in outage.replies(root) if text.startswith("Weights loaded")]
        assert len(weights) == 1  # of this run, and not of the one before
        assert outage.room.roots() == [root]
        assert await outage.incidents.opened() == []


async def test_a_host_powered_off_and_on_is_one_incident(
    tmp_path: Path, real_host: RealHost, enabled: None
) -> None:
    del enabled
    async with watched(tmp_path, real_host, every=SELDOM) as outage:
        await real_host.power_off()
        fault = datetime.now(UTC)
        try:
            root = await outage.root(real_host.name, "is gone")
            soon = FAILURES * SELDOM + timedelta(seconds=2)
            assert outage.posted(root) < fault + soon + BUSY
            assert SERVICE in root.plain
            assert "the host does not answer SSH" in root.plain
        finally:
            await real_host.power_on()
        assert "; gone " in await outage.reply(root, "resolved")
        started = await outage.root("started outside chat")
        assert (await outage.room.verdict()).verdict == "healthy"
        await outage.settled()
        assert "with its host, which was booted anew" in outage.states[started.ts][-1]
        assert "was gone" in outage.states[root.ts][-1]
        assert outage.room.roots() == [root, started]
        assert outage.count(root) == 2
        assert (await outage.record()).service is None


@pytest.mark.parametrize(
    ("reach", "state", "told"),
    [
        ("ssh", "is out of sight", "so 1 service there cannot be seen"),
        ("direct", "is degraded", "though 1 service on it can be reached another way"),
    ],
)
async def test_an_sshd_that_is_gone_alone_is_no_outage_of_what_goes_on_serving(
    tmp_path: Path, real_host: RealHost, reach: str, state: str, told: str
) -> None:
    async with watched(tmp_path, real_host, reach=reach) as outage:
        await real_host.run("systemctl stop ssh; pkill -KILL -u kimi -x sshd")
        try:
            root = await outage.root(real_host.name, state)
            assert "SSH is refused (connection refused)" in root.plain
            assert told in root.plain
            await asyncio.sleep(2 * FAILURES * EVERY.total_seconds())  # it goes on being gone
        finally:
            await real_host.run("systemctl start ssh")
        await outage.reply(root, "resolved")
        await asyncio.sleep(FAILURES * EVERY.total_seconds())
        await outage.settled()
        assert outage.room.roots() == [root]
        assert (await outage.record()).service is None


@asynccontextmanager
async def powered_off(real: RealHost, outage: Outage) -> AsyncIterator[PostedMessage]:
    """Until it is known to be gone, and until it is known to be back; the host's own incident."""
    await real.power_off()
    try:
        root = await outage.root(real.name, "is gone")
        yield root
    finally:
        await real.power_on()
    assert "; gone " in await outage.reply(root, "resolved")


async def test_a_unit_that_does_not_come_up_with_its_host_is_down_by_itself(
    tmp_path: Path, real_host: RealHost
) -> None:
    async with watched(tmp_path, real_host, speed=2.0) as outage:  # a minute may pass until a unit comes up
        async with powered_off(real_host, outage) as gone:
            pass
        root = await outage.root("is *down*")
        assert "the host was booted anew and the unit did not come up with it" in root.plain
        await asyncio.sleep(3 * EVERY.total_seconds())  # it goes on being down
        await outage.settled()
        assert outage.room.roots() == [gone, root]
        await outage.room.begin(f"restart {SERVICE}")
        assert "; down " in await outage.reply(root, "resolved")
        await outage.settled()
        assert outage.room.roots()[:2] == [gone, root]
        assert len(outage.room.roots()) == 3  # and the thread of the restart


async def test_a_unit_that_fails_at_boot_is_told_once(
    tmp_path: Path, real_host: RealHost, enabled: None, failing_next: str
) -> None:
    del enabled
    async with watched(tmp_path, real_host) as outage:
        await real_host.run(failing_next)
        async with powered_off(real_host, outage) as gone:
            pass
        root = await outage.root("is *down*")
        assert "systemd ends the unit with result exit-code" in root.plain
        assert "systemd will not start it again" in root.plain
        assert "Control process exited" in await outage.reply(root, "The last ")
        await asyncio.sleep(3 * EVERY.total_seconds())  # it goes on being down
        await outage.settled()
        assert outage.room.roots() == [gone, root]
