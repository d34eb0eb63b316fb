"""Many units with one command, and one stream for all that is said of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncssh
import pytest

from bot.clients import ssh_watch
from bot.clients.ssh import Host
from bot.core.events import HostName, UnitName
from bot.errors import HostError, HostUnreachable, UnitUnknown
from bot.practice.darkness import DarkPort
from tests.support.ssh import Said, connect, hang, serve

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = UnitName("one.service"), UnitName("two.service")
SHOWN = "LoadState=loaded\nActiveState=active\nNRestarts=3\n\nLoadState=not-found\nActiveState=inactive\n"
JSON = ("journalctl", "--no-pager", "-o", "json", "--all")


def test_each_unit_has_a_block_in_the_order_in_which_they_were_named() -> None:
    shown = ssh_watch.parse_shown(SHOWN, [ONE, TWO])
    assert (shown[ONE].active, shown[ONE].restarts) == ("active", 3)
    assert (shown[TWO].load, shown[TWO].active) == ("not-found", "inactive")


def test_another_number_of_blocks_is_no_answer() -> None:
    with pytest.raises(ValueError, match="2 units where 1 were asked for"):
        ssh_watch.parse_shown(SHOWN, [ONE])


async def test_one_command_asks_for_all(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["systemctl"] = Said(SHOWN)
        shown = await host.show_all([ONE, TWO], scope="system")
        assert set(shown) == {ONE, TWO}
        [command] = server.commands
        assert command[:4] == ["systemctl", "show", ONE, TWO]
        server.answers["systemctl"] = Said("LoadState=loaded\n")
        with pytest.raises(HostError, match="tells of 1 units"):
            await host.show_all([ONE, TWO], scope="system")
        with pytest.raises(UnitUnknown):
            await host.show_all([ONE, UnitName("x;reboot.service")], scope="system")


def test_what_systemd_says_from_now_on() -> None:
    assert ssh_watch.unit_arguments([ONE, TWO], scope="system")[6:] == (
        "-f",
        "-n",
        "0",
        "_PID=1",
        f"UNIT={ONE}",
        f"UNIT={TWO}",
    )
    assert ssh_watch.unit_arguments([ONE], scope="user")[9:] == (f"USER_UNIT={ONE}",)


def test_with_it_what_the_units_and_the_kernel_say_where_the_pattern_matches() -> None:
    words = ssh_watch.telling_arguments([ONE], scope="system", pattern="Xid|died")
    assert words[:5] == JSON
    assert words[6:] == (
        "-f",
        "-n",
        "0",
        "--grep=Xid|died",
        "_PID=1",
        f"UNIT={ONE}",
        "+",
        f"_SYSTEMD_UNIT={ONE}",
        "+",
        "_TRANSPORT=kernel",
    )
    users = ssh_watch.telling_arguments([ONE], scope="user", pattern="Xid")
    assert users[10:] == (f"USER_UNIT={ONE}", "+", f"_SYSTEMD_USER_UNIT={ONE}", "+", "_TRANSPORT=kernel")


def test_a_journalctl_that_cannot_search_says_so() -> None:
    complaint = "llm-two: journalctl ended: Compiled without pattern matching support."
    assert ssh_watch.lacks_patterns(HostUnreachable(HostName("llm-two"), complaint))
    assert not ssh_watch.lacks_patterns(HostUnreachable(HostName("llm-two"), "connection lost"))


async def refuse(host: Host) -> str | None:
    """What bars the way to it, as the error of a look tells."""
    with pytest.raises(HostError) as lost:
        await host.show_all([ONE], scope="system")
    return ssh_watch.read_barrier(lost.value)


async def test_a_host_that_refuses_is_there_whatever_it_refuses_with(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        server.answers["systemctl"] = Said(err="Failed to connect to bus: No medium found", status=1)
        async with connect(server) as host:
            assert await refuse(host) == "SSH answers, but systemd there tells nothing"
        server.trust(asyncssh.generate_private_key("ssh-ed25519"))
        async with connect(server) as host:
            assert await refuse(host) == "SSH is refused (host key rejected)"
        server.trust(server._host_key)
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(tmp_path / "other"))
        async with connect(server, identity_file=str(tmp_path / "other")) as host:
            assert await refuse(host) == "SSH is refused (login not accepted)"
        async with connect(server, address="nowhere.invalid") as host:
            assert await refuse(host) == "SSH cannot be tried (the host's name is not known)"
        await server.stop()
        async with connect(server) as host:
            assert await refuse(host) == "SSH is refused (connection refused)"


async def test_what_answers_and_is_no_login_is_a_refusal(tmp_path: Path) -> None:
    greeting = b"220 mail ready\r\n" * 2000

    def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()

    async with (
        serve(tmp_path) as server,
        await asyncio.start_server(greet, "127.0.0.1", 0) as other,
        connect(server, port=other.sockets[0].getsockname()[1]) as host,
    ):
        assert await refuse(host) == "SSH is refused (what answers there does not speak it)"
        greeting = b""  # and it hangs up, with or without having read what it was sent
        assert await refuse(host) in {
            "SSH is refused (the connection is closed before the login)",
            "SSH is refused (connection reset)",
        }


async def test_a_host_that_does_not_answer_may_be_gone(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        dark = DarkPort("127.0.0.1", 0)
        host = Host(server.name, server.section(port=dark.port), connect_timeout=0.5)
        assert await refuse(host) is None
        await host.close()
        dark.close()
        server.answers["systemctl"] = hang
        hung = Host(server.name, server.section(), command_timeout=0.5)
        assert await refuse(hung) is None
        await hung.close()


def test_of_several_addresses_that_refuse_the_errors_are_told_as_one() -> None:
    cause = OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 22), [Errno 111] Connect")
    error = HostUnreachable("a", "a: no connection")
    error.__cause__ = cause
    assert ssh_watch.read_barrier(error) == "SSH is refused (connection refused)"
    error.__cause__ = OSError(113, "No route to host")
    assert ssh_watch.read_barrier(error) is None
