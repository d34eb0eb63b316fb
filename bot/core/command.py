"""What may be asked of kimi, and what can come of it: verbs, commands, outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from bot.core.events import HostName, OperationId, ServiceName


class Word(StrEnum):
    """The verbs that work."""

    STATUS = "status"
    RESTART = "restart"
    START = "start"
    STOP = "stop"
    WATCH = "watch"
    UNWATCH = "unwatch"
    LOGS = "logs"
    HISTORY = "history"
    WHY = "why"
    SMOKE = "smoke"
    RELOAD = "reload"
    INCIDENTS = "incidents"
    ACK = "ack"
    MUTE = "mute"
    UNMUTE = "unmute"
    RESOLVE = "resolve"
    HELP = "help"


READING = frozenset({Word.STATUS, Word.LOGS, Word.HISTORY, Word.WHY, Word.INCIDENTS, Word.HELP})
ACTING = frozenset(Word) - READING  # these are noted in the audit
OF_INCIDENTS = frozenset({Word.INCIDENTS, Word.ACK, Word.RESOLVE})


class Outcome(StrEnum):
    """What came of a verb that acts, as the audit tells it."""

    STARTED = "started"
    DONE = "done"
    NOTHING = "nothing to do"
    BUSY = "busy"
    DECLINED = "declined"  # it makes no sense at present, or a host does not answer
    REFUSED = "refused"  # this person may not, or not here
    ASKED = "confirmation asked"
    FAILED = "failed"
    LATE = "too late"  # nobody took it up in time


@dataclass(frozen=True, slots=True)
class Command:
    """`service`: None for `help`, and for `status` and `incidents` of all; `over`: what a button gives up.

    `incident`: its id or the beginning of one. With it `service` may be None, since a host's has none;
    of `incidents` it is the one to export. `lasting`: of a mute. `host`: of one that is about a whole host.
    """

    verb: Word
    service: ServiceName | None = None
    reason: str = ""
    lines: int | None = None
    since: timedelta | None = None
    over: OperationId | None = None
    incident: str | None = None
    lasting: timedelta | None = None
    host: HostName | None = None
