"""`kimi-bot check`: every part the bot will need, and how to mend what is wrong."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bot.__main__ import MANIFEST
from bot.check import SCOPES, check, judge_scopes
from bot.check_rows import Finding
from bot.clients.records import Parked
from tests.support.checking import TOML, bench
from tests.support.commands import kimi, write_configuration
from tests.support.outgoing import BEGAN, root

if TYPE_CHECKING:
    from tests.support.redis import OpenStore
    from tests.support.redis_many import RedisCluster, SentinelGroup

EXAMPLE = Path(__file__).parents[2] / "config" / "kimi.example.toml"


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


async def test_what_slack_has_refused_is_shown_the_newest_first(
    tmp_path: Path, redis_url: str, open_store: OpenStore
) -> None:
    store = await open_store(redis_url)
    for number in range(7):
        name = f"op{number}"
        message = root(f"restarting\nfor the {number}. time", thread=name)
        at = BEGAN + timedelta(hours=number)
        parked = Parked(outgoing=message, method="chat.postMessage", code="is_archived", at=at)
        await store.enqueue([message])
        claim = await store.queue.claim(name, "me", 60)
        assert claim is not None
        await store.queue.park(claim, "me", parked)
    async with bench(tmp_path, redis_url) as made:
        told = {name: found for name, found in (await made.check()).items() if "undelivered" in name}
        assert all(found.good for found in told.values())
        assert list(told) == [*(f"undelivered {place}" for place in range(1, 6)), "undelivered"]
        assert told["undelivered 1"].words == "2026-05-30 05:49 UTC, is_archived: restarting for the 6. time"
        assert told["undelivered"].words.startswith("2 older ones")


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
        assert findings["environment"].words.startswith("SLACK_APP_TOKEN is missing")
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


def test_scopes_that_nobody_tells_are_no_fault() -> None:
    found = judge_scopes(None)
    assert (found.good, found.words) == (True, "not told by what answers in Slack's place")


def test_the_scopes_are_those_of_the_manifest() -> None:
    manifest = json.loads(MANIFEST.read_text())
    assert set(manifest["oauth_config"]["scopes"]["bot"]) == SCOPES
