"""The known failures are well-formed, and each fits what it is for."""

from __future__ import annotations

import re
from time import process_time

import pytest
from pydantic import ValidationError

from config.diagnoses import Diagnosis, fill, load_diagnoses
from tests.support.twins import ROOT


def test_every_known_failure_says_what_it_means_and_what_to_try() -> None:
    known = load_diagnoses()
    assert len({each.id for each in known}) == len(known)
    assert all(each.title and each.advice.endswith(".") for each in known)


def test_every_known_failure_says_with_which_version_it_was_seen() -> None:
    assert [each.id for each in load_diagnoses() if not re.search(r"[0-9]", each.by)] == []


def test_there_are_many_and_none_is_said_twice() -> None:
    known = load_diagnoses()
    assert len(known) > 100
    told = [(ROOT / name).read_text() for name in ("README.md", "CHANGELOG.md")]
    assert all(re.search(r"more\s+than\s+100\s+known\s+causes", text) for text in told)
    assert len({each.title for each in known}) == len(known)
    assert all(each.means.endswith((".", ".]")) for each in known)


FAULTY = {"id": "x", "title": "x", "means": "x.", "advice": "x.", "by": "x", "has": ("x",), "pattern": "x"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"pattern": "("}, "no regular expression"),
        ({"has": ()}, "lower case"),
        ({"has": ("NCCL",)}, "lower case"),
        ({"title": "{size} were wanted"}, "size"),
        ({"slots": {"size": "(a)"}}, "size"),
        ({"title": "{size}", "slots": {"size": "a"}}, "one group"),
    ],
)
def test_a_wrong_entry_is_refused(change: dict[str, object], told: str) -> None:
    Diagnosis.model_validate(FAULTY)
    with pytest.raises(ValidationError, match=told):
        Diagnosis.model_validate({**FAULTY, **change})


def test_a_template_leaves_out_what_was_not_told() -> None:
    template = "Out of memory[ on GPU {gpu}][: {size} of {total}]"
    assert fill(template, {}) == "Out of memory"
    assert fill(template, {"gpu": "3"}) == "Out of memory on GPU 3"
    assert fill(template, {"size": "1 GiB"}) == "Out of memory"
    assert fill(template, {"size": "1 GiB", "total": "2 GiB"}) == "Out of memory: 1 GiB of 2 GiB"
    assert fill("Xid {xid}", {}) == "Xid ?"


def test_an_entry_may_be_one_engines_alone() -> None:
    own = next(each for each in load_diagnoses() if each.id == "own-kill")
    assert own.fits("code=killed, status=9/KILL", engine="sglang")
    assert not own.fits("code=killed, status=9/KILL", engine="vllm")


@pytest.mark.parametrize("known", load_diagnoses(), ids=lambda known: known.id)
def test_a_failure_that_repeats_its_words_is_looked_up_in_no_time(known: Diagnosis) -> None:
    began = process_time()
    for word in known.has:
        assert known.fits("\n".join([(word * 1_000)[:1_000]] * 8)) in {True, False}
    assert process_time() - began < 1
