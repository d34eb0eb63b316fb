"""How a process ended, from the many ways in which a number tells it."""

from __future__ import annotations

from signal import Signals

_BY_SHELL = 128  # plus the signal's number
_RAW = 256  # a wait status as the kernel hands it over: the exit status is its upper byte
_LAST_SIGNAL = 64


def signal_of(number: int) -> int | None:
    """The signal behind an exit code: Python's -9, the shell's 137, systemd's and docker's too."""
    if -_LAST_SIGNAL <= number < 0:
        return -number
    if _BY_SHELL < number <= _BY_SHELL + _LAST_SIGNAL:
        return number - _BY_SHELL
    return None


def name_signal(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def spell_status(number: int) -> str:
    """`-9` → "-9 (SIGKILL)", `256` → "256 (a raw wait status: exit status 1)"."""
    signal = signal_of(number)
    if signal is not None:
        return f"{number} ({name_signal(signal)})"
    if number >= _RAW and not number % _RAW:
        return f"{number} (a raw wait status: exit status {number // _RAW})"
    return str(number)
