"""What is told over HTTP, and from when to when."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
import pytest
from structlog.testing import capture_logs

from bot.errors import ConfigurationInvalid
from bot.health import HealthServer
from bot.vitals import Part, Report
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GOOD = Part("redis", good=True, words="answers")
GONE = Part("redis", good=False, words="has not answered for 7 s")
STUCK = Part("outbox", good=False, words="has not looked for 90 s", fatal=True)


@dataclass
class Told:
    parts: tuple[Part, ...] = (GOOD,)
    servers: list[HealthServer] = field(default_factory=list)

    async def serve(self, listen: str) -> HealthServer:
        server = HealthServer(
            listen, report=lambda: Report(self.parts), metrics=lambda: (b"kimi_up 1\n", "text/plain")
        )
        self.servers.append(server)
        await server.start()
        return server


@pytest.fixture
async def told() -> AsyncIterator[Told]:
    told = Told()
    yield told
    for server in told.servers:
        await server.close()
        await server.close()


async def ask(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
        return response.status, await response.text()


async def serve(told: Told) -> int:
    with capture_logs() as logs:
        await told.serve("127.0.0.1:0")
    return int(next(fact["port"] for fact in logs if fact["event"] == "health_told"))


@pytest.mark.parametrize(
    ("parts", "alive", "ready"),
    [((GOOD,), 200, 200), ((GONE,), 200, 503), ((GOOD, STUCK), 503, 503)],
)
async def test_who_restarts_and_who_routes_get_their_own_answers(
    told: Told, parts: tuple[Part, ...], alive: int, ready: int
) -> None:
    port = await serve(told)
    told.parts = parts
    status, body = await ask(port, "/healthz")
    assert status == alive
    assert (await ask(port, "/readyz"))[0] == ready
    answer = json.loads(body)
    assert (answer["alive"], answer["ready"]) == (alive == 200, ready == 200)
    assert answer["problems"] == [f"{part.name}: {part.words}" for part in parts if not part.good]
    assert answer["parts"] == {part.name: {"good": part.good, "words": part.words} for part in parts}


async def test_metrics_are_shown_as_they_are_and_nothing_else_is_there(told: Told) -> None:
    port = await serve(told)
    assert await ask(port, "/metrics") == (200, "kimi_up 1\n")
    assert (await ask(port, "/"))[0] == 404


async def test_it_can_be_turned_off(told: Told) -> None:
    with capture_logs() as logs:
        await told.serve("")
    assert logs == []


async def test_a_port_that_the_former_process_still_has_is_taken_over(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.health._AGAIN", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as former, capture_logs() as logs:
        port = former.getsockname()[1]
        await told.serve(f"127.0.0.1:{port}")
        assert [fact["event"] for fact in logs] == ["health_port_taken"]
    with capture_logs() as logs:
        await until(lambda: [fact["event"] for fact in logs] == ["health_told"])
    assert (await ask(port, "/healthz"))[0] == 200


async def test_an_address_that_is_not_ours_is_a_fault_of_the_configuration(told: Told) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"health\.listen: 192\.0\.2\.1:8970: "):
        await told.serve("192.0.2.1:8970")
