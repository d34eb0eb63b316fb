"""Asks one service's engine over HTTP: is it up, which model is it, does it complete."""

from __future__ import annotations

import asyncio
import errno
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import httpx
import structlog

from bot.clients.probe_smoke import SmokeTest
from bot.core.events import PORT_REFUSED, ProbeAnswer, SmokeResult, UnitName
from bot.core.monitor_load import parse_loads, parse_metrics
from bot.errors import HostError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from bot.clients.ssh import Host
    from bot.core.monitor_events import LoadSeen
    from config.services import ServiceSection

log = structlog.get_logger()

# SGLang runs a generation for /health and answers within 20 s, 503 at the latest then.
TIMEOUT_SECONDS = 25.0
_CONNECT_SECONDS = 10.0
_BODY_LIMIT = 1 << 20  # bytes read of an answer
# What went wrong, by httpx's class and a part of its text; the first that fits is told.
_WORDS: tuple[tuple[type[Exception], str, str], ...] = (
    (httpx.ConnectTimeout, "", "no connection in time"),
    (httpx.TimeoutException, "", "timed out"),
    (httpx.RemoteProtocolError, "disconnected", "hung up without an answer"),
    (httpx.RemoteProtocolError, "incomplete", "broke off in the middle of its answer"),
    (httpx.RemoteProtocolError, "peer closed", "broke off in the middle of its answer"),
    (httpx.RemoteProtocolError, "", "answered what is not HTTP"),
    (httpx.NetworkError, "", "the connection broke off"),
)
_NO_WAY = {
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to its network",
    errno.ETIMEDOUT: "timed out",
}
_LOCAL = {"127.0.0.1", "localhost", "::1", "0.0.0.0"}  # noqa: S104  compared with, not bound to
_OK = 200
_FEW_TOKENS = 8
_LOAD_SECONDS = 5.0
_LOADS = {"/metrics": parse_metrics, "/v1/loads": parse_loads}
LOAD_PATHS = tuple(_LOADS)  # where engines tell of their queue, the commonest first
_BUSY = {408, 429, 500, 502, 503, 504}  # statuses that may be others the next time


class _Unreadable(Exception):
    """An answer that is none; the text says in a few words why."""


class NotOffered(Exception):
    """The engine does not tell this, and will not as long as it runs the way it does."""


class Probe:
    """One per service. Whatever a server does becomes an answer; only cancellation is raised."""

    def __init__(
        self,
        section: ServiceSection,
        *,
        host: Host | None,
        api_key: str | None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self._section = section
        self._host = host
        self._api_key = api_key
        self._timeout = timeout
        self._url = httpx.URL(section.url)

    async def check(self, *, whole: bool = True, host_within: float | None = None) -> ProbeAnswer:
        """`/health`; of the `whole` then `/v1/models`, and, where healthy, whose port it is.

        `host_within`: seconds in which the host must tell the last, which else stays open.
        """
        try:
            async with asyncio.timeout(2 * self._timeout), await self._client() as client:
                return await self._check(client, whole=whole, host_within=host_within)
        except TimeoutError:
            return ProbeAnswer(error=f"timed out: no whole answer within {2 * self._timeout:g} s")
        except HostError as error:
            return ProbeAnswer(error=str(error))

    async def _check(
        self, client: httpx.AsyncClient, *, whole: bool, host_within: float | None
    ) -> ProbeAnswer:
        try:
            health, _ = await _get(client, "/health")
        except (httpx.HTTPError, _Unreadable) as error:
            return ProbeAnswer(error=await self._explain(error))
        if not whole:
            return ProbeAnswer(health=health)
        listener = await self._whose_port(host_within) if health == _OK else None
        try:
            status, body = await _get(client, "/v1/models", headers=self._key())
        except (httpx.HTTPError, _Unreadable) as error:
            return ProbeAnswer(health=health, listener=listener, error=f"/v1/models: {_describe(error)}")
        models, fault = self._read_models(status, body)
        return ProbeAnswer(health=health, models=models, models_status=status, listener=listener, error=fault)

    def _read_models(self, status: int, body: bytes) -> tuple[tuple[str, ...] | None, str | None]:
        if status in {401, 403}:
            known = "does not accept the API key" if self._api_key else "wants an API key"
            return None, f"/v1/models {known} (HTTP {status}); check the service's api_key_env"
        if status != _OK:
            return None, f"/v1/models answered HTTP {status}"
        models = parse_models(body)
        return models, None if models is not None else "/v1/models answered what is no list of models"

    async def smoke(self, *, short: bool = False) -> SmokeResult:
        """A real completion, and a tool call where the service wants one; `short`: a few tokens alone."""
        section = self._section.smoke
        if short:
            update = {
                "max_tokens": min(section.max_tokens, _FEW_TOKENS),
                "tool_call": False,
                "reasoning": False,
            }
            section = section.model_copy(update=update)
        seconds = section.timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds), await self._client() as client:
                test = SmokeTest(client, model=self._section.model, section=section, headers=self._key())
                return await test.run()
        except TimeoutError:
            what = "not finished" if short else "the smoke test did not finish"
            return SmokeResult(passed=False, error=f"{what} within {seconds:g} s")
        except httpx.HTTPError as error:
            return SmokeResult(passed=False, error=f"no completion came: {await self._explain(error)}")
        except HostError as error:
            return SmokeResult(passed=False, error=str(error))

    async def load(self, path: str) -> LoadSeen | None:
        """What the engine tells of its queue at one of LOAD_PATHS; None: not now. Raises NotOffered."""
        try:
            async with asyncio.timeout(_LOAD_SECONDS), await self._client() as client:
                status, body = await _get(client, path, headers=self._key())
        except _Unreadable as error:
            raise NotOffered(f"{path} {error}") from error
        except httpx.HTTPError as error:
            if "refused" in (told := _describe(error)):
                raise NotOffered(f"{path}: {told}") from error
            return None
        except (HostError, TimeoutError):
            return None
        if status in _BUSY:
            return None
        found = _LOADS[path](body.decode(errors="replace")) if status == _OK else None
        if found is None:
            raise NotOffered(f"{path} answered HTTP {status} and tells of no queue")
        return found

    async def close(self) -> None:
        """Nothing is kept open between checks; tunnels belong to the host."""

    async def _client(self) -> httpx.AsyncClient:
        """A fresh connection each time: a kept one would prove only that it was kept."""
        transport = None
        if self._section.reach == "ssh" and self._host is not None:
            path = await self._host.tunnel(*self._address())
            transport = httpx.AsyncHTTPTransport(uds=str(path), verify=_trust())
        return httpx.AsyncClient(
            base_url=self._url,
            transport=transport,
            verify=_trust(),
            timeout=httpx.Timeout(self._timeout, connect=min(_CONNECT_SECONDS, self._timeout)),
            trust_env=False,  # a proxy of this machine is not on the way to the engine
            headers={"Accept-Encoding": "identity"},
        )

    def _key(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}

    def _address(self) -> tuple[str, int]:
        """Where the tunnel comes out. An address that means "all of them" is one to bind, not to reach."""
        host = self._url.host
        port = self._url.port or (443 if self._url.scheme == "https" else 80)
        return ("127.0.0.1" if host == "0.0.0.0" else host), port  # noqa: S104

    async def _explain(self, error: Exception) -> str:
        """In a few words; what hides behind a tunnel that hung up, the host is asked."""
        hung_up = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError)
        if hung_up and self._section.reach == "ssh" and self._host is not None:
            try:
                reason = await self._host.knock(*self._address())
            except HostError as lost:
                return str(lost)
            if reason is not None:
                return str(reason)
        return _describe(error)

    async def _whose_port(self, within: float | None) -> bool | None:
        host, unit = self._host, self._unit()
        if host is None or unit is None or not self._is_on(host):
            return None
        try:
            async with asyncio.timeout(within):
                return await host.listener_belongs(self._address()[1], unit, scope=self._section.scope)
        except (HostError, TimeoutError) as error:
            log.debug("listener_untold", why="host_error", host=host.name, error=str(error) or "timed out")
            return None

    def _unit(self) -> UnitName | None:
        """The service's unit on this host."""
        if self._section.unit is not None:
            return UnitName(self._section.unit)
        name = self._host.name if self._host else None
        return next((UnitName(m.unit) for m in self._section.members if m.host == name), None)

    def _is_on(self, host: Host) -> bool:
        """Whether the URL's port is one of the host's own: not that of a proxy in front of it."""
        local = _LOCAL if self._section.reach == "ssh" else set()
        return self._url.host in {*local, host.section.address}


@lru_cache
def _trust() -> ssl.SSLContext:
    """Made once: to read all certificates takes longer than a whole check."""
    return httpx.create_ssl_context(trust_env=False)


async def _get(
    client: httpx.AsyncClient, path: str, *, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """Status and body; a body beyond the limit is no answer."""
    async with client.stream("GET", path, headers=headers) as response:
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > _BODY_LIMIT:
                raise _Unreadable(f"answered with more than {_BODY_LIMIT >> 20} MB")
        return response.status_code, bytes(body)


def parse_models(body: bytes) -> tuple[str, ...] | None:
    """The ids of an OpenAI list of models; None when it is none."""
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list):
        return None
    return tuple(
        model["id"] for model in data if isinstance(model, dict) and isinstance(model.get("id"), str)
    )


def _describe(error: Exception) -> str:
    if isinstance(error, httpx.ConnectError):
        return _why_no_connection(error)
    text = str(error)
    for kind, part, words in _WORDS:
        if isinstance(error, kind) and part in text:
            return words
    return text or type(error).__name__


def _why_no_connection(error: httpx.ConnectError) -> str:
    """Of several addresses one that refuses is enough: a host is there. Else why the first was not had."""
    causes = list(_causes(error))
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return PORT_REFUSED
    number = next(
        (each.errno for each in causes if isinstance(each, OSError) and each.errno in _NO_WAY), None
    )
    return f"no connection: {_NO_WAY[number] if number is not None else str(error).lower()}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The library says only that all attempts failed; what they failed of stands behind that."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    behind = error.__cause__ or error.__context__
    if behind is not None:
        yield from _causes(behind)
