"""Runs the bot until it is told to stop: signals, logging, who is told how it is, and the exit status."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import signal
import sys
import threading
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import structlog

from bot.app import App, Listen
from bot.clients.dead_man import DeadMan
from bot.errors import ConfigurationInvalid
from bot.health import HealthServer
from bot.notify import Notifier
from bot.pulse import Pulse
from config.fields import parse_address

if TYPE_CHECKING:
    from pathlib import Path

    from config.services import Configuration
    from config.settings import Settings

log = structlog.get_logger()

STOPPED, PART_DIED = 0, 1
_GARBAGE = (5_000, 20, 50)  # new objects until the youngest are looked through; rounds until the elder are
_SETTLED = 30.0  # seconds until every host was looked at and its connection stands
STOP_WITHIN = 25.0  # seconds for an orderly end; whoever stops us insists after thirty


def parse_listen(text: str) -> Listen:
    """`127.0.0.1:3000`. Raises ConfigurationInvalid."""
    try:
        return Listen(*parse_address(text))
    except ValueError as error:
        raise ConfigurationInvalid((f"--listen: {error}",)) from error


def configure_logging(*, level: int = logging.INFO) -> None:
    """Facts as key-values on standard error: coloured for people, JSON for a service."""
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
    # The libraries' own warnings come in the same form, but never their debug lines: those hold payloads.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler])


async def run(
    configuration: Configuration, settings: Settings, *, folder: Path, listen: Listen | None = None
) -> int:
    """0 when stopped by SIGTERM or SIGINT, 1 when a part died."""
    configure_logging()
    faulthandler.enable()  # a watchdog's SIGABRT leaves in the log where each thread stood
    app = App(configuration, settings, folder=folder)
    notifier = Notifier(os.environ)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop_or_leave, stop)
    stopped = asyncio.create_task(stop.wait(), name="stop signal")
    status = PART_DIED
    async with AsyncExitStack() as stack:
        try:
            await _tell(app, notifier, configuration, settings, stack=stack)
            status = await _start_and_run(app, listen, stopped, notifier=notifier)
        finally:
            if not stop.is_set():
                _insist(STOP_WITHIN, status)
            notifier.stopping()
            stopped.cancel()
            await app.close()
    log.info("stopped")
    return status


async def _tell(
    app: App,
    notifier: Notifier,
    configuration: Configuration,
    settings: Settings,
    *,
    stack: AsyncExitStack,
) -> None:
    """From before the start, which may take a while, until after the end: how the process is."""
    section = configuration.health
    url = settings.ping_url.get_secret_value() if settings.ping_url else section.ping_url
    dead_man = DeadMan(url) if url else None
    if dead_man is not None:
        app.metrics.pings = dead_man.counts
    health = HealthServer(section.listen, report=app.vitals.report, metrics=app.metrics.show)
    stack.push_async_callback(health.close)
    await health.start()
    pulse = Pulse(app.vitals, notifier, dead_man=dead_man, ping_every=section.ping_every)
    stack.push_async_callback(pulse.close)
    beating = asyncio.create_task(pulse.run(), name="pulse")
    stack.callback(beating.cancel)


def _stop_or_leave(stop: asyncio.Event) -> None:
    """The first signal asks, and bounds what follows: a start that is broken off may hang as well as an end.

    At the second nothing is waited for any more: all that counts is in Redis.
    """
    if stop.is_set():
        log.warning("stopped_at_once")
        os._exit(STOPPED)
    log.info("stopping")
    stop.set()
    _insist(STOP_WITHIN, STOPPED)


def _insist(seconds: float, status: int) -> None:
    """A thread, since what hangs may be the event loop, or the interpreter's own wait for its threads."""

    def leave() -> None:
        log.error("stop_took_too_long", seconds=seconds)
        os._exit(status)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()


async def _start_and_run(
    app: App, listen: Listen | None, stopped: asyncio.Task[bool], *, notifier: Notifier
) -> int:
    """A start may wait, for a Redis that is slow to answer: it ends at the signal too."""
    if await _ends_first(stopped, asyncio.create_task(app.start(listen=listen), name="start")):
        return STOPPED
    notifier.ready()
    # Modules, rules, clients, and what a fleet's hosts take, stay for good. Looked through at each full
    # collection of garbage, they would delay an acknowledgement by a tenth of a second; so would full ones
    # every second, which is how often they come at 1,000 services with Python's own numbers.
    gc.set_threshold(*_GARBAGE)
    _settle_memory()
    asyncio.get_running_loop().call_later(_SETTLED, _settle_memory)
    died = asyncio.create_task(app.run(), name="part died")
    if await _ends_first(stopped, died):
        return STOPPED
    log.error("part_died", part=died.result())
    return PART_DIED


def _settle_memory() -> None:
    gc.collect()
    gc.freeze()


async def _ends_first(stopped: asyncio.Task[bool], other: asyncio.Task[Any]) -> bool:
    """Whether the signal came before the end of `other`, which then is cancelled; else what it raised."""
    await asyncio.wait({stopped, other}, return_when=asyncio.FIRST_COMPLETED)
    if other.done():
        await other
        return False
    other.cancel()
    await asyncio.wait({other})
    return True
