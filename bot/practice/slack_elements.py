"""The rules of block elements: buttons, menus, pickers, inputs, images, and the confirming dialog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.practice.slack_findings import Findings, Node

PLAIN = ("plain_text",)
ACTION = {"type", "action_id", "confirm", "focus_on_load"}

BUTTONS = {"button", "workflow_button"}
SOURCES = ("static", "external", "users", "conversations", "channels")
MENUS = {f"{source}_select" for source in SOURCES} | {f"multi_{source}_select" for source in SOURCES}
PICKERS = {"datepicker", "timepicker", "datetimepicker"}
CHOICES = {"checkboxes", "radio_buttons", "overflow"}
INPUTS = {
    "plain_text_input",
    "number_input",
    "email_text_input",
    "url_text_input",
    "rich_text_input",
    "file_input",
}
IN_ACTIONS = BUTTONS | MENUS | PICKERS | CHOICES
IN_SECTION = IN_ACTIONS | {"image"}
IN_INPUT = MENUS | PICKERS | (CHOICES - {"overflow"}) | INPUTS


def check_element(found: Findings, value: Any, at: str, *, allowed: set[str]) -> None:
    """One element; its kind must be among `allowed`."""
    node = found.node(value, at)
    kind = str(node.get("type"))
    if kind not in allowed:
        if node:
            found.add(f"unsupported type: {kind}", at)
        return
    if kind != "image":
        found.string(node, "action_id", at, most=255, needed=False)
        found.flag(node, "focus_on_load", at)
        if "confirm" in node:
            check_confirm(found, node["confirm"], f"{at}/confirm")
    CHECKS.get(kind, _loose)(found, node, at)


def check_confirm(found: Findings, value: Any, at: str) -> None:
    node = found.node(value, at)
    if not node:
        return
    found.keys(node, {"title", "text", "confirm", "deny", "style"}, at)
    found.text(node.get("title"), f"{at}/title", most=100, kinds=PLAIN)
    found.text(node.get("text"), f"{at}/text", most=300)
    for key in ("confirm", "deny"):
        found.text(node.get(key), f"{at}/{key}", most=30, kinds=PLAIN)
    found.choice(node, "style", {"primary", "danger"}, at)


def check_image(found: Findings, node: Node, at: str) -> None:
    found.string(node, "alt_text", at, most=2000)
    if ("image_url" in node) == ("slack_file" in node):
        found.add("exactly one of image_url and slack_file is needed", at)
    found.url(node, "image_url", at, needed=False)


def _button(found: Findings, node: Node, at: str) -> None:
    found.keys(node, ACTION | {"text", "url", "value", "style", "accessibility_label"}, at)
    found.text(node.get("text"), f"{at}/text", most=75, kinds=PLAIN)
    found.string(node, "value", at, most=2000, needed=False)
    found.string(node, "accessibility_label", at, most=75, needed=False)
    found.choice(node, "style", {"primary", "danger"}, at)
    found.url(node, "url", at, needed=False)


def _options(found: Findings, node: Node, at: str, *, most: int, least: int = 1) -> None:
    seen: set[Any] = set()
    for index, value in enumerate(found.items(node, "options", at, least=least, most=most)):
        here = f"{at}/options/{index}"
        option = found.node(value, here)
        found.keys(option, {"text", "value", "description", "url"}, here)
        found.text(option.get("text"), f"{here}/text", most=75)
        found.string(option, "value", here, most=150)
        if "description" in option:
            found.text(option["description"], f"{here}/description", most=75)
        if str(option.get("value")) in seen:
            found.add("option values must be unique", f"{here}/value")
        seen.add(str(option.get("value")))


def _placeholder(found: Findings, node: Node, at: str) -> None:
    if "placeholder" in node:
        found.text(node["placeholder"], f"{at}/placeholder", most=150, kinds=PLAIN)


def _menu(found: Findings, node: Node, at: str) -> None:
    _placeholder(found, node, at)
    if "static" not in node["type"]:
        return
    if "option_groups" in node:
        for index, group in enumerate(found.items(node, "option_groups", at, least=1, most=100)):
            here = f"{at}/option_groups/{index}"
            found.text(found.node(group, here).get("label"), f"{here}/label", most=75, kinds=PLAIN)
            _options(found, found.node(group, here), here, most=100)
    else:
        _options(found, node, at, most=100)


def _overflow(found: Findings, node: Node, at: str) -> None:
    found.keys(node, ACTION | {"options"}, at)
    _options(found, node, at, most=5)


def _choices(found: Findings, node: Node, at: str) -> None:
    found.keys(node, ACTION | {"options", "initial_options", "initial_option"}, at)
    _options(found, node, at, most=10)


def _text_input(found: Findings, node: Node, at: str) -> None:
    _placeholder(found, node, at)
    found.string(node, "initial_value", at, most=3000, least=0, needed=False)
    for key in ("min_length", "max_length"):
        value = node.get(key, 1)
        if not isinstance(value, int) or not 0 <= value <= 3000:  # noqa: PLR2004 - Slack's own bound
            found.add("must be between 0 and 3000", f"{at}/{key}")


def _loose(found: Findings, node: Node, at: str) -> None:
    _placeholder(found, node, at)


CHECKS: dict[str, Callable[[Findings, Node, str], None]] = {
    "button": _button,
    "image": check_image,
    "overflow": _overflow,
    "checkboxes": _choices,
    "radio_buttons": _choices,
    "plain_text_input": _text_input,
    **dict.fromkeys(MENUS, _menu),
}
