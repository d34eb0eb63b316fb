"""Bytes to lines, whatever the cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.line_splitter import LineSplitter


def test_lines_end_at_newlines_alone() -> None:
    splitter = LineSplitter(100)
    assert splitter.feed(b"a\rb\x0bc\n\nd") == [b"a\rb\x0bc", b""]
    assert splitter.feed(b"e\n") == [b"de"]
    assert splitter.close() is None
    assert splitter.feed(b"f") == []
    assert splitter.close() == b"f"
    assert splitter.close() is None


def test_an_overlong_line_comes_in_pieces() -> None:
    splitter = LineSplitter(4)
    assert splitter.feed(b"abcd") == []
    assert splitter.feed(b"efghi") == [b"abcd", b"efgh"]
    assert splitter.feed(b"j\nkl\n") == [b"ij", b"kl"]
    assert splitter.feed(b"abcdefgh\nabcd\n") == [b"abcd", b"efgh", b"abcd"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=9) | st.just(b"\n")), st.integers(1, 6))
def test_any_cut_gives_the_same_lines(chunks: list[bytes], most: int) -> None:
    cut, whole = LineSplitter(most), LineSplitter(most)
    lines = [line for chunk in chunks for line in cut.feed(chunk)]
    assert lines == whole.feed(b"".join(chunks))
    assert cut.close() == whole.close()
