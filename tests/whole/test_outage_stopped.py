"""An outage whose bot lies still beyond its lease, wherever it could still do harm when it wakes up."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.kill_matrix import AT_ONCE, EVERY, REACHED
from tests.support.killing import LEASE, until
from tests.support.outage_matrix import TIMEOUT, Outage, outage, play_undisturbed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.killing import Nursery

# What is on its way to other tools when it falls asleep comes late, and is not among these.
_SCRIPTS = ("PUSH", "WRITE", "MAIL", "ATTEMPT", "ACCEPT", "EDITED")
_DANGEROUS = ("slack chat", *(f"redis {name}" for name in _SCRIPTS))
LEAST = 8


async def play_stopped(found: Outage, point: str) -> bool:
    """Whether the bot came to that point at all."""
    first = await found.stage.bring_up(choose=point, number=signal.SIGSTOP)
    over = asyncio.create_task(found.play())
    await until(lambda: first.is_stopped() or over.done())
    if not over.done():
        second = await found.stage.bring_up()
        await found.stage.connected(second)
        await asyncio.sleep(3 * LEASE)
        first.send(signal.SIGCONT)
    await over
    await asyncio.sleep(LEASE)  # what the first may still have in hand
    return len(found.stage.bots) > 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(TIMEOUT)
async def test_one_that_wakes_up_after_its_lease_writes_and_posts_nothing(
    nursery: Nursery, tmp_path: Path
) -> None:
    points, usual = await play_undisturbed(nursery, tmp_path / "usual")
    mine = [
        point
        for point in points
        if point.removeprefix("before ").startswith(_DANGEROUS) and (EVERY or point.endswith(" 0"))
    ]
    assert len(mine) >= LEAST
    room = asyncio.Semaphore(AT_ONCE)
    faults: list[str] = []

    async def one(number: int, point: str) -> bool:
        async with room, outage(nursery, tmp_path / str(number)) as found:
            reached = await play_stopped(found, point)
            faults.extend(f"{point}: {fault}" for fault in await found.compare(usual))
            return reached

    reached = sum(await asyncio.gather(*(one(number, point) for number, point in enumerate(mine))))
    assert not faults, "\n".join(faults)
    assert reached >= len(mine) * REACHED
