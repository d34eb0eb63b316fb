"""What the outbox is handed: one id for one thing said."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from bot.clients.records import Operation
from bot.core.actions import (
    Mark,
    MarkerSeen,
    Noticed,
    PhaseFinished,
    PhaseView,
    PostReply,
    Progress,
    Verdict,
)
from bot.core.events import ChannelId, MessageTs, OperationId, PhaseId, Role, ServiceName, UserId, Verb
from bot.core.marker import Hit
from bot.core.tail import TailFile
from bot.messages import (
    describe_present,
    describe_tail,
    edit_message,
    logs_root_message,
    name_file,
    name_told,
    notice_message,
    reply_message,
    root_message,
    stacks_letter,
    tail_letter,
)
from tests.support.startup_runs import BEGAN, Run

OPS = ChannelId("C0OPS")
VIEW = replace(Run().startup.view(BEGAN), operation=OperationId("op1"))
LOADING = PhaseView(PhaseId.WEIGHTS, Role.TARGET, Mark.NOW, progress=Progress(12, 64))


def test_the_root_and_its_edits_show_the_same_and_are_told_apart() -> None:
    root, edit = root_message(VIEW, channel=OPS), edit_message(VIEW, channel=OPS)
    assert (root.id, root.kind, edit.id, edit.kind) == ("op1:root", "root", "op1:edit", "edit")
    assert (root.text, root.blocks) == (edit.text, edit.blocks)
    assert root.thread == edit.thread == "op1"
    assert root.channel == edit.channel == OPS
    assert "kimi-k2.5" in root.text
    assert root.blocks


def test_a_root_says_to_slack_what_it_is_about_and_whom_to_tell_when_it_is_refused() -> None:
    root = root_message(VIEW, channel=OPS)
    assert root.tags["state"] == "open"
    assert (root.tags["service"], root.tags["verb"]) == (VIEW.service, VIEW.verb)
    assert datetime.fromisoformat(root.tags["began"]) == VIEW.began
    assert (root.tags.get("by"), root.asker) == (VIEW.by, VIEW.by)
    over = edit_message(replace(VIEW, verdict=Verdict.FAILED, by=None), channel=OPS)
    assert over.tags["state"] == "closed"
    assert "by" not in over.tags
    log = logs_root_message(ServiceName("kimi-k2.5"), by=UserId("U0BOB"), thread="logs-1", channel=OPS)
    assert (log.asker, log.tags) == ("U0BOB", {})


@pytest.mark.parametrize("broadcast", [True, False])
def test_a_reply_is_known_by_its_number(broadcast: bool) -> None:
    order = PostReply(7, Noticed("The host is <back> & well."), broadcast=broadcast)
    reply = reply_message(order, VIEW, channel=OPS)
    assert (reply.id, reply.kind, reply.thread, reply.broadcast) == ("op1:7", "reply", "op1", broadcast)
    assert "&lt;back&gt; &amp; well" in reply.text


def test_a_notice_is_said_once_however_often_it_is_tried() -> None:
    notice = notice_message("It broke.", operation=OperationId("op1"), channel=OPS)
    assert (notice.id, notice.kind, notice.thread) == ("op1:notice", "reply", "op1")
    assert notice.text == "It broke."


def test_a_log_asked_for_outside_a_thread_has_a_root_of_its_own() -> None:
    root = logs_root_message(ServiceName("kimi-k2.5"), by=UserId("U0BOB"), thread="logs-1", channel=OPS)
    assert (root.id, root.kind, root.thread, root.channel) == ("logs-1:root", "root", "logs-1", OPS)
    assert "<@U0BOB>" in root.text


@pytest.mark.parametrize(
    ("phase", "phases", "told"),
    [
        (PhaseId.WEIGHTS, (LOADING,), "loading weights, 12 of 64 shards"),
        (PhaseId.WEIGHTS, (replace(LOADING, progress=None),), "loading weights"),
        (PhaseId.GRAPHS, (LOADING,), "capturing CUDA graphs"),
        (PhaseId.WEIGHTS, (replace(LOADING, role=Role.DRAFT),), "loading weights"),
    ],
)
def test_the_present_in_a_few_words(phase: PhaseId, phases: tuple[PhaseView, ...], told: str) -> None:
    assert describe_present(replace(VIEW, phase=phase, role=Role.TARGET, phases=phases)) == told


def test_a_file_is_named_for_its_service_and_the_start_in_utc() -> None:
    began = datetime(2026, 5, 30, 1, 49, tzinfo=timezone(timedelta(hours=2)))
    assert name_file(ServiceName("kimi-k2.5"), began) == "kimi-k2.5-2026-05-29T2349Z.log"
    assert name_file(ServiceName("kimi"), datetime(2026, 5, 29, 23, 49, tzinfo=UTC)).endswith("2349Z.log")


@pytest.mark.parametrize(
    ("lines", "masked", "told"),
    [
        (0, 0, "0 lines"),
        (1, 0, "1 line"),
        (4212, 1, "4,212 lines, 1 secret masked"),
        (2, 1200, "2 lines, 1,200 secrets masked"),
    ],
)
def test_a_tail_is_introduced_with_its_length_and_its_masks(lines: int, masked: int, told: str) -> None:
    assert describe_tail(TailFile("", lines, masked)) == told


def test_a_letter_holds_the_bytes_as_the_log_had_them() -> None:
    letter = tail_letter(
        TailFile("caf\u00e9 \udcff\n", 1, 2),
        identity="op1:9",
        thread="op1",
        channel=OPS,
        name="kimi.log",
        comment="Whole log:",
        thread_ts=MessageTs("17.1"),
    )
    assert letter.content == b"caf\xc3\xa9 \xff\n"
    outgoing, note = letter.outgoing, letter.outgoing.file
    assert (outgoing.id, outgoing.kind, outgoing.thread, outgoing.thread_ts) == (
        "op1:9",
        "upload",
        "op1",
        "17.1",
    )
    assert outgoing.text == "Whole log: `kimi.log` (1 line, 2 secrets masked)"
    assert note is not None
    assert (note.name, note.title, note.comment, note.lines, note.masked) == (
        "kimi.log",
        "kimi.log",
        outgoing.text,
        1,
        2,
    )


def test_stacks_come_as_a_file_of_their_own() -> None:
    operation = Operation(
        operation=OperationId("op1"),
        service=ServiceName("kimi-k2.5"),
        verb=Verb.RESTART,
        channel=OPS,
        began=BEGAN,
    )
    letter = stacks_letter("=== TP0\n\nmain\n", 1, identity="op1:4", operation=operation)
    assert letter.content == b"=== TP0\n\nmain\n"
    assert letter.outgoing.text == "Where 1 rank stood in the code: `stacks.txt`"
    assert (letter.outgoing.id, letter.outgoing.thread, letter.outgoing.channel) == ("op1:4", "op1", OPS)
    assert letter.outgoing.file is not None
    assert letter.outgoing.file.name == "stacks.txt"


def test_what_is_told_once_in_a_start_says_so_to_slack() -> None:
    ended = PhaseFinished(PhaseId.WEIGHTS, Role.DRAFT, timedelta(minutes=1))
    assert name_told(ended, "abc") == "weights/draft@abc"
    hit = Hit("oom", ("a line",), 0)
    assert name_told(MarkerSeen(hit), "abc") == name_told(MarkerSeen(replace(hit, others=3)), "abc")
    assert name_told(MarkerSeen(hit), "abc") != name_told(MarkerSeen(replace(hit, lines=("b",))), "abc")
    assert name_told(Noticed("again"), "abc") == ""
    reply = reply_message(PostReply(1, ended), VIEW, channel=OPS, run="abc")
    assert reply.tags == {"tells": "weights/draft@abc"}
    assert reply_message(PostReply(1, Noticed("again")), VIEW, channel=OPS, run="abc").tags == {}
