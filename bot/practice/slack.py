"""The practice workspace: a Slack that runs on loopback, never kinder than the real one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from aiohttp import web

from bot.practice.slack_chat import Chat
from bot.practice.slack_faults import FaultPlan
from bot.practice.slack_files import Uploads
from bot.practice.slack_hooks import Hooks
from bot.practice.slack_lookups import Lookups
from bot.practice.slack_page import Page
from bot.practice.slack_people import CommandOutcome, People
from bot.practice.slack_rates import Rate, Rates
from bot.practice.slack_requests import RequestUrl
from bot.practice.slack_socket import SocketMode
from bot.practice.slack_state import (
    BOT_SCOPES,
    Call,
    Change,
    Channel,
    Group,
    PostedFile,
    PostedMessage,
    Refusal,
    User,
    Workspace,
)
from bot.practice.slack_views import Triggers, View, Views
from bot.practice.slack_web import WebApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")
LARGEST_BODY = 2**30 + 2**20


class PracticeSlack:
    """Web API, Socket Mode and the people of one workspace, on an aiohttp server at 127.0.0.1."""

    bot_token = "xoxb-practice-bot-token"  # noqa: S105 - a stand-in's token, good nowhere else
    app_token = "xapp-practice-app-token"  # noqa: S105
    signing_secret = "practice-signing-secret"  # noqa: S105

    def __init__(
        self,
        *,
        scopes: Iterable[str] = BOT_SCOPES,
        rates: Mapping[str, Rate] | None = None,
        ack_timeout: float = 3.0,
    ) -> None:
        """`rates`: None for Slack's own, {} for none."""
        self.faults = FaultPlan()
        self.workspace = Workspace(scopes)
        self.rates = Rates(rates)
        self.triggers = Triggers()
        self.views = Views(self.workspace, self.triggers)
        self.hooks = Hooks(self.workspace, self.faults)
        self.sockets = SocketMode(self.workspace, self.faults, ack_timeout=ack_timeout)
        self.people = People(self.workspace, self.views, self.hooks, self.triggers, self.sockets)
        self._chat = Chat(self.workspace)
        self._uploads = Uploads(self.workspace, self._chat, self.faults)
        self._runner: web.AppRunner | None = None
        self._stirred = asyncio.Event()
        self.workspace.watch(lambda _change: self._stirred.set())

    async def start(self, port: int = 0) -> None:
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        host, bound = self._runner.addresses[0][:2]
        self.workspace.base_url = f"http://{host}:{bound}"

    async def stop(self) -> None:
        """May be called twice."""
        await self.people.stop()
        await self.sockets.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        """Of the page."""
        return self.workspace.base_url

    @property
    def api_url(self) -> str:
        return f"{self.workspace.base_url}/api/"

    @property
    def refusals(self) -> list[Refusal]:
        return self.workspace.refusals

    @property
    def warnings(self) -> list[Refusal]:
        """What Slack would have taken in silence to the app's harm: text cut, an answer ignored."""
        return self.workspace.warnings

    @property
    def calls(self) -> list[Call]:
        return self.workspace.calls

    @property
    def files(self) -> dict[str, PostedFile]:
        return self.workspace.files

    def add_user(self, user: str, name: str) -> User:
        self.workspace.users[user] = User(user, name)
        return self.workspace.users[user]

    def add_channel(self, channel: str, name: str, *, private: bool = False, joined: bool = True) -> Channel:
        self.workspace.channels[channel] = Channel(channel, name, private=private, joined=joined)
        return self.workspace.channels[channel]

    def add_group(self, group: str, handle: str, users: Iterable[str]) -> Group:
        self.workspace.groups[group] = Group(group, handle, tuple(users))
        return self.workspace.groups[group]

    def use_request_url(self, url: str) -> RequestUrl:
        """From now on payloads go to this address, signed, instead of through Socket Mode."""
        self.people.courier = RequestUrl(url, self.signing_secret, ack_timeout=self.sockets.ack_timeout)
        return self.people.courier

    async def slash(self, user: str, channel: str, text: str, *, command: str = "/kimi") -> CommandOutcome:
        return await self.people.slash(user, channel, text, command=command)

    async def mention(
        self, user: str, channel: str, text: str, thread_ts: str | None = None
    ) -> CommandOutcome:
        return await self.people.mention(user, channel, text, thread_ts)

    async def say(self, user: str, channel: str, text: str, thread_ts: str | None = None) -> CommandOutcome:
        return await self.people.say(user, channel, text, thread_ts)

    async def press(
        self,
        user: str,
        channel: str,
        ts: str,
        action_id: str,
        *,
        accept_confirm: bool = True,
        value: str | None = None,
        option: str | None = None,
    ) -> CommandOutcome:
        return await self.people.press(
            user, channel, ts, action_id, accept_confirm=accept_confirm, value=value, option=option
        )

    async def submit(self, user: str, values: dict[str, dict[str, Any]]) -> CommandOutcome:
        return await self.people.submit(user, values)

    async def open_home(self, user: str) -> CommandOutcome:
        return await self.people.open_home(user)

    def modal(self, user: str) -> View | None:
        return self.views.modal(user)

    def home(self, user: str) -> View | None:
        return self.views.homes.get(user)

    def channel_messages(self, channel: str) -> list[PostedMessage]:
        """What the channel shows: roots and broadcasts, oldest first."""
        return self.workspace.roots(channel)

    def thread(self, channel: str, ts: str) -> list[PostedMessage]:
        """The root first."""
        return self.workspace.thread(channel, ts)

    def ephemerals(self, user: str) -> list[PostedMessage]:
        return [message for message in self.workspace.ephemerals if message.seen_by == user]

    def on_change(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Called on every change; the answer ends that."""
        return self.workspace.watch(callback)

    async def wait_for(self, predicate: Callable[[PracticeSlack], T | None], timeout: float) -> T:  # noqa: ASYNC109 - the caller's patience
        """The predicate's first true answer. TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            while not (found := predicate(self)):
                self._stirred.clear()
                await self._stir()
            return found

    async def _stir(self) -> None:
        """Until something changes here; now and then anyway, for predicates that look elsewhere."""
        try:
            await asyncio.wait_for(self._stirred.wait(), 0.05)
        except TimeoutError:
            return

    def _application(self) -> web.Application:
        lookups = Lookups(self.workspace)
        parts = (self._chat, lookups, self._uploads, self.views, self.sockets)
        methods = {name: method for part in parts for name, method in part.methods().items()}
        tokens = {"bot": self.bot_token, "app": self.app_token}
        api = WebApi(self.workspace, methods, tokens=tokens, faults=self.faults, rates=self.rates)
        application = web.Application(client_max_size=LARGEST_BODY)
        application.router.add_route("*", "/api/{method}", api.handle)
        application.router.add_get("/link", self.sockets.serve)
        application.router.add_post("/upload/v1/{file}", self._uploads.receive)
        for kind in ("commands", "actions"):
            application.router.add_post(f"/{kind}/{{team}}/{{token}}", self.hooks.serve)
        Page(self.workspace, self.people, self.views).add_routes(application)
        return application
