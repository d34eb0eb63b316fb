"""Modals and the Home tab: `views.*`, and the trigger ids that open a modal once, within three seconds."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bot.practice.slack_arguments import Arguments, Method, Methods
from bot.practice.slack_blocks import HOME, MODAL
from bot.practice.slack_chat import name_blocks
from bot.practice.slack_limits import check_view
from bot.practice.slack_state import Change, Refused, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

TRIGGER_LIFE = 3.0  # seconds


class Triggers:
    """Issues trigger ids and takes each back once."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._issued: dict[str, tuple[str, float]] = {}
        self._used: set[str] = set()

    def issue(self, user: str) -> str:
        trigger = f"{secrets.randbelow(10**12)}.{secrets.randbelow(10**12)}.{secrets.token_hex(16)}"
        self._issued[trigger] = (user, self._now())
        return trigger

    def use(self, trigger: str) -> str:
        """The user it was issued for."""
        if trigger not in self._issued:
            raise Refused("invalid_trigger_id")
        user, issued = self._issued[trigger]
        if trigger in self._used:
            raise Refused("exchanged_trigger_id")
        if self._now() - issued > TRIGGER_LIFE:
            raise Refused("expired_trigger_id")
        self._used.add(trigger)
        return user


@dataclass(slots=True)
class View:
    """A modal or a Home tab in front of one user; `content` as the app gave it."""

    id: str
    user: str
    content: dict[str, Any]
    hash: str = field(default_factory=lambda: f"{time.time():.0f}.{secrets.token_hex(4)}")
    open: bool = True

    @property
    def kind(self) -> str:
        return str(self.content["type"])


class Views:
    """The methods, over one workspace."""

    def __init__(self, workspace: Workspace, triggers: Triggers) -> None:
        self._workspace = workspace
        self._triggers = triggers
        self.views: dict[str, View] = {}
        self.homes: dict[str, View] = {}  # by user

    def methods(self) -> Methods:
        return {
            "views.open": Method(self.open),
            "views.update": Method(self.update),
            "views.publish": Method(self.publish),
        }

    def open(self, call: Arguments) -> dict[str, Any]:
        content = self._content(call, MODAL)
        user = self._triggers.use(call.needed("trigger_id"))
        return {"view": self.show(self.put(user, content))}

    def update(self, call: Arguments) -> dict[str, Any]:
        view = self._named(call)
        content = self._content(call, view.kind)
        if call.text("hash") not in {"", view.hash}:
            raise Refused("hash_conflict")
        return {"view": self.show(self.replace(view, content))}

    def publish(self, call: Arguments) -> dict[str, Any]:
        user = call.needed("user_id")
        if user not in self._workspace.users:
            raise Refused("invalid_arguments", "[ERROR] unknown user [json-pointer:/user_id]")
        content = self._content(call, HOME)
        if (home := self.homes.get(user)) is not None:
            return {"view": self.show(self.replace(home, content))}
        self.homes[user] = self.put(user, content)
        return {"view": self.show(self.homes[user])}

    def put(self, user: str, content: dict[str, Any]) -> View:
        view = View(f"V0{secrets.token_hex(4).upper()}", user, _named(content))
        self.views[view.id] = view
        self._workspace.changed(Change("view", user=user))
        return view

    def replace(self, view: View, content: dict[str, Any]) -> View:
        view.content = _named(content)
        view.hash = f"{time.time():.0f}.{secrets.token_hex(4)}"
        self._workspace.changed(Change("view", user=view.user))
        return view

    def close(self, view: View) -> None:
        view.open = False
        self._workspace.changed(Change("view", user=view.user))

    def modal(self, user: str) -> View | None:
        """The modal in front of this user: the one opened last."""
        shown = [
            view for view in self.views.values() if view.user == user and view.open and view.kind == MODAL
        ]
        return shown[-1] if shown else None

    def respond(self, view: View, response: dict[str, Any]) -> dict[str, Any]:
        """What a view_submission's answer does to the modal; the errors by block_id, if it has some."""
        match response.get("response_action"):
            case "errors":
                return dict(response.get("errors") or {})
            case "update":
                check_view(response.get("view"), kind=MODAL)
                self.replace(view, response["view"])
            case "push":
                check_view(response.get("view"), kind=MODAL)
                self.put(view.user, response["view"])
            case "clear":
                for other in self.views.values():
                    if other.user == view.user and other.kind == MODAL:
                        self.close(other)
            case None:
                self.close(view)
            case other:
                raise Refused("invalid_arguments", f"unknown response_action {other}")
        return {}

    def show(self, view: View) -> dict[str, Any]:
        return {
            **view.content,
            "id": view.id,
            "team_id": self._workspace.team,
            "hash": view.hash,
            "root_view_id": view.id,
            "previous_view_id": None,
            "app_id": self._workspace.app,
            "bot_id": self._workspace.bot,
            "state": {"values": {}},
        }

    def _named(self, call: Arguments) -> View:
        if "view_id" in call:
            found = self.views.get(call.text("view_id"))
        else:
            outer = call.needed("external_id")
            found = next(
                (view for view in self.views.values() if view.content.get("external_id") == outer), None
            )
        if found is None or not found.open:
            raise Refused("not_found")
        return found

    def _content(self, call: Arguments, kind: str) -> dict[str, Any]:
        content = call.structure("view", broken="invalid_arguments")
        check_view(content, kind=kind)
        return dict(content)


def _named(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "blocks": list(name_blocks(tuple(content["blocks"])))}
