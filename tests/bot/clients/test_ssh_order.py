"""Orders with a deadline, over real SSH and by a real shell: in time carried out, late refused."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from bot.clients.ssh_link import Finished
from bot.clients.ssh_order import NAME, SCRIPT, UPTIME, Promise, is_late
from bot.core.events import UnitName, Verb
from bot.errors import HostError, OrderLate, OwnershipLost, PermissionRefused
from tests.support.ssh import Process, Said, SshServer, connect, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.clients.ssh import Host

UNIT = UnitName("sglang-kimi.service")
ORDER = ["sudo", "-n", "systemctl", "restart", "--no-block", UNIT]


@asynccontextmanager
async def stand(
    folder: Path, *, sudo: str = 'printf "%s\\n" "$*" >>"$ORDERS"'
) -> AsyncIterator[tuple[SshServer, Host]]:
    """A host whose `sh` and uptime are this machine's, and whose `sudo` writes down what it is told."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    tool = bin_folder / "sudo"
    tool.write_text(f"#!/bin/sh\n{sudo}\n")
    tool.chmod(0o755)
    environ = os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}", "ORDERS": str(folder / "orders")}

    async def run(words: list[str], process: Process) -> None:
        child = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environ
        )
        out, err = await child.communicate()
        process.stdout.write(out)
        process.stderr.write(err)
        process.exit(child.returncode or 0)

    async with serve(folder) as server, connect(server) as host:
        server.answers["sh -c"] = server.answers["cat /proc/uptime"] = server.answers["sudo"] = run
        yield server, host


def carried_out(folder: Path) -> list[str]:
    orders = folder / "orders"
    return orders.read_text().splitlines() if orders.exists() else []


async def test_an_order_in_time_is_carried_out_as_it_is(tmp_path: Path) -> None:
    async with stand(tmp_path) as (server, host):
        promise = await host.promise(10)
        await host.change(UNIT, Verb.RESTART, scope="system", promise=promise)
        assert carried_out(tmp_path) == [" ".join(ORDER[1:])]
        assert server.commands == [[*UPTIME], ["sh", "-c", SCRIPT, NAME, str(promise.deadline), *ORDER]]
        assert float(str(promise)) == pytest.approx(await host.uptime() + 10, abs=5)  # type: ignore[operator]


async def test_an_order_that_comes_late_is_refused_by_the_host(tmp_path: Path) -> None:
    async with stand(tmp_path) as (server, host):
        promise = await host.promise(0.05)
        await asyncio.sleep(0.1)
        with pytest.raises(OrderLate, match="after its deadline, and the host did nothing") as late:
            await host.change(UNIT, Verb.RESTART, scope="system", promise=promise)
        assert not late.value.sent
        assert carried_out(tmp_path) == []
        assert server.commands[-1][-len(ORDER) :] == ORDER  # it was the host that refused


async def test_a_promise_is_void_with_its_connection(tmp_path: Path) -> None:
    async with stand(tmp_path) as (server, host):
        promise = await host.promise(10)
        server.cut()
        while not promise.connection.is_closed():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with pytest.raises(OrderLate, match="nothing was sent"):
            await host.change(UNIT, Verb.RESTART, scope="system", promise=promise)
        assert server.commands == [[*UPTIME]]


async def test_units_of_a_user_and_hosts_without_sudo_are_wrapped_alike(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["cat"] = Said("5.07 3.11\n")
        server.answers["sh"] = Said()
        promise = await host.promise(10)
        assert promise.deadline == 1507
        await host.change(UNIT, Verb.START, scope="user", promise=promise)
        order = ["systemctl", "--user", "start", "--no-block", UNIT]
        assert server.commands[-1] == ["sh", "-c", SCRIPT, NAME, "1507", *order]


@pytest.mark.parametrize("said", [Said(err="cat: No such file\n", status=1), Said("soon\n"), Said("77 3\n")])
async def test_a_host_that_does_not_tell_its_uptime_gets_the_order_alone(tmp_path: Path, said: Said) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["cat"] = said
        server.answers["sudo"] = Said()
        promise = await host.promise(10)
        assert (promise.deadline, str(promise)) == (None, "none")
        assert await host.uptime() is None
        await host.change(UNIT, Verb.RESTART, scope="system", promise=promise)
        assert server.commands[-1] == ORDER


async def test_what_sudo_says_is_told_as_ever(tmp_path: Path) -> None:
    refusal = "echo 'sudo: a password is required' >&2; exit 1"
    async with stand(tmp_path, sudo=refusal) as (_, host):
        with pytest.raises(PermissionRefused):
            await host.change(UNIT, Verb.RESTART, scope="system", promise=await host.promise(10))


async def test_an_order_that_ends_with_the_same_status_is_not_late(tmp_path: Path) -> None:
    async with stand(tmp_path, sudo="exit 75") as (_, host):
        with pytest.raises(HostError) as error:
            await host.change(UNIT, Verb.RESTART, scope="system", promise=await host.promise(10))
        assert not isinstance(error.value, OrderLate)
    assert not is_late(Finished(1, "", "kimi-order: late"))


async def test_who_lost_the_operation_sends_nothing(tmp_path: Path) -> None:
    def lost() -> None:
        raise OwnershipLost("another process has it")

    async with stand(tmp_path) as (server, host):
        promise = await host.promise(10)
        with pytest.raises(OwnershipLost):
            await host.change(UNIT, Verb.RESTART, scope="system", promise=promise, check=lost)
        assert carried_out(tmp_path) == []
        assert server.commands == [[*UPTIME]]


def ask_shell(shell: tuple[str, ...], uptime: Path, deadline: int) -> asyncio.Future[int]:
    script = SCRIPT.replace("/proc/uptime", str(uptime))

    async def run() -> int:
        child = await asyncio.create_subprocess_exec(*shell, "-c", script, NAME, str(deadline), "true")
        return await child.wait()

    return asyncio.ensure_future(run())


@pytest.mark.parametrize("shell", [("sh",), ("bash", "--posix")])
@pytest.mark.parametrize(
    ("uptime", "deadline", "status"),
    [
        ("0.05 0.01\n", 6, 0),  # leading zeros are no octal number
        ("0.09 0.01\n", 9, 75),
        ("1234567.89 3.00\n", 123456790, 0),
        ("1234567.89 3.00\n", 123456789, 75),
        ("99999999.99 3.00\n", 10_000_000_000, 0),
        ("", 10, 75),
    ],
)
async def test_the_shell_compares_to_the_hundredth(
    tmp_path: Path, shell: tuple[str, ...], uptime: str, deadline: int, status: int
) -> None:
    file = tmp_path / "uptime"
    file.write_text(uptime)
    assert await ask_shell(shell, file, deadline) == status
    assert await ask_shell(shell, tmp_path / "nothing", deadline) == 75


async def test_only_a_deadline_wraps() -> None:
    connection = object()
    assert Promise(connection, None).wrap(("a", "b")) == ("a", "b")  # type: ignore[arg-type]
