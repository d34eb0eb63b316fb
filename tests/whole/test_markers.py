"""Configured lines are told in the thread the moment they appear, with the lines around them."""

from __future__ import annotations

import re

from tests.support.practice import practise

MARKERS = [
    {"name": "CACHE", "pattern": r"KV Cache is allocated\. #tokens: \d+"},
    {"name": "METHOD", "pattern": "Using model weights format"},
]


async def test_markers_are_told_as_they_come_and_not_for_each_line() -> None:
    async with practise("healthy", speed=90, service={"markers": MARKERS}) as practice:
        root = await practice.begin()
        seen = await practice.reply(root, "METHOD")
        assert not any("healthy" in line for line in practice.replies(root))
        assert "Using model weights format ['*.safetensors']" in seen.plain
        assert "Using CompressedTensorsWNA16MarlinMoEMethod" in seen.plain
        assert (await practice.verdict()).verdict == "healthy"
        replies = practice.replies(root)
        caches = [line for line in replies if line.startswith("*CACHE* seen")]
        others = [re.search(r"and (\d+) more line", line) for line in caches]
        # Eight ranks say it of the target, eight again of the draft model a minute later.
        assert len(caches) <= 4
        assert sum(1 + int(match[1] if match else 0) for match in others) == 16
        assert sum(line.startswith("*METHOD* seen:") for line in replies) == 1


async def test_without_markers_none_are_told() -> None:
    async with practise("healthy", speed=120) as practice:
        root = await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        assert not any("seen" in line for line in practice.replies(root))
