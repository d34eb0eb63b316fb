"""What an engine answers, and everything else that may answer on its port."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

from bot.clients.probe import NotOffered, Probe, parse_models
from bot.core.events import ProbeAnswer
from bot.core.monitor_events import LoadSeen
from config.services import ServiceSection
from tests.support.http_engine import COMPLETION, HttpEngine, reply, serve_http
from tests.support.ssh import Said, SshServer, connect, hang, serve

if TYPE_CHECKING:
    from pathlib import Path

    from bot.clients.ssh import Host

UNIT = "sglang-kimi.service"


def section(url: str, **changes: Any) -> ServiceSection:
    member = {} if "members" in changes else {"host": "llm-two", "unit": UNIT}
    plain = {"url": url, "reach": "direct", "model": "kimi-k2.5"}
    return ServiceSection.model_validate({**member, **plain, **changes})


async def check(
    engine: HttpEngine | str,
    *,
    api_key: str | None = None,
    host: Host | None = None,
    timeout: float = 5,  # noqa: ASYNC109  handed on to the probe
    **changes: Any,
) -> ProbeAnswer:
    url = engine if isinstance(engine, str) else engine.url
    return await Probe(section(url, **changes), host=host, api_key=api_key, timeout=timeout).check()


def unused_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


async def test_a_healthy_engine() -> None:
    async with serve_http() as engine:
        engine.healthy()
        assert await check(engine) == ProbeAnswer(health=200, models=("kimi-k2.5",), models_status=200)
        assert [request.path for request in engine.requests] == ["/health", "/v1/models"]
        assert "authorization" not in engine.requests[1].headers


async def test_the_key_goes_to_the_models_alone() -> None:
    async with serve_http() as engine:
        engine.healthy()
        await check(engine, api_key="secret-key")
        assert "authorization" not in engine.requests[0].headers
        assert engine.requests[1].headers["authorization"] == "Bearer secret-key"


async def test_warming_up() -> None:
    async with serve_http() as engine:
        engine.healthy()
        engine.answers["/health"] = reply(503, b"")
        answer = await check(engine)
        assert (answer.health, answer.models, answer.error) == (503, ("kimi-k2.5",), None)


@pytest.mark.parametrize(
    ("key", "part"), [(None, "wants an API key"), ("wrong", "does not accept the API key")]
)
async def test_a_missing_or_wrong_key(key: str | None, part: str) -> None:
    async with serve_http() as engine:
        engine.healthy()
        engine.answers["/v1/models"] = reply(401, {"error": "Unauthorized"})
        answer = await check(engine, api_key=key)
        assert (answer.health, answer.models, answer.models_status) == (200, None, 401)
        assert part in str(answer.error)
        assert "api_key_env" in str(answer.error)


@pytest.mark.parametrize(
    ("body", "models"),
    [
        (b'{"data":[{"id":"a"},{"id":"b"}]}', ("a", "b")),
        (b'{"data":[]}', ()),
        (b'{"data":[{"name":"a"},7,null,{"id":5}]}', ()),
        (b'{"data":{}}', None),
        (b"[]", None),
        (b"null", None),
        (b"", None),
        (b"\xff\xfe", None),
        (b"<html>", None),
        (b"[" * 100_000, None),
    ],
)
def test_lists_of_models(body: bytes, models: tuple[str, ...] | None) -> None:
    assert parse_models(body) == models


async def test_models_that_are_no_list() -> None:
    async with serve_http() as engine:
        engine.healthy()
        engine.answers["/v1/models"] = reply(200, b"<html>nginx</html>")
        answer = await check(engine)
        assert (answer.health, answer.models, answer.models_status) == (200, None, 200)
        assert answer.error == "/v1/models answered what is no list of models"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"", "hung up without an answer"),
        (b"220 mail ready\r\n\r\n", "answered what is not HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "hung up without an answer"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "answered what is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf", "broke off in the middle of its answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "hung up without an answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "answered what is not HTTP"),
        (reply(200, b"x" * (2 << 20)), "answered with more than 1 MB"),
    ],
)
async def test_rubbish_on_the_port(said: bytes, error: str) -> None:
    async with serve_http() as engine:
        engine.answers["/health"] = said
        answer = await check(engine)
        assert answer.health is None
        assert answer.error == error


async def test_headers_without_end() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-Filler: " + b"x" * 8000 + b"\r\n")
            await writer.drain()

    async with serve_http() as engine:
        engine.answers["/health"] = endless
        assert (await check(engine)).error == "answered what is not HTTP"


async def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    async with serve_http() as engine:
        engine.healthy()
        engine.answers["/health"] = b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n"
        assert (await check(engine)).health == 302
        assert [request.path for request in engine.requests] == ["/health", "/v1/models"]


async def test_nobody_listens() -> None:
    answer = await check(f"http://127.0.0.1:{unused_port()}")
    assert answer == ProbeAnswer(error="connection refused")
    assert answer.is_refused


async def test_no_way_to_a_host_is_no_refusal_by_it() -> None:
    answer = await check("http://[2001:db8::1]:30000", timeout=1)  # an address that nobody has
    assert answer.health is None
    assert not answer.is_refused
    assert answer.error != "connection refused"


async def test_a_server_that_accepts_and_hangs() -> None:
    async def hang(_: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    async with serve_http() as engine:
        engine.answers["/health"] = hang
        assert await check(engine, timeout=0.2) == ProbeAnswer(error="timed out")


async def test_models_that_hang_leave_the_health_told() -> None:
    async def hang(_: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    async with serve_http() as engine:
        engine.healthy()
        engine.answers["/v1/models"] = hang
        answer = await check(engine, timeout=0.2)
        assert (answer.health, answer.models, answer.error) == (200, None, "/v1/models: timed out")


async def test_a_server_that_drips() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with serve_http() as engine:
        engine.answers["/health"] = drip
        answer = await check(engine, timeout=0.2)
        assert answer.health is None
        assert str(answer.error).startswith("timed out")


async def test_a_name_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    answer = await check("http://gone.example:1")
    assert answer.health is None
    assert "not known" in str(answer.error)


async def test_a_proxy_of_this_machine_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_port()}")
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{unused_port()}")
    async with serve_http() as engine:
        engine.healthy()
        assert (await check(engine)).health == 200


# Through the SSH connection.


def owned(server: SshServer, port: int, group: str) -> None:
    """The host says whose port it is."""
    server.answers["systemctl show"] = Said(f"ControlGroup=/system.slice/{UNIT}\n")
    server.answers["ss"] = Said(f"LISTEN 0 5 127.0.0.1:{port} 0.0.0.0:* cgroup:{group} <->\n")


@pytest.mark.parametrize(("group", "listener"), [(f"/system.slice/{UNIT}", True), ("/other.service", False)])
async def test_through_a_tunnel_with_the_urls_own_host(tmp_path: Path, group: str, *, listener: bool) -> None:
    async with serve(tmp_path) as server, connect(server) as host, serve_http() as engine:
        engine.healthy()
        owned(server, engine.port, group)
        answer = await check(engine, host=host, reach="ssh")
        assert answer == ProbeAnswer(health=200, models=("kimi-k2.5",), models_status=200, listener=listener)
        assert engine.requests[0].headers["host"] == f"127.0.0.1:{engine.port}"
        assert server.logins == 1


async def test_whose_port_is_asked_when_healthy_only(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, serve_http() as engine:
        engine.healthy()
        engine.answers["/health"] = reply(503, b"")
        await check(engine, host=host, reach="ssh")
        assert server.commands == []


async def test_a_host_that_does_not_tell_whose_port_it_is(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, serve_http() as engine:
        engine.healthy()
        answer = await check(engine, host=host, reach="ssh")  # no systemctl, no ss
        assert (answer.health, answer.listener, answer.error) == (200, None, None)


async def test_a_host_that_hangs_keeps_no_answer_of_its_engine_back(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, serve_http() as engine:
        engine.healthy()
        server.answers["systemctl"] = hang
        section = {"host": "llm-two", "unit": UNIT, "url": engine.url, "reach": "ssh", "model": "kimi-k2.5"}
        probe = Probe(ServiceSection.model_validate(section), host=host, api_key=None)
        answer = await probe.check(host_within=0.3)
        assert (answer.health, answer.models, answer.listener) == (200, ("kimi-k2.5",), None)


async def test_an_engine_of_several_hosts(tmp_path: Path) -> None:
    members = [{"host": "llm-one", "unit": "a.service"}, {"host": "llm-two", "unit": UNIT}]
    async with serve(tmp_path) as server, connect(server) as host, serve_http() as engine:
        engine.healthy()
        owned(server, engine.port, f"/system.slice/{UNIT}")
        answer = await check(engine, host=host, reach="ssh", members=members)
        assert answer.listener is True
        assert server.commands[0][2] == UNIT


async def test_a_proxy_in_front_has_a_port_of_its_own(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, serve_http() as engine:
        engine.healthy()
        url = f"http://localhost:{engine.port}"
        answer = await check(url, host=host, reach="direct")
        assert (answer.health, answer.listener) == (200, None)
        assert server.commands == []


async def test_nobody_listens_behind_the_tunnel(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        answer = await check(f"http://127.0.0.1:{unused_port()}", host=host, reach="ssh")
        assert answer == ProbeAnswer(error="connection refused")


async def test_a_server_behind_the_tunnel_that_hangs_up(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, serve_http() as engine:
        engine.answers["/health"] = b""
        answer = await check(engine, host=host, reach="ssh")
        assert answer == ProbeAnswer(error="hung up without an answer")


async def test_a_host_that_forwards_nothing(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, serve_http() as engine:
        server.forwarding = False
        answer = await check(engine, host=host, reach="ssh")
        assert answer.health is None
        assert "AllowTcpForwarding" in str(answer.error)


async def test_a_host_that_is_gone(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        await server.stop()
        answer = await check("http://127.0.0.1:30000", host=host, reach="ssh")
        assert answer.health is None
        assert str(answer.error).startswith("llm-two: ")


async def test_an_address_to_bind_is_reached_as_loopback(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, serve_http() as engine:
        engine.healthy()
        answer = await check(f"http://0.0.0.0:{engine.port}", host=host, reach="ssh")
        assert answer.health == 200


async def test_smoke_through_the_tunnel(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, serve_http() as engine:
        engine.answers["/v1/chat/completions"] = COMPLETION
        probe = Probe(section(engine.url, reach="ssh"), host=host, api_key="secret-key")
        result = await probe.smoke()
        assert (result.passed, result.answer) == (True, "def sort")
        assert engine.requests[0].headers["authorization"] == "Bearer secret-key"
        await probe.close()
        await probe.close()


async def test_smoke_with_nobody_there(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        probe = Probe(section(f"http://127.0.0.1:{unused_port()}", reach="ssh"), host=host, api_key=None)
        assert (await probe.smoke()).error == "no completion came: connection refused"
        await server.stop()
        assert "llm-two" in str((await probe.smoke()).error)


async def test_smoke_takes_no_longer_than_it_may() -> None:
    async def hang(_: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    async with serve_http() as engine:
        engine.answers["/v1/chat/completions"] = hang
        probe = Probe(section(engine.url, smoke={"timeout": "0.2s"}), host=None, api_key=None)
        result = await probe.smoke()
        assert not result.passed
        assert result.error == "the smoke test did not finish within 0.2 s"
        assert (await probe.smoke(short=True)).error == "not finished within 0.2 s"


async def test_the_queue_it_tells_of() -> None:
    async with serve_http() as engine:
        probe = Probe(section(engine.url), host=None, api_key="secret-key", timeout=5)
        engine.answers["/metrics"] = reply(200, b"vllm:num_requests_waiting 7\n", kind="text/plain")
        engine.answers["/v1/loads"] = reply(200, {"num_waiting_reqs": 3})
        assert await probe.load("/metrics") == LoadSeen(7, 0)
        assert await probe.load("/v1/loads") == LoadSeen(3, 0)
        assert engine.requests[1].headers["authorization"] == "Bearer secret-key"
        engine.answers["/metrics"] = reply(503, b"")
        assert await probe.load("/metrics") is None


@pytest.mark.parametrize(
    "answer",
    [
        reply(404, b""),
        reply(401, b""),
        reply(501, b""),
        reply(200, b"go_threads 7\n"),
        reply(200, b"#" * (2 << 20)),
    ],
)
async def test_a_queue_that_is_not_told(answer: bytes) -> None:
    async with serve_http() as engine:
        engine.answers["/metrics"] = answer
        with pytest.raises(NotOffered):
            await Probe(section(engine.url), host=None, api_key=None).load("/metrics")


async def test_a_queue_nobody_tells_of() -> None:
    with pytest.raises(NotOffered, match="refused"):
        await Probe(section(f"http://127.0.0.1:{unused_port()}"), host=None, api_key=None).load("/metrics")
