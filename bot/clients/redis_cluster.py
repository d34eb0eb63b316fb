"""A Redis Cluster: each command goes to the node that has its slot, wherever that slot is just now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from redis.asyncio.cluster import ClusterNode, PipelineCommand, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ClusterError,
    ConnectionError,  # noqa: A004 redis-py's own
    MovedError,
    TimeoutError,  # noqa: A004
)

from bot.clients.redis_attempts import REPLICA_MILLISECONDS, Replicas, persist
from bot.clients.redis_sentinel import tls_options

if TYPE_CHECKING:
    from config.redis_url import RedisAddress

_REDIRECTIONS = 8
_REFRESH_SECONDS = 0.3  # each look at the whole map opens all connections anew


class ClusterClient(RedisCluster):
    """redis-py's map of the slots and connections to the nodes, with redirections of our own.

    Its own ones send ASKING over one connection and the command over another as soon as there are two, so
    that a slot on the move is never reached; and they fail on a node that the map does not show yet.
    """

    def __init__(self, address: RedisAddress, *, connections: int, timeout: float) -> None:
        """Connects to nothing yet. `timeout` bounds all attempts of one command, in seconds."""
        super().__init__(
            startup_nodes=[ClusterNode(host, port) for host, port in address.hosts],
            username=address.user,
            password=address.password,
            max_connections=connections * 2,  # those that are being closed count too
            socket_timeout=timeout / 2,
            socket_connect_timeout=timeout / 4,
            health_check_interval=15,
            retry=Retry(NoBackoff(), 0),
            ssl=address.tls,
            **tls_options(address),
        )
        self._places = asyncio.Semaphore(connections)
        self._within = timeout * 0.9
        self._refreshed = 0.0
        self._replicas: dict[str, Replicas] = {}  # by the name of their master

    async def aclose(self) -> None:
        await super().aclose()
        # After an error of a node it takes itself for not begun, and closes nothing.
        await self.nodes_manager.aclose()
        await self.nodes_manager.aclose("startup_nodes")

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        if "target_nodes" in options or args[0] in self.command_flags:  # those are not about keys
            return await super().execute_command(*args, **options)
        return await self._persist(args, options)

    async def write(self, *words: Any) -> Any:
        """Carry out a command that writes; where there are replicas, wait a moment until one has it too."""
        return await self._persist(words, {}, waiting=True)

    # redis-py sends these through a pipeline, past the redirections above. All keys must share a slot.

    async def delete(self, *names: Any) -> Any:
        return await self.execute_command("DEL", *names)

    async def exists(self, *names: Any) -> Any:
        return await self.execute_command("EXISTS", *names)

    async def unlink(self, *names: Any) -> Any:
        return await self.execute_command("UNLINK", *names)

    async def ping(self, **options: Any) -> Any:
        """Every master answers, and the Cluster takes commands."""
        await self.exists("kimi:epoch")
        return await super().execute_command("PING", target_nodes=self.get_primaries(), **options)

    async def describe(self) -> str:
        await self.ping()
        masters, replicas = len(self.get_primaries()), len(self.get_replicas())
        words = f"answers; Cluster of {masters} master{'s' * (masters != 1)}, {replicas} replica"
        return words + "s" * (replicas != 1)

    async def _persist(
        self, words: tuple[Any, ...], options: dict[str, Any], *, waiting: bool = False
    ) -> Any:
        async with self._places:
            return await persist(lambda: self._carry(words, options, waiting=waiting), within=self._within)

    async def _carry(self, words: tuple[Any, ...], options: dict[str, Any], *, waiting: bool) -> Any:
        await self.initialize()
        [node] = await self.get_nodes_from_slot(*words)
        asking = False
        for _ in range(_REDIRECTIONS):
            try:
                return await self._send(node, words, options, asking=asking, waiting=waiting)
            except MovedError as error:
                await self.nodes_manager.move_slot(error)
                node, asking = self._node(error), False
            except AskError as error:
                node, asking = self._node(error), True
            except (ConnectionError, TimeoutError, ClusterDownError):
                await self._refresh(node)
                raise
        raise ClusterError(f"the nodes disagree on who has the slot, {_REDIRECTIONS} times in a row")

    def _node(self, error: AskError) -> ClusterNode:
        node = self.get_node(host=error.host, port=error.port)
        if node is None:
            node = ClusterNode(error.host, error.port, **self.nodes_manager.connection_kwargs)
            self.nodes_manager.set_nodes(self.nodes_manager.nodes_cache, {node.name: node})
        return node

    async def _send(
        self,
        node: ClusterNode,
        words: tuple[Any, ...],
        options: dict[str, Any],
        *,
        asking: bool,
        waiting: bool,
    ) -> Any:
        """Over one connection: ASKING counts for the next command on it, and WAIT for what it wrote."""
        command = PipelineCommand(0, *words, **options)
        batch = [PipelineCommand(0, "ASKING"), command] if asking else [command]
        wait = PipelineCommand(0, "WAIT", 1, REPLICA_MILLISECONDS)
        if waiting and self._replicas_of(node).ask(asyncio.get_running_loop().time()):
            batch.append(wait)
        await node.execute_pipeline(batch)
        if isinstance(wait.result, int):
            self._replicas_of(node).note(wait.result)
        if isinstance(command.result, Exception):
            raise command.result
        return command.result

    def _replicas_of(self, node: ClusterNode) -> Replicas:
        return self._replicas.setdefault(node.name, Replicas(node.name))

    async def _refresh(self, failed: ClusterNode) -> None:
        """Ask the other nodes who has which slot now."""
        now = asyncio.get_running_loop().time()
        if now - self._refreshed < _REFRESH_SECONDS:
            return
        self._refreshed = now
        await self.nodes_manager.initialize(last_failed_node_name=failed.name)
