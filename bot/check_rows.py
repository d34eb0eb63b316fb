"""One row of `kimi-bot check`, and the table they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Finding:
    """One row; `words` say what was seen, and where it is not good how to mend it.

    `note`: it is no fault of the setup, and yet not as it is when all serves.
    """

    subject: str
    good: bool
    words: str
    note: bool = False


def render_findings(findings: Sequence[Finding]) -> str:
    """A table: mark, subject, words."""
    width = max((len(finding.subject) for finding in findings), default=0)
    return "\n".join(
        f"{_mark(finding):<5} {finding.subject:<{width}}  {finding.words}" for finding in findings
    )


def _mark(finding: Finding) -> str:
    if not finding.good:
        return "WRONG"
    return "note" if finding.note else "ok"
