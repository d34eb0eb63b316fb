"""Where a payload breaks Slack's rules: findings in Slack's words, and the checks that every part shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

Node = dict[str, Any]

TEXT_KEYS = {"plain_text": {"type", "text", "emoji"}, "mrkdwn": {"type", "text", "verbatim"}}


class Findings:
    """Collects "what [json-pointer:/where]", the form Slack puts into `errors` and `response_metadata`."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def add(self, what: str, at: str) -> None:
        self.messages.append(f"{what} [json-pointer:{at}]")

    def node(self, value: Any, at: str) -> Node:
        """The object, or an empty one with a finding."""
        if isinstance(value, dict):
            return value
        self.add("must be a JSON object" if value is not None else "missing required field", at)
        return {}

    def keys(self, node: Node, allowed: Collection[str], at: str) -> None:
        for key in node:
            if key not in allowed:
                self.add(f"invalid additional property: {key}", at)

    def items(self, node: Node, key: str, at: str, *, least: int, most: int | None) -> list[Any]:
        value = node.get(key)
        if value is None:
            self.add(f"missing required field: {key}", at)
            return []
        if not isinstance(value, list):
            self.add("must be an array", f"{at}/{key}")
            return []
        if len(value) < least:
            self.add(f"no fewer than {least} items allowed", f"{at}/{key}")
        if most is not None and len(value) > most:
            self.add(f"no more than {most} items allowed", f"{at}/{key}")
        return value

    def string(
        self, node: Node, key: str, at: str, *, most: int | None, least: int = 1, needed: bool = True
    ) -> None:
        if key not in node:
            if needed:
                self.add(f"missing required field: {key}", at)
            return
        value = node[key]
        if not isinstance(value, str):
            self.add("must be a string", f"{at}/{key}")
        elif len(value) < least:
            self.add(f"must be more than {least - 1} characters", f"{at}/{key}")
        elif most is not None and len(value) > most:
            self.add(f"must be less than {most + 1} characters", f"{at}/{key}")

    def choice(
        self, node: Node, key: str, allowed: Collection[Any], at: str, *, needed: bool = False
    ) -> None:
        if key not in node:
            if needed:
                self.add(f"missing required field: {key}", at)
        elif node[key] not in allowed:
            self.add(f"must be a valid enum value: {', '.join(map(str, sorted(allowed)))}", f"{at}/{key}")

    def flag(self, node: Node, key: str, at: str) -> None:
        if key in node and not isinstance(node[key], bool):
            self.add("must be a boolean", f"{at}/{key}")

    def text(
        self, value: Any, at: str, *, most: int, kinds: Collection[str] = ("mrkdwn", "plain_text")
    ) -> None:
        """A text object of one of `kinds`, 1 to `most` characters."""
        node = self.node(value, at)
        if not node:
            return
        kind = node.get("type")
        if kind not in kinds:
            self.add(f"must be a valid enum value: {', '.join(sorted(kinds))}", f"{at}/type")
            return
        self.keys(node, TEXT_KEYS[str(kind)], at)
        self.string(node, "text", at, most=most)
        self.flag(node, "emoji", at)
        self.flag(node, "verbatim", at)

    def url(self, node: Node, key: str, at: str, *, needed: bool = True) -> None:
        self.string(node, key, at, most=3000, needed=needed)
        value = node.get(key)
        if isinstance(value, str) and value and not value.startswith(("http://", "https://", "mailto:")):
            self.add("must be a valid URL", f"{at}/{key}")
