"""A restart whose bot is killed, or stopped beyond its lease, at any of its side effects.

An undisturbed run tells which side effects there are and what the thread holds. Then each chosen one is where
the bot dies; another goes on, and the thread at the end holds the same messages, once each, in order, after
one restart on the host. `make kill-matrix` chooses every one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from tests.support.killing import LEASE, compare, staged, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.support.killing import Nursery, Stage

EVERY = bool(os.environ.get("KIMI_EVERY_POINT"))
SHARES = range(3)
REACHED = 0.8  # of the points: a few, such as a lease's renewal, come or not as the clock has it
AT_ONCE = 3  # workspaces; most of a start is waiting
LEAST = 40
TIMEOUT = 1800 if EVERY else 240
WORDS = "restart kimi-k2.5"
SPEED = 40.0
# What every process does all the time, operation or not: renewing what it has, saying that it lives.
_HOUSEKEEPING = ("kimi:process", "RENEW", "FORGET", "LET_GO", "kimi:services", "MARK", "TAKE_TOKEN")
# Where a bot that wakes up after its lease could still do harm: what it writes, orders and posts.
_DANGEROUS = (
    "ssh",
    "slack chat",
    "slack files",
    "redis PUSH",
    "redis ATTEMPT",
    "redis ACCEPT",
    "redis EDITED",
)


def choose_points(points: list[str]) -> list[str]:
    """Or simply all. Else of each kind that is no housekeeping the first time: before and after it where it
    could do harm, and of the others before one and after the next, which often is the same moment.
    """
    if EVERY:
        return points
    kinds = list(dict.fromkeys(point.split(" ", 1)[1].rpartition(" ")[0] for point in points))
    chosen = []
    for number, kind in enumerate(kind for kind in kinds if not any(kept in kind for kept in _HOUSEKEEPING)):
        whens = ("before", "after") if kind.startswith(_DANGEROUS) else (("before", "after")[number % 2],)
        chosen += [f"{when} {kind} 0" for when in whens]
    return [point for point in chosen if point in points]


def choose_dangerous(points: list[str]) -> list[str]:
    first = [point for point in points if EVERY or point.endswith(" 0")]
    return [point for point in first if point.removeprefix("before ").startswith(_DANGEROUS)]


async def play_undisturbed(nursery: Nursery, folder: Path) -> tuple[list[str], list[str]]:
    """The side effects and the thread of a run in which nobody dies."""
    async with staged(nursery, folder, speed=SPEED) as stage:
        bot = await stage.bring_up()
        await stage.connected(bot)
        await stage.insist(WORDS)
        operation = await stage.over()
        assert operation.verdict == "healthy"
        assert stage.orders() == ["restart"]
        return bot.points(), stage.told()


async def play_killed(stage: Stage, point: str) -> bool:
    """Whether the bot came to that point at all."""
    first = await stage.bring_up(choose=point)
    await stage.connected(first)
    person = asyncio.create_task(stage.insist(WORDS))
    over = asyncio.create_task(stage.over())
    await until(lambda: first.ended.done() or over.done())
    if first.ended.done():
        assert first.ended.result() == -signal.SIGKILL
        await stage.bring_up()
    await person
    await over
    return first.ended.done()


async def play_stopped(stage: Stage, point: str) -> bool:
    """Stopped there until another bot has long taken over; then it wakes up and goes on as if nothing was."""
    first = await stage.bring_up(choose=point, number=signal.SIGSTOP)
    await stage.connected(first)
    person = asyncio.create_task(stage.insist(WORDS))
    over = asyncio.create_task(stage.over())
    await until(lambda: first.is_stopped() or over.done())
    if not over.done():
        second = await stage.bring_up()
        await stage.connected(second)
        await asyncio.sleep(3 * LEASE)
        first.send(signal.SIGCONT)
    await person
    await over
    await asyncio.sleep(LEASE)  # what the first may still have in hand
    return len(stage.bots) > 1


async def play_all(
    nursery: Nursery,
    points: list[str],
    usual: list[str],
    *,
    folder: Path,
    play: Callable[[Stage, str], Awaitable[bool]],
) -> tuple[int, list[str]]:
    """How many points were reached, and what was wrong at which."""
    room = asyncio.Semaphore(AT_ONCE)
    faults: list[str] = []

    async def one(number: int, point: str) -> bool:
        async with room, staged(nursery, folder / str(number), speed=SPEED) as stage:
            reached = await play(stage, point)
            faults.extend(f"{point}: {fault}" for fault in await compare(stage, usual))
            return reached

    reached = await asyncio.gather(*(one(number, point) for number, point in enumerate(points)))
    return sum(reached), faults


async def play_share(when: str, share: int, *, nursery: Nursery, folder: Path) -> None:
    """Killed `when` ("before" or "after") each of one part of the chosen side effects."""
    points, usual = await play_undisturbed(nursery, folder / "usual")
    chosen = choose_points(points)
    assert len(chosen) >= LEAST
    mine = [point for point in chosen if point.startswith(when)][share :: len(SHARES)]
    reached, faults = await play_all(nursery, mine, usual, folder=folder, play=play_killed)
    told = f"{when}, share {share}: killed at {reached} of {len(mine)}; {len(points)} side effects in all"
    print(told)  # noqa: T201 - for who reads it
    assert not faults, "\n".join(faults)
    assert reached >= len(mine) * REACHED
