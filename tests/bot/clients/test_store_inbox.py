"""Mail to an operation: put in once, kept until the state that holds it is saved, and counted right."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.clients.records import Mail
from bot.clients.redis_link import RedisLink, thread_key
from bot.clients.store import Store
from bot.core.events import OperationId
from bot.errors import OwnershipLost, StoreUnavailable
from tests.support.outgoing import BEGAN, PERSON, operation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.clients.leases import Lease

OP = OperationId("op1")
CLOSED = operation(closed=BEGAN + timedelta(minutes=7), verdict="healthy")


@pytest_asyncio.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    store = await Store.open(redis_url, owner="me", lease_seconds=60)
    yield store
    await store.close()


@pytest_asyncio.fixture
async def other(redis_url: str) -> AsyncIterator[Store]:
    store = await Store.open(redis_url, owner="other", lease_seconds=60)
    yield store
    await store.close()


def mail(number: int) -> Mail:
    return Mail(id=f"m{number}", kind="wait", by=PERSON, until=BEGAN, at=BEGAN)


async def began(store: Store) -> Lease:
    lease = await store.leases.claim(OP)
    assert lease is not None
    assert await store.create(operation(), lease=lease)
    return lease


async def test_mail_reaches_whichever_process_runs_it(store: Store, other: Store) -> None:
    lease = await began(store)
    for number in (1, 2, 1):
        assert await other.mail(OP, mail(number))
    assert await store.inbox(OP) == [mail(1), mail(2)]
    await store.save(operation(), lease=lease, read=1)
    assert await store.inbox(OP) == [mail(2)]
    assert await other.mail(OP, mail(1))
    assert await store.inbox(OP) == [mail(2)]


async def test_local_mail_is_heard_of_at_once(store: Store, other: Store) -> None:
    heard: list[OperationId] = []
    store.subscribe_mail(heard.append)
    await began(store)
    await other.mail(OP, mail(1))
    assert heard == []
    await store.mail(OP, mail(2))
    assert not await store.mail(OperationId("unknown"), mail(3))
    assert heard == [OP]


async def test_nothing_is_put_in_for_what_is_over(store: Store) -> None:
    lease = await began(store)
    await store.mail(OP, mail(1))
    await store.finish(CLOSED, lease=lease)
    assert not await store.mail(OP, mail(2))
    assert await store.inbox(OP) == []
    assert not await store.mail(OperationId("never"), mail(3))


async def test_a_save_whose_answer_was_lost_takes_out_no_more_than_was_read(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis took the save, and the caller, who cannot know, saves the same again. Mail came between."""
    lease = await began(store)
    await store.mail(OP, mail(1))
    assert await store.inbox(OP) == [mail(1)]
    run = store.link.run

    async def deaf(*arguments: object) -> object:
        await run(*arguments)  # type: ignore[arg-type]
        raise StoreUnavailable("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(store.link, "run", deaf)
        with pytest.raises(StoreUnavailable):
            await store.save(operation(), lease=lease, read=1)
    await other.mail(OP, mail(2))
    assert await store.inbox(OP) == [mail(1), mail(2)]  # the first is read still, by the caller's count
    await store.save(operation(), lease=lease, read=1)
    assert await store.inbox(OP) == [mail(2)]


async def test_who_takes_over_finds_what_was_not_saved(store: Store, other: Store) -> None:
    lease = await began(store)
    await store.mail(OP, mail(1))
    await store.mail(OP, mail(2))
    assert len(await store.inbox(OP)) == 2
    await store.save(operation(), lease=lease, read=1)
    await store.leases.let_go(lease)
    assert await other.leases.claim(OP) is not None
    with pytest.raises(OwnershipLost):
        await store.save(operation(), lease=lease, read=1)
    assert await other.inbox(OP) == [mail(2)]
    assert await store.inbox(OP) == [mail(2)]


async def test_what_another_took_up_meanwhile_is_not_heard_again(store: Store, other: Store) -> None:
    """It was read, then this process slept; the next owner saved it, died, and left the operation to us."""
    await began(store)
    await other.mail(OP, mail(1))
    assert await store.inbox(OP) == [mail(1)]
    await store.link.ask(store.link.redis.delete(thread_key(OP, "owner")))  # asleep for as long as it lasts
    lease = await other.leases.claim(OP)
    assert lease is not None
    assert await other.inbox(OP) == [mail(1)]
    await other.save(operation(), lease=lease, read=1)
    await store.leases.renew()
    await other.leases.let_go(lease)
    assert await store.leases.claim(OP) is not None
    assert await store.inbox(OP) == []


async def test_unreadable_mail_is_set_aside_and_not_counted(store: Store) -> None:
    lease = await began(store)
    link: RedisLink = store.link
    await link.ask(link.redis.rpush(thread_key(OP, "inbox"), "rubbish"))
    await store.mail(OP, mail(1))
    assert await store.inbox(OP) == [mail(1)]
    await store.save(operation(), lease=lease, read=1)
    assert await store.inbox(OP) == []
    assert [aside.raw for aside in await store.unreadable()] == ["rubbish"]
