"""Reads the operator's TOML: every fault at once, each naming file, key and what is allowed."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError

from bot.errors import ConfigurationInvalid
from config.engine_file import list_engines
from config.references import find_dangling, find_unknown_engines
from config.services import Configuration

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


_RULES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "dict_type": "a table",
    "model_type": "a table",
    "tuple_type": "a list",
    "too_short": "at least one entry",
}


def load_configuration(path: Path | str) -> Configuration:
    """Read and check the file at `path`. Raises ConfigurationInvalid with one line per fault."""
    file = Path(path)
    try:
        raw = tomllib.loads(file.read_bytes().decode("utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationInvalid(
            (f"{file}: cannot be read: {reason}; name another with --config",)
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationInvalid((f"{file}: is not UTF-8 (byte {error.start}); allowed: UTF-8",)) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationInvalid((f"{file}: is no TOML: {error}",)) from error
    return parse_configuration(raw, source=str(file))


def parse_configuration(raw: dict[str, Any], *, source: str) -> Configuration:
    """Check what a TOML file held; `source` is the name to blame in faults."""
    faults = [f"{key}: {fault}" for key, fault in find_dangling(raw)]
    try:
        configuration = Configuration.model_validate(raw)
    except ValidationError as error:
        raise _invalid([*map(_explain, error.errors()), *faults], raw, source=source) from error
    if faults:
        raise _invalid(faults, raw, source=source)
    return configuration


def _invalid(faults: list[str], raw: dict[str, Any], *, source: str) -> ConfigurationInvalid:
    """With what would else come out only once all the others are mended and the engine files are read."""
    engines = [f"{key}: {fault}" for key, fault in find_unknown_engines(raw, list_engines())]
    return ConfigurationInvalid(tuple(f"{source}: {fault}" for fault in (*faults, *engines)))


def _explain(detail: ErrorDetails) -> str:
    location = tuple(part for part in detail["loc"] if part != "[key]")
    key = ".".join(_quote(part) for part in location) or "(the file)"
    match detail["type"]:
        case "extra_forbidden":
            return f"{key}: unknown key; {_allowed_keys(location)}"
        case "missing":
            return f"{key}: is missing; it has no default"
        case "value_error":
            return f"{key}: {detail['msg'].removeprefix('Value error, ')}"
        case _:
            return f"{key}: is {_shown(detail['input'])}; allowed: {_rule(detail)}"


def _rule(detail: ErrorDetails) -> str:
    """What pydantic wants, in the operator's words."""
    if detail["type"] == "literal_error":
        return str(detail["ctx"]["expected"])
    plain = detail["msg"][:1].lower() + detail["msg"][1:]
    return _RULES.get(detail["type"], plain)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - a terminal line's worth


def _quote(part: int | str) -> str:
    text = str(part)
    return f'"{text}"' if "." in text else text


def _allowed_keys(location: tuple[int | str, ...]) -> str:
    keys = _keys_at(location[:-1])
    nearest = difflib.get_close_matches(str(location[-1]), keys, n=1)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return f"{hint}allowed: {', '.join(keys)}"


def _keys_at(location: tuple[int | str, ...]) -> list[str]:
    """The keys of the table at `location`, found by walking the models' annotations."""
    model: type[BaseModel] = Configuration
    for part in location:
        field = model.model_fields.get(str(part))
        found = _model_in(field.annotation) if field else None
        model = found or model  # a name or an index leads to the same model
    return list(model.model_fields)


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for m in map(_model_in, get_args(annotation)) if m is not None), None)
