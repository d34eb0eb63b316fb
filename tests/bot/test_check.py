"""`kimi-bot check`: every part the bot will need, and how to mend what is wrong."""

from __future__ import annotations

import itertools
import json
import re
import socket
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import asyncssh

from bot.__main__ import MANIFEST
from bot.check import SCOPES, Finding, check, judge_scopes, render_findings
from bot.clients.records import Parked
from bot.clients.store import Store
from bot.clock import Clock
from bot.practice.engine import ServerStatus
from bot.practice.host import PracticeHost
from bot.practice.scenarios import SCENARIOS
from tests.support.commands import kimi, slack_environment, workspace, write_configuration
from tests.support.outgoing import BEGAN, root

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.practice.slack import PracticeSlack
    from tests.support.redis_many import RedisCluster, SentinelGroup

EXAMPLE = Path(__file__).parents[2] / "config" / "kimi.example.toml"
TOML = """
[slack]
channel = "C0OPS"
{slack_keys}

[access]
channels = ["C0OPS"]

[hosts.llm-two]
address = "127.0.0.1"
port = {port}
user = "kimi"
identity_file = "{identity}"
known_hosts = "{known}"
sudo = true

[services."kimi-k2.5"]
host = "llm-two"
unit = "{unit}"
url = "{url}"
model = "kimi-k2.5"
api_key_env = "ENGINE_KEY"
"""


class Bench:
    """A world in which everything is right, to be spoilt."""

    def __init__(self, slack: PracticeSlack, host: PracticeHost, *, folder: Path, redis_url: str) -> None:
        self.slack, self.host, self._folder = slack, host, folder
        self.environ = slack_environment(slack, redis_url) | {"ENGINE_KEY": "sk-of-the-engine"}
        self.unit = host.unit_name
        self.slack_keys = ""  # lines of the table of Slack
        self.more = ""  # lines of the service's table

    def write(self) -> Path:
        text = TOML.format(
            port=self.host.port,
            identity=self.host.identity_file,
            known=self.host.known_hosts,
            unit=self.unit,
            url=self.host.engine_url,
            slack_keys=self.slack_keys,
        )
        text += self.more
        return write_configuration(self._folder, text=text)

    async def check(self) -> dict[str, Finding]:
        return {found.subject: found for found in await check(self.write(), self.environ, offline=False)}

    async def wrong(self) -> dict[str, str]:
        return {subject: found.words for subject, found in (await self.check()).items() if not found.good}


@asynccontextmanager
async def bench(
    folder: Path, redis_url: str, *, before: Literal["healthy", "stopped", "down"] = "healthy", **changes: Any
) -> AsyncIterator[Bench]:
    scenario = replace(SCENARIOS["healthy"], before=before)
    host = PracticeHost(Clock(100), scenario, api_key="sk-of-the-engine", **changes)
    async with workspace() as slack:
        await host.start()
        try:
            yield Bench(slack, host, folder=folder, redis_url=redis_url)
        finally:
            await host.stop()


async def test_where_all_is_right_every_row_says_so(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url) as made:
        findings = await made.check()
        assert all(found.good for found in findings.values()), findings
        assert list(findings) == [
            "configuration",
            "redis",
            "slack token",
            "slack scopes",
            "channel C0OPS",
            "host llm-two",
            "unit sglang-kimi.service",
            "service kimi-k2.5",
        ]
        assert findings["unit sglang-kimi.service"].words == "llm-two: active (running)"
        assert findings["service kimi-k2.5"].words == "serves kimi-k2.5"
        assert not [command for command in made.host.commands if "--no-block" in command[:4]]
        assert made.slack.refusals == []


async def test_nothing_but_the_table_is_printed(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url) as made:
        ended = await kimi("check", "--config", str(made.write()), environment=made.environ)
    assert ended.status == 0, ended
    assert [line.split()[0] for line in ended.out.splitlines()] == ["ok"] * 8


async def test_the_fallback_channel_is_looked_at_too(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url) as made:
        made.slack_keys = 'fallback_channel = "C0NOWHERE"'
        assert await made.wrong() == {
            "channel C0NOWHERE": (
                "Slack answered channel_not_found to conversations.info: invite the bot with /invite"
            )
        }


async def test_who_is_called_in_the_night_is_looked_up(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url) as made:
        made.slack.add_group("S0ONCALL", "llm-oncall", ["U0ALICE"])
        made.slack.add_group("S0EMPTY", "nobody", [])
        made.more = 'operators = ["S0EMPTY"]\n[services."kimi-k2.5".monitor]\nescalate_after = "15m"\n'
        escalation = made.more
        made.more += 'escalate_to = "S0ONCALL"\n'
        assert (await made.check())["group S0ONCALL"].words == "1 person"
        assert await made.wrong() == {"group S0EMPTY": "has no members: nobody may act by it, or is called"}
        made.more = escalation + 'escalate_to = "S0GONE"\n'
        assert "no_such_subteam" in (await made.wrong())["group S0GONE"]


async def test_a_webhook_wants_its_secret_as_run_does(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url) as made:
        made.more = '[incidents]\nwebhook = "https://tools.example/kimi"\n'
        assert "KIMI_WEBHOOK_SECRET is missing" in (await made.wrong())["environment"]
        made.environ["KIMI_WEBHOOK_SECRET"] = "word"
        assert await made.wrong() == {}


async def test_what_slack_has_refused_is_shown_the_newest_first(tmp_path: Path, redis_url: str) -> None:
    store = await Store.open(redis_url)
    for number in range(7):
        name = f"op{number}"
        message = root(f"restarting\nfor the {number}. time", thread=name)
        at = BEGAN + timedelta(hours=number)
        parked = Parked(outgoing=message, method="chat.postMessage", code="is_archived", at=at)
        await store.enqueue([message])
        claim = await store.queue.claim(name, "me", 60)
        assert claim is not None
        await store.queue.park(claim, "me", parked)
    await store.close()
    async with bench(tmp_path, redis_url) as made:
        told = {name: found for name, found in (await made.check()).items() if "undelivered" in name}
        assert all(found.good for found in told.values())
        assert list(told) == [*(f"undelivered {place}" for place in range(1, 6)), "undelivered"]
        assert told["undelivered 1"].words == "2026-05-30 05:49 UTC, is_archived: restarting for the 6. time"
        assert told["undelivered"].words.startswith("2 older ones")


async def test_what_is_wrong_on_the_host_is_said_with_its_remedy(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url) as made:
        made.host.unkind.sudo_refused = True
        assert "kimi-bot host-setup" in (await made.wrong())["unit sglang-kimi.service"]
        made.host.unkind.sudo_refused = False
        made.host.unkind.reload_refused = True
        assert await made.wrong() == {
            "unit sglang-kimi.service": "llm-two: sudo refuses daemon-reload: see kimi-bot host-setup"
        }
        made.host.unkind.reload_refused = False
        made.host.unkind.journal_unreadable = True
        assert "systemd-journal" in (await made.wrong())["host llm-two"]
        made.host.unkind.journal_unreadable = False
        made.host.unkind.unit_unknown = True
        wrong = await made.wrong()
        assert "not-found" in wrong["unit sglang-kimi.service"]
        made.host.unkind.unit_unknown = False
        made.host.engine.manners.models = ("kimi-k2",)
        wrong = await made.wrong()
        assert wrong == {"service kimi-k2.5": "/v1/models lists kimi-k2, not kimi-k2.5."}


async def test_a_service_that_is_stopped_is_no_fault(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url, before="stopped") as made:
        found = await made.check()
        assert await made.wrong() == {}
        ended = await kimi("check", "--config", str(made.write()), environment=made.environ)
    assert found["unit sglang-kimi.service"].words == "llm-two: inactive (dead)"
    assert found["service kimi-k2.5"].words == "stopped: `start kimi-k2.5` in chat starts it"
    assert ended.status == 0
    assert [line.split()[0] for line in ended.out.splitlines()] == [*["ok"] * 6, "note", "note"]


async def test_a_unit_that_failed_is_a_fault_with_its_remedy(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url, before="down") as made:
        wrong = await made.wrong()
    assert set(wrong) == {"unit sglang-kimi.service", "service kimi-k2.5"}
    told = wrong["unit sglang-kimi.service"]
    assert re.match(r"llm-two: failed \((exit-code|signal)\): ", told)
    assert "`why kimi-k2.5` in chat, or its journal there, tells of what; mend that" in told


async def test_who_answers_in_the_place_of_a_stopped_unit_is_a_fault(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url, before="stopped") as made:
        await made.host.engine.open(pid=99, cgroup="/system.slice/other.service")
        made.host.engine.status = ServerStatus.UP
        wrong = await made.wrong()
    assert wrong == {"service kimi-k2.5": "Its port is served by a process of another unit."}


async def test_a_stopped_unit_whose_address_answers_is_not_the_one_that_serves(
    tmp_path: Path, redis_url: str
) -> None:
    async with bench(tmp_path, redis_url, before="stopped") as made:
        made.more = 'reach = "direct"\n'  # whose port it is, nobody tells
        await made.host.engine.open(pid=99, cgroup="/system.slice/other.service")
        made.host.engine.status = ServerStatus.UP
        assert "name the unit that serves there" in (await made.wrong())["service kimi-k2.5"]


async def test_a_wrong_key_of_the_engine_and_a_host_that_is_away(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url) as made:
        made.environ["ENGINE_KEY"] = "sk-of-another"
        assert "401" in (await made.wrong())["service kimi-k2.5"]
        await made.host.close_door()
        wrong = await made.wrong()
        assert set(wrong) == {"host llm-two", "unit sglang-kimi.service", "service kimi-k2.5"}
        assert "llm-two" in wrong["host llm-two"]


FAR = """
[hosts.llm-three]
address = "127.0.0.1"
port = {port}
user = "kimi"
identity_file = "{identity}"
known_hosts = "{known}"
"""
FOUR = """
[services."{name}"]
host = "llm-three"
unit = "{name}.service"
url = "http://127.0.0.1:1"
model = "{name}"
log_file = "/var/log/{name}.log"
"""


async def test_of_a_host_that_does_not_answer_its_own_row_says_why_and_the_others_that_alone(
    tmp_path: Path, redis_url: str
) -> None:
    names = ["a", "b", "c", "d"]
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    async with bench(tmp_path, redis_url) as made:
        files = {"identity": made.host.identity_file, "known": made.host.known_hosts}
        made.more = FAR.format(port=port, **files) + "".join(FOUR.format(name=name) for name in names)
        wrong = await made.wrong()
        why = wrong.pop("host llm-three")
        assert f"127.0.0.1:{port} refuses connections" in why
        rows = [
            (f"unit {name}.service", f"log file /var/log/{name}.log", f"service {name}") for name in names
        ]
        short = "not looked at: llm-three did not answer"
        assert wrong == dict.fromkeys(itertools.chain(*rows), short)
        made.more = made.more.replace(f"port = {port}", f"port = {made.host.port}")
        made.more = made.more.replace(str(made.host.identity_file), str(strange_key(tmp_path)))
        wrong = await made.wrong()
        assert "key" in wrong.pop("host llm-three")
        assert set(wrong.values()) == {"not looked at: llm-three did not let kimi in"}


def strange_key(folder: Path) -> Path:
    path = folder / "strange"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(path)
    return path


async def test_what_is_wrong_in_slack_is_said_with_its_remedy(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url) as made:
        channels = made.slack.workspace.channels
        channels["C0OPS"].joined = False
        assert await made.wrong() == {"channel C0OPS": "the bot is no member: invite it with /invite"}
        channels["C0OPS"].joined, channels["C0OPS"].archived = True, True
        assert await made.wrong() == {"channel C0OPS": "is archived: name another"}
        del channels["C0OPS"]
        assert "channel_not_found" in (await made.wrong())["channel C0OPS"]
        made.slack.workspace.scopes -= {"files:write", "usergroups:read"}
        assert (await made.wrong())["slack scopes"] == (
            "add files:write, usergroups:read and reinstall the app"
        )
        made.environ["SLACK_BOT_TOKEN"] = "xoxb-of-another"
        wrong = await made.wrong()
        assert "invalid_auth" in wrong["slack token"]
        made.environ["SLACK_API_URL"] = "http://127.0.0.1:1/api/"
        away = (await made.wrong())["slack token"]
        assert "OAuth" not in away, "a Slack that is away says nothing of the token"


async def test_a_log_file_is_looked_at(tmp_path: Path, redis_url: str) -> None:
    path = "/var/log/kimi.log"
    async with bench(tmp_path, redis_url, log_file=path) as made:
        made.more = f'log_file = "{path}"\n'
        assert (await made.check())[f"log file {path}"].words == "llm-two: readable"
        assert made.host.log is not None
        made.host.log.unreadable = True
        assert "setfacl" in (await made.wrong())[f"log file {path}"]
        made.more = 'log_file = "/var/log/other.log"\n'
        found = (await made.check())["log file /var/log/other.log"]
        assert (found.good, "not there yet" in found.words) == (True, True)


async def test_a_users_own_units_need_no_group(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url, user_unit=True) as made:
        made.more = 'scope = "user"\n'
        assert await made.wrong() == {}


async def test_without_redis_or_a_token_the_rest_is_looked_at_all_the_same(
    tmp_path: Path, redis_url: str
) -> None:
    async with bench(tmp_path, redis_url) as made:
        made.environ["KIMI_REDIS_URL"] = f"unix://{tmp_path}/none.sock"
        wrong = await made.wrong()
        assert list(wrong) == ["redis"]
        assert "none.sock" in wrong["redis"]
        made.environ["KIMI_REDIS_URL"] = "redis://:word@db/0?db=nothing"
        assert "KIMI_REDIS_URL" in (await made.wrong())["redis"]
        del made.environ["SLACK_APP_TOKEN"]
        findings = await made.check()
        assert "SLACK_APP_TOKEN is missing" in findings["environment"].words
        assert findings["service kimi-k2.5"].good


async def test_of_redis_it_is_told_what_stands_behind_the_address(
    tmp_path: Path, sentinels: SentinelGroup, redis_cluster: RedisCluster
) -> None:
    async with bench(tmp_path, sentinels.url) as made:
        master = f"master 127.0.0.1:{sentinels.master().port}"
        assert (await made.check())["redis"].words == f"answers; {master}, 1 replica"
        made.environ["KIMI_REDIS_URL"] = redis_cluster.url
        assert (await made.check())["redis"].words == "answers; Cluster of 3 masters, 1 replica"


async def test_of_a_configuration_that_cannot_be_used_every_fault_is_a_row(tmp_path: Path) -> None:
    text = TOML.replace('model = "kimi-k2.5"', 'model = "kimi-k2.5"\nengine = "mystery"')
    filled = text.format(
        port=22, identity="/k", known="/h", unit="a.service", url="http://127.0.0.1:1", slack_keys=""
    )
    path = write_configuration(tmp_path, text=filled)
    findings = await check(path, {}, offline=False)
    assert not any(found.good for found in findings)
    assert findings[0].words.startswith(f"{path}: ")
    assert "mystery" in findings[0].words
    assert "ENGINE_KEY is missing" in findings[1].words
    assert [found.words for found in await check(path, {}, offline=True)] == [findings[0].words]


async def test_offline_nothing_but_the_file_is_looked_at() -> None:
    [found] = await check(EXAMPLE, {}, offline=True)
    assert found == Finding("configuration", good=True, words=f"{EXAMPLE}: 2 services on 2 hosts")


def test_rows_stand_under_each_other() -> None:
    rows = render_findings(
        [Finding("redis", good=True, words="answers"), Finding("host a", good=False, words="no")]
    )
    assert rows == "ok    redis   answers\nWRONG host a  no"
    assert render_findings([Finding("a", good=True, words="stopped", note=True)]) == "note  a  stopped"
    assert render_findings([]) == ""


def test_scopes_that_nobody_tells_are_no_fault() -> None:
    found = judge_scopes(None)
    assert (found.good, found.words) == (True, "not told by what answers in Slack's place")


def test_the_scopes_are_those_of_the_manifest() -> None:
    manifest = json.loads(MANIFEST.read_text())
    assert set(manifest["oauth_config"]["scopes"]["bot"]) == SCOPES
