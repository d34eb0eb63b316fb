"""One round of looking: what systemd says of many units, with one command a host, and what engines answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bot.clients.ssh_watch import read_barrier
from bot.core.events import HostName, Member, ProbeAnswer, UnitState
from bot.errors import HostError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.clients.probe import Probe
    from bot.core.redact import Redactor
    from bot.sources import Link

_SHARE = 0.4  # of a service's `every`, in which a look must come back
_LEAST = 2.0  # real seconds, however short that is
_SOONER = 0.8  # of `every`, from one look to the next while something is in doubt


@dataclass(frozen=True, slots=True)
class Seen:
    """`units`: of each member its state, or why its host does not tell.

    `errors`: None where a host tells anything. `barred`: where that comes of more than no answer, of what.
    """

    units: dict[Member, UnitState | str] = field(default_factory=dict)
    boots: dict[Member, str] = field(default_factory=dict)
    errors: dict[HostName, str | None] = field(default_factory=dict)
    barred: dict[HostName, str] = field(default_factory=dict)

    def joined(self, other: Seen) -> Seen:
        """What two looks at different hosts have seen."""
        return Seen(
            self.units | other.units,
            self.boots | other.boots,
            self.errors | other.errors,
            self.barred | other.barred,
        )

    def lose(self, host: HostName, error: HostError | TimeoutError, told: str) -> None:
        """One scope of it at least does not tell."""
        if self.errors.get(host, "") is None:
            return
        self.errors[host] = self.errors.get(host) or told
        barred = read_barrier(error) if isinstance(error, HostError) else None
        if barred is not None:
            self.barred[host] = barred

    def find(self, host: HostName) -> None:
        """It tells: what another scope of it does not is a matter of that scope."""
        self.errors[host] = None
        self.barred.pop(host, None)


def patience_of(every: float) -> float:
    """Real seconds for a look; what takes longer counts as no answer.

    With `pace_of`, enough failures in a row are over within `failures` times `every` and two seconds, however
    long each of them was waited for.
    """
    return max(_SHARE * every, _LEAST) if every > 1 else _LEAST


def pace_of(every: float, *, failures: int, doubt: bool) -> float:
    """Real seconds from the beginning of one look to that of the next; sooner while something is in `doubt`.

    Where one failure is enough there is no doubt before it, so that all looks come sooner.
    """
    if failures == 1:
        return every * (1 - _SHARE)
    return every * min(_SOONER, 1 - _SHARE / (failures - 1)) if doubt else every


async def see(links: Iterable[Link], *, within: float) -> Seen:
    """All members at once: one `systemctl show` for each host and scope."""
    groups: dict[tuple[HostName, str], list[Link]] = {}
    for link in links:
        groups.setdefault((link.host.name, link.scope), []).append(link)
    seen = Seen()
    await asyncio.gather(*(_see(group, seen, within=within) for group in groups.values()))
    return seen


async def _see(links: list[Link], seen: Seen, *, within: float) -> None:
    host, scope = links[0].host, links[0].scope
    try:
        async with asyncio.timeout(within):
            boot = await _boot_of(links[0])  # first: a look that is older than its boot would be a reboot
            shown = await host.show_all(list(dict.fromkeys(link.unit for link in links)), scope=scope)
    except (HostError, TimeoutError) as error:
        told = str(error) or f"{host.name}: no answer within {within:g} s"
        seen.lose(host.name, error, told)
        seen.units.update({link.member: told for link in links})
        return
    seen.find(host.name)
    for link in links:
        seen.units[link.member] = shown[link.unit]
        if boot is not None:
            seen.boots[link.member] = boot


async def _boot_of(link: Link) -> str | None:
    """None where the host is there and does not tell."""
    try:
        return await link.host.boot_id()
    except HostError as error:
        if type(error) is HostError:
            return None
        raise


async def ask(probe: Probe, *, whole: bool, within: float, redactor: Redactor) -> ProbeAnswer:
    """An answer in any case, whose words may be shown."""
    try:
        async with asyncio.timeout(within):
            answer = await probe.check(whole=whole, host_within=within / 2)
    except TimeoutError:
        return ProbeAnswer(error=f"no answer within {within:.0f} s")
    if answer.error is None:
        return answer
    return replace(answer, error=redactor.redact(answer.error)[0])
