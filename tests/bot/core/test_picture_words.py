"""What a picture shows, in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from bot.core.baseline import Usual
from bot.core.events import PhaseId, Role
from bot.core.picture import Subject, make_waterfall
from bot.core.picture_words import describe_waterfall, named_shares, say_where, shorten
from tests.support.waterfalls import failed_waterfall, healthy_waterfall, phase, start

SUBJECT = Subject("kimi-k2.5", "healthy after 7m31s")


def test_the_words_say_what_the_picture_shows() -> None:
    assert describe_waterfall(healthy_waterfall()) == (
        "kimi-k2.5: healthy after 7m31s (usual 7m40s). Phases: stop 14s, process 9s, distributed 22s, "
        "weights 5m04s (usual 5m10s), graphs 48s (usual 45s), warm-up 18s, compile 10s and then stays up "
        "30s. 8 ranks; in weights: slowest TP5 5m04s, fastest TP2 4m11s."
    )


def test_the_words_say_what_failed_and_why() -> None:
    told = describe_waterfall(failed_waterfall())
    assert "weights 2m39s (went wrong here)" in told
    assert told.endswith("marked: TP3. Cause: Out of GPU memory.")


def test_a_phase_that_took_far_longer_than_usual_is_pointed_at() -> None:
    usual = Usual({"weights": (100.0,), "graphs": (45.0,), "warmup": (17.0,)})
    made = make_waterfall(replace(SUBJECT, usual=usual), start())
    assert made is not None
    assert [share.label for share in made.shares if share.slow] == ["weights"]
    assert "weights slower than usual: 5m04s (usual 1m40s), graphs 48s (usual 45s)" in describe_waterfall(
        made
    )


def test_short_phases_are_told_as_a_sum() -> None:
    records = [phase(which, 10 * place, 10 * place + place) for place, which in enumerate(PhaseId, 1)]
    made = make_waterfall(SUBJECT, records)
    assert made is not None
    named, rest = named_shares(made)
    assert len(named) == 9
    assert rest == timedelta(seconds=1 + 2)
    assert "others 3s" in describe_waterfall(made)


def test_the_end_of_a_verdict_says_where() -> None:
    assert say_where(PhaseId.WEIGHTS, Role.DRAFT) == "in draft weights"
    assert say_where(PhaseId.READY, Role.TARGET) == "once it served"


def test_a_long_text_is_cut_on_one_line() -> None:
    assert shorten("a\n  b", 10) == "a b"
    assert shorten("a b c d e", 4) == "a b…"
