"""Eight hours of faults at random: none missed, none invented, none told twice."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.nights import SOON, Account, Night

SERVICES = int(os.environ.get("KIMI_NIGHT_SERVICES", "1000"))
SEED = int(os.environ.get("KIMI_NIGHT_SEED", "20260529"))


@pytest.mark.timeout(300)  # 2.3 million checks
def test_a_night() -> None:
    account = Night(SERVICES, seed=SEED).run()
    sys.stdout.write(f"{SERVICES} services, 8 hours: {account}\n")
    _hold(account)
    assert account.slowest <= SOON
    assert account.truths["down"] > SERVICES / 2
    assert account.truths["host"] > 0


def test_a_night_in_which_the_watching_process_dies_over_and_over() -> None:
    account = Night(100, seed=SEED, deaths=60).run()
    sys.stdout.write(f"100 services, 8 hours, 60 deaths of the process: {account}\n")
    _hold(account)


def _hold(account: Account) -> None:
    assert account.missed == []
    assert account.false == []
    assert account.double == []
    assert account.late == []
    assert account.unended == []
    assert account.loudest <= 2
