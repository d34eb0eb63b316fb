"""What a watch orders and is told, as JSON for Redis, so that another process can carry it out."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from bot.clients.store_incidents import Fact
from bot.clients.store_watches import Owed, Word
from bot.core.incident_events import INCIDENT_EVENTS, IncidentEvent
from bot.core.incident_state import IncidentId
from bot.core.monitor_events import (
    IncidentClosed,
    IncidentFound,
    Muted,
    OpenIncident,
    TellIncident,
    TellStopped,
    Unmuted,
    WatchStart,
)

if TYPE_CHECKING:
    from bot.core.events import ServiceName

Order = OpenIncident | TellIncident | WatchStart | TellStopped
Said = Muted | Unmuted | IncidentClosed | IncidentFound

_ORDERS: dict[str, type[Any]] = {kind.__name__: kind for kind in (OpenIncident, WatchStart, TellStopped)}
_SAID: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Muted, Unmuted, IncidentClosed, IncidentFound)
}
_TELL = TellIncident.__name__


_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """Made once each: that takes longer than to use it."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def _dump(value: object) -> str:
    return _adapter(type(value)).dump_json(value).decode()


def pack_order(order: Order) -> Owed:
    """With an id of its own, which makes it once."""
    if isinstance(order, TellIncident):
        fact = pack_fact(order.event, name="")
        body = json.dumps({"incident": order.incident, "kind": fact.kind, "body": fact.body})
    else:
        body = _dump(order)
    return Owed(id=uuid.uuid4().hex, kind=type(order).__name__, body=body)


def read_order(owed: Owed) -> Order:
    """Raises ValueError for one that this version does not know."""
    if owed.kind == _TELL:
        told = json.loads(owed.body)
        fact = Fact(id=owed.id, kind=told["kind"], body=told["body"])
        return TellIncident(IncidentId(told["incident"]), read_fact(fact))
    if owed.kind not in _ORDERS:
        raise ValueError(f"nobody knows an order {owed.kind}")
    order: Order = _adapter(_ORDERS[owed.kind]).validate_json(owed.body)
    return order


def pack_fact(event: IncidentEvent, *, name: str) -> Fact:
    """`name`: the same for one thing that happened, however often it is told."""
    return Fact(id=name, kind=type(event).__name__, body=_dump(event))


def read_fact(fact: Fact) -> IncidentEvent:
    """Raises ValueError for one that this version does not know."""
    if fact.kind not in INCIDENT_EVENTS:
        raise ValueError(f"nobody knows a fact {fact.kind}")
    event: IncidentEvent = _adapter(INCIDENT_EVENTS[fact.kind]).validate_json(fact.body)
    return event


def pack_word(event: Said, *, service: ServiceName | None, name: str) -> Word:
    """`service` None: said to the watch over the host."""
    return Word(id=name, service=service or "", kind=type(event).__name__, body=_dump(event))


def read_word(word: Word) -> Said:
    """Raises ValueError for one that this version does not know."""
    if word.kind not in _SAID:
        raise ValueError(f"nobody knows a word {word.kind}")
    said: Said = _adapter(_SAID[word.kind]).validate_json(word.body)
    return said
