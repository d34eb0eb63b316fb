"""Redis of several servers for tests: a master with a replica and three sentinels, and a Cluster of four."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError, ResponseError

from bot.practice.redis import find_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOPBACK = "127.0.0.1"
PATIENCE = 60.0  # seconds: a fail-over that was split or begun too early is tried again after four
SLOTS = 16384
MASTER = "main"
_QUIET = {"bind": LOOPBACK, "save": '""', "appendonly": "no", "daemonize": "no"}
# While the master is down a sentinel asks its replica each second, whatever is set here, and takes none for a
# new master whose answer is older than five pings: more pings make a fail-over a matter of luck. And one that
# was not run for two seconds trusts its clock no more and does nothing for thirty.
_SWIFT = ("info-period", "200", "ping-period", "400", "ask-period", "100", "publish-period", "200")
_STEADY = ("tilt-trigger", "60000")


def free_ports(count: int) -> list[int]:
    """Each so low that 10,000 above, where the nodes of a Cluster speak, no outgoing connection sits."""
    with contextlib.ExitStack() as held:
        found: list[int] = []
        while len(found) < count:
            line = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                line.bind((LOOPBACK, 11000 + secrets.randbelow(11000)))
                found.append(line.getsockname()[1])
        return found


class Node:
    """One server process on a loopback port, with a folder for its files."""

    def __init__(
        self, port: int, options: dict[str, str], *words: str, password: str = "", certificate: str = ""
    ) -> None:
        """`certificate`: a file with the key too; then it speaks TLS alone."""
        self.port = port
        self.folder = Path(tempfile.mkdtemp(prefix="kimi-node-"))
        lines = {"port": str(port), "dir": str(self.folder), "logfile": str(self.folder / "log")} | options
        self._file = self.folder / "node.conf"
        self._file.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None
        tls: dict[str, Any] = {"ssl": True, "ssl_ca_certs": certificate} if certificate else {}
        # What tests ask it themselves.
        self.line: Any = Redis(LOOPBACK, port, socket_timeout=PATIENCE, password=password or None, **tls)
        if password:
            self.write(f'requirepass "{password}"')
        if certificate:
            files = [f"tls-{name}-file {certificate}" for name in ("cert", "key", "ca-cert")]
            self.write("port 0", f"tls-port {port}", "tls-auth-clients no", "tls-replication yes", *files)

    def write(self, *lines: str) -> None:
        with self._file.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def start(self) -> None:
        self._process = subprocess.Popen([find_server(), self._file, *self._words])
        wait_for(self._answers)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()
        try:
            return bool(self.line.ping())
        except RedisError:
            return False

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.line.close()
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class SentinelGroup:
    """Two servers, and three sentinels that know each other from the start: their greetings take seconds."""

    def __init__(self, *, password: str = "", sentinel_password: str = "", certificate: str = "") -> None:
        master, replica, *watching = free_ports(5)
        # No pings of its own: what goes to the replica is what a test has written.
        options = _QUIET | {"repl-diskless-sync-delay": "0", "repl-ping-replica-period": "600"}
        self.servers = [
            Node(port, options, password=password, certificate=certificate) for port in (master, replica)
        ]
        self.servers[1].write(f"replicaof {LOOPBACK} {master}")
        if password:
            for node in self.servers:
                node.write(f'masterauth "{password}"')
        self.sentinels = [
            Node(port, {"bind": LOOPBACK}, "--sentinel", password=sentinel_password, certificate=certificate)
            for port in watching
        ]
        names = [secrets.token_hex(20) for _ in self.sentinels]
        for own, node in enumerate(self.sentinels):
            node.write(
                f"sentinel myid {names[own]}",
                f"sentinel monitor {MASTER} {LOOPBACK} {master} 2",
                f"sentinel down-after-milliseconds {MASTER} 400",
                f"sentinel failover-timeout {MASTER} 2000",
                f"sentinel known-replica {MASTER} {LOOPBACK} {replica}",
                *([f'sentinel auth-pass {MASTER} "{password}"'] if password else []),
                *([f'sentinel sentinel-pass "{sentinel_password}"'] if sentinel_password else []),
            )
            for other, each in enumerate(self.sentinels):
                if other != own:
                    node.write(f"sentinel known-sentinel {MASTER} {LOOPBACK} {each.port} {names[other]}")
        listed = ",".join(f"{LOOPBACK}:{port}" for port in watching)
        self.url = f"sentinel://{listed}/{MASTER}"

    def start(self) -> None:
        for node in self.servers:
            node.start()
        # "online" is not enough: what is written goes over from the replica's first acknowledgement on.
        wait_for(lambda: self.servers[0].line.set("ready", 1) and self.servers[0].line.wait(1, 50))
        for node in self.sentinels:
            node.start()
            with contextlib.suppress(ResponseError):  # Redis 6 has no such thing, and takes longer
                node.line.execute_command("SENTINEL", "DEBUG", *_SWIFT, *_STEADY)
        wait_for(lambda: all(self._sees(node) for node in self.sentinels))

    @staticmethod
    def _sees(sentinel: Node) -> bool:
        """Ready to carry out a fail-over; an error until the others were heard."""
        sentinel.line.execute_command("SENTINEL", "CKQUORUM", MASTER)
        [replica] = sentinel.line.sentinel_slaves(MASTER)
        return str(replica["master-link-status"]) == "ok"

    def master(self) -> Node:
        """Whom the sentinels name now."""
        _, port = self.sentinels[0].line.sentinel_get_master_addr_by_name(MASTER)
        return next(node for node in self.servers if node.port == int(port))

    async def change(self, former: Node) -> Node:
        """Wait until they name another than `former`; the new master."""
        await asyncio.to_thread(wait_for, lambda: self.master() is not former, self.told)
        return self.master()

    def told(self) -> str:
        """What the sentinels wrote down."""
        return "\n".join((node.folder / "log").read_text() for node in self.sentinels)

    def remove(self) -> None:
        for node in (*self.sentinels, *self.servers):
            node.remove()


class RedisCluster:
    """Three masters, each with a third of the slots; the first has a replica."""

    def __init__(self) -> None:
        options = _QUIET | {
            "cluster-enabled": "yes",
            "cluster-config-file": "nodes.conf",
            "cluster-node-timeout": "1000",
            "repl-diskless-sync-delay": "0",
            "repl-ping-replica-period": "600",
        }
        *masters, replica = free_ports(4)
        self.nodes = [Node(port, options) for port in masters]
        self.replica = Node(replica, options)
        self.url = "cluster://" + ",".join(f"{LOOPBACK}:{node.port}" for node in self.nodes)
        self._moved: dict[int, tuple[Node, Node]] = {}

    def start(self) -> None:
        for number, node in enumerate(self.nodes):
            node.start()
            slots = range(SLOTS * number // 3, SLOTS * (number + 1) // 3)
            node.line.execute_command("CLUSTER", "ADDSLOTS", *slots)
            node.line.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        self.replica.start()
        for node in (*self.nodes[1:], self.replica):
            node.line.execute_command("CLUSTER", "MEET", LOOPBACK, self.nodes[0].port)
        master = self.nodes[0]
        wait_for(lambda: self.replica.line.execute_command("CLUSTER", "REPLICATE", self._name(master)))
        # A replica stands on the map once it has got something.
        key = next(key for key in map(str, range(SLOTS)) if key_slot(key.encode()) < SLOTS // 3)
        wait_for(lambda: master.line.set(key, 1) and master.line.wait(1, 50))
        wait_for(lambda: all(self._whole(node) for node in self.nodes))

    @staticmethod
    def _whole(node: Node) -> bool:
        told: str = node.line.execute_command("CLUSTER", "INFO").decode()
        seen = [len(each[3:]) for each in node.line.execute_command("CLUSTER SLOTS")]
        return "cluster_state:ok" in told and sorted(seen) == [0, 0, 1]

    def _agree(self) -> bool:
        """Whether all hold the same to be true, and as new: a slot that moves on before that is taken back
        by whoever hears only then that its former owner had it.
        """
        maps = []
        for node in (*self.nodes, self.replica):
            lines = node.line.execute_command("CLUSTER", "NODES").decode().splitlines()
            maps.append({(words[0], *words[6:]) for words in map(str.split, lines)})
        return all(each == maps[0] for each in maps)

    def empty(self) -> None:
        for slot, (source, _) in list(self._moved.items()):
            self.give(slot, source)
        for node in self.nodes:
            node.line.flushall()
        wait_for(lambda: all(self._whole(node) for node in self.nodes))

    @staticmethod
    def _name(node: Node) -> str:
        return str(node.line.execute_command("CLUSTER", "MYID").decode())

    def owner(self, slot: int) -> Node:
        for first, last, master, *_ in self.nodes[0].line.execute_command("CLUSTER SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == master[1])
        raise AssertionError(f"nobody has slot {slot}")

    def another(self, node: Node) -> Node:
        return next(each for each in self.nodes if each is not node)

    # The steps of `redis-cli --cluster reshard`, to stop between them.

    def open(self, slot: int, source: Node, target: Node) -> None:
        target.line.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", self._name(source))
        source.line.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", self._name(target))

    def carry(self, slot: int, source: Node, target: Node) -> int:
        """The keys that are in the slot go over; how many."""
        keys = source.line.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000)
        if keys:
            source.line.execute_command(
                "MIGRATE", LOOPBACK, target.port, "", 0, 5000, "REPLACE", "KEYS", *keys
            )
        return len(keys)

    def give(self, slot: int, target: Node) -> None:
        """All of a slot to `target`, keys first."""
        source = self.owner(slot)
        if source is not target:
            self.open(slot, source, target)
            self.carry(slot, source, target)
            self.close(slot, source, target)

    def close(self, slot: int, source: Node, target: Node) -> None:
        first = self._moved.get(slot, (source, target))[0]
        for node in (target, source, *self.nodes):
            node.line.execute_command("CLUSTER", "SETSLOT", slot, "NODE", self._name(target))
        self._moved[slot] = (first, target)
        if first is target:
            del self._moved[slot]
        wait_for(self._agree)

    def remove(self) -> None:
        for node in (*self.nodes, self.replica):
            node.remove()


def wait_for(condition: Callable[[], Any], told: Callable[[], str] = str) -> None:
    """`told`: what it says where it does not come."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(RedisError, ValueError, KeyError):
            if condition():
                return
        assert time.monotonic() < deadline, f"it does not come\n{told()}"
        time.sleep(0.02)


def _serve_sentinels() -> Iterator[SentinelGroup]:
    group = SentinelGroup()
    try:
        group.start()
        yield group
    finally:
        group.remove()


@pytest.fixture(scope="session")
def shared_sentinels() -> Iterator[SentinelGroup]:
    yield from _serve_sentinels()


@pytest.fixture
def sentinels(shared_sentinels: SentinelGroup) -> SentinelGroup:
    """Emptied; its servers stay up: for a fail-over there is `own_sentinels`."""
    shared_sentinels.master().line.flushall()
    return shared_sentinels


@pytest.fixture
def own_sentinels() -> Iterator[SentinelGroup]:
    """Of this test alone: its servers may be killed."""
    yield from _serve_sentinels()


def _serve_cluster() -> Iterator[RedisCluster]:
    cluster = RedisCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[RedisCluster]:
    yield from _serve_cluster()


@pytest.fixture
def redis_cluster(shared_cluster: RedisCluster) -> RedisCluster:
    """Emptied, each slot where it was at first."""
    shared_cluster.empty()
    return shared_cluster


@pytest.fixture
def own_cluster() -> Iterator[RedisCluster]:
    """Of this test alone: its nodes may be killed."""
    yield from _serve_cluster()
