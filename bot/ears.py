"""How this process hears Slack: Socket Mode, or requests over HTTP; and how fast it acknowledges."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog
from aiohttp import web
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.authorization.async_authorize import AsyncAuthorize
from slack_bolt.logger.messages import warning_client_prioritized_and_token_skipped

from bot.clients.slack import connect_slack
from bot.clients.slack_account import open_socket
from bot.errors import ConfigurationInvalid, SlackError, SlackRefused
from bot.tasks import end_within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from slack_bolt.request.async_request import AsyncBoltRequest
    from slack_bolt.response import BoltResponse
    from slack_sdk.web.async_client import AsyncWebClient

    from config.settings import Settings

log = structlog.get_logger()

CONNECTIONS = 2  # Socket Mode: while one is refreshed, the other hears
HTTP_PATH = "/slack/events"
# What bolt would tell people is to reinstall the app.
NOT_AUTHORIZED = (
    "Slack did not tell kimi who it is, and nothing was done. Try again in a minute; "
    "where it stays so, `kimi-bot check` says why."
)
_FIRST_WORD = 3.0  # seconds a start waits to know whether Slack is there
_CONNECT_WITHIN = 15.0  # the SDK would try the same address for ever, and an address is good for one minute
_LONGEST_PAUSE = 10.0
_CLOSE_WITHIN = 2.0  # a Slack that has gone silent does not take part in closing
_KINDS = {
    "event_callback": "event",
    "block_actions": "action",
    "view_submission": "view",
    "view_closed": "view",
}


@dataclass(frozen=True, slots=True)
class Listen:
    """Where HTTP mode listens; None stands for Socket Mode."""

    host: str
    port: int


class _Timed(AsyncApp):
    """bolt's app, which says how long each acknowledgement took."""

    acknowledged: Callable[[str, float], None]

    async def async_dispatch(self, req: AsyncBoltRequest) -> BoltResponse:
        began = time.monotonic()
        try:
            return await super().async_dispatch(req)
        finally:
            self.acknowledged(_kind(req.body), time.monotonic() - began)


def _kind(body: Any) -> str:
    if not isinstance(body, dict):
        return "other"
    return "command" if "command" in body else _KINDS.get(str(body.get("type")), "other")


class _Introduction(AsyncAuthorize):
    """Who we are, which bolt asks with each payload. Slack is asked once, and anew only after it did not say.

    bolt's own would ask for each payload of a burst until the first answer is there. Neither hears that the
    token was revoked since: who sends does.
    """

    def __init__(self, client: AsyncWebClient) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._client = client
        self._asking: asyncio.Task[AuthorizeResult] | None = None

    async def __call__(self, **_: object) -> AuthorizeResult:
        return await asyncio.shield(self.ask())

    def ask(self) -> asyncio.Task[AuthorizeResult]:
        """The answer, or the question that is out already."""
        asked = self._asking
        if asked is None or (asked.done() and (asked.cancelled() or asked.exception() is not None)):
            asked = self._asking = asyncio.create_task(self._ask(), name="auth.test")
            asked.add_done_callback(lambda task: task.cancelled() or task.exception())  # whoever waits tells
        return asked

    async def _ask(self) -> AuthorizeResult:
        answer = await self._client.auth_test()
        return AuthorizeResult.from_auth_test_response(
            bot_token=self._client.token, auth_test_response=answer
        )

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})


@contextlib.contextmanager
def _without_advice() -> Iterator[None]:
    """Bolt reads SLACK_BOT_TOKEN by itself, and warns that it has no use for it: that is as it should be."""
    logger = logging.getLogger(f"slack_bolt.{AsyncApp.__name__}")

    def is_told(record: logging.LogRecord) -> bool:
        return record.getMessage() != warning_client_prioritized_and_token_skipped()

    logger.addFilter(is_told)
    try:
        yield
    finally:
        logger.removeFilter(is_told)


class Ears:
    """`open`, then `run` for as long as the process lives, then `close`."""

    def __init__(
        self,
        client: AsyncWebClient,
        settings: Settings,
        *,
        listen: Listen | None,
        acknowledged: Callable[[str, float], None],
    ) -> None:
        """`acknowledged` hears the kind of each payload, and the seconds until it was acknowledged."""
        secret = settings.signing_secret
        self._introduction = _Introduction(client)
        with _without_advice():
            self.app = _Timed(
                client=connect_slack(
                    None, client.base_url, timeout=client.timeout
                ),  # the token is introduced
                authorize=self._introduction,
                signing_secret=secret.get_secret_value() if secret else None,
                request_verification_enabled=listen is not None,
                user_facing_authorize_error_message=NOT_AUTHORIZED,
            )
        self.app.acknowledged = acknowledged
        self._token = settings.app_token.get_secret_value() if settings.app_token else ""
        self._listen = listen
        self._sockets: list[AsyncSocketModeHandler] = []
        self._connecting: list[asyncio.Task[None]] = []
        self._known = asyncio.Event()  # whether Slack is there
        self._runner: web.AppRunner | None = None
        self._place = ""

    async def open(self) -> None:
        """Returns once Slack is heard, or known to be away: then `run` tries on.

        Raises SlackRefused for a wrong token, ConfigurationInvalid for a port that cannot be listened on.
        """
        self._introduction.ask()  # the first command need not wait for it
        if self._listen is not None:
            await self._serve(self._listen)
            return
        self._sockets = [AsyncSocketModeHandler(self.app, self._token) for _ in range(CONNECTIONS)]
        self._connecting = [
            asyncio.create_task(self._connect(socket), name=f"socket {number}")
            for number, socket in enumerate(self._sockets, 1)
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_WORD):
                await self._known.wait()
        for task in self._connecting:
            if task.done():
                task.result()

    async def run(self) -> None:
        """For ever; raises SlackRefused when Slack comes to say no."""
        await asyncio.gather(*self._connecting)
        await asyncio.Event().wait()

    async def hear(self) -> tuple[bool, str]:
        """Whether Slack can reach this process, and in which way."""
        if self._listen is not None:
            return self._runner is not None, f"listens on {self._place or 'nothing'}"
        count = sum([await socket.client.is_connected() for socket in self._sockets])
        return count > 0, f"{count} of {CONNECTIONS} connections"

    async def close(self) -> None:
        """In bounded time; may be called twice."""
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        await self._introduction.close()
        closing: list[asyncio.Task[None]] = [
            asyncio.create_task(socket.client.close(), name="close socket")  # type: ignore[no-untyped-call]
            for socket in self._sockets
        ]
        if self._runner is not None:
            closing.append(asyncio.create_task(self._runner.cleanup()))
        self._sockets, self._connecting, self._runner = [], [], None
        await end_within(_CLOSE_WITHIN, closing)

    async def _connect(self, socket: AsyncSocketModeHandler) -> None:
        """Until it stands; from then on the SDK mends it."""
        pause = 1.0
        try:
            while not await self._try_to_connect(socket):
                self._known.set()
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        finally:
            self._known.set()

    async def _try_to_connect(self, socket: AsyncSocketModeHandler) -> bool:
        try:
            socket.client.wss_uri = await open_socket(self.app.client, self._token)
            async with asyncio.timeout(_CONNECT_WITHIN):
                await socket.connect_async()  # type: ignore[no-untyped-call]
        except SlackRefused:
            raise  # with a wrong token it would go on so for ever
        except (SlackError, TimeoutError) as error:
            log.warning("slack_unreachable", error=str(error) or "no connection in time")
            return False
        return True

    async def _serve(self, listen: Listen) -> None:
        served = self.app.web_app(path=HTTP_PATH)
        served.middlewares.append(_refuse_unreadable)
        runner = self._runner = web.AppRunner(served)
        await runner.setup()
        try:
            await web.TCPSite(runner, listen.host, listen.port).start()
        except OSError as error:
            raise ConfigurationInvalid((f"--listen: {error.strerror or error}",)) from error
        host, port = runner.addresses[0][:2]
        self._place = f"{host}:{port}"
        log.info("listening", host=host, port=port, path=HTTP_PATH)


@web.middleware
async def _refuse_unreadable(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """A body is read before its signature is looked at: what anybody may send is no fault of ours."""
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except Exception as error:  # noqa: BLE001 - where the handling of a request ends
        log.warning("request_not_readable", by=request.remote, error=type(error).__name__)
        return web.json_response({"error": "invalid request"}, status=400)
