"""Orders to systemd, what it says, and how often that costs a connection."""

from __future__ import annotations

import asyncio
import shlex
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.clients.ssh import Host
from bot.core.events import Cursor, UnitName, Verb
from bot.core.log_file import FilePosition
from bot.errors import (
    CommandTimedOut,
    HostError,
    HostUnreachable,
    OwnershipLost,
    PermissionRefused,
    UnitCommandFailed,
    UnitUnknown,
)
from tests.support.ssh import Process, Said, connect, hang, serve

if TYPE_CHECKING:
    from pathlib import Path

UNIT = UnitName("sglang-kimi.service")
SHOWN = "LoadState=loaded\nActiveState=active\nSubState=running\nCPUUsageNSec=[not set]\n"


@pytest.mark.parametrize("verb", [Verb.RESTART, Verb.START, Verb.STOP])
async def test_an_order_goes_out_once_through_sudo(tmp_path: Path, verb: Verb) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["sudo"] = Said()
        await host.change(UNIT, verb, scope="system")
        assert server.commands == [["sudo", "-n", "systemctl", verb, "--no-block", UNIT]]


async def test_no_sudo_where_the_host_has_none_or_the_unit_is_the_users(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        server.answers["systemctl"] = Said()
        async with connect(server, sudo=False) as host:
            await host.change(UNIT, Verb.RESTART, scope="system")
        async with connect(server, sudo=True) as host:
            await host.change(UNIT, Verb.RESTART, scope="user")
        assert server.commands == [
            ["systemctl", "restart", "--no-block", UNIT],
            ["systemctl", "--user", "restart", "--no-block", UNIT],
        ]


async def test_sudo_is_asked_beforehand_without_changing_anything(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["sudo -n -l"] = Said(err="sudo: a password is required\n", status=1)
        with pytest.raises(PermissionRefused, match="sudo does not let kimi restart"):
            await host.check_sudo(UNIT, Verb.RESTART, scope="system")
        server.answers["sudo -n -l"] = Said("(root) NOPASSWD: /usr/bin/systemctl\n")
        await host.check_sudo(UNIT, Verb.RESTART, scope="system")
        assert server.commands == [["sudo", "-n", "-l"]] * 2
        await host.check_sudo(UNIT, Verb.RESTART, scope="user")
        assert len(server.commands) == 2
        server.answers["sudo -n -l"] = Said(err="env: 'sudo': No such file or directory\n", status=127)
        with pytest.raises(PermissionRefused, match="there is no sudo"):
            await host.check_sudo(UNIT, Verb.RESTART, scope="system")


async def test_to_watch_is_no_order(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        with pytest.raises(ValueError, match="no order"):
            await host.change(UNIT, Verb.WATCH, scope="system")
        assert server.commands == []


@pytest.mark.parametrize(
    "name", ["sglang-kimi", "--help", "a b.service", "x;reboot.service", "*.service", ""]
)
async def test_a_name_that_is_none_never_reaches_the_host(tmp_path: Path, name: str) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        unit = UnitName(name)
        with pytest.raises(UnitUnknown):
            await host.change(unit, Verb.RESTART, scope="system")
        with pytest.raises(UnitUnknown):
            await host.show(unit, scope="system")
        with pytest.raises(UnitUnknown):
            host.follow_journal(unit, scope="system")
        with pytest.raises(UnitUnknown):
            host.read_journal(unit, scope="system")
        assert server.logins == 0


@pytest.mark.parametrize(
    ("complaint", "kind", "part"),
    [
        ("sudo: a password is required", PermissionRefused, "`kimi-bot host-setup`"),
        ("sudo: unable to resolve host x\nsudo: a password is required", PermissionRefused, "sudo does not"),
        ("kimi is not in the sudoers file.", PermissionRefused, "`kimi-bot host-setup`"),
        ("Sorry, user kimi is not allowed to execute '/usr/bin/systemctl'", PermissionRefused, "sudo"),
        (
            "Failed to restart x.service: Interactive authentication required.",
            PermissionRefused,
            "sudo = true",
        ),
        ("Failed to restart x.service: Access denied", PermissionRefused, "hosts.llm-two.sudo"),
        ("Failed to restart x.service: Unit x.service not found.", UnitUnknown, "knows no unit"),
        ("Failed to restart x.service: Unit x.service is masked.", UnitCommandFailed, "systemctl unmask"),
        ("Failed to connect to bus: No medium found", UnitCommandFailed, "enable-linger kimi"),
        ("env: \u2018sudo\u2019: No such file or directory", PermissionRefused, "hosts.llm-two.sudo = false"),
        ("env: can't execute 'sudo': No such file or directory", PermissionRefused, "there is no sudo"),
        ("kimi-order: 1: exec: sudo: not found", PermissionRefused, "there is no sudo"),
        ("bash: line 1: sudo: command not found", PermissionRefused, "there is no sudo"),
        ("Job for x.service canceled.", UnitCommandFailed, "Job for x.service canceled"),
        ("sh: 1: systemctl: not found", UnitCommandFailed, "systemctl: not found"),
    ],
)
async def test_a_refused_order_names_host_and_way_out(
    tmp_path: Path, complaint: str, kind: type[Exception], part: str
) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["sudo"] = Said(err=complaint + "\n", status=1)
        with pytest.raises(kind) as caught:
            await host.change(UNIT, Verb.RESTART, scope="system")
        assert str(caught.value).startswith("llm-two: ")
        assert part in str(caught.value)
        assert not getattr(caught.value, "sent", None)


async def test_a_link_lost_after_the_order_went_out_says_so(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:

        async def cut(_: list[str], __: Process) -> None:
            server.cut()
            await asyncio.Event().wait()

        server.answers["sudo"] = cut
        with pytest.raises(HostUnreachable, match="lost during `sudo -n systemctl restart") as caught:
            await host.change(UNIT, Verb.RESTART, scope="system")
        assert caught.value.sent
        assert len(server.commands) == 1


async def test_an_order_that_is_not_answered_may_have_been_carried_out(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        server.answers["sudo"] = hang
        host = Host(server.name, server.section(), command_timeout=0.3)
        with pytest.raises(CommandTimedOut, match="overloaded or hung") as caught:
            await host.change(UNIT, Verb.RESTART, scope="system")
        assert caught.value.sent
        await host.close()


async def test_no_connection_means_not_sent(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        section = server.section()
    host = Host(server.name, section)
    with pytest.raises(HostUnreachable) as caught:
        await host.change(UNIT, Verb.RESTART, scope="system")
    assert not caught.value.sent


@pytest.mark.parametrize("allowed", [True, False])
async def test_an_order_is_asked_about_once_more_when_the_session_stands(
    tmp_path: Path, *, allowed: bool
) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["sudo"] = Said()
        await host.check_sudo(UNIT, Verb.RESTART, scope="system")
        server.commands.clear()
        logins: list[int] = []

        def check() -> None:
            logins.append(server.logins)
            if not allowed:
                raise OwnershipLost("another process has it")

        async def change() -> None:
            await host.change(UNIT, Verb.RESTART, scope="system", check=check)

        if allowed:
            await change()
        else:
            with pytest.raises(OwnershipLost):
                await change()
        assert logins == [1]  # the connection was there already
        assert len(server.commands) == int(allowed)
        server.answers["systemctl show"] = Said(SHOWN)
        await host.show(UNIT, scope="system")  # the connection is as good as before
        assert server.logins == 1


async def test_show_asks_once_and_reads_what_is_there(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["systemctl show"] = Said(SHOWN)
        state = await host.show(UNIT, scope="system")
        assert (state.active, state.sub, state.cpu) == ("active", "running", None)
        assert len(server.commands) == 1
        assert server.commands[0][:4] == ["systemctl", "show", UNIT, "-p"]


async def test_an_unknown_unit_is_a_state(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["systemctl show"] = Said("LoadState=not-found\nActiveState=inactive\nSubState=dead\n")
        assert (await host.show(UNIT, scope="system")).load == "not-found"


async def test_a_user_without_a_manager(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["systemctl --user show"] = Said(
            err="Failed to connect to bus: No medium found", status=1
        )
        with pytest.raises(UnitCommandFailed, match="enable-linger"):
            await host.show(UNIT, scope="user")


async def test_answers_come_in_no_ones_language(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["systemctl"] = Said(SHOWN)
        await host.show(UNIT, scope="system")
        words = shlex.split(server.lines[0])
        assert words[0] == "env"
        assert {"LC_ALL=C", "TZ=UTC", "SYSTEMD_COLORS=0"} <= set(words)


async def test_foreign_text_stays_one_argument(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["cat"] = Said("fine")
        foreign = "/a b; $(reboot) 'x' \"y\" \\ \n`z`"
        finished = await host.run(("cat", foreign))
        assert finished.out == "fine"
        assert server.commands == [["cat", foreign]]


async def test_the_boot_id_reads_as_the_journal_has_it(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["cat /proc/sys/kernel/random/boot_id"] = Said("0b5de2d1-6c3f-4a51-9c0e-8f4f3f9c1a2b\n")
        assert await host.boot_id() == "0b5de2d16c3f4a519c0e8f4f3f9c1a2b"


async def test_what_a_login_says_by_itself_is_no_part_of_an_answer(tmp_path: Path) -> None:
    """As `echo` in a ~/.bashrc does, which sshd's shell reads for each command."""
    greeting = "Welcome to llm-two, up 12 days\n\n2 updates\n"
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["cat /proc/sys"] = Said(f"{greeting}0b5de2d1-6c3f-4a51-9c0e-8f4f3f9c1a2b\n")
        assert await host.boot_id() == "0b5de2d16c3f4a519c0e8f4f3f9c1a2b"
        server.answers["cat /proc/uptime"] = Said(f"{greeting}1234.56 2000.00\n")
        assert await host.uptime() == 1234.56
        server.answers["systemctl"] = Said(greeting + SHOWN)
        assert (await host.show(UNIT, scope="system")).active == "active"
        assert (await host.show_all([UNIT], scope="system"))[UNIT].active == "active"
        server.answers["sh -c"] = Said(f"{greeting}17 4711 1700000000\n")
        assert await host.log_end("/var/log/kimi.log") == FilePosition(17, 4711, 1_700_000_000)


async def test_the_boot_id_is_asked_once_a_connection(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["cat /proc/sys/kernel/random/boot_id"] = Said("01\n")
        assert [await host.boot_id(), await host.boot_id()] == ["01", "01"]
        assert len(server.commands) == 1
        connection = await host._link.connection()
        server.answers["cat /proc/sys/kernel/random/boot_id"] = Said("02\n")
        server.cut()
        await connection.wait_closed()
        assert await host.boot_id() == "02"


async def test_a_host_without_a_boot_id(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        with pytest.raises(HostError, match="no boot id") as caught:
            await host.boot_id()
        assert not isinstance(caught.value, HostUnreachable)  # it answers, and may be followed without


async def test_where_the_journal_ends(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["journalctl"] = Said("-- No entries --\n-- cursor: s=aa;i=1f;b=bb;m=1;t=2;x=3\n")
        assert await host.journal_end(scope="system") == Cursor("s=aa;i=1f;b=bb;m=1;t=2;x=3")
        server.answers = {"journalctl": Said("-- No entries --\n")}
        assert await host.journal_end(scope="system") is None


async def test_a_journalctl_that_shows_no_cursor_without_an_entry(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["journalctl --no-pager -n 0"] = Said("-- No entries --\n")
        server.answers["journalctl --no-pager -o json"] = Said(
            '{"MESSAGE":"x","__CURSOR":"s=a;i=1","_PID":"1"}\n'
        )
        assert await host.journal_end(scope="system") == Cursor("s=a;i=1")


async def test_read_journal_passes_what_was_asked(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["journalctl"] = Said("{}\n")
        pieces = host.read_journal(UNIT, scope="system", since=timedelta(minutes=10), lines=50)
        assert b"".join([piece async for piece in pieces]) == b"{}\n"
        assert server.commands[-1][-4:] == ["--since=-600s", "-n", "50", f"--unit={UNIT}"]


@pytest.mark.parametrize(
    ("row", "belongs"),
    [
        ("cgroup:/system.slice/sglang-kimi.service <->", True),
        ("cgroup:/system.slice/nginx.service <->", False),
        ("", None),
    ],
)
async def test_whose_port_it_is(tmp_path: Path, row: str, *, belongs: bool | None) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["systemctl show"] = Said(f"ControlGroup=/system.slice/{UNIT}\n")
        server.answers["ss"] = Said(f"LISTEN 0 5 127.0.0.1:30000 0.0.0.0:* ino:59438 sk:2 {row}\n")
        assert await host.listener_belongs(30000, UNIT, scope="system") is belongs


@pytest.mark.parametrize(("told", "belongs"), [("ControlGroup=\n", False), ("", None)])
async def test_a_unit_without_a_group_has_no_port_and_one_whose_group_is_not_told_may_have_it(
    tmp_path: Path, told: str, *, belongs: bool | None
) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["systemctl show"] = Said(told)
        server.answers["ss"] = Said("LISTEN 0 5 127.0.0.1:30000 0.0.0.0:* cgroup:/system.slice/x.service\n")
        assert await host.listener_belongs(30000, UNIT, scope="system") is belongs
