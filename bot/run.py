"""Runs the bot until it is told to stop: signals, logging, and the exit status."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from typing import TYPE_CHECKING, Any

import structlog

from bot.app import App, Listen
from bot.errors import ConfigurationInvalid

if TYPE_CHECKING:
    from pathlib import Path

    from config.services import Configuration
    from config.settings import Settings

log = structlog.get_logger()

STOPPED, PART_DIED = 0, 1
_MOST_PORT = 65535


def parse_listen(text: str) -> Listen:
    """`127.0.0.1:3000`. Raises ConfigurationInvalid."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 <= int(port) <= _MOST_PORT:
        raise ConfigurationInvalid((f"--listen: is {text!r}; allowed: HOST:PORT such as 127.0.0.1:3000",))
    return Listen(host.strip("[]"), int(port))


def configure_logging(*, level: int = logging.INFO) -> None:
    """Facts as key-values on standard error: coloured for people, JSON for a service."""
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
    # The libraries' own warnings come out too, but never their debug lines: those hold payloads.
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")


async def run(
    configuration: Configuration, settings: Settings, *, folder: Path, listen: Listen | None = None
) -> int:
    """0 when stopped by SIGTERM or SIGINT, 1 when a part died."""
    configure_logging()
    app = App(configuration, settings, folder=folder)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    stopped = asyncio.create_task(stop.wait(), name="stop signal")
    try:
        return await _start_and_run(app, listen, stopped)
    finally:
        stopped.cancel()
        await app.close()
        log.info("stopped")


async def _start_and_run(app: App, listen: Listen | None, stopped: asyncio.Task[bool]) -> int:
    """A start may wait long, for a Slack that is away: it ends at the signal too."""
    if await _ends_first(stopped, asyncio.create_task(app.start(listen=listen), name="start")):
        return STOPPED
    # Modules, rules and clients stay for good. Looked through at each full collection of garbage, they would
    # delay an acknowledgement by a tenth of a second.
    gc.collect()
    gc.freeze()
    died = asyncio.create_task(app.run(), name="part died")
    if await _ends_first(stopped, died):
        return STOPPED
    log.error("part_died", part=died.result())
    return PART_DIED


async def _ends_first(stopped: asyncio.Task[bool], other: asyncio.Task[Any]) -> bool:
    """Whether the signal came before the end of `other`, which then is cancelled; else what it raised."""
    await asyncio.wait({stopped, other}, return_when=asyncio.FIRST_COMPLETED)
    if other.done():
        await other
        return False
    other.cancel()
    await asyncio.wait({other})
    return True
