"""The practice engine over HTTP: closed, loading, warming up, serving."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from bot.clock import Clock
from bot.practice.engine import Engine, Manners, ServerStatus
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CHAT = "/v1/chat/completions"
ASK = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 12}


@asynccontextmanager
async def new_engine(
    *, opened: bool = True, api_key: str | None = None, manners: Manners | None = None
) -> AsyncIterator[tuple[Engine, aiohttp.ClientSession]]:
    engine = Engine(Clock(500), "kimi-k2.5", api_key, manners or Manners())
    engine.reserve()
    try:
        if opened:
            await engine.open(pid=7, cgroup="/system.slice/a.service")
        async with aiohttp.ClientSession(engine.url) as session:
            yield engine, session
    finally:
        await engine.close()
        engine.release()


async def status(session: aiohttp.ClientSession, path: str, **options: Any) -> int:
    async with session.get(path, **options) as answer:
        await answer.read()
        return answer.status


async def test_the_port_refuses_until_it_is_opened_and_after_it_is_closed() -> None:
    async with new_engine(opened=False) as (engine, session):
        with pytest.raises(aiohttp.ClientConnectorError, match="Cannot connect"):
            await session.get("/health")
        port = engine.port
        for _ in range(2):
            await engine.open(pid=7, cgroup="/")
            assert await status(session, "/ping") == 200
            await engine.close()
            await engine.close()
            assert not engine.listening
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.get("/ping")
        assert engine.port == port


async def test_models_answer_while_it_warms_up_and_health_does_not() -> None:
    async with new_engine() as (engine, session):
        assert await status(session, "/health") == 503
        async with session.get("/v1/models") as answer:
            assert [card["id"] for card in (await answer.json())["data"]] == ["kimi-k2.5"]
        engine.status = ServerStatus.UP
        assert await status(session, "/health") == 200
        assert await status(session, "/health_generate") == 200
        for later in (ServerStatus.UNHEALTHY, ServerStatus.STOPPING):
            engine.status = later
            assert await status(session, "/health") == 503
            assert await status(session, "/model_info") == 200
        assert await status(session, "/nonsense") == 404


async def test_a_key_guards_all_but_health() -> None:
    async with new_engine(api_key="k") as (engine, session):
        engine.status = ServerStatus.UP
        assert await status(session, "/health") == 200
        assert await status(session, "/v1/models") == 401
        assert await status(session, "/v1/models", headers={"Authorization": "Bearer wrong"}) == 401
        assert await status(session, "/v1/models", headers={"Authorization": "Bearer k"}) == 200


async def test_a_completion_whole_and_streamed() -> None:
    async with new_engine() as (engine, session):
        engine.status = ServerStatus.UP
        async with session.post(CHAT, json=ASK) as answer:
            whole = await answer.json()
        assert whole["usage"]["completion_tokens"] == 12
        assert whole["choices"][0]["message"]["reasoning_content"]
        async with session.post(CHAT, json={**ASK, "stream": True}) as answer:
            assert answer.content_type == "text/event-stream"
            events = [line[6:] for line in (await answer.text()).splitlines() if line]
        assert events[-1] == "[DONE]"
        chunks = [json.loads(event) for event in events[:-1]]
        assert len(chunks) == 1 + 12 + 2
        assert chunks[-1]["usage"]["completion_tokens"] == 12
        assert chunks[-2]["choices"][0]["finish_reason"] == "length"
        assert engine.requested.is_set()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"max_tokens": "many"}', b'{"max_tokens": [1]}'])
async def test_a_bad_request_is_told(body: bytes) -> None:
    async with new_engine() as (engine, session):
        async with session.post(CHAT, data=body) as answer:
            assert answer.status == 400
        assert not engine.requested.is_set()


async def test_who_dies_at_a_request_never_answers_it() -> None:
    async with new_engine() as (engine, session):
        engine.dying = True
        asking = asyncio.create_task(session.post(CHAT, json=ASK))
        await asyncio.wait_for(engine.requested.wait(), 60)
        await engine.close()
        with pytest.raises(aiohttp.ClientConnectionError):
            await asking


async def test_a_port_that_somebody_listens_on_is_in_use() -> None:
    async with new_engine() as (engine, session):
        other = Engine(engine.clock, "kimi-k2.5", port=engine.port)
        with pytest.raises(OSError, match="in use"):
            await other.open(pid=8, cgroup="/")
        assert not other.listening
        assert await status(session, "/ping") == 200


async def test_access_lines_are_handed_on() -> None:
    async with new_engine() as (engine, session):
        lines: list[str] = []
        engine.on_access = lines.append
        await status(session, "/health")
        assert len(lines) == 1
        assert lines[0].endswith('"GET /health HTTP/1.1" 503 Service Unavailable')


async def test_unkind_manners() -> None:
    async with new_engine(manners=Manners(models=("other",), empty=True)) as (_, session):
        async with session.get("/v1/models") as answer:
            assert [card["id"] for card in (await answer.json())["data"]] == ["other"]
        async with session.post(CHAT, json=ASK) as answer:
            assert (await answer.json())["choices"][0]["message"]["content"] is None
    async with new_engine(manners=Manners(rubbish=True)) as (_, session):
        with pytest.raises(aiohttp.ClientError):
            await session.get("/health")
    async with new_engine(manners=Manners(silent=True)) as (engine, session):
        asking = asyncio.create_task(session.get("/health"))
        await until(lambda: engine.connected)
        assert not asking.done()
        await engine.close()
        with pytest.raises(aiohttp.ClientConnectionError):
            await asking


@pytest.mark.parametrize(("speed", "haste"), [(1, 1), (15, 1), (20, 1), (200, 10)])
async def test_tokens_come_at_their_true_pace_up_to_a_demos_speed(speed: float, haste: float) -> None:
    assert Engine(Clock(speed), "m").haste == haste
