"""What an engine tells of its queue: Prometheus' text of `/metrics`, or the JSON of SGLang's `/v1/loads`."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from bot.core.monitor_events import LoadSeen

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_TEXT = 4_000_000  # characters that are read
# By engine and version: names of the gauges for requests waiting, running, and the share of the cache in use.
_WAITING = frozenset(
    {
        "sglang:num_queue_reqs",
        "vllm:num_requests_waiting",
        "llamacpp:requests_deferred",
        "tgi_queue_size",
    }
)
_RUNNING = frozenset(
    {
        "sglang:num_running_reqs",
        "vllm:num_requests_running",
        "llamacpp:requests_processing",
        "tgi_batch_current_size",
    }
)
_USAGE = frozenset(
    {
        "sglang:token_usage",
        "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc",
        "llamacpp:kv_cache_usage_ratio",
    }
)
_SAMPLE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{[^\n]*\})?[ \t]+(\S+)", re.MULTILINE)


def parse_metrics(text: str) -> LoadSeen | None:
    """Sums over labels (replicas, data-parallel ranks); of usage the largest. None: no such gauges in it."""
    wanted = _WAITING | _RUNNING | _USAGE
    found: dict[str, list[float]] = {}
    for name, value in _SAMPLE.findall(text[:MOST_TEXT]):
        if name in wanted and (number := _number(value)) is not None:
            found.setdefault(name, []).append(number)
    waiting, running = _total(found, _WAITING), _total(found, _RUNNING)
    if waiting is None:
        return None
    usage = max((max(found[name]) for name in _USAGE if name in found), default=None)
    return LoadSeen(waiting, running or 0, _share(usage))


def parse_loads(text: str) -> LoadSeen | None:
    """One object, or a list of one for each data-parallel rank, also under `loads`. None: it is neither."""
    try:
        told = json.loads(text[:MOST_TEXT])
    except ValueError:
        return None
    inner = told.get("loads", told) if isinstance(told, dict) else told
    ranks = [each for each in (inner if isinstance(inner, list) else [inner]) if isinstance(each, dict)]
    waiting = _sum(ranks, "num_waiting_reqs")
    if waiting is None:
        return None
    usages = [each["token_usage"] for each in ranks if isinstance(each.get("token_usage"), int | float)]
    return LoadSeen(waiting, _sum(ranks, "num_running_reqs") or 0, _share(max(usages, default=None)))


def _total(found: dict[str, list[float]], names: Iterable[str]) -> int | None:
    told = [sum(found[name]) for name in names if name in found]
    return round(max(told)) if told else None


def _sum(ranks: list[dict[str, Any]], key: str) -> int | None:
    told = [each[key] for each in ranks if isinstance(each.get(key), int)]
    return sum(told) if told else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _share(usage: float | None) -> float | None:
    return None if usage is None or not math.isfinite(usage) else min(max(usage, 0.0), 1.0)
