"""Configurations for tests that need none of the details."""

from __future__ import annotations

from typing import Any

from config.services import Configuration

ALICE, BOB, CAROL, MALLORY = "U0ALICE", "U0BOB", "U0CAROL", "U0MALLORY"
ONCALL, NIGHT = "S0ONCALL", "S0NIGHT"
OPS, LAB, ELSEWHERE = "C0OPS", "C0LAB", "C0ELSEWHERE"


def configure(
    *services: str,
    operators: tuple[str, ...] = (ALICE, ONCALL),
    channels: tuple[str, ...] = (OPS,),
    default: str | None = None,
    **changes: dict[str, Any],
) -> Configuration:
    """The named services on one host, `kimi-k2.5` where none is; `changes` per service, with `_` for `-`."""
    host = {"address": "llm-two", "user": "kimi", "identity_file": "/k", "known_hosts": "/h"}
    section = {"host": "llm-two", "unit": "sglang.service", "url": "http://127.0.0.1:30000", "model": "kimi"}
    named = services or ("kimi-k2.5",)
    return Configuration.model_validate(
        {
            "default_service": default,
            "slack": {"channel": OPS},
            "access": {"operators": operators, "channels": channels},
            "hosts": {"llm-two": host},
            "services": {name: section | changes.get(name.replace("-", "_"), {}) for name in named},
        }
    )
