"""A timeline that does not grow without bound, and a log that is asked for once."""

from __future__ import annotations

from bot.core.incident_events import SignSeen
from bot.core.incident_state import EntryKind
from bot.core.incident_turn import MOST_ENTRIES, IncidentTurn
from config.engine_file import load_engine
from tests.support.incidents import BEGAN, DIED, MEMBER, RUN, SLOW, Case


def test_an_endless_outage_keeps_its_beginning_and_its_end() -> None:
    case = Case()
    for _ in range(MOST_ENTRIES + 50):
        case.tell(SignSeen(SLOW))
    state = case.incident.state
    assert len(state.timeline) == MOST_ENTRIES
    assert state.dropped == 52
    assert state.timeline[0].sentence == DIED.sentence
    assert state.timeline[1].kind is EntryKind.OPENED
    assert len(state.signs) <= 40
    assert state.signs[0] == DIED


def test_a_run_is_asked_for_once_and_an_unknown_one_each_time() -> None:
    case = Case()
    turn = IncidentTurn(case.plan, load_engine("sglang"), case.incident.state)
    assert not turn.ask(MEMBER, RUN, BEGAN)
    assert turn.ask(MEMBER, None, case.now)
