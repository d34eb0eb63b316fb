"""A booted Debian with systemd, journald and sshd, a fake engine as a unit, and the hands to steer it."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from bot.core.events import HostName, UnitName
from config.services import HostSection, ServiceSection
from tests.systemd import cgroups
from tests.systemd.building import HostUnbuildable, base_tree, install_tools
from tests.systemd.fake_engine import DEFAULTS, SCENARIOS

UNIT = UnitName("sglang-kimi.service")
USER = "kimi"  # may do what the operators' guide asks for, and no more
STRANGER = "stranger"  # may log in, and nothing else
BOOT_SECONDS = 60.0
REBOOTED = 133  # how nspawn ends when the system inside it asks for a reboot

UNIT_FILE = """\
[Unit]
Description=A fake engine
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/python3 /opt/fake_engine.py /etc/fake-engine.json
TimeoutStopSec=10
Restart=no

[Install]
WantedBy=multi-user.target
"""
SUDOERS = "".join(
    f"{USER} ALL=(root) NOPASSWD: /usr/bin/systemctl {verb} --no-block {UNIT}\n"
    for verb in ("start", "stop", "restart")
)
SSHD_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
"""


@dataclass(frozen=True, slots=True)
class Remains:
    """What a command run as root left."""

    status: int
    out: str


class RealHost:
    """One booted host; `boot` starts it and `shut_down` ends it."""

    name = HostName("real")
    unit = UNIT
    model = str(DEFAULTS["model"])

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "tree"
        self.ssh_port, self.engine_port = _free_ports(2)
        self.key = folder / "id_ed25519"
        self.known_hosts = folder / "known_hosts"
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader = 0
        self._groups: list[Path] = []
        self._swallowing: list[socket.socket] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.engine_port}"

    @property
    def section(self) -> HostSection:
        return self.section_of(USER)

    def section_of(self, user: str) -> HostSection:
        return HostSection(
            address="127.0.0.1",
            port=self.ssh_port,
            user=user,
            identity_file=str(self.key),
            known_hosts=str(self.known_hosts),
            sudo=True,
        )

    def service_section(self, **changes: Any) -> ServiceSection:
        """A service on this host, as an operator would write it."""
        plain = {
            "host": self.name,
            "unit": self.unit,
            "engine": "sglang",
            "url": self.url,
            "model": self.model,
        }
        return ServiceSection.model_validate({**plain, "ranks": DEFAULTS["ranks"], **changes})

    def boot(self) -> None:
        install_tools()
        # Devices and owners too, which shutil would not copy.
        subprocess.run(["cp", "-a", "--reflink=auto", str(base_tree()), str(self.tree)], check=True)
        self._furnish()
        self._start()

    def shut_down(self) -> None:
        """Ask for an orderly end, and insist when it takes too long."""
        if self._nspawn is None:
            return
        self._nspawn.send_signal(signal.SIGTERM)
        try:
            self._nspawn.wait(20)
        except subprocess.TimeoutExpired:
            os.kill(self._leader, signal.SIGKILL)
            self._nspawn.kill()
            self._nspawn.wait()
        cgroups.remove(self._groups)
        shutil.rmtree(self.tree, ignore_errors=True)

    async def reboot(self) -> None:
        """As an operator does it; until an sshd of the next boot answers."""
        assert await self._leave("systemctl reboot") == REBOOTED
        await self.power_on()

    async def power_off(self) -> None:
        """As an operator does it; until nothing of it is left, and nothing answers at its ports.

        It shares this machine's network, which would refuse connections in its place: as a host does that is
        there, and only its sshd is not.
        """
        assert await self._leave("systemctl poweroff") == 0
        for port in (self.ssh_port, self.engine_port):
            self._swallowing += _swallow(port)

    async def power_on(self) -> None:
        """Until its sshd answers."""
        while self._swallowing:
            self._swallowing.pop().close()
        self._launch()
        await asyncio.to_thread(self._wait_for_sshd)
        assert self._nspawn is not None
        self._leader = _leader_of(self._nspawn.pid)

    async def _leave(self, command: str) -> int:
        """How nspawn ends then."""
        assert self._nspawn is not None
        await self.attempt(command)
        async with asyncio.timeout(BOOT_SECONDS):
            while (status := self._nspawn.poll()) is None:  # noqa: ASYNC110  nspawn sets no event here
                await asyncio.sleep(0.02)
        return status

    async def run(self, command: str) -> str:
        """Run a shell command inside the host as root; its output. Fails the test when the command fails."""
        remains = await self.attempt(command)
        assert remains.status == 0, f"`{command}` ended with {remains.status}: {remains.out}"
        return remains.out

    async def attempt(self, command: str) -> Remains:
        """Run a shell command inside the host as root; whatever it says and however it ends."""
        process = await asyncio.create_subprocess_exec(
            *self._inside("/bin/sh", "-c", f"cd /; {command}"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        return Remains(process.returncode or 0, out.decode(errors="replace"))

    async def set_scenario(self, name: str = "healthy", **changes: Any) -> None:
        """How the engine behaves from its next start on; `changes` override fake_engine.DEFAULTS."""
        seconds = {**DEFAULTS["seconds"], **changes.pop("seconds", {})}
        scenario = {"seconds": seconds, **SCENARIOS[name], **changes, "port": self.engine_port}
        content = shlex.quote(json.dumps(scenario))
        await self.run(f"printf %s {content} > /etc/fake-engine.json.new")
        await self.run("mv /etc/fake-engine.json.new /etc/fake-engine.json")

    async def reset(self) -> None:
        """A healthy scenario and a stopped unit with no failure on record: where each test begins."""
        await self.run(f"systemctl kill -s KILL {UNIT} 2>/dev/null; systemctl stop {UNIT}")
        await self.attempt(f"systemctl reset-failed {UNIT}")
        await self.set_scenario()

    async def main_pid(self) -> int:
        return int((await self.run(f"systemctl show {UNIT} -p MainPID --value")).strip())

    def _inside(self, *command: str) -> list[str]:
        spaces = ("--mount", "--uts", "--ipc", "--pid", "--cgroup")
        return ["nsenter", f"--target={self._leader}", *spaces, *command]

    def _furnish(self) -> None:
        """Lay users, keys, rights, sshd and the unit into the copied tree."""
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(self.key))
        self.key.chmod(0o600)
        self._write("etc/hostname", "llm-real\n")
        self._write("etc/hosts", "127.0.0.1 localhost llm-real\n")
        self._write("etc/default/locale", "")
        self._write("etc/ssh/sshd_config.d/kimi.conf", SSHD_CONFIG.format(port=self.ssh_port))
        self._write("etc/sudoers.d/kimi", SUDOERS, mode=0o440)
        self._write(f"etc/systemd/system/{UNIT}", UNIT_FILE)
        self._write("etc/fake-engine.json", json.dumps({"port": self.engine_port}))
        shutil.copy(Path(__file__).with_name("fake_engine.py"), self.tree / "opt/fake_engine.py")
        for folder in ("var/log/journal", "var/lib/systemd/linger"):
            (self.tree / folder).mkdir(parents=True, exist_ok=True)
        self._write(f"var/lib/systemd/linger/{USER}", "")
        self._add_user(USER, key, groups="systemd-journal")
        self._add_user(STRANGER, key)
        host_key = (self.tree / "etc/ssh/ssh_host_ed25519_key.pub").read_text()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.ssh_port} {host_key}")

    def _add_user(self, name: str, key: asyncssh.SSHKey, *, groups: str = "") -> None:
        command = [
            "chroot",
            str(self.tree),
            "useradd",
            "--create-home",
            "--shell=/bin/bash",
            f"--groups={groups}",
        ]
        subprocess.run([*command, name], check=True, capture_output=True)
        self._write(f"home/{name}/.ssh/authorized_keys", key.export_public_key().decode(), mode=0o644)

    def _write(self, path: str, content: str, *, mode: int = 0o644) -> None:
        target = self.tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
        target.chmod(mode)

    def _start(self) -> None:
        self._launch()
        self._wait_for_sshd()
        assert self._nspawn is not None
        self._leader = _leader_of(self._nspawn.pid)

    def _launch(self) -> None:
        command = [
            "systemd-nspawn",
            "--quiet",
            f"--directory={self.tree}",
            "--boot",
            "--register=no",
            "--keep-unit",
        ]
        groups = self._groups = cgroups.make_groups(f"kimi-host-{os.getpid()}-{self.ssh_port}")
        with (self.folder / "console").open("ab") as console:
            self._nspawn = subprocess.Popen(
                [*command, "--console=pipe"],
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: cgroups.enter(groups),  # noqa: PLW1509 - no other thread here
            )

    def _wait_for_sshd(self) -> None:
        assert self._nspawn is not None
        deadline = time.monotonic() + BOOT_SECONDS
        while not _greets(self.ssh_port):
            if self._nspawn.poll() is not None or time.monotonic() > deadline:
                console = (self.folder / "console").read_text(errors="replace")
                self.shut_down()
                raise HostUnbuildable(f"the host did not boot:\n{console[-3000:]}")
            time.sleep(0.1)


def _greets(port: int) -> bool:
    """Whether an sshd answers with its banner."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as link:
            link.settimeout(2)
            return link.recv(4) == b"SSH-"
    except OSError:
        return False


def _swallow(port: int) -> list[socket.socket]:
    """A port that does not even refuse: of a queue that is full the kernel drops what asks to get in."""
    full = socket.socket()
    full.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    full.bind(("127.0.0.1", port))
    full.listen(0)
    return [full, socket.create_connection(("127.0.0.1", port))]


def _leader_of(nspawn: int) -> int:
    """The process that is PID 1 inside: the one below nspawn that stands deepest in PID namespaces."""
    for child in Path(f"/proc/{nspawn}/task/{nspawn}/children").read_text().split():
        status = Path(f"/proc/{child}/status").read_text()
        inner = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
        if len(inner) > 2 and inner[-1] == "1":
            return int(child)
        if deeper := _leader_of(int(child)):
            return deeper
    return 0


def _free_ports(count: int) -> list[int]:
    """Ports nothing listens on now; the host shares this machine's network and cannot choose its own."""
    links = [socket.socket() for _ in range(count)]
    try:
        for link in links:
            link.bind(("127.0.0.1", 0))
        return [link.getsockname()[1] for link in links]
    finally:
        for link in links:
            link.close()
