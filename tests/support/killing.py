"""Bots that are real processes in a practice workspace: killed or stopped at a side effect, then replaced."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.clients.store import Store
from bot.core.events import ServiceName
from bot.practice.scenarios import Scenario, loading
from bot.practice.scenarios import Stage as PracticeStage
from bot.practice.scenarios import sglang_log as log
from bot.practice.scenarios.stage import MAIN
from bot.practice.workspace import ALICE, API_KEY, CHANNEL, SERVICE, PracticeWorkspace
from tests.support.killable import Order

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from bot.clients.records import Operation
    from bot.practice.slack_state import PostedMessage

WITHIN = 60.0
LEASE = 1.0
WEBHOOK_SECRET = "practice-webhook-secret"


async def _brief(stage: PracticeStage) -> None:
    """A start that has every kind of phase, and no time to lose.

    A phase of a few seconds is told or not, as the clocks of a busy machine have it: each lasts a true while.
    """
    await loading.launch(stage)
    await _linger(stage)
    await loading.distributed(stage)
    await _linger(stage)
    await loading.begin_weights(stage)
    await loading.shard_bar(stage, total=4, seconds=12)
    stage.say_all(log.weight_end(stage.dialect, 14, draft=False))
    allocated, pooled = log.cache_lines(draft=False)
    stage.say(0, "Using KV cache dtype: torch.bfloat16")
    stage.say_all(allocated)
    await _linger(stage)
    stage.say_all(pooled)
    await loading.graphs(stage, 12)
    await _linger(stage)
    await _listen(stage)
    await _linger(stage)
    await loading.warm_up(stage)
    await loading.serve(stage)


async def _listen(stage: PracticeStage) -> None:
    """As `loading.listen`, whose second is told or not, as a busy machine has it."""
    stage.say(MAIN, f"INFO:     Started server process [{stage.process.pid}]")
    stage.say(MAIN, "INFO:     Waiting for application startup.")
    await _linger(stage)
    stage.say(MAIN, "INFO:     Application startup complete.")
    assert await stage.open_port()
    stage.say(MAIN, f"INFO:     Uvicorn running on {stage.engine.url} (Press CTRL+C to quit)")


async def _linger(stage: PracticeStage) -> None:
    """Real time that no haste makes up for."""
    await asyncio.sleep(0.2)
    stage._at = None


BRIEF = Scenario("brief", "a start without a wait", (_brief,))
_PHASES = ("stopping", "process", "distributed", "weights", "memory", "graphs", "server", "warmup", "smoke")
# A bot that lies still for seconds has missed minutes of the practice's time: none of that is a stall.
PATIENT = {
    "stable_for": "10s",
    "give_up_after": "20h",
    "smoke": {"timeout": "20m", "tool_call": True, "reasoning": True},
    "patience": dict.fromkeys(_PHASES, "4h"),
}


async def until(seen: Callable[[], Any]) -> None:
    async def look() -> bool:
        return bool(seen())

    await until_awaited(look)


async def until_awaited(seen: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN):
        while not await seen():  # noqa: ASYNC110 - another process alone knows
            await asyncio.sleep(0.02)


class Nursery:
    """The process that forks bots; see `tests.support.killable`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._born: asyncio.Queue[int] = asyncio.Queue()
        self._ended: dict[int, asyncio.Future[int]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls) -> Nursery:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.support.killable",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return cls(process)

    async def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()
        await self._reading

    async def bring_up(self, order: Order) -> Bot:
        assert self._process.stdin is not None
        self._process.stdin.write(order.model_dump_json().encode() + b"\n")
        pid = await self._born.get()
        return Bot(pid, order, self._ended[pid])

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            told = json.loads(line)
            if "pid" in told:
                self._ended[told["pid"]] = asyncio.get_running_loop().create_future()
                self._born.put_nowait(told["pid"])
            else:
                self._ended[told["ended"]].set_result(told["status"])


@dataclass(frozen=True, slots=True)
class Bot:
    pid: int
    order: Order
    ended: asyncio.Future[int]

    def send(self, number: int) -> None:
        if not self.ended.done():
            os.kill(self.pid, number)

    async def end(self, number: int = signal.SIGTERM) -> int:
        self.send(number)
        return await asyncio.wait_for(asyncio.shield(self.ended), WITHIN)

    def points(self) -> list[str]:
        """The side effects it came to, in order."""
        with contextlib.suppress(FileNotFoundError):
            return self.order.points.read_text().splitlines()
        return []

    def has_logged(self, event: str) -> bool:
        return self.times_logged(event) > 0

    def times_logged(self, event: str) -> int:
        with contextlib.suppress(FileNotFoundError):
            return self.order.log.read_text().count(f'"event": "{event}"')
        return 0

    def is_stopped(self) -> bool:
        """Whether it lies still by SIGSTOP."""
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        return stat.rpartition(") ")[2].startswith("T")


@dataclass(slots=True)
class Stage:
    """One workspace, one thread to be told, however many bots tell it."""

    nursery: Nursery
    workspace: PracticeWorkspace
    store: Store
    folder: Path
    webhook: str | None = None  # where it tells other tools of incidents
    apart: bool = False  # each bot is as on a machine of its own
    bots: list[Bot] = field(default_factory=list)

    async def bring_up(self, *, choose: str | None = None, number: int = signal.SIGKILL) -> Bot:
        slack, clock = self.workspace.slack, self.workspace.clock
        name = len(self.bots)
        configuration = self.workspace.configuration().model_dump(mode="json", exclude_none=True)
        tokens = {"bot": slack.bot_token, "app": slack.app_token, "secret": slack.signing_secret}
        if self.webhook is not None:
            configuration["incidents"] = {"webhook": self.webhook}
            tokens["webhook"] = WEBHOOK_SECRET
        order = Order(
            configuration=configuration,
            tokens=tokens,
            environ={"PRACTICE_API_KEY": API_KEY},
            slack_api_url=slack.api_url,
            redis_url=self.workspace.redis_url,
            speed=clock.speed,
            told=clock.origin.told,
            monotonic=clock.origin.monotonic,
            points=self.folder / f"points-{name}.txt",
            log=self.folder / f"bot-{name}.log",
            lease=LEASE,
            is_stranger=self.apart,
            choose=choose,
            signal=number,
        )
        bot = await self.nursery.bring_up(order)
        self.bots.append(bot)
        return bot

    async def connected(self, bot: Bot) -> None:
        """It hears Slack, or is gone already."""
        await until(lambda: bot.ended.done() or bot.has_logged("started"))

    def roots(self) -> list[PostedMessage]:
        messages = self.workspace.slack.channel_messages(CHANNEL)
        return [m for m in messages if m.bot and m.thread_ts is None]

    async def insist(self, words: str) -> None:
        """As a person does: type it, and again where Slack shows that nobody heard; say yes when asked."""
        while not self.roots():
            if (await self.workspace.slack.slash(ALICE, CHANNEL, words)).acknowledged:
                break
            await asyncio.sleep(0.1)
        await until(lambda: self.roots() or self._question())
        while not self.roots() and (question := self._question()) is not None:
            if (await self.workspace.slack.press(ALICE, CHANNEL, question.ts, "kimi:confirm")).acknowledged:
                break
            await asyncio.sleep(0.1)
        await until(self.roots)

    def _question(self) -> PostedMessage | None:
        for message in reversed(self.workspace.slack.ephemerals(ALICE)):
            with contextlib.suppress(LookupError):
                message.action("kimi:confirm")
                return message
        return None

    async def over(self) -> Operation:
        """The one operation, once it is closed and all of it stands in Slack."""
        await until_awaited(self._is_over)
        [operation] = await self.store.history(ServiceName(SERVICE), 5)
        return operation

    async def _is_over(self) -> bool:
        if not await self.store.history(ServiceName(SERVICE), 1):
            return False
        return await self.store.queue.pending() == 0 and await self.store.holder(ServiceName(SERVICE)) is None

    def told(self) -> list[str]:
        """The one thread's messages as kinds: what was said, without the times."""
        [root] = self.roots()
        return [kind_of(message) for message in self.workspace.slack.thread(CHANNEL, root.ts)]

    def root_text(self) -> str:
        return self.roots()[0].plain

    def told_too_often(self, words: list[str]) -> list[str]:
        """Of what comes after a death alone, what came more often than once for each.

        On a busy machine one that lives may lose its lease too, and what it has is taken up once more.
        """
        deaths = max(1, sum(bot.times_logged("operation_adopted") for bot in self.bots))
        room = {RESUMED: deaths}
        return [word for word, times in Counter(words).items() if times > room.get(word, 1)]

    def orders(self) -> list[str]:
        """What systemd was told, in order."""
        return self.workspace.host.orders


def kind_of(message: PostedMessage) -> str:
    """`Weights loaded`: its words up to the first that a time or a number follows."""
    if message.thread_ts is None or message.thread_ts == message.ts:
        return "root: " + ("healthy" if "healthy" in message.plain else message.plain[:80])
    if message.files and not message.plain:
        return "file"
    return re.split(r" (?:in|after) |\d|[(:;.]", message.plain.strip())[0].strip()


# What may come beside the usual, and only after a death.
RESUMED = "*resumed*"
AFTER_A_DEATH = (RESUMED, "The restart went out")


async def compare(stage: Stage, usual: list[str]) -> list[str]:
    """What is wrong with the end; nothing, where the thread is the usual one."""
    operation, told = await stage.over(), stage.told()
    excused = [word for word in told if word.startswith(AFTER_A_DEATH)]
    told = [word for word in told if word not in excused]
    facts = {
        "verdict": (operation.verdict, "healthy"),
        "orders": (stage.orders(), ["restart"]),
        "missing": (list((Counter(usual) - Counter(told)).elements()), []),
        "too much": (list((Counter(told) - Counter(usual)).elements()), []),
        "in order": ([word for word in told if word in usual], [word for word in usual if word in told]),
        "too often": (stage.told_too_often(excused), []),
        "parked": (await stage.store.parked(), []),
        "set aside": (await stage.store.unreadable(), []),
        "open": (await stage.store.open_operations(), []),
    }
    faults = [f"{name}: {found}, not {right}" for name, (found, right) in facts.items() if found != right]
    return [*faults, f"the root: {stage.root_text()}"] if faults else []


@asynccontextmanager
async def staged(
    nursery: Nursery,
    folder: Path,
    *,
    speed: float,
    scenario: Scenario = BRIEF,
    watched: bool = False,
    webhook: str | None = None,
) -> AsyncIterator[Stage]:
    """Ends every bot, and with the proof that the stand-in Slack had nothing to refuse."""
    await asyncio.to_thread(folder.mkdir, parents=True)
    workspace = PracticeWorkspace(scenario, speed=speed, service=PATIENT, watched=watched)
    workspace.slack.rates.limits = {}  # paced, a practice minute would be too short to tell all
    async with AsyncExitStack() as stack:
        stack.push_async_callback(workspace.stop)
        await workspace.start_surroundings()
        store = await Store.open(workspace.redis_url)
        stack.push_async_callback(store.close)
        stage = Stage(nursery, workspace, store, folder, webhook)
        try:
            yield stage
        finally:
            for bot in stage.bots:
                bot.send(signal.SIGCONT)
                await bot.end(signal.SIGKILL)
    assert workspace.slack.refusals == [], "the stand-in Slack refused a call"
    assert workspace.slack.warnings == []
