"""The whole bot in a practice workspace, with a person's hands and eyes."""

from __future__ import annotations

import contextlib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bot.app import App
from bot.core.events import ServiceName
from bot.practice.scenarios import SCENARIOS
from bot.practice.workspace import ALICE, CHANNEL, SERVICE, PracticeWorkspace
from tests.support.pace import hurried

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bot.clients.records import Operation
    from bot.core.actions import Pace
    from bot.practice.slack import PracticeSlack
    from bot.practice.slack_people import CommandOutcome
    from bot.practice.slack_state import PostedMessage

WITHIN = 60.0


@dataclass(slots=True)
class Practice:
    workspace: PracticeWorkspace
    app: App

    @property
    def slack(self) -> PracticeSlack:
        return self.workspace.slack

    async def until(self, seen: Callable[[PracticeSlack], Any], *, within: float = WITHIN) -> Any:
        return await self.slack.wait_for(seen, within)

    async def type(self, text: str, *, user: str = ALICE) -> CommandOutcome:
        return await self.slack.slash(user, CHANNEL, text)

    async def ask(self, text: str, *, user: str = ALICE) -> str:
        """Type, and read the private answer that comes."""
        before = len(self.slack.ephemerals(user))
        outcome = await self.type(text, user=user)
        assert outcome.acknowledged
        answers = await self.until(lambda slack: slack.ephemerals(user)[before:])
        return str(answers[-1].plain)

    async def begin(self, text: str = "restart kimi-k2.5") -> PostedMessage:
        """Type, confirm when asked, and wait for the thread's root."""
        before = len(self.roots())
        asked = len(self.slack.ephemerals(ALICE))
        outcome = await self.type(text)
        assert outcome.acknowledged, outcome

        def step(slack: PracticeSlack) -> Any:
            return self.roots()[before:] or self._question(slack, asked)

        found = await self.until(step)
        if not isinstance(found, list):
            await self.slack.press(ALICE, CHANNEL, found.ts, "kimi:confirm")
            await self.until(lambda _: self.roots()[before:])
        return self.roots()[before]

    @staticmethod
    def _question(slack: PracticeSlack, asked: int) -> PostedMessage | None:
        for message in slack.ephemerals(ALICE)[asked:]:
            with contextlib.suppress(LookupError):
                message.action("kimi:confirm")
                return message
        return None

    def roots(self) -> list[PostedMessage]:
        return [m for m in self.slack.channel_messages(CHANNEL) if m.bot and m.thread_ts is None]

    def thread(self, root: PostedMessage) -> list[PostedMessage]:
        return self.slack.thread(CHANNEL, root.ts)

    def replies(self, root: PostedMessage) -> list[str]:
        return [message.plain for message in self.thread(root)[1:]]

    async def reply(self, root: PostedMessage, word: str, *, within: float = WITHIN) -> PostedMessage:
        """The first reply that holds `word`."""

        def found(_: PracticeSlack) -> PostedMessage | None:
            return next((m for m in self.thread(root)[1:] if word in m.plain), None)

        return await self.until(found, within=within)  # type: ignore[no-any-return]

    async def verdict(self) -> Operation:
        """The newest operation once it is closed and all of it stands in Slack."""
        startups = self.app.startups
        await self.until(lambda _: not startups.running)
        assert await startups.ground.outbox.drain(WITHIN)
        [operation] = await startups.ground.store.history(ServiceName(SERVICE), 1)
        print(operation.verdict, *self.replies(self.roots()[-1])[-3:], sep="\n| ")  # noqa: T201 - for failures
        return operation

    def pace(self) -> Pace | None:
        now = self.workspace.clock.now()
        paces = [running.startup.view(now).pace for running in self.app.startups.running.values()]
        return paces[0] if paces else None

    def orders(self) -> list[str]:
        """The verbs that systemd was told, in order."""
        told = [command for command in self.workspace.host.commands if "--no-block" in command]
        return [command[command.index("--no-block") - 1] for command in told]


@asynccontextmanager
async def practise(
    scenario: str, *, speed: float = 60.0, true_pace: bool = False, **changes: Any
) -> AsyncIterator[Practice]:
    """`changes`: `service` and `host`, keys of the configuration that differ.

    `true_pace`: with the rates of the real Slack.
    """
    changes.setdefault("watched", False)  # what happens between startups has tests of its own
    workspace = PracticeWorkspace(SCENARIOS[scenario], speed=speed, **changes)
    with contextlib.nullcontext() if true_pace else hurried(workspace.slack):
        try:
            app = await workspace.start()
            yield Practice(workspace, app)
        finally:
            await workspace.stop()
    assert workspace.slack.refusals == [], "the stand-in Slack refused a call"
    assert workspace.slack.warnings == []
