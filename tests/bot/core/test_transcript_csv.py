"""What a cloud's log service gives for download."""

from __future__ import annotations

from datetime import UTC, datetime

from bot.core.transcript_csv import CSV_MOST, CsvReader

AT = datetime(2026, 5, 29, 23, 49, 47, 120_000, tzinfo=UTC)
STAMP = str(int(AT.timestamp() * 1000))


def read(*lines: str) -> list[tuple[str, datetime | None]]:
    reader = CsvReader()
    rows = [row for line in lines for row in reader.read(line.encode())]
    return [(row.text, row.at) for row in (*rows, *reader.close())]


def test_a_message_and_its_time() -> None:
    assert read("timestamp,message", f"{STAMP},Killed", f'{STAMP},"x, ""y"""') == [
        ("Killed", AT),
        ('x, "y"', AT),
    ]


def test_control_characters_are_what_they_were() -> None:
    colours = f"{STAMP},#033[1;36m(Worker pid=7)#033[0;0m ERROR#015"
    assert read(colours, f'{STAMP},"#015Loading: 50%, x"') == [
        ("\x1b[1;36m(Worker pid=7)\x1b[0;0m ERROR", AT),
        ("\rLoading: 50%, x", AT),
    ]


def test_a_message_of_several_lines() -> None:
    assert read(f'{STAMP},"Traceback:', '  File ""a.py""', 'KeyError"', f"{STAMP},next") == [
        ("Traceback:", AT),
        ('  File "a.py"', AT),
        ("KeyError", AT),
        ("next", AT),
    ]
    assert read(f'{STAMP},"Traceback:', "  cut") == [("Traceback:", AT), ("  cut", AT)]


def test_a_quotation_that_never_ends_is_given_out() -> None:
    rows = read(f'{STAMP},"{"x" * CSV_MOST}', "next")
    assert [text for text, _ in rows[1:]] == ["next"]


def test_what_is_no_row_stays_as_it_is() -> None:
    assert read("fetched 3 of 3 streams", f'{STAMP},say "x') == [
        ("fetched 3 of 3 streams", None),
        ('say "x', AT),
    ]
