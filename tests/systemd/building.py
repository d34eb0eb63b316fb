"""Builds the Debian that the real host boots from: once, from nothing, kept in a cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SUITE = "bookworm"
PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "dbus-user-session",  # `systemctl --user` over ssh
    "libpam-systemd",
    "openssh-server",
    "python3-minimal",
    "libpython3-stdlib",  # http.server, for the fake engine
    "procps",
    "sudo",
    "iproute2",  # ss: whose port is it
)
TOOLS = {"systemd-nspawn": "systemd-container", "debootstrap": "debootstrap"}


class HostUnbuildable(Exception):
    """This machine cannot build or boot the host; the sentence says why."""


def cache_folder() -> Path:
    return Path(os.environ.get("KIMI_HOST_CACHE") or "/var/cache/kimi-host")


def install_tools() -> None:
    """Get the two tools from the machine's own package manager when they are missing."""
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise HostUnbuildable(f"missing {', '.join(missing)}, and no apt-get here to install them")
    _call(["apt-get", "update"], may_fail=True)
    _call(["apt-get", "install", "-y", "--no-install-recommends", *missing])


def base_tree() -> Path:
    """The folder of the bootstrapped system; builds it (about two minutes) when the cache has none."""
    key = hashlib.sha256(" ".join((SUITE, *PACKAGES)).encode()).hexdigest()[:12]
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    tree = cache / f"{SUITE}-{key}"
    with _locked(cache / "lock"):
        if not tree.exists():
            _bootstrap(tree)
    return tree


def _bootstrap(tree: Path) -> None:
    partial = tree.with_suffix(".partial")
    _discard(partial)
    _call(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(partial)])
    _slim(partial)
    partial.rename(tree)


def _discard(tree: Path) -> None:
    """Remove what an interrupted build left, its mounts first."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in sorted((mount for mount in mounts if Path(mount).is_relative_to(tree)), reverse=True):
        _call(["umount", "--lazy", mount])
    shutil.rmtree(tree, ignore_errors=True)


def _slim(tree: Path) -> None:
    """Every session copies the tree; what the host never reads is not worth copying."""
    for part in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man"):
        shutil.rmtree(tree / part, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two test runs at once build one tree."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _call(command: list[str], *, may_fail: bool = False) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=environment, check=False
    )
    if done.returncode and not may_fail:
        ending = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise HostUnbuildable(f"`{' '.join(command)}` ended with {done.returncode}:\n{ending}")
