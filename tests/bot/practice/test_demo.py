"""`kimi-bot demo`: a person at the keyboard, the thread on the terminal, the end as a status."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import structlog

from bot.core.actions import Mark, Progress, Verdict
from bot.core.events import PhaseId
from bot.core.render import Message, render_root
from bot.errors import ConfigurationInvalid
from bot.practice.demo import FAILED, HEALTHY, STALLED, Demo, Printer, _tell_whole
from bot.practice.scenarios import SCENARIOS
from bot.practice.slack_state import PostedMessage
from bot.practice.workspace import ALICE, CHANNEL, PracticeWorkspace
from tests.support.commands import kimi
from tests.support.startup_views import MIDWAY, mark

if TYPE_CHECKING:
    from collections.abc import Iterator

STAMP = re.compile(r"^\[ *\d+m\d\ds\] ", re.MULTILINE)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The demo sets up logging for its process; ours goes on as it was."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


async def play(*say: str, scenario: str = "healthy", speed: float = 100) -> tuple[int, str]:
    shown: list[str] = []
    demo = Demo(SCENARIOS[scenario], speed, port=0, say=say, show=shown.append)
    status = await demo.run()
    return status, "\n".join(shown)


async def test_a_healthy_restart_is_typed_confirmed_followed_and_ends_with_0() -> None:
    ended = await kimi("demo", "--say", "restart kimi-k2.5", "--speed", "100")
    assert (ended.status, ended.err) == (HEALTHY, ""), ended.out
    first, pace, _, typed, *_ = ended.out.splitlines()
    assert first.startswith("kimi practice workspace · scenario healthy: ")
    assert pace.startswith("One second here is 100 in the practice")
    assert STAMP.sub("", typed) == "alice: /kimi restart kimi-k2.5"
    told = [ended.out.index(word) for word in ("alice presses [Restart]", "#llm-ops ", "Weights loaded")]
    assert told == sorted(told)
    assert STAMP.search(ended.out)
    assert re.search(r"└ .*healthy", ended.out)
    assert re.search(r"\[picture\] kimi-k2\.5: healthy after .+ Phases: ", ended.out)
    before, _, last = ended.out.partition("The thread's first message now:\n")
    assert re.match(r" +✅ kimi-k2\.5 is healthy on llm-two after \d+m(?:\d\ds)?\n", last)
    assert "in place of the question: Restarting `kimi-k2.5`" in before
    assert "is healthy on" not in before


async def test_a_failed_start_ends_with_3_and_shows_the_file() -> None:
    ended = await kimi("demo", "--say", "restart kimi-k2.5", "--scenario", "oom-in-weights", "--speed", "100")
    assert ended.status == FAILED
    assert re.search(r"└ \(shown in the channel too\) .*failed", ended.out)
    assert re.search(r"\[file\] kimi-k2\.5-.*\.log \([\d,]+ bytes\)", ended.out)


async def test_what_is_asked_after_a_failure_does_not_make_it_good() -> None:
    status, shown = await play("restart kimi-k2.5", "why", scenario="oom-in-weights", speed=200)
    assert status == FAILED
    assert "memory" in shown.partition("alice: /kimi why")[2]


async def test_a_stall_that_something_comes_of_is_waited_out() -> None:
    status, shown = await play("restart kimi-k2.5", scenario="nccl-timeout", speed=200)
    assert status == FAILED
    assert shown.index("stalled in graph capture") < shown.index("collective")
    assert "shown in the channel too" in shown


async def test_history_and_smoke_are_seen_to_their_end() -> None:
    said = ("restart kimi-k2.5", "history", "smoke")
    status, shown = await play(*said, speed=200)
    assert status == HEALTHY
    _, _, rest = shown.partition("alice: /kimi history")
    history, _, smoke = rest.partition("alice: /kimi smoke")
    assert "[picture] kimi-k2.5: 1 startup" in history
    assert "tokens/s" in smoke


async def test_a_stall_that_stands_ends_with_4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.practice.demo._STALL_STANDS", 0.5)
    monkeypatch.setattr("bot.app._GRACE", 0.5)
    status, shown = await play("restart kimi-k2.5", scenario="stall-in-graphs", speed=500)
    assert status == STALLED
    assert "stalled" in shown


async def test_a_scenario_that_takes_two_starts_is_told_whole() -> None:
    status, shown = await play("status", "restart kimi-k2.5", scenario="slow-second-start", speed=150)
    assert status == HEALTHY
    assert shown.count("alice: /kimi restart kimi-k2.5") == 2
    assert "Slower than usual loading weights" in shown
    assert "stalled" not in shown


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        (["restart k"], ["restart k", "restart k"]),
        (["status", "Restart k", "history"], ["status", "Restart k", "Restart k", "history"]),
        (["restart k", "why", "start k"], ["restart k", "why", "start k"]),
        (["status", ""], ["status", ""]),
    ],
)
def test_a_start_is_said_as_often_as_the_scenario_takes_starts(said: list[str], typed: list[str]) -> None:
    assert _tell_whole(said, starts=2) == typed
    assert _tell_whole(said, starts=1) == said


async def test_what_is_answered_at_once_is_shown_and_ends_with_0() -> None:
    status, shown = await play("/kimi status", "@kimi why", "help")
    assert status == HEALTHY
    assert "alice: /kimi status" in shown
    assert "alice: /kimi why" in shown
    assert shown.count("only alice sees: ") == 3
    assert "presses" not in shown


async def test_what_is_only_answered_is_no_end_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.practice.demo._ANSWER_WITHIN", 600.0)
    said = ("start kimi-k2.5", "watch", "start nosuch-service", "stop", "stop kimi-k2.5", "restart")
    async with asyncio.timeout(60):
        status, shown = await play(*said, speed=200)
    assert status == HEALTHY
    told = [part.partition("alice: /kimi ")[0] for part in shown.split("alice: /kimi ")[1:]]
    assert "runs already" in told[0]
    assert "Nothing is starting" in told[1]
    assert "There is no service `nosuch-service`" in told[2]
    assert "alice presses [Stop]" in told[3]
    assert "there is nothing to stop" in told[4]
    assert re.search("└ .*healthy", told[5])


async def test_a_log_asked_for_is_waited_for() -> None:
    status, shown = await play("logs 20")
    assert status == HEALTHY
    assert shown.index("Fetching the last 20 lines") < shown.index("[file] ")


async def test_a_port_that_is_taken_or_none_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port in (taken.getsockname()[1], 70_000):
            demo = Demo(SCENARIOS["healthy"], 100, port=port, say=("status",), show=lambda _: None)
            with pytest.raises(ConfigurationInvalid, match=f"--port: {port} cannot be listened on"):
                await demo.run()


async def test_an_outage_is_told_in_the_terminal_without_a_word() -> None:
    told: list[str] = []
    demo = Demo(SCENARIOS["dies-at-3am"], speed=60, port=0, say=(), show=told.append)
    running = asyncio.create_task(demo.run())
    async with asyncio.timeout(60):
        while not any("is down" in text for text in told):  # noqa: ASYNC110 - it tells when it tells
            await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == HEALTHY
    assert "it happens by itself" in "\n".join(told[:3])
    assert "One second here is 60" in told[1]


async def test_without_a_word_it_stays_until_it_is_interrupted() -> None:
    shown: list[str] = []
    demo = Demo(SCENARIOS["healthy"], 100, port=0, say=(), show=shown.append)
    running = asyncio.create_task(demo.run())
    async with asyncio.timeout(20):
        while len(shown) < 2:  # noqa: ASYNC110 - the terminal sets no event
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)  # the handlers are set right after the line
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == HEALTHY
    assert re.search(r"Open http://127\.0\.0\.1:\d+ and type: /kimi restart kimi-k2\.5", shown[1])


@contextlib.contextmanager
def printing(scenario: str = "healthy") -> Iterator[tuple[PracticeWorkspace, list[str]]]:
    workspace = PracticeWorkspace(SCENARIOS[scenario], speed=1)
    shown: list[str] = []
    workspace.slack.on_change(Printer(workspace, show=shown.append).print_change)
    yield workspace, shown


def make_message(text: str, ts: str = "1.0", **changes: object) -> PostedMessage:
    given = {"channel": CHANNEL, "ts": ts, "user": "U0KIMI", "text": text, "bot": True} | changes
    return PostedMessage(**given)  # type: ignore[arg-type]


async def test_the_terminal_shows_what_the_bot_says_and_where() -> None:
    with printing() as (workspace, shown):
        slack = workspace.slack.workspace
        slack.post(make_message("the root"))
        slack.post(make_message("a person's", ts="2.0", bot=False))
        slack.post(make_message("a reply", ts="3.0", thread_ts="1.0"))
        slack.post(make_message("a verdict", ts="4.0", thread_ts="1.0", broadcast=True))
        slack.whisper(make_message("a question", ts="5.0", seen_by=ALICE))
    assert [STAMP.sub("", line) for line in shown] == [
        "#llm-ops the root",
        "└ a reply",
        "└ (shown in the channel too) a verdict",
        "only alice sees: a question",
    ]


async def test_of_an_outage_each_line_tells_which_of_its_threads_it_is_in() -> None:
    with printing("dies-at-3am") as (workspace, shown):
        slack = workspace.slack.workspace
        outage, start = make_message("is down"), make_message("is starting", ts="2.0")
        slack.post(outage)
        slack.post(start)
        slack.post(make_message("why", ts="3.0", thread_ts="1.0"))
        slack.post(make_message("ranks", ts="4.0", thread_ts="2.0"))
        slack.edit(start, "is loading", ())
    assert [STAMP.sub("", line) for line in shown] == [
        "#llm-ops is down",
        "#llm-ops (thread 2) is starting",
        "└ why",
        "└2 ranks",
        "~2 is loading",
    ]


def loading(done: int, total: int = 64, *, verdict: Verdict | None = None) -> Message:
    now = mark(PhaseId.WEIGHTS, Mark.NOW, 190, progress=Progress(done, total))
    return render_root(replace(MIDWAY, phases=(now,), verdict=verdict, eta=None))


def edit(workspace: PracticeWorkspace, root: PostedMessage, message: Message) -> None:
    workspace.slack.workspace.edit(root, message.text, message.blocks)


async def test_edits_are_thinned_out_and_tell_the_bar_and_a_new_headline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with printing() as (workspace, shown):
        root = make_message("loading")
        workspace.slack.workspace.post(root)
        for done in (9, 10, 11):  # within one moment: the first alone is told
            edit(workspace, root, loading(done))
        monkeypatch.setattr("bot.practice.demo._EDIT_EVERY", 0.0)
        edit(workspace, root, loading(38))
        edit(workspace, root, loading(38))
    told = [STAMP.sub("", line) for line in shown]
    assert "\n".join(told).split("\n") == [
        "#llm-ops loading",
        "~ kimi-k2.5 is restarting on llm-two · loading weights",
        "            ▓░░░░░░░░░░░ 9 of 64 shards · 3m10s in this phase (usual 5m)",
        "            8 of 8 ranks loading weights",
        "~ ▓▓▓▓▓▓▓░░░░░ 38 of 64 shards · 3m10s in this phase (usual 5m)",
        "            8 of 8 ranks loading weights",
    ]


async def test_the_first_message_is_told_whole_at_the_end() -> None:
    shown: list[str] = []
    workspace = PracticeWorkspace(SCENARIOS["healthy"], speed=1)
    printer = Printer(workspace, show=shown.append)
    printer.print_root()
    assert shown == []
    workspace.slack.on_change(printer.print_change)
    root = make_message("loading")
    workspace.slack.workspace.post(root)
    printer.hold_presents()
    edit(workspace, root, loading(64, verdict=Verdict.HEALTHY))
    printer.print_root()
    assert [STAMP.sub("", line).split("\n")[0] for line in shown] == [
        "#llm-ops loading",
        "The thread's first message now:",
    ]
    assert "✅ kimi-k2.5 is healthy on llm-two after 3m55s (usual 7m40s)" in shown[1]
    assert "restarted by @alice: “new tool-call parser”" in shown[1]


async def test_no_line_is_wider_than_the_terminal() -> None:
    words = "a sentence that goes on and on " * 12
    with printing() as (workspace, shown):
        slack = workspace.slack.workspace
        slack.post(make_message(words))
        slack.post(make_message(words, ts="2.0", thread_ts="1.0", broadcast=True))
    assert max(len(line) for text in shown for line in text.split("\n")) <= 100


async def test_a_crash_loop_that_nobody_asks_about_is_told_as_the_outage_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[str] = []
    demo = Demo(SCENARIOS["crash-loop"], 40, port=0, say=(), show=shown.append)

    async def stay(_: Demo, workspace: PracticeWorkspace) -> int:
        await workspace.slack.wait_for(lambda _: "Attempt " in "\n".join(shown), 60)
        return HEALTHY

    monkeypatch.setattr(Demo, "_stay", stay)
    assert await demo.run() == HEALTHY
    told = "\n".join(shown)
    assert "kimi-k2.5 is down" in told
    assert re.search(r"Attempt \d died.* in weights", told)
