"""A control group of its own for each booted host: two hosts in one would mix up their units."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_MOUNTS = {"0": ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"), "systemd": ("/sys/fs/cgroup/systemd",)}


def make_groups(name: str) -> list[Path]:
    """Below our own group, in the unified hierarchy and in systemd's; empty where there is neither."""
    made: list[Path] = []
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        number, controllers, path = line.split(":", 2)
        hierarchy = "0" if number == "0" else controllers.removeprefix("name=")
        for mount in _MOUNTS.get(hierarchy, ()):
            own = Path(mount + path)
            if (own / "cgroup.procs").exists():
                (own / name).mkdir(exist_ok=True)
                made.append(own / name)
                break
    return made


def enter(groups: list[Path]) -> None:
    """For a child between fork and exec."""
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def remove(groups: list[Path]) -> None:
    """What the host left below them is empty once it is shut down."""
    for group in groups:
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
