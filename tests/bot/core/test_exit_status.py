from __future__ import annotations

import pytest

from bot.core.exit_status import name_signal, signal_of, spell_status


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (-9, "-9 (SIGKILL)"),
        (-7, "-7 (SIGBUS)"),
        (-11, "-11 (SIGSEGV)"),
        (134, "134 (SIGABRT)"),
        (135, "135 (SIGBUS)"),
        (137, "137 (SIGKILL)"),
        (139, "139 (SIGSEGV)"),
        (256, "256 (a raw wait status: exit status 1)"),
        (768, "768 (a raw wait status: exit status 3)"),
        (1, "1"),
        (0, "0"),
        (257, "257"),
        (-99, "-99"),
    ],
)
def test_every_way_to_tell_an_end_is_read(number: int, told: str) -> None:
    assert spell_status(number) == told


def test_a_signal_without_a_name_keeps_its_number() -> None:
    assert name_signal(63) == "signal 63"
    assert signal_of(128) is None
