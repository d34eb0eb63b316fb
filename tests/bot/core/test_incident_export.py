"""The export tells the whole story, and nothing in a log breaks out of its place in it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.account import Changed
from bot.core.actions import Verdict
from bot.core.events import OperationId, Verb
from bot.core.incident_events import (
    Acknowledged,
    ChangesSeen,
    Recovered,
    RunLogRead,
    SignSeen,
    StartFollowed,
    StartOver,
)
from bot.core.incident_export import Deed, People, export_name, render_export, time_of_deeds
from bot.core.incident_state import Severity, Sign, SignKind
from bot.core.incident_turn import MOST_ENTRIES
from tests.support.incidents import (
    ALICE,
    BEGAN,
    BOB,
    HOST,
    MEMBER,
    OUT_OF_MEMORY,
    RUN,
    SERVICE,
    SLOW,
    Case,
    make_incident_plan,
    make_lines,
)


def _export(case: Case, *deeds: Deed) -> str:
    return render_export(case.plan, case.incident.state, case.now, People(deeds, {BOB: "Bob"}))


DEEDS = (
    Deed(BEGAN + timedelta(minutes=5), BOB, "restart", "started", SERVICE, "new *parser*"),
    Deed(BEGAN - timedelta(minutes=20), ALICE, "reload", "done", SERVICE),
)


def _whole() -> Case:
    case = Case()
    case.tell(RunLogRead(MEMBER, RUN, make_lines(*OUT_OF_MEMORY)))
    case.tell(ChangesSeen(Changed(("+ --mem-fraction-static 0.9",), since=BEGAN - timedelta(hours=9))))
    case.tell(Acknowledged(BOB), after=238)
    case.tell(StartFollowed(OperationId("op1"), Verb.RESTART, BOB), after=30)
    case.tell(StartOver(OperationId("op1"), Verdict.HEALTHY, timedelta(minutes=8)), after=480)
    case.tell(Recovered(BEGAN + timedelta(seconds=755)), after=30)
    return case


def test_who_did_what_stands_in_the_order_of_time_with_what_came_of_it() -> None:
    told = _export(_whole(), *DEEDS).split("## Who did what (UTC)")[1].split("##")[0]
    assert told.strip().splitlines()[:2] == [
        f"- `2026-05-29 02:52:41` **{ALICE}**: reload → done",
        "- `2026-05-29 03:17:41` **Bob**: restart (“new \\*parser\\*”) → started",
    ]
    assert "an hour before the first sign" in told


def test_nobody_did_anything_or_nobody_can_say() -> None:
    assert "Nobody asked kimi for anything." in _export(Case())
    case = Case()
    assert "The audit could not be read." in render_export(case.plan, case.incident.state, case.now)


def test_of_a_host_what_was_done_about_its_own_stands_beside_what_was_done_about_its_services() -> None:
    case = Case(make_incident_plan(severity=Severity.HOST, service=None, subject=HOST, members=()))
    case.tell(Acknowledged(BOB), after=60)
    told = _export(case, *DEEDS[:1])
    assert "**Bob**: acknowledged after 1m" in told
    assert f"**Bob**: restart {SERVICE} (" in told


def test_the_time_that_matters_ends_with_the_incident() -> None:
    case = _whole()
    since, until = time_of_deeds(case.plan, case.incident.state, case.now + timedelta(hours=5))
    assert (since, until) == (BEGAN - timedelta(hours=1), case.now)
    open_ = Case()
    assert time_of_deeds(open_.plan, open_.incident.state, BEGAN + timedelta(hours=5))[
        1
    ] == BEGAN + timedelta(hours=5)


def test_a_whole_outage() -> None:
    told = _export(_whole())
    assert told.startswith("# kimi-k2.5: incident ")
    for each in (
        "| First sign | 2026-05-29 03:12:41 |",
        "| Last good check | 2026-05-29 02:58:41 |",
        "| Acknowledged | by Bob, 4m after it was opened |",
        "| Downtime | 12m35s, of it 8m in startups that were followed |",
        "**Out of GPU memory",
        "## Changed since the last good start (2026-05-28 18:12:41)",
        "## Timeline (UTC)",
        "`2026-05-29 03:12:41` sign: process died by SIGSEGV",
        "`2026-05-29 03:16:41` person: acknowledged after 4m (Bob)",
        "start: restarted (Bob)",
        "## Log before it broke",
        OUT_OF_MEMORY[-1],
    ):
        assert each in told


def test_the_cause_stands_with_its_lines() -> None:
    cause = _export(_whole()).split("## Cause")[1].split("## Changed")[0]
    assert OUT_OF_MEMORY[2] in cause
    assert "Try: " in cause


def test_the_timeline_is_in_the_order_of_time() -> None:
    times = re.findall(r"^- `([^`]+)`", _export(_whole()), re.MULTILINE)
    assert len(times) > 5
    assert times == sorted(times)


def test_one_that_is_still_open() -> None:
    case = Case()
    case.wait(60)
    told = _export(case)
    assert "| Ended | not yet |" in told
    assert "| Acknowledged | by nobody |" in told
    assert "| Downtime | 1m |" in told
    assert "No line of the log says why. The first sign: process died by SIGSEGV." in told


def test_a_host_is_told_as_one() -> None:
    refused = Sign(SignKind.SIGHT, BEGAN, "the host does not answer SSH", evidence=("port 22: refused",))
    plan = make_incident_plan(
        subject=HOST, service=None, members=(), severity=Severity.HOST, signs=(refused,), affected=(SERVICE,)
    )
    case = Case(plan)
    case.tell(Recovered(BEGAN + timedelta(seconds=90)), after=90)
    told = _export(case)
    assert "| What | host gone |" in told
    assert "| Ended | 2026-05-29 03:14:11: answers again |" in told
    assert "## Cause\n\nThe first sign: the host does not answer SSH.\n\n```\nport 22: refused\n```" in told


def test_what_was_left_out_is_counted() -> None:
    case = Case()
    for _ in range(MOST_ENTRIES + 10):
        case.tell(SignSeen(SLOW))
    assert "of its middle 12 more are left out" in _export(case)


def test_the_name_of_the_file_is_safe() -> None:
    assert re.fullmatch(r"kimi-k2\.5-incident-[0-9a-f]{8}\.md", export_name(make_incident_plan()))
    assert "/" not in export_name(replace(make_incident_plan(), subject="../../etc/passwd"))


def test_nothing_turns_the_direction_of_text_round_or_moves_a_cursor() -> None:
    case = Case()
    hostile = (
        "\u202egpj.exe \x1b[2J\x1b[31mred\x07",
        "half \ud83d of a pair",
        "``\u2066` no end of its block",
    )
    case.tell(RunLogRead(MEMBER, RUN, make_lines(*OUT_OF_MEMORY, *hostile)))
    case.tell(SignSeen(Sign(SignKind.SLOW, BEGAN, hostile[0])))
    told = _export(case)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", told)
    assert "gpj.exe red" in told
    assert "````\n" in told


@settings(deadline=None)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
def test_no_line_ends_its_block_or_begins_a_heading(texts: list[str]) -> None:
    case = Case()
    case.tell(RunLogRead(MEMBER, RUN, make_lines("```", "# not a heading", *texts)))
    case.tell(SignSeen(Sign(SignKind.SLOW, BEGAN, texts[0])))
    fence, headings = "", []
    for line in _export(case).split("\n"):
        if re.fullmatch(r"`{3,}", line) and fence in {"", line}:
            fence = "" if fence else line
        elif not fence and line.startswith("#"):
            headings.append(line)
    assert fence == ""
    assert [line.split(" ")[0] for line in headings] == ["#", *["##"] * 5]
