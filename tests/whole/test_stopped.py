"""A bot stopped beyond its lease, wherever it could still do harm when it wakes up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.kill_matrix import (
    REACHED,
    TIMEOUT,
    choose_dangerous,
    play_all,
    play_stopped,
    play_undisturbed,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.killing import Nursery


# What a bot that is killed leaves to a forwarded connection, asyncssh's server closes late or not at all.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(TIMEOUT)
async def test_stopped_beyond_its_lease_at_any_dangerous_moment(nursery: Nursery, tmp_path: Path) -> None:
    points, usual = await play_undisturbed(nursery, tmp_path / "usual")
    chosen = choose_dangerous(points)
    assert {point.split()[1] for point in chosen} == {"redis", "slack", "ssh"}
    reached, faults = await play_all(nursery, chosen, usual, folder=tmp_path, play=play_stopped)
    assert not faults, "\n".join(faults)
    assert reached >= len(chosen) * REACHED
