"""The grammar of what people type: text in, a command or one helpful sentence out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from bot.core.command import OF_INCIDENTS, Command, Word
from bot.core.events import HostName, ServiceName
from bot.core.synonyms import SYNONYMS, guess_verb
from bot.core.words import join_names
from config.fields import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

MOST_LINES = 100_000
_MOST_REASON = 300
_CLOSE = 0.6  # of difflib's ratio; below it two words are not alike
_SHORTEST_PREFIX = 3
_MOST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Misunderstood:
    """`sentence` is plain text with the words to type in backticks."""

    sentence: str


Parsed: TypeAlias = Command | Misunderstood
N = TypeVar("N", bound=str)

_ASKING = frozenset({"?", "-h", "--help"})
_FOR_ALL = frozenset({Word.STATUS, Word.INCIDENTS})  # without a service: all
_CHANGES = frozenset({Word.RESTART, Word.START, Word.STOP})
_OF_HOSTS = frozenset({Word.MUTE, Word.UNMUTE})  # also
_OF = frozenset({"for", "of", "on"})
_FILLERS = frozenset({"last", "lines", "line", "the", "of", "for", "since"})
# Phones set curly quotes; people copy code marks and no-break spaces along.
_QUOTES = str.maketrans("\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019\u00a0`", '"""""\'\'  ')
_TOKEN = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
_LEADING_MENTION = re.compile(r"^(?:\s*<@[A-Z0-9]+(?:\|[^<>]*)?>[\s:,]*)+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INCIDENT = re.compile(r"[0-9a-f]{4,32}")
_TIMELIKE = re.compile(r"[-+.]?\d\S*")
_NAMELIKE = re.compile(r"\S*(?:\w[-_.]\w|[A-Za-z]\d)\S*")


@dataclass(frozen=True, slots=True)
class _Place:
    """What a left-out service may mean here."""

    services: tuple[ServiceName, ...]
    elsewhere: tuple[ServiceName, ...]
    implied: ServiceName | None
    incident: str | None = None
    hosts: tuple[HostName, ...] = ()
    host: HostName | None = None


def parse_command(
    text: str,
    *,
    services: Sequence[ServiceName],
    default: ServiceName | None,
    here: ServiceName | None,
    elsewhere: Sequence[ServiceName] = (),
    incident: str | None = None,
    hosts: Sequence[HostName] = (),
    host: HostName | None = None,
) -> Parsed:
    """`services` may be named here, `default` is the configured one, `here` the one this thread is about.

    `elsewhere` are those that may be named in other channels only: understood, so that they can be refused
    instead of becoming a reason to restart another one; never suggested.

    A left-out service is `here`, else the only one, else `default`. `incident`: the one whose thread this is,
    `host`: the one that it is about. `hosts`: that may be named, where a verb takes one; a service of the
    same name comes first. Never raises.
    """
    only = services[0] if len(services) == 1 else None
    implied = here or only or (default if default in services else None)
    place = _Place(tuple(services), tuple(elsewhere), implied, incident, tuple(hosts), host)
    words = _plain(text).split()
    if not words:
        return Command(Word.STATUS, place.implied)
    verb = _read_verb(words[0], words[1:], place)
    if isinstance(verb, Misunderstood):
        return verb
    if verb is Word.HELP:
        return Command(Word.HELP)
    if verb in OF_INCIDENTS:
        return _with_incident(verb, words[1:], place)
    return _with_service(verb, words[1:], place)


def _plain(text: str) -> str:
    """What the person meant to type, without Slack's wrapping of people, channels, links and entities."""
    unwrapped = _TOKEN.sub(_unwrap, _LEADING_MENTION.sub("", _CONTROLS.sub(" ", text)))
    plain = unwrapped.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return plain.translate(_QUOTES).strip()


def _unwrap(token: re.Match[str]) -> str:
    sigil, name, label = token.group(1), token.group(2), token.group(3)
    return (label or name) if sigil in {"", "!"} else f"{sigil}{label or name}"


def _show(word: str) -> str:
    return f"`{word if len(word) <= _MOST_SHOWN else word[:_MOST_SHOWN] + '…'}`"


def _bare(word: str) -> str:
    """A word without the quotes and punctuation around it."""
    return word.strip("\"'*_~:,;!?()").rstrip(".")


def _read_verb(word: str, behind: Sequence[str], place: _Place) -> Word | Misunderstood:
    """`behind`: the words that follow it."""
    bare = _bare(word).lower()
    if bare in {*Word}:
        return Word(bare)
    if word.lower() in _ASKING:
        return Word.HELP
    if bare in SYNONYMS:
        return Misunderstood(f"I cannot do {_show(bare)}. The nearest I can do is `{SYNONYMS[bare]}`.")
    named = _exact(bare, place.services)
    if named is not None:
        meant = _bare(behind[0]).lower() if behind else ""
        verb = meant if meant in {*Word} - {Word.HELP} else SYNONYMS.get(meant, Word.STATUS)
        return Misunderstood(f"What about {_show(named)}? Say the verb first: `{verb} {named}`.")
    near = guess_verb(bare)
    if near is None:
        return Misunderstood(f"I do not know {_show(word)}. `help` tells what you may do here.")
    return Misunderstood(f"I do not know {_show(word)}. Did you mean `{near}`?")


def _exact(word: str, names: Sequence[N]) -> N | None:
    """The one of that name; letter case matters only where two names differ in nothing else."""
    if word in names:
        return next(name for name in names if name == word)
    same = [name for name in names if name.lower() == word.lower()]
    return same[0] if len(same) == 1 else None


def _with_incident(verb: Word, rest: list[str], place: _Place) -> Parsed:
    """An incident is named by its id, by the thread it is asked in, or by the service that it is about."""
    exporting = verb is Word.INCIDENTS and bool(rest) and _bare(rest[0]).lower() == "export"
    told = _bare(rest[exporting]).lower().removeprefix("#") if len(rest) > exporting else ""
    named = _exact(_bare(rest[exporting]), (*place.services, *place.elsewhere)) if told else None
    if told and named is None and _INCIDENT.fullmatch(told):
        return Command(verb, incident=told)
    if exporting:
        if not told and place.incident is not None:
            return Command(verb, incident=place.incident)
        which = f"Which incident is {_show(rest[1])}?" if told else "Which incident?"
        return Misunderstood(f"{which} `incidents` lists them with their ids; then: `incidents export ID`.")
    if not told and place.incident is not None and verb is not Word.INCIDENTS:
        return Command(verb, place.implied, incident=place.incident)
    return _with_service(verb, rest, place)


def _with_service(verb: Word, rest: list[str], place: _Place) -> Parsed:
    rest = _name_first(verb, _one_duration(verb, rest, place), place)
    named = _exact(_bare(rest[0]), (*place.services, *place.elsewhere)) if rest else None
    if named is not None:
        return _finish(verb, named, rest[1:])
    if (about := _host_of(verb, rest, place)) is not None:
        return _finish(verb, None, rest[1:], host=about)
    wrong = _wrong_service(verb, rest, place)
    if wrong is not None:
        return wrong
    if place.host is not None and verb in _OF_HOSTS:
        return _finish(verb, None, rest, host=place.host)
    if place.implied is None and verb not in _FOR_ALL:
        return Misunderstood(f"Which service? `{verb}` {_choices(place.services)}.")
    return _finish(verb, place.implied, rest)


def _one_duration(verb: Word, rest: list[str], place: _Place) -> list[str]:
    """`1h 30m` → `1h30m`: what follows the hour must not become the reason."""
    named = (
        bool(rest) and _exact(_bare(rest[0]), (*place.services, *place.elsewhere, *place.hosts)) is not None
    )
    at = named + (len(rest) > named and _bare(rest[named]).lower() == "for")
    if verb is not Word.MUTE or len(rest) < at + 2 or None in map(_duration, rest[at : at + 2]):
        return rest
    whole = _bare(rest[at]) + _bare(rest[at + 1])
    return rest if _duration(whole) is None else [*rest[:at], whole, *rest[at + 2 :]]


def _name_first(verb: Word, rest: list[str], place: _Place) -> list[str]:
    """`50 lines of kimi-k2.5`, `2h kimi-k2.5 reason`: a name right after the amount goes before it.

    So does what is nearly one: it must not become a reason, and something else be muted.
    """
    names = (*place.services, *place.elsewhere, *(place.hosts if verb in _OF_HOSTS else ()))
    at = _after_amount(verb, rest)
    if at is None or _exact(_bare(rest[0]), names) is not None:
        return rest
    word = _bare(rest[at])
    quoted = rest[at][0] in {'"', "'"}
    if verb is Word.LOGS or _exact(word, names) is not None or (not quoted and _near(word, names)):
        before = rest[: at - 1] if verb is Word.MUTE and _bare(rest[at - 1]).lower() in _OF else rest[:at]
        return [rest[at], *before, *rest[at + 1 :]]
    return rest


def _after_amount(verb: Word, rest: list[str]) -> int | None:
    """Where the word stands that follows how much of a log, or for how long; None where none does."""
    words = [_bare(word).lower() for word in rest]
    if verb is Word.MUTE:
        at = 1 + (words[:1] == ["for"])
        if len(words) <= at or _duration(words[at - 1]) is None:
            return None
        return at + 1 if words[at] in _OF and len(words) == at + 2 else at
    told = [at for at, word in enumerate(words) if word not in _FILLERS] if verb is Word.LOGS else []
    known = [_amount([words[at]]) is not None for at in told[:2]]
    return told[1] if known == [True, False] else None


def _host_of(verb: Word, rest: list[str], place: _Place) -> HostName | None:
    return _exact(_bare(rest[0]), place.hosts) if rest and verb in _OF_HOSTS else None


def _finish(
    verb: Word, service: ServiceName | None, rest: list[str], *, host: HostName | None = None
) -> Parsed:
    if verb is Word.LOGS:
        amount = _amount(rest)
        if amount is None:
            told = _show(" ".join(rest))
            return Misunderstood(f"How much is {told}? Say a number of lines (`200`) or a time (`10m`).")
        return Command(verb, service, lines=amount[0], since=amount[1])
    if verb is Word.MUTE:
        return _mute(service, host, rest)
    return Command(verb, service, reason=_reason(rest), host=host)


def _mute(service: ServiceName | None, host: HostName | None, rest: list[str]) -> Parsed:
    """`2h known problem`: how long, then why."""
    told = rest[1:] if rest and _bare(rest[0]).lower() == "for" else rest
    lasting = _duration(told[0]) if told else None
    if lasting is None:
        which = f"How long is {_show(told[0])}? " if told else "For how long? "
        named = service or host or ""
        return Misunderstood(f"{which}Say a time of up to 7 days: `mute {named} 2h reason`.")
    return Command(Word.MUTE, service, reason=_reason(told[1:]), lasting=lasting, host=host)


def _duration(word: str) -> timedelta | None:
    try:
        return parse_duration(_bare(word).lower())
    except ValueError:
        return None


def _reason(rest: list[str]) -> str:
    """As it was typed, without quotes around the whole."""
    told = " ".join(rest)
    if len(told) > 1 and told[0] == told[-1] and told[0] in "\"'":
        told = told[1:-1].strip()
    return told if len(told) <= _MOST_REASON else told[: _MOST_REASON - 1] + "…"


def _amount(rest: list[str]) -> tuple[int | None, timedelta | None] | None:
    """How much of a log: lines or time, both None when nothing is said; None when it makes no sense."""
    told = [word for word in (_bare(word).lower() for word in rest) if word not in _FILLERS]
    if not told:
        return None, None
    if len(told) > 1:
        return None
    if re.fullmatch(r"[0-9]{1,9}", told[0]):
        return max(1, min(int(told[0]), MOST_LINES)), None
    try:
        return None, parse_duration(told[0])
    except ValueError:
        return None


def _wrong_service(verb: Word, rest: list[str], place: _Place) -> Misunderstood | None:
    """A first word that was meant as a service must not become a reason, and restart another one."""
    word = _bare(rest[0]) if rest else ""
    if not word or (verb is Word.LOGS and _amount(rest) is not None):
        return None
    if verb is Word.MUTE and (word.lower() == "for" or _is_meant_as_time(word, place)):
        return None
    if verb not in _CHANGES:
        return _unknown_service(word, verb, place)
    if rest[0][0] in {'"', "'"}:
        return None  # quoted: a reason
    known = (*place.services, *place.elsewhere)
    alone = len(rest) == 1 and len(known) > 1
    if alone or _NAMELIKE.fullmatch(word) or _near(word, known):
        return _unknown_service(word, verb, place)
    return None


def _is_meant_as_time(word: str, place: _Place) -> bool:
    """Also one that cannot be read, or is none: `0`, `-5m`, `99d`."""
    if _duration(word) is not None:
        return True
    return _TIMELIKE.fullmatch(word) is not None and _near(word, (*place.services, *place.hosts)) is None


def _near(word: str, names: Sequence[str]) -> str | None:
    lowered = word.lower()
    begun = [name for name in names if name.lower().startswith(lowered)]
    if len(lowered) >= _SHORTEST_PREFIX and begun:
        return begun[0]
    best = max(names, key=lambda name: _likeness(lowered, name.lower()), default=None)
    return best if best is not None and _likeness(lowered, best.lower()) >= _CLOSE else None


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def _unknown_service(word: str, verb: Word, place: _Place) -> Misunderstood:
    what = "service or host" if verb in _OF_HOSTS else "service"
    near = _near(word, (*place.services, *(place.hosts if verb in _OF_HOSTS else ())))
    if near is not None:
        return Misunderstood(f"There is no {what} {_show(word)}. Did you mean `{verb} {near}`?")
    if (host := _exact(word, place.hosts)) is not None:
        return Misunderstood(f"{_show(host)} is a host. Of hosts I know `mute` and `unmute` alone.")
    hint = ""
    if verb in _CHANGES and place.services:
        hint = f" A reason comes after the service: `{verb} {place.services[0]} …`."
    elif verb is Word.LOGS and place.services:
        hint = f" How much comes after it: `logs {place.services[0]} 200`, or `10m`."
    return Misunderstood(f"There is no {what} {_show(word)}, only {_choices(place.services)}.{hint}")


def _choices(services: Sequence[ServiceName]) -> str:
    return join_names([f"`{name}`" for name in services[:10]], last="or") or "none that may be named here"
