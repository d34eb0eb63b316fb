"""Who wrote a line: by tag, by number, by process."""

from __future__ import annotations

import pytest

from bot.core.events import MAIN_RANK, Member, Rank
from bot.core.ranks import MOST_PROCESSES, MOST_RANKS, RankMemory, Said, in_order, read_parts, read_rank
from config.engine_file import load_engine

ENGINE = load_engine("sglang")
HERE = Member("llm-two/sglang.service")
STAMP = "2026-05-29 23:49:47"


def rank_of(reading: str, memory: RankMemory | None = None, pid: int | None = None) -> Rank:
    said = read_parts(ENGINE, reading)[-1]
    return read_rank(memory or RankMemory(), said, pid=pid, member=HERE)


@pytest.mark.parametrize(
    ("reading", "rank", "text"),
    [
        (f"[{STAMP} TP5] hello", "TP5", "hello"),
        (f"[{STAMP}.123 TP5] hello", "TP5", "hello"),
        (f"[{STAMP} DP0 TP5] hello", "DP0 TP5", "hello"),
        (f"[{STAMP} DP1 TP3 EP3] hello", "DP1 TP3 EP3", "hello"),
        (f"[{STAMP} DP0 PP1 ATTN_CP2 MOE_DP3 TP4 EP5] x", "DP0 PP1 ATTN_CP2 MOE_DP3 TP4 EP5", "x"),
        (f"[{STAMP}] hello", "main", "hello"),
        (f"[{STAMP} encode_server] hello", "main", "hello"),
        (f"{STAMP} TP0] bracket lost in copying", "TP0", "bracket lost in copying"),
        ("[TP0] no time", "TP0", "no time"),
        ("[23:49:47 TP2] no date", "TP2", "no date"),
        (
            f"{STAMP} INFO 125 [ DP1 TP3 scheduler.py:26] a logger of one's own",
            "DP1 TP3",
            "a logger of one's own",
        ),
        (f"{STAMP} ERROR 125 [ engine.py:26] hello", "main", "hello"),
        ("[gpu=3] before 0.3", "gpu=3", "before 0.3"),
        (f"2026-05-29 23:49:47,531 - launcher - INFO - [{STAMP} TP1] wrapped", "TP1", "wrapped"),
        (
            "[rank6]:[E529 23:50:01.123 ProcessGroupNCCL.cpp:1] boom",
            "TP6",
            "[E529 23:50:01.123 ProcessGroupNCCL.cpp:1] boom",
        ),
        ("[rank6]: ValueError: boom", "TP6", "ValueError: boom"),
        ("plain", "main", "plain"),
        ("", "main", ""),
    ],
)
def test_every_tag_is_read(reading: str, rank: str, text: str) -> None:
    assert rank_of(reading) == rank
    assert read_parts(ENGINE, reading)[-1].text == text


def test_a_bar_before_a_stamp_is_a_line_of_its_own() -> None:
    bar, said = read_parts(ENGINE, f"  0%|   | 0/23 [00:00<?, ?it/s][{STAMP} TP1] Capture cuda graph begin.")
    assert bar == Said("  0%|   | 0/23 [00:00<?, ?it/s]")
    assert (said.tag, said.text) == ("TP1", "Capture cuda graph begin.")


def test_lines_of_one_record_are_read_one_by_one() -> None:
    assert [said.text for said in read_parts(ENGINE, "one\ntwo")] == ["one", "two"]


def test_an_untagged_line_belongs_to_the_process_that_wrote_it() -> None:
    memory = RankMemory()
    assert rank_of(f"[{STAMP} TP5] hello", memory, pid=77) == "TP5"
    assert rank_of("Traceback (most recent call last):", memory, pid=77) == "TP5"
    assert rank_of("Traceback (most recent call last):", memory, pid=78) == MAIN_RANK


def test_a_bare_number_is_the_one_known_rank_with_that_number() -> None:
    memory = RankMemory()
    rank_of(f"[{STAMP} DP1 TP6] hello", memory)
    assert rank_of("[rank6]: boom", memory) == "DP1 TP6"
    rank_of(f"[{STAMP} DP0 TP6] hello", memory)
    assert rank_of("[rank6]: boom", memory) == "TP6"


def test_replicas_with_the_same_tags_are_kept_apart() -> None:
    memory = RankMemory()
    said = read_parts(ENGINE, f"[{STAMP} TP0] hello")[0]
    assert read_rank(memory, said, pid=1, member=Member("one/u.service")) == "TP0"
    assert read_rank(memory, said, pid=1, member=Member("two/u.service")) == "two TP0"
    assert read_rank(memory, Said("x"), pid=1, member=Member("two/u.service")) == "two TP0"


def test_ten_comes_after_nine() -> None:
    assert sorted(map(Rank, ("TP10", "TP9", "DP1 TP2")), key=in_order) == ["DP1 TP2", "TP9", "TP10"]


def test_processes_without_end_are_not_all_remembered() -> None:
    memory = RankMemory()
    for pid in range(2 * MOST_PROCESSES):
        rank_of(f"[{STAMP} TP5] hello", memory, pid)
    assert len(memory.pids) == MOST_PROCESSES
    assert rank_of("no stamp", memory, 2 * MOST_PROCESSES - 1) == "TP5"
    assert rank_of("no stamp", memory, 1) == MAIN_RANK


def test_names_without_end_are_not_all_those_of_ranks() -> None:
    memory = RankMemory()
    told = [rank_of(f"[{STAMP} TP{number}] hello", memory) for number in range(MOST_RANKS + 9)]
    assert (len(memory.owners), told[0], told[-1]) == (MOST_RANKS, "TP0", MAIN_RANK)
    assert rank_of(f"[{STAMP} TP7] hello", memory) == "TP7"


@pytest.mark.parametrize(
    ("stamp", "rank"),
    [
        ("(EngineCore_DP1 pid=3) INFO 05-29 23:49:47 [core.py:58] ", "DP1"),
        ("(EngineCore_1 pid=3) INFO 05-29 23:49:47 [core.py:58] ", "DP1"),
        ("(DPEngineCore_1 pid=3) INFO 05-29 23:49:47 [core.py:58] ", "DP1"),
        ("(EngineCore_1 pid=3) (VllmWorker TP1 pid=4) INFO 05-29 23:49:47 [core.py:58] ", "DP1 TP1"),
        ("(EngineCore_DP1 pid=3) (RayWorkerWrapper pid=4, ip=10.0.0.2) ", "DP1"),
        ("(Worker_DP1_PP0_TP3_EP7 pid=4) ", "DP1 PP0 TP3 EP7"),
        ("(Worker_DP1_EP2 pid=4) ", "DP1 EP2"),
        ("(DP0_TP3 pid=4) ", "DP0 TP3"),
        ("(EngineCore_DP0 pid=3) ", "main"),
        ("(EngineCore pid=3) ", "main"),
        ("(ApiServer_1 pid=3) INFO 05-29 23:49:47 [core.py:58] ", "main"),
        ("(APIServer pid=3) INFO:     ", "main"),
    ],
)
def test_a_core_is_a_rank_where_it_is_not_alone(stamp: str, rank: str) -> None:
    said = read_parts(load_engine("vllm"), f"{stamp}Starting to load model m...")[-1]
    assert said.text.endswith("Starting to load model m...")
    assert read_rank(RankMemory(), said, pid=None, member=HERE) == rank
