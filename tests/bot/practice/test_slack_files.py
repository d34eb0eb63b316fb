"""Uploads in three steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError, SlackRequestError

from bot.practice.slack_state import Refusal
from tests.support.slack_app import OPS, practice_slack, web_client

if TYPE_CHECKING:
    from bot.practice.slack import PracticeSlack
    from bot.practice.slack_faults import Fault

GONE = {"id": "F0NOTHING", "title": "x"}


async def code(slack: PracticeSlack, method: str, **arguments: Any) -> str:
    with pytest.raises(SlackApiError) as error:
        await web_client(slack).api_call(method, json=arguments)
    return str(error.value.response["error"])


async def upload(slack: PracticeSlack, content: bytes, *, length: int | None = None) -> tuple[str, int]:
    """The first two steps; the file's id and the HTTP status."""
    asked = await web_client(slack).files_getUploadURLExternal(
        filename="tail.log", length=len(content) if length is None else length
    )
    async with (
        aiohttp.ClientSession() as session,
        session.post(asked["upload_url"], data=content) as response,
    ):
        return str(asked["file_id"]), response.status


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"filename": "a", "length": 0}, "invalid_arguments"),
        ({"length": 5}, "invalid_arguments"),
        ({"filename": "a", "length": 2**20 + 1, "snippet_type": "text"}, "file_too_large"),
        ({"filename": "a", "length": 2**30 + 1}, "file_too_large"),
        ({"filename": "a.png", "length": 5, "alt_txt": "x" * 1001}, "alt_txt_too_large"),
    ],
)
async def test_addresses_slack_refuses(arguments: dict[str, Any], error: str) -> None:
    async with practice_slack() as slack:
        assert await code(slack, "files.getUploadURLExternal", **arguments) == error


async def test_bytes_must_be_as_many_as_announced() -> None:
    async with practice_slack() as slack:
        file_id, status = await upload(slack, b"four", length=5)
        assert status == 400
        assert slack.refusals == [Refusal("upload", "length_mismatch", "4 bytes, 5 announced")]
        assert await code(slack, "files.completeUploadExternal", files=[{"id": file_id}]) == "file_not_found"


async def bring(slack: PracticeSlack, content: bytes) -> list[dict[str, Any]]:
    """The first two steps of a picture."""
    asked = await web_client(slack).files_getUploadURLExternal(
        filename="start.png", length=len(content), alt_txt="weights 5m"
    )
    async with aiohttp.ClientSession() as session, session.post(asked["upload_url"], data=content):
        return [{"id": asked["file_id"]}]


async def test_a_picture_is_what_its_name_says_and_has_its_words() -> None:
    async with practice_slack() as slack:
        files = await bring(slack, b"no picture")
        assert await code(slack, "files.completeUploadExternal", files=files) == "invalid_arguments"
        files = await bring(slack, b"\x89PNG\r\n\x1a\n...")
        told = await web_client(slack).files_completeUploadExternal(files=files, channel_id=OPS)
        [shown] = told["files"]
        assert (shown["mimetype"], shown["alt_txt"]) == ("image/png", "weights 5m")
        async with aiohttp.ClientSession() as session, session.get(shown["url_private"]) as response:
            assert response.content_type == "image/png"


async def test_a_file_is_completed_once() -> None:
    async with practice_slack() as slack:
        file_id, _ = await upload(slack, b"four")
        files: list[dict[str, str | None]] = [{"id": file_id, "title": "The tail"}]
        await web_client(slack).files_completeUploadExternal(files=files, channel_id=OPS)
        assert await code(slack, "files.completeUploadExternal", files=files) == "file_not_found"
        assert slack.files[file_id].title == "The tail"
        assert slack.channel_messages(OPS)[0].files == (slack.files[file_id],)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"channel_id": "#llm-ops"}, "channel_not_found"),
        ({"channel_id": "C0ELSE"}, "not_in_channel"),
        ({"channel_id": OPS, "thread_ts": "1700000000.000001"}, "thread_not_found"),
        ({"channel_id": OPS, "files": []}, "invalid_arguments"),
        ({"channel_id": OPS, "files": [GONE]}, "file_not_found"),
        ({"channel_id": "U0ALICE"}, "channel_not_found"),
    ],
)
async def test_shares_slack_refuses_leave_no_trace(arguments: dict[str, Any], error: str) -> None:
    async with practice_slack() as slack:
        slack.add_channel("C0ELSE", "else", joined=False)
        file_id, _ = await upload(slack, b"four")
        call = {"files": [{"id": file_id}], **arguments}
        assert await code(slack, "files.completeUploadExternal", **call) == error
        assert slack.files == {}
        assert slack.channel_messages(OPS) == []


async def test_reading_a_file_needs_a_scope_of_its_own() -> None:
    async with practice_slack() as slack:
        file_id, _ = await upload(slack, b"four")
        await web_client(slack).files_completeUploadExternal(files=[{"id": file_id}], channel_id=OPS)
        assert await code(slack, "files.info", file=file_id) == "missing_scope"
        slack.workspace.scopes.add("files:read")
        info = (await web_client(slack).files_info(file=file_id))["file"]
        assert (info["name"], info["size"], list(info["shares"]["public"])) == ("tail.log", 4, [OPS])
        assert await code(slack, "files.info", file="F9") == "file_not_found"


async def test_several_files_are_one_message() -> None:
    async with practice_slack() as slack:
        uploads = [{"filename": "a.log", "content": "a"}, {"filename": "b.log", "content": "b"}]
        await web_client(slack).files_upload_v2(file_uploads=uploads, channel=OPS, initial_comment="both")
        (message,) = slack.channel_messages(OPS)
        assert [(file.name, file.text) for file in message.files] == [("a.log", "a"), ("b.log", "b")]


async def test_a_form_is_taken_too() -> None:
    async with practice_slack() as slack, aiohttp.ClientSession() as session:
        asked = await web_client(slack).files_getUploadURLExternal(filename="a", length=4)
        form = aiohttp.FormData()
        form.add_field("file", b"four", filename="a")
        async with session.post(asked["upload_url"], data=form) as response:
            assert await response.text() == "OK - 4"


@pytest.mark.parametrize(("fault", "status"), [("status", 500), ("error", 400), ("rate", 429)])
async def test_a_refused_upload(fault: str, status: int) -> None:
    async with practice_slack() as slack:
        ordered: dict[str, Fault] = {
            "status": slack.faults.status(500),
            "error": slack.faults.error("storage_limit_reached"),
            "rate": slack.faults.rate_limited(3),
        }
        slack.faults.add("upload", ordered[fault])
        assert (await upload(slack, b"four"))[1] == status
        assert slack.refusals == []


async def test_the_sdk_raises_on_a_refused_upload() -> None:
    async with practice_slack() as slack:
        slack.faults.add("upload", slack.faults.status(500))
        with pytest.raises(SlackRequestError):
            await web_client(slack).files_upload_v2(filename="a", content="a", channel=OPS)


@pytest.mark.parametrize("accepted", [True, False])
async def test_an_upload_may_be_reset(accepted: bool) -> None:
    async with practice_slack() as slack:
        plan = slack.faults
        plan.add("upload", plan.reset_after_accept() if accepted else plan.reset_before_accept())
        with pytest.raises(aiohttp.ClientError):
            await upload(slack, b"four")
