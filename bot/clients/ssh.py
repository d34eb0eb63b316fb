"""A GPU host over SSH: orders to systemd, what it says, its journal, and ways to its ports."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bot.clients import ssh_errors, ssh_journal, ssh_listener, ssh_log_file, ssh_order, ssh_setup, ssh_watch
from bot.clients.ssh_evidence import Sampler
from bot.clients.ssh_extras import Extras
from bot.clients.ssh_link import Finished, Link
from bot.clients.ssh_tunnel import Tunnels
from bot.core.events import Cursor, HostName, InvocationId, UnitName, UnitState, Verb
from bot.core.setup import SETUP_PROPERTIES, Setup, parse_setup
from bot.core.unit import SHOW_PROPERTIES, is_unit_name, parse_show, read_properties
from bot.errors import HostError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from datetime import datetime, timedelta
    from pathlib import Path

    from bot.clients.ssh_order import Promise
    from bot.core.evidence import Sample
    from bot.core.journal import Position
    from bot.core.log_file import FilePosition
    from bot.core.redact import Redactor
    from config.services import HostSection

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_ORDERS = (Verb.RESTART, Verb.START, Verb.STOP)


class Host:
    """One host of the configuration. Connects when first needed, and again when the connection was lost.

    Every method raises a HostError that names the host, what failed and the way out; `scope` is "system" or
    "user" as in the configuration.
    """

    def __init__(
        self,
        name: HostName,
        section: HostSection,
        *,
        connect_timeout: float = 15,
        command_timeout: float = 30,
        keepalive: float = 10,
    ) -> None:
        self.name = name
        self.section = section
        self._link = Link(
            name,
            section,
            connect_timeout=connect_timeout,
            command_timeout=command_timeout,
            keepalive=keepalive,
        )
        self._boot: tuple[object, str] | None = None  # of which connection, and what it is
        self._tunnels = Tunnels(self._link)
        self._extras = Extras(self._link)
        self._sampler = Sampler(self._extras.run, dump=self._link.run)

    async def promise(self, seconds: float) -> Promise:
        """For `change`: an order that the host carries out within `seconds` from now, and not after."""
        return await ssh_order.promise(self._link, seconds)

    async def uptime(self) -> float | None:
        """Seconds since the host booted; None where it does not tell."""
        return await ssh_order.read_uptime(self._link)

    async def change(
        self,
        unit: UnitName,
        verb: Verb,
        *,
        scope: str,
        promise: Promise | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        """Tell systemd once; that it accepted is all this says, what comes of it `show` tells.

        `check` is called last before the order leaves; what it raises is raised here, and nothing was sent.
        OrderLate: the time that was promised is over, or the connection it was promised on; nothing was done.
        An error whose `sent` is true: the order went out and its answer did not come, so it may be under way.
        """
        self._check(unit)
        if verb not in _ORDERS:
            raise ValueError(f"{verb} is no order to systemd")
        sudo = ("sudo", "-n") if self.section.sudo and scope == "system" else ()
        words = (*sudo, *_systemctl(scope), str(verb), "--no-block", unit)
        finished = await self._order(words, unit, verb, promise=promise, check=check)
        if finished.status:
            raise ssh_errors.change_failure(
                finished.complaint, name=self.name, unit=unit, verb=verb, section=self.section
            )

    async def _order(
        self,
        words: Sequence[str],
        unit: UnitName,
        verb: Verb,
        *,
        promise: Promise | None,
        check: Callable[[], None] | None,
    ) -> Finished:
        if promise is None:
            return await self._link.run(words, check=check)
        if not self._link.holds(promise.connection):
            await self._link.connection()  # a host that is away is the better answer
            raise ssh_order.lapsed(self.name, unit, verb)
        finished = await self._link.run(promise.wrap(words), check=check, connection=promise.connection)
        if ssh_order.is_late(finished):
            raise ssh_order.late(self.name, unit, verb)
        return finished

    async def reload(self, *, scope: str) -> None:
        """Let systemd read its unit files anew."""
        sudo = ("sudo", "-n") if self.section.sudo and scope == "system" else ()
        finished = await self._link.run((*sudo, *_systemctl(scope), "daemon-reload"))
        if finished.status:
            raise ssh_errors.reload_failure(finished.complaint, name=self.name, section=self.section)

    async def check_sudo(self, unit: UnitName, verb: Verb, *, scope: str) -> None:
        """Ask sudo for its list, which changes nothing, before anybody is told that something begins.

        PermissionRefused where it wants a password even for that, or is not there. Whatever else it says, or
        does not say in time, leaves the question to the order itself.
        """
        if not (self.section.sudo and scope == "system"):
            return
        finished = await self._extras.run_soon(("sudo", "-n", "-l"))
        complaint = finished.complaint
        if finished.status and (ssh_errors.is_sudo_refusal(complaint) or ssh_errors.lacks_sudo(complaint)):
            raise ssh_errors.change_failure(
                complaint, name=self.name, unit=unit, verb=verb, section=self.section
            )

    async def show(self, unit: UnitName, *, scope: str) -> UnitState:
        """The unit's state now; one that systemd does not know has `load` "not-found"."""
        return parse_show(await self._show(unit, SHOW_PROPERTIES, scope=scope))

    async def show_all(self, units: Sequence[UnitName], *, scope: str) -> dict[UnitName, UnitState]:
        """`show` of many units with one command."""
        for unit in units:
            self._check(unit)
        finished = await self._link.run((*_systemctl(scope), "show", *units, "-p", ssh_watch.WATCHED))
        if finished.status:
            raise ssh_errors.show_failure(
                finished.complaint, name=self.name, unit=units[0], section=self.section
            )
        try:
            return ssh_watch.parse_shown(finished.out, units)
        except ValueError as error:
            raise HostError(self.name, f"{self.name}: systemctl show: {error}.") from error

    async def setup(self, unit: UnitName, *, scope: str, redactor: Redactor) -> Setup:
        """What the unit runs with, masked before it is read; versions only where the host tells them."""
        shown, _ = redactor.redact(await self._show(unit, SETUP_PROPERTIES, scope=scope))
        setup = parse_setup(shown)
        return replace(setup, versions=await ssh_setup.read_versions(self._extras.run, setup))

    async def _show(self, unit: UnitName, properties: tuple[str, ...], *, scope: str) -> str:
        self._check(unit)
        finished = await self._link.run((*_systemctl(scope), "show", unit, "-p", ",".join(properties)))
        if finished.status:
            raise ssh_errors.show_failure(finished.complaint, name=self.name, unit=unit, section=self.section)
        return finished.out

    async def sample(self, unit: UnitName, *, scope: str, at: datetime, model: str | None = None) -> Sample:
        """What the host measures of the unit now, `at` by our clock; `model`: the folder of its weights.

        What the host refuses is missing in it and is no error.
        """
        self._check(unit)
        return await self._sampler.sample(_systemctl(scope), unit, at=at, model=model)

    async def dump_stack(self, pid: int) -> str | None:
        """Where the process stands in its code; None where the host does not tell."""
        return await self._sampler.dump_stack(pid, sudo=self.section.sudo)

    async def journal_end(self, *, scope: str) -> Cursor | None:
        """Where the journal ends now; None while it is empty."""
        return await ssh_journal.read_end(self._link, scope=scope)

    async def journal_at(self, cursor: Cursor, *, scope: str) -> Cursor | None:
        """The entry a cursor names while the journal holds it, else the next one it does; None: neither."""
        return await ssh_journal.read_at(self._link, cursor, scope=scope)

    def follow_journal(
        self,
        unit: UnitName,
        *,
        scope: str,
        position: Position | None = None,
        invocation: InvocationId | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Bytes of `journalctl -f -o json --all`, cut anywhere, for as long as the link lives.

        From `position` on, else one start's lines, else what comes from now on; what was written in former
        boots is for `read_rest`. Whoever does not read makes the host wait. Ends with an error only:
        HostUnreachable, PermissionRefused. Closing it ends the remote process.
        """
        self._check(unit)
        arguments = ssh_journal.follow_arguments(unit, scope=scope, position=position, invocation=invocation)
        return ssh_journal.follow(self._link, arguments, scope=scope)

    def read_rest(self, unit: UnitName, *, scope: str, cursor: Cursor) -> AsyncGenerator[bytes, None]:
        """The bytes of what is there from the cursor on, those of former boots too."""
        self._check(unit)
        arguments = ssh_journal.rest_arguments(unit, scope=scope, cursor=cursor)
        return ssh_journal.read(self._link, arguments, scope=scope)

    def read_journal(
        self,
        unit: UnitName,
        *,
        scope: str,
        invocation: InvocationId | None = None,
        since: timedelta | None = None,
        lines: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of what is there: one start's or the unit's, no older than `since`, the last `lines`."""
        self._check(unit)
        arguments = ssh_journal.read_arguments(
            unit, scope=scope, invocation=invocation, since=since, lines=lines
        )
        return ssh_journal.read(self._link, arguments, scope=scope)

    def follow_kernel(self, *, position: Position | None = None) -> AsyncGenerator[bytes, None]:
        """As `follow_journal`, of what the kernel says; without a position the last it said first."""
        arguments = ssh_journal.kernel_arguments(position=position)
        return ssh_journal.follow(self._link, arguments, scope="system")

    def follow_units(self, units: Sequence[UnitName], *, scope: str) -> AsyncGenerator[bytes, None]:
        """As `follow_journal`, of what systemd says of all these units from now on."""
        return ssh_journal.follow(self._link, ssh_watch.unit_arguments(units, scope=scope), scope=scope)

    def follow_telling(
        self, units: Sequence[UnitName], *, scope: str, pattern: str
    ) -> AsyncGenerator[bytes, None]:
        """As `follow_units`, with the lines of the units and of the kernel; all where `pattern` matches."""
        arguments = ssh_watch.telling_arguments(units, scope=scope, pattern=pattern)
        return ssh_journal.follow(self._link, arguments, scope=scope)

    async def log_end(self, path: str) -> FilePosition:
        """Where a log file ends now."""
        return await ssh_log_file.read_end(self._link, path)

    def follow_log(self, path: str, *, position: FilePosition) -> AsyncGenerator[bytes, None]:
        """Frames of a log file (see `core.log_file`) from `position` on, through rotation and truncation.

        Ends with an error only. Closing it ends the remote process.
        """
        return ssh_log_file.stream(self._link, path, position, ssh_log_file.FOLLOW)

    def read_log(self, path: str, *, position: FilePosition) -> AsyncGenerator[bytes, None]:
        """As `follow_log`, of what is there."""
        return ssh_log_file.stream(self._link, path, position, ssh_log_file.ONCE)

    async def boot_id(self) -> str:
        """32 hex digits, new at each boot; the journal's `_BOOT_ID` is the same.

        Asked once a connection: none outlives its boot.
        """
        connection = await self._link.connection()
        if self._boot is not None and self._boot[0] is connection:
            return self._boot[1]
        finished = await self._link.run(("cat", _BOOT_ID), connection=connection)
        words = finished.out.split()  # a login's own words, from its shell's files, stand before the answer
        if finished.status or not words:
            raise HostError(self.name, f"{self.name}: no boot id: {ssh_errors.quote(finished.complaint)}.")
        boot = words[-1].replace("-", "")
        self._boot = (connection, boot)
        return boot

    async def listener_belongs(self, port: int, unit: UnitName, *, scope: str) -> bool | None:
        """Whether what listens on the port runs in the unit; None where the host does not tell."""
        shown = await self._show(unit, ("ControlGroup",), scope=scope)
        group = read_properties(shown).get("ControlGroup")
        if group is None:
            return None  # not that it is empty: it is not told
        return await ssh_listener.belongs(self._extras.run_soon, port=port, unit_group=group)

    async def tunnel(self, host: str, port: int) -> Path:
        """A unix socket whose connections come out at `host:port` as the host sees it. Ask each time."""
        return await self._tunnels.path_to(host, port)

    async def knock(self, host: str, port: int) -> HostError | None:
        """Why the host cannot reach `host:port`; None when something accepts.

        A tunnel only hangs up, whatever the reason.
        """
        return await self._link.knock(host, port)

    async def run(self, arguments: Sequence[str]) -> Finished:
        """A fixed argument list, run to its end, whatever its status; no shell reads the arguments."""
        return await self._link.run(arguments)

    @property
    def connects(self) -> int:
        """How often it connected so far; all but the first because the connection was lost."""
        return self._link.connects

    async def close(self) -> None:
        """May be called twice."""
        await self._tunnels.close()
        await self._link.close()

    def _check(self, unit: UnitName) -> None:
        if not is_unit_name(unit):
            raise ssh_errors.unit_unknown(self.name, unit)


def _systemctl(scope: str) -> tuple[str, ...]:
    return ("systemctl", "--user") if scope == "user" else ("systemctl",)
