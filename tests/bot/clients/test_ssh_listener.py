"""Whose port it is, from what ss prints to a user who is not root."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.clients.ssh_link import Finished
from bot.clients.ssh_listener import Listener, belongs, is_within, parse_groups, parse_listeners

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUP = "/system.slice/sglang-kimi.service"
ROWS = """\
LISTEN 0      2048   127.0.0.1:30000 0.0.0.0:* users:(("python3",pid=67,fd=11),("python3",pid=66,fd=11)) \
uid:999 ino:59438 sk:2 cgroup:/system.slice/sglang-kimi.service <->
LISTEN 0      128      0.0.0.0:22    0.0.0.0:* ino:57568 sk:3 cgroup:/system.slice/ssh.service <->
LISTEN 0      128        [::]:22       [::]:* ino:57569 sk:4 cgroup:/system.slice/ssh.service v6only:1 <->
LISTEN 0      128 127.0.0.53%lo:53    0.0.0.0:* uid:101 ino:9 sk:5 cgroup:unreachable:1a2f <->
LISTEN 0      128            *:8080        *:* ino:10 sk:6 <->
"""


@pytest.mark.parametrize(
    ("port", "listeners"),
    [
        (30000, (Listener("127.0.0.1", pids=(66, 67), group=GROUP),)),
        (
            22,
            (
                Listener("0.0.0.0", group="/system.slice/ssh.service"),  # noqa: S104  what ss prints
                Listener("[::]", group="/system.slice/ssh.service"),
            ),
        ),
        (53, (Listener("127.0.0.53%lo", group_number=0x1A2F),)),
        (8080, (Listener("*"),)),
        (3000, ()),
        (0, ()),
    ],
)
def test_rows_of_a_port(port: int, listeners: tuple[Listener, ...]) -> None:
    assert parse_listeners(ROWS, port) == listeners


@pytest.mark.parametrize(
    "text", ["", "LISTEN", "LISTEN 0 0", "ESTAB 0 0 a:30000 b:1", "\0\0", "LISTEN 0 0 x y"]
)
def test_rows_that_are_none(text: str) -> None:
    assert parse_listeners(text, 30000) == ()


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("0::/system.slice/a.service\n", "/system.slice/a.service"),
        ("4:memory:/x\n1:name=systemd:/system.slice/a.service\n0::/b\n", "/system.slice/a.service"),
        ("4:memory:/x\n", None),
        ("", None),
    ],
)
def test_the_group_of_a_process(text: str, group: str | None) -> None:
    assert parse_groups(text) == group


@pytest.mark.parametrize(
    ("group", "within"),
    [
        (GROUP, True),
        (GROUP + "/engine", True),
        (GROUP + "-two", False),
        ("/system.slice", False),
        ("/", False),
    ],
)
def test_a_group_and_those_below_it(group: str, *, within: bool) -> None:
    assert is_within(group, GROUP) is within


class Machine:
    """Answers commands as a host would."""

    def __init__(self, rows: str, answers: dict[str, Finished] | None = None) -> None:
        self.rows = rows
        self.answers = answers or {}
        self.asked: list[tuple[str, ...]] = []

    async def run(self, arguments: Sequence[str]) -> Finished:
        self.asked.append(tuple(arguments))
        if arguments[0] == "ss":
            return Finished(0, self.rows, "Failed to open cgroup2 by ID\n")
        missing = Finished(1, "", "No such file or directory")
        return next(
            (f for start, f in self.answers.items() if " ".join(arguments).startswith(start)), missing
        )


def row(rest: str, address: str = "127.0.0.1") -> str:
    return f"LISTEN 0 5 {address}:30000 0.0.0.0:* {rest} <->\n"


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        (row(f"cgroup:{GROUP}"), True),
        (row(f"cgroup:{GROUP}/ranks"), True),
        (row("cgroup:/system.slice/other.service"), False),
        (row("cgroup:/user.slice/user-1000.slice/session-3.scope"), False),
        (row(""), None),
        ("", None),
        (row("cgroup:/init.scope"), None),
        (row("cgroup:/system.slice/docker-4f2a.scope"), None),
        (row("cgroup:/machine.slice/libpod-77.scope/container"), None),
        (row(f"cgroup:{GROUP}") + row(f"cgroup:{GROUP}", "[::1]"), True),
        (row(f"cgroup:{GROUP}") + row("cgroup:/system.slice/other.service", "[::1]"), None),
    ],
)
async def test_whose_port(rows: str, *, answer: bool | None) -> None:
    assert await belongs(Machine(rows).run, port=30000, unit_group=GROUP) is answer


async def test_a_unit_without_processes_owns_no_port() -> None:
    assert await belongs(Machine(row("cgroup:/a")).run, port=30000, unit_group="") is False
    assert await belongs(Machine("").run, port=30000, unit_group="") is None


async def test_a_process_of_the_users_own_is_asked_for() -> None:
    machine = Machine(
        row('users:(("python3",pid=67,fd=3))'), {"cat /proc/67/cgroup": Finished(0, f"0::{GROUP}\n", "")}
    )
    assert await belongs(machine.run, port=30000, unit_group=GROUP) is True


@pytest.mark.parametrize("mount", ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"])
@pytest.mark.parametrize(("found", "answer"), [(GROUP, True), ("/system.slice/other.service", False)])
async def test_a_group_that_ss_may_not_resolve_is_found_by_its_number(
    mount: str, found: str, *, answer: bool
) -> None:
    machine = Machine(
        row("cgroup:unreachable:7a9"),
        {"find": Finished(1, f"{mount}{found}\n", "find: '/sys/fs/cgroup/unified': No such file")},
    )
    assert await belongs(machine.run, port=30000, unit_group=GROUP) is answer
    assert machine.asked[-1][-3:] == ("-inum", str(0x7A9), "-print")


async def test_a_number_that_is_no_group_here() -> None:
    machine = Machine(row("cgroup:unreachable:7a9"), {"find": Finished(0, "", "")})
    assert await belongs(machine.run, port=30000, unit_group=GROUP) is None


async def test_the_root_group_says_nothing() -> None:
    machine = Machine(row("cgroup:unreachable:1"), {"find": Finished(0, "/sys/fs/cgroup\n", "")})
    assert await belongs(machine.run, port=30000, unit_group=GROUP) is None


async def test_a_host_without_ss() -> None:
    async def run(_: Sequence[str]) -> Finished:
        return Finished(127, "", "env: 'ss': No such file or directory")

    assert await belongs(run, port=30000, unit_group=GROUP) is None
