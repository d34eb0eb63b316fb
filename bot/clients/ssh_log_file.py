"""Reads a unit's log file over SSH, through rotation and truncation; `core.log_file` decodes what comes.

One constant script, whose arguments no shell reads. It keeps the file open: what is written to it after it
was renamed is read to the end before the new file is begun. `tail -F` does as much, but does not say which
file a byte came from, so nobody could go on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import asyncssh

from bot.clients import ssh_errors
from bot.core.log_file import FilePosition
from bot.errors import HostError, HostUnreachable, PermissionRefused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from bot.clients.ssh_channels import Session
    from bot.clients.ssh_link import Link

NAME = "kimi-log"  # `$0` of the script: what a process list on the host shows
FOLLOW, ONCE, END = "follow", "once", "end"
_CHUNK = 64 << 10
_SILENT = 20.0  # seconds; the script says at least every five that nothing is new
_ABSENT, _UNREADABLE = 66, 77  # EX_NOINPUT, EX_NOPERM
_PLACE_WORDS = 3

# Arguments: path, inode, offset, seen, mode. Inode 0: the last `offset` bytes of whatever has the name, all
# of it where offset is 0. What was cut off a file is looked for in the copy logrotate made first
# (copytruncate); a file that was renamed while nobody looked is known by its inode among its neighbours.
# Where neither is found, what the old file got since it was seen is lost, unless that was moments ago.
SCRIPT = r"""
path=$1 inode=$2 offset=$3 seen=$4 mode=$5 kind=b idle=0
[ -e "$path" ] || [ "$mode" = follow ] || exit 66
while ! [ -e "$path" ]; do
  [ "$idle" -lt 30 ] || exit 66
  printf '.\n' || exit 0
  idle=$((idle + 1)) kind=d; sleep 1
done
[ -f "$path" ] && [ -r "$path" ] || exit 77
use() { exec 3<"$1" || exit 77; set -- $(stat -L -c '%i %s' "/proc/$$/fd/3"); inode=$1 size=$2; }
send() {
  while [ "$offset" -lt "$size" ]; do
    n=$((size - offset)); [ "$n" -gt 262144 ] && n=262144
    printf '%s %s %s %s ' "$kind" "$inode" "$offset" "$(date +%s.%N)" || exit 0
    tail -c "+$((offset + 1))" "/proc/$$/fd/3" | head -c "$n" | base64 -w 0
    printf '\n' || exit 0
    offset=$((offset + n)); seen=$(date +%s)
  done
}
fresh() { use "$path"; offset=0; printf 't\n' || exit 0; }
gone() { [ "$(($(date +%s) - seen))" -le 15 ] || printf 'm\n' || exit 0; }
if [ "$mode" = end ]; then use "$path"; printf '%s %s %s\n' "$inode" "$size" "$(date +%s)"; exit 0; fi
printf 'z %s\n' "$(env -u TZ date +%z)"
was=$inode back=$offset
use "$path"
if [ "$was" = 0 ]; then
  offset=0; [ "$back" -gt 0 ] && [ "$back" -lt "$size" ] && offset=$((size - back))
elif [ "$was" != "$inode" ]; then
  found=
  for old in $(ls -1tr -- "$path" "$path".* "$path"-* 2>/dev/null | grep -v '[[:space:]]'); do
    case $old in *.gz | *.xz | *.bz2 | *.zst) continue ;; esac
    [ -r "$old" ] || continue
    if [ -z "$found" ] && [ "$(stat -L -c %i "$old")" = "$was" ]; then
      found=1; use "$old"; offset=$back; send; fresh
    elif [ -n "$found" ] && [ "$old" != "$path" ]; then
      use "$old"; offset=0; send; fresh
    fi
  done
  [ -n "$found" ] || { gone; fresh; }
fi
while :; do
  set -- $(stat -L -c '%i %s' "/proc/$$/fd/3" "$path" 2>/dev/null)
  size=${2:-0} other=${3:-$inode} others=${4:-0} before=$offset
  if [ "$size" -lt "$offset" ]; then
    set -- $(stat -L -c '%s %Z' "$path.1" 2>/dev/null)
    if [ -r "$path.1" ] && [ "${1:-0}" -gt "$offset" ] && [ "${2:-0}" -ge "$((seen - 1))" ]; then
      use "$path.1"; send
    elif [ "$kind" = b ]; then
      gone
    fi
    fresh
  fi
  send
  kind=d
  if [ "$other" != "$inode" ] && [ "$others" -gt 0 ] && [ -r "$path" ]; then
    set -- $(stat -L -c %s "/proc/$$/fd/3"); size=$1; send; fresh; send
  fi
  [ "$mode" = follow ] || exit 0
  if [ "$offset" = "$before" ]; then idle=$((idle + 1)); else idle=0; fi
  if [ "$idle" -ge 20 ]; then idle=0; printf '.\n' || exit 0; fi
  sleep 0.25
done
"""


def arguments(path: str, position: FilePosition, mode: str) -> tuple[str, ...]:
    place = (str(position.inode), str(position.offset), str(position.seen))
    return ("sh", "-c", SCRIPT, NAME, path, *place, mode)


async def read_end(link: Link, path: str) -> FilePosition:
    """Where the file ends now; of one that is not there yet, all that comes is new."""
    finished = await link.run(arguments(path, FilePosition(), END))
    if finished.status == _ABSENT:
        return FilePosition()
    words = finished.out.split()[-_PLACE_WORDS:]
    if finished.status or len(words) != _PLACE_WORDS or not all(word.isdigit() for word in words):
        raise _failure(finished.status, finished.complaint, link=link, path=path)
    inode, offset, seen = map(int, words)
    return FilePosition(inode, offset, seen)


async def stream(link: Link, path: str, position: FilePosition, mode: str) -> AsyncGenerator[bytes, None]:
    """Frames, cut anywhere. FOLLOW ends with an error only; closing it ends the remote process."""
    process = await link.open(arguments(path, position, mode))
    try:
        while data := await _read(link, process, path=path):
            yield data
        complaint = await _end_of(process)
    finally:
        process.hang_up()
    if process.returncode is None:
        raise ssh_errors.link_lost(link.name, during=f"reading {path}")
    if process.returncode or mode == FOLLOW:
        raise _failure(process.returncode, complaint, link=link, path=path)


async def _read(link: Link, process: Session, *, path: str) -> bytes:
    try:
        async with asyncio.timeout(_SILENT):
            return await process.stdout.read(_CHUNK)
    except TimeoutError as error:
        during = f"reading {path}"
        raise ssh_errors.command_timed_out(link.name, during=during, seconds=_SILENT) from error
    except (OSError, asyncssh.Error) as error:
        raise ssh_errors.link_lost(link.name, during=f"reading {path}") from error


async def _end_of(process: Session) -> str:
    with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
        async with asyncio.timeout(5):
            said = await process.stderr.read(4096)
            await process.wait_closed()
            return said.decode(errors="replace")
    return ""


def _failure(status: int, complaint: str, *, link: Link, path: str) -> HostError:
    name, user = link.name, link.section.user
    if status == _ABSENT:
        return HostError(name, f"{name}: there is no file {path}; check the service's log_file.")
    if status == _UNREADABLE or "ermission denied" in complaint:
        return PermissionRefused(
            name,
            f"{name}: {user} may not read {path}; `setfacl -m u:{user}:r {path}` as root there allows it "
            f"(and `setfacl -m u:{user}:x` its folder), or check the service's log_file.",
        )
    told = ssh_errors.quote(complaint) or f"status {status}"
    return HostUnreachable(name, f"{name}: reading {path} ended: {told}.")
