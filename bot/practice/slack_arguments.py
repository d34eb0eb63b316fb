"""What a Web API call brings along, whichever way it came: query, form, multipart or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from bot.practice.slack_state import Refused

if TYPE_CHECKING:
    from aiohttp import web

TRUE = frozenset({"1", "true", "True"})


class Arguments:
    """Reads arguments the way Slack does: a form carries objects as JSON text and flags as 1 or true."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = {key: value for key, value in values.items() if value is not None}

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name, default)
        return value if isinstance(value, str) else json.dumps(value)

    def needed(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise Refused("invalid_arguments", f"[ERROR] missing required field: {name}")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        if name not in self.values:
            return default
        value = self.values[name]
        return value if isinstance(value, bool) else str(value) in TRUE

    def number(self, name: str, default: int) -> int:
        try:
            return int(self.values.get(name, default))
        except (TypeError, ValueError) as error:
            raise Refused(
                "invalid_arguments", f"[ERROR] must be an integer [json-pointer:/{name}]"
            ) from error

    def structure(self, name: str, *, broken: str) -> Any:
        """An object or array; text is parsed, and text that is no JSON is refused with code `broken`."""
        value = self.values.get(name)
        if not isinstance(value, str):
            return value
        if not value:
            return None
        try:
            return json.loads(value)
        except ValueError as error:
            raise Refused(broken) from error


@dataclass(frozen=True, slots=True)
class Method:
    """One Web API method: what it runs, the scope it needs, the kind of token it wants."""

    run: Callable[[Arguments], dict[str, Any]]
    scope: str | None = None
    app_level: bool = False


Methods: TypeAlias = dict[str, Method]


async def read_arguments(request: web.Request) -> Arguments:
    """Query and body together; the body wins. Raises Refused("invalid_json") for broken JSON."""
    values: dict[str, Any] = dict(request.query)
    if request.method == "POST":
        values.update(await _read_body(request))
    return Arguments(values)


async def _read_body(request: web.Request) -> dict[str, Any]:
    if request.content_type != "application/json":
        return {key: value for key, value in (await request.post()).items() if isinstance(value, str)}
    body = await request.read()
    if not body:
        return {}
    try:
        values = json.loads(body)
    except ValueError as error:
        raise Refused("invalid_json") from error
    if not isinstance(values, dict):
        raise Refused("json_not_object")
    return values


def read_token(request: web.Request, arguments: Arguments) -> str | None:
    """From the header or the argument, which is taken out so that it shows up nowhere."""
    given = arguments.values.pop("token", None)
    header = request.headers.get("Authorization", "")
    if header.startswith("Bearer "):
        return header.removeprefix("Bearer ")
    return given if isinstance(given, str) and given else None
