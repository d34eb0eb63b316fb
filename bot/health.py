"""Tells over HTTP how this process is: `/healthz` for who restarts it, `/readyz`, and `/metrics`.

There is no password: it listens on loopback unless it is told otherwise, and shows neither secrets nor names
of people nor a word of any log.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from bot.errors import ConfigurationInvalid
from config.fields import parse_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.vitals import Report

log = structlog.get_logger()

_AGAIN = 2.0  # seconds until a port that another process has is tried again
_OK, _UNAVAILABLE = 200, 503


class HealthServer:
    """Serves from `start` to `close`."""

    def __init__(
        self, listen: str, *, report: Callable[[], Report], metrics: Callable[[], tuple[bytes, str]]
    ) -> None:
        """`listen`: HOST:PORT, "" for nowhere. `metrics`: what is shown, and its content type."""
        self._listen = listen
        self._report = report
        self._metrics = metrics
        self._runner: web.AppRunner | None = None
        self._waiting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """At once where the port is free, else as soon as it is. ConfigurationInvalid: it never will be.

        The port is waited for: where a new process takes over from an old one, both live for a moment.
        """
        if not self._listen:
            return
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._show_metrics),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        if not await self._bind(self._runner):
            log.warning("health_port_taken", listen=self._listen)
            self._waiting = asyncio.create_task(self._bind_later(self._runner), name="health port")

    async def close(self) -> None:
        """May be called twice."""
        if self._waiting is not None:
            self._waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._waiting
            self._waiting = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _bind(self, runner: web.AppRunner) -> bool:
        host, port = parse_address(self._listen)
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            reason = error.strerror or str(error)
            raise ConfigurationInvalid((f"health.listen: {self._listen}: {reason}",)) from error
        host, port = runner.addresses[0][:2]
        log.info("health_told", host=host, port=port)
        return True

    async def _bind_later(self, runner: web.AppRunner) -> None:
        while True:
            await asyncio.sleep(_AGAIN)
            if await self._bind(runner):
                return

    async def _healthz(self, _: web.Request) -> web.Response:
        """200 as long as a new process would do no better."""
        report = self._report()
        return _answer(report, good=report.alive)

    async def _readyz(self, _: web.Request) -> web.Response:
        """200 while it does all of its work."""
        report = self._report()
        return _answer(report, good=report.ready)

    async def _show_metrics(self, _: web.Request) -> web.Response:
        body, kind = self._metrics()
        return web.Response(body=body, headers={"Content-Type": kind, "Cache-Control": "no-store"})


def _answer(report: Report, *, good: bool) -> web.Response:
    told = {
        "alive": report.alive,
        "ready": report.ready,
        "problems": report.problems(),
        "parts": {part.name: {"good": part.good, "words": part.words} for part in report.parts},
    }
    headers = {"Cache-Control": "no-store"}
    return web.json_response(told, status=_OK if good else _UNAVAILABLE, headers=headers)
