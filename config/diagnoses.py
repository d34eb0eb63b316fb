"""Known failures, their meaning and what to try: data in diagnoses.toml, compiled once."""

from __future__ import annotations

import re
import tomllib
from functools import cache, cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, field_validator

FILE = Path(__file__).parent / "diagnoses.toml"


class Diagnosis(BaseModel):
    """One known failure. `pattern` is searched for in the lines of the root failure."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    title: str
    pattern: str
    by: str
    advice: str

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from error
        return value

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.MULTILINE)


@cache
def load_diagnoses(path: Path = FILE) -> tuple[Diagnosis, ...]:
    """All known failures in the order in which they are tried."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(Diagnosis.model_validate(each) for each in raw["diagnosis"])
