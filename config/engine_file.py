"""An engine file: the lines an inference engine prints, which phase each belongs to, and what proves its end.

The files under config/engines/ are data: a new engine is a new file there and no new code. What everything
around an engine prints (Python, NCCL, the kernel) stands once in surroundings.toml and is read behind each
file's own rules.
"""

from __future__ import annotations

import tomllib
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from bot.errors import ConfigurationInvalid
from config.engine_reader import Reader, in_order
from config.engine_rules import Arguments, Frame, Part, PhaseRule, Prefix, Rule, Surroundings

if TYPE_CHECKING:
    from datetime import timedelta

    from config.engine_reader import Hit

FOLDER = Path(__file__).parent / "engines"
SURROUNDINGS = Path(__file__).parent / "surroundings.toml"
AUTO = "auto"  # the engine is not named: it is recognised by its lines; its file holds what is true of any


class EngineFile(Part):
    """One engine, compiled. `read` tells what a line's text is."""

    name: str
    title: str
    recognise: tuple[str, ...]  # lines that only this engine prints, for `auto`
    suggest: tuple[str, ...] = ()  # lines that this engine prints, and at times another that is built on it
    prefix: Prefix
    arguments: Arguments = Arguments()
    phase: tuple[PhaseRule, ...]
    ready: tuple[Rule, ...] = ()
    settled: tuple[Rule, ...] = ()  # all phases of that rank are over
    failure: tuple[Rule, ...] = ()
    frame: tuple[Frame, ...] = ()
    noise: tuple[Rule, ...] = ()
    harmless: tuple[Rule, ...] = ()

    @cached_property
    def reader(self) -> Reader:
        """The rules, compiled."""
        return Reader(self)

    def read(self, text: str) -> Hit | None:
        """What the text behind the prefix is; None when the file does not know it."""
        return self.reader.read(text)

    def rules(self) -> list[Rule]:
        """All of them, in the order in which they are tried; those for anywhere behind the others."""
        return sorted((hit.rule for hit in in_order(self)), key=lambda rule: rule.line is None)

    def rule_of(self, phase: str) -> PhaseRule | None:
        """The phase's rule; None where this engine shows nothing of that phase."""
        return self.reader.by_phase.get(phase)

    def place_of_frame(self, text: str) -> tuple[str | None, str | None]:
        """The phase and the role in which the function of a traceback's `File "…", line N, in NAME` runs."""
        path, _, name = text.rpartition(" in ")
        fitting = [each for each in self.reader.frames if each.fits(path, name)]
        phase = next((each.phase for each in fitting if each.phase), None)
        return phase, next((each.role for each in fitting if each.role), None)

    def patience_of(self, phase: str) -> timedelta | None:
        rule = self.rule_of(phase)
        return rule.patience if rule else None

    def is_recognised(self, reading: str) -> bool:
        """Whether this line, as read, is one that only this engine prints."""
        return self.reader.recognise.search(reading) is not None

    def is_suggested(self, reading: str) -> bool:
        """Whether this line can be of this engine, or of one that is built on it."""
        return self.reader.suggest is not None and self.reader.suggest.search(reading) is not None


@cache
def load_engine(name_or_path: str | Path) -> EngineFile:
    """Load by name ("sglang") or path. Raises ConfigurationInvalid naming file and key."""
    path = FOLDER / f"{name_or_path}.toml"
    if not path.is_file():
        path = Path(name_or_path)
    try:
        own = EngineFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        known = ", ".join(list_engines())
        raise ConfigurationInvalid(
            (f"no engine file {str(name_or_path)!r}; allowed: {known}, or a path",)
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationInvalid((f"{path}: is no TOML: {error}",)) from error
    except ValidationError as error:
        raise ConfigurationInvalid(tuple(_fault(path, each) for each in error.errors())) from error
    return _surrounded(own)


def _surrounded(own: EngineFile) -> EngineFile:
    """The engine's own rules first: they know better what a line means."""
    around = _load_surroundings()
    return own.model_copy(
        update={
            "failure": own.failure + around.failure,
            "noise": own.noise + around.noise,
            "harmless": own.harmless + around.harmless,
        }
    )


@cache
def _load_surroundings() -> Surroundings:
    return Surroundings.model_validate(tomllib.loads(SURROUNDINGS.read_text(encoding="utf-8")))


def _fault(path: Path, detail: object) -> str:
    assert isinstance(detail, dict)  # noqa: S101 - pydantic's own shape
    return f"{path}: {'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"


@cache
def list_engines() -> tuple[str, ...]:
    """The names that an engine may be called by, "auto" among them."""
    return tuple(sorted(each.stem for each in FOLDER.glob("*.toml")))


def load_engines() -> dict[str, EngineFile]:
    """Every engine that comes with the product, by name; "auto" is none."""
    paths = sorted(FOLDER.glob("*.toml"))
    return {path.stem: load_engine(path.stem) for path in paths if path.stem != AUTO}
