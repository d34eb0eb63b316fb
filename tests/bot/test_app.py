"""The parts put together: built whole or not at all, stopped in order, taken up again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from bot.app import NOT_AUTHORIZED, App, faults_of_parts, load_engines_of, read_keys
from bot.clients.leases import Leases
from bot.clients.redis_link import RedisLink
from bot.clients.slack import Outbox
from bot.clients.ssh import Host
from bot.clients.store import Store
from bot.core.events import ServiceName
from bot.ears import Ears
from bot.errors import ConfigurationInvalid, StoreUnavailable
from bot.practice.workspace import API_KEY, SERVICE
from bot.running import STATE
from bot.startups import Startups
from bot.tasks import Tasks
from config.engine_file import FOLDER
from config.settings import read_settings
from tests.support.configurations import configure
from tests.support.practice import Practice, practise
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ENVIRON = {"SLACK_BOT_TOKEN": "xoxb-of-the-bot", "SLACK_APP_TOKEN": "xapp-of-the-app"}


def test_an_engine_is_named_found_beside_the_configuration_or_recognised(tmp_path: Path) -> None:
    own = (FOLDER / "sglang.toml").read_text().replace('name = "sglang"', 'name = "mine"', 1)
    (tmp_path / "mine.toml").write_text(own)
    full: dict[str, Any] = {"three": {"engine": "mine.toml"}, "four": {"engine": str(tmp_path / "mine.toml")}}
    configuration = configure("one", "two", "three", "four", two={"engine": "sglang"}, **full)
    engines = load_engines_of(configuration, folder=tmp_path)
    assert [engine.name for engine in engines.values()] == ["auto", "sglang", "mine", "mine"]


def test_every_engine_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("name = ")
    changes: dict[str, Any] = {"one": {"engine": "mystery"}, "two": {"engine": "broken.toml"}}
    with pytest.raises(ConfigurationInvalid) as caught:
        load_engines_of(configure("one", "two", "three", **changes), folder=tmp_path)
    first, second = caught.value.faults
    assert first.startswith('services."one".engine: ')
    assert "mystery" in first
    assert second.startswith('services."two".engine: ')
    assert str(tmp_path / "broken.toml") in second


def test_keys_come_from_the_environment_and_each_missing_one_is_named_once() -> None:
    changes: dict[str, Any] = {"one": {"api_key_env": "KEY_A"}, "two": {"api_key_env": "KEY_A"}}
    configuration = configure("one", "two", "three", **changes)
    assert read_keys(configuration, {"KEY_A": "sk-1"}) == {"one": "sk-1", "two": "sk-1", "three": None}
    with pytest.raises(ConfigurationInvalid) as caught:
        read_keys(configuration, {})
    [fault] = caught.value.faults
    assert "KEY_A is missing" in fault


def test_faults_of_engines_and_keys_are_told_together(tmp_path: Path) -> None:
    configuration = configure("one", one={"engine": "mystery", "api_key_env": "KEY_A"})
    path = tmp_path / "kimi.toml"
    first, second = faults_of_parts(configuration, {}, path=path)
    assert first.startswith(f"{path}: services.\"one\".engine: no engine file 'mystery'")
    assert "KEY_A" in second
    assert faults_of_parts(configuration, None, path=path) == (first,)
    assert faults_of_parts(configure("one"), {}, path=path) == ()


async def test_nothing_runs_before_the_start_and_closing_is_always_allowed() -> None:
    app = App(configure(), read_settings(ENVIRON), environ={})
    with pytest.raises(RuntimeError, match="not started"):
        _ = app.startups
    await app.close()
    await app.close()


async def test_without_redis_it_does_not_start_and_leaves_nothing_open(tmp_path: Path) -> None:
    settings = read_settings(ENVIRON | {"KIMI_REDIS_URL": f"unix://{tmp_path}/none.sock"})
    app = App(configure(), settings, environ={})
    with pytest.raises(StoreUnavailable, match=r"none\.sock"):
        await app.start()
    await app.close()


async def test_a_vital_part_that_ends_is_named() -> None:
    async with practise("healthy", speed=100) as practice:
        outbox = next(task for task in practice.app.tasks._running if task.get_name() == "outbox")
        outbox.cancel()
        assert await practice.app.run() == "outbox"


async def test_no_secret_of_ours_gets_past_the_redactor() -> None:
    async with practise("healthy", speed=100) as practice:
        redactor = practice.app.startups.ground.make_redactor()
        secrets = (API_KEY, practice.slack.bot_token, practice.slack.app_token, practice.slack.signing_secret)
        masked, count = redactor.redact(" | ".join(secrets))
        assert count == len(secrets)
        assert not any(secret in masked for secret in secrets)


async def test_a_slack_that_does_not_say_who_the_bot_is_sends_nobody_to_reinstall_it() -> None:
    async with practise("healthy", speed=100) as first:
        await first.app.close()
        first.slack.faults.add("auth.test", first.slack.faults.rate_limited(1), times=None)
        practice = Practice(first.workspace, await first.workspace.start_app())
        outcome = await practice.type("status")
        assert outcome.acknowledged
        assert NOT_AUTHORIZED in str(outcome.response)
        practice.slack.faults.clear()
        assert "*healthy*" in await practice.ask("status")


async def test_a_bot_that_is_stopped_midway_goes_on_where_it_stood_when_it_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bot.app._GRACE", 0.5)
    async with practise("healthy", speed=200) as first:
        root = await first.begin()
        await first.reply(root, "Ranks connected")
        await first.app.close()
        [state] = map(STATE.validate_json, await _open_states(first))
        assert [member.lost for member in state.members.values()] == [None]
        second = Practice(first.workspace, await first.workspace.start_app())
        assert list(second.app.startups.running)
        assert (await second.verdict()).verdict == "healthy"
        assert second.orders() == ["restart"]
        replies = second.replies(root)
        assert len(second.roots()) == 1
        assert len(replies) == len(set(replies))
        assert sum("Ranks connected" in reply for reply in replies) == 1
        assert await second.app.startups.held(ServiceName(SERVICE)) is None
        # A new process does not know how much the old one has just sent.
        assert {refusal.error for refusal in second.slack.refusals} <= {"ratelimited"}
        second.slack.refusals.clear()


async def test_it_is_stopped_in_reverse_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who still heard by then would begin more; under a lease that is let go nothing can be written."""
    steps = {
        "deaf": (Ears, "close"),
        "operations left": (Startups, "hand_over"),
        "words sent": (Outbox, "drain"),
        "leases let go": (Leases, "close"),
        "tasks ended": (Tasks, "close"),
        "hosts closed": (Host, "close"),
        "Redis closed": (RedisLink, "close"),
    }
    done: list[str] = []
    for step, (owner, name) in steps.items():
        _note_end(monkeypatch, owner, name, partial(done.append, step))
    async with practise("healthy", speed=200) as practice:
        root = await practice.begin()
        await practice.reply(root, "Ranks connected")
        await practice.app.close()
    assert list(dict.fromkeys(done)) == list(steps)


def _note_end(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, note: Callable[[], None]) -> None:
    sound = getattr(owner, name)

    async def noted(*words: Any, **options: Any) -> Any:
        try:
            return await sound(*words, **options)
        finally:
            note()

    monkeypatch.setattr(owner, name, noted)


async def test_what_is_under_way_is_followed_again_though_slack_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bot.app._GRACE", 0.5)
    async with practise("healthy", speed=200) as first:
        await first.begin()
        await first.app.close()
        settings = read_settings(
            {
                "SLACK_BOT_TOKEN": first.slack.bot_token,
                "SLACK_APP_TOKEN": first.slack.app_token,
                "SLACK_API_URL": "http://127.0.0.1:9/api/",
                "KIMI_REDIS_URL": first.workspace.redis_url,
            }
        )
        clock = first.workspace.clock
        environ = {"PRACTICE_API_KEY": API_KEY}
        deaf = App(first.workspace.configuration(), settings, environ=environ, clock=clock)
        await deaf.start()
        try:
            assert list(deaf.startups.running)
            assert await deaf.startups.ground.outbox.depth() >= 0
            await until(lambda: not deaf.startups.running)  # up to its verdict
        finally:
            await deaf.close()
        third = Practice(first.workspace, await first.workspace.start_app())
        assert (await third.verdict()).verdict == "healthy"
        [root] = third.roots()
        replies = third.replies(root)
        assert len(replies) == len(set(replies))
        assert sum("*healthy*" in reply for reply in replies) == 1
        assert third.orders() == ["restart"]
        assert {refusal.error for refusal in third.slack.refusals} <= {"ratelimited"}
        third.slack.refusals.clear()


async def _open_states(practice: Practice) -> list[str]:
    """The states in Redis of what is open, read as another process would."""
    store = await Store.open(practice.workspace.redis_url)
    try:
        return [operation.state for operation in await store.open_operations()]
    finally:
        await store.close()
