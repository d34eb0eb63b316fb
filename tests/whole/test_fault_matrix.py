"""Whatever Slack does: each message of a startup comes once, in order. A table of faults and places.

The thread of an undisturbed run is the yardstick; each fault is met by a whole bot of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from bot.clients.slack_files import COMPLETE, RESERVE
from bot.core.events import ServiceName
from bot.core.pacing import POST, UPDATE
from bot.practice.scenarios import loading
from bot.practice.scenarios import sglang_log as log
from bot.practice.scenarios.failing import fall
from bot.practice.scenarios.stage import Scenario, Stage
from bot.practice.slack_faults import SOCKET, UPLOAD, FaultPlan
from bot.practice.workspace import ALICE, CHANNEL, SERVICE, PracticeWorkspace
from tests.support.practice import WITHIN, Practice

if TYPE_CHECKING:
    from bot.practice.slack import PracticeSlack
    from bot.practice.slack_faults import Fault
    from bot.practice.slack_state import PostedMessage
    from config.services import Configuration

SPEED = 12.0
AT_ONCE = 20  # whole bots in one loop; with more, told time outruns the machine
FALLBACK = "C0FALLBACK"
REPLIES, HISTORY = "conversations.replies", "conversations.history"
ROOT, REPLY, EDIT, FILE, READ_BACK = "root", "reply", "edit", "upload", "read-back"
COMMAND, ANY = "command", "any"
plan = FaultPlan


async def short(stage: Stage) -> None:
    """A start that tells three phases, fails, and has two files to show: about a minute, told.

    Each phase is long against what a busy machine loses: one that is over in no time is not told.
    """
    await loading.launch(stage)
    await loading.distributed(stage)
    await loading.begin_weights(stage)
    await loading.shard_bar(stage, total=8, seconds=16)
    stage.say_all(log.weight_end(stage.dialect, 18.0, draft=False))
    await loading.begin_graphs(stage)
    await stage.wait(12)
    await fall(stage, 1, log.OUT_OF_MEMORY, "start", "weights")


SCENARIO = Scenario(
    "short", "Two ranks load, and one runs out of memory", (short,), before="stopped", ranks=2
)


class Workspace(PracticeWorkspace):
    """One with a channel for what Slack refuses elsewhere."""

    def configuration(self) -> Configuration:
        made = super().configuration()
        slack = made.slack.model_copy(update={"fallback_channel": FALLBACK})
        return made.model_copy(update={"slack": slack})


# What a thread says, so that two runs can be compared.

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s)\s?)+")
_NUMBER = re.compile(r"\d+")


def normalise(text: str) -> str:
    """Without durations, times and counts, which differ from run to run."""
    return _NUMBER.sub("#", _DURATION.sub("T", text))


@dataclass(frozen=True, slots=True)
class Said:
    """One message: its kind, and what it says."""

    kind: str
    text: str


def read(message: PostedMessage, root: PostedMessage | None) -> Said:
    payload = (message.metadata or {}).get("event_payload", {})
    if message is root:
        return Said(ROOT, normalise(message.plain))
    if ":present" in str(payload.get("id", "")):
        return Said(EDIT, normalise(message.plain))
    told = normalise(message.plain)
    if message.files or "could not be attached" in told:
        return Said(FILE, told.split("\n")[0])  # below it, what stands in for a file that was refused
    return Said(REPLY, told)


@dataclass(slots=True)
class Outcome:
    """What one run has brought: the thread, what was told elsewhere, and numbers."""

    thread: list[Said]
    roots: int
    elsewhere: list[Said]
    present: str  # what is shown at the end, wherever it is
    parked: int
    orders: list[str]
    hits: Counter[str]


@dataclass(slots=True)
class Run:
    """One whole bot, with its faults."""

    practice: Practice
    hits: Counter[str] = field(default_factory=Counter)

    @property
    def slack(self) -> PracticeSlack:
        return self.practice.slack

    def strike(self, place: str, fault: Fault, times: int | None = 1) -> None:
        """Let calls of this place meet the fault."""
        method, wanted = PLACES[place]

        def where(arguments: Mapping[str, Any]) -> bool:
            met = wanted(arguments)
            self.hits[place] += met
            return met

        self.slack.faults.add(method, fault, times, where=where)

    def provoke_read_back(self) -> None:
        """A reply whose answer is lost though Slack has it, so that it must be looked for."""
        self.slack.faults.add(POST, plan.reset_after_accept(), where=is_reply)

    async def first_reply(self) -> PostedMessage:
        """The root, once something hangs on it."""
        found: PostedMessage = await self.practice.until(
            lambda _: next((root for root in self.practice.roots() if self.practice.thread(root)[1:]), None)
        )
        return found

    async def startup_over(self) -> None:
        await self.practice.until(lambda _: not self.practice.app.startups.running)

    async def end(self) -> None:
        """The startup is over, and nothing waits any more."""
        await self.startup_over()
        ground = self.practice.app.startups.ground
        assert await ground.outbox.drain(WITHIN)
        [operation] = await ground.store.history(ServiceName(SERVICE), 1)
        assert operation.verdict == "failed"


def is_root(arguments: Mapping[str, Any]) -> bool:
    return arguments.get("channel") == CHANNEL and "thread_ts" not in arguments


def is_reply(arguments: Mapping[str, Any]) -> bool:
    return arguments.get("channel") == CHANNEL and "thread_ts" in arguments


def always(_: Mapping[str, Any]) -> bool:
    return True


PLACES: dict[str, tuple[str, Callable[[Mapping[str, Any]], bool]]] = {
    ROOT: (POST, is_root),
    REPLY: (POST, is_reply),
    EDIT: (UPDATE, always),
    FILE: (COMPLETE, always),
    "upload: place": (RESERVE, always),
    "upload: bytes": (UPLOAD, always),
    READ_BACK: (REPLIES, always),
    COMMAND: (SOCKET, always),
}

Before: TypeAlias = Callable[[Run], None]
During: TypeAlias = Callable[[Run], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """A fault, where it strikes, and how it is brought about."""

    fault: str
    places: tuple[str, ...]
    before: Before = lambda _: None
    begin: During | None = None
    during: During | None = None


# Faults of one call each: what the matrix has at every place.

ALL_PLACES = (ROOT, REPLY, EDIT, FILE, READ_BACK)
ONE_CALL: dict[str, Fault] = {
    "429 with Retry-After": plan.rate_limited(2),
    "200 with ratelimited": plan.rate_limited(1, http_ok=True),
    "500": plan.status(500),
    "internal_error, not accepted": plan.error("internal_error"),
    "internal_error, accepted": plan.error("internal_error", accept=True),
    "reset before acceptance": plan.reset_before_accept(),
    "reset after acceptance": plan.reset_after_accept(),
}
HANGS: dict[str, Fault] = {
    "hangs beyond the time-out, not accepted": plan.hang(17, accept=False),
    "hangs beyond the time-out, accepted": plan.hang(17),
}


def striking(fault: Fault, *places: str, times: int | None = 1) -> Before:
    def before(run: Run) -> None:
        for place in places:
            run.strike(place, fault, times)
        if READ_BACK in places:
            run.provoke_read_back()

    return before


# Faults that last.


async def archive_at_once(run: Run) -> None:
    run.slack.workspace.channels[CHANNEL].archived = True
    outcome = await run.practice.type("restart kimi-k2.5")
    assert outcome.acknowledged
    await run.practice.until(lambda slack: slack.channel_messages(FALLBACK))
    run.hits[ROOT] += refused(run, POST)


async def archive_midway(run: Run) -> None:
    await run.first_reply()
    run.slack.workspace.channels[CHANNEL].archived = True
    await run.end()
    for place, method in ((REPLY, POST), (EDIT, UPDATE), (FILE, COMPLETE)):
        run.hits[place] += refused(run, method)


async def revoke_at_once(run: Run) -> None:
    await run.practice.ask("status")  # a bot that never was allowed in hears nobody
    outcome = await run.practice.type("restart kimi-k2.5")
    assert outcome.acknowledged
    assert run.practice.roots() == []
    run.slack.workspace.revoked = True
    await run.practice.until(lambda _: refused(run, POST))
    run.hits[ROOT] += refused(run, POST)
    await run.practice.until(lambda _: run.practice.orders())
    await run.startup_over()
    run.slack.workspace.revoked = False


async def revoke_midway(run: Run) -> None:
    await run.first_reply()
    run.slack.workspace.revoked = True
    await run.startup_over()
    await run.practice.until(lambda _: refused(run, POST) or refused(run, UPDATE))
    run.hits[ANY] += len(run.slack.refusals)
    run.slack.workspace.revoked = False


def refused(run: Run, method: str) -> int:
    return sum(refusal.method == method for refusal in run.slack.refusals)


async def close_edit_window(run: Run) -> None:
    root = await run.first_reply()

    def where(arguments: Mapping[str, Any]) -> bool:
        met = bool(arguments.get("ts") == root.ts)
        run.hits[EDIT] += met
        return met

    run.slack.faults.add(UPDATE, plan.error("edit_window_closed"), None, where=where)


# The way of commands.


async def hear_again(run: Run) -> None:
    """The bot hears what is typed from now on."""
    run.hits[COMMAND] += 1
    opened = run.slack.sockets.opened

    def healed(slack: PracticeSlack) -> bool:
        return slack.sockets.opened > opened and bool(slack.sockets.connections)

    await run.practice.until(healed)
    assert "kimi-k2.5" in await run.practice.ask("status")


async def drop_sockets(run: Run) -> None:
    await run.first_reply()
    task = asyncio.ensure_future(hear_again(run))
    await asyncio.sleep(0)
    run.slack.sockets.drop()
    await task


def disconnecting(reason: str) -> During:
    async def during(run: Run) -> None:
        await run.first_reply()
        if reason == "warning":
            await run.slack.sockets.disconnect(reason)
            run.hits[COMMAND] += 1
            assert "kimi-k2.5" in await run.practice.ask("status")
            return
        task = asyncio.ensure_future(hear_again(run))
        await asyncio.sleep(0)
        await run.slack.sockets.disconnect(reason)
        await task

    return during


async def lose_the_command(run: Run) -> None:
    """It never came, so that the person types it again."""
    run.strike(COMMAND, plan.drop_socket(delivered=False))
    outcome = await run.practice.type("restart kimi-k2.5")
    assert not outcome.acknowledged
    await run.practice.begin()


async def lose_the_acknowledgement(run: Run) -> None:
    """It came, and the person who was told otherwise types it again: one restart."""
    run.slack.sockets.ack_timeout = 0.3  # the startup is over within the three seconds of Slack's own
    run.strike(COMMAND, plan.drop_socket(delivered=True))
    outcome = await run.practice.type("restart kimi-k2.5")
    assert not outcome.acknowledged
    run.slack.sockets.ack_timeout = 3.0
    answer = await run.practice.ask("restart kimi-k2.5")
    assert "Nothing was done" in answer or "see its thread" in answer  # whichever of the two came first


CASES = [
    *(Case(name, (place,), striking(fault, place)) for name, fault in HANGS.items() for place in ALL_PLACES),
    *(Case(name, ALL_PLACES, striking(fault, *ALL_PLACES)) for name, fault in ONE_CALL.items()),
    Case("archived channel, from the beginning", (ROOT,), begin=archive_at_once),
    Case("archived channel, midway", (REPLY, EDIT, FILE), during=archive_midway),
    Case("revoked token, from the beginning, then valid", (ROOT,), begin=revoke_at_once),
    Case("revoked token, midway, then valid", (ANY,), during=revoke_midway),
    Case("revoked token, then valid", ALL_PLACES, striking(plan.error("token_revoked"), *ALL_PLACES)),
    *(
        Case(f"refused upload: {code}", (place,), striking(plan.error(code), place, times=None))
        for place, code in (
            ("upload: place", "storage_limit_reached"),
            ("upload: bytes", "no"),
            (FILE, "file_uploads_disabled"),
        )
    ),
    Case("edit window closed", (EDIT,), during=close_edit_window),
    Case("socket dropped", (COMMAND,), during=drop_sockets),
    Case("socket dropped before the command", (COMMAND,), begin=lose_the_command),
    Case("socket dropped after the command", (COMMAND,), begin=lose_the_acknowledgement),
    Case("disconnect: warning", (COMMAND,), during=disconnecting("warning")),
    Case("disconnect: refresh_requested", (COMMAND,), during=disconnecting("refresh_requested")),
]


async def play(case: Case | None = None) -> Outcome:
    """One startup, from the command to the last message, wherever it stands."""
    workspace = Workspace(SCENARIO, speed=SPEED)
    workspace.slack.add_channel(FALLBACK, "alerts")
    try:
        run = Run(Practice(workspace, await workspace.start()))
        if case is not None:
            case.before(run)
        await (case.begin if case and case.begin else _begin)(run)
        if case is not None and case.during is not None:
            await case.during(run)
        await run.end()
        return await _look(run)
    finally:
        await workspace.stop()


async def _begin(run: Run) -> None:
    await run.practice.begin()


async def _look(run: Run) -> Outcome:
    slack, practice = run.slack, run.practice
    roots = practice.roots()
    thread = practice.thread(roots[0]) if roots else []
    told = [read(message, roots[0]) for message in thread]
    alerts = slack.channel_messages(FALLBACK)
    elsewhere = [read(message, alert) for alert in alerts for message in slack.thread(FALLBACK, alert.ts)]
    shown = [said for said in told if said.kind == EDIT] or told[:1]
    if any(said.kind == ROOT for said in elsewhere):  # it says why, and below that the present
        shown = [said for said in elsewhere if said.kind == ROOT]
    store = practice.app.startups.ground.store
    return Outcome(
        thread=told,
        roots=len(roots),
        elsewhere=elsewhere,
        present=shown[-1].text,
        parked=len(await store.parked()),
        orders=practice.orders(),
        hits=run.hits,
    )


# The counting.


@dataclass(frozen=True, slots=True)
class Row:
    fault: str
    place: str
    hits: int
    lost: int
    doubled: int
    parked: int
    elsewhere: int


KINDS = {ROOT: {ROOT}, REPLY: {REPLY}, EDIT: {EDIT}, FILE: {FILE}}


def count(case: Case, outcome: Outcome, expected: Outcome) -> list[Row]:
    """A row for each place; what was told in the fallback channel counts as told."""
    return [_row(case, place, outcome, expected) for place in case.places]


def _row(case: Case, place: str, outcome: Outcome, expected: Outcome) -> Row:
    kinds = KINDS.get(place, {REPLY, FILE})
    told = [*outcome.thread, *outcome.elsewhere]
    if kinds == {ROOT}:
        lost, doubled = max(0, 1 - outcome.roots - (place_of_root(outcome) is not None)), outcome.roots - 1
    elif kinds == {EDIT}:
        lost = int(not outcome.present.endswith(expected.present))
        doubled = sum(said.kind == EDIT for said in outcome.thread) - 1
    else:
        got = Counter(said for said in told if said.kind in kinds)
        wanted = Counter(said for said in expected.thread if said.kind in kinds)
        lost, doubled = (wanted - got).total(), (got - wanted).total()
    return Row(
        fault=case.fault,
        place=place,
        hits=outcome.hits[place],
        lost=lost,
        doubled=max(0, doubled),
        parked=outcome.parked,
        elsewhere=len(outcome.elsewhere),
    )


def place_of_root(outcome: Outcome) -> Said | None:
    """What stands for the root in the fallback channel."""
    return next((said for said in outcome.elsewhere if said.kind == ROOT), None)


def in_order(outcome: Outcome, expected: Outcome) -> bool:
    """In the thread and, where it went on elsewhere, from one to the other."""
    told = [*outcome.thread, *outcome.elsewhere]
    return [said for said in told if said.kind in {REPLY, FILE}] == expected.thread[1:]


def differences(outcome: Outcome, expected: Outcome) -> str:
    told = Counter([*outcome.thread[1:], *outcome.elsewhere])
    wanted = Counter(expected.thread[1:])
    return f"missing {[*(wanted - told)]}, too much {[*(told - wanted)]}, parked {outcome.parked}"


def draw(rows: Sequence[Row]) -> str:
    head = ("fault", "at", "hit", "lost", "doubled", "parked", "told elsewhere")
    lines = [head, *((r.fault, r.place, r.hits, r.lost, r.doubled, r.parked, r.elsewhere) for r in rows)]
    widths = [max(len(str(line[column])) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(f"{cell!s:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


@pytest.mark.timeout(240)
async def test_nothing_lost_nothing_twice_whatever_slack_does(capsys: pytest.CaptureFixture[str]) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def enter(case: Case | None) -> Outcome:
        async with room:
            try:
                return await play(case)
            except Exception as error:
                raise AssertionError(case.fault if case else "undisturbed") from error

    expected, *outcomes = await asyncio.gather(*(enter(case) for case in (None, *CASES)))
    assert [said.kind for said in expected.thread] == [ROOT, *[REPLY] * 4, FILE, FILE]
    rows = [
        row for case, outcome in zip(CASES, outcomes, strict=True) for row in count(case, outcome, expected)
    ]
    with capsys.disabled():
        print(f"\n{draw(rows)}")  # noqa: T201 - the table is what the test is for
    for case, outcome in zip(CASES, outcomes, strict=True):
        where = f"{case.fault}: {differences(outcome, expected)}"
        assert outcome.orders == ["restart"], where
        assert in_order(outcome, expected), where
        if "archived" not in case.fault:
            assert (outcome.roots, outcome.parked, outcome.elsewhere) == (1, 0, []), where
    for row in rows:
        assert row.hits >= 1, row
        assert (row.lost, row.doubled) == (0, 0), row


async def test_who_asked_is_told_when_the_thread_cannot_be_shown() -> None:
    workspace = Workspace(SCENARIO, speed=SPEED)
    workspace.slack.add_channel(FALLBACK, "alerts")
    try:
        run = Run(Practice(workspace, await workspace.start()))
        await archive_at_once(run)
        direct = f"D{ALICE[1:]}"
        [told] = await run.practice.until(lambda slack: slack.workspace.roots(direct), within=WITHIN)
        assert f"<#{CHANNEL}>" in told.plain
        assert f"<#{FALLBACK}>" in told.plain
        await run.end()
        assert len(run.slack.workspace.roots(direct)) == 1
        assert SERVICE in run.slack.channel_messages(FALLBACK)[0].plain
    finally:
        await workspace.stop()
