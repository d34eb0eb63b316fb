"""A row knows nothing that its carrier did not say."""

from __future__ import annotations

from bot.core.transcript_rows import Row


def test_a_row_is_its_text() -> None:
    row = Row("x")
    assert (row.text, row.at, row.pid, row.origin, row.fields, row.stream) == ("x", None, None, None, {}, "")
