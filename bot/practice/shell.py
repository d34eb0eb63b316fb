"""The commands a practice host knows: systemctl, journalctl, ss, cat of the boot id and of the uptime."""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from bot.practice.instruments import Instruments
from bot.practice.journalctl import UNREADABLE, Reader, Refused, parse_query
from bot.practice.systemctl import Answer, answer_systemctl

if TYPE_CHECKING:
    from bot.practice.engine import Engine
    from bot.practice.journal import Journal
    from bot.practice.units import Unit

Write = Callable[[str], Awaitable[None]]

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_UPTIME = "/proc/uptime"
LOG_SCRIPT = "kimi-log"  # `$0` of the script that reads a log file
ORDER_SCRIPT = "kimi-order"  # and of the one that carries out what is in time
_UP_BEFORE, _BOOT_TAKES = 1_234_567.0, 20.0  # seconds
_VERBS = {"start", "stop", "restart", "daemon-reload"}
_DRIVER = "/sys/module/nvidia/version"
_SITE = "python3.11/site-packages"


@dataclass(slots=True)
class Unkindness:
    """Ways for a host to be difficult; each may be switched while it runs."""

    sudo_refused: bool = False  # sudo wants a password
    reload_refused: bool = False  # for daemon-reload alone: the sudoers file is older than that verb
    journal_unreadable: bool = False
    hang: bool = False  # commands are accepted and never answered
    unit_unknown: bool = False
    cut_after_verb: bool = False  # a verb is carried out, and the link is lost before the answer
    no_forwarding: bool = False
    processes_closed: bool = False  # /proc/PID/io and maps are another user's
    no_nvidia_smi: bool = False
    no_py_spy: bool = False
    no_uptime: bool = False  # no /proc/uptime


class LinkCut(Exception):
    """The connection breaks off here."""


class Shell:
    def __init__(
        self,
        units: dict[str, Unit],
        journal: Journal,
        engines: Sequence[Engine],
        unkind: Unkindness,
        *,
        gpus: int = 8,
    ) -> None:
        self.commands: list[tuple[str, ...]] = []  # every argument list that was run, in order
        self.late: list[tuple[str, ...]] = []  # those of them that came after their deadline
        self._booted = time.monotonic() - _UP_BEFORE
        self._units = units
        self.journal = journal
        self._engines = engines
        self.unkind = unkind
        self._instruments = Instruments(units, unkind, gpus=gpus)

    @property
    def uptime(self) -> float:
        """Real seconds since the host booted: the machine's own, whatever time is told."""
        return time.monotonic() - self._booted

    def reboot(self) -> None:
        self._booted = time.monotonic() - _BOOT_TAKES

    async def run(self, command: str, write: Write) -> Answer:
        """Carry one command line out; what streams goes through `write`, the rest is in the answer."""
        try:
            words = shlex.split(command)
        except ValueError:
            return Answer(2, error="sh: 1: Syntax error: Unterminated quoted string\n")
        self.commands.append(tuple(words))
        if self.unkind.hang:
            await asyncio.Event().wait()
        return await self._carry_out(words, write)

    async def _carry_out(self, words: list[str], write: Write) -> Answer:
        words, root = _unwrap(words)
        if words[:2] == ["sh", "-c"] and words[3:4] == [ORDER_SCRIPT]:
            if int(self.uptime * 100) >= int(words[4]):  # hundredths of a second
                self.late.append(self.commands[-1])
                return Answer(75, error=f"{ORDER_SCRIPT}: late\n")
            return await self._carry_out(words[5:], write)
        if root and (self.unkind.sudo_refused or (self.unkind.reload_refused and "daemon-reload" in words)):
            return Answer(1, error="sudo: a password is required\n")
        if root and words[:1] == ["-l"]:
            return Answer(
                0, "User kimi may run the following commands on llm-two:\n    (root) NOPASSWD: ALL\n"
            )
        measured = self._instruments.answer(words, root=root)
        return measured or await self._dispatch(words, write, root=root)

    async def _dispatch(self, words: list[str], write: Write, *, root: bool) -> Answer:
        name = PurePosixPath(words[0]).name if words else ""
        match name, words[1:]:
            case "systemctl", rest:
                return self._systemctl(rest, root=root)
            case "journalctl", rest:
                return await self._journalctl(rest, write)
            case "ss", rest:
                return self._ss(rest)
            case "sh", ["-c", _, name, path, *rest] if name == LOG_SCRIPT:
                return await self._log_file(path, rest, write)
            case "cat" | "find", [path, *_] if name == "find" or path in {_DRIVER, _BOOT_ID, _UPTIME}:
                return self._look(path)
            case _:
                return Answer(127, error=f"sh: 1: {name}: not found\n")

    def _systemctl(self, words: list[str], *, root: bool) -> Answer:
        user = "--user" in words
        rest = [word for word in words if word not in {"--user", "--system", "--no-pager"}]
        units = {name: unit for name, unit in self._units.items() if unit.file.user == user}
        verb = next((word for word in rest if word in _VERBS), None)
        if verb and not user and not root:
            error = f"Failed to {verb} {rest[-1]}: Interactive authentication required.\n"
            return Answer(1, error=error)
        answer = answer_systemctl(rest, {} if self.unkind.unit_unknown else units, user=user)
        if verb and self.unkind.cut_after_verb:
            raise LinkCut
        return answer

    async def _journalctl(self, words: list[str], write: Write) -> Answer:
        if self.unkind.journal_unreadable:
            return UNREADABLE
        try:
            async for chunk in Reader(parse_query(words), self.journal).read():
                await write(chunk)
        except Refused as refusal:
            return Answer(1, error=f"{refusal}\n")
        return Answer()

    async def _log_file(self, path: str, words: list[str], write: Write) -> Answer:
        files = (unit.log for unit in self._units.values() if unit.log is not None)
        file = next((file for file in files if file.path == path), None)
        return Answer(66) if file is None else await file.read(words, write)

    def _look(self, path: str) -> Answer:
        """What stands in a file, or in a library: the packages of units whose interpreter is beside it."""
        if path == _BOOT_ID:
            return Answer(output=_dashed(self.journal.boot) + "\n")
        if path == _UPTIME:
            if self.unkind.no_uptime:
                return Answer(1, error=f"cat: {_UPTIME}: No such file or directory\n")
            return Answer(output=f"{self.uptime:.2f} {self.uptime * 7:.2f}\n")
        if path == _DRIVER:
            # The other driver's file is not there: so the whole fails, and prints what there is.
            return Answer(1, output="570.124.06\n", error="cat: No such file or directory\n")
        home = path.removesuffix("/lib")
        files = [unit.file for unit in self._units.values()]
        own = (file for file in files if file.command_line.startswith(f"{home}/bin/"))
        names = (f"{path}/{_SITE}/{package}.dist-info\n" for file in own for package in file.packages)
        return Answer(output="".join(names))

    def _ss(self, words: list[str]) -> Answer:
        """Listening TCP sockets with their cgroup, as iproute2 6.1 prints them to a plain user."""
        ports = {int(port) for port in re.findall(r"sport\s*=?=?\s*:(\d+)", " ".join(words))}
        lines = [
            f"LISTEN 0      2048   127.0.0.1:{engine.port} 0.0.0.0:* uid:1000 ino:{2_310_000 + engine.pid} "
            f"sk:{engine.pid:x} cgroup:{engine.cgroup} <->\n"
            for engine in self._engines
            if engine.listening and (not ports or engine.port in ports)
        ]
        return Answer(output="".join(lines))


def _unwrap(words: list[str]) -> tuple[list[str], bool]:
    """Take `env`, assignments and `sudo -n` off the front; whether root was asked for."""
    rest, root = list(words), False
    while rest:
        if PurePosixPath(rest[0]).name == "sudo":
            root = True
            rest = rest[1:]
            while rest and rest[0] in {"-n", "--non-interactive", "--"}:
                rest = rest[1:]
        elif rest[0] in {"env", "/usr/bin/env", "exec"} or _ASSIGNMENT.fullmatch(rest[0]):
            rest = rest[1:]
        else:
            break
    return rest, root


def _dashed(identity: str) -> str:
    return "-".join((identity[:8], identity[8:12], identity[12:16], identity[16:20], identity[20:]))
