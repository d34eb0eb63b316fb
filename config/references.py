"""Names in the operator's file that point nowhere; told beside the faults of single keys, not after them."""

from __future__ import annotations

from typing import Any

VERBS = frozenset(
    {
        "status", "restart", "start", "stop", "watch", "unwatch", "logs", "history", "smoke", "why",
        "incidents", "ack", "mute", "unmute", "resolve", "help", "reload",
    }
)  # fmt: skip


def find_dangling(raw: dict[str, Any]) -> list[tuple[str, str]]:
    """(key, fault) pairs. `raw` is the file as TOML read it: what is no table is another check's business."""
    hosts, services = _table(raw.get("hosts")), _table(raw.get("services"))
    faults = [
        fault for name, service in services.items() for fault in _of_service(name, _table(service), hosts)
    ]
    default = raw.get("default_service")
    if isinstance(default, str) and services and default not in services:
        faults.append(("default_service", f"is {default!r}; allowed: {', '.join(services)}"))
    return faults


def find_unknown_engines(raw: dict[str, Any], known: tuple[str, ...]) -> list[tuple[str, str]]:
    """As `find_dangling`: the engines that are neither `known` nor paths, beside other faults."""
    named = [(name, _table(service).get("engine")) for name, service in _table(raw.get("services")).items()]
    return [
        (f'services."{name}".engine', f"no engine file {engine!r}; allowed: {', '.join(known)}, or a path")
        for name, engine in named
        if isinstance(engine, str) and engine not in known and "/" not in engine and ".toml" not in engine
    ]


def _of_service(name: str, service: dict[str, Any], hosts: dict[str, Any]) -> list[tuple[str, str]]:
    key = f'services."{name}"'
    members = [member for member in _list(service.get("members")) if isinstance(member, dict)]
    named = [(f"{key}.host", service.get("host"))]
    named += [(f"{key}.members.{index}.host", member.get("host")) for index, member in enumerate(members)]
    faults = [
        (where, f"is {host!r}, which no [hosts] table has; allowed: {', '.join(hosts)}")
        for where, host in named
        if isinstance(host, str) and hosts and host not in hosts
    ]
    if name.lower() in VERBS:
        faults.append((key, "has the name of a verb; allowed: any other name"))
    pairs = [(member.get("host"), member.get("unit")) for member in members]
    if len(set(map(repr, pairs))) != len(pairs):
        faults.append((f"{key}.members", "lists a member twice; allowed: each once"))
    return faults


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
