"""What happens to a service while it serves: in the night, by itself, or by somebody's hand in a terminal."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.practice.engine import ServerStatus
from bot.practice.scenarios import failing, loading
from bot.practice.scenarios import sglang_log as log
from bot.practice.scenarios.stage import MAIN, Scenario, Script, Stage

if TYPE_CHECKING:
    from bot.clock import Clock
    from bot.practice.scenarios.stage import Place

CALM = 75.0  # told seconds it serves before anything happens
_LOOKED = 4.0  # real seconds until whoever watches it has seen it well, on a busy machine too


def calm(clock: Clock) -> float:
    """Told seconds: what nobody has seen serving is no outage when it goes."""
    return max(CALM, _LOOKED * clock.speed)


def amid(fault: Script) -> Script:
    """Serves, and after a while `fault` happens to it, which may end it."""

    async def play(stage: Stage) -> None:
        serving, breaking = asyncio.ensure_future(loading.serve(stage)), asyncio.ensure_future(fault(stage))
        try:
            await asyncio.wait({serving, breaking}, return_when=asyncio.FIRST_COMPLETED)
            if breaking.done():
                breaking.result()
            await serving
        finally:
            for task in (serving, breaking):
                task.cancel()
            await asyncio.gather(serving, breaking, return_exceptions=True)

    return play


async def dies(stage: Stage) -> None:
    """A kernel reads where it must not; the other ranks lose their peer, and all are killed."""
    await stage.wait(calm(stage.clock))
    await fall_in_forward(stage)


async def fall_in_forward(stage: Stage) -> None:
    stage.say_lines(3, log.traceback(log.ILLEGAL_ACCESS, "forward"))
    await stage.wait(0.5)
    stage.say(MAIN, log.CHILD_FAILED_SERVING)
    stage.die()


async def hangs(stage: Stage) -> None:
    """The scheduler waits for ever: `/health` goes on answering 200, and no completion comes."""
    await stage.wait(calm(stage.clock))
    stage.engine.dying = True
    await stage.forever()


async def flaps(stage: Stage) -> None:
    """Too busy to answer for a while, well, and too busy once more."""
    for before in (calm(stage.clock), CALM):
        await stage.wait(before)
        stage.engine.status = ServerStatus.UNHEALTHY
        await stage.wait(120.0)
        stage.engine.status = ServerStatus.UP
    await stage.forever()


async def dies_slowly(stage: Stage) -> None:
    """The KV cache is full again and again, requests are put back, and at last the scheduler gives up."""
    await stage.wait(calm(stage.clock))
    for free in (412, 96, 12):
        stage.say(0, f"KV cache pool is full. Retract requests. #retracted_reqs: 3, #free_tokens: {free}")
        await stage.wait(40.0)
    stage.say_lines(3, log.traceback(log.OUT_OF_MEMORY, "forward"))
    await stage.wait(0.5)
    stage.say(MAIN, log.CHILD_FAILED_SERVING)
    stage.die()


async def goes_away(place: Place) -> None:
    """The host is not to be reached, and comes back as it was."""
    await place.clock.sleep(timedelta(seconds=calm(place.clock)))
    await place.go_dark()
    await place.clock.sleep(timedelta(minutes=5))
    await place.open_door()


async def is_restarted(place: Place) -> None:
    """Somebody logs in and types `systemctl restart`."""
    await place.clock.sleep(timedelta(seconds=calm(place.clock)))
    place.unit.submit("restart")


SCENARIOS = (
    Scenario(
        "dies-at-3am",
        "Serves, and dies of an illegal memory access; systemd starts it again",
        (loading.healthy,),
        restart="on-failure",
        serving=amid(dies),
    ),
    Scenario(
        "crash-loop",
        "systemd starts it again and again; it dies in weights each time",
        (failing.dies_in_weights,),
        restart="always",
        unasked=amid(dies),
    ),
    Scenario(
        "loops-at-3am",
        "Serves and dies, and each start that systemd makes dies in weights",
        (failing.dies_in_weights,),
        restart="always",
        serving=amid(dies),
    ),
    Scenario(
        "hangs-but-answers",
        "Health checks pass, and no completion comes any more",
        (loading.healthy,),
        serving=amid(hangs),
        service={"smoke": {"timeout": "5s"}, "monitor": {"completion_every": "60s"}},
    ),
    Scenario("host-gone", "The whole host is away for five minutes", (loading.healthy,), befalls=goes_away),
    Scenario(
        "flapping", "Does not answer, is well, does not answer again", (loading.healthy,), serving=amid(flaps)
    ),
    Scenario(
        "restarted-in-terminal",
        "Somebody restarts it in a terminal",
        (loading.healthy,),
        befalls=is_restarted,
    ),
    Scenario(
        "slow-death",
        "The KV cache is full, then more so, and then it dies; systemd starts it again",
        (loading.healthy,),
        restart="on-failure",
        serving=amid(dies_slowly),
    ),
)
