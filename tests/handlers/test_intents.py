"""What was asked for outlives the process that heard it, and is done once."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from bot.clients.records import Intent
from bot.core.answers import REDIS_GONE, REDIS_GONE_FOR_NOW, render_confirmation
from bot.core.command import Command, Word
from bot.core.events import ChannelId, OperationId, ServiceName, UserId, Verb
from bot.core.render import render_root
from bot.core.report import render_stall
from bot.core.request import Busy, Held, NeedsConfirmation, Request, Started, operation_of
from bot.errors import Leaving
from bot.practice.slack_faults import ErrorCode, Fault, ResetBeforeAccept, Status
from bot.practice.slack_people import Courier
from bot.practice.slack_socket import Answer, Envelope
from handlers.dialogue import COMMAND
from tests.bot.core.test_report import STALL
from tests.support.configurations import ALICE, BOB, MALLORY, OPS
from tests.support.cutting import Cut
from tests.support.handler_room import Dispatch, Room, make_operation, open_room, open_rooms
from tests.support.startup_views import MIDWAY, seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.practice.slack import PracticeSlack
    from tests.support.redis import RedisServer

KIMI = ServiceName("kimi-k2.5")
HELD = Held(OperationId("op1"), KIMI, Verb.RESTART, UserId(BOB), seconds(120))
STOP = COMMAND.dump_json(Command(Word.STOP, KIMI)).decode()
ASKED = Request(KIMI, Verb.RESTART, UserId(ALICE), "new parser", ChannelId(OPS))


def said(slack: PracticeSlack, user: str = ALICE) -> list[str]:
    return [message.plain for message in slack.ephemerals(user)]


# Death between any two steps.


async def empty(redis_url: str) -> None:
    async with Redis.from_url(redis_url) as redis:
        await redis.flushall()


async def steps_of(redis_url: str, act: Callable[[Room], Awaitable[Any]]) -> list[str]:
    """Every place at which a process may die, found by looking at one that does not."""
    cut = Cut()
    await empty(redis_url)
    async with open_rooms(redis_url, cut) as (room,):
        await act(room)
        await room.settled()
        await room.wait_for(lambda: "after settle_intent" in cut.steps or None)
    return cut.steps


async def die_at(place: int, redis_url: str, act: Callable[[Room], Awaitable[Any]]) -> Fate:
    """One process dies at that step, the other takes up what it left."""
    cut = Cut(place)
    await empty(redis_url)
    async with open_rooms(redis_url, cut, Cut()) as (dying, living):
        await act(dying)
        await cut.reached.wait()
        await dying.die()
        await living.intents.adopt()
        await living.settled()
        noted = [entry.outcome for entry in await living.store.audits(10)]
        begun = len(living.startups.begun)
        return Fate("before intend" in cut.steps, begun, said(living.slack), noted)


@dataclass(frozen=True)
class Fate:
    kept: bool
    begun: int
    told: list[str]
    noted: list[str]


async def restart(room: Room) -> None:
    await room.slack.slash(ALICE, OPS, "restart kimi-k2.5 why not")


async def test_a_restart_is_begun_once_wherever_its_process_dies(redis_url: str) -> None:
    steps = await steps_of(redis_url, restart)
    assert len(steps) > 9
    for place, step in enumerate(steps):
        fate = await die_at(place, redis_url, restart)
        assert fate.begun == int(fate.kept), step
        assert bool(fate.told) is fate.kept, step
        assert all(text.startswith("Restarting") for text in fate.told), step
        assert set(fate.noted) == ({"started"} if fate.kept else set()), step


async def test_who_heard_that_nothing_was_done_gets_no_restart_afterwards(redis_url: str) -> None:
    """Busy when it was decided, free when another process takes it up."""

    async def busy(room: Room) -> None:
        room.startups.answer = Busy(HELD)
        await restart(room)

    for place, step in enumerate(await steps_of(redis_url, busy)):
        fate = await die_at(place, redis_url, busy)
        refused = any("Nothing was done" in text for text in fate.told)
        assert fate.begun + refused == int(fate.kept), step
        assert bool(fate.told) is fate.kept, step


async def test_a_question_is_asked_again(redis_url: str) -> None:
    async def ask(room: Room) -> None:
        room.startups.answer = NeedsConfirmation("It answers requests at present.")
        await restart(room)

    cut = Cut((await steps_of(redis_url, ask)).index("after adopt_intent") + 1)
    await empty(redis_url)
    async with open_rooms(redis_url, cut, Cut()) as (dying, living):
        await ask(dying)
        await cut.reached.wait()
        await dying.die()
        await living.intents.adopt()
        await living.settled()
        question = living.slack.ephemerals(ALICE)[-1]
        assert question.plain.startswith("Restart `kimi-k2.5`? It answers requests at present.")
        assert living.startups.requests == []
        living.slack.people.courier = Dispatch(living.app)
        await living.slack.press(ALICE, OPS, question.ts, "kimi:confirm")
        (request,) = await living.wait_for(lambda: living.startups.requests)
        assert request.confirmed


@dataclass
class InTurn:
    """Slack tells an event again to whichever process it likes."""

    couriers: list[Courier]

    async def deliver(self, envelope: Envelope) -> Answer:
        courier = self.couriers.pop(0) if len(self.couriers) > 1 else self.couriers[0]
        return await courier.deliver(envelope)


async def test_a_mention_is_done_once_wherever_its_process_dies(redis_url: str) -> None:
    async def mention(room: Room) -> None:
        await room.slack.mention(ALICE, OPS, "restart")

    for place, step in enumerate(await steps_of(redis_url, mention)):
        cut = Cut(place)
        await empty(redis_url)
        async with open_rooms(redis_url, cut, Cut()) as (dying, living):
            both: list[Courier] = [Dispatch(dying.app, cut=cut), Dispatch(living.app)]
            living.slack.people.courier = InTurn(both)
            await living.slack.mention(ALICE, OPS, "restart")
            await cut.reached.wait()
            await dying.die()
            await living.intents.adopt()
            await living.settled()
            assert len(living.startups.begun) == 1, step
            assert said(living.slack), step


async def test_presses_and_modals_are_taken_up_too(redis_url: str) -> None:
    async def wait(room: Room) -> None:
        await room.hold(by=ALICE)
        root = await room.show(render_root(MIDWAY))
        ts = await room.show(render_stall(STALL, MIDWAY), thread_ts=root)
        await room.slack.press(ALICE, OPS, ts, "kimi:wait")

    async def confirm(room: Room) -> None:
        question = render_confirmation(ASKED, NeedsConfirmation("It answers."))
        ts = await room.whisper_buttons(ALICE, question)
        await room.slack.press(ALICE, OPS, ts, "kimi:confirm")

    for act, outcome in ((wait, "done"), (confirm, "started")):
        place = (await steps_of(redis_url, act)).index("after intend") + 1
        fate = await die_at(place, redis_url, act)
        assert fate.noted == [outcome]
        assert "Waiting 30m longer." in fate.told or fate.begun == 1


async def test_the_modal_shows_what_another_process_did(redis_url: str) -> None:
    cut = Cut()
    async with open_rooms(redis_url, cut, Cut()) as (dying, living):
        await dying.slack.open_home(ALICE)
        home = await dying.wait_for(lambda: dying.slack.home(ALICE))
        await dying.slack.people.press_in_view(ALICE, home, "kimi:ask")
        await dying.wait_for(lambda: dying.slack.modal(ALICE))
        cut._at = len(cut.steps) + 3  # kept, acknowledged or not, and no further
        await dying.slack.submit(ALICE, {"reason": {"reason": "why"}})
        await cut.reached.wait()
        await dying.die()
        await living.intents.adopt()
        await living.settled()
        view = living.slack.modal(ALICE)
        assert view is not None
        assert "Restarting" in str(view.content["blocks"])
        assert len(living.startups.begun) == 1


async def test_a_command_told_to_two_processes_is_done_once(redis_url: str) -> None:
    async with open_rooms(redis_url, Cut(), Cut()) as rooms:
        body = {
            "command": "/kimi",
            "text": "restart",
            "user_id": ALICE,
            "channel_id": OPS,
            "trigger_id": "1.2.same",
            "response_url": rooms[0].slack.hooks.issue(OPS, ALICE),
            "team_id": "T1",
        }
        envelope = Envelope("slash_commands", body)
        answers = await asyncio.gather(*(Dispatch(room.app).deliver(envelope) for room in rooms * 3))
        assert all(answer.acknowledged for answer in answers)
        await rooms[0].settled()
        assert len(rooms[0].startups.requests + rooms[1].startups.requests) == 1


async def test_who_lives_keeps_what_it_works_at(redis_url: str) -> None:
    async with open_rooms(redis_url, Cut(), Cut()) as (first, second):
        first.startups.gate.clear()
        await restart(first)
        await first.wait_for(lambda: first.startups.requests)
        for room in (second, first):
            await room.intents.adopt()
        assert len(await first.store.intents()) == 1
        assert second.startups.requests == []
        first.startups.gate.set()
        await first.settled()
        assert len(first.startups.requests) == 1


async def test_of_two_that_look_one_takes_it_up(redis_url: str) -> None:
    async with open_rooms(redis_url, Cut(), Cut(), Cut()) as rooms:
        await leave(rooms[0], words="restart")
        await asyncio.gather(*(room.intents.adopt() for room in rooms))
        await rooms[0].settled()
        assert sum(len(room.startups.requests) for room in rooms) == 1


async def test_what_is_asked_of_a_process_that_leaves_is_done_by_the_next(redis_url: str) -> None:
    async with open_rooms(redis_url, Cut(), Cut()) as (leaving, next_one):
        leaving.startups.error = Leaving("kimi is being stopped")
        await restart(leaving)
        await leaving.wait_for(lambda: leaving.startups.requests)
        await leaving.intents.adopt()
        assert len(await leaving.store.intents()) == 1
        assert said(leaving.slack) == []
        await leaving.die()
        await next_one.intents.adopt()
        await next_one.settled()
        assert len(next_one.startups.begun) == 1
        assert [text.split()[0] for text in said(next_one.slack)] == ["Restarting"]


# What is found too late.


async def leave(room: Room, *, age: float = 0, **changes: Any) -> Intent:
    """As a process left it that is dead."""
    asked = {
        "token": "left",
        "owner": "gone",
        "at": datetime.now(UTC) - timedelta(seconds=age),
        "user": ALICE,
        "channel": OPS,
    }
    intent = Intent.model_validate(asked | changes)
    assert await room.store.intend(intent, 60)
    return intent


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ({"words": "restart"}, ("`restart kimi-k2.5`", "it never began, and nothing was done.")),
        ({"words": "unwatch"}, ("`unwatch kimi-k2.5`", "whether it was done is not certain.")),
        ({"minutes": 30, "operation": "op1"}, ("`keep waiting`", "whether it was done is not certain.")),
        ({"command": STOP}, ("`stop kimi-k2.5`", "it never began, and nothing was done.")),
        ({"words": "status"}, None),
        ({"words": "logs 200"}, None),
        ({"words": "restrat"}, None),
        ({"words": "restart", "channel": "C0ELSEWHERE"}, None),
    ],
)
async def test_nothing_is_done_that_is_over_a_minute_old(
    room: Room, left: dict[str, Any], told: tuple[str, str] | None
) -> None:
    await leave(room, age=121, **left)
    await room.intents.adopt()
    await room.settled()
    assert room.startups.requests == []
    assert room.startups.calls == []
    heard = said(room.slack)
    assert len(heard) == (told is not None)
    assert told is None or all(part in heard[0] for part in told)
    noted = [entry.outcome for entry in await room.store.audits(10)]
    assert noted == (["too late"] if told else [])


async def test_what_had_begun_by_then_is_not_denied(room: Room) -> None:
    intent = await leave(room, age=121, words="restart")
    operation = make_operation().model_copy(update={"operation": operation_of(intent.token)})
    await room.store.save(operation)
    await room.intents.adopt()
    await room.settled()
    (told,) = said(room.slack)
    assert told.endswith("`restart kimi-k2.5` had begun by then: see its thread.")


async def test_access_is_judged_anew(room: Room) -> None:
    await leave(room, words="restart", user=MALLORY)
    await room.intents.adopt()
    await room.settled()
    assert said(room.slack, MALLORY)[0].startswith("You can look but not restart")
    assert room.startups.requests == []


async def test_where_nobody_can_be_told_it_is_done_all_the_same(room: Room) -> None:
    await leave(room, channel=None, command=COMMAND.dump_json(Command(Word.RESTART, KIMI)).decode())
    await room.intents.adopt()
    await room.settled()
    assert len(room.startups.requests) == 1


# Redis away, in every way of speaking.


async def pause(redis: RedisServer) -> None:
    assert redis._process is not None
    redis._process.send_signal(signal.SIGSTOP)


async def go_on(redis: RedisServer) -> None:
    assert redis._process is not None
    redis._process.send_signal(signal.SIGCONT)


async def test_a_redis_that_hangs_does_not_keep_anybody_waiting(own_redis: RedisServer) -> None:
    """The command arrives in Redis after all, when its person was told that nothing was done."""
    async with open_room(own_redis.url) as room:
        await room.slash(ALICE, "status")
        await pause(own_redis)
        try:
            outcome = await room.slack.slash(ALICE, OPS, "restart")
        finally:
            await go_on(own_redis)
        assert outcome.acknowledged
        assert outcome.seconds < 3
        assert said(room.slack)[1:] == [REDIS_GONE]
        await room.intents.adopt()
        await room.settled()
        assert room.startups.requests == []


async def test_a_mention_is_told_again_by_slack_and_done_once(own_redis: RedisServer) -> None:
    async with open_room(own_redis.url) as room:
        await room.slash(ALICE, "status")
        room.slack.people.retry_delays = (0.1,)
        await pause(own_redis)
        try:
            assert not (await room.slack.mention(ALICE, OPS, "restart")).acknowledged
        finally:
            await go_on(own_redis)
        await room.wait_for(lambda: REDIS_GONE_FOR_NOW in said(room.slack) or None)

        async def begun() -> None:
            while not room.startups.begun:
                await room.intents.adopt()
                await asyncio.sleep(0.05)

        async with asyncio.timeout(60):
            await begun()
        await room.settled()
        assert len(room.startups.requests) == 1
        assert said(room.slack).count(REDIS_GONE_FOR_NOW) == 1


async def test_a_request_url_answers_that_it_failed(own_redis: RedisServer) -> None:
    async with open_room(own_redis.url) as room:
        room.slack.people.courier = Dispatch(room.app, room.slack.signing_secret)
        room.slack.people.retry_delays = ()
        own_redis.kill()
        assert not (await room.slack.mention(ALICE, OPS, "restart")).acknowledged
        assert (await room.whisper(ALICE)).plain == REDIS_GONE_FOR_NOW


async def test_a_question_stays_while_redis_is_away(own_redis: RedisServer) -> None:
    async with open_room(own_redis.url) as room:
        question = render_confirmation(ASKED, NeedsConfirmation("It answers."))
        ts = await room.whisper_buttons(ALICE, question)
        own_redis.kill()
        await room.slack.press(ALICE, OPS, ts, "kimi:confirm")
        assert (await room.whisper(ALICE, 2)).plain == REDIS_GONE
        own_redis.start()
        await room.slack.press(ALICE, OPS, ts, "kimi:confirm")
        assert len(await room.wait_for(lambda: room.startups.requests)) == 1


async def test_a_modal_says_that_redis_is_away(own_redis: RedisServer) -> None:
    async with open_room(own_redis.url) as room:
        await room.slack.open_home(ALICE)
        home = await room.wait_for(lambda: room.slack.home(ALICE))
        await room.slack.people.press_in_view(ALICE, home, "kimi:ask")
        await room.wait_for(lambda: room.slack.modal(ALICE))
        own_redis.kill()
        await room.slack.submit(ALICE, {"reason": {"reason": ""}})
        view = room.slack.modal(ALICE)
        assert view is not None
        assert REDIS_GONE in str(view.content["blocks"])


async def test_an_answer_is_told_though_redis_went_away_meanwhile(own_redis: RedisServer) -> None:
    async with open_room(own_redis.url) as room:
        room.startups.gate.clear()
        room.startups.answer = Started(OperationId("op2"))
        await restart(room)
        await room.wait_for(lambda: room.startups.requests)
        own_redis.kill()
        room.startups.gate.set()
        assert (await room.whisper(ALICE)).plain.startswith("Restarting")
        own_redis.start()
        await room.wait_for(lambda: not room.intents._mine or None)
        await room.intents.adopt()
        await room.settled()
        assert len(room.startups.requests) == 1


# What Redis cannot hold.


async def test_what_cannot_be_written_down_is_acknowledged_and_answered(room: Room) -> None:
    outcome = await room.slack.slash(ALICE, OPS, "restart kimi-k2.5 \ud83d")
    assert outcome.acknowledged
    assert (await room.whisper(ALICE)).plain.endswith("Nothing was done.")
    assert room.startups.requests == []
    assert not room.intents._mine


async def test_a_press_that_cannot_be_written_down_is_answered(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> bool:
        raise UnicodeEncodeError("utf-8", "\ud83d", 0, 1, "surrogates not allowed")

    monkeypatch.setattr(room.store, "intend", refuse)
    ts = await room.whisper_buttons(ALICE, render_confirmation(ASKED, NeedsConfirmation("It answers.")))
    assert (await room.slack.press(ALICE, OPS, ts, "kimi:confirm")).acknowledged
    await room.wait_for(lambda: any(text.endswith("Nothing was done.") for text in said(room.slack)) or None)
    assert room.startups.requests == []


# Slack away while it is answered.


@pytest.mark.parametrize("fault", [ResetBeforeAccept(), Status(500)])
async def test_a_restart_whose_answer_does_not_arrive_is_done_all_the_same(room: Room, fault: Fault) -> None:
    room.startups.gate.clear()
    await restart(room)
    await room.wait_for(lambda: room.startups.requests)
    room.slack.faults.add("response_url", fault, None)
    room.startups.gate.set()
    await room.settled()
    assert said(room.slack) == []
    assert [entry.outcome for entry in await room.store.audits(10)] == ["started"]


async def test_a_mention_whose_answer_does_not_arrive_is_settled(room: Room) -> None:
    room.slack.faults.add("chat.postEphemeral", ErrorCode("user_not_in_channel"), None)
    await room.slack.mention(ALICE, OPS, "restart")
    await room.wait_for(lambda: room.startups.requests)
    await room.settled()
    assert len(room.startups.requests) == 1


# Many at once.


async def test_two_hundred_commands_at_once_are_each_acknowledged_and_done(room: Room) -> None:
    room.startups.gate.clear()
    outcomes = await asyncio.gather(*(room.slack.slash(ALICE, OPS, "status") for _ in range(200)))
    assert all(outcome.acknowledged for outcome in outcomes)
    room.startups.gate.set()
    await room.settled()
    await room.whisper(ALICE, 200)
