"""The known failures are well-formed, and each fits what it is for."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from config.diagnoses import Diagnosis, load_diagnoses


def test_every_known_failure_says_what_it_means_and_what_to_try() -> None:
    known = load_diagnoses()
    assert len({each.id for each in known}) == len(known)
    assert all(each.title and each.advice.endswith(".") and each.by for each in known)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "kv-cache-memory"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried", "gpu-out-of-memory"),
        ("RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied", "gpu-occupied"),
        ("RuntimeError: Cannot find any model weights with `/models/kimi`", "weights-missing"),
        ("RuntimeError: NCCL error: unhandled system error", "nccl"),
        (
            "ValueError: TP rank 0 could finish, but there are other ranks that didn't finish loading it",
            "ranks-apart",
        ),
        ("KeyboardInterrupt", "interrupted"),
    ],
)
def test_known_failures_are_recognised(text: str, expected: str) -> None:
    assert next(each.id for each in load_diagnoses() if each.regex.search(text)) == expected


def test_a_pattern_that_does_not_compile_is_refused() -> None:
    with pytest.raises(ValidationError, match="pattern"):
        Diagnosis(id="x", title="x", pattern="(", by="x", advice="x.")
