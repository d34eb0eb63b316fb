"""`kimi-bot demo`: types into the practice workspace and prints the thread as it grows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import signal
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.app import App
from bot.core.actions import Pace, Verdict
from bot.core.blocks import Message
from bot.core.events import ServiceName
from bot.core.terminal import render_terminal
from bot.practice.scenarios import Scenario
from bot.practice.slack_state import PostedMessage
from bot.practice.workspace import ALICE, CHANNEL, CHANNEL_NAME, NAMES, SERVICE, PracticeWorkspace
from bot.run import configure_logging

if TYPE_CHECKING:
    from bot.clients.records import Operation
    from bot.practice.slack import PracticeSlack
    from bot.practice.slack_state import Change, PostedFile

DEFAULT_SPEED = 15.0  # a start of seven minutes in half a one
HEALTHY, FAILED, STALLED = 0, 3, 4
_ENDS: dict[str, int] = {Verdict.FAILED: FAILED}
_ANSWER_WITHIN = 30.0  # real seconds for what a verb answers at once
_STALL_STANDS = 3.0  # real seconds a reported stall must last to be the end of the demo
_LOOK_EVERY = 0.1
_EDIT_EVERY = 2.0  # real seconds between two printed presents
_LONG_VERBS = frozenset({"restart", "start", "stop", "watch"})
_ANNOUNCED_FILE = {"logs": "Fetching", "history": r"\*"}  # how an answer begins that a file follows
_SECOND_ANSWER = "smoke"
_ADDRESS = re.compile(r"\s*[/@]kimi\b")  # what is typed before the words in a real workspace
_WIDTH = 100  # columns, the stamp's among them
_STAMP_WIDTH = 10


@dataclass(slots=True)
class Demo:
    """One run; `show` gets each piece of text for the terminal."""

    scenario: Scenario
    speed: float
    port: int
    say: tuple[str, ...]
    show: Callable[[str], None]

    async def run(self) -> int:
        """0 healthy, 3 failed, 4 stalled; without anything to say, 0 when interrupted."""
        configure_logging(level=logging.ERROR)
        if not self.say:
            self.scenario = self.scenario.left_alone()
        workspace = PracticeWorkspace(self.scenario, speed=self.speed, port=self.port)
        self.show(f"kimi practice workspace · scenario {self.scenario.name}: {self.scenario.title}")
        if self.say or self.scenario.is_outage:
            self.show(_explain(self.speed))
        try:
            if self.scenario.is_outage and not self.say:  # it comes without a word
                workspace.slack.on_change(Printer(workspace, show=self.show).print_change)
            app = await workspace.start()
            if not self.say:
                return await self._stay(workspace)
            typist = Typist(workspace, app, show=self.show)
            return await typist.type_all(self.say)
        finally:
            await workspace.stop()

    async def _stay(self, workspace: PracticeWorkspace) -> int:
        self.show(_invite(workspace.slack.url, self.scenario, self.speed))
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await stop.wait()
        return HEALTHY


def _tell_whole(lines: list[str], *, starts: int) -> list[str]:
    """The lines, with the first start said as often as the scenario takes some: one teaches the other."""
    asked = [line for line in lines if line.lower().split(maxsplit=1)[:1] in (["restart"], ["start"])]
    first = lines.index(asked[0]) if asked else 0
    return [*lines[:first], *asked[:1] * max(starts - len(asked), 0), *lines[first:]]


@dataclass(slots=True)
class Typist:
    """A person at the keyboard: types a line, reads what comes, presses what must be confirmed."""

    workspace: PracticeWorkspace
    app: App
    show: Callable[[str], None]
    _printer: Printer = field(init=False)

    def __post_init__(self) -> None:
        self._printer = Printer(self.workspace, show=self.show, over=self._is_over)

    async def type_all(self, lines: tuple[str, ...]) -> int:
        """Each line once the one before has its verdict; the status of the last one that has."""
        self.workspace.slack.on_change(self._printer.print_change)
        status = HEALTHY
        bare = [_ADDRESS.sub("", line).strip() for line in lines]
        for line in _tell_whole(bare, starts=self.workspace.host.scenario.starts):
            ended = await self._type(line)
            status = status if ended is None else ended
        return status

    async def _type(self, line: str) -> int | None:
        """None for what has no verdict: a question after a failure does not make it good."""
        slack = self.workspace.slack
        self._printer.say(f"alice: /kimi {line}")
        answers, files, last = len(slack.ephemerals(ALICE)), len(slack.files), await self._last()
        outcome = await slack.slash(ALICE, CHANNEL, line)
        if not outcome.acknowledged:
            self.show(f"  {outcome.error}")
            return FAILED
        verb = line.split(maxsplit=1)[0].lower() if line else "status"
        if verb in _LONG_VERBS:
            return await self._see_through(answers, last)
        with contextlib.suppress(TimeoutError):
            await slack.wait_for(lambda s: len(s.ephemerals(ALICE)) > answers or None, _ANSWER_WITHIN)
            await self._see_rest(verb, answers, files)
        await self._settle()
        return None

    async def _see_rest(self, verb: str, answers: int, files: int) -> None:
        """What the first answer announces: a file, a picture, or a second answer."""
        slack, told = self.workspace.slack, self.workspace.slack.ephemerals(ALICE)[-1].text
        if (pattern := _ANNOUNCED_FILE.get(verb)) is not None and re.match(pattern, told):
            await slack.wait_for(lambda s: _shown(s) > files or None, _ANSWER_WITHIN)
        elif verb == _SECOND_ANSWER and told.startswith("Running"):
            await slack.wait_for(lambda s: len(s.ephemerals(ALICE)) > answers + 1 or None, _ANSWER_WITHIN)

    async def _see_through(self, told: int, last: Operation | None) -> int | None:
        """Confirm where asked, then follow until the verdict, or until a stall that stands.

        None: something was answered, and nothing came of it.
        """
        loop = asyncio.get_running_loop()
        began, stalled_since, answers = loop.time(), None, told
        idle = False
        while not idle:
            # Before the look, not after it: what ends meanwhile is seen by the next one.
            idle = not self.app.startups.running and loop.time() - began >= _ANSWER_WITHIN
            answered = self._is_answered(told) and await self.app.startups.held(ServiceName(SERVICE)) is None
            await asyncio.sleep(_LOOK_EVERY)
            answers = await self._confirm(answers)
            newest = await self._last()
            if newest is not None and (last is None or newest.operation != last.operation):
                await self._conclude()
                return _ENDS.get(newest.verdict or "", HEALTHY)
            if answered:
                await self._settle()
                return None
            stalled_since = (stalled_since or loop.time()) if self._stalled() else None
            stands = stalled_since is not None and loop.time() - stalled_since > _STALL_STANDS
            if stands and not self.workspace.host.scenario.stalls_first:
                await self._conclude()
                return STALLED
        return FAILED

    async def _last(self) -> Operation | None:
        history = await self.app.startups.ground.store.history(ServiceName(SERVICE), 1)
        return history[0] if history else None

    def _is_over(self) -> bool:
        """Every start has its verdict; one that was closed is no longer among those that run."""
        return all(running.startup.verdict is not None for running in self.app.startups.running.values())

    def _stalled(self) -> bool:
        now = self.workspace.clock.now()
        views = [running.startup.view(now) for running in self.app.startups.running.values()]
        return any(view.pace is Pace.STALLED for view in views)

    async def _conclude(self) -> None:
        """The thread's first message once more, as it stands at the end: its edits were thinned out."""
        self._printer.hold_presents()
        await self._settle()
        self._printer.print_root()

    async def _settle(self) -> None:
        """Until all that was said stands in Slack."""
        await self.app.startups.ground.outbox.drain(_ANSWER_WITHIN)

    def _is_answered(self, told: int) -> bool:
        """The last that came after the first `told` answers asks nothing back."""
        answers = self.workspace.slack.ephemerals(ALICE)[told:]
        return bool(answers) and not _asks(answers[-1])

    async def _confirm(self, answers: int) -> int:
        slack = self.workspace.slack
        seen = slack.ephemerals(ALICE)
        for message in seen[answers:]:
            if (button := _asks(message)) is not None:
                self._printer.say(f"alice presses [{button}]")
                await slack.press(ALICE, CHANNEL, message.ts, "kimi:confirm")
        return len(seen)


def _asks(message: PostedMessage) -> str | None:
    """The button that confirms, where there is one."""
    with contextlib.suppress(LookupError):
        return str(message.action("kimi:confirm")[1]["text"]["text"])
    return None


def _shown(slack: PracticeSlack) -> int:
    """Files that stand in a channel."""
    return sum(file.ts is not None for file in slack.files.values())


def _invite(url: str, scenario: Scenario, speed: float) -> str:
    if scenario.is_outage:
        return (
            f"Open {url} to press the buttons. It serves; wait a while, it happens by itself (Ctrl-C ends).\n"
            "Of a second thread each line begins with ~2 or └2. What does not answer is waited for two real\n"
            f"seconds, {2 * speed:g} here: by --speed 1 it is told as soon as it is in earnest."
        )
    return f"Open {url} and type: /kimi restart kimi-k2.5    (Ctrl-C ends)"


def _explain(speed: float) -> str:
    return (
        f"One second here is {speed:g} in the practice, whose time the stamps tell. "
        "└ is a reply that stays,\n~ the thread's first message, which is edited to tell the present."
    )


@dataclass(frozen=True, slots=True)
class Present:
    """What was last printed of a root: when, in real seconds, and its lines."""

    at: float = 0.0
    headline: str = ""
    rest: str = ""


@dataclass(slots=True)
class Printer:
    """The channel as text: replies whole, the root's edits thinned out to what a person can follow."""

    workspace: PracticeWorkspace
    show: Callable[[str], None]
    over: Callable[[], bool] = lambda: False  # a verdict is reached: what the root says now comes at the end
    _began: float = field(init=False)
    _presents: dict[str, Present] = field(default_factory=dict)
    _threads: dict[str, int] = field(default_factory=dict)  # of an outage: their roots, in order
    _root: PostedMessage | None = None
    _held: bool = False

    def __post_init__(self) -> None:
        self._began = self.workspace.clock.now().timestamp()

    def say(self, text: str) -> None:
        told = self.workspace.clock.now().timestamp() - self._began
        stamp = f"[{int(told) // 60:3d}m{int(told) % 60:02d}s]"
        first, *rest = text.split("\n")
        self.show("\n".join([f"{stamp} {first}", *(f"{'':9} {line}" for line in rest)]))

    def print_change(self, change: Change) -> None:
        message = change.message
        if message is None or not message.bot:
            return
        match change.kind:
            case "edited" if message.seen_by is not None:
                self.say(self._read(message, before="only alice sees, in place of the question: "))
            case "edited" if message.thread_ts is None and not self._held and not self.over():
                self._print_present(message)
            case "ephemeral":
                self.say(self._read(message, before="only alice sees: "))
            case "posted":
                self._note_root(message)
                self.say(self._read(message, before=self._where(message)))

    def hold_presents(self) -> None:
        """No more edits of this root: `print_root` tells the last one."""
        self._held = True

    def print_root(self) -> None:
        if self._root is not None:
            self.say("The thread's first message now:\n" + self._read(self._root, before=""))

    def _note_root(self, message: PostedMessage) -> None:
        if message.thread_ts is None and not message.files:
            self._root, self._held = message, False
            if self.workspace.host.scenario.is_outage:
                self._threads.setdefault(message.ts, len(self._threads) + 1)

    def _where(self, message: PostedMessage) -> str:
        number = self._number(message.thread_ts or message.ts)
        if message.thread_ts is None:
            return f"#{CHANNEL_NAME} {number and f'(thread {number}) '}"
        return f"└{number} (shown in the channel too) " if message.broadcast else f"└{number} "

    def _number(self, root: str) -> str:
        """Which thread, where several grow at a time: nothing for the first one."""
        number = self._threads.get(root, 1)
        return str(number) if number > 1 else ""

    def _print_present(self, message: PostedMessage) -> None:
        """The bar, the times and the ranks; the headline too where it is a new one."""
        now = asyncio.get_running_loop().time()
        before = self._presents.get(message.ts, Present())
        body = render_terminal(Message(message.text, message.blocks[:1]), width=_room(2), names=NAMES)
        headline, _, rest = body.partition("\n")
        same = (headline, rest) == (before.headline, before.rest)
        if same or now - before.at < _EDIT_EVERY:
            return
        self._presents[message.ts] = Present(now, headline, rest)
        shown = rest if rest and headline == before.headline else body
        self.say(f"~{self._number(message.ts)} " + shown.replace("\n", "\n  "))

    def _read(self, message: PostedMessage, *, before: str) -> str:
        text = render_terminal(Message(message.text, message.blocks), width=_room(len(before)), names=NAMES)
        return before + "\n".join([text, *(_tell_file(file, _room(len(before))) for file in message.files)])


def _tell_file(file: PostedFile, width: int) -> str:
    """A picture by its words, as a screen reader tells it."""
    if file.alt:
        return textwrap.fill(f"[picture] {file.alt}", width, break_on_hyphens=False)
    return f"[file] {file.name} ({len(file.content):,} bytes)"


def _room(before: int) -> int:
    return _WIDTH - _STAMP_WIDTH - before
