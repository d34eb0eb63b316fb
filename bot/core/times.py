"""Times that another process wrote, whose clock may have been ahead of ours."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

# Ends of mutes lie ahead by right; when a run began is told by its host's clock.
_AHEAD = frozenset({"until", "muted", "begun"})


def bring_back(state: Any, now: datetime, *, ahead: Collection[str] = _AHEAD) -> None:
    """In a state that is taken up, nothing is later than now: waits would last until our clock is there.

    `state`: a mutable dataclass, changed in place with all that is in it; but for the fields in `ahead`.
    """
    for each in fields(state):
        if each.name not in ahead:
            setattr(state, each.name, _back(getattr(state, each.name), now, ahead))


def _back(value: Any, now: datetime, ahead: Collection[str]) -> Any:
    match value:
        case datetime():
            return min(value, now)
        case dict():
            return {key: _back(each, now, ahead) for key, each in value.items()}
        case list():
            return [_back(each, now, ahead) for each in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _back_within(value, now, ahead)
        case _:
            return value


def _back_within(value: Any, now: datetime, ahead: Collection[str]) -> Any:
    if not type(value).__dataclass_params__.frozen:
        bring_back(value, now, ahead=ahead)
        return value
    late = {
        each.name: now
        for each in fields(value)
        if each.name not in ahead and isinstance(told := getattr(value, each.name), datetime) and told > now
    }
    return replace(value, **late) if late else value
