"""What people do in the practice workspace: type, mention, press, fill in modals; each told to the app."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from bot.practice import slack_payloads as payloads
from bot.practice.slack_socket import Answer, Envelope
from bot.practice.slack_state import PostedMessage, Refused, Workspace, find_action

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.practice.slack_hooks import Hooks
    from bot.practice.slack_views import Triggers, View, Views


class Courier(Protocol):
    """Brings an envelope to the app: Socket Mode or a request URL."""

    async def deliver(self, envelope: Envelope) -> Answer: ...


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """How something a person did was taken.

    `error` is what Slack would show: operation_timeout, dispatch_failed, not_in_channel (a mention where
    the bot is no member), not_supported_in_threads, invalid_command, cancelled (the person said no to the
    dialog). `ts` is the person's own message, `response` what came with the acknowledgement.
    """

    acknowledged: bool
    seconds: float
    response: dict[str, Any] | None = None
    error: str | None = None
    ts: str | None = None


def _refused(error: str, ts: str | None = None) -> CommandOutcome:
    return CommandOutcome(acknowledged=False, seconds=0, error=error, ts=ts)


class People:
    """Everything a person can do, over one workspace; `courier` may be exchanged at any time."""

    def __init__(
        self, workspace: Workspace, views: Views, hooks: Hooks, triggers: Triggers, courier: Courier
    ) -> None:
        self._workspace = workspace
        self._views = views
        self._hooks = hooks
        self._triggers = triggers
        self.courier = courier
        self.commands = {"/kimi"}
        self.should_escape = True
        self.retry_delays: Sequence[float] = (0, 60, 300)  # seconds before an event is told again
        self._retries: set[asyncio.Task[None]] = set()

    async def say(self, user: str, channel: str, text: str, thread_ts: str | None = None) -> CommandOutcome:
        """A line typed into the box of a channel or a thread: a command, a mention, or just words."""
        if text.startswith("/"):
            command, _, words = text.partition(" ")
            if thread_ts is not None:
                return _refused("not_supported_in_threads")
            return await self.slash(user, channel, words, command=command)
        message = self._post(user, channel, payloads.resolve(self._workspace, text), thread_ts)
        if f"<@{self._workspace.bot_user}>" not in message.text:
            return CommandOutcome(acknowledged=True, seconds=0, ts=message.ts)
        return await self._mention(message)

    async def mention(
        self, user: str, channel: str, text: str, thread_ts: str | None = None
    ) -> CommandOutcome:
        """`text` with or without `@kimi` in it."""
        name = f"@{self._workspace.bot_name}"
        return await self.say(user, channel, text if name in text else f"{name} {text}", thread_ts)

    async def slash(self, user: str, channel: str, text: str, *, command: str = "/kimi") -> CommandOutcome:
        if command not in self.commands:
            return _refused("invalid_command")
        words = text.strip()
        payload = payloads.slash(
            self._workspace,
            user=user,
            channel=self._workspace.channels[channel],
            command=command,
            text=payloads.resolve(self._workspace, words) if self.should_escape else words,
            trigger_id=self._triggers.issue(user),
            response_url=self._hooks.issue(channel, user),
        )
        answer = await self.courier.deliver(Envelope("slash_commands", payload))
        if answer.payload is not None:
            self._take_answer(channel, user, answer.payload)
        return _outcome(answer)

    async def press(
        self,
        user: str,
        channel: str,
        ts: str,
        action_id: str,
        *,
        accept_confirm: bool = True,
        value: str | None = None,
        option: str | None = None,
    ) -> CommandOutcome:
        """A button, or a menu with `option`; a dialog that asks first is answered with `accept_confirm`."""
        message = self.visible(user, channel, ts)
        block, element = message.action(action_id, value)
        if "confirm" in element and not accept_confirm:
            return _refused("cancelled")
        payload = payloads.message_actions(
            self._workspace,
            message,
            [payloads.action(self._workspace, block, element, option)],
            user=user,
            trigger_id=self._triggers.issue(user),
            response_url=self._hooks.issue(channel, user, message),
        )
        return _outcome(await self.courier.deliver(Envelope("interactive", payload)))

    async def press_in_view(
        self,
        user: str,
        view: View,
        action_id: str,
        *,
        accept_confirm: bool = True,
        value: str | None = None,
        option: str | None = None,
    ) -> CommandOutcome:
        block, element = find_action(view.content["blocks"], action_id, value)
        if "confirm" in element and not accept_confirm:
            return _refused("cancelled")
        payload = payloads.view_actions(
            self._workspace,
            self._views.show(view),
            [payloads.action(self._workspace, block, element, option)],
            user=user,
            trigger_id=self._triggers.issue(user),
        )
        return _outcome(await self.courier.deliver(Envelope("interactive", payload)))

    async def submit(self, user: str, values: dict[str, dict[str, Any]]) -> CommandOutcome:
        """Submit the user's modal; `values`: block_id → action_id → text, or Slack's own object."""
        view = self._views.modal(user)
        if view is None:
            raise LookupError(f"no modal is open for {user}")
        payload = payloads.view_submission(
            self._workspace,
            self._views.show(view),
            _state(view, values),
            user=user,
            trigger_id=self._triggers.issue(user),
        )
        answer = await self.courier.deliver(Envelope("interactive", payload))
        if answer.acknowledged:
            try:
                self._views.respond(view, answer.payload or {})
            except Refused as refused:
                self._workspace.refuse("view_submission", refused)
        return _outcome(answer)

    async def close_modal(self, user: str) -> CommandOutcome:
        view = self._views.modal(user)
        if view is None:
            raise LookupError(f"no modal is open for {user}")
        self._views.close(view)
        if not view.content.get("notify_on_close"):
            return CommandOutcome(acknowledged=True, seconds=0)
        payload = payloads.view_closed(self._workspace, self._views.show(view), user=user)
        return _outcome(await self.courier.deliver(Envelope("interactive", payload)))

    async def open_home(self, user: str) -> CommandOutcome:
        home = self._views.homes.get(user)
        shown = self._views.show(home) if home else None
        return await self._tell(payloads.app_home_opened(self._workspace, user, shown))

    async def shortcut(self, user: str, channel: str, ts: str, callback_id: str) -> CommandOutcome:
        """A message shortcut from the menu beside a message."""
        message = self.visible(user, channel, ts)
        payload = payloads.message_shortcut(
            self._workspace,
            message,
            user=user,
            callback_id=callback_id,
            trigger_id=self._triggers.issue(user),
            response_url=self._hooks.issue(channel, user, message),
        )
        return _outcome(await self.courier.deliver(Envelope("interactive", payload)))

    def visible(self, user: str, channel: str, ts: str) -> PostedMessage:
        """A message this person sees, ephemerals included. LookupError where there is none."""
        for message in [*self._workspace.ephemerals, *self._workspace.messages(channel)]:
            if message.ts == ts and message.channel == channel and message.seen_by in {None, user}:
                return message
        raise LookupError(f"{user} sees no message {ts} in {channel}")

    async def stop(self) -> None:
        for task in tuple(self._retries):
            task.cancel()
        await asyncio.gather(*self._retries, return_exceptions=True)

    def _post(self, user: str, channel: str, text: str, thread_ts: str | None) -> PostedMessage:
        if user not in self._workspace.users or channel not in self._workspace.channels:
            raise LookupError(f"no such person or channel: {user}, {channel}")
        message = PostedMessage(
            channel=channel,
            ts=self._workspace.next_ts(),
            user=user,
            text=text,
            blocks=(payloads.typed_block(text),),
            thread_ts=thread_ts,
        )
        return self._workspace.post(message)

    async def _mention(self, message: PostedMessage) -> CommandOutcome:
        """Slack tells an app of mentions only where it is a member, and of none in a DM."""
        channel = self._workspace.channels[message.channel]
        if channel.person is not None:
            return CommandOutcome(acknowledged=True, seconds=0, ts=message.ts)
        if not channel.joined:
            return _refused("not_in_channel", message.ts)
        return await self._tell(payloads.app_mention(self._workspace, message), message.ts)

    async def _tell(self, payload: dict[str, Any], ts: str | None = None) -> CommandOutcome:
        """Tell an event, again where it was not acknowledged; the later times in the background."""
        answer = await self.courier.deliver(Envelope("events_api", payload))
        attempt = 1
        while not answer.acknowledged and attempt <= len(self.retry_delays):
            if self.retry_delays[attempt - 1] > 0:
                task = asyncio.create_task(self._retell(payload, attempt), name="practice-slack-retry")
                self._retries.add(task)
                task.add_done_callback(self._retries.discard)
                break
            answer = await self._again(payload, attempt)
            attempt += 1
        return _outcome(answer, ts)

    async def _retell(self, payload: dict[str, Any], attempt: int) -> None:
        for number, delay in enumerate(self.retry_delays[attempt - 1 :], attempt):
            await asyncio.sleep(delay)
            if (await self._again(payload, number)).acknowledged:
                return

    async def _again(self, payload: dict[str, Any], attempt: int) -> Answer:
        return await self.courier.deliver(Envelope("events_api", payload, attempt, "http_timeout"))

    def _take_answer(self, channel: str, user: str, payload: dict[str, Any]) -> None:
        try:
            self._hooks.answer(channel, user, payload)
        except Refused as refused:
            self._workspace.refuse("ack", refused)


def _outcome(answer: Answer, ts: str | None = None) -> CommandOutcome:
    return CommandOutcome(answer.acknowledged, answer.seconds, answer.payload, answer.error, ts)


def _state(view: View, values: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """`view.state.values`: a plain text stands for the value of an input or the option of a menu."""
    state: dict[str, Any] = {}
    for block_id, fields in values.items():
        for action_id, value in fields.items():
            _, element = find_action(view.content["blocks"], action_id)
            state.setdefault(block_id, {})[action_id] = _field(element, value)
    return state


def _field(element: dict[str, Any], value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if "options" in element:
        chosen = next(option for option in element["options"] if option["value"] == value)
        return {"type": element["type"], "selected_option": chosen}
    return {"type": element["type"], "value": value}
