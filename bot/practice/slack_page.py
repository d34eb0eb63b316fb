"""The practice page: the workspace in a browser, live, with boxes to type into and buttons to press."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from aiohttp import web

if TYPE_CHECKING:
    from bot.practice.slack_people import CommandOutcome, People
    from bot.practice.slack_state import Change, PostedFile, PostedMessage, Workspace
    from bot.practice.slack_views import View, Views

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

FOLDER = Path(__file__).parent / "page"
STATIC = ("page.css", "page.js", "blocks.js", "mrkdwn.js", "modal.js", "rich_text.js")
LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}
LONGEST_QUEUE = 1000
KEEP_ALIVE = 15.0  # seconds


class Page:
    """Serves the page and carries out what is done on it."""

    def __init__(self, workspace: Workspace, people: People, views: Views) -> None:
        self._workspace = workspace
        self._people = people
        self._views = views
        self._readers: set[asyncio.Queue[str | None]] = set()
        workspace.watch(self._spread)

    def add_routes(self, application: web.Application) -> None:
        router = application.router
        router.add_get("/", _local(self._index))
        router.add_get("/archives/{channel}/{message}", _local(self._index))
        router.add_get("/page/changes", _local(self._changes))
        router.add_get("/page/{name}", _local(self._static))
        router.add_get("/files/{file}", _local(self._file))
        for name, does in self._deeds().items():
            router.add_post(f"/page/{name}", _local(_carry_out(does)))
        application.on_shutdown.append(self._close)

    def _deeds(self) -> dict[str, Callable[[dict[str, Any]], Awaitable[CommandOutcome]]]:
        people = self._people
        return {
            "say": lambda did: people.say(did["user"], did["channel"], did["text"], did.get("thread_ts")),
            "press": self._press,
            "submit": lambda did: people.submit(did["user"], did["values"]),
            "close": lambda did: people.close_modal(did["user"]),
            "home": lambda did: people.open_home(did["user"]),
        }

    async def _press(self, did: dict[str, Any]) -> CommandOutcome:
        """A button or menu of a message, or of a view where `view` is given."""
        user, action_id, value, option = did["user"], did["action_id"], did.get("value"), did.get("option")
        if "view" in did:
            view = self._views.views[did["view"]]
            return await self._people.press_in_view(user, view, action_id, value=value, option=option)
        place = (did["channel"], did["ts"])
        return await self._people.press(user, *place, action_id, value=value, option=option)

    async def _index(self, _request: web.Request) -> web.StreamResponse:
        return web.FileResponse(FOLDER / "index.html", headers={**SAFE, "Content-Security-Policy": POLICY})

    async def _static(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in STATIC:
            raise web.HTTPNotFound
        return web.FileResponse(FOLDER / name, headers=SAFE)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        """A picture as one; all else as text, whatever it claims to be: a log may hold markup."""
        file = self._workspace.files.get(request.match_info["file"])
        if file is None:
            raise web.HTTPNotFound
        headers = {**SAFE, "Content-Security-Policy": "default-src 'none'; sandbox"}
        charset = "utf-8" if file.kind == "text/plain" else None
        return web.Response(body=file.content, content_type=file.kind, charset=charset, headers=headers)

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: everything first, then each change. A slow reader is cut and starts anew."""
        user = request.query.get("user", "")
        response = web.StreamResponse(headers={**SAFE, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[str | None] = asyncio.Queue(LONGEST_QUEUE)
        self._readers.add(queue)
        try:
            await response.write(_event("state", self.show_state(user)))
            while (stirred := await _next(queue)) is not None:
                await response.write(b": alive\n\n" if stirred == "" else self._reread(stirred, user))
        except ConnectionError:
            pass
        finally:
            self._readers.discard(queue)
        return response

    def _spread(self, change: Change) -> None:
        ts = change.message.ts if change.message is not None else ""
        channel = change.message.channel if change.message is not None else ""
        note = json.dumps({"kind": change.kind, "channel": channel, "ts": ts})
        for queue in tuple(self._readers):
            try:
                queue.put_nowait(note)
            except asyncio.QueueFull:
                self._readers.discard(queue)
                queue.get_nowait()
                queue.put_nowait(None)

    def _reread(self, stirred: str, user: str) -> bytes:
        """What changed, as it stands now."""
        change = json.loads(stirred)
        found = [
            message
            for message in self._visible(user)
            if (message.channel, message.ts) == (change["channel"], change["ts"])
        ]
        message = self.show_message(found[0]) if found else None
        return _event("change", {**change, "message": message, **self._surroundings(user)})

    def show_state(self, user: str) -> dict[str, Any]:
        """All that this user sees."""
        channels = self._workspace.channels.values()
        return {
            "bot": self._workspace.bot_user,
            "users": {member.id: member.name for member in self._workspace.users.values()},
            "groups": {group.id: group.handle for group in self._workspace.groups.values()},
            "channels": [
                {"id": channel.id, "name": channel.name, "private": channel.private, "person": channel.person}
                for channel in channels
                if channel.person in {None, user}
            ],
            "commands": sorted(self._people.commands),
            "messages": [self.show_message(message) for message in self._visible(user)],
            **self._surroundings(user),
        }

    def _surroundings(self, user: str) -> dict[str, Any]:
        """The modal and Home tab in front of the user, and the calls refused so far."""
        refusals = self._workspace.refusals
        return {
            "modal": self._show_view(self._views.modal(user)),
            "home": self._show_view(self._views.homes.get(user)),
            "refused": len(refusals),
            "refusals": [[refusal.method, refusal.error, refusal.detail[:300]] for refusal in refusals[-5:]],
        }

    def _visible(self, user: str) -> list[PostedMessage]:
        spoken = [
            message
            for channel in self._workspace.channels.values()
            if channel.person in {None, user}
            for message in self._workspace.messages(channel.id)
        ]
        return spoken + [message for message in self._workspace.ephemerals if message.seen_by == user]

    def show_message(self, message: PostedMessage) -> dict[str, Any]:
        return {
            "channel": message.channel,
            "ts": message.ts,
            "user": message.user,
            "text": "This message was deleted." if message.tombstone else message.text,
            "blocks": [] if message.tombstone else list(message.blocks),
            "thread_ts": message.thread_ts,
            "broadcast": message.broadcast,
            "edited": message.edited is not None,
            "private": message.seen_by is not None,
            "tombstone": message.tombstone,
            "reactions": {name: len(people) for name, people in message.reactions.items()},
            "files": [] if message.tombstone else [_show_file(file) for file in message.files],
        }

    @staticmethod
    def _show_view(view: View | None) -> dict[str, Any] | None:
        return None if view is None else {**view.content, "id": view.id, "hash": view.hash}

    async def _close(self, _application: web.Application) -> None:
        for queue in tuple(self._readers):
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(None)


def _show_file(file: PostedFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "name": file.name,
        "title": file.title,
        "kind": file.kind,
        "alt": file.alt,
        "size": len(file.content),
        "lines": file.content.count(b"\n"),  # a carriage return redraws a line, it ends none
    }


async def _next(queue: asyncio.Queue[str | None]) -> str | None:
    """The next note; "" now and then while there is none; None at the end."""
    try:
        return await asyncio.wait_for(queue.get(), KEEP_ALIVE)
    except TimeoutError:
        return ""


def _event(name: str, content: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n".encode()


def _local(handler: Handler) -> Handler:
    """Only under a loopback name: a web site elsewhere may have pointed its own name at 127.0.0.1."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.url.host not in LOCAL_HOSTS:
            raise web.HTTPForbidden(text="The practice page answers on 127.0.0.1 and localhost alone.")
        return await handler(request)

    return handle


def _carry_out(does: Callable[[dict[str, Any]], Awaitable[CommandOutcome]]) -> Handler:
    """JSON alone is taken: a form on another site can't send that without asking first."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType
        try:
            outcome = await does(await request.json())
        except (LookupError, TypeError, ValueError) as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        response = outcome.response or {}
        return web.json_response(
            {
                "acknowledged": outcome.acknowledged,
                "error": outcome.error,
                "errors": response.get("errors"),
                "ts": outcome.ts,
            },
        )

    return handle
