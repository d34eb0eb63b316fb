"""`@kimi …`, in channels and in threads."""

from __future__ import annotations

import pytest
from slack_bolt.listener.asyncio_runner import AsyncioListenerRunner

from bot.core.events import ServiceName, UserId, Verb
from bot.practice.slack_socket import Envelope
from handlers.mentions import read_words
from tests.support.configurations import ALICE, ELSEWHERE, MALLORY, OPS, configure
from tests.support.handler_room import Room, make_operation, open_room


async def test_a_mention_is_answered_in_private(room: Room) -> None:
    await room.slack.mention(MALLORY, OPS, "status")
    whisper = await room.whisper(MALLORY)
    assert whisper.plain == "*kimi-k2.5* is *healthy* on llm-two · up 5h"
    assert whisper.thread_ts is None


async def test_in_a_services_thread_the_service_may_be_left_out(redis_url: str) -> None:
    async with open_room(redis_url, configure("kimi-k2.5", "qwen3")) as room:
        operation = make_operation("qwen3")
        ts = await room.post_thread(operation)
        await room.slack.mention(ALICE, OPS, "restart once more", thread_ts=ts)
        whisper = await room.whisper(ALICE)
        assert whisper.thread_ts == ts
        (request,) = room.startups.requests
        assert (request.service, request.verb, request.reason) == (
            ServiceName("qwen3"),
            Verb.RESTART,
            "once more",
        )


async def test_in_any_other_thread_it_must_be_said(redis_url: str) -> None:
    async with open_room(redis_url, configure("kimi-k2.5", "qwen3")) as room:
        said = await room.slack.say(ALICE, OPS, "how is it?")
        await room.slack.mention(ALICE, OPS, "restart", thread_ts=said.ts)
        assert (await room.whisper(ALICE)).plain == "Which service? `restart` `kimi-k2.5` or `qwen3`."


async def test_logs_asked_for_in_a_thread_go_there(room: Room) -> None:
    said = await room.slack.say(ALICE, OPS, "look")
    await room.slack.mention(ALICE, OPS, "logs 10m", thread_ts=said.ts)
    (called,) = await room.wait_for(lambda: room.startups.calls)
    assert called[2]["thread_ts"] == said.ts


async def test_a_mention_elsewhere_is_refused(room: Room) -> None:
    await room.slack.mention(ALICE, ELSEWHERE, "restart")
    assert (await room.whisper(ALICE)).plain.startswith("I do not listen in this channel.")
    assert not room.startups.requests


async def test_an_event_told_again_is_done_once(room: Room) -> None:
    event = {"type": "app_mention", "user": ALICE, "text": "<@U0KIMI> restart", "channel": OPS, "ts": "1.2"}
    body = {"type": "event_callback", "event": event, "event_id": "Ev1", "team_id": "T1"}
    for _ in range(2):
        assert (await room.slack.people.courier.deliver(Envelope("events_api", body))).acknowledged
    await room.whisper(ALICE)
    await room.slack.mention(MALLORY, OPS, "status")
    await room.whisper(MALLORY)  # by now the repeat has been through as well
    assert [request.by for request in room.startups.requests] == [UserId(ALICE)]


async def test_an_event_without_a_number_is_known_by_its_message(room: Room) -> None:
    for ts in ("1.2", "1.2", "1.3"):
        event = {"type": "app_mention", "user": ALICE, "text": "<@U0KIMI> restart", "channel": OPS, "ts": ts}
        body = {"type": "event_callback", "event": event, "team_id": "T1"}
        assert (await room.slack.people.courier.deliver(Envelope("events_api", body))).acknowledged
    await room.wait_for(lambda: len(room.startups.requests) == 2)
    assert len({request.token for request in room.startups.requests}) == 2


async def test_programs_are_not_answered(room: Room) -> None:
    event = {
        "type": "app_mention",
        "user": ALICE,
        "bot_id": "B1",
        "text": "restart",
        "channel": OPS,
        "ts": "1.2",
    }
    body = {"type": "event_callback", "event": event, "event_id": "Ev2", "team_id": "T1"}
    await room.slack.people.courier.deliver(Envelope("events_api", body))
    await room.slack.mention(MALLORY, OPS, "status")
    await room.whisper(MALLORY)
    assert not room.startups.requests


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<@U0KIMI> restart it", " restart it"),
        ("hey <@U0KIMI|kimi> status", " status"),
        ("restart <@U0KIMI>", "restart "),
        ("no mention", "no mention"),
    ],
)
def test_the_words_of_a_mention(text: str, words: str) -> None:
    assert read_words(text, "U0KIMI") == words
    assert read_words(text, None) == text


async def test_a_smoke_test_asked_for_in_a_thread_is_answered_there(room: Room) -> None:
    said = await room.slack.say(ALICE, OPS, "is it fast?")
    await room.slack.mention(ALICE, OPS, "smoke", thread_ts=said.ts)
    assert await room.wait_for(lambda: room.errands.posted) == [("84 tokens/s", said.ts)]


async def test_asked_for_elsewhere_it_is_answered_in_private(room: Room) -> None:
    await room.slack.mention(ALICE, OPS, "smoke")
    assert (await room.whisper(ALICE, 2)).plain == "84 tokens/s"
    assert room.errands.posted == []


async def test_who_may_only_look_runs_no_smoke_test_unless_it_was_theirs(room: Room) -> None:
    await room.slack.mention(MALLORY, OPS, "smoke")
    assert "not run the smoke test of" in (await room.whisper(MALLORY)).plain
    await room.hold(by=MALLORY)
    await room.slack.mention(MALLORY, OPS, "smoke")
    assert (await room.whisper(MALLORY, 3)).plain == "84 tokens/s"
    await room.slack.mention(MALLORY, OPS, "reload")
    assert "not reload the units of" in (await room.whisper(MALLORY, 4)).plain
    assert room.errands.asked == ["smoke kimi-k2.5"]


async def test_what_is_kept_is_done_though_bolt_fails_afterwards(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(AsyncioListenerRunner, "run", fail)
    room.slack.people.retry_delays = ()
    await room.slack.mention(ALICE, OPS, "restart")
    await room.wait_for(lambda: room.startups.requests or None)
    await room.settled()
    await room.wait_for(lambda: not room.intents._mine or None)
    assert len(room.startups.requests) == 1


async def test_what_cannot_be_written_down_is_answered_and_not_told_again(room: Room) -> None:
    outcome = await room.slack.mention(ALICE, OPS, "restart \ud83d")
    assert outcome.acknowledged
    assert (await room.whisper(ALICE)).plain.endswith("Nothing was done.")
    assert not room.startups.requests
    assert not room.intents._mine
