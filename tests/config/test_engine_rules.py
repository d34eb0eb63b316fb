"""The parts of an engine file: what one rule must say, and which frames a function fits."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import ValidationError

from config.engine_rules import Frame, PhaseRule, Rule


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        ({}, "exactly one of"),
        ({"line": "up", "anywhere": "up", "has": "up"}, "exactly one of"),
        ({"anywhere": "up"}, "go together"),
        ({"line": "up", "has": "up"}, "go together"),
        ({"line": "("}, "no regular expression"),
        ({"line": "up", "colour": "red"}, "colour"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(told: dict[str, str], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Rule.model_validate({"by": "1.0", **told})


def test_a_phase_s_patience_is_a_time_in_words() -> None:
    told = {"id": "weights", "patience": "90s"}
    assert PhaseRule.model_validate(told).patience == timedelta(seconds=90)
    with pytest.raises(ValidationError, match="patience"):
        PhaseRule.model_validate(told | {"patience": "soon"})


@pytest.mark.parametrize(
    ("path", "name", "fits"),
    [
        ("/x/sglang/loader.py", "load_model", True),
        ("/x/sglang/loader.py", "load_model_twice", False),
        ("/x/other/loader.py", "load_model", False),
    ],
)
def test_a_frame_fits_the_whole_function_in_a_part_of_the_path(path: str, name: str, fits: bool) -> None:
    assert Frame(function="load_model", file="sglang/", by="1.0").fits(path, name) is fits
