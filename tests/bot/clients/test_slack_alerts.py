"""What is told elsewhere: each once, in words that say what was refused, where, and who can mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from bot.clients.records import Parked
from bot.clients.slack_alerts import Alerts
from bot.clients.store import Store
from bot.core.events import ChannelId
from tests.support.outgoing import BEGAN, CHANNEL, edit, reply, root, upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.clients.records import Outgoing

FALLBACK = ChannelId("C0FALLBACK")
ALERT = "alert-op1-is_archived"


@pytest_asyncio.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    store = await Store.open(redis_url)
    yield store
    await store.close()


def parked(message: Outgoing, code: str = "is_archived") -> Parked:
    return Parked(outgoing=message, method="chat.postMessage", code=code, at=BEGAN)


async def tell(store: Store, *entries: Parked, channel: ChannelId | None = FALLBACK) -> None:
    for entry in entries:
        content = b"log" if entry.outgoing.kind == "upload" else None
        await Alerts(store.queue, channel).tell(entry, content)


async def queued(store: Store, thread: str) -> list[Outgoing]:
    """All of a thread, oldest first; its edit last."""
    found = []
    while (claim := await store.queue.claim(thread, "me", 60)) and (claim.head or claim.edit):
        if claim.head is not None:
            found.append(claim.head)
            await store.queue.accept(claim, "me")
        elif claim.edit is not None:
            found.append(claim.edit)
            await store.queue.edited(claim, "me")
    return found


async def test_a_thread_and_a_code_have_one_alert(store: Store) -> None:
    for _ in range(2):
        await tell(store, parked(reply(1, broadcast=True)), parked(reply(2)))
    await tell(store, parked(reply(3), "restricted_action"))
    alert, *rest = await queued(store, ALERT)
    assert (alert.kind, alert.channel) == ("root", FALLBACK)
    for words in (f"<#{CHANNEL}>", "`is_archived`", "`chat.postMessage`", "Unarchive it"):
        assert words in alert.text
    assert [(message.kind, message.text, message.broadcast) for message in rest] == [
        ("reply", "reply 1", False),
        ("reply", "reply 2", False),
    ]
    other, _ = await queued(store, "alert-op1-restricted_action")
    assert "has to let kimi post there" in other.text


@pytest.mark.parametrize(
    "present", [root("now"), edit("now"), edit("now").model_copy(update={"kind": "present"})]
)
async def test_the_present_stands_in_the_alerts_root(store: Store, present: Outgoing) -> None:
    await tell(store, parked(reply(1)), parked(present))
    alert, _, shown = await queued(store, ALERT)
    assert shown.kind == "edit"
    assert shown.text == f"{alert.text}\nnow"
    assert shown.blocks == (*alert.blocks, *present.blocks)


async def test_a_file_comes_along(store: Store) -> None:
    await tell(store, parked(upload(1)))
    claim = await store.queue.claim(ALERT, "me", 60)
    assert claim is not None
    await store.queue.accept(claim, "me")
    claim = await store.queue.claim(ALERT, "me", 60)
    assert claim is not None
    assert claim.head is not None
    assert await store.queue.file(claim.head) == b"log"


async def test_an_answer_in_anothers_thread_is_told_in_the_alerts_own(store: Store) -> None:
    await tell(store, parked(reply(1, thread_ts="9.9")))
    assert [message.thread_ts for message in await queued(store, ALERT)] == [None, None]


@pytest.mark.parametrize(
    ("message", "channel"),
    [
        (reply(1), None),  # no fallback channel
        (reply(1), CHANNEL),  # it is the fallback channel that refuses
        (reply(1, thread="alert-op1-is_archived"), FALLBACK),  # an alert that was refused itself
    ],
)
async def test_where_nothing_can_be_told_nothing_is_queued(
    store: Store, message: Outgoing, channel: Any
) -> None:
    await tell(store, parked(message), channel=channel)
    assert await store.queue.threads() == []


async def test_who_asked_is_told_once(store: Store) -> None:
    for _ in range(2):
        await tell(store, parked(root(asker="U0ALICE"), "not_in_channel"), parked(reply(1)))
    (told,) = await queued(store, "dm-op1")
    assert (told.kind, told.channel) == ("root", "U0ALICE")
    for words in (f"<#{CHANNEL}>", "`not_in_channel`", f"<#{FALLBACK}>", "`/kimi status`", "`/invite`"):
        assert words in told.text


async def test_who_asked_is_told_without_a_fallback_channel_too(store: Store) -> None:
    await tell(store, parked(root(asker="U0ALICE")), channel=None)
    assert await store.queue.threads() == ["dm-op1"]
