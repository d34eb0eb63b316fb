"""An outage whose bot is killed right after any of its side effects: see `tests.support.outage_matrix`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.outage_matrix import SHARES, TIMEOUT, play_share

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.killing import Nursery


# What a bot that is killed leaves to a forwarded connection, asyncssh's server closes late or not at all.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("share", SHARES)
async def test_outage_killed_after_any_side_effect(share: int, nursery: Nursery, tmp_path: Path) -> None:
    await play_share("after", share, nursery=nursery, folder=tmp_path)
