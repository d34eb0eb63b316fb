"""Names processes so that another one on the same machine can tell that they are dead."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path

_START = 19  # of the fields of /proc/PID/stat that follow the command's name: ticks since boot (proc(5): 22)
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where and when a process runs: as much of it as the kernel told."""

    boot: str
    namespace: str
    pid: str
    start: str

    @property
    def is_whole(self) -> bool:
        return _UNKNOWN not in (self.boot, self.namespace, self.start) and self.pid.isdecimal()


def new_owner() -> str:
    """`UUID@BOOT/NAMESPACE/PID/START`: unique for each call; where the kernel does not tell, `-` stands."""
    here = _here()
    return f"{uuid.uuid4().hex}@{here.boot}/{here.namespace}/{here.pid}/{here.start}"


def is_dead(owner: str) -> bool:
    """True only if it is certain: the process ran on this boot, in this namespace, and is there no more."""
    place, here = _parse(owner), _here()
    if place is None or not (place.is_whole and here.is_whole):
        return False
    if (place.boot, place.namespace) != (here.boot, here.namespace):
        return False
    try:
        os.kill(int(place.pid), 0)
    except ProcessLookupError:
        return True
    except (OverflowError, PermissionError):
        return _runs_no_more(place)
    return _runs_no_more(place)


def _runs_no_more(place: _Place) -> bool:
    """The number is in use: by that process, by its remains, or by one that was given it since."""
    fields = _stat(place.pid)
    if fields is None:  # /proc may hide what other users run
        return False
    if fields[_START] != place.start:
        return True
    return fields[0] in ("Z", "X") and len(_threads(place.pid)) <= 1


def _parse(owner: str) -> _Place | None:
    parts = owner.rpartition("@")[2].split("/")
    return _Place(*parts) if "@" in owner and len(parts) == len(_Place.__slots__) else None


def _here() -> _Place:
    pid = str(os.getpid())
    fields = _stat(pid)
    return _Place(_boot(), _namespace(), pid, fields[_START] if fields else _UNKNOWN)


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return _UNKNOWN


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return _UNKNOWN


def _stat(pid: str) -> list[str] | None:
    """What follows the command's name, which may itself hold spaces and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > _START else None


def _threads(pid: str) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names alone
    except OSError:
        return []
