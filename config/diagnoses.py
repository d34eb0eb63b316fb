"""Known failures, their meaning and what to try: data in diagnoses.toml, compiled once.

Texts are templates. `{size}` stands for what the slot of that name found in the failure's own lines, and a
part in square brackets is left out when one of its slots found nothing.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = Path(__file__).parent / "diagnoses.toml"

_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")
_LONGEST = 120  # characters of a slot


class Diagnosis(BaseModel):
    """One known failure.

    `pattern` is searched for in the failure's lines, and only where one of the literals in `has` (lower case)
    stands in them. `engines` limits it to those engines. `follows`: it often comes of another failure, so
    that beside one it is no second cause.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    title: str
    means: str
    advice: str
    by: str
    has: tuple[str, ...]
    pattern: str
    slots: dict[str, str] = {}
    engines: tuple[str, ...] = ()
    follows: bool = False

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from error
        return value

    @field_validator("slots")
    @classmethod
    def _have_one_group(cls, value: dict[str, str]) -> dict[str, str]:
        for name, pattern in value.items():
            if re.compile(pattern).groups != 1:
                raise ValueError(f"{name} needs one group")
        return value

    @field_validator("has")
    @classmethod
    def _are_lower_case(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or any(each != each.lower() for each in value):
            raise ValueError("needs literals in lower case")
        return value

    @model_validator(mode="after")
    def _slots_are_known(self) -> Self:
        named = set(_SLOT.findall(self.title + self.means + self.advice))
        if named != set(self.slots):
            raise ValueError(f"slots and texts name different ones: {sorted(named ^ set(self.slots))}")
        return self

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.MULTILINE)

    @cached_property
    def _readers(self) -> dict[str, re.Pattern[str]]:
        return {name: re.compile(pattern, re.MULTILINE) for name, pattern in self.slots.items()}

    def fits(self, text: str, *, engine: str | None = None) -> bool:
        """Whether these lines tell of this failure. `engine`: whose they are, where that is known."""
        if self.engines and engine not in self.engines:
            return False
        lowered = text.lower()
        return any(each in lowered for each in self.has) and self.regex.search(text) is not None

    def read_slots(self, text: str) -> dict[str, str]:
        """What the lines tell about sizes, devices, flags."""
        found = {name: reader.search(text) for name, reader in self._readers.items()}
        return {name: match[1].strip()[:_LONGEST] for name, match in found.items() if match and match[1]}


def fill(template: str, slots: Mapping[str, str]) -> str:
    """The template with its slots filled in; optional parts without theirs are left out."""

    def keep(match: re.Match[str]) -> str:
        return match[1] if all(name in slots for name in _SLOT.findall(match[1])) else ""

    return _SLOT.sub(lambda match: slots.get(match[1], "?"), _OPTIONAL.sub(keep, template))


@cache
def load_diagnoses(path: Path = FILE) -> tuple[Diagnosis, ...]:
    """All known failures in the order in which they are tried."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(Diagnosis.model_validate(each) for each in raw["diagnosis"])
