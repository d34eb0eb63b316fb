"""Finds out, without root, whether the socket that listens on a port belongs to a unit."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeAlias

import structlog

from bot.clients.ssh_link import Finished

log = structlog.get_logger()

Run: TypeAlias = Callable[[Sequence[str]], Awaitable[Finished]]

SS = ("ss", "-H", "-l", "-t", "-n", "-e", "-p")
# Where the unified hierarchy is mounted; the first on hosts that have version 1 beside it.
_MOUNTS = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
# A process in a container has the container's group, whichever unit runs `docker run`.
_CONTAINER = re.compile(r"docker|containerd|libpod|podman|kubepods|crio|lxc|machine\.slice")


@dataclass(frozen=True, slots=True)
class Listener:
    """One row of `ss -ltnep`.

    `group` is the control group's path. Where ss may not resolve it, it prints `unreachable:HEX`, the group's
    number, which is the inode of the group's folder. `pids` are there for the user's own processes only.
    """

    address: str
    pids: tuple[int, ...] = ()
    group: str | None = None
    group_number: int | None = None


def parse_listeners(text: str, port: int) -> tuple[Listener, ...]:
    """The rows of the port: `LISTEN 0 128 127.0.0.1:30000 0.0.0.0:* users:(("x",pid=7,fd=3)) cgroup:/a`."""
    found = []
    for row in text.splitlines():
        cells = row.split()
        if cells[:1] != ["LISTEN"]:
            continue
        address, _, number = "".join(cells[3:4]).rpartition(":")
        if number == str(port):
            found.append(_listener(address, row))
    return tuple(found)


def _listener(address: str, row: str) -> Listener:
    path = re.search(r"\scgroup:(/\S*)", row)
    number = re.search(r"\scgroup:unreachable:([0-9a-f]+)", row)
    return Listener(
        address,
        pids=tuple(sorted({int(pid) for pid in re.findall(r"\bpid=([0-9]{1,9})", row)})),
        group=path[1] if path else None,
        group_number=int(number[1], 16) if number else None,
    )


def parse_groups(text: str) -> str | None:
    """A process's group from `/proc/PID/cgroup`: the unified hierarchy's line, else systemd's own."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        found[number if number == "0" else controllers] = path
    return found.get("name=systemd") or found.get("0") or None


def is_within(group: str, unit_group: str) -> bool:
    return group == unit_group or group.startswith(unit_group.rstrip("/") + "/")


async def belongs(run: Run, *, port: int, unit_group: str) -> bool | None:
    """Whether the port's listeners are in the unit's group or below it; None where the host does not tell."""
    finished = await run(SS)
    if finished.status:
        _untold("ss_failed", port=port, complaint=finished.complaint[:200])
        return None
    listeners = parse_listeners(finished.out, port)
    if not listeners:
        _untold("no_listener_seen", port=port)  # another network namespace
        return None
    if not unit_group:
        return False  # the unit has no processes at all, yet someone listens
    answers = {await _is_within(run, listener, unit_group=unit_group) for listener in listeners}
    if len(answers) > 1:
        _untold("several_listeners", port=port)
        return None
    return answers.pop()


async def _is_within(run: Run, listener: Listener, *, unit_group: str) -> bool | None:
    group = await _find_group(run, listener)
    if group is None:
        _untold("group_hidden", address=listener.address, number=listener.group_number)
        return None
    if is_within(group, unit_group):
        return True
    if group in {"/", "/init.scope"}:
        _untold("socket_of_systemd", address=listener.address)  # PID 1 made it, for this unit or another
        return None
    if _CONTAINER.search(group):
        _untold("socket_of_a_container", address=listener.address, group=group)
        return None
    return False


async def _find_group(run: Run, listener: Listener) -> str | None:
    for pid in listener.pids:
        finished = await run(("cat", f"/proc/{pid}/cgroup"))
        if finished.status == 0 and (group := parse_groups(finished.out)):
            return group
    if listener.group is not None:
        return listener.group
    if listener.group_number is not None:
        return await _find_by_number(run, listener.group_number)
    return None


async def _find_by_number(run: Run, number: int) -> str | None:
    """The group whose folder has this inode; any user may look. `-xdev` keeps out of version 1's folders."""
    finished = await run(("find", *_MOUNTS, "-xdev", "-type", "d", "-inum", str(number), "-print"))
    for line in finished.out.splitlines():
        for mount in _MOUNTS:
            path = PurePosixPath(line)
            if path.is_relative_to(mount):
                return "/" + str(path.relative_to(mount)).removeprefix(".")
    return None


def _untold(why: str, **facts: object) -> None:
    log.debug("listener_untold", why=why, **facts)
