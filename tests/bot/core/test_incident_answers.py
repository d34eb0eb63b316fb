"""What is answered in private about incidents."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.events import ServiceName
from bot.core.incident_answers import (
    MOST_ROWS,
    IncidentRow,
    MutedRow,
    render_acknowledged,
    render_ambiguous,
    render_closed,
    render_export_coming,
    render_incidents,
    render_muted,
    render_none_open,
    render_unknown,
    render_unmuted,
)
from bot.core.incident_state import IncidentId, Severity
from bot.core.words import Searched
from tests.support.incidents import ALICE, BEGAN, BOB, SERVICE
from tests.support.slack_messages import assert_sendable, shown

if TYPE_CHECKING:
    from bot.core.blocks import Message

ROW = IncidentRow(
    IncidentId("3f9a2c11" + "0" * 24),
    SERVICE,
    Severity.DOWN,
    BEGAN,
    timedelta(minutes=13),
    cause="Out of GPU memory",
    link="https://slack.example/1",
)
OVER = replace(ROW, incident=IncidentId("aa" * 16), ended=BEGAN + timedelta(minutes=13))


def _told(message: Message) -> str:
    return shown(message)


def test_what_is_open_comes_with_its_cause_and_who_is_on_it() -> None:
    told = _told(render_incidents([ROW, OVER], service=SERVICE))
    assert (
        "1 incident of `kimi-k2.5` open.\n*kimi-k2.5* is down: Out of GPU memory · nobody is on it yet"
        in told
    )
    for each in ("29 May 03:12", "3f9a2c11", "open", "over", "13m", "`incidents export ID`"):
        assert each in told


def test_somebody_is_on_it_and_a_host_is_gone() -> None:
    told = _told(render_incidents([replace(ROW, subject="llm-two", severity=Severity.HOST, acked_by=BOB)]))
    assert "*llm-two* is gone: Out of GPU memory · <@U0BOB> is on it" in told
    hidden = replace(ROW, subject="llm-two", severity=Severity.HOST, hidden=True, cause="SSH is refused")
    assert "*llm-two* is out of sight: SSH is refused" in _told(render_incidents([hidden]))


def test_none_is_open_or_on_record() -> None:
    assert _told(render_incidents([])) == "No incident is on record."
    assert "No incident is open." in _told(render_incidents([OVER]))


def test_of_many_the_first_are_shown_and_the_rest_is_counted() -> None:
    message = render_incidents([OVER] * 30)
    assert len(message.blocks[1]["rows"]) == MOST_ROWS + 1
    assert "and 18 older ones" in _told(message)


def test_what_is_muted_is_told_beside() -> None:
    muted = [MutedRow(SERVICE, BEGAN, ALICE, "new build")]
    assert "Muted: `kimi-k2.5` until <!date^" in _told(render_incidents([], muted=muted))
    assert "by <@U0ALICE>: new build" in _told(render_incidents([], muted=muted))


SENTENCES: list[tuple[Message, str]] = [
    (render_unknown("beef"), "There is no incident `beef` here."),
    (
        render_ambiguous("3f9a", [ROW.incident, ROW.incident]),
        "Several incidents begin with `3f9a`: `3f9a2c11` or",
    ),
    (render_none_open(None), "No incident is open: there is nothing to do."),
    (render_none_open(SERVICE), "No incident of `kimi-k2.5` is open"),
    (render_none_open(SERVICE, instead=IncidentId("6efd310d" * 4)), "`resolve 6efd310d`"),
    (render_acknowledged("llm-two"), "You are on it: nobody else is called for `llm-two`."),
    (render_acknowledged("llm-two", before=BOB), "<@U0BOB> has acknowledged"),
    (render_muted(SERVICE, BEGAN), "`kimi-k2.5` is muted until <!date^"),
    (render_muted(SERVICE, BEGAN, still_open=True), "The one that is open goes on, and calls nobody."),
    (render_unmuted(SERVICE), "`kimi-k2.5` is no longer muted."),
    (render_unmuted(SERVICE, was=False), "`kimi-k2.5` was not muted."),
    (render_closed("llm-two"), "The incident of `llm-two` is closed."),
    (render_export_coming(ROW.incident), "The timeline of incident `3f9a2c11` comes here as a file."),
]


@pytest.mark.parametrize(("message", "words"), SENTENCES)
def test_short_answers(message: Message, words: str) -> None:
    assert words in _told(message)
    assert words in message.text
    assert not [word for word in Searched if re.search(rf"\b{word}\b", message.text)]


TEXTS = st.text(max_size=400)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS, st.booleans()), max_size=30))
def test_it_keeps_slacks_limits_and_nothing_is_read_as_markup(rows: list[tuple[str, str, bool]]) -> None:
    made = [
        replace(ROW, subject=f"<!here>{subject}", cause=f"<!here>{cause}", ended=None if is_open else BEGAN)
        for subject, cause, is_open in rows
    ]
    muted = [MutedRow(ServiceName(subject), BEGAN, BOB, cause) for subject, cause, _ in rows]
    message = render_incidents(made, muted=muted)
    assert_sendable(message)
    sections = [block["text"]["text"] for block in message.blocks if block["type"] == "section"]
    assert not any("<!here>" in each for each in (*sections, message.text))
