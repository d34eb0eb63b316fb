"""The Web API's door: tokens, scopes, rates, ordered faults, then the method; refusals are noted."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from aiohttp import web

from bot.practice.slack_arguments import Arguments, Method, Methods, read_arguments, read_token
from bot.practice.slack_faults import (
    DropSocket,
    ErrorCode,
    Fault,
    FaultPlan,
    Hang,
    RateLimited,
    ResetAfterAccept,
    ResetBeforeAccept,
    Status,
    reset,
)
from bot.practice.slack_state import Call, Refused, Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.practice.slack_rates import Rates

NOT_UNDER_ONE_ROOF = 504  # what a proxy answers when Slack hangs


class WebApi:
    """Answers `/api/METHOD`, over GET or POST, query, form or JSON."""

    def __init__(
        self,
        workspace: Workspace,
        methods: Methods,
        *,
        tokens: Mapping[str, str],
        faults: FaultPlan,
        rates: Rates,
    ) -> None:
        """`tokens`: "bot" and "app" level."""
        self._workspace = workspace
        self._methods = methods
        self._tokens = tokens
        self._faults = faults
        self._rates = rates

    async def handle(self, request: web.Request) -> web.Response:
        name = request.match_info["method"]
        try:
            arguments = await read_arguments(request)
        except Refused as refused:
            self._workspace.refuse(name, refused)
            return web.json_response(refused.body())
        token = read_token(request, arguments)
        self._workspace.calls.append(Call(name, arguments.values, time.monotonic()))
        fault = self._faults.take(name, arguments.values)
        if fault is None:
            return self._respond(self.answer(name, arguments, token))
        return await self._with_fault(fault, request, name, arguments, token)

    def answer(self, name: str, arguments: Arguments, token: str | None) -> dict[str, Any]:
        """What the method says, or the refusal's body."""
        try:
            method = self._admit(name, token)
            self._rates.admit(name, arguments.text("channel"))
            return {"ok": True, **method.run(arguments)}
        except Refused as refused:
            self._workspace.refuse(name, refused)
            return refused.body()

    def _admit(self, name: str, token: str | None) -> Method:
        method = self._methods.get(name)
        if method is None:
            raise Refused("unknown_method", req_method=name)
        if token is None:
            raise Refused("not_authed")
        if token not in self._tokens.values():
            raise Refused("invalid_auth")
        if self._workspace.revoked and token == self._tokens["bot"]:
            raise Refused("token_revoked")
        if token != self._tokens["app" if method.app_level else "bot"]:
            raise Refused("not_allowed_token_type")
        if method.scope is not None:
            self._workspace.require(method.scope)
        return method

    def _respond(self, body: dict[str, Any]) -> web.Response:
        headers = {"x-oauth-scopes": ",".join(sorted(self._workspace.scopes))}
        if body.get("error") == "ratelimited":
            headers["Retry-After"] = str(body.pop("retry_after"))
            return web.json_response(body, status=429, headers=headers)
        return web.json_response(body, headers=headers)

    async def _with_fault(
        self, fault: Fault, request: web.Request, name: str, arguments: Arguments, token: str | None
    ) -> web.Response:
        match fault:
            case RateLimited(seconds, http_ok):
                body = {"ok": False, "error": "ratelimited"}
                headers = {"Retry-After": str(seconds)}
                return web.json_response(body, status=200 if http_ok else 429, headers=headers)
            case Status(code):
                return web.Response(
                    status=code, text="<html>Slack is having trouble</html>", content_type="text/html"
                )
            case ErrorCode(code, accept):
                if accept:
                    self.answer(name, arguments, token)
                return web.json_response({"ok": False, "error": code})
            case ResetBeforeAccept() | DropSocket():
                return reset(request)
            case ResetAfterAccept():
                self.answer(name, arguments, token)
                return reset(request)
            case Hang(seconds, accept):
                body = self.answer(name, arguments, token) if accept else {}
                await asyncio.sleep(seconds)
                return self._respond(body) if accept else web.Response(status=NOT_UNDER_ONE_ROOF)
