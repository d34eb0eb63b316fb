"""`python -m tests.support.twins`: fails when a module has no twin test, or a twin no module."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
SOURCES = ("bot", "handlers", "config")
# Tests of several modules at once stand in these folders and need no twin.
FREE = ("tests/systemd", "tests/whole", "tests/support")


def twin_of(module: Path) -> Path:
    """`bot/core/journal.py` → `tests/bot/core/test_journal.py`; both relative to the root."""
    return Path("tests") / module.parent / f"test_{module.stem.strip('_')}.py"


def modules(root: Path) -> set[Path]:
    files = (file.relative_to(root) for source in SOURCES for file in (root / source).rglob("*.py"))
    return {file for file in files if file.name != "__init__.py"}


def faults(root: Path) -> list[str]:
    """One line per module without a twin and per twin without a module."""
    wanted = {twin_of(module): module for module in modules(root)}
    missing = [
        f"{module} has no twin {twin}" for twin, module in wanted.items() if not (root / twin).exists()
    ]
    found = {file.relative_to(root) for file in (root / "tests").rglob("test_*.py")}
    stray = [
        f"{file} is the twin of no module"
        for file in found - wanted.keys()
        if not str(file).startswith(FREE) and not _is_part(file, wanted) and not _tests_data(file, root)
    ]
    return sorted(missing + stray)


def _is_part(file: Path, wanted: Mapping[Path, Path]) -> bool:
    """A twin that grew too long goes on in `test_journal_cuts.py` beside `test_journal.py`."""
    return any(file.parent == twin.parent and file.stem.startswith(f"{twin.stem}_") for twin in wanted)


def _tests_data(file: Path, root: Path) -> bool:
    """The twin of a data file: `config/slack-manifest.json` → `tests/config/test_slack_manifest.py`."""
    folder = root / file.parent.relative_to("tests")
    name = file.stem.removeprefix("test_")
    return any(data.stem.replace("-", "_") == name for data in folder.glob("*") if data.suffix != ".py")


def main() -> int:
    found = faults(ROOT)
    sys.stdout.write("".join(f"{line}\n" for line in found) or "twin tests: every module has its own\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
