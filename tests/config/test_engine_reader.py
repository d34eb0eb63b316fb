"""Lines read by the rules of an engine file: as one rule after the other would, and in no time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.engine_file import EngineFile, load_engine, load_engines
from config.engine_reader import LOOK_HEAD, LOOK_TAIL

if TYPE_CHECKING:
    from config.engine_rules import Rule

SGLANG = load_engine("sglang")


def test_of_a_redrawn_bar_the_last_state_counts() -> None:
    bar = "Multi-thread loading shards:  {0}0% Completed | {0}/10 [00:01<00:01,  1.00it/s]"
    hit = SGLANG.read("\r".join(bar.format(number) for number in range(8)))
    assert hit is not None
    assert hit.bar == (7, 10)


@pytest.mark.parametrize("piece", ["a_", "a.a1:", "Mamba Cache", "(a=", "Warning: a_"])
@pytest.mark.parametrize("engine", load_engines().values(), ids=lambda engine: engine.name)
def test_a_line_that_quotes_anything_takes_no_time(engine: EngineFile, piece: str) -> None:
    once, twice = engine.read(piece * 300_000), engine.read(piece * 600_000)
    assert (once and once.kind) == (twice and twice.kind)


def test_of_a_long_line_both_ends_are_read() -> None:
    bars = "\r".join(
        f"Multi-thread loading shards: {number}% Completed | {number}/100" for number in range(100)
    )
    hit = SGLANG.read(f"{bars} [00:01<00:01,  1.00it/s]")
    assert hit is not None
    assert hit.bar == (99, 100)


# ---- the quick way reads what the plain one does -------------------------------------------------------

PATTERNS = sorted(
    {each.line or each.anywhere or "" for engine in load_engines().values() for each in engine.rules()}
)
AROUND = ["", " ", "x", "é", "\n", "INFO:     ", "0", "[", "Error: ", "  0%|  | 1/2 [00:01<00:01]"]


def read_plainly(engine: EngineFile, text: str) -> tuple[Rule, re.Match[str]] | None:
    """Rule by rule, as the file has them."""
    if len(text) > LOOK_HEAD + LOOK_TAIL:
        text = f"{text[:LOOK_HEAD]}\n{text[-LOOK_TAIL:]}"
    for rule in engine.rules():
        if rule.line is not None:
            match = re.match(rule.line, text)
        else:
            matches = list(re.finditer(rule.anywhere or "", text)) if (rule.has or "") in text else []
            match = matches[-1] if matches else None
        if match is not None:
            return rule, match
    return None


def check_alike(engine: EngineFile, text: str) -> None:
    hit, plain = engine.read(text), read_plainly(engine, text)
    assert (hit and hit.rule) is (plain and plain[0])
    if hit is not None and plain is not None and hit.match is not None:
        assert (hit.match.span(), hit.match.groups()) == (plain[1].span(), plain[1].groups())


@pytest.mark.parametrize("name", load_engines())
@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], deadline=None)
@given(data=st.data(), before=st.sampled_from(AROUND), after=st.sampled_from(AROUND))
def test_a_line_falls_under_the_first_rule_that_matches(
    name: str, data: st.DataObject, before: str, after: str
) -> None:
    text = data.draw(st.sampled_from(PATTERNS).flatmap(st.from_regex))
    check_alike(load_engine(name), f"{before}{text}{after}")


@pytest.mark.parametrize("name", load_engines())
@given(text=st.text(max_size=40) | st.text(st.characters(codec="ascii"), max_size=40))
def test_any_text_falls_under_the_first_rule_that_matches(name: str, text: str) -> None:
    check_alike(load_engine(name), text)


def test_a_long_line_falls_under_the_first_rule_that_matches() -> None:
    for end in ("Load weight begin.", "  100%|#| 8/8 [00:01<00:00,  2.4it/s]", ""):
        check_alike(SGLANG, f"server_args={'x' * LOOK_HEAD}{'y' * LOOK_TAIL}{end}")
        check_alike(SGLANG, f"{'x ' * LOOK_HEAD}{'y' * LOOK_TAIL}{end}")
