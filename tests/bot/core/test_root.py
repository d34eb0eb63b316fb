"""The root among suspects, whatever order they came in."""

from __future__ import annotations

import pytest

from bot.core.events import MAIN_RANK, PhaseId, Rank, Role
from bot.core.root import find_root, lasting, tell_all, tell_another
from bot.core.suspect import Suspect

NCCL = "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
ANNOUNCED = "Scheduler hit an exception: Traceback (most recent call last):"


def suspect(text: str, rank: str = MAIN_RANK, **changes: bool) -> Suspect:
    made = Suspect(Rank(rank), PhaseId.WEIGHTS, Role.TARGET, [text])
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_the_earliest_that_follows_from_no_other_is_the_root() -> None:
    peer, first, later = suspect("EOFError", secondary=True), suspect("KeyError: 'a'"), suspect(OOM)
    assert find_root([peer, first, later]) is first
    assert find_root([peer]) is peer
    assert find_root([]) is None


def test_what_was_only_announced_is_one_for_want_of_better() -> None:
    announced, told = suspect(ANNOUNCED, fatal=True), suspect("KeyError: 'a'")
    assert find_root([announced, told]) is told
    assert find_root([announced]) is announced


def test_what_a_rank_says_it_lost_tells_more_than_that_another_hit_something() -> None:
    lost = suspect("RuntimeError: Connection closed by peer", "TP1", fatal=True, secondary=True)
    lost.lines.append(ANNOUNCED)
    announced, end = suspect(ANNOUNCED, "TP0", fatal=True), suspect("SIGQUIT", fatal=True, secondary=True)
    assert find_root([lost, end, announced]) is lost
    assert find_root([end, announced]) is announced


def test_what_was_outlived_is_one_for_want_of_better() -> None:
    outlived, killed = suspect("KeyError: 'a'", outlived=True), suspect("Killed", fatal=True, secondary=True)
    assert find_root([outlived, killed]) is killed
    assert tell_all([outlived, killed]) == ["Killed"]
    assert lasting([outlived, killed]) == []
    assert find_root([outlived]) is outlived


@pytest.mark.parametrize(
    ("reason", "rank", "found"),
    [
        (OOM, "TP5", 1),
        (OOM, "TP0", 0),
        ("Fatal Python error: Segmentation fault", "TP5", 0),
        ("ValueError: x", "TP5", 0),
    ],
)
def test_a_rank_that_lost_another_may_have_been_quicker_to_say_so(reason: str, rank: str, found: int) -> None:
    suspects = [suspect(NCCL, "TP0", fatal=True), suspect(reason, rank, fatal=True)]
    assert find_root(suspects) is suspects[found]


@pytest.mark.parametrize(
    ("warning", "found"),
    [
        ("h:1:1 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9 bytes", 1),
        ("h:1:1 [0] misc/socket.cc:59 NCCL WARN socketProgress: Connection closed by remote peer h<5>", 2),
        ("h:1:1 [0] init.cc:12 NCCL WARN NCCL_X is odd", 2),
    ],
)
def test_what_nccl_itself_explains_follows_from_no_other_rank(warning: str, found: int) -> None:
    suspects = [suspect(warning, "TP0", warning=True), suspect(NCCL, "TP0"), suspect(OOM, "TP5")]
    assert find_root(suspects) is suspects[found]


def test_a_second_failure_apart_from_the_root_is_told() -> None:
    root, other = suspect("OSError: [Errno 28] No space left on device", "TP0"), suspect(OOM, "TP3")
    told, rank = tell_another([root, other], root) or ("", None)
    assert told.startswith("TP3: Out of GPU memory")
    assert rank == "TP3"
    assert tell_another([root], root) is None
