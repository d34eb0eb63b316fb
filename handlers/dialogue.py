"""The one path behind commands, mentions, buttons and modals: once only, parse, judge, do, answer."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, assert_never

import structlog

from bot.core.access import (
    ALWAYS_ALLOWED,
    FOR_STARTERS,
    Asking,
    Denied,
    is_operator,
    judge,
    named_groups,
    visible_services,
)
from bot.core.answers import (
    render_busy,
    render_confirmation,
    render_help,
    render_logs_coming,
    render_refusal,
    render_sentence,
    render_started,
    render_status,
)
from bot.core.command import Command, Misunderstood, Word, parse_command
from bot.core.events import ChannelId, MessageTs, ServiceName, UserId, Verb
from bot.core.request import Busy, Declined, NeedsConfirmation, Request, Started
from bot.core.retrospect import render_history, render_why
from bot.core.words import count, spell_duration
from bot.errors import KimiError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from bot.core.events import OperationId
    from handlers.parts import Parts
    from handlers.voices import Voice

log = structlog.get_logger()

GRACE = 0.8  # seconds an acknowledgement waits for its answer; Slack gives up after 3
_REMEMBERED = 3600  # seconds; Slack repeats an event for some minutes
_LONGEST_WAIT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who speaks, and where. `channel` None: in the bot's own Home tab or its modals."""

    user: UserId
    channel: ChannelId | None
    thread_ts: MessageTs | None = None


class Dialogue:
    """Every method here is the work of one supervised task: whatever goes wrong ends in it, and is told."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def hear(self, text: str, *, token: str, speaker: Speaker, voice: Voice) -> None:
        """Words, wherever they were typed; `token` is Slack's id of this one utterance."""
        async with _ending(voice, speaker):
            if not await self._parts.store.first_time(token, _REMEMBERED):
                return
            parsed = await self._parse(text, speaker)
            if isinstance(parsed, Denied):
                await _refuse(parsed, speaker, voice)
            elif isinstance(parsed, Misunderstood):
                await voice.tell(render_sentence(parsed.sentence))
            else:
                await self._obey(parsed, speaker=speaker, voice=voice, confirmed=False)

    async def obey(
        self, command: Command, *, token: str, speaker: Speaker, voice: Voice, confirmed: bool
    ) -> None:
        """A command that a button or a modal stands for."""
        async with _ending(voice, speaker):
            if await self._parts.store.first_time(token, _REMEMBERED):
                await self._obey(command, speaker=speaker, voice=voice, confirmed=confirmed)

    async def keep_waiting(
        self, operation: OperationId, longer: timedelta, *, token: str, speaker: Speaker, voice: Voice
    ) -> None:
        async with _ending(voice, speaker):
            if not await self._parts.store.first_time(token, _REMEMBERED):
                return
            record = await self._parts.store.operation(operation)
            span = min(longer, _LONGEST_WAIT)
            if record is None:
                await voice.tell(render_sentence("That startup is over."))
                return
            denied = await self._judge(Word.UNWATCH, record.service, speaker, starter=record.by)
            if denied is not None:
                await _refuse(denied, speaker, voice)
                return
            waits = await self._parts.startups.keep_waiting(operation, speaker.user, span)
            told = f"Waiting {spell_duration(span)} longer." if waits else "That startup is over."
            await voice.tell(render_sentence(told))

    async def _parse(self, text: str, speaker: Speaker) -> Command | Misunderstood | Denied:
        """Where nothing may be heard, nothing is said about what is configured either."""
        denied = await self._judge(Word.HELP, None, speaker)
        if denied is not None:
            return denied
        default = self._parts.configuration.default_service
        visible = self._visible(speaker)
        every = [ServiceName(name) for name in self._parts.configuration.services]
        return parse_command(
            text,
            services=visible,
            elsewhere=[name for name in every if name not in visible],
            default=ServiceName(default) if default is not None else None,
            here=await self._thread_service(speaker),
        )

    def _visible(self, speaker: Speaker) -> tuple[ServiceName, ...]:
        configuration = self._parts.configuration
        if speaker.channel is None:
            return tuple(ServiceName(name) for name in configuration.services)
        return visible_services(configuration, speaker.channel)

    async def _thread_service(self, speaker: Speaker) -> ServiceName | None:
        if speaker.channel is None or speaker.thread_ts is None:
            return None
        operation = await self._parts.store.operation_at(speaker.channel, speaker.thread_ts)
        record = None if operation is None else await self._parts.store.operation(operation)
        return None if record is None else record.service

    async def _judge(
        self, verb: Word, service: ServiceName | None, speaker: Speaker, *, starter: UserId | None = None
    ) -> Denied | None:
        asked = service is not None and verb not in ALWAYS_ALLOWED
        groups = await self._groups(service) if asked else {}
        asking = Asking(speaker.user, speaker.channel, verb, service, groups, starter)
        return judge(self._parts.configuration, asking)

    async def _groups(self, service: ServiceName | None) -> Mapping[str, frozenset[UserId]]:
        names = named_groups(self._parts.configuration, service)
        members = await asyncio.gather(*(self._parts.directory.members(name) for name in names))
        return dict(zip(names, members, strict=True))

    async def _obey(self, command: Command, *, speaker: Speaker, voice: Voice, confirmed: bool) -> None:
        if command.service is not None and command.service not in self._parts.configuration.services:
            await voice.tell(render_sentence(f"There is no service `{command.service}` any more."))
            return
        starter = await self._starter(command)
        denied = await self._judge(command.verb, command.service, speaker, starter=starter)
        if denied is not None:
            await _refuse(denied, speaker, voice)
            return
        log.info("command_heard", verb=command.verb, service=command.service, by=speaker.user)
        await self._do(command, speaker=speaker, voice=voice, confirmed=confirmed)

    async def _starter(self, command: Command) -> UserId | None:
        if command.verb not in FOR_STARTERS or command.service is None:
            return None
        held = await self._parts.store.holder(command.service)
        if held is not None or command.verb is Word.UNWATCH:
            return None if held is None else held.by
        newest = await self._parts.store.history(command.service, 1)
        return newest[0].by if newest else None

    async def _do(self, command: Command, *, speaker: Speaker, voice: Voice, confirmed: bool) -> None:
        service = command.service
        match command.verb:
            case Word.HELP:
                await self._help(speaker, voice)
            case Word.STATUS:
                await self._status(self._visible(speaker) if service is None else (service,), voice)
            case _ if service is None:
                await voice.tell(render_sentence(f"Which service? Say `{command.verb}` and its name."))
            case Word.LOGS:
                await self._logs(command, service, speaker=speaker, voice=voice)
            case Word.HISTORY:
                await self._history(service, speaker=speaker, voice=voice)
            case Word.WHY:
                await voice.tell(render_why(await self._parts.accounts.why(service)))
            case Word.SMOKE | Word.RELOAD:
                await self._errand(command.verb, service, speaker=speaker, voice=voice)
            case Word.UNWATCH:
                followed = await self._parts.startups.unwatch(service, speaker.user)
                told = "No longer following" if followed else "Nothing is being followed of"
                await voice.tell(render_sentence(f"{told} `{service}`; the service is left alone."))
            case Word.RESTART | Word.START | Word.STOP | Word.WATCH:
                request = Request(
                    service=service,
                    verb=Verb(command.verb),
                    by=speaker.user,
                    reason=command.reason,
                    channel=speaker.channel,
                    confirmed=confirmed,
                    over=command.over,
                )
                await self._request(request, voice)
            case _:
                assert_never(command.verb)

    async def _help(self, speaker: Speaker, voice: Voice) -> None:
        services, groups = self._visible(speaker), await self._groups(None)
        configuration = self._parts.configuration
        operated = [name for name in services if is_operator(configuration, speaker.user, name, groups)]
        await voice.tell(render_help(services=services, operated=operated))

    async def _status(self, services: tuple[ServiceName, ...], voice: Voice) -> None:
        views = await asyncio.gather(*(self._parts.startups.status(name) for name in services))
        await voice.tell(render_status(views))

    async def _logs(self, command: Command, service: ServiceName, *, speaker: Speaker, voice: Voice) -> None:
        if speaker.channel is None:
            await voice.tell(render_sentence("Ask for logs in a channel."))
            return
        await voice.tell(render_logs_coming(service, _amount(command)))
        refused = await self._parts.startups.logs(
            service,
            lines=command.lines,
            since=command.since,
            by=speaker.user,
            channel=speaker.channel,
            thread_ts=speaker.thread_ts,
        )
        if refused is not None:
            await voice.tell(render_sentence(refused))

    async def _errand(
        self, verb: Literal[Word.SMOKE, Word.RELOAD], service: ServiceName, *, speaker: Speaker, voice: Voice
    ) -> None:
        """Answered in the thread it was asked in, else in private."""
        errands = self._parts.errands
        if verb is Word.SMOKE:
            await voice.tell(render_sentence(f"Running the smoke test of `{service}`."))
            answer = await errands.smoke(service)
        else:
            answer = await errands.reload(service)
        if speaker.channel is None or speaker.thread_ts is None:
            await voice.tell(answer)
        else:
            await errands.post(answer, by=speaker.user, channel=speaker.channel, thread_ts=speaker.thread_ts)

    async def _history(self, service: ServiceName, *, speaker: Speaker, voice: Voice) -> None:
        """The table in private; the picture, which Slack shows nobody alone, where it was asked for."""
        view = await self._parts.accounts.history(service)
        await voice.tell(render_history(view))
        if speaker.channel is not None:
            await self._parts.accounts.draw_history(
                view, by=speaker.user, channel=speaker.channel, thread_ts=speaker.thread_ts
            )

    async def _request(self, request: Request, voice: Voice) -> None:
        answer = await self._parts.startups.request(request)
        match answer:
            case Started():
                channel = self._parts.configuration.channel_of(request.service)
                message = render_started(request, answer, channel=channel)
            case Busy():
                message = render_busy(request, answer, may_override=request.channel is not None)
            case NeedsConfirmation():
                message = render_confirmation(request, answer)
            case Declined():
                message = render_sentence(answer.sentence)
            case _:
                assert_never(answer)
        await voice.tell(message)


def _amount(command: Command) -> str:
    if command.since is not None:
        return f"the last {spell_duration(command.since)}"
    return "the end" if command.lines is None else f"the last {count(command.lines, 'line')}"


async def _refuse(denied: Denied, speaker: Speaker, voice: Voice) -> None:
    log.info("command_refused", why=denied.why, verb=denied.verb, service=denied.service, by=speaker.user)
    await voice.tell(render_refusal(denied))


@asynccontextmanager
async def _ending(voice: Voice, speaker: Speaker) -> AsyncIterator[None]:
    """Where the work of a task ends: nothing escapes it, and the person learns of everything."""
    try:
        yield
    except StoreUnavailable:
        log.warning("store_unavailable_for_command", by=speaker.user)
        await _tell_last(voice, "Redis does not answer; nothing was done. Try again in a minute.")
    except KimiError as error:
        log.warning("command_not_done", by=speaker.user, error=str(error))
        await _tell_last(voice, str(error))
    except Exception:
        log.exception("handler_failed", by=speaker.user)
        await _tell_last(
            voice, "Something broke inside kimi; its log says what. See `status` before trying again."
        )


async def _tell_last(voice: Voice, sentence: str) -> None:
    try:
        await voice.tell(render_sentence(sentence))
    except Exception:
        log.warning("answer_not_delivered", sentence=sentence, exc_info=True)
