"""One bot process and a whole fleet: what it costs, how soon it tells, answers, takes over and follows.

The bot is the real one, `kimi-bot run`; Slack, the hosts with their engines, and Redis are processes of their
own on loopback. Each number is the median over the rounds of one run, and where the goal is a ratio, of one
process at 10, 100 and 1,000 services. Where the bot was often ready to run and had no processor, its delays
are the machine's; with fewer than four processors the stand-ins take a good part of them.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.children import Child
from bench.fleet_bot import MARKERS, Bot, Service, plan_fleet, write_configuration
from bot.practice.redis import EmbeddedRedis

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = (10, 100, 1000)
PER_HOST = 10  # the same for all sizes, so that what a host costs is in a service's share
STARTUPS = 100
EVERY = "15s"  # a service is looked at
WINDOW = 15.0  # seconds of one measurement: each service once
ROUNDS = 2  # of what takes a window each
COMMANDS, COMMAND_EVERY = 200, 0.05
MARK_EVERY = 0.05
LEASE = 10.0  # seconds: the production's

_GOAL_ACK, _GOAL_COST, _GOAL_FOLLOW = 0.1, 1.2, 2.0
_GOAL_LOCAL, _GOAL_LEASE = 4.0, LEASE + 4.0  # twice the look for operations that nobody has


@dataclass(slots=True)
class Level:
    """What was measured with so many services."""

    services: int
    startups: int
    idle_cpu: float = 0.0  # share of one core
    idle_rss: float = 0.0  # MB
    busy_cpu: float = 0.0
    busy_rss: float = 0.0
    waited: float = 0.0  # share of the time in which it had no processor
    delays: list[float] = field(default_factory=list)
    untold: int = 0
    acks: list[float] = field(default_factory=list)


class Ground:
    """What stands around the bot at one size."""

    def __init__(self, folder: Path, fleet: list[Service]) -> None:
        self.folder = folder
        self.fleet = fleet
        self.started = [each for each in fleet if each.channel]
        self.bots: list[Bot] = []
        self._stack = AsyncExitStack()
        self._environment: dict[str, str] = {}
        self.slack: Child
        self.hosts: Child

    async def open(self) -> None:
        redis = EmbeddedRedis(self.folder / "redis")
        self._stack.push_async_callback(redis.stop)
        url = await redis.start()
        self.slack = await Child.start("bench.fleet_slack")
        self._stack.push_async_callback(self.slack.close)
        self.hosts = await Child.start("bench.fleet_hosts")
        self._stack.push_async_callback(self.hosts.close)
        channels = [each.channel for each in self.started]
        self._environment = await self.slack.ask("open", channels=channels) | {"KIMI_REDIS_URL": url}
        units: list[list[str]] = [[] for _ in range(1 + max(each.host for each in self.fleet))]
        for each in self.fleet:
            units[each.host].append(each.unit)
        ported = [each.unit for each in self.started]
        place = await self.hosts.ask("open", folder=str(self.folder), hosts=units, ported=ported)
        write_configuration(self.folder / "kimi.toml", self.fleet, place, EVERY)

    async def close(self) -> None:
        for bot in self.bots:
            await bot.end(9)
        await self._stack.aclose()

    async def start_bot(self, *, far: bool = False) -> Bot:
        log = self.folder / f"bot-{len(self.bots)}.log"
        bot = await Bot.start(self.folder / "kimi.toml", self._environment, log, far=far)
        self.bots.append(bot)
        return bot

    async def begin(self) -> None:
        """All startups at once, as far as people can: each typed, confirmed, and its thread standing."""
        await asyncio.gather(
            *(self.slack.ask("restart", service=each.name, channel=each.channel) for each in self.started)
        )
        await self.followed(0.0)

    async def followed(self, since: float, *, within: float = 60.0) -> list[float]:
        """Seconds from then until each unit that starts was followed; sorted, once all are."""
        units = [each.unit for each in self.started]
        found: dict[str, float] = {}
        deadline = time.monotonic() + within
        while len([unit for unit in units if unit in found]) < len(units):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(units) - len(found)} of {len(units)} are not followed")
            await asyncio.sleep(0.1)
            found = await self.hosts.ask("followed", since=since)
        return sorted(found[unit] - since for unit in units)


async def weigh(bot: Bot, rounds: int) -> tuple[float, float]:
    """Share of one core, and megabytes: medians over windows."""
    shares = []
    for _ in range(rounds):
        before, began = bot.cpu(), time.monotonic()
        await asyncio.sleep(WINDOW)
        shares.append((bot.cpu() - before) / (time.monotonic() - began))
    return statistics.median(shares), bot.megabytes()


async def tell(ground: Ground, level: Level, rounds: int) -> None:
    """From the line a unit wrote to the call Slack received."""
    written: dict[str, float] = {}
    units = [each.unit for each in ground.started]
    for number in range(min(rounds, MARKERS)):
        written |= await ground.hosts.ask("mark", units=units, marker=number, every=MARK_EVERY)
        await asyncio.sleep(max(1.0, 5.0 - MARK_EVERY * len(units)))
    deadline = time.monotonic() + 15
    told: dict[str, float] = {}
    while time.monotonic() < deadline and not written.keys() <= told.keys():
        told = await ground.slack.ask("told")
        await asyncio.sleep(0.5)
    level.delays = [told[number] - at for number, at in written.items() if number in told]
    level.untold = len(written) - len(level.delays)


async def command(ground: Ground, level: Level) -> None:
    commands = [
        (each.channel, f"status {each.name}")
        for each in (ground.started[number % len(ground.started)] for number in range(COMMANDS))
    ]
    level.acks = await ground.slack.ask("commands", commands=commands, every=COMMAND_EVERY)


async def measure(ground: Ground, rounds: int) -> Level:
    """One bot: first it only watches, then startups are under way, then people ask meanwhile."""
    level = Level(len(ground.fleet), len(ground.started))
    bot = await ground.start_bot()
    await bot.fact("started")
    await asyncio.sleep(WINDOW / 2)
    level.idle_cpu, level.idle_rss = await weigh(bot, rounds)
    await ground.begin()
    await asyncio.sleep(5)
    busy = asyncio.create_task(weigh(bot, rounds))
    before, began = bot.waited(), time.monotonic()
    await asyncio.gather(tell(ground, level, rounds), command(ground, level))
    level.busy_cpu, level.busy_rss = await busy
    level.waited = (bot.waited() - before) / (time.monotonic() - began)
    return level


async def take_over(ground: Ground, rounds: int, *, far: bool) -> list[float]:
    """Seconds from the owner's SIGKILL until another process follows a startup, of all startups and rounds.

    Whoever has them at first is killed, so that the owner is the one of the round; `far`: as if it ran on
    another machine, so that its lease has to run out.
    """
    taken: list[float] = []
    for _ in range(rounds):
        owner = ground.bots[-1]
        if far:
            owner = await replace_owner(ground, far=True)
        spare = await ground.start_bot()
        await spare.fact("started")
        await asyncio.sleep(3)  # what two processes share out is shared out
        taken += await ground.followed(owner.kill())
        await owner.end(9)
        await asyncio.sleep(2)
    return taken


async def replace_owner(ground: Ground, *, far: bool) -> Bot:
    """End all bots at once, and let a new one take up what they had."""
    for bot in ground.bots:
        bot.kill()
        await bot.end(9)
    bot = await ground.start_bot(far=far)
    await ground.followed(bot.began)
    await asyncio.sleep(1)
    return bot


async def set_out(ground: Ground, rounds: int) -> tuple[list[float], list[float]]:
    """Of a fresh process with open startups in Redis: seconds to its "following", and to the last one's."""
    said, followed = [], []
    for _ in range(rounds):
        for bot in ground.bots:
            bot.kill()
            await bot.end(9)
        bot = await ground.start_bot()
        followed.append((await ground.followed(bot.began))[-1])
        said.append(bot.when(await bot.fact("following")) - bot.told)
        await bot.fact("started")
    return said, followed


# What is printed.


def print_row(name: str, value: str, goal: str = "", note: str = "", *, met: bool | None = None) -> None:
    verdict = "" if met is None else "met" if met else "MISSED"
    sys.stdout.write(f"{name:<52} {value:>10}  {goal:<9} {verdict:<7} {note}".rstrip() + "\n")
    sys.stdout.flush()


def print_level(level: Level) -> None:
    of = f"{level.services:,} services"
    print_row(f"{of}: CPU, watched only", f"{level.idle_cpu * 100:.1f} %", note="of one core")
    print_row(f"{of}: RSS, watched only", f"{level.idle_rss:.0f} MB")
    with_them = f"{of}, {level.startups} startups"
    note = f"of one core; ready and without a processor for {level.waited * 100:.0f} % of the time"
    print_row(f"{with_them}: CPU", f"{level.busy_cpu * 100:.1f} %", note=note)
    print_row(f"{with_them}: RSS", f"{level.busy_rss:.0f} MB")
    note = f"99 %: {high(level.delays, 0.99) * 1e3:.0f} ms of {len(level.delays)}; never told: {level.untold}"
    print_row(
        f"{with_them}: line to Slack call",
        f"{middle(level.delays) * 1e3:.0f} ms",
        note=note,
        met=not level.untold,
    )
    p99 = high(level.acks, 0.99)
    print_row(
        f"{with_them}: acknowledged, 99 % of {len(level.acks)}",
        f"{p99 * 1e3:.0f} ms",
        f"< {_GOAL_ACK * 1e3:.0f} ms",
        f"median {middle(level.acks) * 1e3:.1f} ms, worst {max(level.acks) * 1e3:.0f} ms",
        met=p99 < _GOAL_ACK,
    )


def print_costs(levels: Sequence[Level]) -> None:
    """What one more service costs, and whether that grows."""
    kinds = {
        "CPU, watched only": ("‰ of a core", [level.idle_cpu * 1e3 for level in levels]),
        "CPU, with startups and commands": ("‰ of a core", [level.busy_cpu * 1e3 for level in levels]),
        "RSS, watched only": ("kB", [level.idle_rss * 1e3 for level in levels]),
    }
    for name, (unit, values) in kinds.items():
        steps = [
            (values[at + 1] - values[at]) / (more.services - less.services)
            for at, (less, more) in enumerate(pairwise(levels))
        ]
        for (less, more), step in zip(pairwise(levels), steps, strict=True):
            print_row(f"one more service, {less.services}→{more.services}: {name}", f"{step:.2f}", note=unit)
        if len(steps) > 1 and steps[0] > 0:
            ratio = steps[-1] / steps[0]
            print_row(
                f"the same, as a ratio: {name}", f"{ratio:.2f}", f"≤ {_GOAL_COST}", met=ratio <= _GOAL_COST
            )


def print_seconds(name: str, seconds: list[float], goal: float | None) -> None:
    value = middle(seconds)
    note = f"{min(seconds):.2f} to {max(seconds):.2f} s"
    if goal is None:
        print_row(name, f"{value:.2f} s", note=note)
    else:
        print_row(name, f"{value:.2f} s", f"≤ {goal:g} s", note, met=value <= goal)


def middle(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")


def high(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


async def run(sizes: Sequence[int], startups: int, rounds: int) -> None:
    levels = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="kimi-fleet-") as folder:
            fleet = plan_fleet(size, PER_HOST, max(1, startups * size // max(sizes)))
            ground = Ground(Path(folder), fleet)
            try:
                await ground.open()
                levels.append(await measure(ground, rounds))
                print_level(levels[-1])
                if size == max(sizes):
                    print_costs(levels)
                # Of one startup the goal is told; a hundred on a hundred hosts take a key exchange each.
                await begin_again(ground, rounds, goal=_GOAL_FOLLOW if len(ground.started) == 1 else None)
                if size == max(sizes):
                    await die(ground, rounds)
                print_problems(ground, await ground.slack.ask("count"))
            finally:
                await ground.close()


async def begin_again(ground: Ground, rounds: int, *, goal: float | None) -> None:
    of = f"{len(ground.started)} startups"
    said, followed = await set_out(ground, rounds)
    print_seconds(f"{of}: start to “following”", said, goal)
    print_seconds(f"{of}: start to the last one followed", followed, goal)


async def die(ground: Ground, rounds: int) -> None:
    of = f"{len(ground.started)} startups"
    near = await take_over(ground, rounds, far=False)
    print_seconds(f"{of}: takeover, the owner is surely dead", near, _GOAL_LOCAL)
    away = await take_over(ground, 1, far=True)
    print_seconds(f"{of}: takeover, its lease of {LEASE:g} s runs out", away, _GOAL_LEASE)


def print_problems(ground: Ground, counted: dict[str, Any]) -> None:
    found = {f"bot {number}": bot.problems() for number, bot in enumerate(ground.bots) if bot.problems()}
    if found or counted["refused"]:
        print_row("told in the log, refused by Slack", "", note=f"{found} {counted['refused']}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.fleet", description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="services (default: %(default)s)")
    parser.add_argument(
        "--startups", type=int, default=STARTUPS, help="at the largest (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default: %(default)s")
    asked = parser.parse_args(arguments)
    asyncio.run(run([int(each) for each in asked.sizes.split(",")], asked.startups, asked.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
