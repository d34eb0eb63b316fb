"""What is remembered of healthy starts, and what an unreadable memory costs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from structlog.testing import capture_logs

from bot.baselines import read_account, read_last, read_usual, remember
from bot.core.actions import Close, Verdict
from bot.core.baseline import Usual
from bot.core.changes import LastHealthy
from bot.core.setup import Setup
from tests.support.carriers import MEMBER, SERVICE
from tests.support.memory_store import MemoryStore
from tests.support.outgoing import operation

if TYPE_CHECKING:
    from bot.clients.store import Store

ORDER = Close(Verdict.HEALTHY, {"weights": 120.0}, {"weights": 9.0}, {"first_token": 0.3})
LAST = LastHealthy(datetime(2026, 5, 29, tzinfo=UTC), {MEMBER: Setup(("python", "--tp", "8"))})


def make_store() -> tuple[MemoryStore, Store]:
    store = MemoryStore([])
    return store, cast("Store", store)


async def test_a_healthy_start_is_remembered_with_its_setup() -> None:
    _, store = make_store()
    assert await read_last(store, SERVICE) is None
    await remember(store, SERVICE, ORDER, last=LAST)
    assert await read_last(store, SERVICE) == LAST
    usual = await read_usual(store, SERVICE)
    assert usual == Usual({"weights": (120.0,)}, {"weights": (9.0,)}, {"first_token": (0.3,)})


async def test_a_start_whose_setup_nobody_saw_leaves_the_one_before() -> None:
    _, store = make_store()
    await remember(store, SERVICE, ORDER, last=LAST)
    await remember(store, SERVICE, ORDER, last=LastHealthy(LAST.at, {}))
    assert await read_last(store, SERVICE) == LAST


async def test_what_cannot_be_read_is_told_and_begun_anew() -> None:
    memory, store = make_store()
    memory.baselines[SERVICE] = memory.setups[SERVICE] = '{"samples": 3, "setups": 4}'
    assert await read_usual(store, SERVICE) == Usual()
    assert await read_last(store, SERVICE) is None
    assert [(service, kind) for service, kind, _ in memory.given_up] == [
        (SERVICE, "baseline"),
        (SERVICE, "setup"),
    ]


async def test_a_redis_that_is_away_costs_one_sample() -> None:
    memory, store = make_store()
    memory.failing = ["save_setup"]
    with capture_logs() as logs:
        await remember(store, SERVICE, ORDER, last=LAST)
    assert memory.setups == {}
    assert [entry["event"] for entry in logs] == ["baseline_not_learned"]


def test_an_account_that_cannot_be_read_is_an_empty_one() -> None:
    whole = operation(account='{"took": 12.5}')
    assert read_account(whole).took == 12.5
    assert read_account(operation(account="rubbish")).took is None
    assert read_account(operation()).took is None
