"""One thread on its way to Slack: order, faults, refusals; each message in the end exactly once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from bot.clients.slack_outlet import Outlet
from bot.clients.slack_thread import Sender
from bot.clients.store_queue import Claim, Queue
from bot.core.events import OperationId
from bot.errors import OwnershipLost
from bot.practice.slack_faults import UPLOAD, FaultPlan
from tests.support.outbox import BRISK, PATIENCE, QUICK, Stage, open_stage, until
from tests.support.outgoing import CHANNEL, OTHER_CHANNEL, edit, operation, reply, root, section, upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from bot.clients.records import Outgoing
    from bot.core.pacing import Step, Waiting
    from bot.practice.slack_faults import Fault

POST, UPDATE = "chat.postMessage", "chat.update"
LOG = b"first line\nsecond line\nthird line\n"
EVERYTHING = ["restarting", "reply 1", "reply 2", "reply 3"]


@pytest_asyncio.fixture
async def stage(redis_url: str) -> AsyncIterator[Stage]:
    async with open_stage(redis_url) as stage:
        yield stage


def four() -> list[Outgoing]:
    return [root(), reply(1), reply(2), reply(3)]


async def test_root_first_then_replies_in_order(stage: Stage) -> None:
    await stage.store.save(operation(), four())
    await stage.deliver()
    assert stage.thread() == EVERYTHING
    assert stage.slack.refusals == []


async def test_replies_wait_for_a_root_that_comes_later(stage: Stage) -> None:
    await stage.store.enqueue([reply(1), edit("present")])
    async with stage.outbox() as outbox:
        assert not await outbox.drain(0.2)
        assert stage.slack.channel_messages(CHANNEL) == []
        await stage.store.enqueue([root()])
        assert await outbox.drain(PATIENCE)
    assert stage.thread() == ["present", "reply 1"]


async def test_the_address_tells_place_and_link(stage: Stage) -> None:
    await stage.store.save(operation(), four())
    await stage.deliver()
    address = await stage.store.address("op1")
    assert address is not None
    assert (address.channel, address.ts) == (CHANNEL, stage.root().ts)
    assert address.permalink == f"{stage.slack.url}/archives/{CHANNEL}/p{address.ts.replace('.', '')}"
    assert await stage.store.operation_at(CHANNEL, address.ts) == "op1"
    assert stage.calls("chat.getPermalink") == 1


async def test_an_answer_into_a_foreign_thread_needs_no_root(stage: Stage) -> None:
    await stage.store.enqueue([root(thread="theirs")])
    await stage.deliver()
    await stage.store.enqueue([reply(1, thread="answer", thread_ts=stage.root().ts)])
    await stage.deliver()
    assert stage.thread() == ["restarting", "reply 1"]


async def test_a_broadcast_shows_in_the_channel(stage: Stage) -> None:
    await stage.store.enqueue([root(), reply(1, "failed", broadcast=True)])
    await stage.deliver()
    assert [message.text for message in stage.slack.channel_messages(CHANNEL)] == ["restarting", "failed"]


async def test_nothing_unfurls_and_nothing_is_parsed(stage: Stage) -> None:
    await stage.store.enqueue([root(), edit("now")])
    await stage.deliver()
    post = next(call.arguments for call in stage.slack.calls if call.method == POST)
    assert (post["unfurl_links"], post["unfurl_media"]) == (False, False)
    assert next(call.arguments for call in stage.slack.calls if call.method == UPDATE)["parse"] == "none"


async def test_edits_coalesce_and_the_newest_wins(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    async with stage.outbox() as outbox:
        for number in range(50):
            await stage.store.save(operation(), [edit(f"{number}/50")])
        await stage.store.save(operation(), [edit("healthy")])
        assert await outbox.drain(PATIENCE)
    assert stage.thread() == ["healthy"]
    assert stage.calls(UPDATE) < 25


async def test_new_presents_cost_nothing_while_the_root_may_not_be_edited(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims: list[str] = []
    claim = Queue.claim

    async def count(queue: Queue, thread: str, owner: str, lease: float) -> Claim | None:
        claims.append(thread)
        return await claim(queue, thread, owner, lease)

    monkeypatch.setattr(Queue, "claim", count)
    await stage.store.enqueue([root(), edit("0/50")])
    async with stage.outbox(pace=replace(BRISK, root_interval=60.0)):
        await stage.slack.wait_for(lambda _: stage.thread() == ["0/50"], PATIENCE)
        await stage.store.enqueue([edit("1/50")])
        await until(lambda: len(claims) > 2)
        before = len(claims)
        for number in range(2, 50):
            await stage.store.enqueue([edit(f"{number}/50")])
        assert len(claims) <= before + 5  # of 48: what it was in the midst of, and no more
        await stage.store.enqueue([reply(1)])  # and what is more than the present goes out at once
        await stage.slack.wait_for(lambda _: stage.thread() == ["0/50", "reply 1"], PATIENCE)


plan = FaultPlan
AGAIN: list[tuple[str, str, Fault]] = [
    ("429", POST, plan.rate_limited(0)),
    ("200 with ratelimited", POST, plan.rate_limited(0, http_ok=True)),
    ("500", POST, plan.status(500)),
    ("503", POST, plan.status(503)),
    ("internal_error, not posted", POST, plan.error("internal_error")),
    ("internal_error, posted", POST, plan.error("internal_error", accept=True)),
    ("fatal_error, posted", POST, plan.error("fatal_error", accept=True)),
    ("reset, not posted", POST, plan.reset_before_accept()),
    ("reset, posted", POST, plan.reset_after_accept()),
    ("hangs, not posted", POST, plan.hang(0.8, accept=False)),
    ("hangs, posted", POST, plan.hang(0.8)),
    ("update: 429", UPDATE, plan.rate_limited(0)),
    ("update: internal_error", UPDATE, plan.error("internal_error")),
    ("update: reset", UPDATE, plan.reset_after_accept()),
    ("update: 500", UPDATE, plan.status(500)),
    ("link: internal_error", "chat.getPermalink", plan.error("internal_error")),
    ("link: no", "chat.getPermalink", plan.error("message_not_found")),
]


@pytest.mark.parametrize(("method", "fault"), [row[1:] for row in AGAIN], ids=[row[0] for row in AGAIN])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_fault_loses_and_doubles_nothing(stage: Stage, method: str, fault: Fault, times: int) -> None:
    stage.slack.faults.add(method, fault, times=times)
    await stage.store.save(operation(), [*four(), edit("healthy")])
    await stage.deliver()
    assert stage.thread() == ["healthy", *EVERYTHING[1:]]
    assert len(stage.slack.channel_messages(CHANNEL)) == 1
    assert await stage.store.parked() == []


@pytest.mark.parametrize("answer", ["reset", "error"])
async def test_a_reply_that_was_accepted_is_not_sent_again(stage: Stage, answer: str) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    fault = plan.reset_after_accept() if answer == "reset" else plan.error("internal_error", accept=True)
    stage.slack.faults.add(POST, fault)
    await stage.store.enqueue([reply(1), reply(2)])
    await stage.deliver()
    assert stage.thread() == ["restarting", "reply 1", "reply 2"]
    assert stage.calls(POST) == 3
    assert stage.calls("conversations.replies") == 1


async def test_read_back_finds_a_message_pages_away(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.clients.slack_messages.PAGE", 2)
    await stage.store.enqueue([root(), *(reply(number) for number in range(7))])
    stage.slack.faults.add(POST, plan.reset_after_accept(), times=8)
    await stage.deliver()
    assert stage.thread() == ["restarting", *(f"reply {number}" for number in range(7))]


async def test_a_read_back_that_fails_is_tried_again(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    stage.slack.faults.add(POST, plan.reset_after_accept())
    stage.slack.faults.add("conversations.replies", plan.rate_limited(0))
    stage.slack.faults.add("conversations.replies", plan.status(502))
    await stage.store.enqueue([reply(1)])
    await stage.deliver()
    assert stage.thread() == ["restarting", "reply 1"]
    assert stage.calls("conversations.replies") == 3


async def test_what_redis_forgot_in_a_fail_over_is_not_sent_again(stage: Stage) -> None:
    redis, messages = stage.store.link.redis, [root(), reply(1)]
    await stage.store.enqueue(messages)
    before = await stage.store.link.ask(redis.lrange("kimi:{op1}:queue", 0, -1))
    async with stage.outbox() as outbox:
        assert await outbox.drain(PATIENCE)
        # A replica that took over never heard of the attempts, nor that Slack has them.
        await redis.delete("kimi:{op1}:address")
        await stage.store.link.ask(redis.rpush("kimi:{op1}:queue", *before))
        assert await outbox.depth() == 2
        await stage.store.enqueue([reply(2)])
        assert await outbox.drain(PATIENCE)
    assert stage.thread() == ["restarting", "reply 1", "reply 2"]
    assert len(stage.slack.channel_messages(CHANNEL)) == 1


async def test_without_the_right_to_read_back_nothing_is_lost(stage: Stage) -> None:
    stage.slack.faults.add(POST, plan.reset_before_accept())
    stage.slack.faults.add("conversations.history", plan.error("missing_scope"))
    await stage.store.enqueue([root()])
    await stage.deliver()
    assert stage.thread() == ["restarting"]


async def test_retry_after_parks_posts_and_lets_edits_go(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    stage.slack.faults.add(POST, plan.rate_limited(60))
    async with stage.outbox():
        await stage.store.enqueue([reply(1), edit("moving")])
        await stage.slack.wait_for(lambda slack: slack.workspace.roots(CHANNEL)[0].text == "moving", 60)
    assert stage.thread() == ["moving"]
    assert await stage.store.queue.pending() == 1


# Refusals that a simpler message mends.


@pytest.mark.parametrize(
    "code", ["invalid_blocks", "msg_blocks_too_long", "msg_too_long", "metadata_too_large", "never_heard_of"]
)
async def test_a_repairable_refusal_is_said_again_in_plain_text(stage: Stage, code: str) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    stage.slack.faults.add(POST, plan.error(code))
    await stage.store.enqueue([reply(1), reply(2)])
    await stage.deliver()
    _, first, second = stage.slack.thread(CHANNEL, stage.root().ts)
    assert (first.text, first.blocks) == ("reply 1", ())
    assert len(second.blocks) == 1
    assert (first.metadata is None) == (code == "metadata_too_large")


async def test_an_edit_too_long_is_shortened_and_says_so(stage: Stage) -> None:
    await stage.store.enqueue([root(), edit("é" * 5000, blocks=())])
    await stage.deliver()
    text = stage.root().text
    assert len(text.encode()) < 4000
    assert text.startswith("éé")
    assert text.endswith("more characters are left out.")
    assert [refusal.error for refusal in stage.slack.refusals] == ["msg_too_long"]


async def test_blocks_slack_refuses_by_its_own_rules(stage: Stage) -> None:
    await stage.store.enqueue([root(), reply(1, blocks=(section("x" * 4000),))])
    await stage.deliver()
    assert stage.thread() == ["restarting", "reply 1"]


@pytest.mark.parametrize("fault", [plan.error("internal_error"), plan.status(413)], ids=repr)
async def test_a_message_that_slack_chokes_on_goes_out_plain(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr("bot.clients.slack_thread.PLAIN_AFTER", 2)
    stage.slack.faults.add(POST, fault, times=2)
    await stage.store.enqueue([root()])
    await stage.deliver()
    assert stage.root().blocks == ()


async def test_an_edit_that_slack_chokes_on_is_shown_plain(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.clients.slack_thread.PLAIN_AFTER", 2)
    await stage.store.enqueue([root()])
    await stage.deliver()
    stage.slack.faults.add(UPDATE, plan.error("internal_error"), times=2)
    await stage.store.enqueue([edit("now")])
    await stage.deliver()
    assert (stage.root().text, stage.root().blocks) == ("now", ())


async def test_an_edit_that_slack_chokes_on_for_good_is_tried_more_and_more_seldom(stage: Stage) -> None:
    """Slack takes few edits a minute, from all threads together."""
    await stage.store.enqueue([root(), root(thread="op2")])
    await stage.deliver()
    place = await stage.store.address(OperationId("op1"))
    assert place is not None
    ts = place.ts
    stage.slack.faults.add(
        UPDATE, plan.error("internal_error"), None, where=lambda arguments: arguments["ts"] == ts
    )
    timing = replace(QUICK, settle=0.1, longest=60.0)
    async with stage.outbox(timing=timing) as outbox:
        await stage.store.enqueue([edit("bad")])
        for number in range(20):
            await stage.store.enqueue([edit(f"now {number}", thread="op2"), reply(number, thread="op2")])
            await asyncio.sleep(0.1)
        tries = sum(call.arguments["ts"] == ts for call in stage.slack.calls if call.method == UPDATE)
        assert 2 <= tries <= 10  # of forty that its root may be edited in
        await stage.slack.wait_for(
            lambda slack: "now 19" in [each.text for each in slack.channel_messages(CHANNEL)], PATIENCE
        )
        await stage.store.enqueue([reply(1)])
        await stage.slack.wait_for(
            lambda slack: [each.text for each in slack.thread(CHANNEL, ts)][1:] == ["reply 1"], PATIENCE
        )
        assert await outbox.depth() == 1


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tries as it is, two as plain text."""
    monkeypatch.setattr("bot.clients.slack_thread.PLAIN_AFTER", 2)
    monkeypatch.setattr("bot.clients.slack_thread.GIVE_UP_AFTER", 2)


def says(text: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda arguments: arguments.get("text") == text


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("code", ["internal_error", "fatal_error"])
async def test_what_slack_chokes_on_for_good_is_told_elsewhere_and_the_thread_goes_on(
    stage: Stage, code: str
) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    choking = reply(1, "hard to swallow", blocks=(section("hard to swallow"),))
    here = says("hard to swallow")
    stage.slack.faults.add(POST, plan.error(code), None, where=lambda a: here(a) and a["channel"] == CHANNEL)
    async with stage.outbox(fallback=OTHER_CHANNEL) as outbox, asyncio.timeout(PATIENCE):
        await stage.store.enqueue([choking, reply(2)])
        number = 0
        while await stage.store.queue.pending():  # edits that are shown meanwhile excuse nothing
            await stage.store.save(operation(), [edit(f"present {number}")])
            number += 1
            await asyncio.sleep(0.02)
        assert await outbox.drain(PATIENCE)
    assert [message.text for message in stage.slack.thread(CHANNEL, stage.root().ts)][1:] == ["reply 2"]
    [parked] = await stage.store.parked()
    assert (parked.outgoing.id, parked.method, parked.code) == ("op1:1", POST, code)
    assert stage.thread(OTHER_CHANNEL)[1:] == ["hard to swallow"]
    tried = [call.arguments for call in stage.slack.calls if call.method == POST and here(call.arguments)]
    assert [bool(each.get("blocks")) for each in tried if each["channel"] == CHANNEL] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.usefixtures("impatient")
async def test_a_root_that_slack_chokes_on_for_good_is_a_refused_root(stage: Stage) -> None:
    stage.slack.add_user("U0ALICE", "alice")
    stage.slack.faults.add(POST, plan.error("internal_error"), times=4)
    await stage.store.enqueue([root(asker="U0ALICE"), reply(1), edit("now")])
    await stage.deliver()
    parked = await stage.store.parked()
    assert sorted(entry.outgoing.id for entry in parked) == ["op1:1", "op1:edit", "op1:root"]
    assert {entry.code for entry in parked} == {"internal_error"}
    assert stage.slack.channel_messages(CHANNEL) == []
    assert await stage.store.queue.address("dm-op1") is not None


@pytest.mark.usefixtures("impatient")
async def test_what_slack_took_at_the_last_try_is_not_told_elsewhere(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    stage.slack.faults.add(POST, plan.error("internal_error"), times=3)
    stage.slack.faults.add(POST, plan.error("internal_error", accept=True))
    await stage.store.enqueue([reply(1), reply(2)])
    await stage.deliver()
    assert stage.thread() == ["restarting", "reply 1", "reply 2"]
    assert await stage.store.parked() == []


@pytest.mark.usefixtures("impatient")
async def test_a_slack_that_chokes_on_everything_refuses_nothing(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    stage.slack.faults.add(POST, plan.error("internal_error"))
    stage.slack.faults.add("conversations.replies", plan.error("internal_error"), times=8)
    await stage.store.enqueue([reply(1, blocks=(section("as it is"),))])
    await stage.deliver()
    assert stage.slack.thread(CHANNEL, stage.root().ts)[1].blocks
    assert await stage.store.parked() == []


@pytest.mark.usefixtures("impatient")
async def test_a_file_and_its_text_that_slack_chokes_on_for_good_are_refused(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    stage.slack.faults.add(COMPLETE, plan.error("internal_error"), times=None)
    stage.slack.faults.add(POST, plan.error("internal_error"), times=4)
    await stage.store.save(operation(), [upload(1), reply(2)], {"op1:1": LOG})
    await stage.deliver()
    assert stage.thread() == ["restarting", "reply 2"]
    assert [entry.outgoing.id for entry in await stage.store.parked()] == ["op1:1"]


# Refusals for good.


async def test_a_refused_root_parks_its_whole_thread_and_no_other(stage: Stage) -> None:
    nowhere = {"channel": "C0NOWHERE"}
    orphans = [root(**nowhere), reply(1, **nowhere), upload(2, **nowhere), edit("now", **nowhere)]
    await stage.store.save(operation(), orphans, {"op1:2": LOG})
    await stage.store.save(operation("op2"), [root(thread="op2"), reply(1, thread="op2")])
    outbox = await stage.deliver()
    assert stage.thread() == ["restarting", "reply 1"]
    parked = await stage.store.parked()
    assert sorted(entry.outgoing.id for entry in parked) == ["op1:1", "op1:2", "op1:edit", "op1:root"]
    assert {(entry.code, entry.method) for entry in parked} == {("channel_not_found", POST)}
    assert outbox.counts["parked"] == 4
    assert await stage.store.queue.file(upload(2)) == LOG


async def test_what_comes_after_a_refused_root_is_parked_too(stage: Stage) -> None:
    await stage.store.enqueue([root(channel="C0NOWHERE")])
    await stage.deliver()
    await stage.store.enqueue([reply(1, channel="C0NOWHERE")])
    await stage.deliver()
    assert [entry.outgoing.id for entry in await stage.store.parked()] == ["op1:root", "op1:1"]


async def test_a_new_root_ends_the_parking(stage: Stage) -> None:
    await stage.store.enqueue([root(channel="C0NOWHERE")])
    await stage.deliver()
    await stage.store.enqueue([root(id="op1:second-root"), reply(1)])
    await stage.deliver()
    assert stage.thread() == ["restarting", "reply 1"]


async def test_an_archived_channel_parks_and_other_channels_go_on(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    stage.slack.workspace.channels[CHANNEL].archived = True
    await stage.store.enqueue([reply(1), edit("now"), root(thread="op2", channel="C0987654321")])
    await stage.deliver()
    codes = sorted((entry.outgoing.id, entry.code) for entry in await stage.store.parked())
    assert codes == [("op1:1", "is_archived"), ("op1:edit", "is_archived")]
    assert stage.thread("C0987654321") == ["restarting"]


async def test_a_scope_that_is_missing_parks(stage: Stage) -> None:
    stage.slack.faults.add(POST, plan.error("missing_scope"))
    await stage.store.enqueue([root()])
    await stage.deliver()
    assert [entry.code for entry in await stage.store.parked()] == ["missing_scope"]


# A token that is refused: nothing is wrong with the messages.


async def test_all_wait_in_order_until_the_token_is_good_again(stage: Stage) -> None:
    await stage.store.save(operation(), [root(), reply(1)])
    await stage.deliver()
    stage.slack.workspace.revoked = True
    with capture_logs() as logs:
        async with stage.outbox() as outbox:
            content = {"op1:3": LOG}
            await stage.store.save(operation(), [reply(2), upload(3), reply(4), edit("healthy")], content)
            await stage.store.enqueue([root(thread="op2", channel="C0987654321")])
            await stage.slack.wait_for(lambda slack: len(slack.refusals) > 3, 60)
            assert outbox.locked == "token_revoked"
            assert outbox.counts["locked"] == 1
            stage.slack.workspace.revoked = False
            assert await outbox.drain(PATIENCE)
            assert outbox.locked is None
    assert stage.thread() == ["healthy", "reply 1", "reply 2", "3 lines, 1 secret masked", "reply 4"]
    assert stage.thread("C0987654321") == ["restarting"]
    assert [file.content for file in stage.slack.files.values()] == [LOG]
    assert await stage.store.parked() == []
    told = [entry["event"] for entry in logs if str(entry["event"]).startswith("slack_token")]
    assert told == ["slack_token_refused", "slack_token_good_again"]


async def test_a_token_that_is_refused_at_the_read_back_sends_nothing_twice(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    stage.slack.faults.add(POST, plan.reset_after_accept())
    stage.slack.faults.add("conversations.replies", plan.error("token_revoked"), times=2)
    await stage.store.enqueue([reply(1)])
    await stage.deliver()
    assert stage.thread() == ["restarting", "reply 1"]


@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "files.completeUploadExternal"])
async def test_a_file_waits_for_the_token_and_does_not_become_text(stage: Stage, method: str) -> None:
    stage.slack.faults.add(method, plan.error("invalid_auth"), times=2)
    await stage.store.save(operation(), [root(), upload(1)], {"op1:1": LOG})
    await stage.deliver()
    (file,) = stage.slack.files.values()
    assert file.content == LOG
    assert stage.thread() == ["restarting", "3 lines, 1 secret masked"]


# Told on another way.


async def test_what_slack_refuses_is_told_in_the_fallback_channel(stage: Stage) -> None:
    stage.slack.add_channel("C0FALLBACK", "alerts")
    await stage.store.enqueue([root(), reply(1)])
    async with stage.outbox(fallback="C0FALLBACK") as outbox:
        assert await outbox.drain(PATIENCE)
        stage.slack.workspace.channels[CHANNEL].archived = True
        await stage.store.save(operation(), [reply(2), edit("now"), upload(3), reply(4)], {"op1:3": LOG})
        assert await outbox.drain(PATIENCE)
        stage.slack.workspace.channels[CHANNEL].archived = False
        await stage.store.enqueue([reply(5), edit("healthy")])
        assert await outbox.drain(PATIENCE)
    assert stage.thread() == ["healthy", "reply 1", "reply 5"]
    alert, *told = stage.slack.thread("C0FALLBACK", stage.root("C0FALLBACK").ts)
    assert "`is_archived`" in alert.plain
    assert alert.plain.endswith("now")
    assert [message.text for message in told] == ["reply 2", "3 lines, 1 secret masked", "reply 4"]
    assert told[1].files[0].content == LOG
    assert len(stage.slack.channel_messages("C0FALLBACK")) == 1
    assert sorted(entry.outgoing.id for entry in await stage.store.parked()) == [
        "op1:2",
        "op1:3",
        "op1:4",
        "op1:edit",
    ]


async def test_a_file_of_a_thread_without_a_place_is_told_with_it(stage: Stage) -> None:
    """Its root was refused: nothing of it was ever asked of Slack, and all of it is told."""
    stage.slack.add_channel("C0FALLBACK", "alerts")
    nowhere = {"channel": "C0NOWHERE"}
    orphans = [root(**nowhere), reply(1, **nowhere), upload(2, **nowhere), edit("now", **nowhere)]
    async with stage.outbox(fallback="C0FALLBACK") as outbox:
        await stage.store.save(operation(), orphans, {"op1:2": LOG})
        assert await outbox.drain(PATIENCE)
    alert, *told = stage.slack.thread("C0FALLBACK", stage.root("C0FALLBACK").ts)
    assert alert.plain.endswith("now")
    assert [message.text for message in told] == ["reply 1", "3 lines, 1 secret masked"]


async def test_who_asked_is_told_in_private_when_the_thread_is_refused(stage: Stage) -> None:
    stage.slack.add_user("U0ALICE", "alice")
    async with stage.outbox() as outbox:
        await stage.store.enqueue([root(channel="C0NOWHERE", asker="U0ALICE"), reply(1, channel="C0NOWHERE")])
        assert await outbox.drain(PATIENCE)
    (told,) = stage.slack.workspace.roots("D0ALICE")
    assert "`channel_not_found`" in told.plain
    assert "/invite" in told.plain


async def test_a_refused_message_says_itself_in_the_log(stage: Stage) -> None:
    with capture_logs() as logs:
        await stage.store.enqueue([root("restarting kimi-k2.5", channel="C0NOWHERE")])
        await stage.deliver()
    (entry,) = [entry for entry in logs if entry["event"] == "message_parked"]
    assert (entry["text"], entry["channel"], entry["code"]) == (
        "restarting kimi-k2.5",
        "C0NOWHERE",
        "channel_not_found",
    )


# The lease.


async def test_who_may_have_lost_the_lease_calls_nobody(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.store.enqueue([root()])
    sender = Sender("op1", stage.idle_outbox()._outlet)
    admit = Outlet.admit

    async def wait_too_long(outlet: Outlet, step: Step, waiting: Waiting) -> Step:
        sender.until = time.monotonic()
        return await admit(outlet, step, waiting)

    monkeypatch.setattr(Outlet, "admit", wait_too_long)
    with pytest.raises(OwnershipLost):
        await sender.run()
    assert stage.slack.calls == []
    monkeypatch.undo()
    await stage.deliver()
    assert stage.thread() == ["restarting"]


# Edits that are no longer possible.


@pytest.mark.parametrize("code", ["message_not_found", "edit_window_closed", "cant_update_message"])
async def test_a_reply_takes_over_from_what_cannot_be_edited(stage: Stage, code: str) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    stage.slack.faults.add(UPDATE, plan.error(code))
    await stage.store.enqueue([edit("weights")])
    await stage.deliver()
    await stage.store.enqueue([edit("graphs"), reply(1)])
    await stage.deliver()
    assert stage.thread() == ["restarting", "graphs", "reply 1"]
    assert await stage.store.parked() == []


async def test_a_reply_takes_over_again_from_a_reply(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    for text in ("one", "two"):
        stage.slack.faults.add(UPDATE, plan.error("edit_window_closed"))
        await stage.store.enqueue([edit(text)])
        await stage.deliver()
    assert stage.thread() == ["restarting", "one", "two"]


async def test_the_reply_that_takes_over_comes_once_though_its_answer_was_lost(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    stage.slack.faults.add(UPDATE, plan.error("edit_window_closed"))
    stage.slack.faults.add(POST, plan.reset_after_accept())
    await stage.store.enqueue([edit("weights")])
    await stage.deliver()
    await stage.store.enqueue([edit("graphs")])
    await stage.deliver()
    assert stage.thread() == ["restarting", "graphs"]


# Files.


async def test_a_file_comes_into_the_thread(stage: Stage) -> None:
    await stage.store.save(operation(), [root(), upload(1), reply(2)], {"op1:1": LOG})
    await stage.deliver()
    (file,) = stage.slack.files.values()
    assert (file.name, file.title, file.content) == ("tail.log", "the whole log", LOG)
    assert (file.channel, file.thread_ts) == (CHANNEL, stage.root().ts)
    assert stage.thread() == ["restarting", "3 lines, 1 secret masked", "reply 2"]
    assert await stage.store.queue.file(upload(1)) is None
    assert stage.slack.refusals == []


async def test_a_file_that_is_a_thread_of_its_own_waits_for_no_root(stage: Stage) -> None:
    alone = upload(1, thread="logs-1", id="logs-1")
    await stage.store.enqueue([alone], {"logs-1": LOG})
    await stage.deliver()
    (file,) = stage.slack.files.values()
    assert (file.channel, file.thread_ts, file.content) == (CHANNEL, None, LOG)
    assert [message.text for message in stage.slack.channel_messages(CHANNEL)] == ["3 lines, 1 secret masked"]
    assert stage.slack.refusals == []


RESERVE, COMPLETE = "files.getUploadURLExternal", "files.completeUploadExternal"
FILE_FAULTS: list[tuple[str, Fault]] = [
    (RESERVE, plan.reset_after_accept()),
    (RESERVE, plan.rate_limited(0)),
    (RESERVE, plan.error("internal_error")),
    (UPLOAD, plan.status(500)),
    (UPLOAD, plan.reset_after_accept()),
    (UPLOAD, plan.rate_limited(0)),
    (COMPLETE, plan.rate_limited(0)),
    (COMPLETE, plan.reset_before_accept()),
    (COMPLETE, plan.reset_after_accept()),
    (COMPLETE, plan.hang(0.8)),
    (COMPLETE, plan.error("internal_error", accept=True)),
]


@pytest.mark.parametrize(("method", "fault"), FILE_FAULTS, ids=repr)
async def test_an_upload_comes_once_whatever_fails(stage: Stage, method: str, fault: Fault) -> None:
    stage.slack.faults.add(method, fault)
    await stage.store.save(operation(), [root(), upload(1), reply(2)], {"op1:1": LOG})
    await stage.deliver()
    assert stage.thread() == ["restarting", "3 lines, 1 secret masked", "reply 2"]
    shown = [message.files for message in stage.slack.thread(CHANNEL, stage.root().ts)]
    assert [file.content for files in shown for file in files] == [LOG]


FILE_REFUSALS = [
    "file_uploads_disabled",
    "file_uploads_except_images_disabled",
    "storage_limit_reached",
    "file_upload_size_restricted",
    "file_too_large",
    "blocked_file_type",
    "slack_connect_blocked_file_type",
    "file_not_found",
    "invalid_channel",
    "posting_to_channel_denied",
    "missing_scope",
    "of_next_year",
]


@pytest.mark.parametrize("method", [RESERVE, COMPLETE, UPLOAD])
@pytest.mark.parametrize("code", FILE_REFUSALS)
async def test_an_upload_that_is_refused_becomes_text(stage: Stage, method: str, code: str) -> None:
    stage.slack.faults.add(method, plan.error(code))
    await stage.store.save(operation(), [root(), upload(1), reply(2)], {"op1:1": LOG})
    await stage.deliver()
    _, told, last = stage.slack.thread(CHANNEL, stage.root().ts)
    assert "3 lines, 1 secret masked" in told.plain
    assert "third line" in told.plain
    assert "could not be attached" in told.plain
    assert last.text == "reply 2"
    assert await stage.store.parked() == []


async def test_the_text_for_a_refused_upload_comes_once(stage: Stage) -> None:
    await stage.store.enqueue([root()])
    await stage.deliver()
    stage.slack.faults.add(RESERVE, plan.error("storage_limit_reached"), times=None)
    stage.slack.faults.add(POST, plan.reset_after_accept())
    await stage.store.enqueue([upload(1)], {"op1:1": LOG})
    await stage.deliver()
    assert len(stage.thread()) == 2


async def test_bytes_that_cannot_be_handed_over_become_text(stage: Stage) -> None:
    stage.slack.faults.add(UPLOAD, plan.reset_after_accept(), times=None)
    await stage.store.save(operation(), [root(), upload(1)], {"op1:1": LOG})
    await stage.deliver()
    assert "third line" in stage.slack.thread(CHANNEL, stage.root().ts)[1].plain


async def test_a_file_that_slack_chokes_on_becomes_text(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.clients.slack_thread.PLAIN_AFTER", 3)
    stage.slack.faults.add(COMPLETE, plan.error("internal_error"), times=None)
    await stage.store.save(operation(), [root(), upload(1), reply(2)], {"op1:1": LOG})
    await stage.deliver()
    assert "third line" in stage.slack.thread(CHANNEL, stage.root().ts)[1].plain
    assert stage.thread()[-1] == "reply 2"


async def test_a_file_whose_content_is_gone_is_told(stage: Stage) -> None:
    await stage.store.save(operation(), [root(), upload(1)])
    await stage.deliver()
    assert "no longer there" in stage.thread()[1]
