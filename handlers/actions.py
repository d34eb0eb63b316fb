"""Buttons: each one stands for a command, and is judged like one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from bot.clients.records import Intent
from bot.clients.slack_calls import sending
from bot.core.answers import REDIS_GONE, render_question, render_sentence
from bot.core.command import Command, Word
from bot.core.events import ChannelId, HostName, MessageTs, OperationId, ServiceName, UserId
from bot.errors import CommandRefused, StoreUnavailable
from handlers.dialogue import COMMAND, UNREADABLE
from handlers.turns import Speaker, Turn
from handlers.voices import ModalVoice, PressVoice
from handlers.whispers import NOT_TAKEN, Whisper

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond

    from bot.core.blocks import Message
    from handlers.intents import Intents
    from handlers.parts import Parts
    from handlers.voices import Voice

_ASK = "kimi:ask"
_OPEN = "views.open"
_UNASKED = (
    "The question about a restart of `{service}` did not open, and nothing was done. Press the button again, "
    "or type `/kimi restart {service}` in its channel."
)
_OTHERS = re.compile(r"^kimi:(?!ask$)")
_PLAIN = {
    "logs": Word.LOGS,
    "why": Word.WHY,
    "history": Word.HISTORY,
    "unwatch": Word.UNWATCH,
    "restart": Word.RESTART,
    "stop": Word.STOP,
    "reload": Word.RELOAD,
}
_OF_INCIDENTS = {"ack": Word.ACK, "resolve": Word.RESOLVE, "export": Word.INCIDENTS}
_MUTED = 60  # minutes
_LONGER = 30  # minutes
_CONFIRMABLE = {"restart": Word.RESTART, "start": Word.START, "stop": Word.STOP}


@dataclass(frozen=True, slots=True)
class Press:
    """One press of a button, as far as its value could be read."""

    verb: str
    operation: OperationId | None
    service: ServiceName | None
    host: HostName | None
    confirmed_verb: str
    reason: str
    minutes: int | None


def register(app: AsyncApp, parts: Parts, intents: Intents) -> None:
    @app.action(_ASK)
    async def ask(ack: AsyncAck, body: dict[str, Any], action: dict[str, Any]) -> None:
        await ack()
        press = read_press(action)
        if press.service is None:
            return
        try:
            with sending(_OPEN):  # before anything slow: the trigger lives three seconds
                await parts.client.views_open(
                    trigger_id=body["trigger_id"], view=render_question(press.service)
                )
        except NOT_TAKEN as error:
            aside = Whisper(parts.client, None, body["user"]["id"])
            told = render_sentence(_UNASKED.format(service=press.service))
            parts.tasks.spawn("question not asked", aside.tell_aside(told, error.code))

    @app.action(_OTHERS)
    async def press(
        ack: AsyncAck, respond: AsyncRespond, body: dict[str, Any], action: dict[str, Any]
    ) -> None:
        pressed = read_press(action)
        intent = read_intent(body, pressed, owner=intents.owner)
        said, first, gone = _answer_at_once(intent, pressed), False, False
        try:
            first = said is None and await intents.keep(intent)
        except StoreUnavailable:
            said, gone = render_sentence(REDIS_GONE), True
        except CommandRefused as refusal:
            said = render_sentence(str(refusal))
        await ack()
        # Where Redis is away a question stays: its button can be pressed again.
        voice = choose_voice(parts, respond, body, replace=not gone)
        if first:
            intents.begin(intent, voice)
        elif said is not None:
            parts.tasks.spawn("press", Turn(parts, intent, voice).tell(said))


def _answer_at_once(intent: Intent, press: Press) -> Message | None:
    """What needs nothing to be done."""
    if press.verb == "cancel":
        return render_sentence("Cancelled. Nothing was done.")
    nothing = intent.command is None and intent.minutes is None
    return render_sentence(UNREADABLE) if nothing else None


def read_intent(body: dict[str, Any], press: Press, *, owner: str) -> Intent:
    """Each of these buttons asked before it acted, by Slack's own dialogue or as a question in words."""
    speaker, command = read_speaker(body), read_command(press)
    container = body.get("container", {})
    return Intent(
        token=body["trigger_id"],
        owner=owner,
        at=datetime.now(UTC),
        user=speaker.user,
        channel=speaker.channel,
        thread_ts=speaker.thread_ts,
        command=None if command is None else COMMAND.dump_json(command).decode(),
        confirmed=True,
        operation=press.operation,
        minutes=press.minutes or _LONGER if press.verb == "wait" and press.operation is not None else None,
        view=container["view_id"] if container.get("type") == "view" else None,
    )


def read_press(action: dict[str, Any]) -> Press:
    """The value is ours, but may be that of an older version."""
    try:
        value = json.loads(action.get("value") or "{}")
    except ValueError:
        value = {}
    fields = value if isinstance(value, dict) else {}
    words = {key: told for key, told in fields.items() if isinstance(told, str)}
    minutes = fields.get("m")
    return Press(
        verb=str(action.get("action_id", "")).removeprefix("kimi:"),
        operation=OperationId(words["o"]) if "o" in words else None,
        service=ServiceName(words["s"]) if "s" in words else None,
        host=HostName(words["h"]) if "h" in words else None,
        confirmed_verb=words.get("v", ""),
        reason=words.get("r", ""),
        minutes=minutes if isinstance(minutes, int) and minutes > 0 else None,
    )


def read_command(press: Press) -> Command | None:
    """The command a button stands for; None where it cannot be told."""
    about = _OF_INCIDENTS.get(press.verb)
    if about is not None:  # a host's incident has no service
        named = press.operation
        return None if named is None else Command(about, press.service, incident=named)
    if press.verb == "mute" and (press.service or press.host):
        lasting = timedelta(minutes=press.minutes or _MUTED)
        return Command(Word.MUTE, press.service, lasting=lasting, host=press.host)
    if press.service is None:
        return None
    asked = press.verb == "confirm"
    verb = _CONFIRMABLE.get(press.confirmed_verb) if asked else _PLAIN.get(press.verb)
    return None if verb is None else Command(verb, press.service, reason=press.reason, over=press.operation)


def read_speaker(body: dict[str, Any]) -> Speaker:
    """Who pressed and where; a press on a thread's root speaks in that thread."""
    channel = body.get("channel", {}).get("id")
    thread = _thread(body)
    return Speaker(
        UserId(body["user"]["id"]),
        ChannelId(channel) if channel else None,
        MessageTs(thread) if thread else None,
    )


def _thread(body: dict[str, Any]) -> str | None:
    container = body.get("container", {})
    thread = _own_thread(body)
    if thread is None and not container.get("is_ephemeral") and "message_ts" in container:
        return str(container["message_ts"])
    return thread


def _own_thread(body: dict[str, Any]) -> str | None:
    """The thread the pressed message stands in; None for a message of the channel."""
    thread = body.get("container", {}).get("thread_ts") or body.get("message", {}).get("thread_ts")
    return str(thread) if thread else None


def choose_voice(parts: Parts, respond: AsyncRespond, body: dict[str, Any], *, replace: bool) -> Voice:
    """A question asked in private is replaced by its answer; in a thread the answer stands in the thread."""
    container, user = body.get("container", {}), body["user"]["id"]
    if container.get("type") == "view":
        return ModalVoice(None, parts.client, container["view_id"], user)
    thread = _own_thread(body)
    whisper = Whisper(parts.client, body.get("channel", {}).get("id"), user, thread)
    if container.get("is_ephemeral"):
        return PressVoice(respond, replace, whisper)
    if thread and "channel" in body:
        return whisper
    return PressVoice(respond, replace=False, otherwise=whisper)
