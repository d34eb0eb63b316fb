"""The twin check itself: it must be able to fail."""

from __future__ import annotations

from pathlib import Path

from tests.support.twins import faults, twin_of


def put(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_a_module_and_its_twin_are_fine(tmp_path: Path) -> None:
    put(tmp_path, "bot/core/x.py", "bot/__init__.py", "tests/bot/core/test_x.py", "tests/whole/test_all.py")
    assert faults(tmp_path) == []


def test_a_module_without_twin_and_a_twin_without_module_are_told(tmp_path: Path) -> None:
    put(tmp_path, "handlers/x.py", "tests/handlers/test_y.py")
    assert faults(tmp_path) == [
        "handlers/x.py has no twin tests/handlers/test_x.py",
        "tests/handlers/test_y.py is the twin of no module",
    ]


def test_a_long_twin_may_go_on_in_a_second_file_and_data_may_have_one(tmp_path: Path) -> None:
    put(tmp_path, "bot/x.py", "tests/bot/test_x.py", "tests/bot/test_x_cuts.py")
    put(tmp_path, "config/a-b.json", "tests/config/test_a_b.py", "tests/config/test_c.py")
    assert faults(tmp_path) == ["tests/config/test_c.py is the twin of no module"]


def test_dunder_modules_have_a_plain_twin() -> None:
    assert twin_of(Path("bot/__main__.py")) == Path("tests/bot/test_main.py")
