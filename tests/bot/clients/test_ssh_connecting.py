"""How a connection is made; why there is none is tested where it is asked for, with the link."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bot.clients.ssh_connecting import Door
from bot.errors import HostUnreachable
from tests.support.ssh import serve

if TYPE_CHECKING:
    from pathlib import Path


async def test_what_is_offered_to_a_host(tmp_path: Path) -> None:
    """One key and nothing else: no agent, no password, no keyboard, no ticket."""
    async with serve(tmp_path) as server:
        options = Door(server.name, server.section(), timeout=5, keepalive=7).options()
        assert not options.agent_path
        assert list(options.preferred_auth) == ["publickey"]
        assert not options.password_auth
        assert not options.kbdint_auth
        assert not options.gss_auth
        assert not options.gss_kex
        assert {b"chacha20-poly1305@openssh.com", b"aes256-ctr"} < set(options.encryption_algs)
        assert (options.keepalive_interval, options.keepalive_count_max) == (7, 3)


async def test_the_end_of_a_connection_is_told(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        lost = asyncio.Event()
        connection = await Door(server.name, server.section(), timeout=5, keepalive=5).connect(lost.set)
        assert not lost.is_set()
        server.cut()
        await connection.wait_closed()
        assert lost.is_set()


async def test_a_host_that_is_away(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        section = server.section()
    with pytest.raises(HostUnreachable, match="refuses connections"):
        await Door(server.name, section, timeout=5, keepalive=5).connect(lambda: None)
