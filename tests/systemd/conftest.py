"""The real host, booted once for all tests here, and each test beginning with a stopped, healthy engine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from bot.clients.ssh import Host
from tests.systemd.real_host import STRANGER, RealHost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/systemd" in item.path.as_posix():
            item.add_marker(pytest.mark.systemd)
            item.add_marker(pytest.mark.timeout(600))  # the first run bootstraps a Debian


@pytest.fixture(scope="session")
def booted_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHost]:
    if os.geteuid() != 0:
        pytest.skip("booting a host in a container needs root: run `sudo make test-systemd`")
    folder: Path = tmp_path_factory.mktemp("real-host")
    host = RealHost(folder)
    try:
        host.boot()
        yield host
    finally:
        host.shut_down()


@pytest.fixture
async def real_host(booted_host: RealHost) -> RealHost:
    """The host with its unit stopped and a healthy scenario set."""
    await booted_host.reset()
    return booted_host


@pytest.fixture
async def host(real_host: RealHost) -> AsyncIterator[Host]:
    """The bot's way to it, as the user the operators' guide asks for."""
    host = Host(real_host.name, real_host.section)
    yield host
    await host.close()


@pytest.fixture
async def stranger(real_host: RealHost) -> AsyncIterator[Host]:
    """The bot's way to it as a user who may log in and nothing else."""
    host = Host(real_host.name, real_host.section_of(STRANGER))
    yield host
    await host.close()
