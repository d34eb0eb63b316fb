"""What is read of the past: newest first, of any age of record, and the last failure among it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from bot.accounts import Accounts, account_of_state
from bot.baselines import ACCOUNT, read_account
from bot.clients.records import Address, past_of
from bot.core.account import Account, Failure
from bot.core.actions import Verdict
from bot.core.events import ChannelId, MessageTs, PhaseId, Rank, Role, UserId, Verb
from bot.running import PLAN, STATE
from config.engine_file import load_engine
from tests.support.carriers import SERVICE, backstage
from tests.support.configurations import OPS
from tests.support.outgoing import BEGAN
from tests.support.outgoing import operation as make_operation
from tests.support.pictures import read_png
from tests.support.startup_runs import Run, make_plan
from tests.support.waterfalls import account

if TYPE_CHECKING:
    from bot.clients.records import Operation
    from tests.support.carriers import Backstage

ENGINE = load_engine("sglang")
FAILURE = Failure("No memory", PhaseId.WEIGHTS, Role.TARGET, Rank("TP3"), evidence=("out of memory",))


def closed(name: str, verdict: Verdict, **changes: Any) -> Operation:
    made = account(good=verdict is Verdict.HEALTHY)
    if verdict is Verdict.FAILED:
        made = Account(made.took, made.phases, FAILURE, "sglang")
    fields = {
        "service": SERVICE,
        "closed": BEGAN + timedelta(minutes=8),
        "verdict": verdict,
        "account": ACCOUNT.dump_json(made).decode(),
        **changes,
    }
    return make_operation(name, **fields)


def remember(stage: Backstage, *operations: Operation) -> Accounts:
    """Oldest first."""
    stage.store.operations |= {each.operation: each for each in operations}
    return Accounts(stage.startups.ground)


async def test_history_is_of_starts_alone_with_their_threads() -> None:
    async with backstage() as stage:
        accounts = remember(
            stage,
            closed("one", Verdict.FAILED),
            closed("two", Verdict.STOPPED, verb=Verb.STOP),
            closed("three", Verdict.HEALTHY),
        )
        stage.store.addresses["three"] = Address(
            channel=ChannelId(OPS), ts=MessageTs("17.1"), permalink="https://s/p1"
        )
        view = await accounts.history(SERVICE)
    assert [(each.operation, each.verdict, each.link) for each in view.startups] == [
        ("three", "healthy", "https://s/p1"),
        ("one", "failed", None),
    ]
    assert view.startups[0].account.took == 451


async def test_why_is_the_last_failure_whatever_came_since() -> None:
    async with backstage() as stage:
        accounts = remember(
            stage,
            closed("one", Verdict.FAILED),
            closed("two", Verdict.HEALTHY),
            closed("three", Verdict.UNWATCHED),
            closed("four", Verdict.HEALTHY),
        )
        view = await accounts.why(SERVICE)
        assert view.last is not None
        assert (view.last.operation, view.healthy_since) == ("one", 2)
        assert view.last.account.failure == FAILURE


async def test_without_a_failure_there_is_no_why() -> None:
    async with backstage() as stage:
        view = await remember(stage, closed("one", Verdict.HEALTHY)).why(SERVICE)
        assert (view.last, view.healthy_since) == (None, 1)


async def test_the_picture_hangs_under_a_root_of_its_own_or_in_the_thread_it_was_asked_in() -> None:
    async with backstage() as stage:
        accounts = remember(stage, closed("one", Verdict.HEALTHY))
        view = await accounts.history(SERVICE)
        for thread_ts in (None, MessageTs("17.1")):
            await accounts.draw_history(
                view, by=UserId("U0ALICE"), channel=ChannelId(OPS), thread_ts=thread_ts
            )
        assert [message.kind for message in stage.store.queued.values()] == ["root", "upload", "upload"]
        root, alone, threaded = stage.store.queued.values()
        assert (root.thread, alone.thread_ts, threaded.thread_ts) == (alone.thread, None, "17.1")
        assert all(read_png(content).width == 936 for content in stage.store.files.values())


async def test_the_picture_that_another_process_sent_is_not_sent_again() -> None:
    async with backstage() as stage:
        accounts = remember(stage, closed("one", Verdict.HEALTHY))
        view = await accounts.history(SERVICE)
        for _ in range(2):
            await accounts.draw_history(
                view, by=UserId("U0ALICE"), channel=ChannelId(OPS), thread_ts=None, token="1.2.same"
            )
        assert [message.kind for message in stage.store.queued.values()] == ["root", "upload"]


async def test_nothing_to_draw_sends_nothing() -> None:
    async with backstage() as stage:
        accounts = remember(stage)
        view = await accounts.history(SERVICE)
        await accounts.draw_history(view, by=UserId("U0ALICE"), channel=ChannelId(OPS), thread_ts=None)
        assert stage.store.queued == {}


async def test_a_start_under_way_is_told_and_a_stop_is_not() -> None:
    async with backstage() as stage:
        accounts = Accounts(stage.startups.ground)
        running = await stage.begin()
        held = (await accounts.history(SERVICE)).held
        assert held is not None
        assert (held.operation, held.verb) == (running.operation.operation, Verb.RESTART)
    async with backstage() as stage:
        stage.host.obeys = False
        await stage.begin(Verb.STOP)
        assert (await Accounts(stage.startups.ground).history(SERVICE)).held is None


async def test_an_operation_older_than_accounts_is_told_from_its_state() -> None:
    run = Run(make_plan())
    run.run_to_ready()
    run.wait_for_verdict()
    plan, state = PLAN.dump_json(run.plan).decode(), STATE.dump_json(run.startup.state).decode()
    record = closed("one", Verdict.HEALTHY, account="", plan=plan, state=state)
    assert account_of_state(record, ENGINE) == run.startup.account(run.now)
    async with backstage() as stage:
        view = await remember(stage, record).history(SERVICE)
        assert view.startups[0].account.phases == run.startup.account(run.now).phases
        view = await Accounts(replace(stage.startups.ground, engines={})).history(SERVICE)
        assert view.startups[0].account == Account()


def test_a_record_of_another_shape_tells_nothing_and_breaks_nothing() -> None:
    assert account_of_state(closed("one", Verdict.HEALTHY, state="{}"), ENGINE) == Account()
    assert account_of_state(closed("one", Verdict.HEALTHY, closed=None), ENGINE) == Account()
    past = past_of(closed("one", Verdict.HEALTHY, account='{"took": "long"}'), None)
    assert read_account(past) == Account()


def test_an_account_written_before_changes_were_kept_is_read() -> None:
    old = json.loads(ACCOUNT.dump_json(account()))
    del old["changed"]
    past = past_of(closed("one", Verdict.HEALTHY, account=json.dumps(old)), None)
    assert read_account(past) == account()
