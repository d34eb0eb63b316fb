"""A log's shape by its first lines."""

from __future__ import annotations

import pytest

from bot.core.transcript_formats import SHORT_HEADER, Format, find_outer, recognise

PLAIN = "[2026-05-29 23:49:47 TP5] Load weight begin. avail mem=77.0 GB"
BAR = "Capturing batches (bs=8 avail_mem=8.01 GB):  50%|#####     | 12/24 [00:05<00:05,  2.30it/s]"
STATUS = [
    "● kimi.service - Kimi",
    "     Loaded: loaded (/etc/systemd/system/kimi.service; enabled; preset: enabled)",
    "     Active: failed (Result: exit-code) since Fri 2026-05-29 23:49:47 UTC; 2min ago",
    "   Main PID: 4711 (code=exited, status=1/FAILURE)",
    "        CPU: 16.4s",
    "",
]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ([], Format.PLAIN),
        (["", "  "], Format.PLAIN),
        ([PLAIN, BAR], Format.PLAIN),
        (["INFO 05-29 23:49:47 [core.py:1] x | y"], Format.PLAIN),
        (["2026-05-29 23:49:47,180 - INFO - flashinfer.jit: x"], Format.PLAIN),
        (["2026-05-29T23:49:47.000000Z  INFO text_generation_launcher: x"], Format.PLAIN),
        (["May 29 23:49:47 llm-two python3[4711]: x"], Format.SHORT),
        (["May  9 23:49:47.123456 llm-two python3[4711]: x"], Format.SHORT),
        (["2026-05-29T23:49:47+0000 llm-two python3[4711]: x"], Format.SHORT),
        (["2026-05-29T23:49:47.123456+00:00 llm-two python3: x"], Format.SHORT),
        (["Fri 2026-05-29 23:49:47 CEST llm-two sglang-kimi.service[4711]: x"], Format.SHORT),
        (["1780098587.123456 llm-two python3[4711]: x"], Format.SHORT),
        (["[ 1234.567890] llm-two python3[4711]: x"], Format.SHORT),
        (["-- Boot 0123 --", "May 29 23:49:47 llm-two python3[4711]: x"], Format.SHORT),
        (['{"__CURSOR":"s=1","MESSAGE":"x"}'], Format.JSON),
        (['{ "_PID" : "1", "MESSAGE" : [1] }'], Format.JSON),
        (['\x1e{"MESSAGE":"x"}'], Format.JSON),
        (['data: {"MESSAGE":"x"}', ""], Format.JSON),
        (["{", '\t"__CURSOR" : "s=1",', "}"], Format.JSON),
        (["__CURSOR=s=1;i=2", "MESSAGE=x"], Format.EXPORT),
        (["Fri 2026-05-29 23:49:47.1 CEST [s=ab;i=1;x=4]", "    MESSAGE=x"], Format.VERBOSE),
        (["-- Boot 1 --", "Fri 2026-05-29 23:49:47.1 +02 [s=ab;i=1]", "    MESSAGE=x"], Format.VERBOSE),
        (['{"log":"x\\n","stream":"stderr","time":"2026-05-29T23:49:47.1Z"}'], Format.DOCKER_JSON),
        (["2026-05-29T23:49:47.123456789Z x"], Format.DOCKER),
        (["2026-05-29T23:49:47.123456789Z"], Format.DOCKER),
        ([*["2026-05-29T23:49:47.123456789Z x"] * 3, *[PLAIN] * 9], Format.DOCKER),
        (["2026-05-29T23:49:47.123456789Z x", PLAIN, PLAIN], Format.PLAIN),
        (["2026-05-29T23:49:47.123456789Z stderr F x"], Format.KUBERNETES),
        (["timestamp,message", "1780098587120,x", '1780098587121,"x, y"'], Format.CSV),
        (["sglang-1  | x", "redis-1   | y", "odd"], Format.COMPOSE),
        (["\x1b[36msglang-1  |\x1b[0m x"], Format.COMPOSE),
        (["[pod/kimi-0/engine] x"], Format.COMPOSE),
        (["# kimi-bot log: 1 line, 0 secrets masked", "- - x: y"], Format.TAIL),
        (['{"level":"info","msg":"x"}'], Format.JSON_LINES),
        (['{"timestamp":"x","fields":{"message":"x"},"target":"x"}'], Format.JSON_LINES),
        (['{"level":"info","count":7}'], Format.PLAIN),
        (["2026-05-29T23:49:47.000000Z ERROR text_generation_launcher: x"] * 9, Format.PLAIN),
        (
            [f"2026-05-29T23:49:47Z {word} weights: x" for word in ("Loading", "Reading", "Using", "Set")],
            Format.PLAIN,
        ),
        ([*STATUS, *["May 29 23:49:47 llm-two python3[4711]: x"] * 4], Format.SHORT),
        (["May 29 23:49:47 llm-two (sglang)[4711]: x"], Format.SHORT),
        (["May 29 23:49:47 llm-two python3[4711]: x", PLAIN, PLAIN], Format.PLAIN),
    ],
)
def test_the_format_of_a_log(head: list[str], kind: Format) -> None:
    assert recognise(head) is kind


@pytest.mark.parametrize("outer", ["> ", "    ", "{}:", "{}-", "    {}\t"])
def test_what_a_persons_tool_put_before_each_line_of_a_journal(outer: str) -> None:
    journal = [f"May 29 23:49:{each} llm-two python3[4711]: x" for each in range(10, 20)]
    head = [outer.format(number) + line for number, line in enumerate(journal, start=98)]
    found = find_outer(head)
    assert found is not None
    assert [found.sub(b"", line.encode(), count=1).decode() for line in head] == journal


def test_a_log_that_shows_its_format_has_nothing_before_it() -> None:
    assert find_outer(["May 29 23:49:47 llm-two python3[4711]: x"]) is None
    assert find_outer(["    x", "    y"]) is None
    assert find_outer([]) is None


@pytest.mark.parametrize(
    ("line", "ident", "pid", "text"),
    [
        ("May 29 23:49:47 llm-two systemd[1]: Started x.", "systemd", "1", "Started x."),
        ("May 29 23:49:47 llm-two kernel: NVRM: Xid", "kernel", None, "NVRM: Xid"),
        ("May 29 23:49:47 llm-two python3[4711]:", "python3", "4711", ""),
        ("May 29 23:49:47 llm-two python3[4711]:  two  blanks ", "python3", "4711", " two  blanks "),
        ("May 29 23:49:47 h user@1000.service/a b.service[9]: x", "user@1000.service/a b.service", "9", "x"),
    ],
)
def test_the_header_of_a_short_line(line: str, ident: str, pid: str | None, text: str) -> None:
    found = SHORT_HEADER.match(line)
    assert found is not None
    assert (found["ident"], found["pid"], line[found.end() :]) == (ident, pid, text)
