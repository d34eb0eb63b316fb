"""What sentinels watch: the master of now, replicas that have what was written, addresses that are wrong."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from bot.clients.redis_link import RedisLink
from bot.clients.redis_sentinel import SentinelClient
from bot.errors import StoreUnavailable
from bot.practice.redis import find_server
from config.redis_url import parse_redis_url
from tests.support.outbox import until
from tests.support.redis_many import LOOPBACK, MASTER, Node, SentinelGroup, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from structlog.typing import EventDict

    from tests.support.redis import MakeLink

INCREASE = "return redis.call('INCR', KEYS[1])"
READ = "return redis.call('GET', KEYS[1])"


async def test_what_a_script_wrote_is_on_the_replica_when_it_returns(
    sentinels: SentinelGroup, make_link: MakeLink
) -> None:
    link = make_link(sentinels.url)
    master = sentinels.master()
    replica = next(node for node in sentinels.servers if node is not master)
    for number in range(1, 20):
        before = master.line.info("replication")["master_repl_offset"]
        assert await link.run(INCREASE, ["x"]) == number
        assert master.line.info("replication")["slave0"]["offset"] > before, "acknowledged"
        assert replica.line.get("x") == str(number).encode()


async def test_where_no_replica_answers_work_goes_on(sentinels: SentinelGroup, make_link: MakeLink) -> None:
    link = make_link(sentinels.url, timeout=20)
    replica = next(node for node in sentinels.servers if node is not sentinels.master())
    os.kill(replica.process.pid, signal.SIGSTOP)
    try:
        with capture_logs() as logs:
            for number in range(1, 20):
                assert await link.run(INCREASE, ["x"]) == number
        assert [entry["event"] for entry in logs] == ["redis_replica_behind"], "told once"
    finally:
        os.kill(replica.process.pid, signal.SIGCONT)
    with capture_logs() as logs:
        await until(lambda: _caught_up(link, logs))


async def _caught_up(link: RedisLink, logs: Sequence[EventDict]) -> bool:
    await link.run(INCREASE, ["x"])
    return "redis_replica_caught_up" in [entry["event"] for entry in logs]


async def test_more_at_once_than_there_are_connections(sentinels: SentinelGroup, make_link: MakeLink) -> None:
    link = make_link(sentinels.url, connections=3)
    await asyncio.gather(*(link.run(INCREASE, ["x"]) for _ in range(50)))
    assert set(await asyncio.gather(*(link.ask(link.redis.get("x")) for _ in range(50)))) == {b"50"}


async def test_no_sentinel_is_forgotten_when_many_look_at_once(sentinels: SentinelGroup) -> None:
    """The first listed is down, so that each who asks moves the one that answered to the head."""
    listed = ",".join(f"127.0.0.1:{port}" for port in (1, *(node.port for node in sentinels.sentinels)))
    address = parse_redis_url(f"sentinel://{listed}/{MASTER}")
    client = SentinelClient(address, connections=32, timeout=5)
    await asyncio.gather(*(client.ping() for _ in range(32)))
    known = {node.connection_pool.connection_kwargs["port"] for node in client.sentinels.sentinels}
    assert known == {port for _, port in address.hosts}
    await client.aclose()


async def test_a_cancellation_is_never_swallowed(sentinels: SentinelGroup, make_link: MakeLink) -> None:
    link = make_link(sentinels.url)
    for steps in range(0, 60, 3):
        task = asyncio.create_task(_forever(link))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=60)
        assert done, steps
        assert task.cancelled()
    assert await link.run("return ARGV[1]", ["x"], "in step") == b"in step"


async def _forever(link: RedisLink) -> None:
    await link.run(INCREASE, ["x"])
    await asyncio.Event().wait()


async def test_a_connection_to_a_former_master_is_left(
    own_sentinels: SentinelGroup, make_link: MakeLink
) -> None:
    """It takes writes until it is told that it is master no more; those must not be lost."""
    link = make_link(own_sentinels.url, timeout=20)
    former = own_sentinels.master()
    await link.run(INCREASE, ["x"])
    own_sentinels.sentinels[0].line.execute_command("SENTINEL", "FAILOVER", MASTER)
    new = await own_sentinels.change(former)
    assert await link.run(INCREASE, ["x"]) == 2
    assert new.line.get("x") == b"2"
    assert f"master 127.0.0.1:{new.port}" in await link.describe()


async def test_a_master_that_hangs_is_left_within_the_time(
    own_sentinels: SentinelGroup, make_link: MakeLink
) -> None:
    link = make_link(own_sentinels.url, timeout=2)
    await asyncio.gather(*(link.run(INCREASE, ["x"]) for _ in range(8)))  # several connections stand
    former = own_sentinels.master()
    os.kill(former.process.pid, signal.SIGSTOP)
    told = []
    while True:
        try:
            async with asyncio.timeout(60):  # much longer than the link may take
                assert await link.run(INCREASE, ["x"]) >= 9, "again, where an answer was lost"
            break
        except StoreUnavailable as error:
            told.append(str(error))
    assert all("sentinel://" in words for words in told)
    assert own_sentinels.master() is not former


@pytest.fixture
def cut_off(sentinels: SentinelGroup) -> Iterator[Node]:
    """A sentinel that names what is no master any more."""
    former = next(node for node in sentinels.servers if node is not sentinels.master())
    node = Node(free_ports(1)[0], {"bind": LOOPBACK}, "--sentinel")
    # It asks each ten seconds, and takes as many times as long to believe the answer.
    node.write(f"sentinel monitor {MASTER} {LOOPBACK} {former.port} 1")
    try:
        node.start()
        yield node
    finally:
        node.remove()


async def test_a_former_master_answers_nobody_with_what_was(sentinels: SentinelGroup, cut_off: Node) -> None:
    sentinels.master().line.set("x", 1)
    link = RedisLink(f"sentinel://{LOOPBACK}:{cut_off.port}/{MASTER}", timeout=1)
    try:
        with pytest.raises(StoreUnavailable, match="is no master but b'slave'"):
            await link.ask(link.redis.get("x"))
    finally:
        await link.close()


@pytest.fixture
def alone() -> Iterator[Node]:
    """A server that nobody watches."""
    node = Node(free_ports(1)[0], {"bind": LOOPBACK, "save": '""', "requirepass": "word"})
    try:
        node.line.connection_pool.connection_kwargs["password"] = "word"
        node.start()
        yield node
    finally:
        node.remove()


async def test_wrong_addresses_are_told_with_the_way_out(sentinels: SentinelGroup, alone: Node) -> None:
    listed = sentinels.url.removeprefix("sentinel://").removesuffix(f"/{MASTER}")
    wrong = {
        f"sentinel://{listed}/other": "SENTINEL MASTERS",
        f"sentinel://127.0.0.1:1/{MASTER}": "not all of them answer",
        f"sentinel://127.0.0.1:{alone.port}/{MASTER}": "sentinel_password=",
        f"sentinel://u:secret@{listed}/{MASTER}": "user or password",
        f"sentinel://127.0.0.1:{alone.port}/{MASTER}?sentinel_password=word": "is no sentinel",
        f"cluster://:word@127.0.0.1:{alone.port}": "is no Cluster",
        f"cluster://:secret@127.0.0.1:{alone.port}": "user or password",
        "cluster://:secret@127.0.0.1:1": "cluster://127.0.0.1:1",
        f"redis://127.0.0.1:{alone.port}": "user or password",
    }
    for url, words in wrong.items():
        link = RedisLink(url, timeout=3 if url.startswith("redis") else 0.3)
        with pytest.raises(StoreUnavailable, match=words) as caught:
            await link.describe()
        assert "secret" not in str(caught.value)
        await link.close()


def write_certificate(path: Path) -> None:
    """Self-signed, of the loopback address, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "redis")])
    began = datetime.now(UTC) - timedelta(hours=1)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(began)
        .not_valid_after(began + timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(certificate.public_bytes(Encoding.PEM) + private)


@pytest.mark.skipif(
    b"tls-cert-file" not in find_server().read_bytes(), reason="this Redis was built without TLS"
)
async def test_tls_and_passwords_of_both_kinds(tmp_path: Path) -> None:
    pem = tmp_path / "redis.pem"
    write_certificate(pem)
    group = SentinelGroup(password="p@:/w", sentinel_password="s w", certificate=str(pem))
    try:
        await asyncio.to_thread(group.start)
        listed = group.url.removeprefix("sentinel://")
        query = f"sentinel_password=s%20w&ssl_ca_certs={pem}"
        link = RedisLink(f"sentinels://:p%40%3A%2Fw@{listed}/3?{query}")
        assert await link.run(INCREASE, ["x"]) == 1
        assert "db3" in group.master().line.info("keyspace")
        await link.close()
        wrong = {
            f"sentinels://{listed}?ssl_ca_certs={pem}": "sentinel_password=",
            f"sentinels://:secret@{listed}?{query}": "user or password",
            f"sentinels://:secret@{listed}?sentinel_password=s%20w": "SENTINEL MASTERS",
        }
        for url, words in wrong.items():
            link = RedisLink(url, timeout=1)
            with pytest.raises(StoreUnavailable, match=words):
                await link.describe()
            await link.close()
    finally:
        group.remove()
