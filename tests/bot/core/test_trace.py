"""What two samples of a unit say about its work, and in which words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.core.events import Rank
from bot.core.evidence import Gpu, ProcessSeen, Sample, ShardMapped, read_title
from bot.core.trace import (
    Trace,
    has_moved,
    is_idle,
    is_spinning,
    left_to_read,
    say_evidence,
    say_reading,
    say_shard,
)

BEGAN = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)
MIB, GIB, GIGA = 2**20, 2**30, 10**9


def ranks(*numbers: int) -> tuple[ProcessSeen, ...]:
    return tuple(ProcessSeen(100 + n, f"sglang::scheduler_TP{n}", Rank(f"TP{n}")) for n in numbers)


def gpus(*used: int, load: int | None = 100) -> tuple[Gpu, ...]:
    return tuple(Gpu(index, bytes_, 80 * GIB, load) for index, bytes_ in enumerate(used))


PLAIN = Sample(
    BEGAN,
    cpu=timedelta(),
    memory=3 * GIB,
    tasks=702,
    read=10 * GIGA,
    processes=ranks(0, 1),
    gpus=gpus(74 * GIGA, 74 * GIGA),
    model_size=547 * GIGA,
)


def later(seconds: float, *, cores: float = 0.0, **changes: Any) -> Sample:
    sample = replace(PLAIN, at=BEGAN + timedelta(seconds=seconds), cpu=timedelta(seconds=seconds * cores))
    return replace(sample, **changes)


@pytest.mark.parametrize(
    ("changes", "moved"),
    [
        ({}, False),
        ({"cpu": timedelta(hours=1), "tasks": 900}, False),
        ({"read": 10 * GIGA + MIB}, False),
        ({"read": 11 * GIGA}, True),
        ({"read": None}, False),
        ({"memory": 4 * GIB}, True),
        ({"memory": 2 * GIB}, False),
        ({"gpus": gpus(74 * GIGA, 74 * GIGA + 65 * MIB)}, True),
        ({"gpus": gpus(70 * GIGA, 74 * GIGA)}, True),
        ({"gpus": gpus(74 * GIGA, 74 * GIGA, load=91)}, False),
        ({"gpus": gpus(74 * GIGA, 74 * GIGA, load=90)}, True),
        ({"gpus": gpus(74 * GIGA, 74 * GIGA, load=None)}, False),
        ({"gpus": None}, False),
        ({"shard": ShardMapped(1, 64)}, True),
    ],
)
def test_a_busy_cpu_alone_moves_nothing(changes: dict[str, Any], moved: bool) -> None:
    assert has_moved(PLAIN, later(10, **changes)) is moved


def test_reading_as_numbers_with_speed_and_end() -> None:
    trace = Trace(started=GIGA)
    for seconds, read in ((0, 394), (10, 413)):
        trace.take(later(seconds, read=read * GIGA))
    assert say_reading(trace) == "412 GB of 547 GB read, 1.9 GB/s"
    assert trace.share == pytest.approx(412 / 547)
    assert left_to_read(trace) == timedelta(seconds=135 / 1.9)
    trace.take(later(20, read=413 * GIGA, model_size=None))
    assert say_reading(trace) == "412 GB read, 0.9 GB/s"
    assert left_to_read(trace) is None
    trace.take(later(30, read=None))
    assert say_reading(trace) == ""


def test_more_than_the_model_is_not_measured_against_it() -> None:
    trace = Trace()
    trace.take(later(0, read=800 * GIGA))
    assert say_reading(trace) == "800 GB read"
    assert trace.share == 1.0


def test_a_mapped_shard() -> None:
    trace = Trace()
    trace.take(later(0, shard=ShardMapped(12, 64)))
    assert say_shard(trace) == "shard 12 of 64 is mapped"


def test_ranks_that_spin() -> None:
    trace = Trace()
    for seconds in range(0, 100, 10):
        trace.take(later(seconds, cores=2.0))
    assert is_spinning(trace)
    assert say_evidence(trace) == [
        "CPU 200 %, unchanged: 2 ranks compute or spin",
        "GPU memory unchanged at 74 GB on each of 2 GPUs; utilisation 100 %",
        "nothing read from disk",
        "memory unchanged at 3.0 GiB",
        "2 of 2 rank processes live, 702 tasks",
    ]


@pytest.mark.parametrize(
    ("cores", "load", "reads", "idle"),
    [
        (0.05, 0, 0, True),
        (0.05, None, 0, True),
        (0.2, 0, 0, False),
        (0.05, 100, 0, False),
        (0.05, 0, GIGA, False),
    ],
)
def test_ranks_that_wait_for_what_is_not_theirs(
    cores: float, load: int | None, reads: int, *, idle: bool
) -> None:
    trace = Trace()
    for seconds in range(0, 100, 10):
        read = 10 * GIGA + reads * seconds
        trace.take(later(seconds, cores=cores, gpus=gpus(74 * GIGA, load=load), read=read))
    assert is_idle(trace) is idle
    assert not is_idle(Trace())


def test_evidence_with_directions() -> None:
    trace = Trace()
    for seconds in range(0, 60, 10):
        trace.take(later(seconds, cores=4.0))
    moved: dict[str, Any] = {"read": 12 * GIGA, "memory": 5 * GIB, "gpus": gpus(76 * GIGA, 74 * GIGA)}
    for seconds in range(60, 130, 10):
        trace.take(replace(later(seconds, **moved), cpu=timedelta(seconds=200 + seconds / 10)))
    assert say_evidence(trace)[:4] == [
        "CPU 177 %, falling",
        "GPU memory 74 GB to 76 GB on 2 GPUs, 2.0 GB more in all; utilisation 100 %",
        "2.0 GB read from disk",
        "memory 5.0 GiB, 2.0 GiB more",
    ]
    trace.mark(BEGAN + timedelta(seconds=125))
    assert "nothing read from disk" in say_evidence(trace)


def test_what_moved_before_the_last_progress_is_not_told_as_moving() -> None:
    trace = Trace()
    trace.take(replace(later(0), gpus=gpus(60 * GIGA)))
    trace.take(replace(later(10), gpus=gpus(60 * GIGA)))
    trace.mark(BEGAN + timedelta(seconds=15))  # KV memory is allocated, and its phase ends
    trace.take(replace(later(14), gpus=gpus(63 * GIGA)))  # was under way meanwhile
    for seconds in (20, 30, 40):
        trace.take(replace(later(seconds), gpus=gpus(74 * GIGA)))
    assert "GPU memory unchanged at 74 GB; utilisation 100 %" in say_evidence(trace)


def test_nothing_measured_is_nothing_said() -> None:
    trace = Trace()
    assert say_evidence(trace) == []
    trace.take(Sample(BEGAN))
    assert say_evidence(trace) == []
    assert not is_spinning(trace)


def test_a_rank_is_gone_while_others_live() -> None:
    trace = Trace()
    trace.take(later(0))
    trace.take(later(10, processes=ranks(0)))
    trace.take(later(20, processes=ranks(0)))
    assert trace.gone == {"TP1": BEGAN + timedelta(seconds=10)}
    trace.take(later(30))
    assert trace.gone == {}


def test_with_all_ranks_gone_the_unit_tells_why() -> None:
    trace = Trace()
    trace.take(later(0))
    trace.take(later(10, processes=()))
    assert trace.gone == {}
    trace.take(later(20, processes=None))
    assert trace.gone == {}


def test_a_rank_under_another_title_is_not_gone() -> None:
    trace = Trace()
    trace.take(later(0))
    renamed = ProcessSeen(101, "sglang::scheduler_TP1_EP1", Rank("TP1 EP1"))
    trace.take(later(10, processes=(*ranks(0), renamed)))
    assert trace.gone == {}
    assert set(trace.ranks) == {"TP0", "TP1 EP1"}


def named(*titles: str) -> tuple[ProcessSeen, ...]:
    return tuple(
        ProcessSeen(100 + place, title, read_title(title), leads="EngineCore" in title)
        for place, title in enumerate(titles)
    )


CORES = named("VLLM::EngineCore_DP0", "VLLM::EngineCore_DP1")
TEAMS = named(
    *(f"VLLM::{name}" for name in ("EngineCore_DP0", "EngineCore_DP1", "Worker_DP0_TP0", "Worker_DP1_TP0"))
)


@pytest.mark.parametrize("processes", [CORES, TEAMS, named("VLLM::DPEngineCore_0", "VLLM::DPEngineCore_1")])
def test_a_core_is_gone_while_others_live(processes: tuple[ProcessSeen, ...]) -> None:
    trace = Trace()
    trace.take(later(0, processes=processes))
    left = tuple(each for each in processes if each.rank != "DP1")
    for seconds in (10, 20):
        trace.take(later(seconds, processes=left))
    assert trace.gone == {"DP1": BEGAN + timedelta(seconds=10)}
    assert trace.living == len(left)
    assert f"{len(left)} of {len(processes)} rank processes live" in say_evidence(trace)[-1]


def test_a_core_that_is_alone_is_no_rank() -> None:
    trace = Trace()
    core, *workers = named("VLLM::EngineCore_DP1", "VLLM::Worker_DP1_TP0", "VLLM::Worker_DP1_TP1")
    trace.take(later(0, processes=(core, *workers)))
    trace.take(later(10, processes=tuple(workers)))
    assert (trace.gone, trace.living) == ({}, 2)
    trace.take(later(20, processes=(core,)))
    assert trace.gone == {}


def test_who_only_leads_needs_not_compute() -> None:
    trace = Trace()
    for step in range(8):
        trace.take(later(step * 10, cores=2.0, processes=TEAMS))
    assert is_spinning(trace)
    assert any("2 ranks compute or spin" in each for each in say_evidence(trace))
    alone = Trace()
    for step in range(8):
        alone.take(later(step * 10, cores=2.0, processes=CORES))
    assert is_spinning(alone)


def test_cores_may_give_their_workers_the_same_names() -> None:
    alike = named(*("VLLM::EngineCore_DP0", "VLLM::EngineCore_DP1"), *["VLLM::Worker_TP0"] * 2)
    assert later(0, processes=alike).ranks == {"DP0": 100, "DP1": 101, "pid102 TP0": 102, "pid103 TP0": 103}
    trace = Trace()
    trace.take(later(0, processes=alike))
    assert (trace.living, trace.at_work) == (4, 2)
    trace.take(later(10, processes=alike[:3]))
    assert trace.gone == {"pid103 TP0": BEGAN + timedelta(seconds=10)}


def test_what_a_rank_forked_is_no_rank_of_its_own() -> None:
    trace = Trace()
    trace.take(later(0))
    forked = ProcessSeen(300, "sglang::scheduler_TP1", Rank("TP1"))
    trace.take(later(10, processes=(*ranks(0, 1), forked)))
    assert trace.ranks == {"TP0": 100, "TP1": 101}
    trace.take(later(20))
    assert trace.gone == {}
