"""Stalls and verdicts as replies."""

from __future__ import annotations

from dataclasses import replace

from bot.core.actions import (
    Mark,
    Progress,
    RankView,
    StallReported,
    Verdict,
    VerdictReached,
)
from bot.core.events import PhaseId, Rank, Role, SmokeResult, UserId, Verb
from bot.core.report import make_verb_button, render_stall, render_verdict
from bot.core.words import Searched
from tests.support.slack_messages import (
    assert_sendable,
    button_values,
    kinds,
    labels,
    markups,
    preformatted,
    shown,
)
from tests.support.startup_views import MIDWAY, mark, ranks_in, seconds

STALL = StallReported(
    phase=PhaseId.GRAPHS,
    role=Role.TARGET,
    silent=seconds(720),
    patience=seconds(570),
    in_phase=seconds(730),
    ranks=ranks_in(PhaseId.GRAPHS),
    last_lines=("TP0: Capture cuda graph begin. This can take up to <several> minutes.",),
    evidence=("CPU 800 %, unchanged: eight ranks spin.", "Nothing read from disk."),
)
HEALTHY = VerdictReached(
    verdict=Verdict.HEALTHY,
    phase=PhaseId.READY,
    role=Role.TARGET,
    took=seconds(451),
    usual=seconds(460),
    phases=(
        mark(PhaseId.WEIGHTS, Mark.DONE, 304, usual=310),
        mark(PhaseId.WEIGHTS, Mark.DONE, 40, role=Role.DRAFT),
        mark(PhaseId.COMPILE, Mark.AHEAD),
    ),
    model="kimi-k2.5",
    smoke=SmokeResult(passed=True, first_token=0.31, tokens_per_second=84.2, tool_call=True, reasoning=True),
)
FAILED = VerdictReached(
    verdict=Verdict.FAILED,
    phase=PhaseId.WEIGHTS,
    role=Role.TARGET,
    took=seconds(182),
    usual=seconds(460),
    phases=(mark(PhaseId.WEIGHTS, Mark.FAILED, 60, usual=310),),
    cause="TP3 ran out of GPU memory.",
    root_error="torch.OutOfMemoryError: tried to allocate <2.00 GiB>",
    rank=Rank("TP3"),
    advice="lower `--mem-fraction-static`",
    means="More was asked for than the GPU has.",
    also="TP6: a broken shard.",
)


def test_a_stall_tells_all_that_is_needed() -> None:
    message = render_stall(STALL, MIDWAY)
    assert_sendable(message)
    assert markups(message)[0] == (
        "⚠️ *stalled* in graph capture: no progress for 12m (patience here: 9m30s), "
        "12m10s (usual 5m) in this phase."
        "\nFor <@U0ALICE> to judge: kimi does nothing to the service by itself."
    )
    assert markups(message)[1].split("\n") == [
        "CPU 800 %, unchanged: eight ranks spin.",
        "Nothing read from disk.",
        "All 8 ranks began graph capture; none ended it.",
    ]
    assert preformatted(message) == STALL.last_lines[0]
    assert labels(message) == ["Keep waiting 30m", "Logs", "Restart", "Stop"]
    assert button_values(message)["kimi:wait"] == {"o": "op1", "s": "kimi-k2.5", "m": 30}


def test_a_stall_of_a_start_that_nobody_asked_for_is_for_anybody_to_judge() -> None:
    told = markups(render_stall(STALL, replace(MIDWAY, by=None)))[0]
    assert told.endswith("Somebody has to judge it: kimi does nothing to the service by itself.")


def test_the_rest_of_the_time_it_must_hold_is_no_row() -> None:
    phases = (mark(PhaseId.SMOKE, Mark.DONE, 26), mark(PhaseId.READY, Mark.DONE, 4))
    message = render_verdict(replace(HEALTHY, phases=phases), MIDWAY)
    assert "smoke test" in shown(message)
    assert "stays up" not in shown(message) + message.text


def test_a_stall_says_nothing_of_health_or_failure_and_no_log_text_in_its_fallback() -> None:
    message = render_stall(STALL, MIDWAY)
    told = shown(message) + message.text
    assert "failed" not in told
    assert "healthy" not in told
    assert "several" not in message.text


def test_a_stall_names_the_ranks_that_lag() -> None:
    some = StallReported(
        PhaseId.WEIGHTS,
        Role.TARGET,
        seconds(720),
        seconds(570),
        seconds(730),
        progress=Progress(12, 64),
        lagging=(Rank("TP3"), Rank("TP5")),
        ranks=ranks_in(PhaseId.WEIGHTS, ended=(0, 1, 2, 4, 6, 7)),
    )
    told = shown(render_stall(some, MIDWAY))
    assert "stalled* in weight loading at 12 of 64: no progress" in told
    assert "TP3 and TP5 have not ended weight loading; the others have." in told


def test_a_stall_tells_where_ranks_are_when_they_are_elsewhere() -> None:
    apart = RankView(Rank("TP0"), PhaseId.DISTRIBUTED, Role.TARGET)
    stall = StallReported(
        PhaseId.WEIGHTS,
        Role.TARGET,
        seconds(1),
        seconds(1),
        seconds(1),
        ranks=(apart, *ranks_in(PhaseId.WEIGHTS)[1:]),
    )
    assert "Elsewhere: TP0 in rank connection." in shown(render_stall(stall, MIDWAY))


def test_the_longest_silence_of_a_healthy_start_stands_beside_the_patience() -> None:
    told = shown(render_stall(replace(STALL, longest=seconds(380)), MIDWAY))
    assert "(patience here: 9m30s; the longest of a start that came through: 6m20s)" in told
    assert not any(word in told for word in Searched if word is not Searched.STALLED)


def test_the_newest_lines_are_kept() -> None:
    lines = tuple(f"line {chr(97 + n)} {'x' * 600}" for n in range(12))
    kept = preformatted(
        render_stall(
            StallReported(PhaseId.GRAPHS, Role.TARGET, seconds(1), seconds(1), seconds(1), last_lines=lines),
            MIDWAY,
        )
    )
    assert "line l " in kept
    assert "line a " not in kept


def test_what_every_rank_says_is_shown_once() -> None:
    lines = (*(f"[TP{n}] Capture begins, {n}.5 GB left" for n in range(8)), "[TP0] Capturing 1/23")
    stall = StallReported(PhaseId.GRAPHS, Role.TARGET, seconds(1), seconds(1), seconds(1), last_lines=lines)
    assert preformatted(render_stall(stall, MIDWAY)).split("\n") == [lines[7], lines[8]]


def test_a_cause_names_its_rank_once() -> None:
    unnamed = replace(FAILED, cause="Out of GPU memory")
    assert render_verdict(unnamed, MIDWAY).text.endswith("while loading weights: TP3: out of GPU memory.")
    nccl = replace(FAILED, cause="NCCL gave up", rank=None)
    assert render_verdict(nccl, MIDWAY).text.endswith("while loading weights: NCCL gave up.")
    fault = replace(FAILED, cause="A GPU fault", rank=None)
    assert render_verdict(fault, MIDWAY).text.endswith("while loading weights: a GPU fault.")
    assert render_verdict(replace(FAILED, cause=None), MIDWAY).text.endswith("while loading weights.")


def test_restart_and_stop_ask_first() -> None:
    for verb in (Verb.RESTART, Verb.STOP):
        made = make_verb_button(verb, MIDWAY)
        assert made["confirm"]["title"]["text"] == f"{verb.capitalize()} kimi-k2.5?"
        assert made["action_id"] == f"kimi:{verb}"


def test_healthy_with_its_proof_and_durations() -> None:
    message = render_verdict(HEALTHY, MIDWAY)
    assert_sendable(message)
    assert markups(message)[0] == (
        "✅ *healthy* after 7m31s (usual 7m40s). Serves `kimi-k2.5`; first token 0.31s, 84 tokens/s; "
        "tool call and reasoning parsed."
    )
    rows = [[cell["text"] for cell in row] for row in message.blocks[1]["rows"]]
    assert rows == [["Phase", "Took", "Usual"], ["weights", "5m04s", "5m10s"], ["draft weights", "40s", "-"]]
    assert message.text.endswith("weights 5m04s (usual 5m10s), draft weights 40s.")
    assert "failed" not in shown(message) + message.text


def test_of_a_first_start_nothing_is_usual_and_no_column_says_so() -> None:
    phases = (mark(PhaseId.WEIGHTS, Mark.DONE, 304), mark(PhaseId.GRAPHS, Mark.AHEAD, usual=9))
    message = render_verdict(replace(HEALTHY, phases=phases), MIDWAY)
    assert_sendable(message)
    [table] = [block for block in message.blocks if block["type"] == "table"]
    assert [[cell["text"] for cell in row] for row in table["rows"]] == [
        ["Phase", "Took"],
        ["weights", "5m04s"],
    ]
    assert len(table["column_settings"]) == 2


def test_healthy_without_more_to_say() -> None:
    bare = VerdictReached(Verdict.HEALTHY, PhaseId.READY, Role.TARGET, seconds(9), None, ())
    assert render_verdict(bare, MIDWAY).text == "*kimi-k2.5* *healthy* after 9s."


def test_failed_with_its_root_error_and_a_way_on() -> None:
    message = render_verdict(FAILED, MIDWAY)
    assert_sendable(message)
    told = "*kimi-k2.5* *failed* after 3m02s while loading weights: TP3 ran out of GPU memory."
    assert message.text == told
    assert markups(message) == [
        f"❌ {told}",
        "More was asked for than the GPU has.",
        "Try: lower `--mem-fraction-static`",
        "Another failure, apart from it: TP6: a broken shard.",
    ]
    assert preformatted(message) == "[TP3] torch.OutOfMemoryError: tried to allocate <2.00 GiB>"
    assert kinds(message) == ["section", "rich_text", *["section"] * 3, "table", "actions"]
    assert labels(message) == ["Why", "Restart", "History", "Logs"]
    assert "healthy" not in shown(message) + message.text


def test_what_systemd_starts_again_and_again_can_be_stopped_from_its_verdict() -> None:
    message = render_verdict(replace(FAILED, loops=True), MIDWAY)
    assert_sendable(message)
    assert labels(message) == ["Why", "Restart", "Stop", "History", "Logs"]


def test_a_line_keeps_the_rank_that_wrote_it_where_another_one_is_at_fault() -> None:
    message = render_verdict(replace(FAILED, speaker=Rank("TP0")), MIDWAY)
    assert preformatted(message).startswith("[TP0] torch.OutOfMemoryError")


def test_other_endings_name_who_ended_it() -> None:
    told = {
        verdict: render_verdict(
            VerdictReached(verdict, PhaseId.STOPPING, Role.TARGET, seconds(14), None, (), by=UserId("U0BOB")),
            MIDWAY,
        ).text
        for verdict in (Verdict.STOPPED, Verdict.UNWATCHED, Verdict.SUPERSEDED)
    }
    assert told == {
        Verdict.STOPPED: "*kimi-k2.5* is stopped, after 14s. It stays down until started.",
        Verdict.UNWATCHED: "No longer watched by <@U0BOB>; the service is left alone and goes on by itself.",
        Verdict.SUPERSEDED: "This thread ends here: another operation was begun by <@U0BOB>.",
    }
