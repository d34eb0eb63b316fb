"""Owners' names: dead only where it is certain."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from bot.clients.identity import is_dead, new_owner

if TYPE_CHECKING:
    from collections.abc import Iterator

SAY = (
    "from bot.clients.identity import new_owner; import sys; print(new_owner(), flush=True); sys.stdin.read()"
)


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def named(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_each_name_is_its_own() -> None:
    assert new_owner() != new_owner()
    assert not is_dead(new_owner())


def test_a_process_lives_until_it_is_killed(other: subprocess.Popen[str]) -> None:
    owner = named(other)
    assert not is_dead(owner)
    other.kill()
    other.wait()
    assert is_dead(owner)


def test_what_a_parent_has_not_buried_yet_is_dead(other: subprocess.Popen[str]) -> None:
    owner = named(other)
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(owner)


def test_a_number_that_was_given_away_again_is_another_process() -> None:
    identity, _, _ = new_owner().rpartition("/")
    assert is_dead(f"{identity}/1")


@pytest.mark.parametrize("part", ["boot", "namespace"])
def test_of_another_machine_or_container_nothing_is_certain(other: subprocess.Popen[str], part: str) -> None:
    name, _, place = named(other).partition("@")
    boot, namespace, pid, start = place.split("/")
    other.kill()
    other.wait()
    elsewhere = f"{name}@{boot}/{namespace}/{pid}/{start}".replace(
        boot if part == "boot" else f"/{namespace}/", "elsewhere" if part == "boot" else "/1/"
    )
    assert is_dead(f"{name}@{boot}/{namespace}/{pid}/{start}")
    assert not is_dead(elsewhere)


@pytest.mark.parametrize(
    "owner", ["", "me", "me@", "a@b/c/d/e", "a@b/c/99999999999999999999/1", "a@-/-/1/-", "a@b/c/d"]
)
def test_an_unknown_name_is_not_certain(owner: str) -> None:
    assert not is_dead(owner)


def test_what_the_kernel_does_not_tell_is_not_certain() -> None:
    boot_namespace_pid, _, _ = new_owner().rpartition("/")
    assert not is_dead(f"{boot_namespace_pid}/-")


def test_another_user_s_process_lives() -> None:
    """Number 1 is there for as long as anything is, whoever runs it."""
    place = new_owner().rpartition("@")[2].split("/")
    with open("/proc/1/stat", encoding="utf-8") as stat:  # noqa: PTH123 - one line
        start = stat.read().rpartition(")")[2].split()[19]
    assert not is_dead(f"x@{place[0]}/{place[1]}/1/{start}")
