"""The one path behind commands, mentions, buttons and modals: parse, judge, do, answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, assert_never

import structlog
from pydantic import TypeAdapter, ValidationError

from bot.core.access import (
    Denied,
)
from bot.core.answers import (
    render_begun,
    render_busy,
    render_confirmation,
    render_late,
    render_refusal,
    render_sentence,
    render_started,
)
from bot.core.command import ACTING, OF_INCIDENTS, Command, Outcome, Word
from bot.core.events import ServiceName, Verb
from bot.core.incident_answers import contradict
from bot.core.request import Busy, Declined, NeedsConfirmation, Request, Started, operation_of
from bot.core.words import spell_duration
from handlers.inquiries import Inquiries
from handlers.outages import carry_out
from handlers.turns import Turn, ending
from handlers.understanding import Understanding

if TYPE_CHECKING:
    from bot.core.events import OperationId
    from handlers.parts import Parts

log = structlog.get_logger()

COMMAND = TypeAdapter(Command)
UNREADABLE = "I cannot read this button any more. Type the command instead."
_OVER = "That startup is over."
_GONE = "That incident is not on record any more."
_LONGEST_WAIT = timedelta(days=1)
_BEGINNING = frozenset({Word.RESTART, Word.START, Word.STOP, Word.WATCH})  # these leave a record of their own


class Dialogue:
    """Each turn is the work of one supervised task: whatever goes wrong ends in it, and is told."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._who = Understanding(parts)
        self._inquiries = Inquiries(parts, self._who)

    async def answer(self, turn: Turn) -> None:
        """Do what was asked for, as far as this person may, and answer."""
        async with ending(turn):
            intent = turn.intent
            if intent.decided:
                await turn.repeat(intent.decided)
            elif intent.minutes is not None:
                await self._keep_waiting(turn, intent.operation, timedelta(minutes=intent.minutes))
            elif await self._understand(turn):
                await self._obey(turn)

    async def decline(self, turn: Turn) -> None:
        """What comes too late to be done: who asked learns so; a question is not answered so late."""
        async with ending(turn):
            intent = turn.intent
            if intent.decided:
                await turn.repeat(intent.decided)
            elif intent.minutes is not None:
                await self._tell_late(turn, "keep waiting", certain=False)
            elif await self._understand(turn, aloud=False):
                await self._decline(turn)

    async def _decline(self, turn: Turn) -> None:
        command = turn.command
        if command is None or command.verb not in ACTING:
            return
        said = " ".join(filter(None, (command.verb, command.service or command.host)))
        if command.verb not in _BEGINNING:
            await self._tell_late(turn, said, certain=False)
            return
        operation = operation_of(turn.intent.token)
        if await self._parts.store.operation(operation) is None:
            await self._tell_late(turn, said, certain=True)
            return
        address = await self._parts.store.address(operation)
        message = render_begun(said, None if address is None else address.permalink)
        await turn.conclude(message, Outcome.STARTED, operation=operation)

    async def _tell_late(self, turn: Turn, said: str, *, certain: bool) -> None:
        age = datetime.now(UTC) - turn.intent.at
        await turn.conclude(render_late(said, age, certain=certain), Outcome.LATE)

    async def _understand(self, turn: Turn, *, aloud: bool = True) -> bool:
        """False: there is nothing to do, which was told if `aloud`."""
        if turn.intent.command is not None:
            return await self._read(turn, turn.intent.command, aloud=aloud)
        parsed = await self._who.parse(turn.intent.words or "", turn.speaker)
        if isinstance(parsed, Command):
            turn.command = parsed
            return True
        if not aloud:
            return False
        if isinstance(parsed, Denied):
            await _refuse(parsed, turn)
        else:
            await turn.tell(render_sentence(parsed.sentence))
        return False

    async def _read(self, turn: Turn, json: str, *, aloud: bool) -> bool:
        try:
            turn.command = COMMAND.validate_json(json)
        except ValidationError as error:  # an older process wrote it, or a newer one
            log.warning("command_unreadable", error=str(error))
            if aloud:
                await turn.tell(render_sentence(UNREADABLE))
            return False
        return True

    async def _keep_waiting(self, turn: Turn, operation: OperationId | None, longer: timedelta) -> None:
        record = None if operation is None else await self._parts.store.operation(operation)
        span = min(longer, _LONGEST_WAIT)
        if record is None:
            await turn.conclude(render_sentence(_OVER), Outcome.NOTHING)
            return
        turn.service = record.service
        denied = await self._who.judge(Word.UNWATCH, record.service, turn.speaker, starter=record.by)
        if denied is not None:
            await _refuse(denied, turn)
            return
        by, token = turn.intent.user, turn.intent.token
        waits = await self._parts.startups.keep_waiting(record.operation, by, span, token=token)
        told = f"Waiting {spell_duration(span)} longer." if waits else _OVER
        await turn.conclude(render_sentence(told), Outcome.DONE if waits else Outcome.NOTHING)

    async def _obey(self, turn: Turn) -> None:
        command = turn.command
        if command is None:
            return
        services = self._parts.configuration.services
        known = command.service is None or command.service in services
        if not known and (command.incident is None or command.verb not in OF_INCIDENTS):
            gone = f"There is no service `{command.service}` any more."
            await turn.conclude(render_sentence(gone), Outcome.DECLINED)
            return
        if command.host is not None and command.host not in self._parts.configuration.hosts:
            gone = f"There is no host `{command.host}` any more."
            await turn.conclude(render_sentence(gone), Outcome.DECLINED)
            return
        if command.incident is not None:
            found = await self._parts.incidents.find(command.incident, self._who.visible(turn.speaker))
            if found.record is None:
                await turn.conclude(found.problem or render_sentence(_GONE), Outcome.NOTHING)
                return
            # Who may is asked of what it is about, whatever was typed.
            about = found.record.service if found.record.service in services else None
            command = turn.command = replace(command, service=about, incident=found.record.incident)
        denied = await self._judge(command, turn)
        if denied is not None:
            await _refuse(denied, turn)
            return
        named = command.service or command.host
        log.info("command_heard", verb=command.verb, service=named, by=turn.intent.user)
        await self._do(command, turn)

    async def _judge(self, command: Command, turn: Turn) -> Denied | None:
        if command.host is not None:
            return await self._who.judge_host(command.verb, command.host, turn.speaker)
        starter = await self._who.starter(command)
        return await self._who.judge(command.verb, command.service, turn.speaker, starter=starter)

    async def _do(self, command: Command, turn: Turn) -> None:
        service = command.service
        match command.verb:
            case Word.HELP | Word.STATUS:
                await self._inquiries.overview(command, turn)
            case Word.INCIDENTS | Word.ACK | Word.RESOLVE | Word.MUTE | Word.UNMUTE:
                await carry_out(self._parts.incidents, command, turn, visible=self._who.visible(turn.speaker))
            case _ if service is None:
                which = f"Which service? Say `{command.verb}` and its name."
                await turn.conclude(render_sentence(which), Outcome.DECLINED)
            case Word.LOGS:
                await self._inquiries.logs(command, service, turn)
            case Word.HISTORY:
                await self._inquiries.history(service, turn)
            case Word.WHY:
                await self._inquiries.why(service, turn)
            case Word.SMOKE | Word.RELOAD:
                await self._errand(command.verb, service, turn)
            case Word.UNWATCH:
                await self._unwatch(service, turn)
            case Word.RESTART | Word.START | Word.STOP | Word.WATCH:
                await self._request(_request_of(command, service, turn), turn)
            case _:
                assert_never(command.verb)

    async def _errand(self, verb: Literal[Word.SMOKE, Word.RELOAD], service: ServiceName, turn: Turn) -> None:
        """Answered in the thread it was asked in, else in private."""
        errands, speaker = self._parts.errands, turn.speaker
        if verb is Word.SMOKE:
            await turn.tell(render_sentence(f"Running the smoke test of `{service}`."))
            answer = await errands.smoke(service, slow=turn.tell_slow)
        else:
            answer = await errands.reload(service, slow=turn.tell_slow)
        if speaker.channel is None or speaker.thread_ts is None:
            await turn.conclude(answer, Outcome.DONE)
            return
        await errands.post(
            answer,
            by=speaker.user,
            channel=speaker.channel,
            thread_ts=speaker.thread_ts,
            token=turn.intent.token,
        )
        await turn.note(Outcome.DONE)

    async def _unwatch(self, service: ServiceName, turn: Turn) -> None:
        by, token = turn.intent.user, turn.intent.token
        followed = await self._parts.startups.unwatch(service, by, token=token)
        told = (
            f"No longer following `{service}`" if followed else f"No startup of `{service}` is being followed"
        )
        message = render_sentence(f"{told}; the service is left alone.")
        await turn.conclude(message, Outcome.DONE if followed else Outcome.NOTHING)

    async def _request(self, request: Request, turn: Turn) -> None:
        answer = await self._parts.startups.request(request, slow=turn.tell_slow)
        if isinstance(answer, NeedsConfirmation | Declined):
            answer = await self._beside_its_outage(request, answer)
        match answer:
            case Started():
                channel = self._parts.configuration.channel_of(request.service)
                message = render_started(request, answer, channel=channel)
                await turn.conclude(message, Outcome.STARTED, operation=answer.operation)
            case Busy():
                message = render_busy(request, answer, may_override=request.channel is not None)
                await turn.conclude(message, Outcome.BUSY, operation=answer.held.operation)
            case NeedsConfirmation():
                await turn.conclude(render_confirmation(request, answer), Outcome.ASKED)
            case Declined():
                await turn.conclude(render_sentence(answer.sentence), Outcome.DECLINED)
            case _:
                assert_never(answer)

    async def _beside_its_outage(
        self, request: Request, answer: NeedsConfirmation | Declined
    ) -> NeedsConfirmation | Declined:
        """A quick look may find a service well of which its incident knows that it is down."""
        if isinstance(answer, Declined) and request.verb is not Verb.WATCH:
            return answer
        outage = await self._parts.incidents.outage_of(request.service)
        if outage is None or not outage.is_down:
            return answer
        if isinstance(answer, Declined):
            return Declined(f"{answer.sentence} But {contradict(outage)}")
        return NeedsConfirmation(f"Its health check passes, but {contradict(outage)}")


def _request_of(command: Command, service: ServiceName, turn: Turn) -> Request:
    """The token makes it the same request wherever and however often it is carried out."""
    return Request(
        service=service,
        verb=Verb(command.verb),
        by=turn.intent.user,
        reason=command.reason,
        channel=turn.intent.channel,
        confirmed=turn.intent.confirmed,
        over=command.over,
        token=turn.intent.token,
    )


async def _refuse(denied: Denied, turn: Turn) -> None:
    by = turn.intent.user
    log.info("command_refused", why=denied.why, verb=denied.verb, service=denied.service, by=by)
    await turn.conclude(render_refusal(denied), Outcome.REFUSED)
