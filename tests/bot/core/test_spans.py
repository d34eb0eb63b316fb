"""Who is in which phase, who left it, and what that proves over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bot.core.actions import Progress
from bot.core.events import PhaseId, Rank, Role
from bot.core.spans import Spans

AT = datetime(2026, 5, 29, tzinfo=UTC)
ONE, TWO = Rank("TP0"), Rank("TP1")


def later(seconds: int) -> datetime:
    return AT + timedelta(seconds=seconds)


def test_a_rank_enters_and_leaves() -> None:
    spans = Spans()
    index = spans.add(PhaseId.WEIGHTS, Role.TARGET, AT)
    spans.enter(index, ONE, later(1))
    assert spans.is_in(ONE, index)
    assert spans.last_left(index) is None
    spans.leave(index, ONE, later(5))
    assert not spans.is_in(ONE, index)
    assert spans.last_left(index) == later(5)
    assert spans.holding(ONE, PhaseId.WEIGHTS) == ()


def test_a_rank_that_never_entered_was_in_it_from_the_beginning() -> None:
    spans = Spans()
    index = spans.add(PhaseId.MEMORY, Role.TARGET, AT)
    spans.leave(index, ONE, later(5))
    assert spans.records[index].ranks[ONE].began == AT


def test_closing_ends_it_for_those_who_are_still_in() -> None:
    spans = Spans()
    index = spans.add(PhaseId.GRAPHS, Role.DRAFT, AT)
    spans.enter(index, ONE, AT)
    spans.enter(index, TWO, AT)
    spans.leave(index, ONE, later(3))
    record = spans.close(index, later(9))
    assert record.took == timedelta(seconds=9)
    assert [span.ended for span in record.ranks.values()] == [later(3), later(9)]
    assert spans.last == index
    assert spans.open_records() == ()


def test_the_latest_record_of_a_phase_is_found() -> None:
    spans = Spans()
    spans.add(PhaseId.WEIGHTS, Role.TARGET, AT)
    spans.add(PhaseId.WEIGHTS, Role.DRAFT, AT)
    assert spans.find(PhaseId.WEIGHTS) == 1
    assert spans.find(PhaseId.WEIGHTS, Role.TARGET) == 0
    assert spans.find(PhaseId.GRAPHS) is None
    spans.close(1, AT)
    assert spans.find_open(PhaseId.WEIGHTS) is None


def test_what_a_rank_says_later_proves_earlier_phases_over() -> None:
    spans = Spans()
    first = spans.add(PhaseId.DISTRIBUTED, Role.TARGET, AT)
    second = spans.add(PhaseId.WEIGHTS, Role.TARGET, AT)
    for index in (first, second):
        spans.enter(index, ONE, AT)
        spans.enter(index, TWO, AT)
    spans.prove_over(ONE, ("distributed",), later(2))
    assert not spans.is_in(ONE, first)
    assert spans.is_in(TWO, first)
    spans.prove_over(TWO, ("*",), later(2))
    assert not spans.is_in(TWO, first)
    assert not spans.is_in(TWO, second)
    assert spans.place(ONE) == second
    assert spans.place(TWO) == second
    assert spans.place(Rank("TP9")) is None


def test_only_a_changed_bar_is_progress() -> None:
    spans = Spans()
    index = spans.add(PhaseId.WEIGHTS, Role.TARGET, AT)
    assert spans.progress(index, Progress(1, 4))
    assert not spans.progress(index, Progress(1, 4))
    assert spans.progress(index, Progress(2, 4))


def test_when_it_truly_began_may_be_told_later() -> None:
    spans = Spans()
    index = spans.add(PhaseId.STOPPING, Role.TARGET, later(9))
    spans.redate(index, AT)
    assert spans.close(index, later(14)).took == timedelta(seconds=14)


def test_a_rank_may_turn_out_to_be_another() -> None:
    spans = Spans()
    server, weights = spans.add(PhaseId.SERVER, Role.TARGET, AT), spans.add(PhaseId.WEIGHTS, Role.TARGET, AT)
    spans.enter(server, ONE, AT)
    spans.enter(weights, ONE, AT)
    spans.rename(ONE, TWO, ("weights",))
    assert (set(spans.records[server].ranks), set(spans.records[weights].ranks)) == ({ONE}, {TWO})
