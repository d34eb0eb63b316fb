"""The table of the check."""

from __future__ import annotations

from bot.check_rows import Finding, render_findings


def test_rows_stand_under_each_other() -> None:
    rows = render_findings(
        [Finding("redis", good=True, words="answers"), Finding("host a", good=False, words="no")]
    )
    assert rows == "ok    redis   answers\nWRONG host a  no"
    assert render_findings([Finding("a", good=True, words="stopped", note=True)]) == "note  a  stopped"
    assert render_findings([]) == ""
