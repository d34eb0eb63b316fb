"""The smoke test in words: its numbers beside the usual ones, and the answer as the model gave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.core.actions import SmokeUsual
from bot.core.blocks import make_message, preformatted, say, say_code, section
from bot.core.words import join_names

if TYPE_CHECKING:
    from bot.core.baseline import Usual
    from bot.core.blocks import Block, Message
    from bot.core.events import ServiceName, SmokeResult

FIRST_TOKEN = "first_token"  # noqa: S105 - what speeds are filed under
RATE = "tokens_per_second"
SHOWN = 300  # characters of the answer


def speeds_of(result: SmokeResult | None) -> dict[str, float]:
    """The numbers a baseline learns."""
    if result is None or not result.passed:
        return {}
    found = {FIRST_TOKEN: result.first_token, RATE: result.tokens_per_second}
    return {name: number for name, number in found.items() if number is not None}


def usual_of(usual: Usual) -> SmokeUsual:
    return SmokeUsual(usual.speed(FIRST_TOKEN), usual.speed(RATE))


def say_smoke(result: SmokeResult, usual: SmokeUsual) -> str:
    """`first token 0.31s (usual 0.29s), 84 tokens/s (usual 86); tool call and reasoning parsed`."""
    numbers = []
    if result.first_token is not None:
        usually = "" if usual.first_token is None else f" (usual {usual.first_token:.2f}s)"
        numbers.append(f"first token {result.first_token:.2f}s{usually}")
    if result.tokens_per_second is not None:
        usually = "" if usual.tokens_per_second is None else f" (usual {usual.tokens_per_second:.0f})"
        numbers.append(f"{result.tokens_per_second:.0f} tokens/s{usually}")
    fields = {"tool call": result.tool_call, "reasoning": result.reasoning}
    parsed = join_names(name for name, seen in fields.items() if seen)
    return "; ".join(part for part in (", ".join(numbers), f"{parsed} parsed" if parsed else "") if part)


def answer_blocks(result: SmokeResult | None) -> tuple[Block, ...]:
    """The beginning of the answer, as it stands: somebody else's markup."""
    shown = result.answer[:SHOWN].strip() if result is not None else ""
    return (preformatted(shown, 4 * SHOWN),) if shown else ()


def render_smoke(service: ServiceName, result: SmokeResult, usual: SmokeUsual) -> Message:
    """The answer to `smoke`."""
    numbers = say_smoke(result, usual)
    if result.passed:
        told = f"✅ Smoke test of {say_code(service)} passed{f': {numbers}' if numbers else ''}."
    else:
        why = say(result.error or "no reason was given", 600).rstrip(".")
        stop = "" if why.endswith("?") else "."
        told = (
            f"❌ Smoke test of {say_code(service)} not passed: {why}{stop}{f' {numbers}.' if numbers else ''}"
        )
    return make_message(told, section(told, 1_000), *answer_blocks(result))
