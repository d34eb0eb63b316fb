"""The master that sentinels name, whichever it is now; what is written is on a replica before it counts."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, NoPermissionError, RedisError, ResponseError  # noqa: A004

from bot.clients.redis_attempts import REPLICA_MILLISECONDS, Replicas, persist
from bot.errors import ConfigurationInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis.asyncio.connection import AbstractConnection
    from redis.asyncio.sentinel import SentinelManagedConnection

    from config.redis_url import RedisAddress

_UNASKED_SECONDS = 5.0  # sentinels that did not answer are not asked again before each write


class _Sentinels(Sentinel):
    """Asked by one at a time.

    redis-py puts the one that answered at the head of its list, by the place it had: two tasks that do so at
    once write one sentinel twice, and another is lost for good.
    """

    def __init__(self, address: RedisAddress, *, timeout: float) -> None:
        asked = {
            "socket_timeout": timeout / 5,
            "socket_connect_timeout": timeout / 5,
            "username": address.options.get("sentinel_user"),
            "password": address.options.get("sentinel_password"),
        }
        super().__init__(address.hosts, sentinel_kwargs={**asked, **_once(address)})  # type: ignore[no-untyped-call]
        self._turn = asyncio.Lock()

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        async with self._turn:
            host, port = await super().discover_master(service_name)
        return str(host), int(port)


class SentinelClient(Redis):
    """Each new connection asks the sentinels; `timeout` bounds all attempts of one command, in seconds."""

    def __init__(self, address: RedisAddress, *, connections: int, timeout: float) -> None:
        """Connects to nothing yet."""
        self.sentinels = _Sentinels(address, timeout=timeout)
        pool: SentinelConnectionPool = SentinelConnectionPool(  # type: ignore[no-untyped-call]
            address.master,
            self.sentinels,
            max_connections=connections,
            username=address.user,
            password=address.password,
            db=address.database,
            # A master that hangs must leave time to go to its successor.
            socket_timeout=timeout / 2,
            socket_connect_timeout=timeout / 4,
            health_check_interval=15,
            redis_connect_func=_only_a_master,
            **_once(address),
        )
        super().__init__(connection_pool=pool)
        self.auto_close_connection_pool = True
        self._places = asyncio.Semaphore(connections)
        self._within = timeout * 0.9
        self._replicas = Replicas(address.place)
        self._unasked_until = 0.0

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        await self.sentinels.aclose()

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        parent: Callable[..., Any] = super().execute_command
        async with self._places:
            return await persist(lambda: self._sound(parent(*args, **options)), within=self._within)

    async def write(self, *words: Any) -> Any:
        """Carry out a command that writes, and wait a moment until a replica has it too."""
        async with self._places:
            return await persist(lambda: self._sound(self._write(words)), within=self._within)

    async def _sound(self, command: Any) -> Any:
        try:
            return await command
        except ResponseError as error:
            if "READONLY" in str(error):
                # The script of an older Redis says so in a way redis-py does not recognise: a former master.
                await self.connection_pool.disconnect(inuse_connections=False)
            raise

    async def _write(self, words: tuple[Any, ...]) -> Any:
        waiting = self._replicas.ask(asyncio.get_running_loop().time())
        batch = [words, ("WAIT", 1, REPLICA_MILLISECONDS)] if waiting else [words]
        connection: SentinelManagedConnection = await self.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            # WAIT counts what its own connection has written: both go over the same one, in one go.
            await connection.send_packed_command(connection.pack_commands(batch))
            answer, *acknowledged = [await _read(connection) for _ in batch]
            served = (connection.host, connection.port)
        finally:
            await self.connection_pool.release(connection)
        if isinstance(answer, ResponseError):
            raise answer
        for number in acknowledged:
            if isinstance(number, int):
                self._replicas.note(number)
        if not any(acknowledged):
            await self._doubt(served)
        return answer

    async def _doubt(self, served: tuple[str, int]) -> None:
        """No replica has it: was `served` still the master? A former one loses what it took till it is told.

        Every command may run twice, so that the successor is simply given it too.
        """
        now = asyncio.get_running_loop().time()
        if now < self._unasked_until:
            return
        try:
            # With another answer than before, it also closes the connections that nobody uses just now.
            pool = cast("SentinelConnectionPool", self.connection_pool)
            present = await pool.get_master_address()  # type: ignore[no-untyped-call]
        except (RedisError, OSError):
            self._unasked_until = now + _UNASKED_SECONDS
            return
        if present != served:
            raise ConnectionError("the master that took it is master no more")

    async def describe(self) -> str:
        """Who is the master, and how many stand behind it."""
        facts = await self.info("replication")
        host, port = cast("SentinelConnectionPool", self.connection_pool).master_address or ("?", 0)
        replicas = int(facts.get("connected_slaves", 0))
        words = f"answers; master {host}:{port}, {replicas} replica{'s' * (replicas != 1)}"
        return words if replicas else f"{words}: a fail-over has nowhere to go"


def _once(address: RedisAddress) -> dict[str, Any]:
    """No tries of redis-py's own: it would wait between them for each sentinel that is down."""
    tls = {"ssl": True, **tls_options(address)} if address.tls else {}
    return {"retry": Retry(NoBackoff(), 0), **tls}


def tls_options(address: RedisAddress) -> dict[str, Any]:
    """ConfigurationInvalid for a file that cannot be read: the error of the connection would not name it."""
    for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        path = address.options.get(name)
        if path and not os.access(path, os.R_OK):
            raise ConfigurationInvalid(
                (f"Redis at {address.place}: {name} names {path}, which cannot be read.",)
            )
    found: dict[str, Any] = {
        name: value for name, value in address.options.items() if name.startswith("ssl_")
    }
    if "ssl_check_hostname" in found:
        found["ssl_check_hostname"] = found["ssl_check_hostname"].lower() in {"1", "yes", "true"}
    return found


async def _only_a_master(connection: AbstractConnection) -> None:
    """A sentinel that was cut off still names the former master: it would answer reads with what was."""
    await connection.on_connect()
    await connection.send_command("ROLE")
    try:
        role = await connection.read_response()
    except NoPermissionError:
        return  # a user without that right: the first write tells
    if role[0] not in {b"master", "master"}:
        raise ConnectionError(f"the server the sentinels name is no master but {role[0]!r}")


async def _read(connection: AbstractConnection) -> Any:
    """An error of the server as a value: the answer after it must be read too."""
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error
