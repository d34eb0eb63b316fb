"""The import contracts and `make test`: what is new is in them, or it would stand outside of every rule."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.twins import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
ANYWHERE = {"bot.errors", "bot.clock"}  # known to all, and knowing nothing
TALK = {"bot.__main__", "bot.app", "bot.check", "bot.clients", "bot.ears", "bot.practice"}
DRAW = {"bot.__main__", "bot.chart", "bot.sheet"}
HEAR = {"bot.__main__", "bot.app", "bot.run", "bot.check", "bot.ears", "bot.practice"}


def parts() -> set[str]:
    """What stands directly in `bot`: modules and packages."""
    files = {f"bot.{file.stem}" for file in (ROOT / "bot").glob("*.py") if file.name != "__init__.py"}
    return files | {f"bot.{folder.parent.name}" for folder in (ROOT / "bot").glob("*/__init__.py")}


def contract(begin: str) -> Any:
    [found] = [each for each in CONTRACTS if each["name"].startswith(begin)]
    return found


def test_every_module_has_its_layer() -> None:
    layers: Iterable[str] = contract("layers")["layers"]
    named = {name.strip("() ") for layer in layers for name in layer.split("|")}
    assert parts() - ANYWHERE - named == set()


@pytest.mark.parametrize(
    ("begin", "but"), [("only clients talk", TALK), ("only the chart draws", DRAW), ("only handlers", HEAR)]
)
def test_who_may_not_is_forbidden_to(begin: str, but: set[str]) -> None:
    bound = set(contract(begin)["source_modules"])
    assert parts() - ANYWHERE - but - bound == set()
    assert not bound & but


def test_make_test_runs_all_tests_in_the_order_it_names() -> None:
    """Of paths that overlap pytest takes the widest alone, and the longest tests would begin last."""
    recipe = re.search(r"^test: .*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    named = [word for word in recipe[1].split() if word.startswith("tests")]
    folders = {f"tests/{each.parent.name}" for each in (ROOT / "tests").glob("*/__init__.py")}
    assert sorted(named) == sorted({*folders, "tests/test_*.py"} - {"tests/systemd"})
    assert named[0] == "tests/whole"
