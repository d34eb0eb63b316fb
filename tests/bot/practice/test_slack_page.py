"""The practice workspace's page: what it serves, takes and tells its readers."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from bot.practice.slack_page import FOLDER, STATIC
from tests.support.browser import CHROMIUM, browser
from tests.support.slack_app import ALICE, BOB, OPS, bolt_app, connected, practice_slack, web_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from slack_bolt.async_app import AsyncApp

    from bot.practice.slack import PracticeSlack
    from tests.support.browser import Tab

HOSTILE = "<script>window.hacked = 1</script> ``` <!here> <img src=x onerror='window.hacked=1'>"
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: apt-get install chromium")


def button(**more: Any) -> dict[str, Any]:
    return {"type": "button", "action_id": "go", "text": {"type": "plain_text", "text": "Go"}, **more}


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


CONFIRM = {
    "title": {"type": "plain_text", "text": "Sure?"},
    "text": {"type": "mrkdwn", "text": "It *serves* people."},
    "confirm": {"type": "plain_text", "text": "Do it"},
    "deny": {"type": "plain_text", "text": "Leave it"},
}
MODAL = {
    "type": "modal",
    "callback_id": "why",
    "title": {"type": "plain_text", "text": "Restart"},
    "submit": {"type": "plain_text", "text": "Send it"},
    "blocks": [
        {
            "type": "input",
            "block_id": "reason",
            "label": {"type": "plain_text", "text": "Reason"},
            "element": {"type": "plain_text_input", "action_id": "text"},
        },
    ],
}


@asynccontextmanager
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


async def read_events(response: aiohttp.ClientResponse, count: int) -> list[tuple[str, Any]]:
    events: list[tuple[str, Any]] = []
    name = ""
    while len(events) < count:
        line = (await response.content.readline()).decode().strip()
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            events.append((name, json.loads(line.removeprefix("data: "))))
    return events


async def test_everything_is_served_here_and_nothing_from_elsewhere() -> None:
    async with practice_slack() as slack, session() as http:
        for path in ("/", "/archives/C0OPS/p1700000000000001", *(f"/page/{name}" for name in STATIC)):
            async with http.get(slack.url + path) as response:
                text = await response.text()
                assert response.status == 200
                assert "://" not in text.replace("https?:\\/\\/", "")
                assert response.headers["X-Content-Type-Options"] == "nosniff"
        async with http.get(slack.url) as response:
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        async with http.get(f"{slack.url}/page/slack.py") as response:
            assert response.status == 404


def test_the_page_never_writes_markup() -> None:
    scripts = "".join(file.read_text() for file in FOLDER.glob("*.js"))
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert way not in scripts


@pytest.mark.parametrize("path", ["/", "/page/changes", "/page/page.js", "/files/F1"])
async def test_another_name_for_this_machine_is_turned_away(path: str) -> None:
    async with (
        practice_slack() as slack,
        session() as http,
        http.get(slack.url + path, headers={"Host": "evil.example"}) as response,
    ):
        assert response.status == 403


async def test_only_json_is_taken() -> None:
    async with practice_slack() as slack, session() as http:
        did = json.dumps({"user": ALICE, "channel": OPS, "text": "hi"})
        async with http.post(f"{slack.url}/page/say", data=did) as response:
            assert response.status == 415
        assert slack.channel_messages(OPS) == []


@pytest.mark.parametrize(
    ("deed", "did"),
    [
        ("say", {"user": ALICE}),
        ("say", {"user": "U9", "channel": OPS, "text": "hi"}),
        ("press", {"user": ALICE, "channel": OPS, "ts": "1", "action_id": "go"}),
        ("submit", {"user": ALICE, "values": {}}),
        ("close", {"user": ALICE}),
    ],
)
async def test_nonsense_is_a_bad_request(deed: str, did: dict[str, Any]) -> None:
    async with (
        practice_slack() as slack,
        session() as http,
        http.post(f"{slack.url}/page/{deed}", json=did) as response,
    ):
        assert response.status == 400


async def test_a_reader_gets_everything_then_each_change() -> None:
    async with practice_slack() as slack, session() as http:
        client = web_client(slack)
        ts = (await client.chat_postMessage(channel=OPS, text="before"))["ts"]
        async with http.get(f"{slack.url}/page/changes", params={"user": BOB}) as response:
            ((name, state),) = await read_events(response, 1)
            assert (name, [message["text"] for message in state["messages"]]) == ("state", ["before"])
            assert state["users"][ALICE] == "alice"
            await client.chat_update(channel=OPS, ts=ts, text="after")
            await client.chat_postEphemeral(channel=OPS, user=ALICE, text="secret")
            await client.chat_delete(channel=OPS, ts=ts)
            edited, whispered, deleted = (event for _, event in await read_events(response, 3))
        assert (edited["kind"], edited["message"]["text"]) == ("edited", "after")
        assert (whispered["kind"], whispered["message"]) == ("ephemeral", None)
        assert (deleted["kind"], deleted["ts"], deleted["message"]) == ("deleted", ts, None)


async def test_a_file_is_text_whatever_it_holds() -> None:
    async with practice_slack() as slack, session() as http:
        await web_client(slack).files_upload_v2(filename="a.html", content=HOSTILE, channel=OPS)
        (file,) = slack.files
        async with http.get(f"{slack.url}/files/{file}") as response:
            assert response.content_type == "text/plain"
            assert await response.text() == HOSTILE
        async with http.get(f"{slack.url}/files/F9") as response:
            assert response.status == 404


async def test_stopping_ends_the_readers() -> None:
    async with (
        practice_slack() as slack,
        session() as http,
        http.get(f"{slack.url}/page/changes") as response,
    ):
        await read_events(response, 1)
        await slack.stop()
        assert (await response.content.read()).strip() == b""


async def fill(slack: PracticeSlack) -> str:
    """A root with all kinds of blocks, a reply with hostile text and a file; the root's ts."""
    client = web_client(slack)
    table = {
        "type": "table",
        "rows": [[{"type": "raw_text", "text": "phase"}, {"type": "raw_text", "text": "took"}]],
    }
    code = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": HOSTILE}]}
    root = await client.chat_postMessage(
        channel=OPS,
        text="x",
        blocks=[
            {"type": "header", "text": {"type": "plain_text", "text": "kimi-k2.5"}},
            section(f"*bold* _italic_ `code` a &lt; b <@{ALICE}> <https://example.com|docs> <!here>"),
            table,
            {"type": "actions", "elements": [button(confirm=CONFIRM)]},
        ],
    )
    ts = str(root["ts"])
    blocks = [{"type": "rich_text", "elements": [code]}, section(HOSTILE.replace("<", "&lt;"))]
    await client.chat_postMessage(channel=OPS, thread_ts=ts, text="x", blocks=blocks)
    await client.files_upload_v2(filename="tail.log", content=HOSTILE, channel=OPS, thread_ts=ts)
    return ts


@needs_chromium
async def test_a_thread_as_a_browser_shows_it() -> None:
    async with practice_slack() as slack, browser() as tab:
        await fill(slack)
        await tab.open(slack.url)
        await tab.wait_for(
            "document.querySelector('.messages .thread-link')?.textContent.startsWith('2 replies')"
        )
        body = "document.querySelector('.messages .message .blocks')"
        assert await tab.evaluate(f"{body}.querySelector('h3').textContent") == "kimi-k2.5"
        assert await tab.evaluate(f"{body}.querySelector('.section').textContent") == (
            "bold italic code a < b @alice docs @here"
        )
        for tag, text in (("b", "bold"), ("i", "italic"), ("code", "code"), ("a", "docs"), ("th", "phase")):
            assert await tab.evaluate(f"{body}.querySelector('{tag}').textContent") == text
        await web_client(slack).chat_postMessage(channel=OPS, text="✅ healthy, ❌ failed, 🔴 down")
        await tab.wait_for("document.querySelectorAll('.messages .drawn').length === 3")  # no font is needed
        told = "[...document.querySelectorAll('.messages .message')].at(-1).textContent"
        assert "✅ healthy, ❌ failed, 🔴 down" in str(await tab.evaluate(told))
        await tab.click(".messages .thread-link")
        await tab.wait_for("document.querySelectorAll('.replies .message').length === 3")
        assert await tab.evaluate("document.querySelector('.replies pre').textContent") == HOSTILE
        await tab.click(".replies .file summary")
        await tab.wait_for(f"document.querySelector('.preview').textContent === {json.dumps(HOSTILE)}")
        assert await tab.evaluate(
            "window.hacked === undefined && document.querySelectorAll('img').length === 0"
        )
        assert tab.complaints == []


def listening(slack: PracticeSlack, heard: list[str]) -> AsyncApp:
    """An app that writes down what it hears, opens a modal on restart, and wants long reasons."""
    app = bolt_app(slack)

    @app.command("/kimi")
    async def _kimi(ack: Any, client: Any, command: dict[str, str]) -> None:
        await ack(f"{command['text']} heard")
        if command["text"] == "restart":
            await client.views_open(trigger_id=command["trigger_id"], view=MODAL)

    @app.action("go")
    async def _go(ack: Any) -> None:
        await ack()
        heard.append("go")

    @app.view("why")
    async def _why(ack: Any, view: dict[str, Any]) -> None:
        words = view["state"]["values"]["reason"]["text"]["value"]
        heard.append(words)
        await (ack() if len(words) > 3 else ack(response_action="errors", errors={"reason": "Too short."}))

    @app.event("app_mention")
    async def _mention(event: dict[str, Any]) -> None:
        heard.append(event["thread_ts"])

    return app


@needs_chromium
async def test_commands_presses_and_modals_from_a_browser() -> None:
    heard: list[str] = []
    async with practice_slack() as slack, browser() as tab, connected(slack, listening(slack, heard)):
        ts = await fill(slack)
        await tab.open(slack.url, width=390, height=844)
        await tab.wait_for("document.querySelector('.messages .press')")
        await type_and_whisper(tab)
        await press_with_dialog(tab)
        await fill_in_the_modal(tab)
        await reply_in_the_thread(tab)
        await slack.wait_for(lambda _s: len(heard) == 4 or None, 60)
        assert heard == ["go", "why", "new weights", ts]
        assert tab.complaints == []
        assert slack.refusals == []


async def reply_in_the_thread(tab: Tab) -> None:
    outcome = "document.querySelector('.thread-composer .outcome').textContent"
    await tab.click(".messages .thread-link")
    await tab.type_into(".thread-composer input", "/kimi status")
    await tab.wait_for(f"{outcome}.includes('not supported in threads')")
    await tab.type_into(".thread-composer input", "@kimi status")


async def type_and_whisper(tab: Tab) -> None:
    await tab.type_into(".main-composer input", "/kimi status")
    await tab.wait_for("document.querySelector('.message.private')?.textContent.includes('status heard')")


async def press_with_dialog(tab: Tab) -> None:
    await tab.click(".messages .press")
    await tab.wait_for("document.querySelector('.ask').open")
    await tab.click(".ask .deny")
    await tab.wait_for("!document.querySelector('.ask').open")
    await tab.click(".messages .press")
    await tab.wait_for("document.querySelector('.ask').open")
    await tab.click(".ask .confirm")


async def fill_in_the_modal(tab: Tab) -> None:
    await tab.type_into(".main-composer input", "/kimi restart")
    await tab.wait_for("document.querySelector('dialog.modal').open")
    await tab.type_into("dialog.modal input", "why")
    await tab.wait_for("document.querySelector('.wrong').textContent === 'Too short.'")
    await tab.type_into("dialog.modal input", "new weights")
    await tab.wait_for("!document.querySelector('dialog.modal').open")


@needs_chromium
async def test_the_page_is_live_and_fits_a_phone() -> None:
    async with practice_slack() as slack, browser() as tab:
        ts = await fill(slack)
        link = (await web_client(slack).chat_getPermalink(channel=OPS, message_ts=ts))["permalink"]
        await tab.open(link, width=390, height=844, dark=True)
        await tab.wait_for("document.querySelectorAll('.replies .message').length === 3")
        await web_client(slack).chat_postMessage(channel=OPS, thread_ts=ts, text="*healthy*")
        await tab.wait_for(
            "document.querySelector('.replies .message:last-child b:not(.name)')?.textContent === 'healthy'"
        )
        assert await tab.evaluate("document.documentElement.scrollWidth") == 390
        await tab.click(".panel .close")
        assert await tab.evaluate("document.querySelector('.panel').hidden")
        await web_client(slack).chat_postEphemeral(channel=OPS, user=BOB, text="for bob")
        assert await tab.evaluate("document.querySelector('.message.private') === null")
        await tab.evaluate(
            f"(() => {{ const who = document.querySelector('.user'); who.value = '{BOB}';"
            " who.dispatchEvent(new Event('change')); })()",
        )
        await tab.wait_for("document.querySelector('.message.private')?.textContent.includes('for bob')")
        assert tab.complaints == []
