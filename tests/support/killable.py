"""A nursery of real bot processes: it has imported everything once, and forks one bot for each line it reads.

`python -m tests.support.killable`: each line on standard input is a JSON object (see `Order`); the answer is
`{"pid": …}`, and `{"ended": pid, "status": …}` when that bot is gone. The nursery ends with its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import select
import signal
import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, SecretStr

import bot.app as app_module
import bot.clients.leases as leases_module
import bot.clients.store_queue as store_queue_module
from bot.app import App
from bot.clients.slack import Outbox, Timing
from bot.clients.store import Store
from bot.clock import Clock, Origin
from bot.run import configure_logging
from config.diagnoses import load_diagnoses
from config.engine_file import load_engine
from config.loading import parse_configuration
from config.settings import Settings
from tests.support.pace import PACE
from tests.support.side_effects import Doors


class Quick(Store):
    """A store whose leases do not last long."""

    seconds = 1.0

    @classmethod
    async def open(cls, url: str, **options: Any) -> Self:
        return await super().open(url, **{"lease_seconds": cls.seconds, **options})


class Order(BaseModel):
    """One bot to be brought up; `clock` is shared by all of a test, `points` gets each side effect."""

    configuration: dict[str, Any]
    tokens: dict[str, str]
    environ: dict[str, str]
    slack_api_url: str
    redis_url: str
    speed: float
    told: datetime
    monotonic: float
    points: Path
    log: Path
    lease: float
    is_stranger: bool = False  # as on a machine of its own: whether another is dead, leases alone tell
    choose: str | None = None
    signal: int = signal.SIGKILL


async def live(order: Order) -> None:
    """Until SIGTERM."""
    configure_logging()
    vars(app_module)["Outbox"] = partial(Outbox, pace=PACE, timing=Timing(order.lease, 0.2, 0.2))
    Quick.seconds = order.lease
    if order.is_stranger:
        for module in (leases_module, store_queue_module):
            vars(module)["is_dead"] = lambda _: False
    vars(app_module)["Store"] = Quick
    Doors(order.points, order.choose, order.signal).open()
    clock = Clock(order.speed, origin=Origin(order.told, order.monotonic))
    settings = Settings(
        bot_token=SecretStr(order.tokens["bot"]),
        app_token=SecretStr(order.tokens["app"]),
        signing_secret=SecretStr(order.tokens["secret"]),
        webhook_secret=SecretStr(order.tokens["webhook"]) if "webhook" in order.tokens else None,
        slack_api_url=order.slack_api_url,
        redis_url=order.redis_url,
    )
    configuration = parse_configuration(order.configuration, source="test")
    app = App(configuration, settings, environ=order.environ, clock=clock)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    try:
        await app.start()
        await stop.wait()
    finally:
        await app.close()


def _bring_up(order: Order) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        os.dup2(log, 1)
        os.close(0)
        asyncio.run(live(order))
        code = 0
    finally:
        os._exit(code)
    return 0


def _reap(bots: dict[int, int]) -> None:
    """Tell who ended."""
    for pid, descriptor in tuple(bots.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            os.close(descriptor)
            del bots[pid]
            _say({"ended": pid, "status": os.waitstatus_to_exitcode(status)})


def _say(words: dict[str, int]) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def main() -> None:
    load_diagnoses()
    load_engine("sglang")
    gc.freeze()  # what is shared stays shared
    bots: dict[int, int] = {}
    rest = b""
    while True:
        ready, _, _ = select.select([0, *bots.values()], [], [])
        _reap(bots)
        if 0 not in ready:
            continue
        chunk = os.read(0, 1 << 20)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            pid = _bring_up(Order.model_validate_json(line))
            bots[pid] = os.pidfd_open(pid)
            _say({"pid": pid})
    for pid in bots:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
