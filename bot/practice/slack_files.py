"""Uploads in Slack's three steps: ask for an address, send the bytes there, complete; and `files.info`."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from bot.practice.slack_arguments import Arguments, Method, Methods
from bot.practice.slack_chat import Chat, name_blocks
from bot.practice.slack_faults import (
    UPLOAD,
    ErrorCode,
    Fault,
    FaultPlan,
    RateLimited,
    ResetAfterAccept,
    ResetBeforeAccept,
    Status,
    reset,
)
from bot.practice.slack_limits import check_content, read_blocks
from bot.practice.slack_state import PostedFile, PostedMessage, Refused, Workspace

LARGEST_SNIPPET = 2**20
LARGEST_FILE = 2**30
LONGEST_ALT = 1000  # characters
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(slots=True)
class _Reserved:
    name: str
    length: int
    alt: str = ""
    content: bytes | None = None
    completed: bool = False


class Uploads:
    """The methods and the upload address, over one workspace."""

    def __init__(self, workspace: Workspace, chat: Chat, faults: FaultPlan) -> None:
        self._workspace = workspace
        self._chat = chat
        self._faults = faults
        self._reserved: dict[str, _Reserved] = {}

    def methods(self) -> Methods:
        return {
            "files.getUploadURLExternal": Method(self.reserve, "files:write"),
            "files.completeUploadExternal": Method(self.complete, "files:write"),
            "files.info": Method(self.info, "files:read"),
        }

    def reserve(self, call: Arguments) -> dict[str, Any]:
        name, length = call.needed("filename"), call.number("length", 0)
        if length <= 0:
            raise Refused(
                "invalid_arguments", "[ERROR] must be greater than or equal to 1 [json-pointer:/length]"
            )
        if length > (LARGEST_SNIPPET if "snippet_type" in call else LARGEST_FILE):
            raise Refused("file_too_large")
        alt = call.text("alt_txt")
        if len(alt) > LONGEST_ALT:
            raise Refused("alt_txt_too_large")
        file_id = f"F0{secrets.token_hex(4).upper()}"
        self._reserved[file_id] = _Reserved(name, length, alt)
        return {"upload_url": f"{self._workspace.base_url}/upload/v1/{file_id}", "file_id": file_id}

    async def receive(self, request: web.Request) -> web.Response:
        """The POST of the bytes: raw, or one part of a multipart form. Needs no token, as in Slack."""
        content = await _read_content(request)
        fault = self._faults.take(UPLOAD)
        if (broken := _break(fault, request)) is not None:
            return broken
        response = self._keep(request.match_info["file"], content)
        return reset(request) if isinstance(fault, ResetAfterAccept) else response

    def _keep(self, file_id: str, content: bytes) -> web.Response:
        reserved = self._reserved.get(file_id)
        if reserved is None or reserved.completed:
            return self._refuse("file_not_found", file_id)
        if len(content) != reserved.length:
            return self._refuse("length_mismatch", f"{len(content)} bytes, {reserved.length} announced")
        reserved.content = content
        return web.Response(text=f"OK - {len(content)}")

    def complete(self, call: Arguments) -> dict[str, Any]:
        listed = call.structure("files", broken="invalid_arguments")
        if not isinstance(listed, list) or not listed:
            raise Refused("invalid_arguments", "[ERROR] missing required field: files")
        files = [self._file(entry) for entry in listed]
        if channel_id := call.text("channel_id") or call.text("channels"):
            self._share(files, channel_id, call)
        for file in files:
            self._reserved[file.id].completed = True
            self._workspace.files[file.id] = file
        return {"files": [self.show(file) for file in files]}

    def info(self, call: Arguments) -> dict[str, Any]:
        file = self._workspace.files.get(call.needed("file"))
        if file is None:
            raise Refused("file_not_found")
        return {"file": self.show(file), "content": file.text[:1000]}

    def show(self, file: PostedFile) -> dict[str, Any]:
        shares = {}
        if file.channel:
            shares = {file.channel: [{"ts": file.ts, "thread_ts": file.thread_ts}]}
        return {
            "id": file.id,
            "name": file.name,
            "title": file.title,
            "size": len(file.content),
            "mimetype": file.kind,
            "alt_txt": file.alt,
            "user": self._workspace.bot_user,
            "url_private": f"{self._workspace.base_url}/files/{file.id}",
            "permalink": f"{self._workspace.base_url}/files/{file.id}",
            "channels": [file.channel] if file.channel else [],
            "shares": {"public": shares},
        }

    def _file(self, entry: Any) -> PostedFile:
        file_id = entry.get("id") if isinstance(entry, dict) else None
        reserved = self._reserved.get(str(file_id))
        if reserved is None or reserved.content is None or reserved.completed:
            raise Refused("file_not_found")
        title = str(entry.get("title") or reserved.name)
        file = PostedFile(str(file_id), reserved.name, title, reserved.content, alt=reserved.alt)
        if (file.kind == "image/png") != reserved.content.startswith(PNG):
            # Slack would take it, and show a broken picture, or a text nobody can read.
            raise Refused("invalid_arguments", f"[ERROR] {file.name} does not hold what its name says")
        return file

    def _share(self, files: list[PostedFile], channel_id: str, call: Arguments) -> None:
        """One message with all the files. Files need membership: chat:write.public does not help."""
        channel = self._chat.writable(channel_id)
        if channel.id != channel_id:
            raise Refused("channel_not_found")
        if not channel.joined:
            raise Refused("not_in_channel")
        comment = call.text("initial_comment")
        blocks = read_blocks(call.structure("blocks", broken="invalid_blocks_format"))
        check_content(comment, blocks, files)
        message = PostedMessage(
            channel=channel.id,
            ts=self._workspace.next_ts(),
            user=self._workspace.bot_user,
            text=comment,
            blocks=name_blocks(blocks),
            thread_ts=self._chat.root(channel.id, call),
            bot=True,
            files=tuple(files),
        )
        for file in files:
            file.channel, file.thread_ts, file.ts = channel.id, message.thread_ts, message.ts
        self._workspace.post(message)

    def _refuse(self, code: str, detail: str) -> web.Response:
        self._workspace.refuse(UPLOAD, Refused(code, detail))
        return web.Response(status=400, text=code)


def _break(fault: Fault | None, request: web.Request) -> web.Response | None:
    """The response of a fault that keeps the bytes from being taken."""
    match fault:
        case Status(code):
            return web.Response(status=code, text="upload failed")
        case RateLimited(seconds):
            return web.Response(status=429, headers={"Retry-After": str(seconds)})
        case ErrorCode(code):
            return web.Response(status=400, text=code)
        case ResetBeforeAccept():
            return reset(request)
    return None


async def _read_content(request: web.Request) -> bytes:
    if not request.content_type.startswith("multipart/"):
        return await request.read()
    for value in (await request.post()).values():
        if isinstance(value, web.FileField):
            return value.file.read()
        if isinstance(value, str):
            return value.encode()
    return b""
