"""The practice Slack as a process of its own, so that what it costs is not counted as the bot's."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from bench.children import serve
from bot.practice.slack import PracticeSlack

if TYPE_CHECKING:
    from bot.practice.slack_state import PostedMessage

PERSON, CHANNEL = "U0ALICE", "C0OPS"
_WITHIN = 60.0
_NUMBERED = re.compile(r"BENCH_DIAG_\d n=(\d+)")


class FleetSlack:
    """One person gives all the commands; each service that is started has a channel of its own."""

    def __init__(self) -> None:
        self.slack = PracticeSlack()
        self._told: dict[int, float] = {}
        self._read = 0

    async def carry_out(self, order: str, given: dict[str, Any]) -> Any:
        return await getattr(self, f"do_{order}")(**given)

    async def do_open(self, channels: list[str]) -> dict[str, str]:
        slack = self.slack
        # A bot whose Redis is empty reads each channel; at Slack's rate a hundred take two minutes.
        del slack.rates.limits["conversations.history"]
        slack.add_user(PERSON, "alice")
        for channel in (CHANNEL, *channels):
            slack.add_channel(channel, channel.lower())
        await slack.start()
        return {
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_APP_TOKEN": slack.app_token,
            "SLACK_SIGNING_SECRET": slack.signing_secret,
            "SLACK_API_URL": slack.api_url,
        }

    async def do_restart(self, service: str, channel: str) -> None:
        """As a person does: type it, say yes when asked, and again where Slack shows that nobody heard."""
        before = len(self.slack.channel_messages(channel))
        for _ in range(10):
            if (await self.slack.slash(PERSON, channel, f"restart {service} bench")).acknowledged:
                break
        answered: str | None = None
        async with asyncio.timeout(_WITHIN):
            while len(self.slack.channel_messages(channel)) == before:
                found = self._question(channel)
                if found is not None and found.ts != answered:
                    outcome = await self.slack.press(PERSON, channel, found.ts, "kimi:confirm")
                    answered = found.ts if outcome.acknowledged else None
                await asyncio.sleep(0.1)

    def _question(self, channel: str) -> PostedMessage | None:
        for message in reversed(self.slack.workspace.ephemerals):
            if message.channel == channel:
                try:
                    message.action("kimi:confirm")
                except LookupError:
                    continue
                return message
        return None

    async def do_commands(self, commands: list[tuple[str, str]], every: float) -> list[float]:
        """Seconds to each acknowledgement; what never came counts as three seconds."""
        given = []
        for channel, text in commands:
            given.append(asyncio.create_task(self.slack.slash(PERSON, channel, text)))
            await asyncio.sleep(every)
        outcomes = await asyncio.gather(*given)
        return [each.seconds if each.acknowledged else 3.0 for each in outcomes]

    async def do_told(self) -> dict[str, float]:
        """When each numbered line first came as a message, in monotonic seconds of this machine."""
        calls = self.slack.calls
        for call in calls[self._read :]:
            if call.method == "chat.postMessage":
                for number in _NUMBERED.findall(str(call.arguments)):
                    self._told.setdefault(int(number), call.at)
        self._read = len(calls)
        return {str(number): at for number, at in self._told.items()}

    async def do_count(self) -> dict[str, Any]:
        """Calls by method, and what was refused."""
        refused = Counter(f"{each.method}: {each.error}" for each in self.slack.refusals)
        return {
            "calls": dict(Counter(call.method for call in self.slack.calls)),
            "refused": dict(refused),
            "connections": len(self.slack.sockets.connections),
        }


if __name__ == "__main__":
    asyncio.run(serve(FleetSlack().carry_out))
