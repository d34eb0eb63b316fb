"""What a unit runs with, as its host tells: the unit's properties, the versions installed beside them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from bot.clients.ssh_link import Finished
from bot.core.setup import VERSIONED, library_of, parse_driver, parse_packages
from bot.errors import HostError

if TYPE_CHECKING:
    from bot.core.setup import Setup

Run: TypeAlias = Callable[[Sequence[str]], Awaitable[Finished]]

# One of the two exists where a GPU has a driver that is no part of the kernel.
_DRIVERS = ("/sys/module/nvidia/version", "/sys/module/amdgpu/version")
_DEPTH = "3"  # /opt/x/lib/python3.11/site-packages/sglang-0.5.9.dist-info


async def read_versions(run: Run, setup: Setup) -> dict[str, str]:
    """Of the GPU driver, and of what is installed where the command's interpreter is. No error: nothing."""
    versions = parse_driver(await _ask(run, ("cat", *_DRIVERS)))
    library = library_of(setup.command)
    if library is None:
        return versions
    names = [word for package in VERSIONED for word in ("-o", "-name", f"{package}-*.dist-info")][1:]
    listing = await _ask(run, ("find", library, "-maxdepth", _DEPTH, "(", *names, ")"))
    return versions | parse_packages(listing)


async def _ask(run: Run, arguments: Sequence[str]) -> str:
    """What it printed, whatever its status: `cat` of two files of which one exists fails and prints."""
    try:
        return (await run(arguments)).out
    except HostError:
        return ""
