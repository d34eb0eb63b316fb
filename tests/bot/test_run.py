"""The bot as a process: how it hears, and how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import aiohttp
import pytest

from bot.app import Listen
from bot.errors import ConfigurationInvalid
from bot.practice.slack_requests import sign
from bot.run import parse_listen
from tests.support.commands import (
    KIMI,
    PATIENCE,
    kimi,
    slack_environment,
    started,
    workspace,
    write_configuration,
)
from tests.support.http_engine import reply, serve_http
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

DIES = """
import asyncio, sys
from bot.__main__ import main
from bot.clients.slack import Outbox

async def die(_):
    await asyncio.sleep(0.2)
    raise ZeroDivisionError

Outbox.run = die
sys.exit(main(sys.argv[1:]))
"""


WARNS = """
import logging
from bot.run import configure_logging

configure_logging()
logging.getLogger("some.library").warning("two\\nlines of %s", "it")
logging.getLogger("some.library").info("a payload")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("some.library").exception("it broke")
"""

# Closing waits: for ever, or so that nothing else goes on either.
HANGS = """
import asyncio, sys, time
import bot.run
from bot.__main__ import main
from bot.clients.slack import Outbox

async def drain(*_):
    {wait}

Outbox.drain = drain
bot.run.STOP_WITHIN = {within}
sys.exit(main(sys.argv[1:]))
"""


# A start that cannot be broken off.
STAYS = """
import asyncio, contextlib, sys
import bot.run
from bot.__main__ import main
from bot.app import App

async def start(*_, **__):
    bot.run.log.info("beginning")
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(600)

App.start = start
bot.run.STOP_WITHIN = 0.5
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("127.0.0.1:3000", Listen("127.0.0.1", 3000)),
        ("localhost:0", Listen("localhost", 0)),
        ("[::1]:65535", Listen("::1", 65535)),
    ],
)
def test_where_to_listen(text: str, listen: Listen) -> None:
    assert parse_listen(text) == listen


@pytest.mark.parametrize("text", ["", ":", "3000", "host:", ":3000", "host:65536", "host:-1", "host:1a"])
def test_where_nobody_can_listen(text: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"--listen: is .*HOST:PORT"):
        parse_listen(text)


async def test_what_libraries_warn_of_comes_in_the_same_form_and_nothing_of_their_payloads() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WARNS, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    warned, broke = map(json.loads, said.splitlines())
    assert warned.pop("timestamp")
    assert warned == {"event": "two\nlines of it", "level": "warning", "logger": "some.library"}
    assert (broke["event"], broke["level"]) == ("it broke", "error")
    assert "ZeroDivisionError" in broke["exception"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_signal_ends_it_in_order_with_0(
    tmp_path: Path, redis_url: str, number: signal.Signals
) -> None:
    async with workspace() as slack:
        words = ("run", "--config", str(write_configuration(tmp_path)))
        async with started(*words, **slack_environment(slack, redis_url)) as bot:
            fact = await bot.fact("started")
            assert (fact["services"], fact["taken_up"]) == (1, 0)
            bot.process.send_signal(number)
            assert await bot.ended() == 0
    assert bot.events()[-1] == "stopped"
    assert slack.refusals == []


async def test_it_hears_through_socket_mode(tmp_path: Path, redis_url: str) -> None:
    async with workspace() as slack:
        words = ("run", "--config", str(write_configuration(tmp_path)))
        async with started(*words, **slack_environment(slack, redis_url)) as bot:
            await bot.fact("started")
            outcome = await slack.slash("U0ALICE", "C0OPS", "help")
            assert outcome.acknowledged
            told = await slack.wait_for(lambda s: s.ephemerals("U0ALICE"), PATIENCE)
            assert "restart" in told[0].plain


async def test_a_signed_command_posted_to_its_port_is_answered_and_a_forged_one_is_not(
    tmp_path: Path, redis_url: str
) -> None:
    async with workspace() as slack:
        words = ("run", "--http", "--listen", "127.0.0.1:0", "--config", str(write_configuration(tmp_path)))
        environment = slack_environment(slack, redis_url)
        del environment["SLACK_APP_TOKEN"]
        async with started(*words, **environment) as bot:
            fact = await bot.fact("listening")
            url = f"http://127.0.0.1:{fact['port']}{fact['path']}"
            assert fact["path"] == "/slack/events"
            slack.use_request_url(url)
            outcome = await slack.slash("U0ALICE", "C0OPS", "help")
            assert outcome.acknowledged
            told = await slack.wait_for(lambda s: s.ephemerals("U0ALICE"), PATIENCE)
            assert "restart" in told[0].plain
            assert await _post_forged(url) == 401
            assert len(slack.ephemerals("U0ALICE")) == 1
            bot.process.terminate()
            assert await bot.ended() == 0


async def _post_forged(url: str) -> int:
    body = urlencode({"command": "/kimi", "text": "help", "user_id": "U0ALICE"}).encode()
    now = int(time.time())
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": str(now),
        "X-Slack-Signature": sign("another secret", now, body),
    }
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as response:
        return response.status


async def test_a_part_that_dies_ends_the_whole_with_1(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.commands.KIMI", (sys.executable, "-c", DIES))
    async with workspace() as slack:
        words = ("run", "--config", str(write_configuration(tmp_path)))
        async with started(*words, **slack_environment(slack, redis_url)) as bot:
            assert (await bot.fact("part_died"))["part"] == "outbox"
            assert await bot.ended() == 1
    assert bot.events()[-1] == "stopped"
    assert KIMI[1:] == ("-m", "bot")


async def test_a_second_signal_ends_it_at_once(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = HANGS.format(wait="await asyncio.sleep(600)", within=600)
    monkeypatch.setattr("tests.support.commands.KIMI", (sys.executable, "-c", hanging))
    async with workspace() as slack:
        words = ("run", "--config", str(write_configuration(tmp_path)))
        async with started(*words, **slack_environment(slack, redis_url)) as bot:
            await bot.fact("started")
            bot.process.terminate()
            await bot.fact("stopping")
            bot.process.terminate()
            assert await bot.ended() == 0
    assert bot.events()[-1] == "stopped_at_once"


@pytest.mark.parametrize("wait", ["await asyncio.sleep(600)", "time.sleep(600)"])
async def test_an_end_that_hangs_is_an_end_all_the_same(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch, wait: str
) -> None:
    monkeypatch.setattr(
        "tests.support.commands.KIMI", (sys.executable, "-c", HANGS.format(wait=wait, within=0.5))
    )
    async with workspace() as slack:
        words = ("run", "--config", str(write_configuration(tmp_path)))
        async with started(*words, **slack_environment(slack, redis_url)) as bot:
            await bot.fact("started")
            bot.process.terminate()
            assert await bot.ended() == 0
    assert bot.events()[-1] == "stop_took_too_long"


async def test_a_start_that_hangs_is_broken_off_all_the_same(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.commands.KIMI", (sys.executable, "-c", STAYS))
    async with workspace() as slack:
        words = ("run", "--config", str(write_configuration(tmp_path)))
        async with started(*words, **slack_environment(slack, redis_url)) as bot:
            await bot.fact("beginning")
            bot.process.terminate()
            assert await bot.ended() == 0
    assert bot.events()[-2:] == ["stopping", "stop_took_too_long"]


async def test_systemd_hears_when_it_is_ready_that_it_lives_and_that_it_stops(
    tmp_path: Path, redis_url: str
) -> None:
    address = f"@kimi/{tmp_path.name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0" + address[1:])
        systemd.setblocking(False)
        async with workspace() as slack:
            environment = slack_environment(slack, redis_url)
            environment |= {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "600000"}
            words = ("run", "--config", str(write_configuration(tmp_path)))
            async with started(*words, **environment) as bot:
                await bot.fact("started")
                heard = await hear_until(systemd, "STATUS=ready; startups: 0 under way")
                assert heard.count("READY=1") == 1
                assert heard.index("STATUS=not ready: starting") < heard.index("READY=1")
                await hear_until(systemd, "WATCHDOG=1")
                bot.process.terminate()
                await hear_until(systemd, "STOPPING=1")
                assert await bot.ended() == 0


async def hear_until(systemd: socket.socket, word: str) -> list[str]:
    heard: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while word not in heard:
            heard.append((await asyncio.get_running_loop().sock_recv(systemd, 4096)).decode())
    return heard


async def test_a_dead_man_s_switch_is_told_and_its_address_is_not_logged(
    tmp_path: Path, redis_url: str
) -> None:
    async with serve_http() as switch, workspace() as slack:
        switch.answers["/hush-hush-4711"] = reply(200, b"")
        environment = slack_environment(slack, redis_url) | {"KIMI_PING_URL": f"{switch.url}/hush-hush-4711"}
        words = ("run", "--config", str(write_configuration(tmp_path)))
        async with started(*words, **environment) as bot:
            port = (await bot.fact("health_told"))["port"]
            await bot.fact("started")
            await until(lambda: switch.requests)
            await until_shown(port, 'kimi_dead_man_pings_total{outcome="answered"} 1.0')
            bot.process.terminate()
            assert await bot.ended() == 0
    assert "hush" not in str(bot.facts)


async def until_shown(port: int, line: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while line not in (await ask(port, "/metrics"))[1].splitlines():  # noqa: ASYNC110 - as a scraper does
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("gone", ["redis", "token"])
async def test_what_makes_a_start_impossible_is_one_sentence(
    tmp_path: Path, redis_url: str, gone: str
) -> None:
    async with workspace() as slack:
        environment = slack_environment(slack, redis_url)
        if gone == "redis":
            environment["KIMI_REDIS_URL"] = f"unix://{tmp_path}/none.sock"
        else:
            environment["SLACK_APP_TOKEN"] = "xapp-of-another"
        ended = await kimi("run", "--config", str(write_configuration(tmp_path)), environment=environment)
    assert ended.status == 1
    assert "Traceback" not in ended.err
    [sentence] = [line for line in ended.err.splitlines() if line.startswith("kimi-bot: ")]
    assert {"redis": "none.sock", "token": "invalid_auth to apps.connections.open"}[gone] in sentence


async def test_a_slack_that_is_away_keeps_nothing_else_from_going_on(tmp_path: Path, redis_url: str) -> None:
    async with workspace() as slack:
        environment = slack_environment(slack, redis_url) | {"SLACK_API_URL": "http://127.0.0.1:9/api/"}
        words = ("run", "--config", str(write_configuration(tmp_path)))
        async with started(*words, **environment) as bot:
            port = (await bot.fact("health_told"))["port"]
            assert (await bot.fact("started"))["slack"] == "0 of 2 connections"
            assert (await ask(port, "/healthz"))[0] == 200
            status, told = await ask(port, "/readyz")
            assert status == 503
            assert json.loads(told)["problems"] == ["slack: 0 of 2 connections"]
            bot.process.terminate()
            assert await bot.ended() == 0
    assert bot.events().count("slack_unreachable") >= 1


async def ask(port: int, path: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_a_port_that_is_taken_is_named(tmp_path: Path, redis_url: str) -> None:
    async with workspace() as slack:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            words = ("run", "--http", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
            path = str(write_configuration(tmp_path))
            ended = await kimi(*words, "--config", path, environment=slack_environment(slack, redis_url))
    assert ended.status == 2
    assert "kimi-bot: --listen: " in ended.err
    assert "in use" in ended.err
