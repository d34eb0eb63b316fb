"""`/kimi …` as people type it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import ANY

import pytest
from redis.asyncio import Redis

from bot.core.actions import Verdict
from bot.core.events import ChannelId, OperationId, ServiceName, UserId, Verb
from bot.core.request import Busy, Declined, Held, NeedsConfirmation, Outage, Request
from bot.core.retrospect import HistoryView, WhyView
from tests.support.configurations import ALICE, BOB, ELSEWHERE, LAB, MALLORY, OPS, configure
from tests.support.handler_room import Dispatch, Room, open_room
from tests.support.slack_messages import assert_sendable, labels, shown
from tests.support.startup_views import seconds
from tests.support.waterfalls import BEGAN, past

if TYPE_CHECKING:
    from bot.core.blocks import Message

KIMI = ServiceName("kimi-k2.5")
SECRET = "sk-" + "abcdefgh12345678" * 3


def text_of(message: Message) -> str:
    assert_sendable(message)
    return message.text


async def test_restart_is_handed_over_and_answered_with_the_acknowledgement(room: Room) -> None:
    answer = await room.slash(ALICE, "restart New <parser>")
    assert text_of(answer) == "Restarting `kimi-k2.5`: see its thread in <#C0OPS>."
    assert room.startups.requests == [
        Request(KIMI, Verb.RESTART, UserId(ALICE), "New <parser>", ChannelId(OPS), token=ANY)
    ]
    assert room.slack.channel_messages(OPS) == []


async def test_a_secret_that_was_pasted_is_neither_kept_nor_told(room: Room) -> None:
    await room.slash(ALICE, f"restart with {SECRET} now")
    await room.slack.mention(ALICE, OPS, f"restart again with {SECRET}")
    await room.wait_for(lambda: len(room.startups.requests) == 2)
    assert [request.reason for request in room.startups.requests] == [
        "with [masked] now",
        "again with [masked]",
    ]
    assert SECRET not in text_of(await room.slash(ALICE, SECRET))
    await room.settled()
    async with Redis.from_url(room.redis_url) as redis:
        for entry in [str(await redis.xrange("kimi:audit")), *map(str, await room.store.intents())]:
            assert SECRET not in entry


async def test_a_group_member_may_too(room: Room) -> None:
    await room.slash(BOB, "stop")
    assert [request.verb for request in room.startups.requests] == [Verb.STOP]


@pytest.mark.parametrize("verb", ["restart", "start", "stop", "unwatch"])
async def test_who_may_not_is_told_who_may_and_nobody_else_is(room: Room, verb: str) -> None:
    told = text_of(await room.slash(MALLORY, verb))
    assert told.startswith("You can look but not ")
    assert "<@U0ALICE> or <!subteam^S0ONCALL>" in told
    assert not room.startups.requests
    assert not room.startups.calls
    assert room.slack.channel_messages(OPS) == []


async def test_nothing_is_heard_or_told_elsewhere(room: Room) -> None:
    for words in ("status", "restart kimi-k2.5", "nonsense", "help"):
        told = text_of(await room.slash(ALICE, words, channel=ELSEWHERE))
        assert told == "I do not listen in this channel. Ask in <#C0OPS>. Nothing was done."
    assert not room.startups.requests


async def test_status_help_and_nonsense(room: Room) -> None:
    assert text_of(await room.slash(MALLORY, "")) == "*kimi-k2.5* is *healthy* on llm-two · up 5h"
    assert text_of(await room.slash(MALLORY, "help")).startswith("You may say here: status, watch")
    assert "restart" in text_of(await room.slash(BOB, "help"))
    assert "Did you mean `restart`?" in text_of(await room.slash(ALICE, "restrat"))
    assert "&lt;!here&gt;" in text_of(await room.slash(ALICE, "<!here>"))


async def test_busy_is_answered_with_who_and_where(room: Room) -> None:
    link = "https://slack.example/p1"
    held = Held(OperationId("op1"), KIMI, Verb.RESTART, UserId(BOB), seconds(120), "weights 12/64", link)
    room.startups.answer = Busy(held)
    answer = await room.slash(ALICE, "restart")
    assert "already being restarted by <@U0BOB>, 2m ago, weights 12/64: <https" in text_of(answer)
    assert labels(answer) == ["Restart anyway"]


async def test_a_question_and_a_refusal_of_the_service(room: Room) -> None:
    room.startups.answer = NeedsConfirmation("It answers requests at present.")
    assert text_of(await room.slash(ALICE, "restart")).endswith("It answers requests at present.")
    room.startups.answer = Declined("llm-two does not answer.")
    assert text_of(await room.slash(ALICE, "restart")) == "llm-two does not answer."


async def test_a_slow_answer_follows_the_acknowledgement(room: Room) -> None:
    room.startups.gate.clear()
    outcome = await room.slack.slash(ALICE, OPS, "restart")
    assert outcome.acknowledged
    assert outcome.response is None
    await room.wait_for(lambda: room.startups.requests)
    assert not room.slack.ephemerals(ALICE)
    room.startups.gate.set()
    assert (await room.whisper(ALICE)).plain.startswith("Restarting `kimi-k2.5`")


async def test_the_same_command_told_twice_is_done_once(room: Room) -> None:
    body = {
        "command": "/kimi",
        "text": "restart",
        "user_id": ALICE,
        "channel_id": OPS,
        "trigger_id": "1.2.same",
        "response_url": f"{room.slack.url}/commands/T/none",
        "team_id": "T1",
    }
    await _deliver(room, body)
    await _deliver(room, body)
    assert len(room.startups.requests) == 1


async def test_a_command_that_lacks_what_it_may_lack_is_heard_all_the_same(room: Room) -> None:
    body = {"command": "/kimi", "user_id": ALICE, "channel_id": OPS, "team_id": "T1"}
    for _ in range(2):
        await _deliver(room, body | {"text": "restart"})
    await room.wait_for(lambda: len(room.startups.requests) == 2)
    await _deliver(room, body)  # no text, which is `status`


async def _deliver(room: Room, body: dict[str, str]) -> None:
    from bot.practice.slack_socket import Envelope  # noqa: PLC0415 - only this test speaks in envelopes

    answer = await room.slack.people.courier.deliver(Envelope("slash_commands", body))
    assert answer.acknowledged


async def test_logs_go_where_they_were_asked_for(room: Room) -> None:
    assert text_of(await room.slash(MALLORY, "logs 200")) == (
        "Fetching the last 200 lines of `kimi-k2.5`; the file comes here."
    )
    (called,) = await room.wait_for(lambda: room.startups.calls)
    assert called == (
        "logs",
        KIMI,
        {"lines": 200, "since": None, "by": MALLORY, "channel": OPS, "thread_ts": None},
    )


async def test_why_there_are_no_logs_is_told(room: Room) -> None:
    room.startups.refused = "kimi may not read the journal on llm-two."
    assert "Fetching the end of" in text_of(await room.slash(ALICE, "logs"))
    assert (await room.whisper(ALICE, 2)).plain == room.startups.refused


async def test_history_is_told_in_private_and_drawn_where_it_was_asked_for(room: Room) -> None:
    room.accounts.past = HistoryView(KIMI, (past(1), past(2, Verdict.FAILED)), now=BEGAN)
    told = text_of(await room.slash(MALLORY, "history"))
    assert told.startswith("*kimi-k2.5*: the last 2 startups, newest first.")
    drawn = await room.wait_for(lambda: room.accounts.drawn)
    assert drawn == [{"service": KIMI, "by": MALLORY, "channel": OPS, "thread_ts": None}]
    assert room.slack.channel_messages(OPS) == []


async def test_why_is_told_to_whoever_may_look(room: Room) -> None:
    assert text_of(await room.slash(MALLORY, "why")) == "No startup of `kimi-k2.5` on record went wrong."
    room.accounts.last = WhyView(KIMI, past(1, Verdict.FAILED), now=BEGAN)
    assert "went wrong after 3m02s" in text_of(await room.slash(MALLORY, "why kimi-k2.5"))
    assert "do not listen" in text_of(await room.slash(MALLORY, "why", channel=ELSEWHERE))


async def test_why_it_is_down_now_is_told_before_a_start_that_went_wrong_long_ago(room: Room) -> None:
    room.incidents.outage = Outage("3f9a2c11", "process died by SIGSEGV", seconds(240))
    room.accounts.last = WhyView(KIMI, past(1, Verdict.FAILED), now=BEGAN)
    told = text_of(await room.slash(MALLORY, "why"))
    assert told.startswith("*kimi-k2.5*: Incident 3f9a2c11, open for 4m: process died by SIGSEGV")


async def test_why_it_was_down_is_told_once_it_serves_again(room: Room) -> None:
    room.incidents.before = Outage("3f9a2c11", "process died by SIGSEGV", seconds(240), over=seconds(60))
    told = text_of(await room.slash(MALLORY, "why"))
    assert told.startswith("*kimi-k2.5*: Incident 3f9a2c11, ended 1m ago after 3m: process died by SIGSEGV")


async def test_unwatch_by_who_started_it(room: Room) -> None:
    await room.hold(by=MALLORY)
    told = text_of(await room.slash(MALLORY, "unwatch"))
    assert told == "No longer following `kimi-k2.5`; the service is left alone."
    room.startups.followed = False
    assert text_of(await room.slash(ALICE, "unwatch")).startswith(
        "No startup of `kimi-k2.5` is being followed"
    )


async def test_signed_requests_are_heard_and_others_are_not(room: Room) -> None:
    room.slack.people.courier = Dispatch(room.app, room.slack.signing_secret)
    assert text_of(await room.slash(ALICE, "restart")).startswith("Restarting")
    room.slack.people.courier = Dispatch(room.app, "another secret")
    outcome = await room.slack.slash(ALICE, OPS, "restart")
    assert not outcome.acknowledged
    assert len(room.startups.requests) == 1


async def test_a_channel_of_one_service_speaks_of_that_one(redis_url: str) -> None:
    configuration = configure("kimi", "qwen", kimi={"channel": LAB})
    async with open_room(redis_url, configuration) as room:
        await room.slash(ALICE, "restart", channel=LAB)
        assert [request.service for request in room.startups.requests] == ["kimi"]
        told = text_of(await room.slash(ALICE, "restart qwen", channel=LAB))
        assert told.startswith("I do not listen about `qwen` in this channel. Ask in <#C0OPS>")
        assert len(room.startups.requests) == 1
        both = await room.slash(ALICE, "status")
        assert "*kimi* is" in shown(both)
        assert "*qwen* is" in shown(both)
