"""Commands of the practice host, with the real ones' exit codes."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from bot.clock import Clock
from bot.practice.engine import Engine
from bot.practice.journal import Journal
from bot.practice.process import Exit, Process, UnitFile
from bot.practice.shell import LinkCut, Shell, Unkindness
from bot.practice.systemctl import Answer
from bot.practice.units import Unit

NAME = "a.service"


class Patient:
    async def run(self, process: Process) -> Exit:
        await process.terminated.wait()
        return Exit(1, 0)


def new_shell(*, user: bool = False, engines: tuple[Engine, ...] = ()) -> Shell:
    clock = Clock(1000)
    journal = Journal(clock)
    file = UnitFile(NAME, "A", user=user)
    unit = Unit(file, clock=clock, journal=journal, program=Patient(), pids=itertools.count(100))
    return Shell({NAME: unit}, journal, engines, Unkindness())


async def run(shell: Shell, command: str) -> Answer:
    async def ignore(_: str) -> None:
        pass

    return await shell.run(command, ignore)


async def test_every_argument_list_is_kept() -> None:
    shell = new_shell()
    await run(shell, "env LC_ALL=C sudo -n systemctl restart --no-block a.service")
    assert shell.commands == [
        ("env", "LC_ALL=C", "sudo", "-n", "systemctl", "restart", "--no-block", "a.service")
    ]


@pytest.mark.parametrize(
    "command",
    [
        "sudo -n systemctl restart --no-block a.service",
        "env LC_ALL=C TZ=UTC sudo -n systemctl --no-pager stop --no-block a.service",
        "LC_ALL=C sudo -n -- /usr/bin/systemctl start --no-block a.service",
    ],
)
async def test_the_ways_a_verb_is_given(command: str) -> None:
    assert await run(new_shell(), command) == Answer()


async def test_a_system_unit_needs_root_and_a_user_unit_does_not() -> None:
    refused = await run(new_shell(), "systemctl restart --no-block a.service")
    assert refused.status == 1
    assert refused.error == "Failed to restart a.service: Interactive authentication required.\n"
    assert await run(new_shell(user=True), "systemctl --user restart --no-block a.service") == Answer()


async def test_units_of_the_other_scope_are_unknown() -> None:
    command = "systemctl --user show a.service -p LoadState"
    assert (await run(new_shell(), command)).output == "LoadState=not-found\n"
    assert (await run(new_shell(user=True), command)).output == "LoadState=loaded\n"


async def test_a_host_that_is_unkind() -> None:
    shell = new_shell()
    shell.unkind.sudo_refused = True
    refused = await run(shell, "sudo -n systemctl restart --no-block a.service")
    assert refused == Answer(1, error="sudo: a password is required\n")
    shell.unkind = Unkindness(reload_refused=True)
    assert (await run(shell, "sudo -n -l systemctl daemon-reload")).status == 1
    assert (await run(shell, "sudo -n -l systemctl restart --no-block a.service")).status == 0
    shell.unkind = Unkindness(unit_unknown=True)
    assert (await run(shell, "sudo -n systemctl restart --no-block a.service")).status == 5
    shell.unkind = Unkindness(journal_unreadable=True)
    unreadable = await run(shell, "journalctl -n 0")
    assert unreadable.status == 1
    assert "No journal files were opened due to insufficient permissions." in unreadable.error
    shell.unkind = Unkindness(cut_after_verb=True)
    with pytest.raises(LinkCut):
        await run(shell, "sudo -n systemctl restart --no-block a.service")
    shell.unkind = Unkindness(hang=True)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run(shell, "systemctl show a.service"), 0.01)


async def test_the_boot_id_is_written_with_dashes() -> None:
    shell = new_shell()
    answer = await run(shell, "cat /proc/sys/kernel/random/boot_id")
    parts = answer.output.strip().split("-")
    assert [len(part) for part in parts] == [8, 4, 4, 4, 12]
    assert "".join(parts) == shell.journal.boot


async def test_listeners_are_shown_with_their_cgroup() -> None:
    engine = Engine(Clock(), "m")
    engine.reserve()
    shell = new_shell(engines=(engine,))
    assert await run(shell, "ss -H -l -t -n -e -p") == Answer()
    await engine.open(pid=7, cgroup="/system.slice/a.service")
    shown = (await run(shell, "ss -H -l -t -n -e -p")).output
    assert shown.split()[:5] == ["LISTEN", "0", "2048", f"127.0.0.1:{engine.port}", "0.0.0.0:*"]
    assert shown.endswith("cgroup:/system.slice/a.service <->\n")
    assert (await run(shell, f"ss -H -ltnpe sport = :{engine.port}")).output == shown
    assert await run(shell, "ss -H -ltnpe 'sport = :1'") == Answer()
    await engine.close()
    engine.release()


@pytest.mark.parametrize(
    ("command", "status", "error"),
    [
        ("rm -rf /", 127, "sh: 1: rm: not found\n"),
        ("cat /etc/passwd", 127, "sh: 1: cat: not found\n"),
        ("", 127, "sh: 1: : not found\n"),
        ("systemctl 'a", 2, "sh: 1: Syntax error: Unterminated quoted string\n"),
        ("journalctl --nonsense", 1, "journalctl: unrecognized option '--nonsense'\n"),
    ],
)
async def test_everything_else_is_refused(command: str, status: int, error: str) -> None:
    assert await run(new_shell(), command) == Answer(status, error=error)


async def test_output_of_journalctl_streams() -> None:
    shell = new_shell()
    shell.journal.append({"MESSAGE": b"hello"})
    written: list[str] = []

    async def write(text: str) -> None:
        written.append(text)

    assert await shell.run("journalctl -o cat -n 1", write) == Answer()
    assert written == ["hello\n"]


async def test_an_order_is_carried_out_until_its_deadline_and_refused_after() -> None:
    shell = new_shell()
    wrapped = (
        "env LC_ALL=C sh -c 'read -r up rest' kimi-order {} sudo -n systemctl restart --no-block a.service"
    )
    assert await run(shell, wrapped.format(int(shell.uptime * 100) + 500)) == Answer()
    assert shell.late == []
    late = await run(shell, wrapped.format(int(shell.uptime * 100)))
    assert late == Answer(75, error="kimi-order: late\n")
    assert shell.late == shell.commands[-1:]
    shell.unkind.sudo_refused = True
    assert (await run(shell, wrapped.format(int(shell.uptime * 100) + 500))).status == 1


async def test_the_uptime_is_real_seconds_and_begins_anew_with_a_boot() -> None:
    shell = new_shell()
    told = (await run(shell, "cat /proc/uptime")).output.split()
    assert len(told) == 2
    assert shell.uptime - 5 < float(told[0]) <= shell.uptime
    shell.reboot()
    assert float((await run(shell, "cat /proc/uptime")).output.split()[0]) < float(told[0])
    shell.unkind.no_uptime = True
    assert (await run(shell, "cat /proc/uptime")).status == 1
