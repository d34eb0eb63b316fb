"""One connection a host: made once, shared, made anew, and every way it cannot be made."""

from __future__ import annotations

import asyncio
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import asyncssh
import pytest

from bot.clients.ssh import Host
from bot.clients.ssh_link import Link
from bot.core.events import HostName
from bot.errors import (
    CommandTimedOut,
    HostError,
    HostKeyRejected,
    HostUnreachable,
    LoginRefused,
    PermissionRefused,
)
from config.services import HostSection
from tests.support.black_hole import black_hole
from tests.support.ssh import Process, Said, connect, hang, serve
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ECHO = ("echo", "x")


async def fail(section: HostSection, *, seconds: float = 5.0) -> HostError:
    """The error of the first command on a new connection."""
    host = Host(HostName("llm-two"), section, connect_timeout=seconds, command_timeout=5)
    with pytest.raises(HostError) as caught:
        await host.run(ECHO)
    await host.close()
    assert caught.value.host == "llm-two"
    assert str(caught.value).startswith("llm-two: ")
    return caught.value


async def test_all_commands_share_one_connection(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["echo"] = Said("x\n")
        answers = await asyncio.gather(*(host.run(ECHO) for _ in range(5)))
        assert [answer.out for answer in answers] == ["x\n"] * 5
        assert server.logins == 1


async def test_packets_are_encrypted_in_one_call_where_the_host_can(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        connection = await host._link.connection()
        assert connection.get_extra_info("send_cipher") == "aes128-gcm@openssh.com"
        assert connection.get_extra_info("recv_cipher") == "aes128-gcm@openssh.com"


async def test_a_lost_connection_is_made_anew(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["echo"] = Said("x\n")
        await host.run(ECHO)
        connection = await host._link.connection()
        server.cut()
        await connection.wait_closed()
        assert (await host.run(ECHO)).out == "x\n"
        assert (server.logins, host.connects) == (2, 2)


async def test_a_host_that_comes_back(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["echo"] = Said("x\n")
        await host.run(ECHO)
        connection = await host._link.connection()
        await server.stop()
        await connection.wait_closed()
        with pytest.raises(HostUnreachable, match="refuses connections"):
            await host.run(ECHO)
        await server.start()
        assert (await host.run(ECHO)).out == "x\n"


async def test_one_caller_who_gives_up_spoils_nothing_for_the_others(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["echo"] = Said("x\n")
        impatient = asyncio.create_task(host.run(ECHO))
        patient = asyncio.create_task(host.run(ECHO))
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await patient).out == "x\n"
        assert server.logins == 1


async def test_closing_twice_and_going_on(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["echo"] = Said("x\n")
        await host.run(ECHO)
        await host.close()
        await host.close()
        assert (await host.run(ECHO)).out == "x\n"


async def test_closing_while_connecting(tmp_path: Path) -> None:
    with silent_port() as port:
        host = Host(HostName("llm-two"), section_at(port, tmp_path), connect_timeout=30)
        asking = asyncio.create_task(host.run(ECHO))
        await asyncio.sleep(0.05)
        await host.close()
        with pytest.raises(HostUnreachable, match="closed here"):
            await asking


async def test_the_status_and_both_streams(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["echo"] = Said(out="out", err="err", status=3)
        finished = await host.run(ECHO)
        assert (finished.status, finished.out, finished.err, finished.complaint) == (3, "out", "err", "err")


async def test_a_command_that_says_too_much_is_read_to_its_end(tmp_path: Path) -> None:
    async def flood(_: list[str], process: Process) -> None:
        for _count in range(40):
            process.stdout.write(b"x" * 65536)
            await process.stdout.drain()
        process.exit(0)

    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["echo"] = flood
        assert len((await host.run(ECHO)).out) == 1 << 20


async def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    async def rubbish(_: list[str], process: Process) -> None:
        process.stdout.write(b"\xff\xfe\x00ok")
        process.exit(0)

    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["echo"] = rubbish
        assert (await host.run(ECHO)).out == "\ufffd\ufffd\x00ok"


async def test_a_command_killed_by_a_signal(tmp_path: Path) -> None:
    async def die(_: list[str], process: Process) -> None:
        process.exit_with_signal("KILL")

    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["echo"] = die
        assert (await host.run(ECHO)).status == -9


async def test_a_wrong_host_key_ends_it_before_anything_is_sent(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        server.trust(asyncssh.generate_private_key("ssh-ed25519"))
        error = await fail(server.section())
        assert isinstance(error, HostKeyRejected)
        assert "is not the one in" in str(error)
        assert server.logins == 0


async def test_a_host_key_of_another_kind(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        server.trust(asyncssh.generate_private_key("ecdsa-sha2-nistp256"))
        assert isinstance(await fail(server.section()), HostKeyRejected)
        assert server.logins == 0


async def test_a_host_that_known_hosts_does_not_know(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        (tmp_path / "known_hosts").write_text("")
        error = await fail(server.section())
        assert isinstance(error, HostKeyRejected)
        assert f"ssh-keyscan -p {server.port} 127.0.0.1" in str(error)
        assert server.logins == 0


@pytest.mark.parametrize(("content", "part"), [(None, "no such file"), ("[", "known_hosts")])
async def test_a_known_hosts_file_that_cannot_be_used(tmp_path: Path, content: str | None, part: str) -> None:
    async with serve(tmp_path) as server:
        (tmp_path / "known_hosts").unlink()
        if content is not None:
            (tmp_path / "known_hosts").write_text(content)
        error = await fail(server.section())
        assert isinstance(error, HostKeyRejected)
        assert part in str(error)


async def test_a_home_with_an_ssh_config_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile none\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    async with serve(tmp_path) as server:
        server.trust(asyncssh.generate_private_key("ssh-ed25519"))
        assert isinstance(await fail(server.section()), HostKeyRejected)


async def test_a_key_that_is_not_accepted(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(tmp_path / "id_ed25519"))
        error = await fail(server.section())
        assert isinstance(error, LoginRefused)
        assert "~kimi/.ssh/authorized_keys" in str(error)


@pytest.mark.parametrize(("content", "part"), [(None, "no such file"), ("nonsense", "identity_file")])
async def test_a_key_file_that_cannot_be_used(tmp_path: Path, content: str | None, part: str) -> None:
    async with serve(tmp_path) as server:
        (tmp_path / "id_ed25519").unlink()
        if content is not None:
            (tmp_path / "id_ed25519").write_text(content)
        error = await fail(server.section())
        assert isinstance(error, LoginRefused)
        assert part in str(error)


async def test_a_key_with_a_passphrase(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        server._client_key.write_private_key(str(tmp_path / "id_ed25519"), "pkcs8-pem", passphrase="secret")
        error = await fail(server.section())
        assert isinstance(error, LoginRefused)
        assert "assphrase" in str(error)


async def test_a_name_nobody_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    async with serve(tmp_path) as server:
        (tmp_path / "known_hosts").write_text(
            (tmp_path / "known_hosts").read_text().replace("127.0.0.1", "gone")
        )
        error = await fail(server.section(address="gone"))
        assert isinstance(error, HostUnreachable)
        assert "the name gone is not known; check hosts.llm-two.address" in str(error)


async def test_nobody_listens(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        section = server.section()
    error = await fail(section)
    assert isinstance(error, HostUnreachable)
    assert "refuses connections" in str(error)


async def test_a_host_that_accepts_and_says_nothing(tmp_path: Path) -> None:
    with silent_port() as port:
        error = await fail(section_at(port, tmp_path), seconds=0.3)
    assert isinstance(error, CommandTimedOut)
    assert "accepts connections and then says nothing for 0.3 s" in str(error)
    assert not error.sent


async def test_a_host_that_does_not_even_accept(tmp_path: Path) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            error = await fail(section_at(port, tmp_path), seconds=0.3)
    assert isinstance(error, HostUnreachable)
    assert "no answer from" in str(error)


@pytest.mark.parametrize(
    "greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-1.5-old\r\n", b"\0" * 9000]
)
async def test_something_that_is_no_ssh_server(tmp_path: Path, greeting: bytes) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        error = await fail(section_at(port, tmp_path))
    assert isinstance(error, HostUnreachable)


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (asyncssh.OPEN_CONNECT_FAILED, HostUnreachable),  # as sshd refuses one too many
        (asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, PermissionRefused),
    ],
)
async def test_a_host_that_opens_no_session_at_all(
    tmp_path: Path, refusal: int, kind: type[HostError]
) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.max_sessions, server.refusal = 0, refusal
        with pytest.raises(kind, match="MaxSessions") as caught:
            await host.run(ECHO)
        assert not caught.value.sent
        assert (server.refused, server.logins) == (1, 1)


async def test_an_order_waits_for_a_place_on_its_connection(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers |= {"echo": Said("x\n"), "wait": hang}
        server.max_sessions = 1
        link = host._link
        connection = await link.connection()
        waiting = asyncio.create_task(link.run(("wait",), connection=connection))
        await until(lambda: server.commands)
        order = asyncio.create_task(link.run(ECHO, connection=connection))
        assert (await link.run(ECHO)).out == "x\n"  # another connection is as good for it
        assert not order.done()
        waiting.cancel()
        assert (await order).out == "x\n"
        server.cut()
        await connection.wait_closed()
        with pytest.raises(HostUnreachable, match="lost") as caught:
            await link.run(ECHO, connection=connection)
        assert not caught.value.sent


async def test_no_place_in_time_means_not_sent(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        server.answers["wait"] = hang
        server.max_sessions = 1
        link = Link(server.name, server.section(), connect_timeout=0.5, command_timeout=0.5, keepalive=5)
        connection = await link.connection()
        waiting = asyncio.create_task(link.run(("wait",), connection=connection, within=30))
        await until(lambda: server.commands)
        with pytest.raises(HostUnreachable, match="no session was free for `echo x`") as caught:
            await link.run(ECHO, connection=connection)
        assert not caught.value.sent
        waiting.cancel()
        await link.close()


async def test_knocking(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        assert await host.knock("127.0.0.1", server.port) is None
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            refused = await host.knock("127.0.0.1", unused.getsockname()[1])
        assert str(refused) == "connection refused"
        server.forwarding = False
        assert isinstance(await host.knock("127.0.0.1", server.port), PermissionRefused)


async def test_a_link_that_swallows_every_byte_is_lost_in_bounded_time(tmp_path: Path) -> None:
    """A follower only reads, and would wait for ever; nobody tells it that the network drops what comes."""

    async def say_and_wait(_: list[str], process: Process) -> None:
        process.stdout.write(b"alive\n")
        await asyncio.Event().wait()

    async with serve(tmp_path) as server, black_hole(server.port) as way:
        server.answers["follow"] = say_and_wait
        server.answers["echo"] = Said("x\n")
        known = (tmp_path / "known_hosts").read_text().replace(str(server.port), str(way.port))
        (tmp_path / "known_hosts").write_text(known)
        section = server.section(port=way.port)
        link = Link(server.name, section, connect_timeout=5, command_timeout=30, keepalive=0.1)
        process = await link.open(("follow",))
        assert await process.stdout.readline() == b"alive\n"
        way.swallow()
        async with asyncio.timeout(60):  # four times the keepalive, and room for a busy machine
            with pytest.raises(asyncssh.ConnectionLost):
                await process.stdout.read(1)
        way.let_through()
        assert (await link.run(ECHO)).out == "x\n"
        assert way.passed == 2
        await link.close()


async def test_a_link_that_is_lost_before_it_has_a_session_has_sent_nothing(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, black_hole(server.port) as way:
        known = (tmp_path / "known_hosts").read_text().replace(str(server.port), str(way.port))
        (tmp_path / "known_hosts").write_text(known)
        section = server.section(port=way.port)
        link = Link(server.name, section, connect_timeout=5, command_timeout=30, keepalive=0.1)
        await link.connection()
        way.swallow()
        async with asyncio.timeout(60):
            with pytest.raises(HostUnreachable, match="the connection was lost during `echo x`") as caught:
                await link.run(ECHO)
        assert not caught.value.sent
        await link.close()


@contextmanager
def silent_port() -> Iterator[int]:
    """Something that accepts and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        yield listener.getsockname()[1]


def section_at(port: int, folder: Path) -> HostSection:
    """A section for a port where no SSH server stands; its files are fit for use."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(str(folder / "id"))
    (folder / "hosts").write_text(f"[127.0.0.1]:{port} {key.export_public_key().decode()}")
    return HostSection(
        address="127.0.0.1",
        port=port,
        user="kimi",
        identity_file=str(folder / "id"),
        known_hosts=str(folder / "hosts"),
    )
