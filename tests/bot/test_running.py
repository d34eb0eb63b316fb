"""One operation carried out: saved before anything is done, nothing twice, nothing piled up."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from bot.baselines import USUAL
from bot.core.actions import EditRoot, Noticed, Pace, PostReply, ProbeNow
from bot.core.events import PhaseId, SmokeResult, UnitName, Verb
from bot.core.journal import Decoder
from bot.errors import CommandTimedOut, HostError, HostUnreachable, PermissionRefused
from bot.messages import edit_message, messages_of
from bot.running import OWN_FAULT
from tests.support.carriers import (
    CLOSED,
    DEAD,
    MEMBER,
    NEW,
    RUNNING,
    SECRET,
    SERVICE,
    UNIT,
    UP,
    backstage,
    configured,
)
from tests.support.journal_entries import make_cursor, make_entry, write_entries
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.clients.records import Outgoing

pytestmark = pytest.mark.looptime
END = (
    "[2026-05-29 23:50:47 TP0] Load weight end. elapsed=20.00 s, type=KimiK25ForConditionalGeneration, "
    "quant=none, avail mem=8.50 GB, mem usage=70.00 GB."
)
BEGIN = "[2026-05-29 23:49:47 TP0] Load weight begin. avail mem=78.50 GB"
OOM = "[2026-05-29 23:50:47 TP0] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
BROKEN = replace(RUNNING, active="failed", sub="failed", result="exit-code", invocation=NEW, main_pid=0)


async def test_a_healthy_start_is_proven_closed_and_learned_from() -> None:
    async with backstage() as stage:
        running = await stage.begin()
        operation = await stage.closed(running)
        usual = USUAL.validate_json(stage.store.baselines[SERVICE])
    assert operation.verdict == "healthy"
    assert operation.closed is not None
    assert usual.whole is not None
    assert usual.whole >= timedelta(seconds=30)
    assert stage.probe.smokes == 1
    assert stage.diary[-1] == "finished"
    assert len([text for text in stage.store.texts() if "healthy" in text]) == 1
    assert "healthy" in stage.store.edits[-1].text


async def test_state_and_messages_are_saved_before_any_order_is_carried_out() -> None:
    async with backstage() as stage:
        running = await stage.begin()
        await stage.until(lambda: "ordered restart" in stage.diary)
        state = json.loads(stage.saved(running).state)
        assert state["members"][MEMBER]["sent"] == "underway"
        at = stage.diary.index("ordered restart")
        assert stage.diary[at - 1] == "saved"


async def test_redis_away_holds_the_order_back_and_loses_nothing() -> None:
    async with backstage() as stage:
        running = await stage.begin()
        await stage.until(lambda: "posted root" in stage.diary)
        stage.store.away = True
        await asyncio.sleep(3600)
        assert stage.host.orders == []
        assert stage.store.refused > 100
        stage.host.say(1, BEGIN)
        stage.store.away = False
        assert (await stage.closed(running)).verdict == "healthy"
    assert len(stage.host.orders) == 1
    assert stage.diary.count("finished") == 1


async def test_what_happens_while_redis_is_away_is_told_in_order_afterwards() -> None:
    async with backstage(configured(ranks=1)) as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.follows)
        await asyncio.sleep(5)
        before = len(stage.store.queued)
        stage.store.away = True
        stage.host.say(1, BEGIN)
        stage.host.say(2, END)
        with capture_logs() as logs:
            await asyncio.sleep(60)
        assert [entry["event"] for entry in logs].count("save_delayed") == 1
        assert len(stage.store.queued) == before
        stage.store.away = False
        await stage.until(lambda: any("eights loaded" in text for text in stage.store.texts()))
        await stage.until(lambda: make_cursor(2) in stage.saved(running).positions.get(MEMBER, ""))
        numbers = [int(name.rpartition(":")[2]) for name in stage.store.queued if not name.endswith("root")]
        assert numbers == sorted(numbers)


async def test_a_state_that_was_not_saved_has_no_place_in_the_journal_either() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.follows)
        await asyncio.sleep(5)
        stage.store.away = True
        stage.host.say(1, BEGIN)
        await asyncio.sleep(30)
        saved = stage.saved(running)
        assert make_cursor(1) not in saved.positions.get(MEMBER, "")
        assert json.loads(saved.state)["lines"] == 0


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionRefused("llm-two", "llm-two: sudo says no"), "sudo says no"),
        (CommandTimedOut("llm-two", "llm-two: accepts and says nothing"), "accepts and says nothing"),
        (HostUnreachable("llm-two", "llm-two: no connection"), "no connection"),
        (CommandTimedOut("llm-two", "llm-two: says nothing"), "says nothing"),
        (HostError("llm-two", "llm-two: strange"), "strange"),
    ],
)
async def test_a_refused_order_is_a_failure_in_the_host_s_words(error: HostError, told: str) -> None:
    async with backstage() as stage:
        stage.host.change_errors = [error]
        operation = await stage.closed(await stage.begin())
        assert operation.verdict == "failed"
        [verdict] = [message for message in stage.store.queued.values() if told in message.text]
        assert verdict.broadcast
    assert len(stage.host.orders) == 1
    assert stage.store.texts("upload") == []
    assert stage.store.holders == {}


@pytest.mark.parametrize(
    "error",
    [
        CommandTimedOut("llm-two", "llm-two: hung", sent=True),
        HostUnreachable("llm-two", "llm-two: lost", sent=True),
    ],
)
async def test_an_order_without_an_answer_is_never_given_again(error: HostError) -> None:
    async with backstage() as stage:
        stage.host.change_errors, stage.host.obeys = [error], False
        running = await stage.begin()
        await stage.until(lambda: any("It is not sent again" in text for text in stage.store.texts()))
        stage.host.units[UNIT] = replace(RUNNING, invocation=NEW)  # it had arrived
        assert (await stage.closed(running)).verdict == "healthy"
    assert len(stage.host.orders) == 1


async def test_an_order_that_had_no_effect_is_a_failure_and_not_repeated() -> None:
    async with backstage() as stage:
        stage.host.obeys = False
        operation = await stage.closed(await stage.begin())
        assert operation.verdict == "failed"
        assert any("no new start" in text for text in stage.store.texts())
    assert len(stage.host.orders) == 1


async def test_probes_ticks_and_observations_never_pile_up() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: running.startup.state.members[MEMBER].unit is not None)
        stage.host.gate.clear()
        stage.probe.gate.clear()
        await asyncio.sleep(20)
        shows, checks = stage.host.shows, stage.probe.checks
        await asyncio.sleep(600)
        assert (stage.host.shows, stage.probe.checks) == (shows, checks)
        assert running.inbox.qsize() <= 2
        stage.host.gate.set()
        stage.probe.gate.set()
        await asyncio.sleep(20)
        assert stage.host.shows > shows + 3
        assert stage.probe.checks > checks


async def test_ticks_do_not_queue_up_behind_a_save_that_waits() -> None:
    async with backstage() as stage:
        running = await stage.begin()
        await asyncio.sleep(5)
        stage.store.away = True
        await asyncio.sleep(3 * 3600)
        assert running.inbox.qsize() <= 256
        waiting = [task for task in stage.tasks._running if SERVICE in task.get_name()]
        assert len(waiting) <= 10


async def test_a_failure_goes_to_the_channel_with_the_whole_masked_log() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        entries = [
            make_entry(n, text, _SYSTEMD_INVOCATION_ID=NEW)
            for n, text in enumerate([BEGIN, f"key {SECRET}", OOM], 1)
        ]
        stage.host.log = write_entries(*entries)
        running = await stage.begin()
        await stage.until(lambda: len(stage.host.follows) == 1 and stage.host.orders)
        stage.host.say(1, BEGIN)
        stage.host.say(3, OOM)
        await asyncio.sleep(4)
        stage.host.units[UNIT] = BROKEN
        operation = await stage.closed(running)
        assert operation.verdict == "failed"
        files = [message for message in stage.store.queued.values() if message.file is not None]
        [upload] = [message for message in files if message.file and message.file.name.endswith(".log")]
        content = stage.store.files[upload.id].decode()
    assert "tp0: out of gpu memory" in stage.store.texts()[-1].lower()
    assert stage.host.reads[-1]["invocation"] == NEW
    assert OOM in content
    assert SECRET not in content
    assert upload.file is not None
    assert upload.file.masked == 1
    assert upload.thread == operation.operation
    assert stage.diary[-1] == "finished"
    assert stage.diary.index("queued upload") < stage.diary.index("finished")
    assert stage.store.baselines == {}


async def test_a_stall_brings_its_log_while_the_watch_goes_on() -> None:
    async with backstage(configured(patience={"weights": "60s"})) as stage:
        stage.probe.answer = CLOSED
        stage.host.log = None  # the host hangs over it
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders and stage.host.follows)
        stage.host.say(1, BEGIN)
        await stage.until(lambda: running.startup.view(stage.clock.now()).pace is Pace.STALLED)
        assert stage.store.texts("upload") == []
        stage.host.say(2, END)
        await stage.until(lambda: any("moving again" in text for text in stage.store.texts()))
        await stage.until(lambda: stage.store.texts("upload"))  # from memory, after a minute
        [content] = stage.store.files.values()
    assert BEGIN.encode() in content


async def test_a_failed_smoke_test_is_a_failure() -> None:
    async with backstage() as stage:
        stage.probe.result = SmokeResult(passed=False, error="the answer was empty")
        operation = await stage.closed(await stage.begin())
        assert operation.verdict == "failed"
        assert any("the answer was empty" in text for text in stage.store.texts())
    assert stage.probe.smokes == 1


async def test_a_stop_is_done_when_the_unit_is_down() -> None:
    async with backstage() as stage:
        operation = await stage.closed(await stage.begin(Verb.STOP))
        assert operation.verdict == "stopped"
        assert stage.host.units[UNIT] == DEAD
    assert [verb for verb, *_ in stage.host.orders] == [Verb.STOP]
    assert stage.store.baselines == {}


async def test_every_member_gets_the_order_once() -> None:
    members = [{"host": "llm-two", "unit": f"node{number}.service"} for number in (0, 1)]
    async with backstage(configured(host=None, unit=None, members=members)) as stage:
        operation = await stage.closed(await stage.begin())
    assert operation.verdict == "healthy"
    assert sorted(unit for _, unit, _ in stage.host.orders) == [
        UnitName("node0.service"),
        UnitName("node1.service"),
    ]


async def test_a_baseline_that_cannot_be_saved_spoils_no_verdict() -> None:
    async with backstage() as stage:
        running = await stage.begin()
        stage.store.failing = ["save_baseline"]
        with capture_logs() as logs:
            operation = await stage.closed(running)
    assert operation.verdict == "healthy"
    assert stage.store.baselines == {}
    assert "baseline_not_learned" in {entry["event"] for entry in logs}


async def test_of_several_edits_the_newest_alone_goes_out_behind_the_replies() -> None:
    async with backstage() as stage:
        running = await stage.begin()
        view = running.startup.view(stage.clock.now())
        older, newer = (EditRoot(replace(view, phase=phase)) for phase in (PhaseId.WEIGHTS, PhaseId.GRAPHS))
        said = [PostReply(number, Noticed(f"fact {number}")) for number in (7, 8)]
        channel = running.operation.channel
        messages = messages_of([older, said[0], newer, said[1]], view, channel=channel)
    assert [message.kind for message in messages] == ["reply", "reply", "edit"]
    assert [message.text for message in messages[:2]] == ["fact 7", "fact 8"]
    assert messages[2] == edit_message(newer.view, channel=channel)
    assert messages[2] != edit_message(older.view, channel=channel)


async def test_the_present_is_kept_for_who_meets_a_held_service() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.follows and stage.host.orders)
        stage.host.say(1, BEGIN)
        stage.host.say(
            2, "Loading safetensors checkpoint shards:  19% Completed | 12/64 [00:12<00:09,  2.50it/s]"
        )
        await stage.until(lambda: stage.saved(running).headline == "loading weights, 12 of 64 shards")


async def test_what_is_written_down_without_a_present_does_not_put_the_present_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A port that answers is asked again and again: that order alone came within the two seconds."""
    shown = 0
    enqueue = MemoryStore.enqueue

    async def count(store: MemoryStore, outgoing: Sequence[Outgoing], *given: Any) -> None:
        nonlocal shown
        shown += any(message.kind == "edit" for message in outgoing)
        await enqueue(store, outgoing, *given)

    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.follows and stage.host.orders)
        stage.host.say(1, BEGIN)
        await asyncio.sleep(5)
        monkeypatch.setattr(MemoryStore, "enqueue", count)
        for _ in range(60):
            running._note([ProbeNow()])
            await asyncio.sleep(0.5)
    assert 8 <= shown <= 20


@pytest.mark.parametrize(("beside", "most"), [(1, 35), (100, 8)])
async def test_the_present_is_saved_the_more_seldom_the_more_are_under_way(
    beside: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack takes few edits, over all threads; what is more than the present is saved at once."""
    saves = 0
    save = MemoryStore.save

    async def count(store: MemoryStore, *given: Any, **named: Any) -> None:
        nonlocal saves
        saves += 1
        await save(store, *given, **named)

    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.follows and stage.host.orders)
        stage.host.say(1, BEGIN)
        await asyncio.sleep(30)
        stage.startups.ground.tallies.running = beside
        monkeypatch.setattr(MemoryStore, "save", count)
        for shard in range(1, 61):
            bar = (
                f"Loading safetensors checkpoint shards:  19% Completed | {shard}/64 [00:12<00:09,  2.50it/s]"
            )
            stage.host.say(1 + shard, bar)
            await asyncio.sleep(1)
        assert 4 <= saves <= most
        stage.probe.answer = UP
        assert (await stage.closed(running)).verdict == "healthy"


async def test_a_reader_that_breaks_is_a_fault_of_our_own_and_no_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.follows)

        def break_down(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(Decoder, "feed", break_down)
        stage.host.say(1, BEGIN)
        with capture_logs() as logs:
            operation = await stage.closed(running)
    assert operation.verdict == "unwatched"
    assert stage.store.texts()[-1].startswith(OWN_FAULT[:20])
    assert stage.store.holders == {}
    assert "startup_broke" in {entry["event"] for entry in logs}


async def test_a_probe_that_breaks_is_a_fault_of_our_own_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with backstage() as stage:
        running = await stage.begin()

        async def break_down() -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(stage.probe, "check", break_down)
        operation = await stage.closed(running)
    assert operation.verdict == "unwatched"
    assert stage.store.texts()[-1].startswith(OWN_FAULT[:20])


async def test_nothing_of_it_runs_on_after_the_end() -> None:
    async with backstage() as stage:
        running = await stage.begin()
        await stage.closed(running)
        asked = (stage.host.shows, stage.probe.checks)
        running.looks.tick()
        running.looks.observe()
        running.looks.probe()
        await asyncio.sleep(5)
        assert (stage.host.shows, stage.probe.checks) == asked
        left = [task.get_name() for task in stage.tasks._running if SERVICE in task.get_name()]
        assert left == []
        assert stage.probe.answer is UP
        checks = stage.probe.checks
        await asyncio.sleep(120)
        assert stage.probe.checks == checks
