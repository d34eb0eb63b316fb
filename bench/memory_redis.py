"""How much Redis holds for a startup: one is carried out in the practice workspace, and then copied."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from typing import TYPE_CHECKING, Any, cast

from redis.asyncio import Redis

from bot.clients.redis_link import service_key
from bot.practice.scenarios import SCENARIOS
from bot.practice.workspace import ALICE, CHANNEL, SERVICE, PracticeWorkspace
from bot.run import configure_logging

if TYPE_CHECKING:
    from bot.core.events import OperationId

SCENARIO_NAMES = ("healthy", "oom-in-weights")  # the second posts its whole log
SPEED = 60.0
COPIES = 1000
WITHIN = 120.0  # seconds for one startup


async def main() -> int:
    configure_logging(level=logging.ERROR)
    for name in SCENARIO_NAMES:
        workspace = PracticeWorkspace(SCENARIOS[name], speed=SPEED)
        try:
            await workspace.start()
            most, operation = await _carry_out(workspace)
            each, history = await _copy(workspace.redis_url, operation)
        finally:
            await workspace.stop()
        sys.stdout.write(
            f"{name}: at most {most / 1e3:.0f} kB while it is under way; {COPIES:,} that are over: "
            f"{each / 1e6:.1f} MB, of which {history / 1e6:.1f} MB are history\n"
        )
    return 0


async def _carry_out(workspace: PracticeWorkspace) -> tuple[int, OperationId]:
    """The most that its keys held meanwhile, in bytes; and which operation it was."""
    app = workspace.app
    assert app is not None  # noqa: S101 - it was just started
    startups, most, asked = app.startups, 0, 0
    await workspace.slack.slash(ALICE, CHANNEL, "restart")
    async with Redis.from_url(workspace.redis_url) as redis, asyncio.timeout(WITHIN):
        while not startups.running:
            await asyncio.sleep(0.05)
            for message in workspace.slack.ephemerals(ALICE)[asked:]:
                asked += 1
                with contextlib.suppress(LookupError):
                    message.action("kimi:confirm")
                    await workspace.slack.press(ALICE, CHANNEL, message.ts, "kimi:confirm")
        [operation] = startups.running
        while startups.running:
            await asyncio.sleep(0.2)
            most = max(most, sum([await _weigh(redis, key) for key in await _keys_of(redis, operation)]))
    await startups.ground.outbox.drain(WITHIN)
    return most, operation


async def _copy(url: str, operation: OperationId) -> tuple[int, int]:
    """By how many bytes the data of Redis grow, and by how many of them through the history alone."""
    async with Redis.from_url(url) as redis:
        before = await _dataset(redis)
        past, scored = service_key(SERVICE, "past"), service_key(SERVICE, "history")
        kept = cast("bytes", await cast("Any", redis.hget(past, operation)))
        for number in range(COPIES):
            name = f"{number:032x}"
            await cast("Any", redis).hset(past, name, kept)
            await redis.zadd(scored, {name: number})
        history = await _dataset(redis) - before
        for key in await _keys_of(redis, operation):
            content = await redis.dump(key)
            for number in range(COPIES):
                copied = key.decode().replace(operation, f"{number:032x}")
                await redis.restore(copied, 0, cast("bytes", content))
        return await _dataset(redis) - before, history


async def _keys_of(redis: Redis, operation: OperationId) -> list[bytes]:
    return [key async for key in redis.scan_iter(match=f"kimi:*{operation}*", count=1000)]


async def _weigh(redis: Redis, key: bytes) -> int:
    return int(await redis.memory_usage(key) or 0)


async def _dataset(redis: Redis) -> int:
    return int((await redis.info("memory"))["used_memory_dataset"])


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
